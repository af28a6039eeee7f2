"""Renders times, numbers, labels and tables in the same way for all pages."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from html import unescape
from typing import Any, Literal

from counterfoil.checks.findings import Finding, Status
from counterfoil.console.texts import TABLE, Texts
from counterfoil.console.visit import Visit
from counterfoil.model.calendar import iso_utc, to_ms
from counterfoil.model.messages import Message, duration
from counterfoil.model.text import format_usual, printable
from counterfoil.program.columns import ListColumn, Row, RowList, arranged
from counterfoil.program.times import THAILAND, local, second, zone_name
from counterfoil.web.html import Child, Html, element, fill, inline, markup

# A list with more rows than this has a field that filters them, and no list shows more than MOST_ROWS.
FILTER_FROM, MOST_ROWS = 10, 5_000
# The classes of cells, by heading or kind: a `bare` one needs no label on a phone, which has no room for a `wide` one.
_BARE = [
    *("audit.actor", "audit.changes", "base", "errors.action", "key", "keys.scope", "load.files", "load.means"),
    *("load.source", "route", "shops.franchise_and_base"),
]
_STYLES = {"number": "number", "requests.request_id": "wide", **dict.fromkeys(_BARE, "bare"), "took": "number bare"}
# A row, and its cells as they are drawn.
Drawn = tuple[Row, list[Child]]
# What draws the cells of columns, by their headings.
Cells = Mapping[str, Callable[[Row], Child]]
_TAG = re.compile("<[^>]*>")
_PART = re.compile(".+?(?: · |$)")
# Between the name of a brand and the name of a branch.
_SEPARATOR = re.compile(" [·–—|-] ")


def template(name: str, t: Texts, **values: object) -> Html:
    return fill("counterfoil.console", f"fragments/{name}.html", t=t, **values)


def moment(time: int | datetime | None, *, is_focusable: bool = True) -> Html:
    """Return a time (a number is in ms since 1970) in the operator's zone, or a dash."""
    return _time(time, local_second(time), is_focusable=is_focusable)


def local_second(time: int | datetime | None) -> str:
    return "" if time is None else f"{local(time):%Y-%m-%d %H:%M:%S}"


def exact_time(time: int | datetime) -> tuple[str, str]:
    """Return a time in UTC for programs, and as a text that has it in the operator's zone and in UTC."""
    iso = iso_utc(time if isinstance(time, int) else to_ms(time))
    return iso, f"{second(time)} · {iso[:19].replace('T', ' ')} UTC"


def _time(time: int | datetime | None, text: str, *, is_focusable: bool = True) -> Html:
    """Return a text for a time, which shows the exact time in both zones when it is pointed at or has the focus."""
    if time is None:
        return element("span", "–", class_="muted")
    iso, exact = exact_time(time)
    return element("time", text, datetime=iso, title=exact, tabindex=0 if is_focusable else None)


def zone_text(t: Texts) -> str:
    return t("time.thailand") if zone_name() == THAILAND else zone_name()


def ago(t: Texts, time: int | datetime | None, now: int, *, is_focusable: bool = True, past: str = "ago") -> Html:
    """Return how long ago a time was, or how far away it is. If there is no time, return a dash."""
    return _time(time, "" if time is None else age(t, time, now, past), is_focusable=is_focusable)


def age(t: Texts, time: int | datetime, now: int, past: str = "ago") -> str:
    """Return how long ago a time was or, if `past` is `for`, since when something is so; or how far away it is."""
    instant = time if isinstance(time, int) else to_ms(time)
    span = t.message(duration(abs(now - instant)))
    if instant > now:
        return t.gettext("in %(span)s", span=span)
    return t.gettext("for %(span)s", span=span) if past == "for" else t.gettext("%(span)s ago", span=span)


def local_day(time: int | datetime) -> str:
    return f"{local(time):%Y-%m-%d}"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def money(value: Decimal) -> str:
    """Return an amount with two decimal places."""
    return f"{value:,.2f}"


def exact_money(value: Decimal | float) -> str:
    """Return an amount of a bill with two decimal places, or with all of them if it has more."""
    amount = value if isinstance(value, Decimal) else Decimal(repr(value))
    return f"{amount:,.2f}" if amount == round(amount, 2) else f"{amount:,f}"


def quantity(value: float) -> str:
    """Return a quantity without trailing zeros."""
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def percent(part: int, whole: int) -> str:
    """Format a share as a percentage. A share above zero is never shown as zero."""
    if not whole:
        return "–"
    share = part / whole
    return "<0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def change(now: int, before: int) -> str:
    """Return by which share a number differs from an earlier one. A difference is never shown as zero."""
    share = abs(now - before) / before
    return "<1%" if 0 < share < 0.005 else f"{share:,.0%}"


