"""Converts source lines into bills that are ready to be stored."""

from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct

from counterfoil.domain.batch import encoded_bill
from counterfoil.domain.changes import NO_DAY, EncodedBill, KnownFacts, PutBill
from counterfoil.domain.clean_bills import CleanBillReader
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
    SourceLine,
    parse_record,
)

# Tokens are cached, because computing one takes as long as converting the rest of a small bill, and the same members
# occur in many bills.
MAX_TOKENS = 16_384


class ConvertedBill(Struct, frozen=True, gc=False):
    """A bill, and the properties of its record that a load counts."""

    bill: EncodedBill
    without_items: bool
    without_amounts: bool
    findings: Findings | None = None

    @property
    def is_plain(self) -> bool:
        """True if the bill has no properties that a load counts separately."""
        lacks_parts = self.without_items or self.without_amounts or self.bill.bill_day == NO_DAY
        return not (self.findings or lacks_parts)


class ConvertedLines(Struct, gc=False):
    """Consecutive lines, and the bill on each line that could be converted, or None.

    `special` has the indexes of all lines without a plain bill, in ascending order, each with the converted bill if
    there is one. `facts` are all facts under which the bills were converted.
    """

    lines: list[SourceLine]
    bills: list[EncodedBill | None]
    special: dict[int, ConvertedBill | None]
    facts: list[KnownFacts]

    def parts(self) -> Iterator[tuple[list[SourceLine], list[EncodedBill], ConvertedBill | None]]:
        """Yield each run of lines with their plain bills, and every other line alone, with its bill if there is one."""
        start = 0
        for index, converted in [*self.special.items(), (len(self.lines), None)]:
            if start < index:
                yield self.lines[start:index], [bill for bill in self.bills[start:index] if bill], None
            if index < len(self.lines):
                yield [self.lines[index]], [], converted
            start = index + 1


def converted_lines(lines: list[SourceLine], converted: list[ConvertedBill | None]) -> ConvertedLines:
    bills = [each.bill if each else None for each in converted]
    special = {index: each for index, each in enumerate(converted) if each is None or not each.is_plain}
    facts = {id(bill.known): bill.known for bill in bills if bill}
    return ConvertedLines(lines, bills, special, list(facts.values()))


class BillConverter:
    """Converts lines with bills. `facts` returns the facts of a shop, or None if they are not known."""

    def __init__(self, pseudonyms: Pseudonyms, facts: Callable[[str], KnownFacts | None]) -> None:
        token = lru_cache(maxsize=MAX_TOKENS)(pseudonyms.member_token)
        self._read_clean = CleanBillReader(MAX_ITEMS, facts, token).read
        self._reader = Reader(pseudonyms, facts)

    def convert_clean(self, line: bytes) -> ConvertedBill | None:
        """Return the bill on a line, or None if the line is not a clean bill of a known shop, or is too large."""
        if len(line) > MAX_LINE_BYTES:
            return None
        clean = self._read_clean(line)
        if clean is None or (len(line) > SURELY_SMALL and _is_too_large(clean[0])):
            return None
        return ConvertedBill(*clean)

    def convert(self, line: bytes) -> ConvertedBill | None:
        """Return the bill on a line, or None if the line is rejected, is a removal, or has no bill of a known shop."""
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
