"""Asks what the values of a column say about a bill, about a line of it, or about a row that may be no part of it."""

from collections.abc import Mapping, Sequence

from counterfoil.importer.bills.bill_rows import ALL_ROWS, SEPARATOR, WITHOUT
from counterfoil.importer.columns import TableColumn
from counterfoil.importer.form import joined, sentence
from counterfoil.importer.interview import NeedsOtherReport
from counterfoil.importer.ranks import REFUND, SALE, SKIP, VOID
from counterfoil.importer.states.listed_states import listed
from counterfoil.importer.states.states import (
    EACH,
    MEANINGS,
    MOST_OPTIONS,
    MOST_SHOWN,
    CancelledLines,
    StateSearch,
    shown,
)
from counterfoil.model.text import counted

FEWEST_WITH_USUAL = 2

# --- bills --------------------------------------------------------------------------------


def ask_about_bills(search: StateSearch, column: TableColumn, values: Sequence[str], marked: Sequence[str]) -> None:
    """Ask what the marked values of a column say about a bill, and note the state of each value."""
    known = _known_states(search, column)
    if known:
        marked = [value for value in values if value not in known]
    choices = _choices_for_bills(search, column, values, marked, has_known=bool(known))
    text = sentence("What does “{column}” say about a bill?", column=column.name)
    example = "; ".join(_bills_with(search, column, value) for value in values[:MOST_OPTIONS])
    answer = _answer_for_column(search, column, values, text, choices, example)
    states = dict.fromkeys(values, SALE) | known
    if answer == EACH:
        states |= _ask_about_each_value(search, column, values, marked)
    else:
        states |= dict.fromkeys(marked, answer)
    search.states.of_bills[column.name] = states
    if _is_amount(search, column):
        search.states.amounts.append(column.name)


def _is_amount(search: StateSearch, column: TableColumn) -> bool:
    return column.has_decimals and not search.ranks.may_be_state(column)


def _choices_for_bills(
    search: StateSearch, column: TableColumn, values: Sequence[str], marked: Sequence[str], *, has_known: bool
) -> dict[str, str]:
    """Return what the marked values may say, with a text for each meaning, the most probable first."""
    texts = meanings_of(marked)
    if has_known:
        texts[SALE] = sentence("{marked} {was} sold", marked=shown(marked), was=_was(marked))
    is_paid_back = pays_back(search, column, marked) and not search.bills.is_of_bill(column)
    order = ordered(search, column, marked, (VOID, REFUND) if is_paid_back else MEANINGS)
    listed_meanings = search.ranks.states(column)
    are_two_unlisted = len(values) == 2 and all(values) and not any(listed_meanings[value] for value in values)
    may_differ = len(marked) > 1 or are_two_unlisted
    if may_differ and not _is_amount(search, column):
        order = [*order[: MOST_OPTIONS - 1], EACH]
    return {meaning: texts[meaning] for meaning in order}


def _known_states(search: StateSearch, column: TableColumn) -> dict[str, str]:
    """Return what is known under a bare heading with listed values, if the rows contradict some of them."""
    question = f"state.{column.name}"
    answers = search.interview.answers
    is_each = answers.get(question) == EACH or _is_answered_by_value(search, column, [*column.distinct, ""])
    listed_meanings = search.ranks.states(column)
    if is_each or not search.ranks.is_bare(column) or None in listed_meanings.values():
        return {}
    known = {value: meaning for value, meaning in listed(search, column).items() if meaning is not None}
    is_partly_known = SALE in known.values() and len(known) < len(listed_meanings)
    return known if is_partly_known else {}


