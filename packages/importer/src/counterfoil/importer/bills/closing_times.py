"""Finds the columns with the day and the time at which a bill was closed, and asks if several may have them."""

from collections.abc import Sequence

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
    is_latest: bool = False
    """Whether the rows of a bill, such as its payments, have different times, of which the latest one counts."""


def find_closing_time(
    table: ExportTable, ranks: Ranks, runs: Sequence[list[int]], trading_day: TableColumn | None, interview: Interview
) -> ClosingTime:
    answer = interview.answer("time")
    if answer is not None:
        return _answered(table, ranks, answer)
    found = _find_times(table, ranks, runs, trading_day)
    day = found.day
    if day is None:
        return ClosingTime(None, None) if trading_day else _asked(table, ranks, interview)
    if ranks.closing(day) == OTHER_TIME and trading_day is None:
        text = sentence(
            "No heading says when a bill was closed, and {day} is another time. Is it the day of the bill?",
            day=day.name,
        )
        confirmed = {day.name: sentence("Yes: {day}", day=day.values[0])}
        interview.choose("time", "day", text, confirmed, free=True, typed=_other_date(), must_confirm=True)
    _note_empty_closing(day, ranks, interview)
    if found.rival:
        return ClosingTime(_asked_between(table, day, found.rival, interview), None)
    if found.clock is None and found.possible_clocks:
        return _answered(table, ranks, _asked_clock(day, found.possible_clocks, interview))
    if found.clock is None and not (day.has_times or day.is_serial):
        _confirm_without_clock(table, ranks, day, interview)
    return ClosingTime(day, found.clock)


def _note_empty_closing(day: TableColumn, ranks: Ranks, interview: Interview) -> None:
    """Say that another time is read than that of closing, because that is not known of all bills."""
    for column in ranks.with_role("datetime"):
        if column.filled and not column.is_filled and ranks.closing(column) < ranks.closing(day) < OTHER_TIME:
            interview.assume(
                sentence(
                    "{day} is the time of each bill, because {closing} is empty on some",
                    day=day.name,
                    closing=column.name,
                )
            )
            return


def _answered(table: ExportTable, ranks: Ranks, answer: str) -> ClosingTime:
    columns = []
    for name in answer.split(" + "):
        if name not in table.columns:
            raise Refuted("time", answer, sentence("there is no column {name}", name=name))
        columns.append(table.columns[name])
    day = columns[0]
    of_bills = [column for column in ranks.with_role(*DATE_ROLES) if ranks.closing(column) < OTHER_TIME]
    if of_bills and ranks.closing(day) == OTHER_TIME and day.is_date and not ranks.is_planned(day):
        reason = sentence(
            "{answer} is another time than that of the bill, which {dated} has", answer=answer, dated=of_bills[0].name
        )
        raise Refuted("time", answer, reason)
    return ClosingTime(day, columns[1] if len(columns) > 1 else None)


# --- questions -------------------------------------------------------------------------------


def _asked(table: ExportTable, ranks: Ranks, interview: Interview) -> ClosingTime:
    """Ask which column has the date of a bill, among dates whose headings say nothing."""
    choices: dict[str, str] = {}
    for column in table.columns.values():
        is_date = column.is_date or column.is_epoch
        if column.filled and is_date and ranks.role(column) is None and len(choices) < MOST_CHOICES:
            choices[column.name] = _with_example(column)
    if not choices:
        raise NeedsOtherReport(_without_dates(table, ranks))
    text = sentence("Which column has the date of a bill?")
    answer = interview.choose("time", "day", text, choices, free=True, typed=_other_date())
    return _answered(table, ranks, answer)


def _other_date() -> str:
    return sentence("If another column has it, type its heading. If none has it, export a report with it.")


def _without_dates(table: ExportTable, ranks: Ranks) -> str:
    """Return what to export instead of a table without dates."""
    row = _row_of_day_alone(table)
    if row is not None:
        return sentence(
            "{table} has days only in rows of their own above the bills, as on line {line}. Export a report with the "
            "day on each row.",
            table=table.name,
            line=table.line(row),
        )
    example = ""
    for column in table.columns.values():
        if column.filled and ranks.may_be(column, *DATE_ROLES):
            example = sentence(
                "{column} has {value}, which cannot be read as a date.", column=column.name, value=column.distinct[0]
            )
            break
    return joined(
        sentence("{table} has no date of a bill.", table=table.name),
        example,
        sentence("Export a report with a row for each bill or item, and with full dates, such as 2026-11-14 18:05."),
    )


