"""The amounts that a table states for its bills, in parts of `SCALE`."""

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from itertools import islice
from math import prod
from typing import Any

from msgspec.structs import replace

from counterfoil.importer.bills import Bills
from counterfoil.importer.columns import SCALE, ExportTable, TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, Refuted
from counterfoil.importer.ranks import AMOUNT_ROLES, CHARGES, DEDUCTIONS, SALE, TOTAL_ROLES, VOID, Ranks, is_flag_column
from counterfoil.importer.series import (
    BILL,
    LINE,
    LINES_ROLE,
    PAYMENTS_ROLE,
    UNKNOWN_ROLE,
    AmountSeries,
    subtracted,
    sums_of,
)
from counterfoil.importer.states import States
from counterfoil.importer.unknown_amounts import MOST_UNKNOWN, shown_by_sums

# A column that differs between the rows of a bill, which are its payments; and one that is the same on all lines of a
# bill, so that it may also be the amount of a line.
ROW, EITHER = "row", "either"
MOST_BILLS = 200
MOST_SEARCHED, MOST_WITH_AMOUNT = 400, 20
PAYMENT_AMOUNTS = ("tendered", "amount", "paid", "total")
# Roles of amounts that may be a part of the bill: of a department, or what is taxed at one rate.
BASES = ("net", "gross", "amount", "exempt")
UNITS = {"units": Decimal(1), "cents": Decimal("0.01"), "thousands": Decimal(1000)}
# Of fewer different totals, only longer ones are asked about, because a bill of less than 3.00 is improbable.
ENOUGH_NUMBERS, LONGER = 3, 3
_CENT = Decimal("0.01")
# Unlike an amount, a time as a spreadsheet writes it has many decimals.
_PARTS_OF_DAY = re.compile(r"[.,]\d{4}")


