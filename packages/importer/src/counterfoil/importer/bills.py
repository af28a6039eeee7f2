"""Groups the rows of a table into bills: their number, what is filled down, their day, their shop and their lines."""

from collections.abc import Sequence
from datetime import date
from functools import cached_property
from itertools import pairwise, permutations

from msgspec import Struct

from counterfoil.importer import bill_keys
from counterfoil.importer.bill_keys import BillKey
from counterfoil.importer.closing_times import ClosingTime, find_closing_time
from counterfoil.importer.columns import FEW_VALUES, ExportTable, TableColumn, day_of, rows_by
from counterfoil.importer.date_orders import DateOrder
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport, Refuted
from counterfoil.importer.ranks import NUMBER_ROLES, REFUND, SALE, TOTAL_ROLES, VOID, Ranks
from counterfoil.importer.total_rows import total_rows
from counterfoil.importing.values import AUTO, DATE_ORDERS

MOST_CHOICES = 4
ALL_ROWS, ONLY, WITHOUT, SEPARATOR = "all", "only ", "without ", " | "
ONE_SHOP = "one shop"
MANY_SHOPS = 10
MOST_DAYS = 3


class LeftOutRows(Struct, frozen=True):
    """Rows that are no bills, and why. `rows` are those of `table`."""

    reason: str
    table: ExportTable
    rows: tuple[int, ...]


class Context(Struct, frozen=True):
    """What is known beside the files."""

    today: date
    timezone: str | None = None
    names_shop: bool = False
    """Whether the caller names the shop of all bills."""


