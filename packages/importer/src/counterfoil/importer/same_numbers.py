"""Asks about rows with the same number that nothing shows to be one bill, or several."""

from collections.abc import Sequence

from counterfoil.importer.bills import Bills
from counterfoil.importer.closing_times import ClosingTime
from counterfoil.importer.columns import TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport, Refuted
from counterfoil.importer.ranks import NUMBER_ROLES

MOST_CHOICES = 4


def ask_about_times(bills: Bills, interview: Interview) -> ClosingTime:
    """Ask about bills whose rows have different times, and return the columns that say when a bill was closed."""
    times = [column for column in (bills.closing.day, bills.closing.clock) if column]
    several = _with_several_times(bills.rows, times)
    if _are_reversals(bills, several):
        return bills.closing
    answer = interview.answers.get("bill")
    if not bills.is_flat:
        _ask_what_tells_apart(bills, interview, times, several[0], answer)
    elif answer is None:
        return _ask_for_day_alone(bills, interview, several[0])
    return bills.closing


def _with_several_times(bills: Sequence[list[int]], times: Sequence[TableColumn]) -> list[list[int]]:
    """Return the bills whose rows differ in these columns of days and times."""
    found = []
    for rows in bills:
        first = [column.values[rows[0]] for column in times]
        if any([column.values[row] for column in times] != first for row in rows):
            found.append(rows)
    return found


def _are_reversals(bills: Bills, several: Sequence[list[int]]) -> bool:
    """Return whether bills that were closed at several times pay a sale back, or may undo it."""
    pay_back = all(not bills.negative_rows.isdisjoint(rows) for rows in several)
    return pay_back or all(map(bills.are_pair, several))


# --- several bills with the same number ------------------------------------------------------


def _ask_what_tells_apart(
    bills: Bills, interview: Interview, times: Sequence[TableColumn], rows: Sequence[int], answer: str | None
) -> None:
    """Ask what tells bills apart that have the same number, but were closed at different times."""
    text = sentence(
        "{number} {number_2} is on lines {line} and {other}, at different times.",
        number=bills.number.name,
        number_2=bills.number.values[rows[0]],
        line=bills.table.line(rows[0]),
        other=bills.table.line(rows[-1]),
    )
    if answer is not None:
        raise Refuted("bill", answer, text)
    choices = _choices_of_key(bills, times)
    if not choices:
        raise NeedsOtherReport(
            sentence(
                "{text} If they are two bills, export a column that tells them apart, such as the till. If "
                "one was changed, export only the latest row of each bill.",
                text=text,
            )
        )
    # It was already asked which column has the number, but not yet what else the bills need.
    for doubt in interview.withdraw("bill"):
        choices |= doubt.choices
    question = sentence("{text} What tells the bills apart?", text=text)
    interview.choose("bill", "bill", question, choices, free=True, must_confirm=True)


def _choices_of_key(bills: Bills, times: Sequence[TableColumn]) -> dict[str, str]:
    """Return the columns that tell bills of the same number apart, and the time of day if no other does so well."""
    *outer, number = bills.key.columns
    choices: dict[str, str] = {}
    for name, column in bills.table.columns.items():
        if len(choices) == MOST_CHOICES - 1:
            break
        is_repeated = len(column.distinct) * 2 < len(column.values) + 2
        is_other = name not in bills.key.columns and column not in times
        if not is_other or not column.is_filled or not is_repeated or bills.ranks.role(column) in NUMBER_ROLES:
            continue
        if not _with_several_times(bills.rows_by([*bills.key.columns, name]), times):
            choices[" + ".join([*outer, name, number])] = sentence("{name} tells them apart", name=name)
    clock = bills.closing.clock
    if clock and clock.is_filled and clock.name not in bills.key.columns:
        choices[" + ".join([*outer, clock.name, number])] = sentence(
            "They are two bills: {clock} tells them apart", clock=clock.name
        )
    return choices


# --- one bill whose lines have the same number -------------------------------------------------


def _ask_for_day_alone(bills: Bills, interview: Interview, rows: Sequence[int]) -> ClosingTime:
    """Ask to use the day alone, if the lines of a bill have different times, and return its column."""
    day, clock = bills.closing.day, bills.closing.clock
    if day is None or clock is None or len({day.values[row] for row in rows}) > 1:
        column = clock or day or bills.number
        raise NeedsOtherReport(
            sentence(
                "The lines of {number} {number_2} have different times in {name}. Export the time at which a "
                "bill was closed.",
                number=bills.number.name,
                number_2=bills.number.values[rows[0]],
                name=column.name,
            )
        )
    text = sentence(
        "The lines of a bill have different times in {clock}, so that it is not when the bill was closed.",
        clock=clock.name,
    )
    choices = {day.name: sentence("use only {day}: every bill gets 12:00", day=day.name)}
    interview.choose("time", "day", text, choices, must_confirm=True)
    return ClosingTime(day, None)


def ask_about_parts(bills: Bills, interview: Interview) -> None:
    """Ask whether rows of the same number are one bill, if others are between them and nothing shows when."""
    apart = bills.first_in_parts() or _first_of_same_day(bills)
    if apart is None or "bill" in interview.answers:
        return
    lines = " and ".join(str(bills.table.line(row)) for row in apart)
    text = sentence(
        "{number} {number_2} is on lines {lines}, and nothing shows when they were. Are they one bill?",
        number=bills.number.name,
        number_2=bills.number.values[apart[0]],
        lines=lines,
    )
    interview.choose("together", "bill", text, {"one": sentence("Yes, they are one bill")}, must_confirm=True)


def _first_of_same_day(bills: Bills) -> list[int] | None:
    """Return rows with the same number and different totals that no time shows to be one bill."""
    if bills.is_flat or bills.has_times:
        return None
    for rows in bills.rows:
        if len(rows) > 1 and not bills.are_pair(rows):
            return rows
    return None
