"""Asks about rows with the same number that nothing shows to be one bill, or several."""

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.bills.closing_times import ClosingTime
from counterfoil.importer.bills.repeated_rows import add_up_to_totals
from counterfoil.importer.columns import TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport, Refuted
from counterfoil.importer.ranks import NUMBER_ROLES, TOTAL_ROLES
from counterfoil.importing.repeated_rows import LAST

MOST_CHOICES = 4
ONE = "one"


def ask_about_times(bills: Bills, interview: Interview) -> ClosingTime:
    """Ask about bills whose rows have different times, and return the columns that say when a bill was closed."""
    times = [column for column in (bills.closing.day, bills.closing.clock) if column]
    several = _with_several_times(bills.rows, times)
    if _pay_back(bills, several):
        return bills.closing
    are_parts = None if bills.is_flat else _are_paid_in_parts(bills, interview, times, several)
    if are_parts:
        return replace(bills.closing, is_latest=True)
    if are_parts is False or all(map(bills.are_pair, several)):
        # It is asked what tells these rows apart, or they may be a sale and its void.
        return bills.closing
    answer = interview.answers.get("bill")
    if not bills.is_flat:
        _ask_what_tells_apart(bills, interview, times, several[0], answer)
    elif answer is None:
        return _ask_for_one_time(bills, interview, several[0])
    return bills.closing


def _with_several_times(bills: Sequence[list[int]], times: Sequence[TableColumn]) -> list[list[int]]:
    """Return the bills whose rows differ in these columns of days and times."""
    found = []
    for rows in bills:
        first = [column.values[rows[0]] for column in times]
        if any([column.values[row] for column in times] != first for row in rows):
            found.append(rows)
    return found


def _pay_back(bills: Bills, several: Sequence[list[int]]) -> bool:
    """Return whether bills that were closed at several times, if there are any, pay a sale back."""
    return all(not bills.negative_rows.isdisjoint(rows) for rows in several)


# --- one bill that was paid at several times -------------------------------------------------


def _are_paid_in_parts(
    bills: Bills, interview: Interview, times: Sequence[TableColumn], several: Sequence[list[int]]
) -> bool | None:
    """Return whether the rows of each bill are its payments, as its total or an answer says, or None if not asked."""
    if add_up_to_totals(bills.ranks, bills.rows):
        return True
    rows = next((rows for rows in several if _may_be_payments(bills, times, rows)), None)
    if rows is None:
        return None
    text = _text_of_times(bills, rows)
    answer = interview.answer("together")
    if answer not in (None, ONE):
        # The answer is a key that still joins these rows.
        raise Refuted("together", answer or "", text)
    several_bills = _choices_of_key(bills, times)
    one_bill: dict[str, str] = {
        ONE: sentence("Yes, it was paid in parts, and closed by the last one"),
        LAST: _text_of_change(),
    }
    if bills.ranks.with_role("method"):
        choices = one_bill | several_bills
    elif not several_bills and interview.is_open("bill"):
        # It is asked which column has the number.
        return None
    else:
        few_keys = dict(islice(several_bills.items(), MOST_CHOICES - len(one_bill)))
        choices = few_keys | {LAST: one_bill[LAST], ONE: one_bill[ONE]}
    question = sentence("{text} Are they one bill?", text=text)
    return interview.choose("together", "bill", question, choices, free=True, must_confirm=True) == ONE


def _text_of_change() -> str:
    return sentence("Yes, but it was changed: only its last row counts")


def _may_be_payments(bills: Bills, times: Sequence[TableColumn], rows: Sequence[int]) -> bool:
    """Return whether rows may be payments of one bill, and are not a sale and what undoes it."""
    if not bills.are_pair(rows):
        return True
    methods = bills.ranks.with_role("method")
    others = [column for column in bills.table.columns.values() if column not in (*methods, *times)]
    return bool(methods) and all(column.is_same_in([rows]) for column in others)


# --- several bills with the same number ------------------------------------------------------


def _ask_what_tells_apart(
    bills: Bills, interview: Interview, times: Sequence[TableColumn], rows: Sequence[int], answer: str | None
) -> None:
    """Ask what tells bills apart that have the same number, but were closed at different times."""
    text = _text_of_times(bills, rows)
    if answer is not None:
        raise Refuted("bill", answer, text)
    choices = _choices_of_key(bills, times)
    # It was already asked which column has the number, but not yet what else the bills need.
    for doubt in interview.withdraw("bill"):
        choices |= doubt.choices
    if not choices:
        raise NeedsOtherReport(
            sentence(
                "{text} If they are two bills, export a column that tells them apart, such as the till. If "
                "one was changed, export only the latest row of each bill.",
                text=text,
            )
        )
    question = sentence("{text} What tells the bills apart?", text=text)
    typed = sentence("If another column has it, type its heading. If none has it, export a report with it.")
    interview.choose("bill", "bill", question, choices, free=True, typed=typed, must_confirm=True)


