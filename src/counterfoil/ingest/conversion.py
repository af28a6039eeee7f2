"""Converts lines with bills into the form in which the bills are stored."""

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from counterfoil.domain.batch import encoded_bill
from counterfoil.domain.changes import EncodedBill, KnownFacts, PutBill
from counterfoil.domain.clean_bills import read_clean_bill
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.fields import Findings, check_record, lacks_amounts
from counterfoil.ingest.lines import (
    LONGEST_NAME,
    MAX_ITEMS,
    MAX_LINE_BYTES,
    MAX_RECORD,
    SURELY_SMALL,
    Reader,
    Rejected,
    parse_record,
)

# A token takes as long to compute as everything else in a small bill, and many bills have the same members.
MAX_TOKENS = 16_384


class ConvertedBill(Struct, frozen=True, gc=False):
    """A bill, and the facts about its record that a load counts."""

    bill: EncodedBill
    without_items: bool
    without_amounts: bool
    findings: Findings | None = None


class BillConverter:
    """Converts lines with bills. `facts` returns the facts of a shop, or None if they are not known."""

    def __init__(self, pseudonyms: Pseudonyms, facts: Callable[[str], KnownFacts | None]) -> None:
        self._facts = facts
        self._token = lru_cache(maxsize=MAX_TOKENS)(pseudonyms.member_token)
        self._reader = Reader(pseudonyms, facts)

    def convert_clean(self, line: bytes) -> ConvertedBill | None:
        """Return the bill on a line, or None if the line is anything but a clean bill of a known shop."""
        if len(line) > MAX_LINE_BYTES:
            return None
        change = read_clean_bill(line, MAX_ITEMS, self._facts, self._token)
        if change is None:
            return None
        converted = converted_bill(change, None)
        return None if len(line) > SURELY_SMALL and _is_too_large(converted.bill) else converted

    def convert(self, line: bytes) -> ConvertedBill | None:
        """Return the bill on a line, or None if the line is rejected or is not a bill of a known shop."""
        converted = self.convert_clean(line)
        if converted:
            return converted
        try:
            record = parse_record(line)
            change = self._reader.change(record, len(line)) if record.get("kind") == "bill" else None
        except Rejected:
            return None
        return converted_bill(change, check_record(record, change)) if isinstance(change, PutBill) else None


def converted_bill(change: PutBill, findings: Findings | None) -> ConvertedBill:
    bill = change.closed.bill
    return ConvertedBill(encoded_bill(change), not bill.items, lacks_amounts(bill), findings)


def _is_too_large(bill: EncodedBill) -> bool:
    """Return whether a load would reject the bill because of its size."""
    return len(bill.body) + len(bill.withheld or b"null") + LONGEST_NAME > MAX_RECORD
