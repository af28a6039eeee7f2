"""Takes back the bills of a load that was loaded by mistake: see docs/decisions/0023-undo-of-a-load.md."""

from collections.abc import Iterator
from contextlib import closing

from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.domain.audit import Act, Actor, AuditEntry, FieldChange
from counterfoil.domain.loads import LoadRow
from counterfoil.domain.undo import KeyThatRead, LoadedBill, UndoPreview, preview, reads_of_shops
from counterfoil.operator_reads import BILLS_PER_READ, OperatorReads
from counterfoil.ports import UndoLedger
from counterfoil.settings import Settings

# The store remembers the latest 100 loads. Of an older one, it does not know when it began.
_SINCE_EVER = -1


class Undo(Struct):
    """The undo of one load. `load` is None if the store has forgotten it."""

    settings: Settings
    number: int
    load: LoadRow | None

    @property
    def _reads(self) -> OperatorReads:
        return bootstrap.store(self.settings).reads()

    @property
    def _horizon(self) -> int:
        return self.load.horizon if self.load and self.load.horizon is not None else _SINCE_EVER

    def preview(self) -> UndoPreview:
        reads = self._reads
        bills = bills_of_load(reads, self.number, self._horizon)
        removed = reads.removed_by_load(self.number, self._horizon)
        return preview(self.number, bills, reads.undone_loads(), removed)

    def readers(self, shop_ids: set[str], now: int) -> list[KeyThatRead]:
        """Return the keys in use that have read the feed or bills of these shops since the load began."""
        reads, since = self._reads, self.load.started_at if self.load else 0
        shops = {
            shop_id: franchise for _, shop_id, franchise in reads.shops_changed(_SINCE_EVER) if shop_id in shop_ids
        }
        copies = reads.copies()
        found = []
        keys = reads.keys()
        for key in keys:
            if key.is_revoked(now):
                continue
            lists = reads.lists_read(key.key_id, since)
            reader = reads_of_shops(key, shops, since, copies.get(key.lineage, []), lists)
            if reader:
                found.append(reader)
        return found

    def take_back(self, void_reason: str | None, actor: Actor, now: int) -> int:
        """Remove the bills, or make them void if there is a reason; return their number.

        Every batch is complete by itself, so if this is killed, another call takes back the rest. Nothing is taken back
        without the audit entry.
        """
        how = "removed" if void_reason is None else "made void"
        detail = f"the bills that load {self.number} added are {how}"
        with closing(bootstrap.store(self.settings).key_store()) as audit:
            changes = {"load": FieldChange(None, self.number), "bills": FieldChange(None, how)}
            audit.record(AuditEntry(at=now, act=Act.LOAD_UNDONE, actor=actor, changes=changes, detail=detail))
        with closing(bootstrap.store(self.settings).ledger()) as ledger:
            return take_back(self._reads, ledger, self.number, self._horizon, void_reason)


def bills_of_load(reads: OperatorReads, load: int, horizon: int) -> Iterator[LoadedBill]:
    """Yield the bills that a load added or changed. It began at this horizon."""
    for shop, shop_id, _ in reads.shops_changed(horizon):
        yield from reads.bills_of_load(load, shop, shop_id, horizon)


def take_back(reads: OperatorReads, ledger: UndoLedger, load: int, horizon: int, void_reason: str | None) -> int:
    """Remove the bills that a load added, or make them void if there is a reason; return their number."""
    count = 0
    for shop, shop_id, _ in reads.shops_changed(horizon):
        bills = reads.bills_of_load(load, shop, shop_id, horizon)
        bill_ids = [bill.bill_id for bill in bills if bill.load == load]
        for start in range(0, len(bill_ids), BILLS_PER_READ):
            # The ledger decides under its lock which of these are taken back.
            count += ledger.undo_bills(load, shop, bill_ids[start : start + BILLS_PER_READ], void_reason)
    ledger.finish_undo(load)
    return count