def _row_of_day_alone(table: ExportTable) -> int | None:
    """Return the first row that has nothing but a day."""
    for row in range(len(table.rows)):
        cells = [column.values[row] for column in table.columns.values() if column.values[row]]
        if len(cells) == 1 and any(day_of(cells[0], order) for order in ("dmy", "mdy")):
            return row
    return None


def _asked_between(table: ExportTable, day: TableColumn, rival: "_Rival", interview: Interview) -> TableColumn:
    """Ask which of two columns has the day of a bill, where they have different ones."""
    text = sentence(
        "{day} and {rival} have different days on line {line}. On which was the bill closed?",
        day=day.name,
        rival=rival.column.name,
        line=table.line(rival.row),
    )
    choices = {}
    for column in (day, rival.column):
        choices[column.name] = f"{column.name}: {column.values[rival.row]}"
    name = interview.choose("time", "day", text, choices, free=True)
    return table.columns[name]


def _asked_clock(day: TableColumn, clocks: Sequence[TableColumn], interview: Interview) -> str:
    """Ask which column has the time of day, or whether none has it."""
    text = sentence("Which column has the time of day beside {day}?", day=day.name)
    choices = {}
    for column in clocks[: MOST_CHOICES - 1]:
        choices[f"{day.name} + {column.name}"] = _with_example(column)
    choices[day.name] = sentence("none: every bill gets 12:00")
    return interview.choose("time", "day", text, choices, free=True)


def _confirm_without_clock(table: ExportTable, ranks: Ranks, day: TableColumn, interview: Interview) -> None:
    """Ask before the numbers of a column are not read that its heading says to be times, as 5 for 0:05."""
    for column in table.columns.values():
        is_named = ranks.may_be(column, "time") and ranks.role(column) is None and not ranks.is_duration(column)
        if is_named and column.is_number and ranks.closing(column) != OTHER_TIME:
            text = sentence(
                "{column} has {value}, which cannot be read as a time of day.",
                column=column.name,
                value=min(column.distinct, key=len),
            )
            confirmed = {day.name: sentence("Every bill gets 12:00")}
            interview.choose("time", "day", text, confirmed, free=True, typed=_other_date(), must_confirm=True)
            return


def _with_example(column: TableColumn) -> str:
    return sentence("{one}, as in {value}", one=column.name, value=column.distinct[0])


# --- columns ---------------------------------------------------------------------------------


class _Rival(Struct, frozen=True):
    """Another column that may have the day of a bill, and the first row on which it has another one."""

    column: TableColumn
    row: int


class _FoundTimes(Struct, frozen=True):
    day: TableColumn | None
    clock: TableColumn | None
    possible_clocks: Sequence[TableColumn]
    """The columns that may have the time of day, if the one that has it was not found."""
    rival: _Rival | None


def _find_times(
    table: ExportTable, ranks: Ranks, runs: Sequence[list[int]], trading_day: TableColumn | None
) -> _FoundTimes:
    dated = _dated(table, ranks)
    dated_bills = [column for column in dated if column.is_same_in(runs)] or dated
    clocks = _named_clocks(table, ranks, runs)
    day = _first_day(dated_bills, has_clock=bool(clocks))
    has_time = day is not None and (day.has_times or day.is_serial)
    possible_clocks: list[TableColumn] = []
    if not clocks and not has_time:
        possible_clocks = _unnamed_clocks(table, ranks)
        clocks = _closing_clocks(possible_clocks, ranks, len(runs))
    if clocks:
        possible_clocks = []
        day = day or trading_day
    clock = None
    if clocks and day and not day.has_times:
        clock = clocks[0]
    rival = None
    if day:
        rival = _rival(day, dated_bills, ranks) or _planned(day, table, ranks)
    return _FoundTimes(day, clock, possible_clocks, rival)