def _ask_about_each_value(
    search: StateSearch, column: TableColumn, values: Sequence[str], marked: Sequence[str]
) -> dict[str, str]:
    """Ask about each value that may be no sale, and return their states."""
    listed_meanings = search.ranks.states(column)
    likely: dict[str, str] = {}
    for value in values:
        # Of three values and more, the most frequent one is that of sales.
        is_usual = value not in marked and len(values) > FEWEST_WITH_USUAL
        is_sold = not value or is_usual or listed_meanings[value] == SALE
        if f"state.{column.name}.{value}" in search.interview.answers or not is_sold:
            likely[value] = ordered(search, column, [value], MEANINGS)[0]
    unlike = _unlike_the_others(likely, marked)
    texts = {
        SALE: "sold",
        SKIP: sentence("not sold: leave out"),
        VOID: sentence("cancelled: void"),
        REFUND: sentence("paid back: refund"),
    }
    states: dict[str, str] = {}
    for value in likely:
        text = sentence("What is a bill of which “{column}” is “{value}”?", column=column.name, value=value or "empty")
        order = ordered(search, column, [value], MEANINGS)
        if value == unlike:
            order = [order[1], order[0], *order[2:]]
        choices = {meaning: texts[meaning] for meaning in order}
        question = f"state.{column.name}.{value}"
        example = _bills_with(search, column, value)
        states[value] = search.interview.choose(question, "state", text, choices, example=example)
    return states


def _bills_with(search: StateSearch, column: TableColumn, value: str) -> str:
    """Return how many bills have a value, and their numbers if they are few."""
    numbers = []
    for bill, rows in enumerate(search.bills.rows):
        if any(column.values[row] == value for row in rows):
            numbers.append(search.bills.name_of(bill))
    named = f" ({', '.join(numbers)})" if len(numbers) <= MOST_SHOWN else ""
    return f"{value or 'empty'}: {counted(len(numbers), 'bill')}{named}"


# --- lines and rows -----------------------------------------------------------------------


def ask_about_lines(search: StateSearch, column: TableColumn, values: Sequence[str], marked: Sequence[str]) -> None:
    """Ask whether lines with the marked values were cancelled, unless another column says which ones were."""
    if search.states.cancelled is not None:
        return
    texts = {
        SALE: sentence("Nothing: all lines count"),
        VOID: sentence("{shown} {were} cancelled: these lines do not count", shown=shown(marked), were=_was(marked)),
        EACH: sentence("Each value for itself"),
    }
    order = ordered(search, column, marked, (SALE, VOID))
    are_all_likely_voids = all(search.ranks.probable_state(column, value) != SALE for value in marked)
    if len(values) > 2 or not are_all_likely_voids:
        order.append(EACH)
    choices = {meaning: texts[meaning] for meaning in order}
    text = sentence("What does “{column}” say about a line?", column=column.name)
    counts = [f"{value or 'empty'}: {len(column.rows_with(value)):,} lines" for value in values[:MOST_OPTIONS]]
    may_be_returned = any(search.ranks.probable_state(column, value) == REFUND for value in marked)
    typed = sentence("If they were paid back, type {answer}.", answer=REFUND) if may_be_returned else ""
    question = joined(text, typed)
    answer = _answer_for_column(search, column, values, question, choices, "; ".join(counts), is_free=may_be_returned)
    if answer == REFUND:
        raise NeedsOtherReport(
            sentence(
                "{table} has lines that were paid back, but their amounts are positive. Export what was returned "
                "with negative amounts.",
                table=search.bills.table.name,
            )
        )
    are_cancelled = dict.fromkeys(values, False)
    if answer == EACH:
        are_cancelled |= _ask_about_lines_of_each_value(search, column, values, marked)
    else:
        are_cancelled |= dict.fromkeys(marked, answer != SALE)
    counting = [value for value, is_cancelled in are_cancelled.items() if not is_cancelled]
    search.states.counted_lines[column.name] = counting
    if any(are_cancelled.values()):
        search.states.cancelled = CancelledLines(column.name, are_cancelled)


