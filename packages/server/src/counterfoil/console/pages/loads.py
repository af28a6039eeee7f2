"""Loads: the latest loads with their counts, and the rejected lines of one load without their values."""

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.console import display
from counterfoil.console.display import Cells, list_table, name_of, section
from counterfoil.console.forms import button_form
from counterfoil.console.imports import FILES_KEPT, IMPORT_PATH
from counterfoil.console.layout import notice
from counterfoil.console.texts import Texts
from counterfoil.console.visit import ConsolePage, NotFound, PageContent, Visit
from counterfoil.domain.intake import LoadRow, RejectedLine, describe, load_state, outcome_of
from counterfoil.domain.open_items import OpenItem, Verb
from counterfoil.importing.results import IMPORT_PREFIX, LOAD_REASONS
from counterfoil.ingest.lines import REASONS
from counterfoil.model.messages import NOTHING, duration
from counterfoil.program.columns import ListColumn, RowList, console_json
from counterfoil.views.loads import MOST_LOADS, MOST_REJECTS, columns, file_names, find, items, rejects
from counterfoil.web.html import Child, Html, element, markup

# The page of a load shows this many of its rejected lines.
MOST_SHOWN = 200
# This many loads of the same state in a row are shown as one row.
RUN_FROM = 4
# While a load is running, the page is updated this often.
REFRESH_SEC = 5
MEANINGS = REASONS | LOAD_REASONS
REJECTS = rejects(MEANINGS)


class OneLoadView(Struct, frozen=True, kw_only=True):
    load: LoadRow
    rejects: RowList[RejectedLine]


class LoadsView(Struct, frozen=True, kw_only=True, rename="camel"):
    loads: RowList[LoadRow]
    open_items: RowList[OpenItem]


def read(visit: Visit) -> LoadsView:
    reads = visit.store.reads
    return LoadsView(
        loads=RowList(columns(visit.now), reads.loads(MOST_LOADS)),
        open_items=RowList(items(visit.now), reads.open_items()),
    )


def read_one(visit: Visit) -> OneLoadView:
    number = int(visit.values["number"])
    load = find(visit.store.reads, number)
    if load is None:
        raise NotFound(visit.t("load.missing", number=number))
    return OneLoadView(load=load, rejects=RowList(REJECTS, visit.store.reads.rejects(number, MOST_SHOWN)))


def draw(visit: Visit, view: LoadsView, result: Html | None = None) -> PageContent:
    t = visit.t
    rows, runs = _collapsed(visit, view.loads.rows)

    def address(load: LoadRow) -> str:
        return visit.address("/loads", run=str(load.number)) if load.number in runs else f"/loads/{load.number}"

    def started(load: LoadRow) -> Child:
        run = runs.get(load.number)
        newest = display.ago(t, load.started_at, visit.now, is_focusable=run is not None)
        if not run:
            return element("a", newest, href=address(load))
        span = element("small", newest, " – ", display.ago(t, run[-1].started_at, visit.now))
        return markup(element("a", t("loads.run", count=len(run)), href=address(load)), " ", span)

    def took(load: LoadRow) -> Child:
        span = duration((load.finished_at or load.seen_at) - load.started_at)
        return None if load.number in runs else t.message(span)

    cells: Cells[LoadRow] = {
        "load.started": started,
        "load.files": lambda load: ", ".join(dict.fromkeys(map(file_names, runs.get(load.number, [load])))),
        "state": lambda load: (
            load_badge(visit, load) if load.rejected or load.is_accepted or not load.finished else None
        ),
        "load.took": took,
        "load.rejected": lambda load: _rejected(load, address(load)),
    }
    listed = list_table(visit, t("loads.caption"), RowList(view.loads.columns, rows), cells, empty=t("loads.none"))
    return PageContent(
        title=t("loads.title"),
        lead=result,
        main=markup(
            _open_items(visit, view.open_items), section(t("loads.latest"), listed), _reasons(visit, view.loads.rows)
        ),
        commands=["counterfoil loads open" if view.open_items.rows else "counterfoil loads"],
        refresh_sec=REFRESH_SEC if any(load_state(load, visit.now) == "running" for load in view.loads.rows) else None,
    )


