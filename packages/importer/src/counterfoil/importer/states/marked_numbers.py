"""Asks about bills whose numbers say something: letters as those of credit notes, or a word such as `VOID`."""

import re
from collections.abc import Collection, Mapping, Sequence

from counterfoil.importer.bills.bill_keys import is_long_id
from counterfoil.importer.bills.bill_numbers import last_number
from counterfoil.importer.form import sentence
from counterfoil.importer.ranks import REFUND, SALE, TOTAL_ROLES, VOID
from counterfoil.importer.states.doubtful_states import are_explained
from counterfoil.importer.states.state_questions import meanings_of, ordered
from counterfoil.importer.states.states import MEANINGS, MOST_SHOWN, StateSearch
from counterfoil.importing.values import prefix_of, suffix_of
from counterfoil.model.text import counted

MOST_PREFIXES = 6
FEW_OF_ALL = 5
"""One in so many bills, or fewer, is rare."""
_SIGN = re.compile(r"^[^\w\s.,:/-]|[^\w\s.,:/-]$")


def doubt_prefixes(search: StateSearch) -> None:
    """Ask about positive bills whose numbers begin like those of credit notes, or with rare letters."""
    number = search.bills.number
    rows_of: dict[str, list[int]] = {}
    for row, value in enumerate(number.values):
        rows_of.setdefault(prefix_of(value), []).append(row)
    if len(rows_of) > MOST_PREFIXES:
        return
    marked = [prefix for prefix in rows_of if search.ranks.may_begin_refund(prefix)]
    is_known = 0 < len(marked) < len(rows_of)
    if not is_known:
        marked = _rare_prefixes(search, rows_of)
    if not marked:
        return
    rows = {row for prefix in marked for row in rows_of[prefix]}
    if not _have_positive_amount(search, rows) or _is_prefix_explained(search, rows):
        return
    examples = [number.values[rows_of[prefix][0]] for prefix in marked[:MOST_SHOWN]]
    text = sentence("Are bills such as {examples} refunds?", examples=" and ".join(examples))
    choices = {REFUND: sentence("Yes: refunds"), SALE: sentence("No: sales"), VOID: sentence("No: cancelled, void")}
    if all(search.ranks.may_begin_void(prefix) for prefix in marked):
        choices = {VOID: choices[VOID], REFUND: choices[REFUND], SALE: choices[SALE]}
    counts = []
    for prefix, rows_of_prefix in rows_of.items():
        numbers = {number.values[row] for row in rows_of_prefix}
        counts.append(f"{prefix or 'no letters'}: {counted(len(numbers), 'bill')}")
    answer = search.interview.choose("prefix", "state", text, choices, example="; ".join(counts))
    search.states.prefixes = dict.fromkeys(rows_of, SALE) | dict.fromkeys(marked, answer)


def _rare_prefixes(search: StateSearch, rows_of: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the letters before a few numbers, if nearly all others have the same ones, or none.

    The bills of another till or of a platform have such letters, too, but often, and with numbers of their own.
    """
    number = search.bills.number
    if all(map(is_long_id, number.distinct)):
        return []
    numbers_of = {prefix: {number.values[row] for row in rows} for prefix, rows in rows_of.items()}
    usual = max(numbers_of, key=lambda prefix: len(numbers_of[prefix]))
    others = [prefix for prefix in numbers_of if prefix != usual]
    marked: set[str] = set()
    marked_rows: set[int] = set()
    for prefix in others:
        marked.update(numbers_of[prefix])
        marked_rows.update(rows_of[prefix])
    is_minority = 0 < len(marked) * 2 < len(number.distinct)
    is_rare = len(marked) * FEW_OF_ALL <= len(number.distinct)
    if not is_minority or not (is_rare or _are_between(marked, numbers_of[usual])):
        return []
    return [] if _is_channel(search, marked_rows) else others


def _are_between(marked: Collection[str], usual: Collection[str]) -> bool:
    """Return whether numbers are missing among the usual ones, so that all are counted together."""
    numbers = set(map(last_number, usual))
    first, last = min(numbers), max(numbers)
    return all(first < last_number(value) <= last + 1 and last_number(value) not in numbers for value in marked)


def _is_channel(search: StateSearch, marked: Collection[int]) -> bool:
    """Return whether the bills with some letters, and no others, are those of a channel, such as a platform."""
    ranks = search.ranks
    for column in ranks.with_role("channel", "type", "method"):
        of_marked = {column.values[row] for row in marked}
        of_others = {value for row, value in enumerate(column.values) if row not in marked}
        if of_marked.isdisjoint(of_others) and all(map(ranks.channel_of, of_marked)):
            return True
    return False


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
        marked = _with_marked_suffix(search, number.distinct)
    is_minority = 0 < len(marked) * 2 < len(number.distinct)
    if not is_minority or are_explained(search, number, marked):
        return
    texts = meanings_of(marked)
    meanings = ordered(search, number, marked, MEANINGS)
    if all(search.ranks.may_begin_void(suffix_of(value)) for value in marked):
        meanings = [VOID, *(meaning for meaning in meanings if meaning != VOID)]
    choices = {meaning: texts[meaning] for meaning in meanings}
    text = sentence("What does “{number}” say about a bill?", number=number.name)
    example = "; ".join(marked[:MOST_SHOWN])
    answer = search.interview.choose(f"state.{number.name}", "state", text, choices, example=example)
    search.states.of_bills[number.name] = dict.fromkeys(number.distinct, SALE) | dict.fromkeys(marked, answer)


def _with_marked_suffix(search: StateSearch, numbers: Sequence[str]) -> list[str]:
    """Return the numbers with a sign as in `1001*`, or behind which are letters as those of refunds or voids.

    `1001C` may be a part of a bill.
    """
    ranks = search.ranks
    marked = []
    for value in numbers:
        suffix = suffix_of(value)
        if _SIGN.search(value) or ranks.may_begin_refund(suffix) or ranks.may_begin_void(suffix):
            marked.append(value)
    return marked
