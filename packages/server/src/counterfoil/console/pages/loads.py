"""Loads: the latest loads with their counts, and the rejected lines of one load without their values."""

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.console.visit import ConsolePage, NotFound, Visit
from counterfoil.domain.loads import LoadRow, RejectedLine, load_state, outcome_of
from counterfoil.domain.open_items import OpenItem, joined
from counterfoil.importing.results import IMPORT_PREFIX, LOAD_REASONS
from counterfoil.ingest.lines import REASONS
from counterfoil.model.text import translatable
from counterfoil.program.columns import DATA, ListColumn, RowList, console_json
from counterfoil.views.loads import MOST_LOADS, MOST_REJECTS, columns, find, items, rejects

# The page of a load shows this many of its rejected lines.
MOST_SHOWN = 200
# This many loads of the same state in a row are shown as one row.
RUN_FROM = 4
# While a load is running, the page is updated this often.
REFRESH_SEC = 5
MEANINGS = REASONS | LOAD_REASONS
REJECTS = rejects(MEANINGS)


class RevealedLine(Struct, frozen=True):
    """The text of a rejected line, which an operator has asked for."""

    line: str
    text: str


class OneLoadView(Struct, frozen=True, kw_only=True):
    """A load. `rejects_path` is the path of its rejects file as a shell reads it, if this machine has the file."""

    load: LoadRow
    rejects: RowList[RejectedLine]
    rejects_path: str | None
    revealed: RevealedLine | None = None

    @property
    def rejects_with_buttons(self) -> RowList[RejectedLine]:
        buttons = ListColumn[RejectedLine]("text", page=translatable("Text"), without=DATA)
        return RowList((*self.rejects.columns, buttons), self.rejects.rows)

    @property
    def has_rows_of_imports(self) -> bool:
        return any(is_of_import(reason) for reason in self.load.reasons)

    @property
    def has_only_rows_of_imports(self) -> bool:
        return all(is_of_import(reason) for reason in self.load.reasons)

    def can_be_undone(self, now: int) -> bool:
        return (self.load.changed > 0 or self.load.has_repeated) and load_state(self.load, now) != "running"

    def is_stopped(self, now: int) -> bool:
        return load_state(self.load, now) == "stopped"


def is_of_import(reason: str) -> bool:
    """Return whether `counterfoil import` rejects rows for this reason. The load's rejects file does not have them."""
    return reason.startswith(IMPORT_PREFIX)


def reasons_of(item: OpenItem, load: LoadRow | None) -> dict[str, int] | None:
    """Return why the lines of an item were rejected, with their numbers, or None if its load does not say it.

    Rows that an import rejects have an item of their own, without a file.
    """
    if item.kind != "rejects" or load is None:
        return None
    reasons = {reason: count for reason, count in load.reasons.items() if is_of_import(reason) != bool(item.path)}
    return reasons if sum(reasons.values()) == item.lines else None


class Runs(Struct, frozen=True):
    """Loads of which each run of the same state is one row, with the sums; and the loads of runs by its number."""

    listing: RowList[LoadRow]
    by_number: dict[int, list[LoadRow]]


class LoadsView(Struct, frozen=True, kw_only=True, rename="camel"):
    loads: RowList[LoadRow]
    open_items: RowList[OpenItem]
    runs: Runs

    @property
    def items_with_buttons(self) -> RowList[OpenItem]:
        buttons = ListColumn[OpenItem]("buttons", page=translatable("Close"), without=DATA)
        return RowList((*self.open_items.columns, buttons), self.open_items.rows)

    def reasons_of(self, item: OpenItem) -> dict[str, int] | None:
        loads = [load for load in self.loads.rows if load.number == item.load]
        return reasons_of(item, loads[0] if loads else None)

    @property
    def reasons(self) -> RowList[tuple[str, int]]:
        """Return the reasons of rejected lines with their numbers, the most frequent first."""
        counts: Counter[str] = Counter()
        for load in self.loads.rows:
            counts.update(load.reasons)
        return RowList(_REASONS, counts.most_common())


_REASONS: Sequence[ListColumn[tuple[str, int]]] = (
    ListColumn("reason", lambda row: row[0], kind="code", page=translatable("Reason"), without=DATA),
    ListColumn("count", lambda row: row[1], kind="number", page=translatable("Count"), without=DATA),
    ListColumn("meaning", page=translatable("Meaning"), without=DATA),
)


def read(visit: Visit) -> LoadsView:
    reads = visit.store.reads
    loads = reads.loads(MOST_LOADS)
    return LoadsView(
        loads=RowList(columns(visit.now), loads),
        open_items=RowList(items(visit.now), joined(reads.open_items())),
        runs=_runs(visit, loads),
    )


def as_json(_: Visit, view: LoadsView) -> dict[str, object]:
    return {"loads": view.loads, "openItems": view.open_items}


def _runs(visit: Visit, loads: Sequence[LoadRow]) -> Runs:
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
    return Runs(RowList(columns(visit.now), rows), runs)


def _refresh_sec(visit: Visit, view: LoadsView) -> int | None:
    is_running = any(load_state(load, visit.now) == "running" for load in view.loads.rows)
    return REFRESH_SEC if is_running else None


def read_one(visit: Visit) -> OneLoadView:
    number = int(visit.values["number"])
    load = find(visit.store.reads, number)
    if load is None:
        raise NotFound(
            visit.t.gettext("There is no load %(number)s, or it is not among the latest 100 loads.", number=number)
        )
    return OneLoadView(
        load=load,
        rejects=RowList(REJECTS, visit.store.reads.rejects(number, MOST_SHOWN)),
        rejects_path=_rejects_path(visit, load),
    )


def _rejects_path(visit: Visit, load: LoadRow) -> str | None:
    if not load.rejects_file:
        return None
    file = visit.settings.store / "rejects" / load.rejects_file
    # `Path.is_file` raises an error if the folder is not readable.
    return shlex.quote(str(file)) if os.path.isfile(file) else None  # noqa: PTH113


PAGE = ConsolePage(
    name="loads",
    template="loads",
    read=read,
    as_json=as_json,
    csv=lambda _, view: ("loads", view.loads),
    refresh_sec=_refresh_sec,
)
ONE_LOAD = ConsolePage(
    name="loads",
    template="load",
    read=read_one,
    as_json=lambda visit, view: {"load": console_json(columns(visit.now), view.load), "rejects": view.rejects},
    csv=lambda visit, view: (
        f"load-{view.load.number}-rejects",
        RowList(REJECTS, visit.store.reads.rejects(view.load.number, MOST_REJECTS)),
    ),
)
