"""Loads: the latest loads with their counts, and the rejected lines of one load without their values."""

import os
import shlex
from collections import Counter
from datetime import datetime

from msgspec import Struct

from counterfoil.console.display import (
    PageColumn,
    badge,
    command_line,
    csv_time,
    duration,
    fields,
    moment,
    name_of,
    number,
    section,
    table,
    translated,
    utc_time,
)
from counterfoil.console.forms import FORM_FIELD
from counterfoil.console.layout import notice
from counterfoil.console.pages.not_found import NotFound
from counterfoil.console.texts import Texts
from counterfoil.console.visit import ConsolePage, CsvExport, PageContent, Visit
from counterfoil.domain.calendar import to_ms
from counterfoil.domain.intake import RejectedLine
from counterfoil.domain.messages import NOTHING
from counterfoil.importing.results import IMPORT_PREFIX, LOAD_REASONS
from counterfoil.ingest.lines import REASONS
from counterfoil.operator_reads import LoadRow, load_state
from counterfoil.web.html import Child, Html, element, markup

MOST_LOADS, MOST_REJECTS = 100, 200
# The store remembers at most this many rejected lines of a load. The rejects file has all of them.
MOST_EXPORTED = 1_000
MEANINGS = REASONS | LOAD_REASONS


class LoadView(Struct, frozen=True, kw_only=True, rename="camel"):
    """One load. `state` is `finished`, `running` or `stopped`."""

    number: int
    source: str
    state: str
    started_at: datetime | None
    seen_at: datetime | None
    finished_at: datetime | None
    lines: int
    changed: int
    rejected: int
    reasons: dict[str, int]
    rejects_file: str | None


class LoadsView(Struct, frozen=True, kw_only=True, rename="camel"):
    loads: list[LoadView]


class RejectView(Struct, frozen=True, rename="camel"):
    source: str
    line: int
    reason: str
    fields: list[str]


class OneLoadView(Struct, frozen=True, kw_only=True, rename="camel"):
    load: LoadView
    rejects: list[RejectView]


def read(visit: Visit) -> LoadsView:
    with visit.store.reads() as reads:
        return LoadsView(loads=[_load(one, visit.now) for one in reads.loads(MOST_LOADS)])


def _load(one: LoadRow, now: int) -> LoadView:
    return LoadView(
        number=one.number,
        source=one.source,
        state=load_state(one, now),
        started_at=utc_time(one.started_at),
        seen_at=utc_time(one.seen_at),
        finished_at=utc_time(one.finished_at),
        lines=one.lines,
        changed=one.changed,
        rejected=one.rejected,
        reasons=one.reasons,
        rejects_file=one.rejects_file,
    )


def read_one(visit: Visit) -> OneLoadView:
    wanted = int(visit.values["number"])
    with visit.store.reads() as reads:
        found = next((one for one in reads.loads(MOST_LOADS) if one.number == wanted), None)
        if found is None:
            raise NotFound(visit.t("load.missing", number=wanted))
        rejects = reads.rejects(wanted, MOST_REJECTS)
    return OneLoadView(load=_load(found, visit.now), rejects=[_reject(one) for one in rejects])


def latest_load_path(visit: Visit) -> str:
    """Return the path of the latest load, or of the list if nothing has been loaded."""
    with visit.store.reads() as reads:
        return next((f"/loads/{one.number}" for one in reads.loads(1)), "/loads")


def _reject(one: RejectedLine) -> RejectView:
    return RejectView(one.source, one.line, one.reason, list(one.fields))


# --- drawing -------------------------------------------------------------------------


def draw(visit: Visit, view: LoadsView) -> PageContent:
    t = visit.t
    columns = (
        PageColumn(t("load.started")),
        PageColumn(t("load.source")),
        PageColumn(t("state")),
        PageColumn(t("load.took"), is_number=True),
        PageColumn(t("load.lines"), is_number=True),
        PageColumn(t("load.changed"), is_number=True),
        PageColumn(t("load.rejected"), is_number=True),
    )
    return PageContent(
        title=t("loads.title"),
        main=markup(
            section(
                t("loads.latest"),
                table(t("loads.caption"), columns, [_cells(visit, one) for one in view.loads], empty=t("loads.none")),
            ),
            _reasons(visit, view),
        ),
        command="counterfoil loads",
    )


def _reasons(visit: Visit, view: LoadsView) -> Html | None:
    t = visit.t
    counts: Counter[str] = Counter()
    for one in view.loads:
        counts.update(one.reasons)
    if not counts:
        return None
    columns = (PageColumn(t("load.reason")), PageColumn(t("count"), is_number=True), PageColumn(t("load.means")))
    rows = [(element("code", reason), number(count), _meaning(t, reason)) for reason, count in counts.most_common()]
    return section(t("loads.reasons"), table(t("loads.reasons_caption", count=len(view.loads)), columns, rows))


def _meaning(t: Texts, reason: str) -> Html:
    return markup(t("load.line_that"), translated(t, MEANINGS.get(reason, NOTHING)))


def _cells(visit: Visit, one: LoadView) -> tuple[Child, ...]:
    t = visit.t
    rejected = (
        element("a", number(one.rejected), href=f"/loads/{one.number}", class_="count warn")
        if one.rejected
        else element("span", "0", class_="muted")
    )
    ended = one.finished_at or one.seen_at
    took = duration(t, to_ms(ended) - to_ms(one.started_at)) if ended and one.started_at else "–"
    return (
        element("a", moment(one.started_at), href=f"/loads/{one.number}"),
        name_of(one.source),
        load_badge(t, one),
        took,
        number(one.lines),
        number(one.changed),
        rejected,
    )


