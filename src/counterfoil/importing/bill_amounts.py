"""The amounts that a sample states for its bills: possible totals, charges and deductions, and payments."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from counterfoil.importing.bill_sample import BillSample
from counterfoil.importing.bill_totals import (
    BILL,
    LINE,
    LINES_ROLE,
    PAYMENTS_ROLE,
    SCALE,
    AmountSeries,
    Total,
    TotalFinding,
    find_total,
)
from counterfoil.importing.column_profiles import SampleColumn, SheetSample
from counterfoil.importing.headings import CHARGES, DEDUCTIONS, SALE, TOTAL_ROLES

# A column that differs between the rows of a bill, which are its payments; and one that is the same on all lines of a
# bill, but on too few bills to be sure.
ROW, EITHER = "row", "either"
ENOUGH_BILLS_WITH_LINES = 5
PAYMENT_AMOUNTS = ("tendered", "amount", "paid", "total")
_CENT = Decimal("0.01")


class BillAmounts:
    """The amounts of the bills of a sample, in units of SCALE."""

    def __init__(self, sample: BillSample, lines: SheetSample | None, payments: SheetSample | None) -> None:
        self._sample = sample
        self._lines = lines
        self._payments = payments
        self.levels = {name: self._level(column) for name, column in sample.sheet.columns.items()}

    @property
    def sales(self) -> list[int]:
        """The numbers of the bills by whose amounts the total is found: neither voided nor refunded."""
        bills = self._sample.bills
        counted = [place for place, bill in enumerate(bills) if self._sample.status_of(bill) == SALE]
        counted = counted or list(range(len(bills)))
        totals = self._sample.sheet.with_role("paid", "total", "net")
        positive = [
            place for place in counted if not any((one.number(bills[place].rows[0]) or 0) < 0 for one in totals)
        ]
        return positive or counted

    def of(self, column: SampleColumn, role: str, level: str | None = None) -> AmountSeries:
        """Return the amounts of a column of the bills file."""
        level = level or self.levels[column.name]
        level = BILL if level == EITHER else level
        cancelled = self._sample.cancelled
        values = []
        for bill in self._sample.bills:
            rows = bill.rows[:1] if level == BILL else bill.rows
            if level == LINE and cancelled:
                rows = [row for row in rows if not cancelled.has(row)]
            values.append(_sum(column.number(row) for row in rows))
        name = column.name if level == BILL else f"sum of {column.name}"
        return AmountSeries(name, role, level, tuple(values), (column.name,))

    def candidates(self) -> list[AmountSeries]:
        """Return everything that may be the total of a bill."""
        sheet = self._sample.sheet
        found = []
        for column in sheet.with_role(*TOTAL_ROLES):
            level = self.levels[column.name]
            if level in (BILL, EITHER):
                found.append(self.of(column, column.role or ""))
            if level in (LINE, EITHER):
                found.append(self.of(column, _role_on_lines(column), LINE))
        if not found:
            amounts = [column for column in sheet.columns.values() if column.role is None and column.is_number]
            found = [self.of(column, "unknown") for column in amounts if len(column.distinct) > 1]
        if self._sample.is_flat:
            found += self._products(sheet, [bill.rows for bill in self._sample.bills])
        if self._lines:
            found += self._sums_of_file(self._lines)
        return found + self.payments()

    def find_total(self, bills: Sequence[int]) -> TotalFinding:
        """Find the total. If it is quantity by price, the sample must show that the price is that of one unit."""
        finding = find_total(self.candidates(), self.parts(), bills)
        product = finding.chosen.base if finding.chosen else None
        if product is None or not product.is_product:
            return finding
        sheet = self._lines or self._sample.sheet
        price = sheet.columns[product.columns[1]]
        grows, stays = _price_changes(sheet, sheet.columns[product.columns[0]], price)
        if stays and not grows:
            return finding
        rows_of_bills = self._rows_in(sheet) if self._lines else [bill.rows for bill in self._sample.bills]
        values = tuple(_sum(price.number(row) for row in rows) for rows in rows_of_bills)
        of_lines = Total(AmountSeries(f"sum of {price.name}", LINES_ROLE, LINE, values, (price.name,)))
        if grows and not stays and not self._lines and self._sample.cancelled is None:
            return TotalFinding(chosen=of_lines, evidence=[f"{price.name} grows with {product.columns[0]}"])
        text = f"The sample does not show whether {price.name} is the price of one unit or of the whole line."
        return TotalFinding(choices=[Total(product), of_lines], question=text)

    def parts(self) -> list[AmountSeries]:
        """Return the charges, discounts and fees that the export states."""
        found = [self.of(column, column.role or "") for column in self._sample.sheet.with_role(*CHARGES, *DEDUCTIONS)]
        tips = self._payments.with_role("tip")[:1] if self._payments else []
        for sheet in (self._payments,) if self._payments and tips else ():
            values = [_sum(tips[0].number(row) for row in rows) for rows in self._rows_in(sheet)]
            found.append(AmountSeries(f"{tips[0].name} of the payments", "tip", ROW, tuple(values)))
        return found

    def payments(self) -> list[AmountSeries]:
        """Return what the payments of a bill add up to, as far as the export states payments."""
        sheet = self._sample.sheet
        ways = [column for column in sheet.with_role("wayOfPaying") if any(map(column.number, range(len(sheet.rows))))]
        given, change = ways or sheet.with_role("tendered")[:1], sheet.with_role("change")[:1]
        found = [self._difference(given, [])] if given else []
        if given and change:
            found.append(self._difference(given, change))
        rows = [one for one in sheet.with_role(*PAYMENT_AMOUNTS) if self.levels[one.name] == ROW]
        found += [self.of(column, PAYMENTS_ROLE) for column in rows[:1]]
        return found + (self._payments_of_file(self._payments) if self._payments else [])

    def _difference(self, plus: Sequence[SampleColumn], minus: Sequence[SampleColumn]) -> AmountSeries:
        rows = [bill.rows[0] for bill in self._sample.bills]
        values = [
            _sum([*(one.number(row) for one in plus), *(-(one.number(row) or 0) for one in minus)]) for row in rows
        ]
        name = " + ".join(one.name for one in plus) + "".join(f" - {one.name}" for one in minus)
        columns = (*(one.name for one in plus), *(f"-{one.name}" for one in minus))
        return AmountSeries(name, PAYMENTS_ROLE, BILL, tuple(values), columns)

    def _payments_of_file(self, sheet: SheetSample) -> list[AmountSeries]:
        amount = next(iter(sheet.with_role(*PAYMENT_AMOUNTS)), None)
        if amount is None:
            return []
        rows_of_bills = self._rows_in(sheet)
        sums: list[tuple[str, list[SampleColumn], int]] = [("the payments", [], 1)]
        sums += [("the payments less change", sheet.with_role("change")[:1], -1)] if sheet.with_role("change") else []
        sums += [("the payments with tips", sheet.with_role("tip")[:1], 1)] if sheet.with_role("tip") else []
        return [
            AmountSeries(
                name,
                PAYMENTS_ROLE,
                BILL,
                tuple(
                    _sum(
                        (amount.number(row) or 0) + sign * sum((one.number(row) or Decimal()) for one in extra)
                        for row in rows
                    )
                    for rows in rows_of_bills
                ),
            )
            for name, extra, sign in sums
        ]

    def _sums_of_file(self, sheet: SheetSample) -> list[AmountSeries]:
        rows_of_bills = self._rows_in(sheet)
        found = [
            AmountSeries(
                f"sum of {column.name}",
                _role_on_lines(column),
                LINE,
                tuple(_sum(column.number(row) for row in rows) for rows in rows_of_bills),
                (column.name,),
            )
            for column in sheet.with_role(*TOTAL_ROLES)
        ]
        return found + self._products(sheet, rows_of_bills)

    def _products(self, sheet: SheetSample, rows_of_bills: Sequence[Sequence[int]]) -> list[AmountSeries]:
        """Return the sum of quantity by price over the lines of a bill."""
        if not sheet.with_role("qty") or not sheet.with_role("unitPrice"):
            return []
        quantity, price = sheet.with_role("qty")[0], sheet.with_role("unitPrice")[0]
        cancelled = self._sample.cancelled if sheet is self._sample.sheet else None
        values = [
            _sum(
                (quantity.number(row) or 0) * (price.number(row) or 0)
                for row in rows
                if cancelled is None or not cancelled.has(row)
            )
            for rows in rows_of_bills
        ]
        name = f"sum of {quantity.name} × {price.name}"
        return [AmountSeries(name, LINES_ROLE, LINE, tuple(values), (quantity.name, price.name), is_product=True)]

    # --- other files -----------------------------------------------------------------

    def shared_key(self, sheet: SheetSample) -> tuple[list[str], list[str]]:
        """Return the columns of bills, and those of another file, that say which bill a row belongs to."""
        key, number = self._sample.key, self._sample.number
        if key is None or number is None:
            return [], []
        if all(name in sheet.columns for name in key.columns):
            return list(key.columns), list(key.columns)
        if number.name in sheet.columns:
            return [number.name], [number.name]
        known = set(number.values)
        fitting = [column.name for column in sheet.with_role("id") if known.intersection(column.distinct)]
        return ([number.name], fitting[:1]) if fitting else ([], [])

    def _rows_in(self, sheet: SheetSample) -> list[list[int]]:
        """Return the rows of another file that belong to each bill."""
        own, foreign = self.shared_key(sheet)
        if not own:
            return [[] for _ in self._sample.bills]
        by_key: dict[tuple[str, ...], list[int]] = {}
        for row in range(len(sheet.rows)):
            by_key.setdefault(tuple(sheet.columns[name].values[row] for name in foreign), []).append(row)
        columns = [self._sample.sheet.columns[name].values for name in own]
        return [by_key.get(tuple(values[bill.rows[0]] for values in columns), []) for bill in self._sample.bills]

    # --- levels ------------------------------------------------------------------------

    def _level(self, column: SampleColumn) -> str:
        """Return whether the numbers of a column belong to a bill, to its lines or to its payments.

        `EITHER` means that they are the same on all lines of a bill, but on too few bills to be sure.
        """
        sample = self._sample
        if not column.is_number:
            return BILL
        if not sample.is_flat:
            return ROW if self._has_payment_rows() and not sample.is_of_bill(column) else BILL
        several = [bill for bill in sample.bills if len(bill.rows) > 1]
        if column.role in ("qty", "unitPrice"):
            return LINE
        if not sample.is_of_bill(column) or self._is_product(column):
            return LINE
        if column.role not in TOTAL_ROLES or len(several) >= ENOUGH_BILLS_WITH_LINES:
            return BILL
        return EITHER if several or column.role == "amount" else BILL

    def _has_payment_rows(self) -> bool:
        """Return whether rows with the same number are payments of one bill, and not two bills with the same number.

        Only a time of day, which the import requires to be the same on all rows of a bill, can show that.
        """
        sample = self._sample
        has_times = sample.clock is not None or (sample.day is not None and sample.day.has_times)
        return has_times and any(not sample.is_of_bill(column) for column in sample.sheet.with_role("method"))

    def _is_product(self, column: SampleColumn) -> bool:
        """Return whether a column is quantity by price on each row."""
        sheet = self._sample.sheet
        quantities, prices = sheet.with_role("qty"), sheet.with_role("unitPrice")
        if not quantities or not prices:
            return False
        several = [row for bill in self._sample.bills if len(bill.rows) > 1 for row in bill.rows]
        rows = several or range(len(sheet.rows))
        return all(
            abs(_number(column, row) - _number(quantities[0], row) * _number(prices[0], row)) <= _CENT for row in rows
        )


def _price_changes(sheet: SheetSample, quantity: SampleColumn, price: SampleColumn) -> tuple[int, int]:
    """Return how often the price of an item grew with its quantity, and how often it stayed the same."""
    first: dict[str, int] = {}
    items = next(iter(sheet.with_role("item", "productId")), None)
    grows = stays = 0
    for row, item in enumerate(items.values if items else ()):
        other = first.setdefault(item, row)
        many, few = _number(quantity, row), _number(quantity, other)
        if many != few and many > 0 and few > 0 and _number(price, row):
            stays += _number(price, row) == _number(price, other)
            grows += abs(_number(price, row) * few - _number(price, other) * many) <= _CENT * few
    return grows, stays


def _number(column: SampleColumn, row: int) -> Decimal:
    return column.number(row) or Decimal()


def _role_on_lines(column: SampleColumn) -> str:
    return LINES_ROLE if column.role in ("amount", "total", "paid") else column.role or ""


def _sum(numbers: Iterable[Decimal | int | None]) -> int | None:
    """Return a sum in units of SCALE, or None if there is no number."""
    known = [number for number in numbers if number is not None]
    return round(sum(known) * SCALE) if known else None
