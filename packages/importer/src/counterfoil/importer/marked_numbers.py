"""Asks about bills whose numbers say something: letters as those of credit notes, or a word such as `VOID`."""

from collections.abc import Collection

from counterfoil.importer.doubtful_states import are_explained
from counterfoil.importer.form import sentence
from counterfoil.importer.ranks import REFUND, SALE, TOTAL_ROLES, VOID
from counterfoil.importer.state_questions import meanings_of, ordered
from counterfoil.importer.states import MEANINGS, MOST_SHOWN, StateSearch
from counterfoil.importing.values import prefix_of, suffix_of
from counterfoil.model.text import counted

MOST_PREFIXES = 6


def doubt_prefixes(search: StateSearch) -> None:
    """Ask about positive bills whose numbers begin like those of credit notes, unlike the others."""
    number = search.bills.number
    rows_of: dict[str, list[int]] = {}
    for row, value in enumerate(number.values):
        rows_of.setdefault(prefix_of(value), []).append(row)
    marked = [prefix for prefix in rows_of if search.ranks.may_begin_refund(prefix)]
    if not marked or len(marked) == len(rows_of) or len(rows_of) > MOST_PREFIXES:
        return
    rows = {row for prefix in marked for row in rows_of[prefix]}
    if not _have_positive_amount(search, rows) or _is_prefix_explained(search, rows):
        return
    examples = [number.values[rows_of[prefix][0]] for prefix in marked[:MOST_SHOWN]]
    text = sentence("Are bills such as {examples} refunds?", examples=" and ".join(examples))
    choices = {REFUND: sentence("Yes: refunds"), SALE: sentence("No: sales"), VOID: sentence("No: cancelled, void")}
    counts = []
    for prefix, rows_of_prefix in rows_of.items():
        numbers = {number.values[row] for row in rows_of_prefix}
        counts.append(f"{prefix or 'no letters'}: {counted(len(numbers), 'bill')}")
    answer = search.interview.choose("prefix", "state", text, choices, example="; ".join(counts))
    search.states.prefixes = dict.fromkeys(rows_of, SALE) | dict.fromkeys(marked, answer)


def _have_positive_amount(search: StateSearch, rows: Collection[int]) -> bool:
    for column in search.ranks.with_role(*TOTAL_ROLES):
        largest = max(column.amount(row) for row in rows)
        if largest > 0:
            return True
    return False


def _is_prefix_explained(search: StateSearch, marked: Collection[int]) -> bool:
    """Return whether a column of state, the shop or the till differs wherever the prefix does."""
    if search.are_explained(marked):
        return True
    states, bills = search.states, search.bills
    for name in (*states.of_bills, *states.marks, *(column.name for column in bills.groups)):
        values = bills.table.columns[name].values
        of_marked = {values[row] for row in marked}
        of_others = {value for row, value in enumerate(values) if row not in marked}
        if of_marked.isdisjoint(of_others):
            return True
    return False


def doubt_words(search: StateSearch) -> None:
    """Ask about bills whose numbers have a word, as in `1013 (VOID)` or `1013-REF`, unlike the others."""
    number = search.bills.number
    marked = search.ranks.doubtful_values(number, is_item=False)
    if not marked:
        marked = [value for value in number.distinct if search.ranks.may_begin_refund(suffix_of(value))]
    is_minority = 0 < len(marked) * 2 < len(number.distinct)
    if not is_minority or are_explained(search, number, marked):
        return
    texts = meanings_of(marked)
    choices = {meaning: texts[meaning] for meaning in ordered(search, number, marked, MEANINGS)}
    text = sentence("What does “{number}” say about a bill?", number=number.name)
    example = "; ".join(marked[:MOST_SHOWN])
    answer = search.interview.choose(f"state.{number.name}", "state", text, choices, example=example)
    search.states.of_bills[number.name] = dict.fromkeys(number.distinct, SALE) | dict.fromkeys(marked, answer)
