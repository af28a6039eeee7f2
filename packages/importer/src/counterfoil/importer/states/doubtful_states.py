"""Finds the values of a column that may say that a bill or a line is no sale, so that somebody is asked."""

from collections.abc import Sequence

from counterfoil.importer.columns import TableColumn
from counterfoil.importer.ranks import NUMBER_ROLES, REFUND, SALE, VOID
from counterfoil.importer.states.listed_states import says_nothing
from counterfoil.importer.states.state_questions import ask_about_bills, ask_about_lines, ask_about_rows, pays_back
from counterfoil.importer.states.states import StateSearch


def doubt_column(search: StateSearch, column: TableColumn) -> None:
    """Ask what a column says about a bill, a line or a row, if it may say something."""
    values = list(column.distinct)
    if not column.is_filled:
        values.append("")
    marked = _marked(search, column, values)
    if len(marked) == len(values) > 1:
        marked = _other_than_usual(search, column, values)
    if _is_answered(search, column, values):
        if not marked:
            marked = [value for value in values if value and not search.ranks.says_nothing(value)]
    elif are_explained(search, column, marked):
        return
    if not marked:
        return
    is_of_bill = column.name not in search.bills.line_marks and search.bills.is_of_bill(column)
    if is_of_bill:
        ask_about_bills(search, column, values, marked)
    elif search.bills.is_flat:
        ask_about_lines(search, column, values, marked)
    elif pays_back(search, column, marked):
        ask_about_bills(search, column, values, marked)
    else:
        ask_about_rows(search, column, marked)


def _is_answered(search: StateSearch, column: TableColumn, values: Sequence[str]) -> bool:
    """Return whether an answer is about a column or one of its values."""
    answers = search.interview.answers
    question = f"state.{column.name}"
    return question in answers or any(f"{question}.{value}" in answers for value in values)


def are_explained(search: StateSearch, column: TableColumn, marked: Sequence[str]) -> bool:
    """Return whether other columns already say of all bills with these values that they are no sales."""
    return all(search.are_explained(column.rows_with(value)) for value in marked)


def is_void_heading(search: StateSearch, column: TableColumn) -> bool:
    """Return whether a mark, a number or an amount under a heading of a void has a value on some bills."""
    return search.ranks.heading_state(column) in (VOID, REFUND) and search.ranks.role(column) != "refunded"


def _marked(search: StateSearch, column: TableColumn, values: list[str]) -> list[str]:
    """Return the values that may say that a bill does not count as it stands."""
    ranks = search.ranks
    if not column.filled:
        return []
    if column.is_constant:
        return values if _may_be_no_sales(search, column) else []
    if ranks.may_be_state(column):
        return _other_than_sale(search, column, values)
    if is_void_heading(search, column):
        return [value for value in column.distinct if not says_nothing(search, column, value)]
    if _has_whole_amounts(search, column):
        return [value for value in column.distinct if column.units[value]]
    if _names_other_bills(search, column):
        return [value for value in column.distinct if search.bills.refers_to_bill(value)]
    is_item = ranks.role(column) == "item" and search.bills.is_flat
    return [] if is_item else ranks.doubtful_values(column, is_item=False)


def _may_be_no_sales(search: StateSearch, column: TableColumn) -> bool:
    """Return whether the only value of a column says that no bill counts, which is improbable."""
    ranks, [value] = search.ranks, column.distinct
    is_not_sold = ranks.is_bare(column) and ranks.states(column)[value] not in (SALE, None)
    is_marked = ranks.is_void_mark(column) and not says_nothing(search, column, value)
    is_item = ranks.role(column) == "item" and search.bills.is_flat
    return is_not_sold or is_marked or bool(ranks.doubtful_values(column, is_item=is_item))


def _other_than_sale(search: StateSearch, column: TableColumn, values: list[str]) -> list[str]:
    """Return the values of a column of state that may be no sales: those that are not listed as such, if any are."""
    listed = search.ranks.states(column)
    if all(meaning == SALE for meaning in listed.values()):
        return []
    sold = [value for value in values if listed[value] == SALE]
    if "" in values and not any(sold):
        sold = [""]
    return [value for value in values if value not in sold]


def _other_than_usual(search: StateSearch, column: TableColumn, values: list[str]) -> list[str]:
    """Return all but the most frequent value, which is probably that of sales, unless a word says otherwise."""
    undoubted = (value for value in values if search.ranks.probable_state(column, value) == SALE)
    usual = next(undoubted, values[0])
    return [value for value in values if value != usual]


def _has_whole_amounts(search: StateSearch, column: TableColumn) -> bool:
    """Return whether a column of no known role has the whole amount of some bills, which may have been voided."""
    if search.ranks.role(column) is not None or not column.has_decimals or not search.bills.is_of_bill(column):
        return False
    for total in search.ranks.with_role("total", "paid", "net"):
        whole = _rows_of_whole(column, total)
        if not whole or len(whole) * 2 >= len(column.values):
            continue
        # If others have the whole amount of all other bills, these are ways of paying.
        paid = set(whole)
        for other in search.bills.table.columns.values():
            if other is not total and other.is_number:
                paid.update(_rows_of_whole(other, total))
        if len(paid) < len(column.values):
            return True
    return False


def _rows_of_whole(column: TableColumn, total: TableColumn) -> list[int]:
    """Return the rows with an amount, if on each of them it is the total."""
    rows = []
    for row in range(len(column.values)):
        amount = column.amount(row)
        if amount and amount != total.amount(row):
            return []
        if amount:
            rows.append(row)
    return rows


def _names_other_bills(search: StateSearch, column: TableColumn) -> bool:
    """Return whether some bills name another one here, which they may return, replace or be merged into."""
    is_rare = 0 < column.filled * 2 < len(column.values)
    if not is_rare or search.ranks.role(column) in NUMBER_ROLES:
        return False
    return any(map(search.bills.refers_to_bill, column.distinct))
