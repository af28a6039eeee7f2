"""Draws charts as SVG, with attributes and classes, because the console forbids inline styles."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from counterfoil.console.display import change, link_list, list_table, month_name, percent, template
from counterfoil.console.texts import Texts
from counterfoil.console.visit import Visit
from counterfoil.domain.access import DAILY_TOTAL_DAYS, REQUEST_RECORD_DAYS
from counterfoil.domain.activity import format_usual
from counterfoil.domain.calendar import DAY_MS, HOUR_MS, days_until, thai_day, thai_midnight
from counterfoil.operator_reads import ANY_ERROR, MEASURED_REQUESTS, OperatorReads
from counterfoil.views.columns import ListColumn, RowList
from counterfoil.views.times import local
from counterfoil.web.html import Child, Html, element, markup

WIDTH, HEIGHT = 720, 260
LEFT, BOTTOM, TOP = 60, 28, 10
MAX_LABELS = 6
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


class Use(Struct, frozen=True, kw_only=True, rename="camel"):
    """The use of a key, or of all keys. `measured` is the number of recorded requests whose duration was read."""

    range: str
    key_id: str | None
    measured: int
    # The requests in a range of the same length before this one, up to the same time of day.
    before: int | None
    slots: RowList[Slot]


SLOTS: Sequence[ListColumn[Slot]] = (
    ListColumn("since", kind="time", page="time"),
    ListColumn("until", kind="time"),
    ListColumn("requests", kind="number", page="series.requests"),
    ListColumn("errors", kind="number", page="series.errors"),
    ListColumn("medianMs", kind="number", page="series.median_ms"),
    ListColumn("p95Ms", lambda slot: slot.p95_ms, "number", page="series.p95_ms"),
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


def use_charts(visit: Visit, use: Use) -> Html:
    """Return links to the ranges, and the charts with their table."""
    t, slots = visit.t, use.slots.rows
    requests, errors = sum(slot.requests for slot in slots), sum(slot.errors for slot in slots)
    links = ((t(f"range.{name}"), visit.address(visit.path, range=name), name == use.range) for name in RANGES)
    ranges = link_list("cards", t("chart.ranges"), links)
    if not requests:
        return markup(ranges, element("p", t("chart.none"), class_="empty"))
    bars = [_bar(visit, use, slot) for slot in slots]
    caption = t("chart.requests", count=f"{requests:,}")
    charts = [bar_chart(t, caption, bars, {"requests": "bar"}, note=_compared(t, use))]
    if errors:
        failed = [_bar(visit, use, slot, error=ANY_ERROR) for slot in slots]
        caption, share = t("chart.errors", count=f"{errors:,}"), t("chart.share", share=percent(errors, requests))
        charts.append(bar_chart(t, caption, failed, {"errors": "failed"}, note=share))
    if use.measured:
        name = "newest" if use.measured == MEASURED_REQUESTS else "all"
        caption = t(f"chart.took_{name}", count=f"{use.measured:,}")
        charts.append(bar_chart(t, caption, bars, {"p95_ms": "slow", "median_ms": "bar"}, " ms"))
    links_of = {slot.since: element("a", bar.label, href=bar.address) for slot, bar in zip(slots, bars, strict=True)}
    cells: dict[str, Callable[[Slot], Child]] = {"time": lambda slot: links_of[slot.since]}
    table = list_table(visit, t("chart.caption"), RowList(use.slots.columns, slots[::-1]), cells, kind="fixed")
    return template("use", t, ranges=ranges, charts=charts, table=table)


def _compared(t: Texts, use: Use) -> str | None:
    """Return how the number of requests differs from that of the range before."""
    now, span = sum(slot.requests for slot in use.slots.rows), t(f"range.{use.range}")
    if not use.before:
        return None if use.before is None else t("chart.none_before", range=span)
    name = "more" if now >= use.before else "fewer"
    return t(f"chart.{name}", share=change(now, use.before), range=span)


def _bar(visit: Visit, use: Use, slot: Slot, **conditions: str) -> "Bar":
    """Return a bar that leads to the requests of its hour or day, if they are still recorded."""
    t, start = visit.t, local(slot.since)
    if use.range == "24h":
        label, axis = f"{start:%Y-%m-%d %H:%M}", f"{start:%H:%M}"
    else:
        day = thai_day(slot.since)
        label, axis = day.isoformat(), f"{day.day} {month_name(t, day)}"
        if RANGES[use.range] >= MONTHS_FROM:
            axis = f"{month_name(t, day)} {day.year}" if day.day == 1 else ""
    span = {"since": f"{start:%Y-%m-%dT%H:%M}", "until": f"{local(slot.until):%Y-%m-%dT%H:%M}"}
    query = urlencode({**({"key": use.key_id} if use.key_id else {}), **conditions, **span})
    is_recorded = slot.until > visit.now - REQUEST_RECORD_DAYS * DAY_MS
    return Bar(label, axis, slot, f"/requests?{query}" if is_recorded else None, is_open=slot.until > visit.now)


class Bar(Struct, frozen=True):
    """What a chart shows at one place. `label` is for the tooltip, `axis` is below it. An open hour or day goes on."""

    label: str
    axis: str
    slot: Slot
    address: str | None = None
    is_open: bool = False

    def value(self, series: str) -> float:
        return getattr(self.slot, series) or 0


def bar_chart(
    t: Texts, caption: str, bars: Sequence[Bar], series: Mapping[str, str], unit: str = "", note: Child = None
) -> Html:
    """Return a chart. `series` has the names of the values, with their styles."""
    highest = max((bar.value(name) for bar in bars for name in series), default=0)
    legend = [[" ", element("span", class_=f"swatch {style}"), t(f"series.{name}")] for name, style in series.items()]
    most = _round_up(highest)
    span, room = (WIDTH - LEFT) / max(1, len(bars)), HEIGHT - TOP - BOTTOM
    width = max(1.0, span * (0.7 if len(bars) < 60 else 0.8))
    drawn = []
    for position, bar in enumerate(bars):
        x = LEFT + position * span
        named = [name for name in dict.fromkeys([*series, "requests"]) if getattr(bar.slot, name) is not None]
        values = ", ".join(f"{t(f'series.{name}')} {format_usual(bar.value(name))}" for name in named)
        heights = [(style, room * bar.value(name) / most) for name, style in series.items() if bar.value(name)]
        drawn.append(
            element(
                "a" if bar.address else "g",
                element("title", f"{bar.label}: {values}"),
                _rect(x, TOP, span, room, "hit"),
                [_mark(x + span / 2, TOP + room, width, height, style) for style, height in heights],
                href=bar.address,
                # One bar can be reached with the tab key, the others with the arrow keys: see `console.js`.
                tabindex=(0 if position == len(bars) - 1 else -1) if bar.address else None,
                aria_label=f"{bar.label}: {values}" if bar.address else None,
                class_="slot open" if bar.is_open else "slot",
            )
        )
    axes = element("g", _grid(most, room, unit), _labels(bars, span), aria_hidden="true")
    svg = element(
        "svg", axes, drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="group", aria_label=t("chart.group", caption=caption)
    )
    return template("chart", t, caption=caption, svg=svg, note=legend if len(series) > 1 else note)


def _mark(middle: float, bottom: float, width: float, height: float, style: str) -> Html:
    """Return a bar, or a line with a cap: bars in front of each other would look as if they added up."""
    if style != "slow":
        return _rect(middle - width / 2, bottom - height, width, height, style)
    cap = _rect(middle - width / 2, bottom - height, width, CAP, style)
    return markup(_rect(middle - CAP / 2, bottom - height, CAP, height, style), cap)


def _grid(most: int, room: float, unit: str) -> list[Html]:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = TOP + room * (1 - share)
        lines.append(element("line", x1=LEFT, x2=WIDTH, y1=_position(y), y2=_position(y), class_="grid"))
        label = f"{_short(most * share)}{unit if share else ''}"
        lines.append(element("text", label, x=LEFT - 8, y=_position(y + 4), text_anchor="end", class_="axis"))
    return lines


def _labels(bars: Sequence[Bar], span: float) -> list[Html]:
    named = [(position, bar) for position, bar in enumerate(bars) if bar.axis][::-1]
    step = -(-len(named) // MAX_LABELS) or 1
    labels = []
    for position, bar in named[::step]:
        middle = LEFT + (position + 0.5) * span
        # A label near the right edge is right-aligned, because the end of a centred label would be cut off.
        is_cut = middle > WIDTH - HALF_CHARACTER * len(bar.axis)
        x, anchor = (str(WIDTH), "end") if is_cut else (_position(middle), "middle")
        labels.append(element("text", bar.axis, x=x, y=HEIGHT - 8, text_anchor=anchor, class_="axis below"))
    return labels


def _rect(x: float, y: float, width: float, height: float, style: str) -> Html:
    # Even a very small value gets a bar that is one unit high, so that the bar is visible.
    shown = max(height, 1.0)
    return element(
        "rect",
        x=_position(x),
        y=_position(y + height - shown),
        width=_position(width),
        height=_position(shown),
        class_=style,
    )


def spark(values: Sequence[int]) -> Html:
    """Return a small chart without labels. Screen readers skip it, because the page shows the total beside it."""
    most, width, height = max([1, *values]), 6, 18
    sizes = [height * value / most for value in values]
    return element(
        "svg",
        [_rect(i * 8, height - size, width, size, "bar" if size else "none") for i, size in enumerate(sizes)],
        viewBox=f"0 0 {len(values) * 8 - 2} {height}",
        width=len(values) * 8 - 2,
        height=height,
        aria_hidden="true",
        class_="spark",
    )


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