class Bills:
    """The bills of a table, with what identifies each, and when it was closed."""

    def __init__(self, table: ExportTable, interview: Interview, context: Context, *, has_line_file: bool) -> None:
        self._interview = interview
        self._context = context
        self._has_line_file = has_line_file
        self.left_out: list[LeftOutRows] = []
        self.skipped: dict[str, list[str]] = {}
        """The values by which rows are left out, by their column."""
        self.filled_down: list[str] = []
        self.line_marks: list[str] = []
        """Columns with a void on the first row of bills that is that of the line."""
        self.is_number_guessed = False
        self._is_number_asked = "bill" in interview.answers
        self._use(table)
        self._leave_out_answered()
        self.ends_in_totals = self._leave_out_totals()
        self.number = self._find_number()
        self._fill_down()
        self._leave_out_without_number()
        self._leave_out_without_day()
        self._ask_about_words()
        self._refuse_summary()
        self.trading_day = self.ranks.first("tradingDay")
        self.closing: ClosingTime = find_closing_time(self.table, self.ranks, self.runs, self.trading_day, interview)
        days = [column for column in (self.closing.day, self.trading_day) if column]
        self.date_order = DateOrder(self.ranks, days, context.today, context.timezone)
        self.order = self._find_order(days)
        self.days = self._read_days()
        self.shop = self._find_shop()
        self.is_flat = not has_line_file and self._has_lines()
        tills = [column for column in self.ranks.with_role("deviceId") if column.is_filled]
        self.tills = tills[:1]
        self.groups = [column for column in (self.shop, *self.tills) if column]
        """The branch and the till, each of which may have numbers of its own."""
        self.kinds = self._find_kinds()
        self.key = self._find_key()
        self.rows = self._bills_by(self.key.columns)
        """The rows of each bill."""
        self._ask_about_times()
        self._ask_about_parts()

    def _use(self, table: ExportTable) -> None:
        self.table = table
        self.ranks = Ranks(table, self._given_roles())

    def _given_roles(self) -> dict[str, str]:
        """Return the roles that answers give to columns, such as that of the number of a bill."""
        answer = self._interview.answers.get("bill")
        return {answer.split(" + ")[-1]: "id"} if answer else {}

    # --- what the rest asks --------------------------------------------------------------

    def is_of_bill(self, column: TableColumn) -> bool:
        """Return whether a column has the same value on all rows of each bill."""
        for rows in self.rows:
            first = column.values[rows[0]]
            if any(column.values[row] != first for row in rows):
                return False
        return True

    def group_of(self, row: int) -> tuple[str, ...]:
        return tuple(column.values[row] for column in self.groups)

    def number_in(self, row: int) -> int:
        return bill_keys.last_number(self.number.values[row])

    def name_of(self, bill: int) -> str:
        """Return the number of a bill, to be shown."""
        return self.number.values[self.rows[bill][0]]

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return frozenset(value for value in self.number.distinct if len(value) > 2)

    def refers_to_bill(self, value: str) -> bool:
        """Return whether a text names the number of a bill, which is longer than that of a table or a guest."""
        words = "".join(letter if letter.isalnum() or letter in "-_" else " " for letter in value).split()
        return any(word in self._numbers for word in (value, *words))

    @cached_property
    def negative_rows(self) -> set[int]:
        """The rows with a negative amount, which is paid back."""
        found = set[int]()
        for column in self.ranks.with_role(*TOTAL_ROLES):
            found |= {row for row in range(len(self.table.rows)) if (column.number(row) or 0) < 0}
        return found

    @property
    def has_no_times(self) -> bool:
        """Whether rows of the same number may be two bills of the same day, because nothing shows when they were."""
        day, clock = self.closing.day, self.closing.clock
        return self.is_flat and not (clock or (day and (day.has_times or day.is_serial)))

    def first_in_parts(self) -> list[int] | None:
        """Return where two parts of a bill begin, if other bills are between them and no time shows that it is one."""
        for rows in self.rows if self.has_no_times else ():
            for row, later in pairwise(rows):
                if later != row + 1:
                    return [rows[0], later]
        return None

    def _first_of_same_day(self) -> list[int] | None:
        """Return rows with the same number and different totals that no time shows to be one bill."""
        day, clock = self.closing.day, self.closing.clock
        if self.is_flat or clock or (day and (day.has_times or day.is_serial)):
            return None
        several = (rows for rows in self.rows if len(rows) > 1 and not self.are_pair(rows))
        return next(several, None)

    def first_repeated_line(self, method: TableColumn) -> int | None:
        """Return a row that another one repeats with another way of paying, if a bill has all its lines with each."""
        paid = {method.name, *(one.name for one in self.ranks.with_role("tendered", "paid", "wayOfPaying", "change"))}
        others = [column.values for name, column in self.table.columns.items() if name not in paid]
        for rows in self.rows:
            lines: dict[str, list[tuple[str, ...]]] = {}
            for row in rows:
                lines.setdefault(method.values[row], []).append(tuple(values[row] for values in others))
            first, *rest = lines.values()
            if rest and all(one == first for one in rest):
                return rows[0]
        return None

    def _bills_by(self, names: Sequence[str]) -> list[list[int]]:
        """Return the rows of each bill. Of a time that is joined to a number, the day counts."""
        dated = [column.name for column in (self.closing.day, self.trading_day) if column]
        cells: list[Sequence[object]] = [[row.sheet.name for row in self.table.rows]]
        for name in names:
            values = self.table.columns[name].values
            if name in dated and len(names) > 1:
                order = "dmy" if self.order in (None, AUTO) else self.order or "dmy"
                known = {value: day_of(value, order) or value for value in self.table.columns[name].distinct}
                cells.append([known.get(value, value) for value in values])
            else:
                cells.append(values)
        return rows_by(*cells)

    def _ask_about_times(self) -> None:
        """Ask what tells bills apart that have the same number, but were closed at different times."""
        columns = [column for column in (self.closing.day, self.closing.clock) if column]
        several = self._with_several_times(self.rows, columns)
        pays_back = all(not self.negative_rows.isdisjoint(rows) for rows in several)
        if not several or pays_back or all(map(self.are_pair, several)):
            return
        answer = self._interview.answers.get("bill")
        if self.is_flat:
            if answer is None:
                self._ask_for_day_alone(several[0])
            return
        first = several[0]
        number, line, other = self.number.values[first[0]], self.table.line(first[0]), self.table.line(first[-1])
        text = sentence(
            "{number} {number_2} is on lines {line} and {other}, at different times.",
            number=self.number.name,
            number_2=number,
            line=line,
            other=other,
        )
        if answer is not None:
            raise Refuted("bill", answer, text)
        choices = self._choices_of_key(columns)
        if not choices:
            raise NeedsOtherReport(
                sentence(
                    "{text} If they are two bills, export a column that tells them apart, such as the till. If "
                    "one was changed, export only the latest row of each bill.",
                    text=text,
                )
            )
        # It was already asked which column has the number, but not yet what else the bills need.
        for doubt in self._interview.withdraw("bill"):
            choices |= doubt.choices
        self._interview.choose(
            "bill",
            "bill",
            sentence("{text} What tells the bills apart?", text=text),
            choices,
            free=True,
            must_confirm=True,
        )

    def _with_several_times(self, bills: Sequence[list[int]], columns: Sequence[TableColumn]) -> list[list[int]]:
        """Return the bills whose rows differ in these columns of days and times."""
        found = []
        for rows in bills:
            first = [column.values[rows[0]] for column in columns]
            if any([column.values[row] for column in columns] != first for row in rows):
                found.append(rows)
        return found

    def _choices_of_key(self, times: Sequence[TableColumn]) -> dict[str, str]:
        """Return the columns that tell bills of the same number apart, and the time of day if no other does so well."""
        choices: dict[str, str] = {}
        *outer, number = self.key.columns
        for name, column in self.table.columns.items():
            if name in self.key.columns or column in times or self.ranks.role(column) in NUMBER_ROLES:
                continue
            bills = self._bills_by([*self.key.columns, name])
            is_repeated = len(column.distinct) * 2 < len(column.values) + 2
            if column.is_filled and is_repeated and not self._with_several_times(bills, times):
                choices[" + ".join([*outer, name, number])] = sentence("{name} tells them apart", name=name)
        choices = dict(list(choices.items())[: MOST_CHOICES - 1])
        clock = self.closing.clock
        if clock and clock.is_filled and clock.name not in self.key.columns:
            choices[" + ".join([*outer, clock.name, number])] = sentence(
                "They are two bills: {clock} tells them apart", clock=clock.name
            )
        return choices

    def are_pair(self, rows: Sequence[int]) -> bool:
        """Return whether two rows have the same amounts, in either sign, so that one may undo the other."""
        totals = self.ranks.with_role(*TOTAL_ROLES)
        sizes = [{abs(one.amount(row)) for row in rows} for one in totals]
        return len(rows) == 2 and any(map(any, sizes)) and all(len(size) == 1 for size in sizes)

    def _ask_for_day_alone(self, rows: list[int]) -> None:
        """Ask to use the day alone, if the lines of a bill have different times."""
        day, clock = self.closing.day, self.closing.clock
        if day is None or clock is None or len({day.values[row] for row in rows}) > 1:
            name = (clock or day or self.number).name
            raise NeedsOtherReport(
                sentence(
                    "The lines of {number} {number_2} have different times in {name}. Export the time at which a "
                    "bill was closed.",
                    number=self.number.name,
                    number_2=self.number.values[rows[0]],
                    name=name,
                )
            )
        text = sentence(
            "The lines of a bill have different times in {clock}, so that it is not when the bill was closed.",
            clock=clock.name,
        )
        choices = {day.name: sentence("use only {day}: every bill gets 12:00", day=day.name)}
        self._interview.choose("time", "day", text, choices, must_confirm=True)
        self.closing = ClosingTime(day, None)

    def _ask_about_parts(self) -> None:
        """Ask whether rows of the same number are one bill, if others are between them and nothing shows when."""
        apart = self.first_in_parts() or self._first_of_same_day()
        if apart is None or "bill" in self._interview.answers:
            return
        number = self.number.values[apart[0]]
        lines = " and ".join(str(self.table.line(row)) for row in apart)
        text = sentence(
            "{number} {number_2} is on lines {lines}, and nothing shows when they were. Are they one bill?",
            number=self.number.name,
            number_2=number,
            lines=lines,
        )
        self._interview.choose("together", "bill", text, {"one": sentence("Yes, they are one bill")}, must_confirm=True)

    # --- rows that are no bills ------------------------------------------------------------

    def _leave_out(self, rows: set[int], reason: str) -> None:
        if rows:
            self.left_out.append(LeftOutRows(reason, self.table, tuple(sorted(rows))))
            self._use(self.table.without(rows))

    def _leave_out_answered(self) -> None:
        """Leave out the rows that answers say are no bills or no items."""
        for name in list(self.table.columns):
            answer = self._interview.answer(f"rows.{name}")
            if answer is None or answer == ALL_ROWS:
                continue
            column = self.table.columns[name]
            values = values_of_answer(answer, column)
            if not values:
                raise Refuted(f"rows.{name}", answer, sentence("{name} has no such value", name=name))
            self.skipped[name] = values
            rows = {row for row, value in enumerate(column.values) if value in values}
            self._leave_out(
                rows, sentence("{name} is {values}", name=name, values=", ".join(value or "empty" for value in values))
            )

    def _leave_out_totals(self) -> bool:
        rows, ends_in_totals = total_rows(self.table, self.ranks)
        if rows:
            self._use(self.table.without(rows))
        return ends_in_totals

    def _leave_out_without_number(self) -> None:
        """Leave out rows without a number: fees of a platform, sums of a shift. Their money is shown."""
        rows = {row for row, value in enumerate(self.number.values) if not value}
        items = self.ranks.first("item")
        dated = self.ranks.with_role("datetime", "tradingDay")
        for row in rows if items and dated else ():
            if items and items.values[row] and not any(column.values[row] for column in dated):
                raise NeedsOtherReport(
                    sentence(
                        "Line {line} of {table} has neither a number of a bill nor a day, and nothing shows "
                        "which bill it belongs to. Export the number of the bill on each row.",
                        line=self.table.line(row),
                        table=self.table.name,
                    )
                )
        self._skip(rows, self.number.name)

    def _leave_out_without_day(self) -> None:
        """Leave out rows without a day, such as counts below the table, if all others have one."""
        days = [column for column in self.ranks.with_role("datetime", "tradingDay") if column.filled]
        if not days:
            return
        rows = {row for row in range(len(self.table.rows)) if not any(column.values[row] for column in days)}
        if len(rows) * 2 <= len(self.table.rows) and len(days) == 1:
            self._skip(rows, days[0].name)

    def _skip(self, rows: set[int], name: str) -> None:
        """Leave out the rows in which a column is empty."""
        if rows:
            self._leave_out(rows, sentence("{name} is empty", name=name))
            self.skipped.setdefault(name, []).append("")
            self._renew_number()

    def _renew_number(self) -> None:
        self.number = self.table.columns[self.number.name]
        if self.is_number_guessed:
            self.ranks = Ranks(self.table, {self.number.name: "id"})

    def _ask_about_words(self) -> None:
        """Ask about words among numbers, such as `Z-Report`, which may be no bills."""
        name = self.number.name
        if f"rows.{name}" in self._interview.answers:
            return
        words = [value for value in self.number.distinct if not any(map(str.isdigit, value))]
        are_codes = all(value.isalnum() and value.isascii() and value.isupper() for value in self.number.distinct)
        if not 0 < len(words) * 2 < len(self.number.distinct) or are_codes:
            return
        text = sentence("{name} has {words}, unlike the others. Are they bills?", name=name, words=", ".join(words[:3]))
        choices = {
            f"{WITHOUT}{SEPARATOR.join(words)}": sentence("No: leave out"),
            ALL_ROWS: sentence("Yes, all rows are bills"),
        }
        if self._interview.choose(f"rows.{name}", "bill", text, choices) != ALL_ROWS:
            rows = {row for row, value in enumerate(self.number.values) if value in words}
            self._leave_out(rows, sentence("{name} is {words}", name=name, words=", ".join(words[:3])))
            self.skipped[name] = [*self.skipped.get(name, []), *words]
            self._renew_number()

    def _refuse_summary(self) -> None:
        """Refuse a file with one row per day, or per day and shop, and a number of bills."""
        counts = [column for column in self.table.columns.values() if self.ranks.counts_bills(column)]
        day = self.ranks.first("tradingDay", "datetime")
        cells = [column.values for column in (day, *self.ranks.with_role("shopId")[:1]) if column]
        if not counts or not day or day.has_times or len(self.table.rows) < 2:
            return
        is_per_day = len(set(zip(*cells, strict=True))) == len(self.table.rows)
        if is_per_day and (self.number is counts[0] or self.number is day):
            raise NeedsOtherReport(_summary(self.table, counts[0]))

    # --- the number ----------------------------------------------------------------------------

    def _find_number(self) -> TableColumn:
        """Return the column with the number of a bill, or ask which one has it."""
        answer = self._interview.answer("bill")
        if answer is not None:
            return self._answered_columns("bill", answer)[-1]
        choice = bill_keys.number_columns(self.table, self.ranks, has_line_file=self._has_line_file)
        if not choice.columns:
            return self._asked_number()
        number = choice.columns[0]
        self.is_number_guessed = choice.is_guessed
        if choice.is_guessed:
            self._interview.assume(
                sentence("{number} is the number of a bill. Its values grow like one", number=number.name)
            )
            self.ranks = Ranks(self.table, {number.name: "id"})
        if len(choice.columns) > 1:
            text = sentence("Which column has the number of a bill?")
            names = {
                one.name: sentence("{one}, as in {value}", one=one.name, value=one.distinct[0])
                for one in choice.columns[:MOST_CHOICES]
            }
            name = self._interview.choose("bill", "bill", text, names, free=True)
            self._use_number(name)
            return self.table.columns[name]
        return number

    def _use_number(self, name: str) -> None:
        self.ranks = Ranks(self.table, {name: "id"})

    def _answered_columns(self, doubt: str, answer: str) -> list[TableColumn]:
        names = answer.split(" + ")
        for name in names:
            if name not in self.table.columns:
                raise Refuted(doubt, answer, sentence("there is no column {name}", name=name))
        columns = [self.table.columns[name] for name in names]
        for column in columns:
            role = self.ranks.role(column)
            if doubt == "bill" and (role in ("item", "qty") or (role in NUMBER_ROLES and not column.is_whole)):
                raise Refuted(
                    doubt,
                    answer,
                    sentence(
                        "{column}, such as {value}, is in many bills", column=column.name, value=column.distinct[0]
                    ),
                )
        return columns

    def _asked_number(self) -> TableColumn:
        """Ask which column identifies a bill, together with the day, because numbers may start again."""
        counts = [column for column in self.table.columns.values() if self.ranks.counts_bills(column)]
        day = self.ranks.first("tradingDay", "datetime")
        if counts and (day is None or not day.has_times):
            raise NeedsOtherReport(_summary(self.table, counts[0]))
        columns = [
            one
            for one in self.table.columns.values()
            if self.ranks.role(one) in (None, "productId") and one.is_like_an_id and not one.has_decimals
        ]
        columns = [one for one in columns if not self.ranks.is_clock(one)]
        if not columns:
            raise NeedsOtherReport(
                sentence(
                    "{table} has no column with the number of a bill. Export a report with a row for each bill "
                    "or each item, and with the number of the bill.",
                    table=self.table.name,
                )
            )
        choices = {}
        for one in columns[:MOST_CHOICES]:
            name = f"{day.name} + {one.name}" if day else one.name
            choices[name] = sentence("{one}, as in {value}", one=one.name, value=one.distinct[0])
            if day:
                choices[name] = sentence(
                    "{one}, as in {value}, which starts again every day", one=one.name, value=one.distinct[0]
                )
        text = sentence("No heading says which column has the number of a bill. Which one has it?")
        answer = self._interview.choose("bill", "bill", text, choices, free=True, must_confirm=True)
        self._use_number(answer.split(" + ")[-1])
        self._is_number_asked = True
        return self.table.columns[answer.split(" + ")[-1]]

    # --- cells that only the first row of a bill has ----------------------------------------------

    def _fill_down(self) -> None:
        """If a bill's number is only on its first row, fill it down, and all other columns that are only there."""
        if self._has_line_file or not self.table.rows:
            return
        number, table = self.number, self.table
        starts = [bool(value) for value in number.values]
        repeats = [row > 0 and value == number.values[row - 1] for row, value in enumerate(number.values)]
        if all(starts):
            starts = [not is_same for is_same in repeats]
        elif not starts[0] or any(is_same and starts[row] for row, is_same in enumerate(repeats)):
            # Other bills have their number on all rows, so a row without it is no bill.
            return
        firsts = [row for row, is_start in enumerate(starts) if is_start]
        rest = [row for row, is_start in enumerate(starts) if not is_start]
        if not rest or not self._are_lines(rest):
            return
        names = []
        for name, column in table.columns.items():
            if any(column.values[row] for row in firsts) and not any(column.values[row] for row in rest):
                names.append(name)
        bills = [list(range(first, end)) for first, end in pairwise([*firsts, len(table.rows)])]
        names = self._without_line_marks(names, firsts, bills)
        if not names:
            return
        # Where a column changes, those after it begin again, so the outer ones come first.
        dated = self.ranks.with_role("shopId", "tradingDay", "datetime")
        outer = [column.name for column in dated if column.name in names]
        self.filled_down = list(dict.fromkeys([*outer, number.name, *names]))
        given = {number.name: "id"} if self.is_number_guessed else self._given_roles()
        self.table = table.filled_down(self.filled_down, rest)
        self.ranks = Ranks(self.table, given)
        self.number = self.table.columns[number.name]

    def _are_lines(self, rest: Sequence[int]) -> bool:
        """Return whether the rows without a number are items of the row above, and not rows of their own day."""
        items = self.ranks.with_role("item")
        if not items and self._is_number_asked:
            items = list(self.table.columns.values())
        if not any(all(item.values[row] for row in rest) for item in items):
            return False
        timed = self.ranks.with_role("datetime", "tradingDay", "time")
        timed += [column for column in self.table.columns.values() if column.is_date and column not in timed]
        for column in timed:
            if any(column.values[row] not in ("", column.values[row - 1]) for row in rest):
                return all(self.number.values[row] for row in rest)
        return True

    def _without_line_marks(self, names: list[str], firsts: Sequence[int], bills: Sequence[list[int]]) -> list[str]:
        """Return the columns that are filled down, without marks of a void that are those of a line."""
        marks = [name for name in names if self._may_mark_lines(self.table.columns[name], firsts)]
        if not marks:
            return names
        column = self.table.columns[marks[0]]
        is_of_line = self._marks_lines(column, bills)
        if is_of_line is None:
            value = column.distinct[0]
            text = sentence(
                "{column} has {value} only on the first line of some bills. What was cancelled?",
                column=column.name,
                value=value,
            )
            choices = {"bill": sentence("the whole bill"), "line": sentence("only that line")}
            is_of_line = self._interview.choose(f"void.{column.name}", "state", text, choices) == "line"
        if is_of_line:
            self.line_marks = marks
            return [name for name in names if name not in marks]
        return names

    def _may_mark_lines(self, column: TableColumn, firsts: Sequence[int]) -> bool:
        """Return whether a void that only some bills have, on their first row, may be that of the line."""
        is_void = self.ranks.is_void_mark(column)
        is_doubtful = any(self.ranks.probable_state(column, value) in (VOID, REFUND) for value in column.distinct)
        return (is_void or is_doubtful) and not all(column.values[row] for row in firsts)

    def _marks_lines(self, column: TableColumn, bills: Sequence[list[int]]) -> bool | None:
        """Return whether a mark on the first row of a bill is about that line, if the totals of the bills show it."""
        several = [rows for rows in bills if len(rows) > 1]
        marked = [rows for rows in several if column.values[rows[0]]]
        others = [rows for rows in several if not column.values[rows[0]]]
        for total, amount in permutations(self.ranks.with_role(*TOTAL_ROLES), 2):
            lines = {rows[0]: sum(map(amount.amount, rows)) for rows in several}
            if not (marked and others) or any(total.amount(rows[0]) != lines[rows[0]] for rows in others):
                continue
            if all(total.amount(rows[0]) == lines[rows[0]] - amount.amount(rows[0]) for rows in marked):
                return True
            if all(total.amount(rows[0]) in (0, lines[rows[0]]) for rows in marked):
                return False
        return None

    # --- days, shops and lines -----------------------------------------------------------------------

    @cached_property
    def runs(self) -> list[list[int]]:
        """The rows that follow each other and seem to belong to one bill: same number, branch and till."""
        is_row_per_bill = not self.ranks.with_role("item", "qty", "method")
        same = [self.number, *self.ranks.with_role("shopId")[:1], *self.ranks.with_role("deviceId")[:1]]
        same += self._find_kinds()
        cells = [column.values for column in same]
        runs: list[list[int]] = []
        for row in range(len(self.table.rows)):
            if row and not is_row_per_bill and all(values[row] == values[row - 1] for values in cells):
                runs[-1].append(row)
            else:
                runs.append([row])
        return runs

    def _find_order(self, days: Sequence[TableColumn]) -> str | None:
        """Return the order of day, month and year, or ask for it."""
        if not days:
            return None
        found = self.date_order
        answer = self._interview.answers.get("order")
        if answer is None and found.order:
            if found.proof:
                self._interview.prove(
                    sentence("Dates are {order}: {proof}", order=_ORDER_NAMES[found.order], proof=found.proof)
                )
            return found.order
        column = days[0]
        if column.is_serial and not column.is_date:
            return None
        first, last = column.values[0], column.values[-1]
        choices = {order: _shown_days(column, order) for order in found.possible or DATE_ORDERS}
        text = sentence("Which days are these?  {first} … {last}", first=first, last=last)
        return self._interview.choose("order", "day", text, choices)

    def _read_days(self) -> list[date | None]:
        """Return the day of each row."""
        column = self.closing.day or self.trading_day
        if column is None:
            return [None] * len(self.table.rows)
        order = "dmy" if self.order in (None, AUTO) else self.order or "dmy"
        by_value = {value: day_of(value, order) for value in column.distinct}
        return [by_value.get(value) for value in column.values]

    def _find_shop(self) -> TableColumn | None:
        """Return the column with the shops, if there is one, or ask whether its many values are shops."""
        if self._context.names_shop:
            return None
        column = next((one for one in self.ranks.with_role("shopId") if one.filled), None)
        if column is None:
            return None
        names = [name for name in column.distinct if not self.ranks.names_no_shop(name)]
        if not names:
            return None
        is_many = len(names) >= MANY_SHOPS and len(self.runs) < 3 * len(names)
        if self.ranks.are_areas(names) or is_many or "shop" in self._interview.answers:
            text = sentence(
                "{column} has {count} values, as {name}. Is each of them a shop?",
                column=column.name,
                count=f"{len(names):,}",
                name=names[0],
            )
            choices = {
                column.name: sentence("Yes, each is a shop"),
                ONE_SHOP: sentence("No, all bills are of one shop"),
            }
            if self._interview.choose("shop", "shop", text, choices) == ONE_SHOP:
                return None
        return column

    def _has_lines(self) -> bool:
        repeats = any(len(run) > 1 for run in self.runs)
        if self.ranks.with_role("item"):
            return repeats or bool(self.ranks.with_role("qty", "unitPrice"))
        return repeats and bool(self.ranks.with_role("qty"))

    def _find_kinds(self) -> list[TableColumn]:
        """Return the column that says whether a row is a sale or its refund, if both have the same number."""
        if self.ranks.with_role("item", "qty"):
            return []
        repeated = [rows for rows in rows_by(self.number.values) if len(rows) > 1]
        if not repeated:
            return []
        columns = self.ranks.with_role("type", "status")
        columns += [one for one in self.table.columns.values() if one not in (self.number, *columns)]
        for column in columns:
            if len(column.distinct) > FEW_VALUES or self.ranks.role(column) in NUMBER_ROLES:
                continue
            meanings = self._answered_states(column)
            found = {frozenset(meanings[column.values[row]] for row in rows) for rows in repeated}
            if {one for one in found if len(one) > 1} == {frozenset({SALE, REFUND})}:
                return [column]
        return []

    def _answered_states(self, column: TableColumn) -> dict[str, str | None]:
        """Return what the values of a column say by answers or, under a bare heading, by the short list."""
        states = self.ranks.states(column) if self.ranks.is_bare(column) else dict.fromkeys(column.values)
        states.setdefault("", SALE)
        whole = self._interview.answers.get(f"state.{column.name}")
        doubtful = self.ranks.doubtful_values(column, is_item=False) if whole else []
        for value in states:
            if whole and whole != "each":
                states[value] = whole if value in doubtful else states[value] or SALE
            if answer := self._interview.answers.get(f"state.{column.name}.{value}"):
                states[value] = answer
        return states

    def _find_key(self) -> BillKey:
        answer = self._interview.answers.get("bill")
        kinds = tuple(column.name for column in self.kinds)
        if answer and " + " in answer:
            names = tuple(answer.split(" + "))
            return BillKey(tuple(dict.fromkeys((*names, *kinds))), "as answered", is_proven=True)
        dated = [self.trading_day, self.closing.day, *self.ranks.with_role("datetime")]
        days = [column for column in dated if column and self._is_of_run(column)]
        if self._is_undone_later:
            days = []
        clocks = [column for column in (self.closing.day, self.closing.clock) if column]
        key = bill_keys.find_key(
            self.table, self.ranks, self.number, self.days, self.groups, days, self.shop, self.tills, clocks
        )
        names = tuple(dict.fromkeys((*key.columns, *kinds)))
        return BillKey(names, key.reason, key.is_proven)

    def _is_of_run(self, column: TableColumn) -> bool:
        for run in self.runs:
            first = column.values[run[0]]
            if any(column.values[row] != first for row in run):
                return False
        return True

    @property
    def _is_undone_later(self) -> bool:
        """Whether rows undo bills of other days, so that the day cannot be a part of a bill's ID."""
        if self.is_flat:
            return False
        repeated = [rows for rows in rows_by(self.number.values) if len(rows) > 1]
        totals = self.ranks.with_role(*TOTAL_ROLES)
        if not totals or not repeated:
            return False
        for rows in repeated:
            sizes = [{abs(one.amount(row)) for row in rows} for one in totals]
            if (
                len(rows) != 2
                or any(len(found) != 1 for found in sizes)
                or any(sum(map(one.amount, rows)) for one in totals)
            ):
                return False
        are_voids = any(answer == VOID for name, answer in self._interview.answers.items() if name.startswith("state."))
        return are_voids and any(self.days[rows[0]] != self.days[rows[1]] for rows in repeated)


_ORDER_NAMES = {"dmy": sentence("day before month"), "mdy": sentence("month before day"), "ymd": sentence("year first")}


def _shown_days(column: TableColumn, order: str) -> str:
    """Return a few days of a column, read in an order, or the first and the last one."""
    days = dict.fromkeys(day for value in column.values if (day := day_of(value, order)))
    names = [f"{day.day} {day:%B %Y}" for day in days]
    if len(names) <= MOST_DAYS:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]}"


def _summary(table: ExportTable, count: TableColumn) -> str:
    return sentence(
        "{table} is a summary per day: {count} counts bills. Export a report with a row for each bill.",
        table=table.name,
        count=count.name,
    )


def values_of_answer(answer: str, column: TableColumn) -> list[str]:
    """Return the values whose rows an answer such as `only Sale` or `without Cash | Visa` leaves out."""
    values = [*column.distinct, *([] if column.is_filled else [""])]
    if answer.startswith(ONLY):
        kept = answer.removeprefix(ONLY).split(SEPARATOR)
        return [value for value in values if value not in kept] if any(one in values for one in kept) else []
    named = answer.removeprefix(WITHOUT).split(SEPARATOR)
    return [value for value in values if value in named]
