"""Finds the columns with the day and the time at which a bill was closed, and asks if several may have them."""

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from counterfoil.importer.columns import ANY_CENTURY, FEW_VALUES, ExportTable, TableColumn, day_of
from counterfoil.importer.form import joined, sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport, Refuted
from counterfoil.importer.ranks import CLOSING, DATE_ROLES, OTHER_TIME, Ranks
from counterfoil.importing.values import NIGHT_ENDS, time_in

MOST_CHOICES = 4


class ClosingTime(Struct, frozen=True):
    """The column with the day, or with day and time, and the one with the time of day."""

    day: TableColumn | None
    clock: TableColumn | None


def find_closing_time(
    table: ExportTable, ranks: Ranks, runs: Sequence[list[int]], trading_day: TableColumn | None, interview: Interview
) -> ClosingTime:
    answer = interview.answer("time")
    if answer is not None:
        return _answered(table, ranks, answer)
    search = _TimeSearch(table, ranks, runs, trading_day)
    day, clock = search.day, search.clock
    if day is None and trading_day is None:
        return _asked(table, ranks, interview)
    if day and ranks.closing(day) == OTHER_TIME and trading_day is None:
        text = sentence(
            "No heading says when a bill was closed, and {day} is another time. Is it the day of the bill?",
            day=day.name,
        )
        confirmed = {day.name: sentence("Yes: {day}", day=day.values[0])}
        interview.choose("time", "day", text, confirmed, free=True, must_confirm=True)
    if day and (row := search.row_with_other_day) is not None and search.rival:
        text = sentence(
            "{day} and {rival} have different days on line {line}. On which was the bill closed?",
            day=day.name,
            rival=search.rival.name,
            line=table.line(row),
        )
        choices = {one.name: f"{one.name}: {one.values[row]}" for one in (day, search.rival)}
        name = interview.choose("time", "day", text, choices, free=True)
        return ClosingTime(table.columns[name], None)
    if day and clock is None and search.possible_clocks:
        text = sentence("Which column has the time of day beside {day}?", day=day.name)
        choices = {
            f"{day.name} + {one.name}": sentence("{one}, as in {value}", one=one.name, value=one.distinct[0])
            for one in search.possible_clocks
        }
        choices = dict(list(choices.items())[: MOST_CHOICES - 1]) | {day.name: sentence("none: every bill gets 12:00")}
        return _answered(table, ranks, interview.choose("time", "day", text, choices, free=True))
    return ClosingTime(day, clock)


def _answered(table: ExportTable, ranks: Ranks, answer: str) -> ClosingTime:
    names = answer.split(" + ")
    for name in names:
        if name not in table.columns:
            raise Refuted("time", answer, sentence("there is no column {name}", name=name))
    columns = [table.columns[name] for name in names]
    dated = [one for one in ranks.with_role(*DATE_ROLES) if ranks.closing(one) < OTHER_TIME]
    if dated and ranks.closing(columns[0]) == OTHER_TIME and columns[0].is_date:
        raise Refuted(
            "time",
            answer,
            sentence(
                "{answer} is another time than that of the bill, which {dated} has", answer=answer, dated=dated[0].name
            ),
        )
    return ClosingTime(columns[0], columns[1] if len(columns) > 1 else None)


def _asked(table: ExportTable, ranks: Ranks, interview: Interview) -> ClosingTime:
    columns = [one for one in table.columns.values() if one.filled]
    dated = [one for one in columns if ranks.role(one) is None and (one.is_date or one.is_epoch)]
    if not dated:
        named = next((one for one in columns if ranks.may_be(one, *DATE_ROLES)), None)
        example = ""
        if named:
            example = sentence(
                "{column} has {value}, which cannot be read as a date.", column=named.name, value=named.distinct[0]
            )
        raise NeedsOtherReport(
            joined(
                sentence("{table} has no date of a bill.", table=table.name),
                example,
                sentence(
                    "Export a report with a row for each bill or item, and with full dates, such as 2026-11-14 18:05."
                ),
            )
        )
    text = sentence("Which column has the date of a bill?")
    choices = {
        one.name: sentence("{one}, as in {value}", one=one.name, value=one.distinct[0]) for one in dated[:MOST_CHOICES]
    }
    return _answered(table, ranks, interview.choose("time", "day", text, choices, free=True))