def _collapsed(visit: Visit, loads: Sequence[LoadRow]) -> tuple[list[LoadRow], dict[int, list[LoadRow]]]:
    """Return the loads with each run of the same state as its newest load with the sums, and the runs by its number."""
    rows: list[LoadRow] = []
    runs: dict[int, list[LoadRow]] = {}
    can_collapse = not any(visit.query.get(name) for name in ("sort", "filter"))
    for _, same in groupby(loads, lambda load: (outcome_of(load, visit.now), load.is_accepted)):
        run = list(same)
        if can_collapse and len(run) >= RUN_FROM and visit.query.get("run") != str(run[0].number):
            sums = {name: sum(getattr(load, name) for load in run) for name in ("lines", "changed", "rejected")}
            rows.append(replace(run[0], **sums))
            runs[run[0].number] = run
        else:
            rows += run
    return rows, runs


def _open_items(visit: Visit, found: RowList[OpenItem]) -> Html | None:
    if not found.rows:
        return None
    t = visit.t
    cells: Cells[OpenItem] = {
        "items.kind": lambda item: _kind(t, item),
        "items.since": lambda item: display.ago(t, item.opened_at, visit.now, past="for"),
        "items.file": lambda item: element("code", name_of(item.path)) if item.path else "–",
        "items.close": lambda item: _item_buttons(visit, item),
    }
    buttons = [ListColumn[OpenItem]("", page="items.close")] if visit.is_operator else []
    shown = RowList((*found.columns, *buttons), found.rows)
    listed = list_table(visit, t("items.caption"), shown, cells, first=["items.kind"])
    return section(t("items.title"), listed, anchor="open")


def _item_buttons(visit: Visit, item: OpenItem) -> Html | None:
    """Return the button that closes an item, or for a held file a link to the page with its buttons."""
    if item.kind in FILES_KEPT and item.path:
        label = visit.t.gettext("Bring in the file of item %(number)s", number=item.number)
        bring_in = button_form(visit, f"{IMPORT_PATH}/items/{item.number}", visit.t.gettext("Bring in"), label)
        return markup(bring_in, " ", _item_button(visit, item, "resolve"))
    if "resolve" in item.verbs:
        return _item_button(visit, item, "resolve")
    return element("a", visit.t("items.decide"), href=f"/loads/items/{item.number}")


def _item_button(visit: Visit, item: OpenItem, verb: Verb) -> Html | None:
    t, path = visit.t, f"/loads/items/{item.number}/{verb}"
    label = t(f"items.{verb}_item", number=item.number)
    return button_form(visit, path, t(f"items.{verb}"), label, is_dangerous=verb == "discard")


def _kind(t: Texts, item: OpenItem) -> Child:
    text = t(f"items.{item.kind if item.state == 'waiting' else item.state}_kind")
    return text if item.load is None else element("a", text, href=f"/loads/{item.load}")


def _rejected(load: LoadRow, address: str) -> Html:
    if not load.rejected:
        return element("span", "0", class_="muted")
    return element("a", display.number(load.rejected), href=address, class_="count warn")


_REASONS: Sequence[ListColumn[tuple[str, int]]] = (
    ListColumn("", lambda row: row[0], "code", page="load.reason"),
    ListColumn("", lambda row: row[1], "number", page="count"),
    ListColumn("", page="load.means"),
)


def _reasons(visit: Visit, loads: Sequence[LoadRow]) -> Html | None:
    t = visit.t
    counts = sum((Counter(load.reasons) for load in loads), Counter[str]())
    if not counts:
        return None
    listing = RowList(_REASONS, counts.most_common())
    caption = t("loads.reasons_caption", count=len(loads))
    return section(
        t("loads.reasons"), list_table(visit, caption, listing, {"load.means": lambda row: _meaning(t, row[0])})
    )


def _meaning(t: Texts, reason: str) -> Html:
    return markup(t("load.line_that"), display.translated(t, MEANINGS.get(reason, NOTHING)))


def load_badge(visit: Visit, load: LoadRow) -> Html:
    """Return the state of a load: a problem if it has stopped or loaded nothing, a warning if it rejected lines.

    A load that differed from earlier ones, and that the operator accepted, is marked.
    """
    state = outcome_of(load, visit.now)
    badge = display.badge(visit.t(f"load.{state}"), _KINDS.get(state, ""))
    return markup(badge, " ", display.badge(visit.t("load.accepted"), "warn")) if load.is_accepted else badge