def load_badge(t: Texts, load: LoadView) -> Html:
    """Return a badge with the state of a load. A stopped load is shown as a problem.

    A finished load with rejected lines is shown as a warning, or as a problem if all its lines were rejected.
    """
    if load.state != "finished" or not load.rejected:
        return badge(t(f"load.{load.state}"), "bad" if load.state == "stopped" else "")
    if load.rejected >= load.lines:
        return badge(t("load.all_rejected"), "bad")
    return badge(t("load.some_rejected"), "warn")


def draw_one(visit: Visit, view: OneLoadView) -> PageContent:
    return draw_load(visit, view, None)


def draw_load(visit: Visit, view: OneLoadView, revealed: Html | None) -> PageContent:
    """Return the page of one load, with the text of a line if it was revealed."""
    t, load = visit.t, view.load
    facts: list[tuple[str, Child]] = [
        (t("load.source"), name_of(load.source)),
        (t("state"), load_badge(t, load)),
        (t("load.started"), moment(load.started_at)),
        (t("load.finished_at"), moment(load.finished_at)),
        (t("load.lines"), number(load.lines)),
        (t("load.changed"), number(load.changed)),
        (t("load.rejected"), number(load.rejected)),
        (t("load.rejects_file"), element("code", name_of(load.rejects_file)) if load.rejects_file else "–"),
    ]
    columns = (
        PageColumn(t("load.line"), is_number=True),
        PageColumn(t("load.source")),
        PageColumn(t("load.reason")),
        PageColumn(t("load.fields")),
        PageColumn(t("load.value")),
    )
    form_token = visit.new_form() if view.rejects else ""
    rows = [
        (
            number(one.line),
            name_of(one.source),
            markup(element("code", one.reason), " ", element("small", _meaning(t, one.reason))),
            markup([[element("code", name_of(name)), " "] for name in one.fields]) if one.fields else "–",
            "–" if _is_of_import(one.reason) else _reveal_button(visit, load, one, form_token),
        )
        for one in view.rejects
    ]
    shown = t("load.rejects_caption", shown=len(view.rejects), count=f"{load.rejected:,}")
    return PageContent(
        title=t("load.title", number=load.number),
        lead=revealed,
        main=markup(
            fields(facts),
            notice(t("load.stopped_text"), "warn") if load.state == "stopped" else None,
            section(t("load.rejects"), table(shown, columns, rows, empty=t("load.no_rejects"))),
            element("p", t("load.fix_import"), class_="muted") if any(map(_is_of_import, load.reasons)) else None,
            _advice(visit, load) if not all(map(_is_of_import, load.reasons)) else None,
        ),
        command=f"counterfoil loads {load.number}",
    )


def _is_of_import(reason: str) -> bool:
    """Return whether `counterfoil import` rejects rows for this reason. The load's rejects file does not have them."""
    return reason.startswith(IMPORT_PREFIX)


def _advice(visit: Visit, load: LoadView) -> Html:
    """Return advice about rejected lines, with the command that loads the rejects file.

    Only the name of the file is stored. If the file is not in the store's folder, as after `load --rejects FILE`, its
    path is unknown, so the advice names the file without a command.
    """
    t = visit.t
    if not load.rejects_file:
        return element("p", t("load.fix"), class_="muted")
    file = visit.settings.store / "rejects" / load.rejects_file
    if not os.path.isfile(file):  # noqa: PTH113 - Path.is_file raises an error if the folder is not readable
        return element("p", t("load.fix_elsewhere", file=name_of(load.rejects_file)), class_="muted")
    command = element("p", command_line(f"counterfoil load {shlex.quote(str(file))}"))
    return markup(element("p", t("load.fix"), class_="muted"), command)


def _reveal_button(visit: Visit, load: LoadView, one: RejectView, form_token: str) -> Html:
    t = visit.t
    hidden = {FORM_FIELD: form_token, "source": one.source, "line": str(one.line)}
    return element(
        "form",
        [element("input", type="hidden", name=name, value=value) for name, value in hidden.items()],
        element("button", t("load.reveal"), class_="plain", aria_label=t("load.reveal_line", line=one.line)),
        method="post",
        action=f"/loads/{load.number}/reveal",
        class_="inline",
    )


def csv(_: Visit, view: LoadsView) -> CsvExport:
    columns = ("number", "started_utc", "finished_utc", "source", "state", "lines", "changed", "rejected")
    rows: list[tuple[object, ...]] = [
        (
            one.number,
            csv_time(one.started_at),
            csv_time(one.finished_at),
            one.source,
            one.state,
            one.lines,
            one.changed,
            one.rejected,
        )
        for one in view.loads
    ]
    return CsvExport("loads", columns, rows)


def csv_one(visit: Visit, view: OneLoadView) -> CsvExport:
    """Return the rejected lines of a load as CSV, without their values."""
    with visit.store.reads() as reads:
        found = reads.rejects(view.load.number, MOST_EXPORTED)
    rows: list[tuple[object, ...]] = [
        (one.source, one.line, one.reason, MEANINGS.get(one.reason, ""), " ".join(one.fields)) for one in found
    ]
    return CsvExport(f"load-{view.load.number}-rejects", ("source", "line", "reason", "meaning", "fields"), rows)


PAGE = ConsolePage(name="loads", read=read, draw=draw, csv=csv)
ONE_LOAD = ConsolePage(name="loads", read=read_one, draw=draw_one, csv=csv_one)