def _dated(table: ExportTable, ranks: Ranks) -> list[TableColumn]:
    """Return the columns that may have the day of a bill, the most probable first."""
    columns = list(table.columns.values())
    dated = ranks.with_role("datetime")
    for column in columns:
        is_named = ranks.role(column) is None and ranks.closing(column) == CLOSING
        if is_named and (column.is_date or column.is_serial):
            dated.append(column)
    if all(ranks.closing(column) == OTHER_TIME for column in dated):
        # A date under an unknown heading is more probable than that of a payout.
        for column in columns:
            if column.is_date and ranks.role(column) in (None, "time") and column not in dated:
                dated.append(column)
    for column in columns:
        # `Time` may have the day too.
        if column.is_date and column.has_times and ranks.may_be(column, "time") and column not in dated:
            dated.append(column)
    filled = [column for column in dated if column.filled]
    # Beside a time in UTC, the one of the shop has the day on which people were there.
    return sorted(filled, key=lambda column: (not column.is_filled, ranks.closing(column), ranks.is_in_utc(column)))


def _first_day(dated: Sequence[TableColumn], *, has_clock: bool) -> TableColumn | None:
    """Return the most probable column with the day. If no other column has the time of day, it should have it, too."""
    if not has_clock:
        for column in dated:
            if column.has_times:
                return column
    return dated[0] if dated else None


def _rival(day: TableColumn, dated: Sequence[TableColumn], ranks: Ranks) -> _Rival | None:
    """Return another column that is as probable as that of the day, and has another day on some row."""
    for column in dated:
        if column is day or ranks.is_in_utc(column) or ranks.closing(column) != ranks.closing(day):
            continue
        row = first_other_day(day, column)
        if row is not None:
            return _Rival(column, row)
    return None


def _planned(day: TableColumn, table: ExportTable, ranks: Ranks) -> _Rival | None:
    """Return the day for which something was ordered beside that of ordering, or the reverse, if they differ."""
    for column in table.columns.values():
        are_both = ranks.is_of_ordering(day) and ranks.is_planned(column)
        are_swapped = ranks.is_planned(day) and ranks.is_of_ordering(column)
        if not column.is_date or not (are_both or are_swapped):
            continue
        row = first_other_day(day, column)
        if row is not None:
            return _Rival(column, row)
    return None


def _named_clocks(table: ExportTable, ranks: Ranks, runs: Sequence[list[int]]) -> list[TableColumn]:
    """Return the columns whose headings say that they have the time of day of a bill, the most probable first."""
    named = ranks.with_role("time")
    for column in table.columns.values():
        if ranks.role(column) is None and ranks.closing(column) == CLOSING and ranks.is_clock(column):
            named.append(column)
    of_bills = [column for column in named if not ranks.is_duration(column) and ranks.closing(column) != OTHER_TIME]
    of_bills.sort(key=ranks.closing)
    return [column for column in of_bills if column.is_same_in(runs)] or of_bills


def _unnamed_clocks(table: ExportTable, ranks: Ranks) -> list[TableColumn]:
    """Return the columns whose values are times of day."""
    clocks = []
    for column in table.columns.values():
        is_unnamed = ranks.role(column) in (None, "time") and not ranks.is_duration(column)
        if is_unnamed and ranks.is_clock(column) and not column.is_number:
            clocks.append(column)
    return clocks


def _closing_clocks(clocks: Sequence[TableColumn], ranks: Ranks, bills: int) -> list[TableColumn]:
    """Return the only column of clocks that has times of bills, or an empty list if a person must say which it is."""
    likely = [column for column in clocks if ranks.closing(column) != OTHER_TIME]
    if not likely or any(column.values != likely[0].values for column in likely):
        return []
    # The bills of a shop are at many times, also by day. Shifts begin at a few round ones.
    of_bills = 0
    for value in likely[0].distinct:
        moment = time_in(f"2026-01-01 {value}", ANY_CENTURY, "ymd")
        if moment and moment >= NIGHT_ENDS and moment.minute % 5:
            of_bills += 1
    is_varied = of_bills * 4 >= min(bills, FEW_VALUES)
    return likely[:1] if is_varied else []


def first_other_day(column: TableColumn, other: TableColumn) -> int | None:
    """Return the first row on which two columns have different days."""
    for row, (cell, other_cell) in enumerate(zip(column.values, other.values, strict=True)):
        day, other_day = day_of(cell, "dmy"), day_of(other_cell, "dmy")
        if day and other_day and day != other_day:
            return row
    return None
