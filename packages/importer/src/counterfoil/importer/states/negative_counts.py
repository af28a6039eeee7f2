"""Asks about bills with a negative number of items, but a positive total, which may have been paid back."""

from counterfoil.importer.columns import TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.ranks import REFUND, SALE, TOTAL_ROLES, VOID, Ranks
from counterfoil.importer.states.states import StateSearch


def is_quantity(ranks: Ranks, column: TableColumn) -> bool:
    """Return whether a column has how many items were sold."""
    is_count = ranks.role(column) in (None, "qty", "item", "other") and ranks.may_be(column, "qty", "item")
    return is_count and column.is_number


def doubt_negative_counts(search: StateSearch) -> None:
    """Ask what a negative number of items says about a bill that costs something."""
    bills, ranks = search.bills, search.ranks
    if bills.is_flat:
        return
    totals = ranks.with_role(*TOTAL_ROLES)
    for column in bills.table.columns.values():
        if not is_quantity(ranks, column) or column.name in search.states.of_bills:
            continue
        returned = []
        for bill, rows in enumerate(bills.rows):
            is_negative = any(column.amount(row) < 0 for row in rows)
            is_sold = any(total.amount(row) > 0 for total in totals for row in rows)
            if is_negative and is_sold and bills.negative_rows.isdisjoint(rows) and not search.are_explained(rows):
                returned.append(bill)
        if returned:
            _ask(search, column, returned[0])


def _ask(search: StateSearch, column: TableColumn, bill: int) -> None:
    number = search.bills.name_of(bill)
    text = sentence(
        "Bill {number} has {value} in “{column}”, but a positive amount. Was it paid back?",
        number=number,
        value=column.values[search.bills.rows[bill][0]],
        column=column.name,
    )
    choices = {REFUND: sentence("Yes: refunds"), VOID: sentence("No: cancelled, void"), SALE: sentence("No: sales")}
    answer = search.interview.choose(f"negative.{column.name}", "state", text, choices, example=number)
    meanings = {}
    for row, value in enumerate(column.values):
        meanings[value] = answer if column.amount(row) < 0 else SALE
    search.states.of_bills[column.name] = meanings
    search.states.signs.append(column.name)
