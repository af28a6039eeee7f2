"""The states of bills: which were voided, refunded or never sold, and which lines were cancelled."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.interview import Interview
from counterfoil.importer.ranks import REFUND, SALE, SKIP, VOID, Ranks
from counterfoil.importing.values import prefix_of

EACH = "each"
"""The answer that each value of a column says something of its own."""
MEANINGS = (SALE, SKIP, VOID, REFUND)
STRENGTH = (SALE, REFUND, VOID, SKIP)
"""If several columns have a state, the strongest one counts."""
MOST_OPTIONS = 4
MOST_SHOWN, LONGEST_SHOWN = 3, 20


class CancelledLines(Struct, frozen=True):
    """The column that says whether a line was cancelled, and the values that say so."""

    column: str
    values: dict[str, bool]


class States(Struct):
    """What the columns of state say: for bills, by column and value, and for lines."""

    of_bills: dict[str, dict[str, str]]
    marks: dict[str, dict[str, str]]
    """Columns in which any other value than those listed means that the bill is void, such as `Voided by`."""
    counted_lines: dict[str, list[str]]
    """Values of columns about lines that an answer says count, although they have a doubtful word."""
    cancelled: CancelledLines | None
    later: list[str]
    """Columns of state that are empty here. A value in a later file must be explained."""
    prefixes: dict[str, str]
    """What the letters before the number of a bill say, by these letters, if they say anything."""
    amounts: list[str]
    """Columns of amounts, such as `Voided amount`, in which any amount but 0 says the same about a bill."""
    signs: list[str] = []
    """Columns of quantities, in which any number below 0 says the same about a bill."""
    empty: dict[str, str] = {}
    """Columns such as `Paid at`, with what an empty cell says about a bill. All others are sales."""

    def of(self, bills: Bills, bill: int) -> str:
        """Return the state of a bill. Two rows with the same number may be a sale and its void."""
        states = {self.of_row(bills, row) for row in bills.rows[bill]}
        return max(states, key=STRENGTH.index)

    def of_row(self, bills: Bills, row: int) -> str:
        columns = bills.table.columns
        strongest = self.of_prefix(bills.number.values[row])
        for name, meanings in (*self.of_bills.items(), *self.marks.items()):
            meaning = meanings.get(columns[name].values[row], SALE)
            strongest = max(strongest, meaning, key=STRENGTH.index)
        for name, meaning in self.empty.items():
            if not columns[name].values[row]:
                strongest = max(strongest, meaning, key=STRENGTH.index)
        return strongest

    def of_prefix(self, number: str) -> str:
        return self.prefixes.get(prefix_of(number), SALE) if self.prefixes else SALE

    def by_bill(self, bills: Bills) -> list[str]:
        if not self.of_bills and not self.marks and not self.prefixes and not self.empty:
            return [SALE] * len(bills.rows)
        return [self.of(bills, bill) for bill in range(len(bills.rows))]

    def is_cancelled(self, bills: Bills, row: int) -> bool:
        cancelled = self.cancelled
        return cancelled is not None and cancelled.values.get(bills.table.columns[cancelled.column].values[row], False)


class StateSearch(NamedTuple):
    """The bills whose states are searched, who answers, and the states that were found so far."""

    bills: Bills
    interview: Interview
    states: States

    @property
    def ranks(self) -> Ranks:
        return self.bills.ranks

    def are_explained(self, rows: Iterable[int]) -> bool:
        """Return whether the states found so far say of all these rows that they are no sales."""
        return all(self.states.of_row(self.bills, row) != SALE for row in rows)


def shown(values: Sequence[str]) -> str:
    """Return the first values, shortened, and how many more there are."""
    named = []
    for value in values[:MOST_SHOWN]:
        text = value or "empty"
        if len(text) > LONGEST_SHOWN:
            text = f"{text[: LONGEST_SHOWN - 1]}…"
        named.append(text)
    more = len(values) - MOST_SHOWN
    return ", ".join(named) + (f" and {more:,} more" if more > 0 else "")
