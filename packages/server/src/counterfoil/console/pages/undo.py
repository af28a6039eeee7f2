"""The undo of a load: what it takes back and what stays, who has read it, and the buttons that do it."""

from typing import Literal

from msgspec import Struct

from counterfoil.checks.undoing import Undo
from counterfoil.console.visit import ConsolePage, NotFound, Visit
from counterfoil.domain.loads import LoadRow, load_state
from counterfoil.domain.undo import DayOfUndo, KeyThatRead, UndoPreview, Verdict
from counterfoil.model.text import translatable
from counterfoil.program.columns import ListColumn, RowList
from counterfoil.views.loads import find

# The two ways to take bills back, as the last part of the address of each form.
How = Literal["remove", "void"]
DAYS = (
    ListColumn[DayOfUndo]("shopId", page=translatable("Shop")),
    ListColumn[DayOfUndo]("day", lambda found: found.day or "", page=translatable("Calendar day")),
    ListColumn[DayOfUndo]("bills", kind="number", page=translatable("Bills")),
    ListColumn[DayOfUndo]("net", kind="number", page=translatable("Net")),
)


class UndoView(Struct, frozen=True, kw_only=True):
    """The data of the page. `load` is None if the store has forgotten it."""

    number: int
    load: LoadRow | None
    found: UndoPreview
    days: RowList[DayOfUndo]
    readers: list[KeyThatRead]
    shop_names: dict[str, str]
    is_running: bool
    can_write: bool
    emptied: list[str] = []
    """The shops of which the undo has just left no bills."""

    @property
    def lists_only(self) -> list[KeyThatRead]:
        """The keys that may have read the bills from lists, in which a removed bill does not appear."""
        return [reader for reader in self.readers if not reader.reads_feed]

    @property
    def has_something(self) -> bool:
        return bool(self.found.taken_back or self.found.kept.get("changed"))

    @property
    def only_repeats(self) -> bool:
        """Whether nothing is taken back, but an undo lets the earlier loads be undone whose bills it has repeated."""
        load = self.load
        return load is not None and load.has_repeated and load.undone_at is None and not self.has_something

    def other_loads(self, verdict: Verdict) -> list[int]:
        """Return the loads of the bills that stay for this reason, as far as they are named."""
        return sorted({bill.other_load for bill in self.found.named if bill.verdict == verdict and bill.other_load})

    def shop_name(self, shop_id: str) -> str:
        return self.shop_names.get(shop_id, shop_id)


def read(visit: Visit) -> UndoView:
    reads, number = visit.store.reads, int(visit.values["number"])
    load = find(reads, number)
    if load is None and not any(later.number > number for later in reads.loads(1)):
        raise NotFound(visit.t.gettext("There is no load %(number)s.", number=number))
    undo = Undo(visit.settings, number, load)
    found = undo.preview()
    granted = reads.permissions()
    return UndoView(
        number=number,
        load=load,
        found=found,
        days=RowList(DAYS, found.days),
        readers=undo.readers(found.shops, visit.now),
        shop_names={shop.shop_id: shop.shop_name or shop.shop_id for shop in visit.store.shop_names()},
        is_running=load is not None and load_state(load, visit.now) == "running",
        # On PostgreSQL, a login of the console may be allowed to issue keys, but not to write books.
        can_write=granted is None or granted.loads,
    )


def as_json(_: Visit, view: UndoView) -> dict[str, object]:
    return {
        "load": view.number,
        "running": view.is_running,
        "takenBack": view.found.taken_back,
        "kept": dict(view.found.kept),
        "firstKept": view.found.named,
        "removedByLoad": view.found.removed,
        "days": view.days,
        "readers": view.readers,
    }


PAGE = ConsolePage(name="loads", role="operator", template="undo", read=read, as_json=as_json)