def badge(text: str, kind: str = "") -> Html:
    return element("span", text, class_=f"badge {kind}".rstrip())


def status_badge(status: int) -> Html:
    return badge(str(status), "quiet" if status < 400 else "warn" if status < 500 else "bad")


def name_of(text: str | None) -> str:
    """Return a name that somebody typed, with control characters replaced."""
    return printable(text or "–")


def parts(name: str | None) -> list[Child]:
    """Return a name that is broken between its parts, if it can be: browsers break Thai text within words."""
    return [element("span", part, class_="part") for part in parts_of(name)]


def parts_of(name: str | None) -> list[str]:
    return _PART.findall(name_of(name))


def brand_and_branch(name: str) -> tuple[str, str]:
    """Split the name of a shop. A name that does not show what its branch is called counts as that of a brand."""
    brand, *branch = _SEPARATOR.split(name, maxsplit=1)
    return brand, "".join(branch)


def key_link(key_id: str, label: str | None = None) -> Html:
    named = [element("span", printable(label), class_="label"), " "] if label else None
    return element("a", named, element("code", key_id), href=f"/keys/{key_id}", class_="key" if label else None)


def button_link(text: str, address: str, rel: str | None = None, style: str = "", *, is_current: bool = False) -> Html:
    current = "page" if is_current else None
    return element("a", text, href=address, rel=rel, class_=f"button {style}".rstrip(), aria_current=current)


def link_list(style: str | None, label: str | None, links: Iterable[tuple[Child, str, bool]]) -> Html:
    """Return a list of links: the content, the address, and whether the link leads to what is shown now."""
    items = [
        element("li", element("a", content, href=address, aria_current="page" if is_current else None))
        for content, address, is_current in links
    ]
    return element("ul", items, class_=style, aria_label=label)


def button_row(*buttons: Html | None) -> Html | None:
    """Return buttons beside each other, or None if there are none."""
    shown = Html(" ").join(filter(None, buttons))
    return element("p", Html(shown), class_="buttons") if shown else None


def command_line(text: str) -> Html:
    return element("code", text, class_="command")


def fields(pairs: Iterable[tuple[str, Child]]) -> Html:
    """Return a `<dl>` list of names and values."""
    return element("dl", [element("div", element("dt", name), element("dd", value)) for name, value in pairs])


def list_table(
    visit: Visit,
    caption: str,
    listing: RowList[Row],
    cells: Mapping[str, Callable[[Row], Child]] = {},
    *,
    first: Sequence[str] = (),
    empty: str = "",
    body_id: str = "",
    kind: Literal["list", "page", "fixed"] = "list",
) -> Html:
    """Return a table of a view's columns, or the text `empty` if there are no rows.

    `cells` draws the columns with these headings, and `first` come first. The first column names the row. An operator
    can sort the rows of a `list`, filter them if there are many, and see more than PER_PAGE. The rows of a `page` of a
    longer list can only be sorted. ARIA roles are set, because some browsers drop those of a table that CSS changes.
    """
    t = visit.t
    if not listing.rows and empty:
        return element("p", empty, class_="empty")
    columns = [column for column in arranged(listing.columns, first) if column.page]
    headings = [(heading(t, column), _STYLES.get(column.page) or _STYLES.get(column.kind)) for column in columns]
    labels = visit.store.labels() if any(column.page == "key" for column in columns) else {}
    draw = [cells.get(column.page) or partial(_cell, visit, labels, column) for column in columns]
    rows = [(row, [cell(row) for cell in draw]) for row in listing.rows]
    if kind == "list":
        words = visit.query.get("filter", "").casefold().split()
        rows = [row for row in rows if all(word in _text(row[1]) for word in words)]
    chosen = next((column for column in columns if column.page == visit.query.get("sort")), None)
    if kind != "fixed" and chosen:
        rows = _in_order(visit, columns.index(chosen), chosen, rows)
        # The caption may name another order.
        caption = t(f"table.sorted_{kind}", column=heading(t, chosen))
    most = visit.limit(MOST_ROWS) if kind == "list" else len(rows)
    can_sort = kind != "fixed" and len(listing.rows) > 1
    head = [
        _heading(visit, column, *heading, can_sort=can_sort) for column, heading in zip(columns, headings, strict=True)
    ]
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", head, role="row", data_label=t("table.sort")), role="rowgroup"),
        element("tbody", [_row(headings, drawn) for _, drawn in rows[:most]], role="rowgroup", id=body_id or None),
        role="table",
        class_="data",
    )
    return markup(
        _filter_field(visit) if kind == "list" and len(listing.rows) > FILTER_FROM else None,
        table,
        element("p", t("table.no_match"), class_="empty") if not rows else None,
        button_row(button_link(t("more"), visit.address(visit.path, limit=str(2 * most)))) if rows[most:] else None,
    )


