"""Asks which rows of a bill count, if they state the same money twice, or if some of the items are none."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate, combinations

from counterfoil.importer.bills.bill_rows import ALL_ROWS, ONLY, SEPARATOR, WITHOUT
from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.columns import TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.ranks import TOTAL_ROLES, Ranks
from counterfoil.importer.states.states import MOST_OPTIONS, StateSearch, shown

MOST_KINDS = 6
"""More kinds of rows are no kinds, but items."""

# --- kinds of rows that state the same money ----------------------------------------------


def may_have_kinds(search: StateSearch, column: TableColumn) -> bool:
    """Return whether a column may show several kinds of rows in a bill."""
    kinds = len(column.distinct) + (not column.is_filled)
    return 1 < kinds <= MOST_KINDS and not search.bills.is_of_bill(column)


def doubt_kinds(search: StateSearch, column: TableColumn) -> bool:
    """Ask which rows count if those of several kinds state the same money twice, and return whether it is asked."""
    if search.interview.answers.get(f"rows.{column.name}") or search.ranks.role(column) == "method":
        # Guests often pay equal parts of a bill.
        return False
    halves = _equal_halves(search, column)
    if not halves:
        return False

    def probability(kinds: Sequence[str]) -> tuple[int, int]:
        # Rows with a state of the bill come first. Rows of items say more than those of payments and sums.
        return _states_on(search, column, kinds), sum(column.counts.get(kind, 0) for kind in kinds)

    halves.sort(key=probability, reverse=True)
    choices = {}
    for kinds in halves[:MOST_OPTIONS]:
        choices[f"{ONLY}{SEPARATOR.join(kinds)}"] = sentence("only {kinds}", kinds=shown(kinds))
    if not _is_sum_of_several(search.bills, column, halves[0]):
        choices[ALL_ROWS] = sentence("all rows count")
    text = sentence(
        "The rows of a bill have several kinds in “{column}”, which state the same money. Which count?",
        column=column.name,
    )
    search.interview.choose(f"rows.{column.name}", "bill", text, choices)
    return True


def _states_on(search: StateSearch, column: TableColumn, kinds: Sequence[str]) -> int:
    """Return how many columns of state have values on the rows of some kinds only."""
    count = 0
    for other in search.bills.table.columns.values():
        if other is column or not search.ranks.may_be_state(other):
            continue
        filled = {kind for kind, value in zip(column.values, other.values, strict=True) if value}
        count += bool(filled) and filled.issubset(kinds)
    return count


def _is_sum_of_several(bills: Bills, column: TableColumn, kinds: Sequence[str]) -> bool:
    """Return whether some bill has several rows on one side and one on the other, so that one is the sum."""
    for rows in bills.rows:
        count = sum(column.values[row] in kinds for row in rows)
        others = len(rows) - count
        if count != others and max(count, others) > 1:
            return True
    return False


def _equal_halves(search: StateSearch, column: TableColumn) -> list[tuple[str, ...]]:
    """Return sets of kinds of rows that have the same sum as other kinds on each bill."""
    bills = search.bills
    values = list(column.distinct)
    if not column.is_filled:
        values.append("")
    for amount in search.ranks.with_role(*TOTAL_ROLES):
        if bills.is_of_bill(amount):
            continue
        sums = [_sums_by_kind(column, amount, values, rows) for rows in bills.rows]
        found = _equal_sets(values, sums)
        if found:
            return found
    return []


def _sums_by_kind(
    column: TableColumn, amount: TableColumn, values: Sequence[str], rows: Sequence[int]
) -> dict[str, Decimal]:
    by_kind = dict.fromkeys(values, Decimal())
    for row in rows:
        by_kind[column.values[row]] += amount.amount(row)
    return by_kind


def _equal_sets(values: Sequence[str], sums: Sequence[dict[str, Decimal]]) -> list[tuple[str, ...]]:
    """Return sets of values that have the same sum as other values in all of some sums by value."""
    with_money = [value for value in values if any(by_kind[value] for by_kind in sums)]
    sets: list[tuple[str, ...]] = []
    for size in range(1, len(with_money)):
        sets += combinations(with_money, size)
    found: dict[tuple[str, ...], None] = {}
    for kinds, others in combinations(sets, 2):
        if set(kinds).isdisjoint(others) and all(_are_equal_parts(by_kind, kinds, others) for by_kind in sums):
            found[kinds] = None
            found[others] = None
    return list(found)


def _are_equal_parts(by_kind: dict[str, Decimal], kinds: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether two sets of kinds of rows have the same money in a bill, and not none of it."""
    money = sum(by_kind[kind] for kind in kinds)
    if money != sum(by_kind[kind] for kind in others):
        return False
    return bool(money) or not any(by_kind.values())


# --- items --------------------------------------------------------------------------------


def doubt_items(search: StateSearch) -> None:
    """Ask about rows among the items that may be payments, sums or taxes."""
    items = search.ranks.first("item")
    if items is None or not search.bills.is_flat or items.name in search.bills.skipped:
        return
    question = f"rows.{items.name}"
    if question in search.interview.answers:
        return
    marked = _doubtful_items(search, items)
    if not marked:
        return
    text = sentence("Are all rows items? “{items}” has {marked}.", items=items.name, marked=shown(marked))
    without = f"{WITHOUT}{SEPARATOR.join(marked)}"
    choices = {
        without: sentence("{marked}: not sold, leave out", marked=shown(marked)),
        ALL_ROWS: sentence("Yes, all were sold"),
    }
    if all(search.ranks.charge_of(value) == "tax" for value in marked):
        # The customer pays a tax, and its rows say how much it is.
        choices = {ALL_ROWS: choices[ALL_ROWS], without: choices[without]}
    if len(marked) > 1:
        for value in marked[: MOST_OPTIONS - 2]:
            choices[f"{WITHOUT}{value}"] = sentence("only {value}: leave out", value=value)
    search.interview.choose(question, "bill", text, choices, free=True)


def _doubtful_items(search: StateSearch, items: TableColumn) -> list[str]:
    """Return the items that may be none: by a word, as sums of the rows above them, or as taxes."""
    marked: dict[str, None] = {}
    for value in search.ranks.doubtful_values(items, is_item=True):
        # If all rows with an item are negative, they take something off, as they say.
        is_negative = search.bills.negative_rows.issuperset(items.rows_with(value))
        if search.ranks.is_payment(value) or not is_negative:
            marked[value] = None
    marked |= dict.fromkeys(_items_like_sums(search.bills, search.ranks, items))
    for value in items.distinct:
        if search.ranks.charge_of(value) == "tax":
            marked[value] = None
    return list(marked)


def _items_like_sums(bills: Bills, ranks: Ranks, items: TableColumn) -> list[str]:
    """Return the items that cost as much as all rows of the bill above them: payments and sums, not sold items."""
    found: dict[str, None] = {}
    for amount in ranks.with_role(*TOTAL_ROLES):
        if bills.is_of_bill(amount):
            continue
        places: dict[str, list[int]] = {}
        for rows in bills.rows:
            sums = accumulate(map(amount.amount, rows))
            for place, (row, above) in enumerate(zip(rows[1:], sums, strict=False), start=1):
                is_sum = amount.amount(row) == above > 0
                places.setdefault(items.values[row], []).append(place if is_sum else 0)
        for name, counts in places.items():
            # The second of two equal items costs as much as the first.
            if len(counts) > 2 and max(counts) > 1 and 0 not in counts:
                found[name] = None
    return list(found)
