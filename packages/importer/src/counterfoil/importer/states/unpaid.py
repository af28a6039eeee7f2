"""Asks about a few bills that say nothing of how, or when, they were paid, although nearly all others do."""

from counterfoil.importer.columns import TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.ranks import CLOSING, DATE_ROLES, SALE, SKIP, TOTAL_ROLES, VOID
from counterfoil.importer.states.states import MOST_SHOWN, StateSearch
from counterfoil.model.text import counted

ENOUGH_BILLS = 5
FEW_OF_ALL = 5
"""One in so many bills, or fewer, is rare."""


def doubt_unpaid(search: StateSearch) -> None:
    """Ask about bills with an amount whose cell is empty in a column of ways of paying or times of payment."""
    for column in _columns_of_payment(search):
        unpaid = _unpaid(search, column)
        if not unpaid:
            continue
        numbers = [search.bills.name_of(bill) for bill in unpaid]
        text = sentence(
            "“{column}” is empty on {bills}, such as {number}. Were they paid?",
            column=column.name,
            bills=counted(len(unpaid), "bill"),
            number=numbers[0],
        )
        choices = {
            SALE: sentence("Yes: they were sold"),
            SKIP: sentence("No: leave out"),
            VOID: sentence("No: cancelled, void"),
        }
        example = ", ".join(numbers[:MOST_SHOWN])
        answer = search.interview.choose(f"unpaid.{column.name}", "state", text, choices, example=example)
        search.states.empty[column.name] = answer


def _columns_of_payment(search: StateSearch) -> list[TableColumn]:
    """Return the column of ways of paying, and other times of closing than the one that is read."""
    ranks, bills = search.ranks, search.bills
    found = []
    for column in bills.table.columns.values():
        is_decided = column.name in search.states.of_bills or column.name in search.states.marks
        if is_decided or column.is_filled or column in (bills.closing.day, bills.closing.clock):
            continue
        is_dated = ranks.role(column) in DATE_ROLES or column.is_date
        if ranks.role(column) == "method" or (is_dated and ranks.closing(column) == CLOSING):
            found.append(column)
    return found


def _unpaid(search: StateSearch, column: TableColumn) -> list[int]:
    """Return the bills with an amount of which a column is empty, if they are few, and nothing says more of them."""
    bills = search.bills
    totals = search.ranks.with_role(*TOTAL_ROLES)
    found = []
    for bill, rows in enumerate(bills.rows):
        has_amount = any(total.amount(row) > 0 for total in totals for row in rows)
        if has_amount and not any(column.values[row] for row in rows) and not _is_explained(search, rows):
            found.append(bill)
    is_rare = len(found) * FEW_OF_ALL <= len(bills.rows) >= ENOUGH_BILLS
    return found if is_rare else []


def _is_explained(search: StateSearch, rows: list[int]) -> bool:
    """Return whether a column of state says what these rows are, or an amount that they were paid."""
    for name, meanings in search.states.of_bills.items():
        values = search.bills.table.columns[name].values
        if any(values[row] and values[row] in meanings for row in rows):
            return True
    if search.are_explained(rows):
        return True
    paid = search.ranks.with_role("tendered", "wayOfPaying")
    return any(amount.amount(row) for amount in paid for row in rows)
