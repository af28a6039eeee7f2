"""Leaves out the rows of a table that are no bills: totals, fees, counts, and what an answer says does not count."""

from decimal import Decimal
from itertools import pairwise

from msgspec import Struct

from counterfoil.importer.bills.total_rows import total_rows
from counterfoil.importer.columns import ExportTable, TableColumn, day_of
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport, Refuted
from counterfoil.importer.ranks import TOTAL_ROLES, Ranks
from counterfoil.importing.values import letters_of

ALL_ROWS, ONLY, WITHOUT, SEPARATOR = "all", "only ", "without ", " | "
UNNUMBERED = "unnumbered"
LEAVE_OUT, LINES, NUMBERS_MISSING = "leave out", "lines", "number missing"
BILLS, SUMS_OF_DAYS, COUNTS = "bills", "days", "count"
MOST_WORDS_SHOWN = 3
FEWEST_SUMS_OF_DAYS = 7
"""So many rows of different days may be the sums of days."""


class LeftOutRows(Struct, frozen=True):
    """Rows that are no bills, and why. `rows` are those of `table`."""

    reason: str
    table: ExportTable
    rows: tuple[int, ...]


class KeptRows:
    """The rows of a table that are left after each step, with the roles of its columns, and what was left out."""

    def __init__(self, table: ExportTable, interview: Interview) -> None:
        self._interview = interview
        self._number_name = ""
        self._given_roles: dict[str, str] = {}
        """The roles that answers or values give to columns, such as that of the number of a bill."""
        answer = interview.answers.get("bill")
        if answer:
            self._given_roles = {answer.split(" + ")[-1]: "id"}
        self.left_out: list[LeftOutRows] = []
        self.skipped: dict[str, list[str]] = {}
        """The values by which rows are left out, by their column."""
        self.use(table)

    def use(self, table: ExportTable) -> None:
        """Go on with other rows or cells of the table."""
        self.table = table
        self.ranks = Ranks(table, self._given_roles)

    # --- the number of a bill ------------------------------------------------------------

    @property
    def number(self) -> TableColumn:
        """The column with the number of a bill, once it was found."""
        return self.table.columns[self._number_name]

    def take_number(self, name: str, *, is_new_role: bool) -> None:
        """Take a column as the number of a bill. `is_new_role` says that its heading alone does not show it."""
        self._number_name = name
        if is_new_role:
            self._given_roles = {name: "id"}
            self.ranks = Ranks(self.table, self._given_roles)

    # --- rows that are no bills ------------------------------------------------------------

    def leave_out_answered(self) -> None:
        """Leave out the rows that answers say are no bills or no items."""
        for name in list(self.table.columns):
            answer = self._interview.answer(f"rows.{name}")
            if answer is None or answer == ALL_ROWS:
                continue
            column = self.table.columns[name]
            values = _values_left_out(answer, column)
            if not values:
                raise Refuted(f"rows.{name}", answer, sentence("{name} has no such value", name=name))
            self.skipped[name] = values
            named = ", ".join(value or "empty" for value in values)
            self.leave_out(_rows_with(column, values), sentence("{name} is {values}", name=name, values=named))

    def leave_out_totals(self) -> bool:
        """Leave out rows of totals, and return whether the table ends in one."""
        rows, ends_in_totals = total_rows(self.table, self.ranks)
        if rows:
            self.use(self.table.without(rows))
        return ends_in_totals

    def leave_out_without_number(self) -> None:
        """Leave out rows without a number: fees of a platform, sums of a shift. Their money is shown."""
        rows = _rows_with(self.number, [""])
        self._refuse_items_of_no_bill(rows)
        self._ask_about_bills_without_number(rows)
        self._leave_out_empty(rows, self.number.name)

    def _ask_about_bills_without_number(self, rows: set[int]) -> None:
        """Ask about rows that have all that bills have, but no number."""
        bills = sorted(row for row in rows if self._has_all_of_a_bill(row))
        if not bills or self._interview.is_open(UNNUMBERED):
            return
        text = sentence(
            "Line {line} has all that a bill has, but no {number}. Is it a bill?",
            line=self.table.line(bills[0]),
            number=self.number.name,
        )
        choices = {LEAVE_OUT: sentence("No: leave such rows out")}
        typed = sentence("If it is one, type {answer}.", answer=NUMBERS_MISSING)
        answer = self._interview.choose(UNNUMBERED, "bill", text, choices, free=True, typed=typed, must_confirm=True)
        if answer != LEAVE_OUT:
            raise NeedsOtherReport(
                sentence(
                    "Line {line} of {table} is a bill without {number}. Export the bills with the number of each.",
                    line=self.table.line(bills[0]),
                    table=self.table.name,
                    number=self.number.name,
                )
            )

    def _has_all_of_a_bill(self, row: int) -> bool:
        """Return whether a row has a day, an amount, and the kinds of values that the rows with a number have."""
        dated = self.ranks.with_role("datetime", "tradingDay")
        amounts = self.ranks.with_role(*TOTAL_ROLES)
        if not dated or not any(amount.amount(row) for amount in amounts):
            return False
        if all(self._has_sum_of_rows_above(row, amount) for amount in amounts):
            return False
        numbers = self.number.values
        for column in self.table.columns.values():
            if column is self.number:
                continue
            value = column.values[row]
            others = [other for other, number in zip(column.values, numbers, strict=True) if number]
            if not value and (column in dated or all(others)):
                return False
            are_kinds = len(set(others)) * 2 <= len(others) and not column.is_number
            if value and are_kinds and value not in others:
                return False
        return True

    def _has_sum_of_rows_above(self, row: int, amount: TableColumn) -> bool:
        """Return whether a row without a number has the sum of the bills above it, as that of a shift."""
        total = Decimal()
        for above in reversed(range(row)):
            if not self.number.values[above]:
                break
            total += amount.amount(above)
        return total == amount.amount(row)

    def _refuse_items_of_no_bill(self, rows: set[int]) -> None:
        """Refuse a table if an item has neither the number of a bill nor a day, on one of these rows."""
        items = self.ranks.first("item")
        dated = self.ranks.with_role("datetime", "tradingDay")
        if items is None or not dated:
            return
        for row in rows:
            has_day = any(column.values[row] for column in dated)
            if items.values[row] and not has_day:
                raise NeedsOtherReport(
                    sentence(
                        "Line {line} of {table} has neither a number of a bill nor a day, and nothing shows "
                        "which bill it belongs to. Export the number of the bill on each row.",
                        line=self.table.line(row),
                        table=self.table.name,
                    )
                )

    def leave_out_without_day(self) -> None:
        """Leave out rows without a day, such as counts below the table, if most rows have one, and none is a bill."""
        days = [column for column in self.ranks.with_role("datetime", "tradingDay") if column.filled]
        if len(days) != 1:
            return
        [day] = days
        rows = _rows_with(day, [""])
        if len(rows) * 2 <= len(self.table.rows) and not self.bills_without(day):
            self._leave_out_empty(rows, day.name)

    def leave_out_without(self, column: TableColumn) -> None:
        """Leave out the rows in which a column is empty."""
        self._leave_out_empty(_rows_with(column, [""]), column.name)

    def bills_without(self, column: TableColumn) -> list[int]:
        """Return the rows with a number like that of other bills and an amount, in which a column is empty."""
        numbers = self.number.values
        usual = {letters_of(number) for number, cell in zip(numbers, column.values, strict=True) if number and cell}
        amounts = self.ranks.with_role(*TOTAL_ROLES)
        found = []
        for row in column.rows_with(""):
            has_digits = any(map(str.isdigit, numbers[row]))
            is_usual = not usual or letters_of(numbers[row]) in usual
            if has_digits and is_usual and any(amount.amount(row) for amount in amounts):
                found.append(row)
        return found

    def leave_out_words(self) -> None:
        """Ask about words among the numbers of bills, such as `Z-Report`, and leave out those that are no bills."""
        number = self.number
        question = f"rows.{number.name}"
        if question in self._interview.answers:
            return
        words = [value for value in number.distinct if not any(map(str.isdigit, value))]
        is_minority = 0 < len(words) * 2 < len(number.distinct)
        are_codes = all(value.isalnum() and value.isascii() and value.isupper() for value in number.distinct)
        if not is_minority or are_codes:
            return
        shown = ", ".join(words[:MOST_WORDS_SHOWN])
        text = sentence("{name} has {words}, unlike the others. Are they bills?", name=number.name, words=shown)
        choices = {
            f"{WITHOUT}{SEPARATOR.join(words)}": sentence("No: leave out"),
            ALL_ROWS: sentence("Yes, all rows are bills"),
        }
        typed = sentence(
            "If some of them are, type only the others, such as {example}.", example=f"{WITHOUT}{words[0]}"
        )
        if self._interview.choose(question, "bill", text, choices, free=True, typed=typed) != ALL_ROWS:
            self.leave_out(_rows_with(number, words), sentence("{name} is {words}", name=number.name, words=shown))
            self.skipped.setdefault(number.name, []).extend(words)

    def leave_out(self, rows: set[int], reason: str) -> None:
        """Leave out some rows, and keep the reason to show it with their money."""
        if rows:
            self.left_out.append(LeftOutRows(reason, self.table, tuple(sorted(rows))))
            self.use(self.table.without(rows))

    def _leave_out_empty(self, rows: set[int], name: str) -> None:
        """Leave out the rows in which a column is empty."""
        if rows:
            self.leave_out(rows, sentence("{name} is empty", name=name))
            self.skipped.setdefault(name, []).append("")

    def refuse_summary(self) -> None:
        """Refuse a table with one row per day, or per day and shop, and a number of bills."""
        counts = [column for column in self.table.columns.values() if self.ranks.counts_bills(column)]
        day = self.ranks.first("tradingDay", "datetime")
        self._ask_about_a_row_per_day(day)
        self._ask_about_counts(counts)
        if not counts or day is None or day.has_times or len(self.table.rows) < 2:
            return
        shop = self.ranks.first("shopId")
        cells = [day.values, shop.values] if shop else [day.values]
        is_per_day = len(set(zip(*cells, strict=True))) == len(self.table.rows)
        if is_per_day and self.number in (counts[0], day):
            raise NeedsOtherReport(summary_per_day(self.table, counts[0]))

    def _ask_about_a_row_per_day(self, day: TableColumn | None) -> None:
        """Ask whether rows are bills if each is of another day, as in a list of daily reports."""
        if day is None or len(self.table.rows) < FEWEST_SUMS_OF_DAYS or self.ranks.with_role("item"):
            return
        days = [day_of(value, "dmy") or day_of(value, "mdy") for value in day.values]
        if None in days or len(set(days)) < len(days):
            return
        text = sentence(
            "Each of the {rows} rows is of another day. Is each row a single bill, and not the sum of a day?",
            rows=len(days),
        )
        choices = {BILLS: sentence("Yes, each row is a bill")}
        typed = sentence("If it is the sum of a day, type {answer}.", answer=SUMS_OF_DAYS)
        answer = self._interview.choose("daily", "bill", text, choices, free=True, typed=typed, must_confirm=True)
        if answer != BILLS:
            raise NeedsOtherReport(
                sentence(
                    "{table} has the sums of days. Export a report with a row for each bill.", table=self.table.name
                )
            )

    def _ask_about_counts(self, counts: list[TableColumn]) -> None:
        """Ask whether the number of a bill counts bills, as its heading says, such as `Checks`, if it does not grow."""
        number = self.number
        if number not in counts or self._interview.answer("bill") is not None:
            return
        numbers = list(map(number.amount, range(len(number.values))))
        is_rising = all(first < second for first, second in pairwise(numbers))
        is_falling = all(first > second for first, second in pairwise(numbers))
        if is_rising or is_falling:
            return
        text = sentence(
            "{number} has {first} and {second}. Is it the number of a bill, and no count of bills?",
            number=number.name,
            first=number.values[0],
            second=number.values[1],
        )
        choices = {BILLS: sentence("Yes, each row is a bill")}
        typed = sentence("If it counts bills, type {answer}.", answer=COUNTS)
        answer = self._interview.choose("counts", "bill", text, choices, free=True, typed=typed, must_confirm=True)
        if answer != BILLS:
            raise NeedsOtherReport(
                sentence(
                    "{count} of {table} counts bills. Export a report with a row for each bill.",
                    table=self.table.name,
                    count=number.name,
                )
            )


def summary_per_day(table: ExportTable, count: TableColumn) -> str:
    """Return why a table with a number of bills on each row cannot be imported."""
    return sentence(
        "{table} is a summary per day: {count} counts bills. Export a report with a row for each bill.",
        table=table.name,
        count=count.name,
    )


def _rows_with(column: TableColumn, values: list[str]) -> set[int]:
    return {row for row, value in enumerate(column.values) if value in values}


def _values_left_out(answer: str, column: TableColumn) -> list[str]:
    """Return the values whose rows an answer such as `only Sale` or `without Cash | Visa` leaves out."""
    values = list(column.distinct)
    if not column.is_filled:
        values.append("")
    if not answer.startswith(ONLY):
        named = answer.removeprefix(WITHOUT).split(SEPARATOR)
        return [value for value in values if value in named]
    kept = answer.removeprefix(ONLY).split(SEPARATOR)
    if not set(kept) & set(values):
        return []
    return [value for value in values if value not in kept]
