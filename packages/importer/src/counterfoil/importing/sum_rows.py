"""Notices rows of totals that have a number and a time of their own, like bills: below, above or among the bills."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal

from msgspec import Struct, field

from counterfoil.importing.export_totals import TOTALS_ROW
from counterfoil.importing.mapping import ImportMapping
from counterfoil.importing.results import ImportedRecord, ImportFailed, Reason, RejectedRow, SkippedRow
from counterfoil.importing.sentences import sentence

TOTALS, BILLS = "totals", "bills"
# The amounts of a bill are rarely the sums of this many bills above it: at the end of a table, and within it.
FEW_BILLS, MANY_BILLS = 2, 8
SOME_BILLS = 4
"""Nor are those of the first bill the sums of so many below it, or those of one bill a day the sums of the others."""

Amounts = dict[str, Decimal]
"""The amounts of a bill that are not 0, or sums of them."""


def no_sums() -> Amounts:
    return defaultdict(Decimal)


class BillsAbove(Struct):
    """Adds up the bills of a table, to notice a row of totals below them."""

    sales: Amounts = field(default_factory=no_sums)
    voids: Amounts = field(default_factory=no_sums)
    count: int = 0
    doubtful: ImportedRecord | None = None
    """The latest bill, if it is a row of totals unless another bill follows."""
    rejected_line: int = 0

    def passed(self, bill: ImportedRecord, amounts: Amounts) -> Iterator[ImportedRecord | RejectedRow]:
        """Yield the bills of which it is now known what they are."""
        if self.doubtful:
            yield self._added(self.doubtful, amounts_of(self.doubtful))
            self.doubtful = None
        if not self._is_sum(amounts):
            yield self._added(bill, amounts)
        elif self.count >= MANY_BILLS:
            self.rejected_line = bill.line
            yield rejected(bill)
        else:
            self.doubtful = bill

    def _added(self, bill: ImportedRecord, amounts: Amounts) -> ImportedRecord:
        self.count += "net" in amounts
        _add(self.voids if bill.record.get("void") else self.sales, amounts)
        return bill

    def _is_sum(self, amounts: Amounts) -> bool:
        if "net" not in amounts:
            return False
        fewest = FEW_BILLS + 2 if _is_common(amounts) else FEW_BILLS
        return self.count >= fewest and _are_sums(amounts, self.sales, self.voids)


class SumsOfDay(Struct):
    """The largest bill of a day, and the sums of all its bills."""

    sales: Amounts = field(default_factory=no_sums)
    voids: Amounts = field(default_factory=no_sums)
    count: int = 0
    key: str = ""
    line: int = 0
    amounts: Amounts = {}
    last_key: str = ""
    last_line: int = 0

    def add(self, key: str, line: int, amounts: Amounts, *, is_void: bool) -> None:
        self.count += 1
        self.last_key, self.last_line = key, line
        if is_void:
            _add(self.voids, amounts)
            return
        _add(self.sales, amounts)
        if amounts["net"] > self.amounts.get("net", 0):
            self.key, self.line, self.amounts = key, line, amounts

    def has_sum_of(self, fewest: int) -> bool:
        """Return whether the largest bill has the sums of all others, of which there are at least so many."""
        if not self.amounts or self.count - 1 < fewest * (2 if _is_common(self.amounts) else 1):
            return False
        return self.has_sum()

    def has_sum(self) -> bool:
        """Return whether the largest bill has the sums of all others."""
        twice = {name: 2 * amount for name, amount in self.amounts.items()}
        return _are_sums(twice, self.sales, self.voids)


class SumsOfOthers:
    """Finds the bill of a file, or those of its days, that have the sums of all others, wherever they stand."""

    def __init__(self) -> None:
        self._first_line = 0
        self._days: dict[str, SumsOfDay] = {}

    def add(self, key: str, line: int, day: str, amounts: Amounts, *, is_void: bool) -> None:
        if "net" not in amounts:
            return
        self._first_line = self._first_line or line
        if day not in self._days:
            self._days[day] = SumsOfDay()
        self._days[day].add(key, line, amounts, is_void=is_void)

    def found(self) -> Sequence[SumsOfDay]:
        """Return the days, or all of them as one, whose largest bill is a row of totals."""
        whole = self._of_all_days()
        if whole.has_sum_of(SOME_BILLS if whole.line == self._first_line else MANY_BILLS):
            return [whole]
        days = [day for day in self._days.values() if day.count > SOME_BILLS]
        sums = [day for day in days if day.has_sum_of(SOME_BILLS)]
        if len(sums) < FEW_BILLS or len(sums) * 2 < len(days):
            return []
        return self._of_each_day(are_last=sums[0].line == sums[0].last_line)

    def _of_each_day(self, *, are_last: bool) -> Sequence[SumsOfDay]:
        """Return all days with a row of totals, also the days of few bills, now that most days have one."""
        found = [day for day in self._days.values() if day.count > 1 and day.has_sum()]
        for day in found:
            if are_last and day.count == FEW_BILLS:
                # The only bill of the day has the same amounts.
                day.key, day.line = day.last_key, day.last_line
        return found

    def _of_all_days(self) -> SumsOfDay:
        whole = SumsOfDay()
        for day in self._days.values():
            _add(whole.sales, day.sales)
            _add(whole.voids, day.voids)
            whole.count += day.count
            if day.amounts.get("net", 0) > whole.amounts.get("net", 0):
                whole.key, whole.line, whole.amounts = day.key, day.line, day.amounts
        return whole


class SumRows:
    """Notices the rows of totals among the bills of an import. `sums` are the keys of those that are known."""

    def __init__(self, mapping: ImportMapping, sums: frozenset[str] = frozenset()) -> None:
        self._are_checked = not mapping.database and mapping.file.sums != BILLS
        self._are_totals = mapping.file.sums == TOTALS
        self._allowed = mapping.checks.allowed
        self._sums = sums
        self._above: dict[str, BillsAbove] = {}
        self._others: dict[str, SumsOfOthers] = {}

    def passed(self, key: str, bill: ImportedRecord) -> Iterator[ImportedRecord | RejectedRow | SkippedRow]:
        """Yield the bills of which it is now known what they are."""
        if not self._are_checked or bill.record["id"].casefold() in self._allowed:
            yield bill
            return
        if key in self._sums:
            yield SkippedRow(bill.file, bill.line, TOTALS_ROW)
            return
        amounts = amounts_of(bill)
        self.note(key, bill, amounts)
        if bill.file not in self._above:
            self._above[bill.file] = BillsAbove()
        for result in self._above[bill.file].passed(bill, amounts):
            yield self._of_sums(result)

    def note(self, key: str, bill: ImportedRecord, amounts: Amounts) -> None:
        """Add a bill to the sums with which the largest ones are compared."""
        if bill.file not in self._others:
            self._others[bill.file] = SumsOfOthers()
        day, is_void = bill.record.get("closedAt", "")[:10], "void" in bill.record
        self._others[bill.file].add(key, bill.line, day, amounts, is_void=is_void)

    def keys(self) -> frozenset[str]:
        """Return the keys of the rows of totals among the bills that were noted."""
        found = set[str]()
        for others in self._others.values():
            found.update(day.key for day in others.found())
        return frozenset(found)

    def finish(self) -> Iterator[ImportedRecord | RejectedRow | SkippedRow]:
        """Yield the last rows that are totals. Raise `ImportFailed` if another row has the sums of all others."""
        for bills in self._above.values():
            if bills.doubtful:
                bills.rejected_line = bills.doubtful.line
                yield self._of_sums(rejected(bills.doubtful))
        for file, others in self._others.items():
            found = [] if self._are_totals else others.found()
            if found and [day.line for day in found] != [self._above[file].rejected_line]:
                raise ImportFailed(
                    sentence(
                        "{file} has on line {line} a bill of {net}, which is the sum of all other bills of the file "
                        'or of its day, so it may be a row of totals. If it is one, set sums = "totals" in [file] of '
                        'the mapping, so that such rows are left out. If it is a bill, set sums = "bills".',
                        file=file,
                        line=f"{found[0].line:,}",
                        net=f"{found[0].amounts['net']:,f}",
                    )
                )

    def _of_sums(self, found: ImportedRecord | RejectedRow) -> ImportedRecord | RejectedRow | SkippedRow:
        """Return a bill, or what becomes of a row that has the sums of the bills above it."""
        if isinstance(found, RejectedRow) and self._are_totals:
            return SkippedRow(found.file, found.line, TOTALS_ROW)
        return found


def rejected(bill: ImportedRecord) -> RejectedRow:
    return RejectedRow(
        bill.file,
        bill.line,
        Reason.DOUBTFUL_VALUE,
        sentence(
            "has the sums of the bills above it, so it may be a row of totals. If it is, leave such rows out with "
            "[skip]. If it is a bill, add its ID to checks.allowed in the mapping"
        ),
        bill.record["id"],
    )


def amounts_of(bill: ImportedRecord) -> Amounts:
    """Return the amounts of a bill that are not 0."""
    amounts = {}
    for name, text in bill.record.get("amounts", {}).items():
        if name != "vatType":
            amount = Decimal(text)
            if amount:
                amounts[name] = amount
    return amounts


def _add(to: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        to[name] += amount


def _are_sums(amounts: Amounts, sales: Amounts, voids: Amounts) -> bool:
    if all(amount == sales[name] for name, amount in amounts.items()):
        return True
    return all(amount == sales[name] + voids[name] for name, amount in amounts.items())


def _is_common(amounts: Amounts) -> bool:
    """Return whether all amounts are the same round one, which is often the sum of others."""
    return len(set(amounts.values())) == 1 and not amounts["net"] % 1
