"""Reads the states that need no question: a bare heading such as `Status`, with values in the short list."""

from collections.abc import Collection

from counterfoil.importer.columns import FEW_VALUES, TableColumn
from counterfoil.importer.ranks import REFUND, SALE, SKIP, VOID, is_flag
from counterfoil.importer.states.states import CancelledLines, StateSearch


def decide(search: StateSearch, column: TableColumn) -> None:
    """Read a column under a bare heading, if all its values are in the short list."""
    if not column.filled:
        search.states.later.append(column.name)
        return
    if len(column.distinct) > FEW_VALUES:
        return
    meanings = listed(search, column)
    if None in meanings.values():
        if search.ranks.is_void_mark(column):
            _decide_mark(search, column)
        return
    known = {value: meaning or SALE for value, meaning in meanings.items()}
    if not search.bills.is_of_bill(column) or column.name in search.bills.line_marks:
        _decide_lines(search, column, known)
    else:
        search.states.of_bills[column.name] = known


def listed(search: StateSearch, column: TableColumn) -> dict[str, str | None]:
    """Return what the values of a column say by the short list, or None where the rows contradict it."""
    states = search.ranks.states(column)
    left_out = sum(column.counts[value] for value, meaning in states.items() if meaning == SKIP)
    if left_out * 2 > len(column.values):
        # It is improbable that most bills of an export do not count.
        for value, meaning in states.items():
            if meaning == SKIP:
                states[value] = None
        return states
    if "" in states and states[""] is None:
        are_flags = all(map(is_flag, column.distinct))
        are_exceptions = all(states[value] in (VOID, REFUND) for value in column.distinct)
        if are_flags or are_exceptions:
            states[""] = SALE
    for value, meaning in states.items():
        if _is_contradicted(search, column, value, meaning):
            states[value] = None
    return states


def _is_contradicted(search: StateSearch, column: TableColumn, value: str, meaning: str | None) -> bool:
    """Return whether the heading or the amounts speak against what a value says."""
    ranks, bills = search.ranks, search.bills
    if meaning == SKIP:
        # A bill of which the payment is pending may have been sold, and one that is not valid may be void.
        return ranks.may_be(column, "method") or ranks.heading_state(column) == SALE
    if meaning not in (REFUND, VOID):
        return False
    rows = set(column.rows_with(value))
    is_negative = rows <= bills.negative_rows
    if meaning == REFUND:
        return ranks.is_state_of_sale(column, value) and not is_negative
    # A void that is negative reverses a sale. If that is not in the same bill, it is a bill of its own.
    return is_negative and not _are_in_pairs(search, rows)


def _are_in_pairs(search: StateSearch, rows: Collection[int]) -> bool:
    """Return whether each of the rows is in a bill of two rows, of which the other one is the sale."""
    in_pairs = set[int]()
    for bill in search.bills.rows:
        if len(bill) == 2:
            in_pairs.update(bill)
    return in_pairs.issuperset(rows)


def says_nothing(search: StateSearch, column: TableColumn, value: str) -> bool:
    return search.ranks.says_nothing(value) or search.ranks.states(column)[value] == SALE


def _decide_mark(search: StateSearch, column: TableColumn) -> None:
    """Read marks such as the name of who voided a bill, unless most bills have one."""
    nothing = {value for value in column.distinct if says_nothing(search, column, value)} | {""}
    marked = [row for row, value in enumerate(column.values) if value not in nothing]
    is_rare = len(marked) * 2 <= len(column.values)
    is_void = search.ranks.heading_state(column) == VOID and not column.is_number
    # Under `Removed`, a text may be what was left out of a dish.
    is_void = is_void and search.ranks.says_who_or_why(column)
    if not is_rare or not is_void or not search.bills.is_of_bill(column):
        return
    states_of_marked = [search.states.of_row(search.bills, row) for row in marked]
    are_explained = all(state in (VOID, SKIP) for state in states_of_marked)
    if not are_explained and _have_other_state(search, marked):
        return
    meanings = {value: SALE if value in nothing else VOID for value in (*column.distinct, "")}
    search.states.marks[column.name] = meanings


def _have_other_state(search: StateSearch, rows: Collection[int]) -> bool:
    """Return whether another column of state has a value on these rows."""
    for name in search.states.of_bills:
        values = search.bills.table.columns[name].values
        if any(values[row] for row in rows):
            return True
    return False


def _decide_lines(search: StateSearch, column: TableColumn, meanings: dict[str, str]) -> None:
    """Read which lines were cancelled, if no value says anything else."""
    said = set(meanings.values())
    if said <= {SALE}:
        return
    if said <= {SALE, VOID} and search.bills.is_flat and search.states.cancelled is None:
        are_cancelled = {value: meaning == VOID for value, meaning in meanings.items()}
        search.states.cancelled = CancelledLines(column.name, are_cancelled)
    elif _are_void_pairs(search, column, meanings):
        search.states.of_bills[column.name] = meanings


def _are_void_pairs(search: StateSearch, column: TableColumn, meanings: dict[str, str]) -> bool:
    """Return whether the rows of a bill differ only where one row voids the sale of the other one."""
    bills = search.bills
    if bills.is_flat:
        return False
    for rows in bills.rows:
        found = {meanings[column.values[row]] for row in rows}
        if len(found) == 1:
            continue
        if found != {SALE, VOID} or not bills.are_pair(rows):
            return False
    return True
