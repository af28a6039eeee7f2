"""The amounts that a table states for its bills: possible totals, charges and deductions, and payments."""

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import islice

from msgspec.structs import replace

from counterfoil.importer.columns import ExportTable, TableColumn
from counterfoil.importer.ranks import CHARGES, DEDUCTIONS, REFUND, SALE, TOTAL_ROLES, VOID, Ranks, is_flag_column
from counterfoil.importer.sums.amount_columns import CENT, EITHER, ROW, AmountColumns
from counterfoil.importer.sums.running_totals import running_totals
from counterfoil.importer.sums.series import BILL, LINE, LINES_ROLE, PAYMENTS_ROLE, UNKNOWN_ROLE, AmountSeries, sums_of
from counterfoil.importer.sums.unknown_amounts import MOST_UNKNOWN, kept_back, shown_by_sums

MOST_BILLS = 200
MOST_SEARCHED, MOST_WITH_AMOUNT = 400, 20
PAYMENT_AMOUNTS = ("tendered", "amount", "paid", "total")
# Roles of amounts that may be a part of the bill: of a department, or what is taxed at one rate.
BASES = ("net", "gross", "amount", "exempt")
# Unlike an amount, a time as a spreadsheet writes it has many decimals.
_PARTS_OF_DAY = re.compile(r"[.,]\d{4}")


