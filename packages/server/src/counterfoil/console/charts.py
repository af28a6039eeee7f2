"""Reads how much a key or the service is used, and measures the bars of charts, which a template draws."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from jinja2 import pass_context
from jinja2.runtime import Context
from msgspec import Struct

from counterfoil.console.texts import Texts
from counterfoil.console.visit import Visit
from counterfoil.domain.access import DAILY_TOTAL_DAYS, REQUEST_RECORD_DAYS
from counterfoil.model.calendar import DAY_MS, HOUR_MS, days_until, thai_day, thai_midnight
from counterfoil.model.text import translatable
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.columns import ListColumn, RowList
from counterfoil.program.times import local
from counterfoil.request_reads import ANY_ERROR, MEASURED_REQUESTS

WIDTH, HEIGHT = 720, 260
LEFT, BOTTOM, TOP = 60, 28, 10
# So few labels that they do not overlap, also on a narrow screen, where they are larger.
MAX_LABELS = 5
# Of fewer requests, a 95th percentile is nothing but the slowest one.
MEASURED_FROM = 20
# The width of the line that shows a 95th percentile.
CAP = 3
# Half the width of a character on a narrow screen, where labels are larger.
HALF_CHARACTER = 6
# The ranges that an operator can choose, in days. The first one has a bar for each hour.
RANGES: Final = {"24h": 1, "7d": 7, "30d": 30, "90d": 90, "400d": DAILY_TOTAL_DAYS}
# A chart with at least this many days names the months instead of the days, and is not compared with the days before:
# the first of them is only compared up to the time of day that it is now, for which recorded requests are needed.
MONTHS_FROM = 90


class Slot(Struct, frozen=True, kw_only=True):
    """The requests of an hour or a day (Thailand time) that begins at `since`, and how long recorded ones took."""

    since: int
    until: int
    requests: int
    errors: int
    median_ms: float | None = None
    p95_ms: float | None = None

    @property
    def error_percent(self) -> float:
        """The errors as a share of the requests, in percent. Requests that were refused may be errors alone."""
        return min(100.0, 100 * self.errors / self.requests) if self.requests else 0.0


class Use(Struct, frozen=True, kw_only=True, rename="camel"):
    """The use of a key, or of all keys. `measured` is the number of recorded requests whose duration was read."""

    range: str
    key_id: str | None
    measured: int
    # The requests in a range of the same length before this one, up to the same time of day.
    before: int | None
    slots: RowList[Slot]

    @property
    def requests(self) -> int:
        return sum(slot.requests for slot in self.slots.rows)

    @property
    def errors(self) -> int:
        return sum(slot.errors for slot in self.slots.rows)

    @property
    def is_partly_measured(self) -> bool:
        """Return whether only the newest of the recorded requests were measured."""
        return self.measured == MEASURED_REQUESTS

    @property
    def newest_first(self) -> RowList[Slot]:
        return RowList(self.slots.columns, self.slots.rows[::-1])


SLOTS: Sequence[ListColumn[Slot]] = (
    ListColumn("since", kind="time", page=translatable("Time")),
    ListColumn("until", kind="time"),
    ListColumn("requests", kind="number", page=translatable("Requests")),
    ListColumn("errors", kind="number", page=translatable("Errors")),
    ListColumn("medianMs", kind="number", page=translatable("Median (ms)")),
    ListColumn("p95Ms", lambda slot: slot.p95_ms, "number", page=translatable("95th percentile (ms)")),
)


def read_use(visit: Visit, default: str, key_id: str | None = None) -> Use:
    """Return the use in the range that the address names, or in the default range."""
    reads, wanted = visit.store.reads, visit.query.get("range", default)
    chosen = wanted if wanted in RANGES else default
    requests: dict[int, int] = {}
    errors: dict[int, int] = {}
    if chosen == "24h":
        size, last = HOUR_MS, visit.now // HOUR_MS * HOUR_MS
        starts = list(range(last - DAY_MS + size, last + 1, size))
        for hour in reads.hours(key_id, starts[0]):
            requests[hour.at], errors[hour.at] = hour.requests, hour.errors
    else:
        size, days = DAY_MS, days_until(thai_day(visit.now), RANGES[chosen])
        starts = [thai_midnight(day) for day in days]
        for of_key in reads.days(days[0], days[-1], key_id):
            start = thai_midnight(of_key.day)
            requests[start] = requests.get(start, 0) + of_key.requests
            errors[start] = errors.get(start, 0) + of_key.errors
    took = {measured.at: measured for measured in reads.latencies(key_id, starts[0], size)}
    slots = [
        Slot(
            since=start,
            until=start + size,
            requests=requests.get(start, 0),
            errors=errors.get(start, 0),
            median_ms=took[start].median_us / 1000 if start in took else None,
            p95_ms=took[start].p95_us / 1000 if start in took and took[start].requests >= MEASURED_FROM else None,
        )
        for start in starts
    ]
    recorded = sum(measured.requests for measured in took.values())
    before = _requests_before(reads, chosen, key_id, starts[0], visit.now)
    return Use(range=chosen, key_id=key_id, measured=recorded, before=before, slots=RowList(SLOTS, slots))


def _requests_before(reads: OperatorReads, chosen: str, key_id: str | None, start: int, now: int) -> int | None:
    days = RANGES[chosen]
    if days >= MONTHS_FROM:
        return None
    since, until = start - days * DAY_MS, now - days * DAY_MS
    last_day = thai_day(until)
    cut = since if chosen == "24h" else thai_midnight(last_day)
    whole = reads.days(thai_day(since), last_day - timedelta(days=1), key_id) if cut > since else []
    return sum(day.requests for day in whole) + sum(hour.requests for hour in reads.hours(key_id, cut, until))


MONTHS: Final = (
    translatable("Jan"),
    translatable("Feb"),
    translatable("Mar"),
    translatable("Apr"),
    translatable("May"),
    translatable("Jun"),
    translatable("Jul"),
    translatable("Aug"),
    translatable("Sep"),
    translatable("Oct"),
    translatable("Nov"),
    translatable("Dec"),
)


class Bar(Struct, frozen=True):
    """What a chart shows at one place. `label` is for the tooltip, `axis` is below it. An open hour or day goes on."""

    label: str
    axis: str
    slot: Slot
    address: str | None = None
    is_open: bool = False

    def value(self, series: str) -> float:
        return getattr(self.slot, series) or 0

    def named(self, series: Sequence[str]) -> list[str]:
        """Return the names of the values that the tooltip shows: those of the chart, and the requests."""
        errors = ["errors"] if "error_percent" in series else []
        names = dict.fromkeys([*series, *errors, "requests"])
        return [name for name in names if getattr(self.slot, name) is not None]


@pass_context
def bars_of(context: Context, use: Use, *, only_errors: bool = False) -> list[Bar]:
    """Return a bar for each hour or day, which leads to its requests, or only to those that failed."""
    visit: Visit = context["visit"]
    conditions = {"error": ANY_ERROR} if only_errors else {}
    return [_bar(visit, use, slot, conditions) for slot in use.slots.rows]


def bars_by_time(bars: Sequence[Bar]) -> dict[int, Bar]:
    return {bar.slot.since: bar for bar in bars}


def _bar(visit: Visit, use: Use, slot: Slot, conditions: Mapping[str, str]) -> Bar:
    """Return a bar that leads to the requests of its hour or day, if they are still recorded."""
    label, axis = _names(visit.t, use, slot)
    address = None
    if slot.until > visit.now - REQUEST_RECORD_DAYS * DAY_MS:
        query = {"key": use.key_id} if use.key_id else {}
        query |= conditions
        query["since"] = f"{local(slot.since):%Y-%m-%dT%H:%M}"
        query["until"] = f"{local(slot.until):%Y-%m-%dT%H:%M}"
        address = f"/requests?{urlencode(query)}"
    return Bar(label, axis, slot, address, is_open=slot.until > visit.now)


def _names(t: Texts, use: Use, slot: Slot) -> tuple[str, str]:
    """Return the time of a bar, and what the axis says below it, which may be nothing."""
    if use.range == "24h":
        start = local(slot.since)
        return f"{start:%Y-%m-%d %H:%M}", f"{start:%H:%M}"
    day = thai_day(slot.since)
    month = t.gettext(MONTHS[day.month - 1])
    if RANGES[use.range] < MONTHS_FROM:
        return day.isoformat(), f"{day.day} {month}"
    return day.isoformat(), f"{month} {day.year}" if day.day == 1 else ""


# --- the measures of a chart ------------------------------------------------------------


class Rectangle(Struct, frozen=True):
    """A rectangle."""

    x: str
    y: str
    width: str
    height: str
    style: str


class Line(Struct, frozen=True):
    """A line of the grid, with the text at its left end."""

    y: str
    text_y: str
    text: str


class AxisLabel(Struct, frozen=True):
    x: str
    anchor: str
    text: str


class Place(Struct, frozen=True):
    """A bar with its marks. The first one fills the whole height, so that also a low bar is easy to point at."""

    bar: Bar
    marks: list[Rectangle]


class BarChart(Struct, frozen=True, kw_only=True):
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    lines: list[Line]
    labels: list[AxisLabel]
    places: list[Place]


def draw_bars(bars: Sequence[Bar], series: Mapping[str, str], unit: str = "") -> BarChart:
    """Return the measures of a chart. `series` has the names of the values, with their styles."""
    highest = max((bar.value(name) for bar in bars for name in series), default=0)
    most = _round_up(highest)
    span, room = (WIDTH - LEFT) / max(1, len(bars)), HEIGHT - TOP - BOTTOM
    width = max(1.0, span * (0.7 if len(bars) < 60 else 0.8))
    places = []
    for position, bar in enumerate(bars):
        x = LEFT + position * span
        marks = [_mark(x, TOP, span, room, "hit")]
        for name, style in series.items():
            if bar.value(name):
                marks += _marks(x + span / 2, TOP + room, width, room * bar.value(name) / most, style)
        places.append(Place(bar, marks))
    return BarChart(lines=_grid(most, room, unit), labels=_labels(bars, span), places=places)


def _marks(middle: float, bottom: float, width: float, height: float, style: str) -> list[Rectangle]:
    """Return a bar, or a line with a cap: bars in front of each other would look as if they added up."""
    if style != "slow":
        return [_mark(middle - width / 2, bottom - height, width, height, style)]
    line = _mark(middle - CAP / 2, bottom - height, CAP, height, style)
    cap = _mark(middle - width / 2, bottom - height, width, CAP, style)
    return [line, cap]


def _grid(most: int, room: float, unit: str) -> list[Line]:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = TOP + room * (1 - share)
        lines.append(Line(_position(y), _position(y + 4), f"{_short(most * share)}{unit if share else ''}"))
    return lines


def _labels(bars: Sequence[Bar], span: float) -> list[AxisLabel]:
    named = [(position, bar) for position, bar in enumerate(bars) if bar.axis][::-1]
    step = -(-len(named) // MAX_LABELS) or 1
    labels = []
    for position, bar in named[::step]:
        middle = LEFT + (position + 0.5) * span
        # A label near the right edge is right-aligned, because the end of a centred label would be cut off.
        is_cut = middle > WIDTH - HALF_CHARACTER * len(bar.axis)
        x, anchor = (str(WIDTH), "end") if is_cut else (_position(middle), "middle")
        labels.append(AxisLabel(x, anchor, bar.axis))
    return labels


def _mark(x: float, y: float, width: float, height: float, style: str) -> Rectangle:
    # Even a very small value gets a bar that is one unit high, so that the bar is visible.
    shown = max(height, 1.0)
    return Rectangle(_position(x), _position(y + height - shown), _position(width), _position(shown), style)


class Spark(Struct, frozen=True):
    width: int
    height: int
    marks: list[Rectangle]


def draw_spark(values: Sequence[int]) -> Spark:
    """Return the measures of a small chart without labels."""
    most, width, height = max([1, *values]), 6, 18
    marks = []
    for position, value in enumerate(values):
        size = height * value / most
        marks.append(_mark(position * 8, height - size, width, size, "bar" if size else "none"))
    return Spark(len(values) * 8 - 2, height, marks)


def _round_up(value: float) -> int:
    """Return a round number at or above the value, for the top of the axis."""
    if value <= 4:
        return 4
    unit = int(10 ** (len(str(int(value))) - 1))
    return next(step for step in (unit, 2 * unit, 4 * unit, 5 * unit, 8 * unit, 10 * unit) if step >= value)


def _short(value: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _position(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
