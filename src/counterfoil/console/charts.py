"""Draws charts as SVG, with attributes and classes, because the console forbids inline styles."""

from collections.abc import Sequence

from msgspec import Struct

from counterfoil.console.display import list_table, template
from counterfoil.console.texts import Texts
from counterfoil.views.columns import ListColumn, RowList
from counterfoil.web.html import Html, element

WIDTH, HEIGHT = 720, 150
LEFT, BOTTOM, TOP = 44, 20, 8
MAX_LABELS = 8
# Half the width of a character on a narrow screen, where labels are larger.
HALF_CHARACTER = 5


class Bar(Struct, frozen=True):
    """The number of requests, and of those that failed. `label` is for the table, `axis` is below the chart."""

    label: str
    axis: str
    value: int
    failed: int = 0


def bar_chart(t: Texts, caption: str, bars: Sequence[Bar], *, page: str) -> Html:
    """Return a chart and its table, which is hidden at first. `page` is the name of the text for a bar's time."""
    columns = (
        ListColumn[Bar]("label", page=page),
        ListColumn[Bar]("value", kind="number", page="requests"),
        ListColumn[Bar]("failed", kind="number", page="errors"),
    )
    table = list_table(t, caption, RowList(columns, bars[::-1]))
    return template("chart", t, caption=caption, svg=_svg(t, caption, bars), table=table)


def _svg(t: Texts, caption: str, bars: Sequence[Bar]) -> Html:
    highest = max((bar.value for bar in bars), default=0)
    most = _round_up(highest)
    span, room = (WIDTH - LEFT) / max(1, len(bars)), HEIGHT - TOP - BOTTOM
    width = max(1.0, span * (0.7 if len(bars) < 60 else 0.8))
    total, failed = sum(bar.value for bar in bars), sum(bar.failed for bar in bars)
    summary = t("chart.summary", caption=caption, total=f"{total:,}", most=f"{highest:,}", failed=f"{failed:,}")
    drawn = []
    for position, bar in enumerate(bars):
        x = LEFT + position * span + (span - width) / 2
        height = room * bar.value / most
        failed_height = room * min(bar.failed, bar.value) / most
        if bar.value:
            drawn.append(
                element(
                    "g",
                    element("title", f"{bar.label}, {t('requests')}: {bar.value:,}, {t('errors')}: {bar.failed:,}"),
                    _rect(x, HEIGHT - BOTTOM - height, width, height, "bar"),
                    _rect(x, HEIGHT - BOTTOM - failed_height, width, failed_height, "failed") if bar.failed else None,
                )
            )
    return element(
        "svg",
        _grid(most, room),
        drawn,
        _labels(bars, span),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=summary,
    )


def _grid(most: int, room: float) -> list[Html]:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = _position(HEIGHT - BOTTOM - room * share)
        lines.append(element("line", x1=LEFT, x2=WIDTH, y1=y, y2=y, class_="grid"))
        label = _short(most * share)
        lines.append(element("text", label, x=LEFT - 6, y=_position(float(y) + 4), text_anchor="end", class_="axis"))
    return lines


def _labels(bars: Sequence[Bar], span: float) -> list[Html]:
    named = [(position, bar) for position, bar in enumerate(bars) if bar.axis][::-1]
    step = -(-len(named) // MAX_LABELS) or 1
    labels = []
    for count, (position, bar) in enumerate(named[::step]):
        middle = LEFT + (position + 0.5) * span
        # A label near the right edge is right-aligned, because the end of a centred label would be cut off.
        is_cut = middle > WIDTH - HALF_CHARACTER * len(bar.axis)
        style = "axis below odd" if count % 2 else "axis below"
        x, anchor = (str(WIDTH), "end") if is_cut else (_position(middle), "middle")
        labels.append(element("text", bar.axis, x=x, y=HEIGHT - 5, text_anchor=anchor, class_=style))
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
    return element(
        "svg",
        [
            _rect(
                position * 8, height - height * value / most, width, height * value / most, "bar" if value else "none"
            )
            for position, value in enumerate(values)
        ],
        viewBox=f"0 0 {len(values) * 8 - 2} {height}",
        width=len(values) * 8 - 2,
        height=height,
        aria_hidden="true",
        class_="spark",
    )


def _round_up(value: int) -> int:
    """Return a round number at or above the value, for the top of the axis."""
    if value <= 4:
        return 4
    unit = int(10 ** (len(str(value)) - 1))
    return next(step for step in (unit, 2 * unit, 4 * unit, 5 * unit, 8 * unit, 10 * unit) if step >= value)


def _short(value: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _position(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
