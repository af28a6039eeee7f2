"""Converts source lines into bills that are ready to be stored."""

from collections.abc import Callable
from functools import lru_cache

from counterfoil.domain.changes import EncodedBill, KnownFacts
from counterfoil.domain.clean_bills import CleanBillReader
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.fields import Findings, check_record
from counterfoil.ingest.lines import (
    MAX_ITEMS,
    MAX_LINE_BYTES,
    Reader,
    Rejected,
    is_too_large,
    parse_record,
)

# Tokens are cached, because computing one takes as long as converting the rest of a small bill, and the same members
# occur in many bills.
MAX_TOKENS = 16_384


class BillConverter:
    """Converts lines with bills. `facts` returns the facts of a shop, or None if they are not known."""

    def __init__(self, pseudonyms: Pseudonyms, facts: Callable[[str], KnownFacts | None]) -> None:
        token = lru_cache(maxsize=MAX_TOKENS)(pseudonyms.member_token)
        self._read_clean = CleanBillReader(MAX_ITEMS, facts, token).read
        self._reader = Reader(pseudonyms, facts)

    def convert_clean(self, line: bytes) -> EncodedBill | None:
        """Return the bill on a line, or None if the line is not a clean bill of a known shop, or is too large."""
        bill = self._read_clean(line) if len(line) <= MAX_LINE_BYTES else None
        return None if bill is None or is_too_large(bill, len(line)) else bill

    def convert(self, line: bytes) -> tuple[EncodedBill | None, Findings | None]:
        """Return the bill and its findings. A line that is rejected or has no bill of a known shop has none."""
        if bill := self.convert_clean(line):
            return bill, None
        try:
            record = parse_record(line)
            change = self._reader.change(record, len(line)) if record.get("kind") == "bill" else None
        except Rejected:
            return None, None
        return (change, check_record(record, change)) if isinstance(change, EncodedBill) else (None, None)