class _TimeSearch:
    def __init__(
        self, table: ExportTable, ranks: Ranks, runs: Sequence[list[int]], trading_day: TableColumn | None
    ) -> None:
        self._table = table
        self._ranks = ranks
        self._runs = runs
        self.rival: TableColumn | None = None
        """Another column that may have the day of a bill, and has another one on some rows."""
        self.possible_clocks: list[TableColumn] = []
        """The columns that may have the time of day, if the one that has it was not found."""
        dated = self._dated()
        of_bill = [column for column in dated if column.is_same_in(runs)] or dated
        clocks = self._clocks()
        with_time = [column for column in of_bill if column.has_times]
        if clocks and of_bill and not of_bill[0].has_times:
            day: TableColumn | None = of_bill[0]
        else:
            day = next(iter(with_time or of_bill), None)
        if not clocks and not (day and (day.has_times or day.is_serial)):
            clocks = self._clocks_by_values()
        self.day = day or (trading_day if clocks else None)
        self.clock = next(iter(clocks), None) if self.day and not self.day.has_times else None
        if self.day:
            rank = ranks.closing(self.day)
            rivals = [one for one in of_bill if one is not self.day and not ranks.is_in_utc(one)]
            rivals = [one for one in rivals if ranks.closing(one) == rank]
            self.rival = next((one for one in rivals if first_other_day(self.day, one) is not None), None)

    @cached_property
    def row_with_other_day(self) -> int | None:
        return first_other_day(self.day, self.rival) if self.day and self.rival else None

    def _dated(self) -> list[TableColumn]:
        """Return the columns that may have the day of a bill, the most probable first."""
        ranks, columns = self._ranks, list(self._table.columns.values())
        closing = [one for one in columns if ranks.role(one) is None and ranks.closing(one) == CLOSING]
        dated = [*ranks.with_role("datetime"), *(one for one in closing if one.is_date or one.is_serial)]
        if all(ranks.closing(one) == OTHER_TIME for one in dated):
            # A date under an unknown heading is more probable than that of a payout.
            dated += [one for one in columns if one.is_date and ranks.role(one) in (None, "time") and one not in dated]
        # `Time` may have the day too.
        dated += [
            one for one in columns if one not in dated and one.is_date and one.has_times and ranks.may_be(one, "time")
        ]
        dated = [one for one in dated if one.filled]
        # Beside a time in UTC, the one of the shop has the day on which people were there.
        dated.sort(key=lambda one: (not one.is_filled, ranks.closing(one), ranks.is_in_utc(one)))
        return dated

    def _clocks(self) -> list[TableColumn]:
        ranks = self._ranks
        columns = [one for one in self._table.columns.values() if ranks.role(one) is None]
        clocks = [one for one in columns if ranks.closing(one) == CLOSING and ranks.is_clock(one)]
        clocks = [*ranks.with_role("time"), *clocks]
        clocks = [one for one in clocks if not ranks.is_duration(one) and ranks.closing(one) != OTHER_TIME]
        clocks.sort(key=ranks.closing)
        return [one for one in clocks if one.is_same_in(self._runs)] or clocks

    def _clocks_by_values(self) -> list[TableColumn]:
        """Return the only column whose values are times of day. If several differ, or few are common, it is asked."""
        ranks = self._ranks
        columns = [one for one in self._table.columns.values() if ranks.role(one) in (None, "time")]
        found = [one for one in columns if ranks.is_clock(one) and not one.is_number and not ranks.is_duration(one)]
        likely = [one for one in found if ranks.closing(one) != OTHER_TIME]
        texts = [f"2026-01-01 {value}" for one in likely[:1] for value in one.distinct]
        times = [moment for text in texts if (moment := time_in(text, ANY_CENTURY, "ymd"))]
        # The bills of a shop are at many times, also by day. Shifts begin at a few round ones.
        usual = [moment for moment in times if moment >= NIGHT_ENDS and moment.minute % 5]
        is_varied = len(usual) * 4 >= min(len(self._runs), FEW_VALUES)
        if likely and is_varied and all(one.values == likely[0].values for one in likely):
            return likely[:1]
        self.possible_clocks = found
        return []


def first_other_day(one: TableColumn, other: TableColumn) -> int | None:
    """Return the first row on which two columns have different days."""
    for row, (first, second) in enumerate(zip(one.values, other.values, strict=True)):
        days = day_of(first, "dmy"), day_of(second, "dmy")
        if all(days) and days[0] != days[1]:
            return row
    return None