class StatedAmounts(AmountColumns):
    """The amounts that the tables of an export state for the bills."""

    @cached_property
    def state_of_bill(self) -> list[str]:
        return self._states.by_bill(self._bills)

    @cached_property
    def sales(self) -> list[int]:
        """Some of the bills that count: those that are looked at to find what adds up. Checks hold it for all bills.

        Of many bills, these are the first ones, others from the whole file, and some with each amount.
        """
        sales = self._all_sales
        if len(sales) <= MOST_SEARCHED:
            return sales
        chosen = set(sales[: MOST_SEARCHED // 2])
        chosen.update(sales[:: len(sales) * 2 // MOST_SEARCHED + 1])
        for column in self._table.columns.values():
            if column.is_number:
                with_amount = (bill for bill in sales if any(column.number(row) for row in self._bills.rows[bill]))
                chosen.update(islice(with_amount, MOST_WITH_AMOUNT))
        return sorted(chosen)

    @cached_property
    def _all_sales(self) -> list[int]:
        """The bills by whose amounts the total is found: neither voided nor refunded."""
        all_bills = range(len(self._bills.rows))
        counted = [bill for bill in all_bills if self.state_of_bill[bill] == SALE] or list(all_bills)
        totals = self._ranks.with_role("paid", "total", "net")
        positive = []
        for bill in counted:
            first_row = self._bills.rows[bill][0]
            if all(total.amount(first_row) >= 0 for total in totals):
                positive.append(bill)
        return positive or counted

    @cached_property
    def _running_totals(self) -> frozenset[str]:
        return running_totals(self._bills)

    def is_shown_by_refunds(self, column: TableColumn) -> bool:
        """Return whether a discount, for example, is the difference of two totals on each refund that has one."""
        parts = self.of(column, "").values
        refunds = [bill for bill, state in enumerate(self.state_of_bill) if state == REFUND and parts[bill]]
        for bill in refunds:
            totals, charges = set[int](), 0
            for series in self._stated:
                if column.name not in series.columns:
                    totals.add(abs(series.values[bill] or 0))
            for series in self._stated_parts:
                if series.role in CHARGES and column.name not in series.columns:
                    charges += abs(series.values[bill] or 0)
            part = abs(parts[bill] or 0)
            if not any({total + part, total + part - charges} & totals for total in totals if total):
                return False
        return bool(refunds)

    # --- candidates -------------------------------------------------------------------------------

    def candidates(self) -> list[AmountSeries]:
        """Return the amounts that may be what the customer paid."""
        return [*self._stated, *self._shown[1], *self.payments()]

    @cached_property
    def _shown(self) -> tuple[list[AmountSeries], list[AmountSeries]]:
        """The charges and discounts, and the sums of columns, that only the arithmetic shows."""
        without_role = [column for column in self._table.columns.values() if self._ranks.role(column) is None]
        unknown = [self.of(column, UNKNOWN_ROLE) for column in without_role if self.may_be_money(column)]
        exempt = [self.of(column, "exempt") for column in self._ranks.with_role("exempt") if column.is_number]
        taxed = [amount for amount in (*self._stated, *exempt) if amount.role in BASES and amount.level == BILL]
        return shown_by_sums(self._stated, self._stated_parts, unknown, taxed, self.sales[:MOST_BILLS])

    @cached_property
    def _stated(self) -> list[AmountSeries]:
        found = self._totals_of_columns()
        found += self._unknown_totals(found)
        lines = self._lines
        if lines is not None:
            ranks = self.ranks(lines)
            for column in ranks.with_role(*TOTAL_ROLES):
                found.append(self.series(lines, [column.name], _role_on_lines(ranks.role(column) or ""), LINE))
            return found + self._products(lines)
        return found + (self._products(self._table) if self._bills.is_flat else [])

    def _totals_of_columns(self) -> list[AmountSeries]:
        """Return the columns whose heading is one of a total, at each level at which it may be read."""
        found = []
        for column in self._ranks.with_role(*TOTAL_ROLES):
            if column.name in self._running_totals:
                continue
            role = self._ranks.role(column) or ""
            level = self.levels[column.name]
            if level in (BILL, EITHER):
                found.append(self.of(column, role, BILL))
            if self._bills.is_flat and level in (LINE, EITHER):
                found.append(self.of(column, _role_on_lines(role), LINE))
            if not self._bills.is_flat and level in (ROW, EITHER):
                found.append(self.of(column, role, ROW))
        return found

    def _unknown_totals(self, found: Sequence[AmountSeries]) -> list[AmountSeries]:
        """Return amounts without a known heading that may be totals: what the payments add up to, or all of them."""
        ranks = self._ranks
        # Without quantities, a price may be that of a line or of the bill.
        prices = [] if ranks.with_role("qty") else ranks.with_role("unitPrice")
        unknown = []
        for column in self._table.columns.values():
            has_no_role = ranks.role(column) is None or column in prices
            if has_no_role and self.may_be_money(column) and len(column.distinct) > 1:
                unknown.append(self.of(column, UNKNOWN_ROLE))
        tips = [part for part in self._stated_parts if part.role == "tip" and any(part.values)]
        totals = list(self.payments())
        if tips:
            totals += [total.plus(*tips) for total in found if total.level == BILL]
        sums = [sums_of([total], self.sales) for total in totals]
        equal = [amount for amount in unknown if amount.level == BILL and sums_of([amount], self.sales) in sums]
        if equal:
            return [replace(amount, role="total") for amount in equal]
        return unknown[:MOST_UNKNOWN] if found else unknown

    def _products(self, table: ExportTable) -> list[AmountSeries]:
        """Return quantity by price, and the same less a discount in per cent."""
        ranks = self.ranks(table)
        quantity, price = ranks.first("qty"), ranks.first("unitPrice")
        if quantity is None or price is None:
            return []
        grows, stays = price_changes(ranks, quantity, price)
        is_of_line = bool(grows and not stays)
        names = [price.name] if is_of_line else [quantity.name, price.name]
        found = [self.series(table, names, LINES_ROLE, LINE, is_product=not is_of_line)]
        for name, column in table.columns.items():
            if column.is_number and ranks.is_rate_of_discount(column):
                found.append(self.series(table, [*names, name], LINES_ROLE, LINE, rate=name))
        return found

    def may_be_money(self, column: TableColumn, table: ExportTable | None = None) -> bool:
        """Return whether a column may have sums of money, beside the charges and deductions that are known."""
        bills, ranks = self._bills, self.ranks(table or self._table)
        if not column.is_number or ranks.heading_state(column) == VOID or _has_times(column):
            return False
        known = (bills.number, bills.closing.day, bills.closing.clock, bills.trading_day)
        names = {one.name for one in known if one} | {*bills.key.columns} | self._running_totals
        if column.name in names or column.name in self._states.of_bills:
            return False
        role = ranks.role(column)
        if role is not None:
            return role != "gross" and role in (*TOTAL_ROLES, "refunded", "unitPrice")
        is_mark = len(column.distinct) > 0 and is_flag_column(column)
        is_reference = bool(column.distinct) and all(map(bills.refers_to_bill, column.distinct))
        is_group = column.is_whole and (ranks.names_group(column) or ranks.is_bare_number(column))
        return not (is_mark or is_reference or is_group or column.counts_rows or ranks.is_no_amount(column))

    def parts(self) -> list[AmountSeries]:
        """Return the charges, discounts and fees that the headings or the arithmetic show."""
        return [*self._stated_parts, *self._shown[0]]

    @cached_property
    def _stated_parts(self) -> list[AmountSeries]:
        ranks = self._ranks
        found = [self.of(column, ranks.role(column) or "") for column in ranks.with_role(*CHARGES, *DEDUCTIONS)]
        kept = kept_back(self._totals_of_columns(), found, self.sales[:MOST_BILLS])
        found = [replace(part, role="fee") if part.name in kept else part for part in found]
        payments = self._payments
        tip = self.ranks(payments).first("tip") if payments else None
        if payments and tip:
            title = f"{tip.name} of the payments"
            of_payments = self.series(payments, [tip.name], "tip", ROW, title)
            cell = {"sum": self.cell(payments, tip.name), "over": "payments"}
            found.append(replace(of_payments, columns=(title,), cell=cell))
        return found

    # --- payments ---------------------------------------------------------------------------------

    def payments(self) -> list[AmountSeries]:
        """Return what the payments of a bill add up to, as far as the export states payments."""
        return self._stated_payments

    @cached_property
    def _stated_payments(self) -> list[AmountSeries]:
        ranks = self._ranks
        ways = [column for column in ranks.with_role("wayOfPaying") if _has_amounts(column)]
        if {column.name.casefold() for column in ways} <= {"debit", "credit"}:
            # Two sides of an account, and not two cards.
            ways = []
        given = [column.name for column in ways or ranks.with_role("tendered")[:1]]
        change = [f"-{column.name}" for column in ranks.with_role("change")[:1]]
        levels = [BILL]
        if any(self.levels[name] == ROW for name in given):
            levels = [ROW]
        elif self._has_payment_rows and not ways:
            # Guests who each paid the same part of a bill have rows that are equal, too.
            levels = [BILL, ROW]
        found = []
        for level in levels if given else ():
            found.append(self.series(self._table, given, PAYMENTS_ROLE, level))
            if change:
                found.append(self.series(self._table, [*given, *change], PAYMENTS_ROLE, level))
        return found + self._payments_of_file()

    def _payments_of_file(self) -> list[AmountSeries]:
        """Return what the payments of a file of their own add up to, also less change, and with tips."""
        other = self._payments
        if other is None:
            return []
        ranks = self.ranks(other)
        amount = ranks.first(*PAYMENT_AMOUNTS)
        if amount is None:
            return []
        found = [self.series(other, [amount.name], PAYMENTS_ROLE, BILL, "the payments")]
        if change := ranks.first("change"):
            names = [amount.name, f"-{change.name}"]
            found.append(self.series(other, names, PAYMENTS_ROLE, BILL, "the payments less change"))
        if tip := ranks.first("tip"):
            found.append(self.series(other, [amount.name, tip.name], PAYMENTS_ROLE, BILL, "the payments with tips"))
        return found


def price_changes(ranks: Ranks, quantity: TableColumn, price: TableColumn) -> tuple[int, int]:
    """Return how often the price of an item grew with its quantity, and how often it stayed the same."""
    first: dict[str, int] = {}
    items = ranks.first("item", "productId")
    grows = stays = 0
    for row, item in enumerate(items.values if items else ()):
        other = first.setdefault(item, row)
        many, few = quantity.amount(row), quantity.amount(other)
        if many != few and many > 0 and few > 0 and price.amount(row):
            stays += price.amount(row) == price.amount(other)
            grows += abs(price.amount(row) * few - price.amount(other) * many) <= CENT * few
    return grows, stays


def _has_times(column: TableColumn) -> bool:
    """Return whether numbers are times, as a spreadsheet or a program writes them."""
    is_part_of_day = column.is_serial and any(map(_PARTS_OF_DAY.search, column.distinct))
    return is_part_of_day or column.is_epoch


def _role_on_lines(role: str) -> str:
    return LINES_ROLE if role in ("amount", "total", "paid") else role


def _has_amounts(column: TableColumn) -> bool:
    return any(map(column.amount, range(len(column.values))))
