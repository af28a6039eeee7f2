"""Finds which amounts of an export are sums of others, over all bills of a sample.

A candidate is an amount that may be what the customer paid: a column, a sum over the lines, or a sum of columns. A part
is a charge, a discount or a fee, which one candidate may contain and another one may not.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, islice, permutations

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importer.form import sentence
from counterfoil.importer.ranks import CHARGES
from counterfoil.importer.sums.series import (
    BILL,
    LINES_ROLE,
    PAYMENTS_ROLE,
    TOLERANCE,
    UNKNOWN_ROLE,
    AmountSeries,
    effects,
    sums_of,
)

SHARE = 0.95
SHARE_WITH_PART = 0.8
FIRST_BILLS = 20
MOST_PARTS = 10
# With many unknown columns and many parts, there are too many sums to try.
MOST_PARTS_OF_UNKNOWN = 4
MOST_PARTS_OF_A_PART = 4
MOST_PARTS_BESIDE_A_CHARGE = 2
_ROLE_ORDER = ("paid", "total", "net", "gross", "amount", LINES_ROLE, "payout", PAYMENTS_ROLE, UNKNOWN_ROLE)

Contents = dict[int, dict[int, int]]
"""The candidates that are related to one, and how often each of them contains a part more or less than that one."""


class Relation(Struct, frozen=True):
    """`target` is `base` with these parts added on `held` of `checked` bills."""

    target: int
    base: int
    parts: frozenset[int]
    held: int
    checked: int

    @property
    def is_exact(self) -> bool:
        """Whether it holds on all bills on which both amounts are known."""
        return self.held == self.checked

    @property
    def places(self) -> tuple[int, int]:
        return self.target, self.base


class AmountRelations:
    """The candidates of an export, and the parts by which they differ. Both are named by their places."""

    def __init__(self, candidates: Sequence[AmountSeries], parts: Sequence[AmountSeries], bills: Sequence[int]) -> None:
        self.bills = _bills_with_amounts(candidates, bills)
        stated = [candidate for candidate in candidates if _bills_with_amounts([candidate], bills)]
        self.candidates = sorted(stated, key=_order)
        self.parts = without_parts_of_sums(parts, bills)
        self.effects = [effects(part) for part in self.parts]
        # Beside known amounts, an unknown one is only evidence for them.
        all_places = range(len(self.candidates))
        known = [place for place in all_places if self.candidates[place].role != UNKNOWN_ROLE]
        self.known = known or list(all_places)
        self.relations: list[Relation] = []
        for target, base in permutations(all_places, 2):
            if target not in self.known:
                continue
            relation = self._relation(target, base)
            if relation is not None:
                self.relations.append(relation)

    # --- which sums hold ---------------------------------------------------------------------

    def _relation(self, target: int, base: int) -> Relation | None:
        """Return the smallest set of parts that turns one candidate into another on nearly all bills."""
        gaps = self._gaps(target, base)
        if not gaps or len(gaps) * 2 < len(self.bills):
            return None
        most = len(self.parts) if base in self.known else MOST_PARTS_OF_UNKNOWN
        for size in range(min(len(self.parts), most) + 1):
            most_held = -1
            best: tuple[int, ...] = ()
            for parts in combinations(range(len(self.parts)), size):
                held = self._held(gaps, parts)
                if held is not None and held > most_held:
                    most_held, best = held, parts
            if most_held >= 0:
                return Relation(target, base, frozenset(best), most_held, len(gaps))
        return None

    def _gaps(self, target: int, base: int) -> dict[int, int]:
        """Return by how much two candidates differ on each bill on which both are known."""
        goal, start = self.candidates[target].values, self.candidates[base].values
        gaps = {}
        for bill in self.bills:
            end_value, start_value = goal[bill], start[bill]
            if end_value is not None and start_value is not None:
                gaps[bill] = end_value - start_value
        return gaps

    def _held(self, gaps: Mapping[int, int], parts: Sequence[int]) -> int | None:
        """Return on how many bills the parts explain the gap, or None if that is not on nearly all of them."""
        first_bills = list(islice(gaps, FIRST_BILLS))
        failed_first = self._unexplained(gaps, first_bills, parts)
        if len(failed_first) * 2 > len(first_bills):
            # Most parts explain nothing, so the other bills need not be looked at.
            return None
        failed = self._unexplained(gaps, gaps, parts)
        if len(failed) > len(gaps) * (1 - SHARE):
            return None
        for effect in self.effects if failed else ():
            with_part = [bill for bill in gaps if effect[bill]]
            if len(failed.intersection(with_part)) > (1 - SHARE_WITH_PART) * len(with_part):
                return None
        return len(gaps) - len(failed)

    def _unexplained(self, gaps: Mapping[int, int], bills: Collection[int], parts: Sequence[int]) -> set[int]:
        """Return the bills on which the parts do not add up to the gap."""
        parts_effects = [self.effects[part] for part in parts]
        found = set()
        for bill in bills:
            gap = gaps[bill]
            for effect in parts_effects:
                gap -= effect[bill]
            if abs(gap) > TOLERANCE:
                found.add(bill)
        return found

    def related(self, place: int) -> Contents:
        """Return the candidates related to one, also by way of others, and which parts they contain more or less."""
        known: Contents = {place: {}}
        waiting = [place]
        while waiting:
            here = waiting.pop(0)
            for relation in self.relations:
                for start, end, sign in ((relation.base, relation.target, 1), (relation.target, relation.base, -1)):
                    if start != here or end in known:
                        continue
                    content = dict(known[here])
                    for part in relation.parts:
                        content[part] = content.get(part, 0) + sign
                    known[end] = content
                    waiting.append(end)
        return known

    # --- sums --------------------------------------------------------------------------------

    def sum_of(self, base: int, parts: Collection[int]) -> AmountSeries:
        """Return a candidate with some parts added."""
        return self.candidates[base].plus(*map(self.as_added, sorted(parts)))

    def as_added(self, part: int) -> AmountSeries:
        """Return a part as it changes an amount."""
        return self._as_changing(part, is_taken_off=self._reduces(part))

    def as_paid(self, part: int) -> AmountSeries:
        """Return a part as it changes what was paid. A fee was kept back from that."""
        is_fee = self.parts[part].role == "fee"
        return self._as_changing(part, is_taken_off=self._reduces(part) != is_fee)

    def _reduces(self, part: int) -> bool:
        """Return whether a part reduces an amount although it is written without a minus."""
        series = self.parts[part]
        return self.effects[part] != tuple(value or 0 for value in series.values)

    def _as_changing(self, part: int, *, is_taken_off: bool) -> AmountSeries:
        series = self.parts[part]
        return series.minus() if is_taken_off else series

    def same_parts(self, part: int) -> list[int]:
        """Return the parts with the same amounts, under this heading or others."""
        effect = self.effects[part]
        return [other for other, other_effect in enumerate(self.effects) if other_effect == effect]

    @cached_property
    def names_of_parts(self) -> set[str]:
        """The charges and deductions by which candidates differ."""
        names = set[str]()
        for relation in self.relations:
            names.update(self.parts[part].name for part in relation.parts)
        return names

    # --- what the relations say --------------------------------------------------------------

    def equations(self) -> list[tuple[AmountSeries, AmountSeries]]:
        """Return pairs of amounts that are equal on all bills, as few as relate all candidates that are related."""
        groups = [{place} for place in range(len(self.candidates))]
        found = []
        for relation in sorted(self.relations, key=lambda relation: len(relation.parts)):
            ends = set(relation.places)
            target, base = self.candidates[relation.target], self.candidates[relation.base]
            total = self.sum_of(relation.base, relation.parts)
            is_known = any(ends <= group for group in groups)
            is_same = set(target.columns) in (set(base.columns), set(total.columns))
            has_cells = target.cell is not None and total.cell is not None
            if not relation.is_exact or is_known or is_same or not has_cells:
                continue
            found.append((target, total))
            touched = [group for group in groups if group & ends]
            others = [group for group in groups if group not in touched]
            groups = [set[int]().union(*touched), *others]
        return found

    def is_level_shown(self, level: str, names: Collection[str]) -> bool:
        """Return whether payments, or rows of other columns, add up to these columns on all bills at this level."""
        for relation in self.relations:
            if not relation.is_exact:
                continue
            target, base = self.candidates[relation.target], self.candidates[relation.base]
            for series, other in ((target, base), (base, target)):
                has_name = not {*names}.isdisjoint(series.columns)
                is_of_other_rows = other.level != BILL and {*names}.isdisjoint(other.columns)
                is_evidence = other.role == PAYMENTS_ROLE or is_of_other_rows
                if series.level == level and has_name and is_evidence:
                    return True
        return False

    def explained_columns(self) -> set[str]:
        """Return the columns of candidates that others explain, or that are other readings of these."""
        explained = set[int]()
        for relation in self.relations:
            is_of_payments = any(self.candidates[place].role == PAYMENTS_ROLE for place in relation.places)
            # A payment that is another amount on some bills is not explained.
            if relation.is_exact or not is_of_payments:
                explained.update(relation.places)
        names = set[str]()
        for place in explained:
            names.update(self.candidates[place].columns)
        for reading in self.other_readings(explained):
            names.update(reading.columns)
        return names

    def plain_totals(self) -> list[AmountSeries]:
        """Return the candidates that a mapping can read and that no other reading of their columns contradicts."""
        dismissed = self.other_readings(self._related_places())
        readable = [candidate for candidate in self.candidates if candidate.cell is not None]
        usable = [candidate for candidate in readable if candidate.role != "payout" and candidate not in dismissed]
        known = [candidate for candidate in usable if candidate.role != UNKNOWN_ROLE]
        return known or usable

    def _related_places(self) -> set[int]:
        places = set[int]()
        for relation in self.relations:
            places.update(relation.places)
        return places

    def other_readings(self, related: Collection[int]) -> list[AmountSeries]:
        """Return unrelated readings of related columns, if a column that can only be read in one way is among them."""
        columns = [candidate.columns for candidate in self.candidates]
        if all(columns[place] and columns.count(columns[place]) > 1 for place in related):
            return []
        known = {columns[place] for place in related}
        found = []
        for place, candidate in enumerate(self.candidates):
            if place not in related and candidate.columns in known:
                found.append(candidate)
        return found

    def before_fees(self) -> AmountSeries | None:
        """Return what another amount is on all bills before fees are taken off, which is what the customer paid."""
        stated = [set(candidate.columns) for candidate in self.candidates]
        for relation in self.relations:
            fees = {part for part in relation.parts if self.parts[part].role == "fee"}
            if not fees or not relation.is_exact:
                continue
            total = self.sum_of(relation.base, relation.parts - fees)
            if total.cell is not None and set(total.columns) not in stated:
                return replace(total, role="total")
        return None

    # --- a charge that is included on some bills ---------------------------------------------

    def sometimes_included(self) -> str | None:
        """Return which charge a total includes on some bills only, though everything else adds up on all of them."""
        charges = [part for part in self.parts if part.role in CHARGES]
        if not charges:
            return None
        for target, terms in self._differences():
            for charge in charges:
                included, others = self._counts_of_included(terms, charge)
                if included > 1 and others > 1:
                    return sentence(
                        "{target} includes {charge} on {count} bills, but not on {others} others, though everything "
                        "else adds up. No sum of columns is right for all. Export a total that always includes it, "
                        "or one that never does.",
                        target=target.name,
                        charge=charge.name,
                        count=f"{included:,}",
                        others=f"{others:,}",
                    )
        return None

    def _differences(self) -> Iterator[tuple[AmountSeries, list[AmountSeries]]]:
        """Yield each known candidate, and it less another one and up to two parts, as terms of a sum."""
        taken_off = [replace(part, values=effects(part)).minus() for part in self.parts]
        # Where a column that repeats on the rows of a bill is the total, the sum of its rows says nothing.
        dismissed = self.other_readings(self._related_places())
        known = [self.candidates[place] for place in self.known]
        amounts = [amount for amount in known if amount not in dismissed]
        negated = [amount.minus() for amount in amounts]
        for target, base in permutations(range(len(amounts)), 2):
            difference = [amounts[target], negated[base]]
            for size in range(MOST_PARTS_BESIDE_A_CHARGE + 1):
                for parts in combinations(taken_off, size):
                    yield amounts[target], [*difference, *parts]

    def _counts_of_included(self, terms: Sequence[AmountSeries], charge: AmountSeries) -> tuple[int, int]:
        """Return on how many bills a difference is a charge, and on how many nothing; 0 if it is something else."""
        included = others = 0
        for bill in self.bills:
            [gap] = sums_of(terms, [bill])
            amount = charge.values[bill] or 0
            is_nothing = abs(gap) <= TOLERANCE
            if not is_nothing and abs(gap - amount) > TOLERANCE:
                return 0, 0
            # An amount of a cent is no larger than what is rounded.
            if abs(amount) <= 2 * TOLERANCE:
                continue
            if is_nothing:
                others += 1
            else:
                included += 1
        return included, others


def without_parts_of_sums(parts: Sequence[AmountSeries], bills: Sequence[int]) -> list[AmountSeries]:
    """Leave out parts whose sum is another part of the same role, such as discounts per item beside all discounts."""
    left = [part for part in parts if _bills_with_amounts([part], bills)]
    for whole in list(left):
        others = [part for part in left if part.role == whole.role and part is not whole]
        for addends in _several(others, MOST_PARTS_OF_A_PART):
            is_left = all(part in left for part in (whole, *addends))
            if is_left and are_close(sums_of([whole], bills), sums_of(addends, bills)):
                left = [part for part in left if part not in addends]
    return left[:MOST_PARTS]


def _several(parts: Sequence[AmountSeries], most: int) -> Iterator[tuple[AmountSeries, ...]]:
    """Yield each choice of two parts or more, up to a number of them."""
    for size in range(2, min(len(parts), most) + 1):
        yield from combinations(parts, size)


def _bills_with_amounts(candidates: Sequence[AmountSeries], bills: Sequence[int]) -> list[int]:
    """Return the bills on which one of the candidates is not 0."""
    return [bill for bill in bills if any(candidate.values[bill] for candidate in candidates)]


def are_close(amounts: Sequence[int], others: Sequence[int]) -> bool:
    """Return whether amounts differ on no bill by more than what is rounded."""
    return all(abs(amount - other) <= TOLERANCE for amount, other in zip(amounts, others, strict=True))


def _order(candidate: AmountSeries) -> tuple[int, bool]:
    return _ROLE_ORDER.index(candidate.role), candidate.level != BILL
