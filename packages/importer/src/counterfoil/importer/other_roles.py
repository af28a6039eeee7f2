"""Returns which other roles the values of a column fit, and the bill that refutes each of the rest.

Only values refute a role here. A role that no value refutes is one that headings or answers decide.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from counterfoil.importer.bills.date_orders import readable_order
from counterfoil.importer.columns import TableColumn, day_of
from counterfoil.importer.form import OtherRole, sentence
from counterfoil.importer.ranks import SALE
from counterfoil.importer.solver import ExportReading
from counterfoil.importer.sums.series import TOLERANCE
from counterfoil.importer.sums.taxes import TAX_RATES

HIGHEST_TAX = max(TAX_RATES)
_STATES = ("state", "status")
_TIMES = ("datetime", "time", "tradingDay")


class OtherRoles(Struct, frozen=True):
    """What the bills of a reading say about the roles that its columns do not have."""

    reading: ExportReading
    money: Callable[[int], str]
    """Returns an amount as text."""
    is_net_asked: bool
    """Whether it is not known yet what was paid."""

    def of(self, name: str, role: str) -> Iterator[OtherRole]:
        """Yield the roles that a column with this role does not have."""
        column = self.reading.bills.table.columns.get(name)
        if column is None or not column.filled:
            return
        is_code = not column.is_number or all(map(str.isdigit, column.distinct))
        if is_code and self.reading.bills.number.name != name:
            yield OtherRole("id", self._shared_value(column))
        if column.is_number and role != "net":
            yield from self._amounts(column, role)
        if role not in _TIMES and (self._is_dated(column) or not column.is_number):
            yield OtherRole("datetime", self._value_without_day(column))
        if not is_code:
            return
        if role not in _STATES:
            yield OtherRole("state", self._different_values(column))
        if self.reading.bills.shop is not column and role != "shopId":
            yield OtherRole("shopId", self._different_values(column))

    def _amounts(self, column: TableColumn, role: str) -> Iterator[OtherRole]:
        if self.is_net_asked:
            # Nothing that is paid in part can be compared with what was paid.
            yield OtherRole("net", "")
            return
        amounts = self.reading.amounts.of(column, "").values
        yield OtherRole("net", self._other_amount(amounts))
        if role == "id":
            return
        tip = self.reading.tip
        is_tip = role == "tip" or (tip is not None and column.name in tip.columns)
        if not is_tip:
            yield OtherRole("tip", self._amount_above_paid(amounts))
        if role != "tax":
            yield OtherRole("tax", self._amount_above_tax(amounts))

    def _other_amount(self, amounts: Sequence[int | None]) -> str:
        """Return a sentence about a bill for which something else was paid, or an empty text if there is none."""
        for bill in self.reading.counted:
            paid, amount = self.reading.net.values[bill], amounts[bill] or 0
            if paid is not None and abs(amount - paid) > TOLERANCE:
                return sentence(
                    "bill {bill}: {amount} here, but {paid} was paid",
                    bill=self.reading.bills.name_of(bill),
                    amount=self.money(amount),
                    paid=self.money(paid),
                )
        return ""

    def _amount_above_paid(self, amounts: Sequence[int | None]) -> str:
        """Return a sentence about a bill with more than what was paid for it, or an empty text if there is none."""
        for bill in self._paid_bills():
            paid, amount = self.reading.net.values[bill] or 0, amounts[bill] or 0
            if amount > paid + TOLERANCE:
                return sentence(
                    "bill {bill}: {amount} is more than the {paid} that was paid",
                    bill=self.reading.bills.name_of(bill),
                    amount=self.money(amount),
                    paid=self.money(paid),
                )
        return ""

    def _amount_above_tax(self, amounts: Sequence[int | None]) -> str:
        """Return a sentence about a bill with more than any tax takes, or an empty text if there is none."""
        for bill in self._paid_bills():
            paid, amount = self.reading.net.values[bill] or 0, amounts[bill] or 0
            if (amount - TOLERANCE) * 100 > paid * HIGHEST_TAX:
                return sentence(
                    "bill {bill}: {amount} is more than {percent} of the {paid} that was paid, and no known tax is",
                    bill=self.reading.bills.name_of(bill),
                    amount=self.money(amount),
                    percent=f"{HIGHEST_TAX}%",
                    paid=self.money(paid),
                )
        return ""

    def _paid_bills(self) -> Iterator[int]:
        """Yield the bills for which something was paid."""
        reading = self.reading
        for bill in reading.counted:
            is_sale = reading.state_of_bill[bill] == SALE
            if is_sale and (reading.net.values[bill] or 0) > 0:
                yield bill

    def _shared_value(self, column: TableColumn) -> str:
        """Return a sentence about two bills with the same value, or an empty text if each bill has its own."""
        bills = self.reading.bills
        first: dict[str, int] = {}
        for bill in self.reading.counted:
            value = column.values[bills.rows[bill][0]]
            other = first.setdefault(value, bill)
            if other == bill:
                continue
            names = {"first": bills.name_of(other), "second": bills.name_of(bill)}
            if not value:
                return sentence("bills {first} and {second} have no value", **names)
            return sentence("bills {first} and {second} have the same value", **names)
        return ""

    def _different_values(self, column: TableColumn) -> str:
        """Return a sentence if no two bills have the same value, or else an empty text."""
        bills, counted = self.reading.bills, self.reading.counted
        if len(counted) < 2 or len(column.counts) < len(counted):
            return ""
        values = {column.values[bills.rows[bill][0]] for bill in counted}
        if len(values) < len(counted):
            return ""
        return sentence("no two of the {count} bills have the same value", count=f"{len(counted):,}")

    def _is_dated(self, column: TableColumn) -> bool:
        return column.is_date or column.is_serial or column.is_epoch

    def _value_without_day(self, column: TableColumn) -> str:
        """Return a sentence about a bill whose value cannot be read as a date, or an empty text if there is none."""
        if self._is_dated(column):
            return ""
        bills, order = self.reading.bills, readable_order(self.reading.bills.order)
        for bill in self.reading.counted:
            value = column.values[bills.rows[bill][0]]
            if value and day_of(value, order) is None:
                return sentence("bill {bill}: {value} is no date", bill=bills.name_of(bill), value=value)
        return ""
