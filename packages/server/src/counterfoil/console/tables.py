"""Prepares the rows of a table for its template: draws the cells, then filters, sorts and cuts the rows."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import unescape
from typing import Any, Literal

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from msgspec import Struct

from counterfoil.console.visit import Visit
from counterfoil.model.calendar import to_ms
from counterfoil.program.columns import ListColumn, RowList, arranged

# A list with more rows than this has a field that filters them, and no list shows more than MOST_ROWS.
FILTER_FROM, MOST_ROWS = 10, 5_000
_TAG = re.compile("<[^>]*>")
# A macro that draws a cell of a row.
DrawCell = Callable[[Any], Markup]
# A macro that draws a value in the way of its column's kind, with the label of a key.
DrawValue = Callable[[Any, str | None], Markup]
Kind = Literal["list", "page", "fixed"]


class DrawnHeading(Struct, frozen=True):
    """The heading of a column. `address` leads to the list sorted by it, and `order` is that of the list now."""

    text: str
    style: str
    address: str | None = None
    order: str | None = None


class DrawnCell(Struct, frozen=True):
    content: Markup
    style: str
    label: str


class DrawnTable(Struct, frozen=True, kw_only=True):
    """What the template of a table draws. `sorted_by` is the heading that the rows were sorted by."""

    headings: list[DrawnHeading]
    rows: list[list[DrawnCell]]
    sorted_by: str | None
    has_filter: bool
    # The parameters of the page's address that the form for the filter keeps.
    kept: dict[str, str]
    longer: str | None


class _DrawnRow(Struct, frozen=True):
    row: Any
    cells: list[Markup]


@pass_context
def arrange(
    context: Context,
    listing: RowList[Any],
    cells: Mapping[str, DrawCell],
    by_kind: Mapping[str, DrawValue],
    *,
    columns: Sequence[str] | None,
    first: Sequence[str],
    styles: Mapping[str, str],
    kind: Kind,
) -> DrawnTable:
    """Return the table of a list's columns, or of those with the names `columns`.

    `cells` draws the columns with these names, `by_kind` the others, and `first` come first. `styles` are classes of
    columns. The first column names the row. An operator can sort the rows of a `list`, filter them if there are many,
    and see more than PER_PAGE. The rows of a `page` of a longer list can only be sorted.
    """
    visit: Visit = context["visit"]
    shown = [column for column in arranged(listing.columns, first) if column.page]
    if columns is not None:
        shown = [column for column in arranged(shown, columns) if column.name in columns]
    drawn = _filtered(visit, _drawn(visit, listing.rows, shown, cells, by_kind), kind)
    chosen = _chosen(visit, shown) if kind != "fixed" else None
    if chosen is not None:
        drawn = _in_order(visit, chosen, shown[chosen], drawn)
    most = visit.limit(MOST_ROWS) if kind == "list" else len(drawn)
    can_sort = kind != "fixed" and len(listing.rows) > 1
    headings = [_heading(visit, column, styles, can_sort=can_sort) for column in shown]
    return DrawnTable(
        headings=headings,
        rows=[_cells(headings, row.cells) for row in drawn[:most]],
        sorted_by=None if chosen is None else headings[chosen].text,
        has_filter=kind == "list" and len(listing.rows) > FILTER_FROM,
        kept={name: value for name, value in visit.query.items() if name not in ("filter", "limit", "before")},
        longer=visit.address(visit.path, limit=str(2 * most)) if drawn[most:] else None,
    )


def _drawn(
    visit: Visit,
    rows: Sequence[Any],
    columns: Sequence[ListColumn[Any]],
    cells: Mapping[str, DrawCell],
    by_kind: Mapping[str, DrawValue],
) -> list[_DrawnRow]:
    drawers = [_drawer(visit, column, cells, by_kind) for column in columns]
    # Style sheets leave out a cell without content on a phone, also if its macro has written a line break.
    return [_DrawnRow(row, [draw(row).strip() for draw in drawers]) for row in rows]


def _drawer(
    visit: Visit, column: ListColumn[Any], cells: Mapping[str, DrawCell], by_kind: Mapping[str, DrawValue]
) -> DrawCell:
    if column.name in cells:
        return cells[column.name]
    draw = by_kind[column.kind]
    labels = visit.store.labels() if column.kind == "key" else {}

    def draw_value(row: Any) -> Markup:
        value = column.value_of(row)
        return draw(value, labels.get(value))

    return draw_value


def _filtered(visit: Visit, drawn: list[_DrawnRow], kind: Kind) -> list[_DrawnRow]:
    words = visit.query.get("filter", "").casefold().split()
    if kind != "list" or not words:
        return drawn
    found = []
    for row in drawn:
        text = _text(Markup(" ").join(row.cells))
        if all(word in text for word in words):
            found.append(row)
    return found


def _text(markup: Markup) -> str:
    """Return markup as an operator reads it, in lower case."""
    return unescape(_TAG.sub(" ", markup)).casefold()


def _chosen(visit: Visit, columns: Sequence[ListColumn[Any]]) -> int | None:
    """Return the place of the column that the address names, or None."""
    for place, column in enumerate(columns):
        if column.name == visit.query.get("sort"):
            return place
    return None


def _in_order(visit: Visit, place: int, column: ListColumn[Any], drawn: list[_DrawnRow]) -> list[_DrawnRow]:
    """Return the rows sorted by the value of the column at this place, or else by its text."""

    def value(row: _DrawnRow) -> tuple[bool, float | str]:
        if column.kind not in ("number", "time"):
            return True, _text(row.cells[place])
        number = column.value_of(row.row)
        return number is not None, to_ms(number) if isinstance(number, datetime) else number or 0

    return sorted(drawn, key=value, reverse=visit.query.get("order") == "desc")


def _heading(visit: Visit, column: ListColumn[Any], styles: Mapping[str, str], *, can_sort: bool) -> DrawnHeading:
    text, style = visit.t.gettext(column.page), _style(column, styles)
    # A column without a value has buttons.
    has_buttons = column.value is None and "json" in column.without
    if not can_sort or has_buttons:
        return DrawnHeading(text, style)
    order = None
    leads_down = column.kind in ("number", "time")
    if visit.query.get("sort") == column.name:
        order = "descending" if visit.query.get("order") == "desc" else "ascending"
        leads_down = order == "ascending"
    address = visit.address(visit.path, sort=column.name, order="desc" if leads_down else None)
    return DrawnHeading(text, style, address, order)


def _style(column: ListColumn[Any], styles: Mapping[str, str]) -> str:
    """Return the classes of a column."""
    names = ["number"] if column.kind == "number" else []
    if column.name in styles:
        names.append(styles[column.name])
    return " ".join(names)


def _cells(headings: Sequence[DrawnHeading], contents: Sequence[Markup]) -> list[DrawnCell]:
    cells = []
    for heading, content in zip(headings, contents, strict=True):
        # A cell without a value is left out on a phone.
        is_dash = "–" in content and _text(content).strip() == "–"
        cells.append(DrawnCell(content, f"{heading.style} nil".strip() if is_dash else heading.style, heading.text))
    return cells