class StatedAmounts:
    """The amounts of the bills of a table, in parts of `SCALE`."""

    def __init__(
        self,
        bills: Bills,
        states: States,
        interview: Interview,
        lines: ExportTable | None,
        payments: ExportTable | None,
    ) -> None:
        self._bills = bills
        self._states = states
        self._interview = interview
        self._table: ExportTable = bills.table
        self._ranks: Ranks = bills.ranks
        self._lines = lines
        self._payments = payments
        self._ranks_of = {id(table): Ranks(table) for table in (lines, payments) if table is not None}
        self._ranks_of[id(bills.table)] = bills.ranks
        self.state_of_bill = states.by_bill(bills)
        self.factor = UNITS[self._find_unit()]
        self.levels = {name: self._level(column) for name, column in self._table.columns.items()}
        answer = interview.answers.get("net", "")
        if "sum of " in answer:
            self._take_as_lines(answer)

    def ranks(self, table: ExportTable) -> Ranks:
        return self._ranks_of[id(table)]

    @cached_property
    def sales(self) -> list[int]:
        """Some of the bills that count: those that are looked at to find what adds up. Checks hold it for all bills.

        Of many bills, these are the first ones, others from the whole file, and some with each amount.
        """
        sales = self._all_sales
        if len(sales) <= MOST_SEARCHED:
            return sales
        chosen = {*sales[: MOST_SEARCHED // 2], *sales[:: len(sales) * 2 // MOST_SEARCHED + 1]}
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
        firsts = [rows[0] for rows in self._bills.rows]
        positive = [bill for bill in counted if all(one.amount(firsts[bill]) >= 0 for one in totals)]
        return positive or counted

    # --- the unit ---------------------------------------------------------------------------------

    def _find_unit(self) -> str:
        """Return whether amounts are in the currency's unit, or ask."""
        column = self._column_in_doubtful_unit()
        if column is None:
            if answer := self._interview.answer("unit"):
                raise Refuted("unit", answer, sentence("the amounts have decimals"))
            return "units"
        number = next(number for row in range(len(self._table.rows)) if (number := column.number(row)))
        named = self._ranks.names_unit(column)
        units = ["cents", "units", "thousands"] if named else ["units", "cents"]
        choices = {
            unit: sentence("{number} is {number_2}", number=number, number_2=f"{number * UNITS[unit]:,.2f}")
            for unit in units
        }
        text = sentence("Is {column} in the currency's unit, or in another one?", column=column.name)
        return self._interview.choose("unit", "money", text, choices)

    def _column_in_doubtful_unit(self) -> TableColumn | None:
        """Return a column with totals that may be in cents: its heading says so, or all amounts are long and whole."""
        amounts = {
            column: {abs(column.amount(row)) for row in range(len(self._table.rows))} - {0}
            for column in self._table.columns.values()
            if self._ranks.role(column) in AMOUNT_ROLES | {"unitPrice"}
        }
        amounts = {column: numbers for column, numbers in amounts.items() if numbers}
        named = next((column for column in amounts if self._ranks.names_unit(column)), None)
        totals = [column for column in amounts if self._ranks.role(column) in TOTAL_ROLES]
        if named or not totals or not all(column.is_whole for column in amounts):
            return named
        texts = [text for column in (*self._ranks.with_role("currency"), *totals) for text in column.distinct]
        smallest = self._ranks.smallest_in_cents(texts)
        total = max(totals, key=lambda column: len(amounts[column]))
        factor = 1 if len(amounts[total]) >= ENOUGH_NUMBERS else LONGER
        is_long = smallest and all(number >= smallest * factor for column in totals for number in amounts[column])
        return total if is_long else None

    def is_converted(self, column: TableColumn, ranks: Ranks) -> bool:
        is_other = self.factor != 1 and ranks.role(column) != "qty"
        return is_other and (ranks.names_unit(column) or column.is_whole)

    # --- levels -----------------------------------------------------------------------------------

    def _level(self, column: TableColumn) -> str:
        """Return whether the numbers of a column belong to a bill, its lines or its payments, or `EITHER`."""
        bills = self._bills
        if not column.is_number or (not bills.is_flat and not self._has_payment_rows):
            return BILL
        is_same = bills.is_of_bill(column)
        if not bills.is_flat and not is_same:
            return ROW
        role = self._ranks.role(column)
        if not is_same or role in ("qty", "unitPrice") or self._is_product(column):
            return LINE
        # Guests often pay equal parts of a bill, or order things at one price, so that no number of bills is enough.
        # `Order total` is of the bill, but `Order amount` may be that of a line.
        is_named = self._ranks.may_be(column, "id") and not self._ranks.may_be(column, "item") and role != "amount"
        is_shown = bills.is_flat and is_named and not self._has_single_lines
        return EITHER if role in TOTAL_ROLES and not is_shown else BILL

    @cached_property
    def _has_payment_rows(self) -> bool:
        """Whether rows with the same number are parts of one bill, such as payments, and no sale with its void."""
        bills = self._bills
        several = [rows for rows in bills.rows if len(rows) > 1]
        if not several or bills.is_flat:
            return False
        return not all(bills.are_pair(rows) for rows in several) or self._states_are_equal(several)

    def _states_are_equal(self, several: Sequence[list[int]]) -> bool:
        states = [{self._states.of_row(self._bills, row) for row in rows} for rows in several]
        return all(len(found) == 1 for found in states)

    @property
    def _has_single_lines(self) -> bool:
        return self._bills.is_flat and all(len(rows) == 1 for rows in self._bills.rows)

    def _is_product(self, column: TableColumn) -> bool:
        quantity, price = self._ranks.first("qty"), self._ranks.first("unitPrice")
        if quantity is None or price is None:
            return False
        several = [row for rows in self._bills.rows if len(rows) > 1 for row in rows]
        for row in several or range(len(self._table.rows)):
            if abs(column.amount(row) - quantity.amount(row) * price.amount(row)) > _CENT:
                return False
        return True

    def _take_as_lines(self, answer: str) -> None:
        """Take columns as amounts of lines if the sample does not show it, but an answer says so."""
        either = [name for name, level in self.levels.items() if level == EITHER]
        if self._has_single_lines or any(f"sum of {name}" in answer for name in either):
            taxes = [column.name for column in self._ranks.with_role("tax")]
            self.levels |= dict.fromkeys((*either, *taxes), LINE)

    # --- series -----------------------------------------------------------------------------------

    def of(self, column: TableColumn, role: str, level: str = "") -> AmountSeries:
        level = level or self.levels[column.name]
        return self.series(self._table, [column.name], role, BILL if level == EITHER else level)

    def series(
        self,
        table: ExportTable,
        names: Sequence[str],
        role: str,
        level: str,
        title: str = "",
        *,
        is_product: bool = False,
        rate: str = "",
    ) -> AmountSeries:
        """Return the sum or the product of columns for each bill, less a discount at a `rate`. A `-` subtracts."""
        is_own = table is self._table
        columns = [table.columns.get(name) or table.columns[name.removeprefix("-")] for name in names]
        signs = [1 if name in table.columns else -1 for name in names]
        if is_own and level == BILL and len(columns) == 1 and self.factor == 1:
            units, cells = columns[0].units, columns[0].values
            values: list[int | None] = [units[cells[rows[0]]] for rows in self._bills.rows]
            if signs[0] < 0:
                values = [None if value is None else -value for value in values]
            return self._named_series(table, names, columns, signs, role, level, title, values, [1] * len(values))
        values, counts = [], []
        for all_rows in self._bills.rows if is_own else self._rows_in(table):
            rows = all_rows[:1] if is_own and level == BILL else all_rows
            if is_own and level == LINE and self._states.cancelled:
                rows = [row for row in rows if not self._states.is_cancelled(self._bills, row)]
            values.append(self._total(table, columns, signs, rows, is_product=is_product, is_rate=bool(rate)))
            counts.append(len(rows))
        return self._named_series(
            table, names, columns, signs, role, level, title, values, counts, is_product=is_product, rate=rate
        )

    def _named_series(
        self,
        table: ExportTable,
        names: Sequence[str],
        columns: Sequence[TableColumn],
        signs: Sequence[int],
        role: str,
        level: str,
        title: str,
        values: Sequence[int | None],
        counts: Sequence[int],
        *,
        is_product: bool = False,
        rate: str = "",
    ) -> AmountSeries:
        text = " × ".join(names) if is_product else " + ".join(names).replace("+ -", "- ")
        text = f"{' × '.join(names[:-1])} × (1 - {rate})" if rate else text
        title = title or (text if level == BILL else f"sum of {text}")
        cell = self._cell_of(table, columns, signs, level, is_product=is_product, rate=rate)
        plain = tuple(column.name for column in columns) if cell is not None else ()
        prepaid = table is self._table and len(columns) == 1 and self._ranks.is_prepaid(columns[0])
        return AmountSeries(
            title, role, level, tuple(values), plain, cell, is_product, tuple(counts), is_prepaid=prepaid
        )

    def _total(
        self,
        table: ExportTable,
        columns: Sequence[TableColumn],
        signs: Sequence[int],
        rows: Sequence[int],
        *,
        is_product: bool,
        is_rate: bool,
    ) -> int | None:
        if self.factor == 1 and not (is_product or is_rate):
            known = []
            for column, sign in zip(columns, signs, strict=True):
                units, cells_of_column = column.units, column.values
                found = [units[cells_of_column[row]] for row in rows]
                known += [sign * value for value in found if value is not None]
            return sum(known) if known else None
        cells = [[self._in_units(column, row, table) for column in columns] for row in rows]
        if is_rate:
            numbers = [
                prod([number or Decimal() for number in row[:-1]], start=1 - (row[-1] or Decimal()) / 100)
                for row in cells
            ]
        elif is_product:
            numbers = [(row[0] or Decimal()) * (row[1] or Decimal()) for row in cells]
        else:
            numbers = [sign * one for row in cells for sign, one in zip(signs, row, strict=True) if one is not None]
        return round(sum(numbers) * SCALE) if numbers else None

    def _in_units(self, column: TableColumn, row: int, table: ExportTable) -> Decimal | None:
        number = column.number(row)
        return number * self.factor if number is not None and self.is_converted(column, self.ranks(table)) else number

    def _cell_of(
        self,
        table: ExportTable,
        columns: Sequence[TableColumn],
        signs: Sequence[int],
        level: str,
        *,
        is_product: bool,
        rate: str,
    ) -> Any:
        """Return the entry of a mapping that computes a series, or None if a mapping cannot."""
        if table is self._payments:
            # A mapping cannot compute the total of a bill from another file's payments.
            return None
        entries = [self.cell(table, column.name) for column in columns]
        if rate:
            entries[-1] = {"add": [{"constant": "1"}, {"multiply": [rate, {"constant": "-0.01"}]}]}
        entries = [one if sign > 0 else subtracted(one) for sign, one in zip(signs, entries, strict=True)]
        inner = entries[0] if len(entries) == 1 else {"multiply" if is_product or rate else "add": entries}
        return inner if level == BILL else {"sum": inner}

    def cell(self, table: ExportTable, name: str) -> Any:
        """Return the entry of a mapping that reads a column of numbers."""
        column = table.columns[name]
        is_usual = column.numbers == self.usual_numbers
        cell = name if is_usual else {"column": name, "decimal": column.numbers.decimal}
        is_converted = self.is_converted(column, self.ranks(table))
        return {"multiply": [cell, {"constant": str(self.factor)}]} if is_converted else cell

    @cached_property
    def usual_numbers(self) -> Any:
        """How most columns of amounts write numbers."""
        columns = [
            one for one in self._table.columns.values() if one.is_number and self._ranks.role(one) in AMOUNT_ROLES
        ]
        columns = columns or list(self._table.columns.values())
        formats = [one.numbers for one in columns]
        return max(formats, key=formats.count)

    # --- other files ------------------------------------------------------------------------------

    def shared_key(self, table: ExportTable) -> tuple[list[str], list[str]]:
        """Return the columns of bills, and those of another file, that say which bill a row belongs to."""
        number = self._bills.number
        answer = self._interview.answer("lines" if table is self._lines else "payments")
        if answer and answer not in table.columns:
            raise Refuted("lines", answer, sentence("{table} has no column {answer}", table=table.name, answer=answer))
        for names in () if answer else (self._bills.key.columns, (number.name,)):
            if all(name in table.columns for name in names):
                return list(names), list(names)
        firsts = [rows[0] for rows in self._bills.rows]
        ids = self._ranks.with_role("id")
        ids = [one for one in ids if len({one.values[row] for row in firsts}) == len(firsts)]
        for own in (number, *ids):
            for column in [table.columns[answer]] if answer else self.ranks(table).with_role("id"):
                if not set(own.distinct).isdisjoint(column.distinct):
                    return [own.name], [column.name]
        return ([number.name], [answer]) if answer else ([], [])

    def _rows_in(self, table: ExportTable) -> list[list[int]]:
        """Return the rows of another file that belong to each bill."""
        own, foreign = self.shared_key(table)
        if not own:
            return [[] for _ in self._bills.rows]
        by_key: dict[tuple[str, ...], list[int]] = {}
        for row in range(len(table.rows)):
            by_key.setdefault(tuple(table.columns[name].values[row] for name in foreign), []).append(row)
        columns = [self._table.columns[name].values for name in own]
        return [by_key.get(tuple(values[rows[0]] for values in columns), []) for rows in self._bills.rows]

    # --- candidates -------------------------------------------------------------------------------

    def candidates(self) -> list[AmountSeries]:
        return [*self._stated, *self._shown[1], *self.payments()]

    @cached_property
    def _shown(self) -> tuple[list[AmountSeries], list[AmountSeries]]:
        """The charges and discounts, and the sums of columns, that only the arithmetic shows."""
        columns = [
            one for one in self._table.columns.values() if self._ranks.role(one) is None and self.may_be_money(one)
        ]
        unknown = [self.of(column, UNKNOWN_ROLE) for column in columns]
        exempt = [self.of(column, "exempt") for column in self._ranks.with_role("exempt") if column.is_number]
        taxed = [one for one in (*self._stated, *exempt) if one.role in BASES and one.level == BILL]
        return shown_by_sums(self._stated, self._stated_parts, unknown, taxed, self.sales[:MOST_BILLS])

    @cached_property
    def _stated(self) -> list[AmountSeries]:
        ranks = self._ranks
        found = []
        for column in ranks.with_role(*TOTAL_ROLES):
            role = ranks.role(column) or ""
            roles = {BILL: role}
            roles |= {LINE: _role_on_lines(role)} if self._bills.is_flat else {ROW: role}
            level = self.levels[column.name]
            found += [self.of(column, one_role, one) for one, one_role in roles.items() if level in (one, EITHER)]
        found += self._unknown_totals(found)
        lines = self._lines
        for column in self.ranks(lines).with_role(*TOTAL_ROLES) if lines else ():
            role = self.ranks(lines).role(column) or "" if lines else ""
            found.append(self.series(lines or self._table, [column.name], _role_on_lines(role), LINE))
        with_lines = lines or (self._table if self._bills.is_flat else None)
        return found + (self._products(with_lines) if with_lines else [])

    def _unknown_totals(self, found: Sequence[AmountSeries]) -> list[AmountSeries]:
        """Return amounts without a known heading that may be totals: what the payments add up to, or all of them."""
        # Without quantities, a price may be that of a line or of the bill.
        prices = [] if self._ranks.with_role("qty") else self._ranks.with_role("unitPrice")
        others = [one for one in self._table.columns.values() if self._ranks.role(one) is None or one in prices]
        amounts = [one for one in others if self.may_be_money(one) and len(one.distinct) > 1]
        unknown = [self.of(one, UNKNOWN_ROLE) for one in amounts]
        tips = [one for one in self._stated_parts if one.role == "tip" and any(one.values)]
        tipped = [one.plus(*tips) for one in found if tips and one.level == BILL]
        totals = [sums_of([one], self.sales) for one in (*self.payments(), *tipped)]
        equal = [one for one in unknown if one.level == BILL and sums_of([one], self.sales) in totals]
        paid = [replace(one, role="total") for one in equal]
        return paid or unknown[: MOST_UNKNOWN if found else None]

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
        role = ranks.role(column)
        known = (bills.number, bills.closing.day, bills.closing.clock, bills.trading_day)
        is_time = (column.is_serial and any(map(_PARTS_OF_DAY.search, column.distinct))) or column.is_epoch
        if not column.is_number or ranks.heading_state(column) == VOID or is_time:
            return False
        if column.name in {one.name for one in known if one} or column.name in self._states.of_bills:
            return False
        if role is None:
            is_mark = len(column.distinct) > 0 and is_flag_column(column)
            is_reference = bool(column.distinct) and all(map(bills.refers_to_bill, column.distinct))
            is_group = column.is_whole and ranks.names_group(column)
            return not (is_mark or is_reference or is_group or ranks.is_no_amount(column))
        return role != "gross" and role in (*TOTAL_ROLES, "refunded", "unitPrice")

    def parts(self) -> list[AmountSeries]:
        """Return the charges, discounts and fees that the headings or the arithmetic show."""
        return [*self._stated_parts, *self._shown[0]]

    @cached_property
    def _stated_parts(self) -> list[AmountSeries]:
        ranks = self._ranks
        found = [self.of(column, ranks.role(column) or "") for column in ranks.with_role(*CHARGES, *DEDUCTIONS)]
        payments = self._payments
        tip = self.ranks(payments).first("tip") if payments else None
        if payments and tip:
            found.append(self.series(payments, [tip.name], "tip", ROW, f"{tip.name} of the payments"))
        return found

    def payments(self) -> list[AmountSeries]:
        """Return what the payments of a bill add up to, as far as the export states payments."""
        return self._stated_payments

    @cached_property
    def _stated_payments(self) -> list[AmountSeries]:
        ranks = self._ranks
        ways = [one for one in ranks.with_role("wayOfPaying") if any(one.number(row) for row in range(len(one.values)))]
        if {column.name.casefold() for column in ways} <= {"debit", "credit"}:
            # Two sides of an account, and not two cards.
            ways = []
        given = [column.name for column in ways or ranks.with_role("tendered")[:1]]
        change = [f"-{column.name}" for column in ranks.with_role("change")[:1]]
        level = ROW if any(self.levels[name] == ROW for name in given) else BILL
        found = [self.series(self._table, given, PAYMENTS_ROLE, level)] if given else []
        if given and change:
            found.append(self.series(self._table, [*given, *change], PAYMENTS_ROLE, level))
        return found + self._payments_of_file()

    def _payments_of_file(self) -> list[AmountSeries]:
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
            grows += abs(price.amount(row) * few - price.amount(other) * many) <= _CENT * few
    return grows, stays


def _role_on_lines(role: str) -> str:
    return LINES_ROLE if role in ("amount", "total", "paid") else role
