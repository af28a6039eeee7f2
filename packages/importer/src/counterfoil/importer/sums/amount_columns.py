"""The columns of a table as amounts of its bills, in parts of `SCALE`: their unit, their level and their sums."""

from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from math import prod
from typing import Any

from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.columns import SCALE, ExportTable, TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, Refuted
from counterfoil.importer.ranks import AMOUNT_ROLES, TOTAL_ROLES, Ranks
from counterfoil.importer.states.states import CancelledLines, States
from counterfoil.importer.sums.series import BILL, LINE, AmountSeries, subtracted
from counterfoil.importing.values import NumberFormat

# A column that differs between the rows of a bill, which are its payments; and one that is the same on all lines of a
# bill, so that it may also be the amount of a line.
ROW, EITHER = "row", "either"
UNITS = {"units": Decimal(1), "cents": Decimal("0.01"), "thousands": Decimal(1000)}
# Of fewer different totals, only longer ones are asked about, because a bill of less than 3.00 is improbable.
ENOUGH_NUMBERS, LONGER = 3, 3
CENT = Decimal("0.01")


class AmountColumns:
    """The columns of the tables of an export, as amounts of the bills."""

    def __init__(
        self,
        bills: Bills,
        states: States,
        interview: Interview,
        lines: ExportTable | None,
        payments: ExportTable | None,
        cancelled_payments: CancelledLines | None = None,
    ) -> None:
        self._bills = bills
        self._states = states
        self._interview = interview
        self._table: ExportTable = bills.table
        self._ranks: Ranks = bills.ranks
        self._lines = lines
        self._payments = payments
        self._cancelled_payments = cancelled_payments
        self._other_ranks = {id(table): Ranks(table) for table in (lines, payments) if table is not None}
        self.factor = UNITS[self._find_unit()]
        self.levels = {name: self._level(column) for name, column in self._table.columns.items()}
        answer = interview.answers.get("net", "")
        if "sum of " in answer:
            self._take_as_lines(answer)

    def ranks(self, table: ExportTable) -> Ranks:
        return self._ranks if table is self._table else self._other_ranks[id(table)]

    # --- the unit ---------------------------------------------------------------------------------

    def _find_unit(self) -> str:
        """Return whether amounts are in the currency's unit, or ask."""
        column = self._column_in_doubtful_unit()
        if column is None:
            answer = self._interview.answer("unit")
            if answer:
                raise Refuted("unit", answer, sentence("the amounts have decimals"))
            return "units"
        units = ["units", "cents"]
        if self._ranks.names_unit(column):
            units = ["cents", "units", "thousands"]
        numbers = map(column.amount, range(len(self._table.rows)))
        number = next(filter(None, numbers))
        choices = {}
        for unit in units:
            amount = f"{number * UNITS[unit]:,.2f}"
            choices[unit] = sentence("{number} is {number_2}", number=number, number_2=amount)
        text = sentence("Is {column} in the currency's unit, or in another one?", column=column.name)
        return self._interview.choose("unit", "money", text, choices)

    def _column_in_doubtful_unit(self) -> TableColumn | None:
        """Return a column with totals that may be in cents: its heading says so, or all amounts are long and whole."""
        amounts = self._amounts_by_column()
        for column in amounts:
            if self._ranks.names_unit(column):
                return column
        totals = [column for column in amounts if self._ranks.role(column) in TOTAL_ROLES]
        if not totals or not all(column.is_whole for column in amounts):
            return None
        texts: list[str] = []
        for column in (*self._ranks.with_role("currency"), *totals):
            texts += column.distinct
        smallest = self._ranks.smallest_in_cents(texts)
        if not smallest:
            return None
        total = max(totals, key=lambda column: len(amounts[column]))
        if len(amounts[total]) < ENOUGH_NUMBERS:
            smallest *= LONGER
        is_long = all(min(amounts[column]) >= smallest for column in totals)
        return total if is_long else None

    def _amounts_by_column(self) -> dict[TableColumn, set[Decimal]]:
        """Return the different amounts of each column that has some, without their signs."""
        found: dict[TableColumn, set[Decimal]] = {}
        for column in self._table.columns.values():
            if self._ranks.role(column) not in AMOUNT_ROLES | {"unitPrice"}:
                continue
            numbers = {abs(column.amount(row)) for row in range(len(self._table.rows))}
            numbers.discard(Decimal())
            if numbers:
                found[column] = numbers
        return found

    def is_converted(self, column: TableColumn, ranks: Ranks) -> bool:
        """Return whether the amounts of a column are in another unit than that of the currency."""
        is_other = self.factor != 1 and ranks.role(column) != "qty"
        return is_other and (ranks.names_unit(column) or column.is_whole)

    # --- levels -----------------------------------------------------------------------------------

    def _level(self, column: TableColumn) -> str:
        """Return whether the numbers of a column belong to a bill, its lines or its payments, or `EITHER`."""
        bills = self._bills
        if not column.is_number or (not bills.is_flat and not self._has_payment_rows):
            return BILL
        if not bills.is_of_bill(column):
            return LINE if bills.is_flat else ROW
        role = self._ranks.role(column)
        if role in ("qty", "unitPrice") or self._is_product(column):
            return LINE
        if role not in TOTAL_ROLES:
            return BILL
        if bills.repeated.are_parts and not bills.is_flat:
            return ROW
        # `Order total` is of the bill, but `Order amount` may be that of a line.
        names_bill = self._ranks.may_be(column, "id") and not self._ranks.may_be(column, "item") and role != "amount"
        if names_bill and bills.is_flat and not self._has_single_lines:
            return BILL
        # Guests often pay equal parts of a bill, or order things at one price, so that no number of bills is enough.
        return EITHER

    @cached_property
    def _has_payment_rows(self) -> bool:
        """Whether rows with the same number are parts of one bill, such as payments, and no sale with its void."""
        bills = self._bills
        several = [rows for rows in bills.rows if len(rows) > 1]
        if not several or bills.is_flat:
            return False
        return not all(bills.are_pair(rows) for rows in several) or self._states_are_equal(several)

    def _states_are_equal(self, several: Sequence[list[int]]) -> bool:
        """Return whether all rows of each bill have the same state."""
        for rows in several:
            states = {self._states.of_row(self._bills, row) for row in rows}
            if len(states) != 1:
                return False
        return True

    @property
    def _has_single_lines(self) -> bool:
        return self._bills.is_flat and all(len(rows) == 1 for rows in self._bills.rows)

    def _is_product(self, column: TableColumn) -> bool:
        """Return whether a column is quantity by price, on all lines of the bills with several lines, if there are."""
        quantity, price = self._ranks.first("qty"), self._ranks.first("unitPrice")
        if quantity is None or price is None:
            return False
        of_several_lines: list[int] = []
        for rows in self._bills.rows:
            if len(rows) > 1:
                of_several_lines += rows
        for row in of_several_lines or range(len(self._table.rows)):
            product = quantity.amount(row) * price.amount(row)
            if abs(column.amount(row) - product) > CENT:
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
        """Return the amounts of a column of the bills, at its own level unless another one is given."""
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
        columns, signs = [], []
        for name in names:
            is_added = name in table.columns
            columns.append(table.columns[name if is_added else name.removeprefix("-")])
            signs.append(1 if is_added else -1)
        values: list[int | None] = []
        rows_of_bills = self._rows_to_add(table, level)
        if self.factor == 1 and not is_product and not rate:
            values = _sums_of_units(columns, signs, rows_of_bills)
        else:
            for rows in rows_of_bills:
                values.append(self._total(table, columns, signs, rows, is_product=is_product, is_rate=bool(rate)))
        cell = self._cell_of(table, columns, signs, level, is_product=is_product, rate=rate)
        is_column_of_bills = table is self._table and len(columns) == 1
        return AmountSeries(
            name=title or _name(names, level, is_product=is_product, rate=rate),
            role=role,
            level=level,
            values=tuple(values),
            columns=() if cell is None else tuple(column.name for column in columns),
            cell=cell,
            is_product=is_product,
            counts=tuple(map(len, rows_of_bills)),
            is_prepaid=is_column_of_bills and self._ranks.is_prepaid(columns[0]),
        )

    def _rows_to_add(self, table: ExportTable, level: str) -> list[list[int]]:
        """Return the rows whose amounts are those of each bill."""
        if table is not self._table:
            return self._rows_in(table)
        rows_of_bills = self._bills.rows
        if level == BILL:
            return self._first_rows
        if level != LINE or not self._states.cancelled:
            return rows_of_bills
        return [self._without_cancelled(rows) for rows in rows_of_bills]

    def _without_cancelled(self, rows: Sequence[int]) -> list[int]:
        return [row for row in rows if not self._states.is_cancelled(self._bills, row)]

    @cached_property
    def _first_rows(self) -> list[list[int]]:
        """The first row of each bill."""
        return [rows[:1] for rows in self._bills.rows]

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
        """Return what rows of a table add up to, in the currency's unit, or None if no cell has an amount."""
        numbers = []
        for row in rows:
            cells = [self._in_units(column, row, table) for column in columns]
            factors = [number or Decimal() for number in cells]
            if is_rate:
                percent = factors.pop()
                numbers.append(prod(factors, start=1 - percent / 100))
            elif is_product:
                numbers.append(prod(factors, start=Decimal(1)))
            else:
                for number, sign in zip(cells, signs, strict=True):
                    if number is not None:
                        numbers.append(sign * number)
        return round(sum(numbers) * SCALE) if numbers else None

    def _in_units(self, column: TableColumn, row: int, table: ExportTable) -> Decimal | None:
        number = column.number(row)
        if number is not None and self.is_converted(column, self.ranks(table)):
            return number * self.factor
        return number

    # --- entries of a mapping ---------------------------------------------------------------------

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
        entries = []
        for column, sign in zip(columns, signs, strict=True):
            entry = self.cell(table, column.name)
            entries.append(entry if sign > 0 else subtracted(entry))
        if rate:
            entries[-1] = {"add": [{"constant": "1"}, {"multiply": [rate, {"constant": "-0.01"}]}]}
        if len(entries) == 1:
            [amount] = entries
        elif is_product or rate:
            amount = {"multiply": entries}
        else:
            amount = {"add": entries}
        return amount if level == BILL else {"sum": amount}

    def cell(self, table: ExportTable, name: str) -> Any:
        """Return the entry of a mapping that reads a column of numbers."""
        column = table.columns[name]
        cell: Any = name
        if column.numbers != self.usual_numbers:
            cell = {"column": name, "decimal": column.numbers.decimal}
        if self.is_converted(column, self.ranks(table)):
            return {"multiply": [cell, {"constant": str(self.factor)}]}
        return cell

    @cached_property
    def usual_numbers(self) -> NumberFormat:
        """How most columns of amounts write numbers."""
        columns = list(self._table.columns.values())
        amounts = [column for column in columns if column.is_number and self._ranks.role(column) in AMOUNT_ROLES]
        formats = [column.numbers for column in amounts or columns]
        return max(formats, key=formats.count)

    # --- other files ------------------------------------------------------------------------------

    def shared_key(self, table: ExportTable) -> tuple[list[str], list[str]]:
        """Return the columns of bills, and those of another file, that say which bill a row belongs to."""
        kind = "lines" if table is self._lines else "payments"
        answer = self._interview.answer(kind)
        if answer:
            return self._key_of_answer(table, kind, answer)
        for names in (self._bills.key.columns, (self._bills.number.name,)):
            if all(name in table.columns for name in names):
                return list(names), list(names)
        for own in self._numbers_of_bills():
            for column in self.ranks(table).with_role("id"):
                if _share_values(own, column):
                    return [own.name], [column.name]
        return [], []

    def _key_of_answer(self, table: ExportTable, kind: str, answer: str) -> tuple[list[str], list[str]]:
        if answer not in table.columns:
            raise Refuted(kind, answer, sentence("{table} has no column {answer}", table=table.name, answer=answer))
        for own in self._numbers_of_bills():
            if _share_values(own, table.columns[answer]):
                return [own.name], [answer]
        return [self._bills.number.name], [answer]

    def _numbers_of_bills(self) -> list[TableColumn]:
        """Return the number of a bill, and other numbers that are different on all bills."""
        numbers = [self._bills.number]
        for column in self._ranks.with_role("id"):
            values = {column.values[rows[0]] for rows in self._bills.rows}
            if len(values) == len(self._bills.rows):
                numbers.append(column)
        return numbers

    def _rows_in(self, table: ExportTable) -> list[list[int]]:
        """Return the rows of another file that belong to each bill."""
        own, foreign = self.shared_key(table)
        if not own:
            return [[] for _ in self._bills.rows]
        by_key: dict[tuple[str, ...], list[int]] = {}
        foreign_values = [table.columns[name].values for name in foreign]
        cancelled = self._cancelled_payments if table is self._payments else None
        for row, key in enumerate(zip(*foreign_values, strict=True)):
            if cancelled is None or not cancelled.values.get(table.columns[cancelled.column].values[row]):
                by_key.setdefault(key, []).append(row)
        own_values = [self._table.columns[name].values for name in own]
        found = []
        for rows in self._bills.rows:
            key = tuple(values[rows[0]] for values in own_values)
            found.append(by_key.get(key, []))
        return found


def _name(names: Sequence[str], level: str, *, is_product: bool, rate: str) -> str:
    """Return the title of a series, such as `Total`, `sum of Amount` or `sum of Qty × Price`."""
    if rate:
        text = f"{' × '.join(names[:-1])} × (1 - {rate})"
    elif is_product:
        text = " × ".join(names)
    else:
        text = " + ".join(names).replace("+ -", "- ")
    return text if level == BILL else f"sum of {text}"


def _sums_of_units(
    columns: Sequence[TableColumn], signs: Sequence[int], rows_of_bills: Sequence[Sequence[int]]
) -> list[int | None]:
    """Return what the cells of columns add up to on each bill, or None if none of them has an amount."""
    sums: list[int | None] = [None] * len(rows_of_bills)
    for column, sign in zip(columns, signs, strict=True):
        units, cells = column.units, column.values
        for bill, rows in enumerate(rows_of_bills):
            for row in rows:
                value = units[cells[row]]
                if value is not None:
                    sums[bill] = (sums[bill] or 0) + sign * value
    return sums


def _share_values(column: TableColumn, other: TableColumn) -> bool:
    return not set(column.distinct).isdisjoint(other.distinct)
