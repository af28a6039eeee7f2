"""Finds which columns say that a bill was voided, refunded or never sold, or that a line was cancelled.

A column decides alone only under a bare heading of state of which all values are in the short list. Everything else
that may change what a bill is becomes a doubt about that column.
"""

from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.columns import TableColumn
from counterfoil.importer.interview import Interview
from counterfoil.importer.ranks import NUMBER_ROLES
from counterfoil.importer.states.doubtful_states import doubt_column, is_void_heading
from counterfoil.importer.states.listed_states import decide
from counterfoil.importer.states.marked_numbers import doubt_prefixes, doubt_words
from counterfoil.importer.states.negative_counts import doubt_negative_counts
from counterfoil.importer.states.row_kinds import doubt_items, doubt_kinds, may_have_kinds
from counterfoil.importer.states.states import States, StateSearch
from counterfoil.importer.states.unpaid import doubt_unpaid


def find_states(bills: Bills, interview: Interview) -> States:
    """Return what the columns say about bills and lines. What no bare heading decides becomes a doubt."""
    search = StateSearch(bills, interview, States({}, {}, {}, None, [], {}, []))
    columns = list(bills.table.columns.values())
    for column in columns:
        if _may_decide(search, column):
            decide(search, column)
    are_kinds_asked = False
    for column in columns:
        if _is_decided(search.states, column) or _is_something_else(search, column):
            continue
        has_kinds = may_have_kinds(search, column)
        if has_kinds and not are_kinds_asked:
            are_kinds_asked = doubt_kinds(search, column)
        # Until it is known which kinds of rows count, nothing else is asked about the rows of a bill.
        if not (has_kinds and are_kinds_asked):
            doubt_column(search, column)
    if not are_kinds_asked:
        doubt_items(search)
    doubt_negative_counts(search)
    doubt_unpaid(search)
    doubt_prefixes(search)
    doubt_words(search)
    return search.states


def _may_decide(search: StateSearch, column: TableColumn) -> bool:
    """Return whether a heading is wholly that of a state, and no answer says what its values mean."""
    if _is_something_else(search, column) or f"state.{column.name}" in search.interview.answers:
        return False
    return search.ranks.is_bare(column) and not search.ranks.is_named_as_amount(column)


def _is_decided(states: States, column: TableColumn) -> bool:
    if states.cancelled and states.cancelled.column == column.name:
        return True
    return column.name in states.of_bills or column.name in states.marks or column.name in states.later


def _is_something_else(search: StateSearch, column: TableColumn) -> bool:
    """Return whether a column has the number, the day or the shop of a bill, for example, and no state."""
    bills, ranks = search.bills, search.ranks
    known = (bills.number, bills.closing.day, bills.closing.clock, bills.trading_day, bills.shop, *bills.tills)
    if column in known or column.name in bills.skipped:
        return True
    if column.name in bills.key.columns and column not in bills.kinds:
        return True
    if ranks.is_bare_number(column) and column.is_number:
        return True
    is_state = ranks.may_be_state(column) or is_void_heading(search, column)
    return ranks.role(column) in NUMBER_ROLES and not is_state