_KINDS = {"stopped": "bad", "all_rejected": "bad", "some_rejected": "warn"}


def draw_one(visit: Visit, view: OneLoadView, revealed: Html | None = None) -> PageContent:
    t, load = visit.t, view.load
    facts: list[tuple[str, Child]] = [
        (t("load.source"), name_of(load.source)),
        (t("load.files"), file_names(load)),
        *((t("load.alarms"), display.translated(t, describe(alarm))) for alarm in load.alarms),
        (t("state"), load_badge(visit, load)),
        (t("load.started"), display.moment(load.started_at)),
        (t("load.finished_at"), display.moment(load.finished_at)),
        (t("load.lines"), display.number(load.lines)),
        (t("load.changed"), display.number(load.changed)),
        (t("load.rejected"), display.number(load.rejected)),
        (t("load.rejects_file"), element("code", name_of(load.rejects_file)) if load.rejects_file else "–"),
    ]
    cells: Cells[RejectedLine] = {
        "load.reason": lambda reject: markup(
            element("code", reject.reason), " ", element("small", _meaning(t, reject.reason))
        ),
        "load.fields": lambda reject: markup([[element("code", name_of(name)), " "] for name in reject.fields]) or "–",
        "load.value": lambda reject: _reveal_button(visit, load, reject) or "–",
    }
    with_text = RowList((*REJECTS, ListColumn("", page="load.value")), view.rejects.rows)
    shown = t("load.rejects_caption", shown=len(view.rejects.rows), count=f"{load.rejected:,}")
    return PageContent(
        title=t("load.title", number=load.number),
        lead=revealed,
        main=markup(
            display.fields(facts),
            notice(t("load.stopped_text"), "warn") if load_state(load, visit.now) == "stopped" else None,
            section(
                t("load.rejects"),
                list_table(visit, shown, with_text, cells, first=["load.line"], empty=t("load.no_rejects")),
            ),
            _undo_link(visit, load),
            element("p", t("load.fix_import"), class_="muted") if any(map(_is_of_import, load.reasons)) else None,
            _advice(visit, load) if not all(map(_is_of_import, load.reasons)) else None,
        ),
        commands=[f"counterfoil loads {load.number}"],
    )


def _undo_link(visit: Visit, load: LoadRow) -> Html | None:
    if not visit.is_operator or not load.changed or load_state(load, visit.now) == "running":
        return None
    text = visit.t.gettext("Undo this load")
    return display.button_row(display.button_link(text, f"/loads/{load.number}/undo", style="plain"))


def _is_of_import(reason: str) -> bool:
    """Return whether `counterfoil import` rejects rows for this reason. The load's rejects file does not have them."""
    return reason.startswith(IMPORT_PREFIX)


def _advice(visit: Visit, load: LoadRow) -> Html:
    """Return advice about rejected lines, with the command that loads the rejects file if its path is known."""
    t = visit.t
    if not load.rejects_file:
        return element("p", t("load.fix"), class_="muted")
    file = visit.settings.store / "rejects" / load.rejects_file
    if not os.path.isfile(file):  # noqa: PTH113 - Path.is_file raises an error if the folder is not readable
        return element("p", t("load.fix_elsewhere", file=name_of(load.rejects_file)), class_="muted")
    command = element("p", display.command_line(f"counterfoil load {shlex.quote(str(file))}"))
    return markup(element("p", t("load.fix"), class_="muted"), command)


def _reveal_button(visit: Visit, load: LoadRow, reject: RejectedLine) -> Html | None:
    if _is_of_import(reject.reason):
        return None
    t = visit.t
    values = {"source": reject.source, "line": str(reject.line)}
    label = t("load.reveal_line", line=reject.line)
    return button_form(visit, f"/loads/{load.number}/reveal", t("load.reveal"), label, values)


PAGE = ConsolePage(name="loads", read=read, draw=draw, csv=lambda _, view: ("loads", view.loads))
ONE_LOAD = ConsolePage(
    name="loads",
    read=read_one,
    draw=draw_one,
    as_json=lambda visit, view: {"load": console_json(columns(visit.now), view.load), "rejects": view.rejects},
    csv=lambda visit, view: (
        f"load-{view.load.number}-rejects",
        RowList(REJECTS, visit.store.reads.rejects(view.load.number, MOST_REJECTS)),
    ),
)