def _text_of_times(bills: Bills, rows: Sequence[int]) -> str:
    return sentence(
        "{number} {number_2} is on lines {line} and {other}, at different times.",
        number=bills.number.name,
        number_2=bills.number.values[rows[0]],
        line=bills.table.line(rows[0]),
        other=bills.table.line(rows[-1]),
    )


def _choices_of_key(bills: Bills, times: Sequence[TableColumn]) -> dict[str, str]:
    """Return the columns that tell bills of the same number apart, each in its own way, and then the time of day."""
    *outer, number = bills.key.columns
    clock = bills.closing.clock
    methods = bills.ranks.with_role("method")
    # Two bills are often paid in the same way, so that is the last that tells them apart.
    columns = [column for column in bills.table.columns.values() if column not in (*times, *methods)]
    if clock and clock.is_filled:
        columns.append(clock)
    columns += methods
    choices: dict[str, str] = {}
    groupings = set[tuple[tuple[int, ...], ...]]()
    for column in columns:
        if len(choices) == MOST_CHOICES - 1 or column.name in bills.key.columns:
            continue
        if column is not clock and not _may_tell_apart(bills, column):
            continue
        found = bills.rows_by([*bills.key.columns, column.name])
        grouping = tuple(map(tuple, found))
        if grouping in groupings or (column is not clock and _with_several_times(found, times)):
            continue
        groupings.add(grouping)
        text = sentence("{name} tells them apart", name=column.name)
        if column is clock:
            text = sentence("They are two bills: {clock} tells them apart", clock=column.name)
        choices[" + ".join([*outer, column.name, number])] = text
    return choices


def _may_tell_apart(bills: Bills, column: TableColumn) -> bool:
    is_repeated = len(column.distinct) * 2 < len(column.values) + 2
    return column.is_filled and is_repeated and bills.ranks.role(column) not in NUMBER_ROLES


# --- one bill whose lines have the same number -------------------------------------------------


def _ask_for_one_time(bills: Bills, interview: Interview, rows: Sequence[int]) -> ClosingTime:
    """Ask which time counts if the lines of a bill have different times: none but the day, or the latest one."""
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
    both = f"{day.name} + {clock.name}"
    choices = {
        day.name: sentence("use only {day}: every bill gets 12:00", day=day.name),
        both: sentence("use the latest {clock} of each bill", clock=clock.name),
    }
    answer = interview.choose("time", "day", text, choices)
    return replace(bills.closing, is_latest=True) if answer == both else ClosingTime(day, None)


def ask_about_parts(bills: Bills, interview: Interview) -> None:
    """Ask whether rows of the same number are one bill, if others are between them and nothing shows when."""
    apart = bills.first_in_parts() or _first_of_same_day(bills) or _first_changed(bills)
    if interview.is_open("together") or interview.is_open("bill"):
        return
    if apart is None or "bill" in interview.answers or bills.closing.is_latest:
        return
    if not bills.is_flat and add_up_to_totals(bills.ranks, bills.rows):
        # These are the payments of a bill.
        return
    lines = " and ".join(str(bills.table.line(row)) for row in apart)
    text = sentence(
        "{number} {number_2} is on lines {lines}, and nothing shows when they were. Are they one bill?",
        number=bills.number.name,
        number_2=bills.number.values[apart[0]],
        lines=lines,
    )
    answer = interview.answer("together")
    if answer not in (None, ONE):
        # The answer is a key that still joins these rows.
        raise Refuted("together", answer or "", text)
    choices: dict[str, str] = {ONE: sentence("Yes, they are one bill")}
    if not bills.is_flat:
        choices = {ONE: sentence("Yes: their amounts are added"), LAST: _text_of_change()}
    choices |= _choices_of_key(bills, [])
    typed = sentence("If they are several, type the columns that tell them apart, such as Date + Table + Number.")
    interview.choose("together", "bill", text, choices, free=True, typed=typed, must_confirm=True)


def _first_changed(bills: Bills) -> list[int] | None:
    """Return rows of a bill that differ only in their amounts and remarks, so that one may replace the other."""
    if bills.is_flat or not bills.has_times or not bills.ranks.with_role(*TOTAL_ROLES):
        return None
    texts = [column for column in bills.table.columns.values() if not column.is_number]
    for rows in bills.rows:
        are_alike = all(len({column.values[row] for row in rows} - {""}) < 2 for column in texts)
        is_paid_back = not bills.negative_rows.isdisjoint(rows)
        if len(rows) > 1 and are_alike and not is_paid_back and not bills.are_pair(rows):
            return rows
    return None


def _first_of_same_day(bills: Bills) -> list[int] | None:
    """Return rows with the same number and different totals that no time shows to be one bill."""
    if bills.is_flat or bills.has_times:
        return None
    for rows in bills.rows:
        if len(rows) > 1 and not bills.are_pair(rows):
            return rows
    return None
