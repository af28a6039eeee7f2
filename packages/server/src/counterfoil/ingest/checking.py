"""Replaces the ledger and the rejects file with objects that write nothing, so that a delivery is only checked."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

from counterfoil.domain.changes import Change, EncodedBill, KnownFacts, Outcome, PutShop
from counterfoil.domain.intake import Intake
from counterfoil.domain.loads import LoadProgress, RejectedLine
from counterfoil.domain.replacements import ReplacementGuard, Sale, StoredBill, may_be_replaced, sale_of
from counterfoil.domain.shops import settings_kept, shop_from
from counterfoil.domain.tokens import MIN_SECRET_BYTES, Pseudonyms
from counterfoil.ingest.lines import Rejected, SourceLine
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile, Summary
from counterfoil.ingest.sources import Source

MAX_EXAMPLES = 10
BILLS_PER_BATCH = 500
# At most this many delivered bills are remembered, to compare later ones with them.
MAX_DELIVERED = 20_000
# Fewer bills may have the time and the total of others by chance.
FEWEST_SAME = 3

# Returns those of the bills with these IDs, by shop, that the store has, by shop and ID.
FindsBills = Callable[[Mapping[str, Sequence[str]]], Mapping[tuple[str, str], StoredBill]]
# Called with delivered bills, and with those of them that the store has, by shop and ID.
BillsCompared = Callable[[Sequence[EncodedBill], Mapping[tuple[str, str], StoredBill]], None]


class CheckingLedger:
    """A ledger that remembers the shops of a delivery but writes nothing, records no load and closes no items.

    `stored_facts` returns the facts of a shop in the store, `stored_bills` bills of shops, and `intake` the counts of
    earlier loads. An outcome is `OTHER_BILL` or `UNCHANGED`, because only a load can tell whether a record would be
    added or changed.
    """

    def __init__(
        self,
        stored_facts: Callable[[str], KnownFacts | None],
        intake: Callable[[], Intake],
        stored_bills: FindsBills = lambda _: {},
        on_bills: BillsCompared = lambda _bills, _stored: None,
    ) -> None:
        # Nothing is written, so nobody has to be left out.
        self.forgotten: Collection[str] = ()
        self._intake = intake
        self._on_bills = on_bills
        self._stored_facts = stored_facts
        self._delivered: dict[str, KnownFacts] = {}
        self._last_version = 0
        self._stored_bills = stored_bills
        self._delivered_bills: OrderedDict[tuple[str, str], StoredBill] = OrderedDict()

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
                self._put_shop(change)
        if guard is None:
            return [Outcome.UNCHANGED] * len(changes)
        bills = [change for change in changes if isinstance(change, EncodedBill)]
        ids_by_shop: dict[str, list[str]] = {}
        for bill in bills:
            ids_by_shop.setdefault(bill.shop_id, []).append(bill.bill_id)
        stored = self._stored_bills(ids_by_shop)
        guard.known += len(stored)
        self._on_bills(bills, stored)
        outcomes = [self._outcome(change, stored, guard) for change in changes]
        guard.may_write(len(bills))
        return outcomes

    def _put_shop(self, change: PutShop) -> None:
        """Remember the facts. Their version differs from those of the store and from earlier ones of the delivery."""
        shop_id = change.shop.shop_id
        stored, delivered = self._stored_facts(shop_id), self._delivered.get(shop_id)
        facts = settings_kept(change.facts, stored.facts) if stored else change.facts
        if delivered is None or delivered.facts != facts:
            self._last_version -= 1
            self._delivered[shop_id] = KnownFacts(self._last_version, facts)

    def _outcome(
        self, change: Change, stored: Mapping[tuple[str, str], StoredBill], guard: ReplacementGuard
    ) -> Outcome:
        """Compare a bill with the one that was delivered before or is stored, and tell the guard if it is another."""
        if isinstance(change, EncodedBill):
            key = (change.shop_id, change.bill_id)
            known = self._delivered_bills.get(key) or stored.get(key)
            if known and may_be_replaced(known, change) and guard.rejects(known.body, change):
                return Outcome.OTHER_BILL
            self._delivered_bills[key] = StoredBill(change.rev, change.digest, None, change.body)
            if len(self._delivered_bills) > MAX_DELIVERED:
                self._delivered_bills.popitem(last=False)
        return Outcome.UNCHANGED

    def has_same_sales(self, stored_bills: Callable[[set[tuple[str, date]]], Iterable[tuple[str, bytes]]]) -> bool:
        """Return whether the store has most delivered bills, with their times and totals, whatever their IDs are."""
        delivered: Counter[tuple[str, Sale]] = Counter()
        days: set[tuple[str, date]] = set()
        for (shop_id, _), bill in self._delivered_bills.items():
            sale = sale_of(bill.body)
            if sale:
                delivered[shop_id, sale] += 1
                day, _, _ = sale
                days.add((shop_id, day))
        stored: Counter[tuple[str, Sale]] = Counter()
        for shop_id, body in stored_bills(days):
            sale = sale_of(body)
            if sale:
                stored[shop_id, sale] += 1
        same = (delivered & stored).total()
        return same >= FEWEST_SAME and same * 2 > len(self._delivered_bills)

    def rewrite_bills(self, most: int) -> bool:  # noqa: ARG002
        return False

    def change_intake(self, change: Callable[[Intake, int], Intake]) -> Intake:
        return change(self._intake(), 0)

    def close_loaded(self, lines: Mapping[str, int]) -> None:
        """Do nothing."""


class LenientLedger(CheckingLedger):
    """A ledger for records that are not loaded. A shop that is neither stored nor delivered has no settings."""

    unknown_shops: tuple[str, ...] = ()

    def facts(self, shop_id: str) -> KnownFacts:
        found = super().facts(shop_id)
        if found is None:
            self.unknown_shops += (shop_id,)
            found = self._delivered[shop_id] = KnownFacts(0, shop_from({"id": shop_id})[1])
        return found


def checked_records(source: Source, ledger: CheckingLedger, *, is_guarded: bool = False) -> Summary:
    """Return the summary that a load of the source would have. Nothing is written."""
    # No token is shown, so any secret will do.
    pseudonyms = Pseudonyms(bytes(MIN_SECRET_BYTES))
    return Pipeline(ledger, pseudonyms, RejectExamples(), LoadRules(batch=BILLS_PER_BATCH, is_guarded=is_guarded)).load(
        source
    )


class RejectExamples(RejectsFile):
    """Keeps the line numbers and reasons of the first rejects for the summary. It does not write a file."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.examples: list[RejectedLine] = []

    def add(self, line: SourceLine, rejected: Rejected) -> None:
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(RejectedLine(line.source, line.number, rejected.reason, rejected.fields))