def heading(t: Texts, column: ListColumn[Any]) -> str:
    return t(column.page) if column.page in TABLE else t.gettext(column.page)


def _text(cells: Child) -> str:
    """Return the text of cells as an operator reads it, in lower case."""
    return unescape(_TAG.sub(" ", markup(cells))).casefold()


def _in_order(visit: Visit, place: int, column: ListColumn[Row], rows: list[Drawn[Row]]) -> list[Drawn[Row]]:
    """Return the rows sorted by the value of the column at this place, or else by its text."""

    def value(drawn: Drawn[Row]) -> tuple[bool, float | str]:
        if column.kind not in ("number", "time"):
            return True, _text(drawn[1][place])
        number = column.value_of(drawn[0])
        return number is not None, to_ms(number) if isinstance(number, datetime) else number or 0

    return sorted(rows, key=value, reverse=visit.query.get("order") == "desc")


def _heading(visit: Visit, column: ListColumn[Row], label: str, style: str | None, *, can_sort: bool) -> Html:
    # A column without a value has buttons.
    if not can_sort or not (column.json or column.value):
        return element("th", label, scope="col", role="columnheader", class_=style)
    is_chosen, is_down = visit.query.get("sort") == column.page, visit.query.get("order") == "desc"
    down = not is_down if is_chosen else column.kind in ("number", "time")
    address = visit.address(visit.path, sort=column.page, order="desc" if down else None)
    order = ("descending" if is_down else "ascending") if is_chosen else None
    link = element("a", label, href=address)
    return element("th", link, scope="col", role="columnheader", class_=style, aria_sort=order)


def _filter_field(visit: Visit) -> Html:
    kept = {name: value for name, value in visit.query.items() if name not in ("filter", "limit", "before")}
    hidden = [element("input", type="hidden", name=name, value=value) for name, value in kept.items()]
    return template("filter", visit.t, action=visit.path, hidden=hidden, value=visit.query.get("filter") or None)


def _cell(visit: Visit, labels: Mapping[str, str], column: ListColumn[Row], row: Row) -> Child:
    value = column.value_of(row)
    if column.page == "key" and value:
        return key_link(value, labels.get(value))
    if column.kind == "time":
        return ago(visit.t, value, visit.now)
    if column.kind == "number":
        return "–" if value is None else format_usual(value)
    return element("code", name_of(value)) if column.kind == "code" and value else name_of(value)


def _row(headings: Sequence[tuple[str, str | None]], cells: Sequence[Child]) -> Html:
    name = element("th", cells[0], scope="row", role="rowheader", class_=headings[0][1])
    # On a narrow screen, a cell is a grid of its label and its content, which must therefore be one element.
    others = [
        element(
            "td",
            element("div", cell),
            role="cell",
            class_="nil" if _text(cell).strip() == "–" else style,
            data_label=label,
        )
        for (label, style), cell in zip(headings[1:], cells[1:], strict=True)
    ]
    return element("tr", name, others, role="row")


# This address redirects to the page of the latest load.
LATEST_LOAD = "/loads/latest"


def translated(t: Texts, message: Message) -> Html:
    """Return a message in the operator's language, or marked as English. Text in backticks becomes `<code>`."""
    text = inline(t.message(message))
    return element("span", text, lang=None if t.language == "en" or message.code in t.catalogue else "en")


def by_check(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return the findings in groups: those of the same check with the same status."""
    groups: dict[tuple[str, Status], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.check, finding.status), []).append(finding)
    return list(groups.values())


def section(title: str, *children: Child, anchor: str | None = None) -> Html:
    return element("section", element("h2", title), *children, id=anchor)


def tile(label: str, value: Child, note: Child = None, kind: str = "") -> Html:
    return element(
        "div",
        element("dt", label),
        element("dd", element("strong", value), element("small", note) if note else None),
        class_=f"tile {kind}".rstrip(),
    )


def tiles(*drawn: Html | None) -> Html:
    return element("dl", drawn, class_="tiles")
