"""Replaces the ledger and the rejects file with objects that write nothing, so that a delivery is only checked."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from counterfoil.domain.changes import Change, EncodedBill, KnownFacts, Outcome, PutShop
from counterfoil.domain.control_totals import ControlTotals
from counterfoil.domain.intake import Intake, LoadProgress
from counterfoil.domain.replacements import ReplacementGuard, StoredBill, may_be_replaced
from counterfoil.domain.shops import shop_from
from counterfoil.domain.tokens import MIN_SECRET_BYTES, Pseudonyms
from counterfoil.ingest.conversion import BillConverter
from counterfoil.ingest.lines import Rejected, SourceLine
from counterfoil.ingest.pipeline import RejectsFile

MAX_EXAMPLES = 10
BILLS_PER_BATCH = 500
# At most this many delivered bills are remembered, to compare later ones with them.
MAX_DELIVERED = 20_000


class ComparedBills:
    """Compares delivered bills with the store, or with those delivered before, and tells a guard which are others."""

    def __init__(self, read: Callable[[str, Sequence[str]], dict[str, StoredBill]]) -> None:
        self._read = read
        self._delivered: OrderedDict[tuple[str, str], StoredBill] = OrderedDict()

    def others(self, bills: Sequence[EncodedBill], guard: ReplacementGuard) -> set[int]:
        """Return the positions of the bills that a load would reject, because they are other bills than the stored."""
        stored: dict[tuple[str, str], StoredBill] = {}
        for shop_id in {bill.shop_id for bill in bills}:
            found = self._read(shop_id, [bill.bill_id for bill in bills if bill.shop_id == shop_id])
            stored |= {(shop_id, bill_id): bill for bill_id, bill in found.items()}
        others = set()
        for position, bill in enumerate(bills):
            key = (bill.shop_id, bill.bill_id)
            known = self._delivered.get(key) or stored.get(key)
            if known and may_be_replaced(known, bill) and guard.rejects(known.body, bill):
                others.add(position)
                continue
            self._delivered[key] = StoredBill(bill.rev, bill.digest, bill.body)
            if len(self._delivered) > MAX_DELIVERED:
                self._delivered.popitem(last=False)
        guard.may_write(len(bills))
        return others


class CheckingLedger:
    """A ledger that remembers the shops of a delivery but writes nothing, records no load and closes no items.

    `stored_facts` returns the facts of a shop in the store, `stored_bills` bills of a shop, and `intake` the counts of
    earlier loads. An outcome is `OTHER_BILL` or `UNCHANGED`, because only a load can tell whether a record would be
    added or changed.
    """

    def __init__(
        self,
        stored_facts: Callable[[str], KnownFacts | None],
        intake: Callable[[], Intake],
        stored_bills: Callable[[str, Sequence[str]], dict[str, StoredBill]] = lambda _shop, _bills: {},
    ) -> None:
        self._intake = intake
        self._stored_facts = stored_facts
        self._delivered: dict[str, KnownFacts] = {}
        self._bills = ComparedBills(stored_bills)

    def facts(self, shop_id: str) -> KnownFacts | None:
        return self._delivered.get(shop_id) or self._stored_facts(shop_id)

    def begin_load(self, source: str) -> LoadProgress:  # noqa: ARG002
        return LoadProgress(0)

    def stop_load(self, number: int, changed: int) -> None:
        """Do nothing."""

    def apply(
        self,
        changes: Sequence[Change],
        progress: LoadProgress | None = None,  # noqa: ARG002
        guard: ReplacementGuard | None = None,
    ) -> list[Outcome]:
        for change in changes:
            if isinstance(change, PutShop):
                self._delivered[change.shop.shop_id] = KnownFacts(0, change.facts)
        outcomes = [Outcome.UNCHANGED] * len(changes)
        if guard:
            bills = [(position, one) for position, one in enumerate(changes) if isinstance(one, EncodedBill)]
            for other in self._bills.others([bill for _, bill in bills], guard):
                outcomes[bills[other][0]] = Outcome.OTHER_BILL
        return outcomes

    def rewrite_bills(self, most: int) -> bool:  # noqa: ARG002
        return False

    def change_intake(self, change: Callable[[Intake, int], Intake]) -> Intake:
        return change(self._intake(), 0)

    def close_loaded(self, lines: Mapping[str, int]) -> None:
        """Do nothing."""


class RecordTotals:
    """Adds up bills that are not loaded, as a load would store them. A shop that is not known has no settings."""

    def __init__(self, stored_facts: Callable[[str], KnownFacts | None], bills: ComparedBills | None = None) -> None:
        self._stored_facts = stored_facts
        self._delivered: dict[str, KnownFacts] = {}
        self._bills = bills
        self._waiting: list[EncodedBill] = []
        self.guard = ReplacementGuard(is_export=True)
        # No token is shown, so any secret will do.
        self._convert = BillConverter(Pseudonyms(bytes(MIN_SECRET_BYTES)), self._facts).convert
        self.totals = ControlTotals()
        self.unusable = 0
        """The number of bills that a load would reject."""
        self.unknown_shops: list[str] = []
        """The shops that are neither in the store nor in the delivery. Their days are in the default time zone."""

    def add(self, record: dict[str, Any], line: bytes) -> None:
        if record["kind"] == "shop":
            facts = shop_from(record)[1]
            self._delivered[facts.shop_id] = KnownFacts(0, facts)
        elif record["kind"] == "bill":
            bill, _ = self._convert(line)
            if bill:
                self._waiting.append(bill)
            else:
                self.unusable += 1
            if len(self._waiting) >= BILLS_PER_BATCH:
                self.finish()

    def finish(self) -> None:
        """Add up the bills since the last call. A bill that a load would reject adds nothing."""
        others = self._bills.others(self._waiting, self.guard) if self._bills else set()
        if self.guard.is_exceeded:
            # The load is stopped, so the totals are those of the delivery.
            others = set()
        self.totals.add(bill.counted for position, bill in enumerate(self._waiting) if position not in others)
        self._waiting.clear()

    def _facts(self, shop_id: str) -> KnownFacts:
        if shop_id not in self._delivered:
            found = self._stored_facts(shop_id)
            if found is None:
                self.unknown_shops.append(shop_id)
            self._delivered[shop_id] = found or KnownFacts(0, shop_from({"id": shop_id})[1])
        return self._delivered[shop_id]


class RejectExamples(RejectsFile):
    """Keeps the line numbers and reasons of the first rejects for the summary. It does not write a file."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.examples: list[dict[str, object]] = []

    def add(self, line: SourceLine, rejected: Rejected) -> None:
        if len(self.examples) < MAX_EXAMPLES:
            found = {"source": line.source, "line": line.number, "reason": rejected.reason}
            self.examples.append({**found, "fields": list(rejected.fields)})