def _ask_about_lines_of_each_value(
    search: StateSearch, column: TableColumn, values: Sequence[str], marked: Sequence[str]
) -> dict[str, bool]:
    """Ask of each value whether its lines count, and return whether they were cancelled."""
    is_empty_answered = f"state.{column.name}." in search.interview.answers
    asked = [value for value in values if value or is_empty_answered]
    unlike = _unlike_the_others(dict.fromkeys(asked, SALE), marked)
    are_cancelled: dict[str, bool] = {}
    for value in asked:
        text = sentence(
            "Does a line count of which “{column}” is “{value}”?", column=column.name, value=value or "empty"
        )
        choices = {SALE: "it counts", VOID: "it does not"}
        if value == unlike:
            choices = {VOID: "it does not", SALE: "it counts"}
        answer = search.interview.choose(f"state.{column.name}.{value}", "state", text, choices)
        are_cancelled[value] = answer != SALE
    return are_cancelled


def ask_about_rows(search: StateSearch, column: TableColumn, marked: Sequence[str]) -> None:
    """Ask whether rows of a bill, such as a payment that was declined, are a part of it."""
    text = sentence("“{column}” is not the same on all rows of a bill. Which rows count?", column=column.name)
    choices = {
        f"{WITHOUT}{SEPARATOR.join(marked)}": sentence("{marked}: leave out", marked=shown(marked)),
        ALL_ROWS: sentence("all rows count"),
    }
    search.interview.choose(f"rows.{column.name}", "bill", text, choices)


# --- what the questions have in common ----------------------------------------------------


def meanings_of(marked: Sequence[str]) -> dict[str, str]:
    """Return what values of bills may say, with a text for each meaning."""
    named, was = shown(marked), _was(marked)
    return {
        SALE: sentence("Nothing: all were sold"),
        SKIP: sentence("{shown} {was} not sold: leave out", shown=named, was=was),
        VOID: sentence("{shown} {was} cancelled: void", shown=named, was=was),
        REFUND: sentence("{shown} {was} paid back: refund", shown=named, was=was),
        EACH: sentence("Each value for itself"),
    }


def ordered(search: StateSearch, column: TableColumn, marked: Sequence[str], meanings: Sequence[str]) -> list[str]:
    """Return the meanings, the most probable one first."""
    probable = [search.ranks.probable_state(column, value) for value in marked if value]
    likely = max(probable, key=probable.count, default=SALE)
    if likely == SALE and all(value and search.bills.refers_to_bill(value) for value in marked):
        likely = REFUND
    return sorted(meanings, key=lambda meaning: (meaning != likely, meaning != SALE))


def pays_back(search: StateSearch, column: TableColumn, marked: Sequence[str]) -> bool:
    """Return whether an amount is negative on some row with these values."""
    return any(not search.bills.negative_rows.isdisjoint(column.rows_with(value)) for value in marked)


def _answer_for_column(
    search: StateSearch,
    column: TableColumn,
    values: Sequence[str],
    text: str,
    choices: Mapping[str, str],
    example: str,
    *,
    is_free: bool = False,
) -> str:
    """Return the answer about a column. If there are answers about its values only, it is `each`."""
    question = f"state.{column.name}"
    if question not in search.interview.answers and _is_answered_by_value(search, column, values):
        return EACH
    return search.interview.choose(question, "state", text, choices, example=example, free=is_free)


def _is_answered_by_value(search: StateSearch, column: TableColumn, values: Sequence[str]) -> bool:
    return any(f"state.{column.name}.{value}" in search.interview.answers for value in values)


def _unlike_the_others(likely: Mapping[str, str], marked: Sequence[str]) -> str | None:
    """Return the value of which another meaning than its likely one is offered first, or None.

    Whoever wants to say something of each value says neither the same of all nor of the marked ones alone.
    """
    others = [value for value in likely if value not in marked]
    of_others = {likely[value] for value in others}
    of_marked = {likely[value] for value in marked if value in likely}
    is_clear = len(of_marked) > 1 or bool(of_others - {SALE})
    if is_clear and len(of_marked | of_others) > 1:
        return None
    if others:
        return others[0]
    return list(likely)[-1] if len(likely) > 1 else None


def _was(values: Sequence[str]) -> str:
    return "was" if len(values) == 1 else "were"
