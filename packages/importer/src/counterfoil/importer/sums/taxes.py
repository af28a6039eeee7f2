"""Tells from the rate of a tax whether an amount is with the tax or without it."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product

from counterfoil.importer.columns import SCALE
from counterfoil.importer.ranks import stated_rates
from counterfoil.importer.sums.relations import AmountRelations, Contents
from counterfoil.importer.sums.series import AmountSeries, effects

# Rates of value added and sales taxes, in per cent. They show whether an amount is with or without the tax.
TAX_RATES = (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 27)
# Rates of sales taxes that are added, which may look like another one that is included.
ADDED_RATES = tuple(Fraction(eighths, 8) for eighths in range(4 * 8, 12 * 8 + 1) if eighths % 8)
INCLUDED_RATES = tuple(Fraction(tenths, 10) for tenths in (26, 38, 55, 77, 81, 135))
NEARLY = 3
"""A tax that is so many times as far from a rate as it is rounded does not show that it has another rate."""

Rate = tuple[Fraction, bool]
"""The per cent of a tax, and whether the amount of which it is a share is with the tax."""


class Taxes:
    """What the rates of taxes show of the candidates. Both are named by their places in the relations."""

    def __init__(self, relations: AmountRelations) -> None:
        self._relations = relations
        self._found: dict[tuple[int, int], bool | None] = {}

    def is_in_candidate(self, part: int, place: int) -> bool | None:
        """Return whether the ratio of a tax to a candidate shows that the candidate is with the tax, or without it."""
        key = part, place
        if key not in self._found:
            self._found[key] = self._is_in(part, self._relations.candidates[place].values)
        return self._found[key]

    def is_in_related(self, part: int, related: Contents) -> bool | None:
        """Return what the ratios of a tax to parts of related candidates show, if they agree."""
        sides = {self._is_in_content_of(part, place) for place in related}
        sides.discard(None)
        return sides.pop() if len(sides) == 1 else None

    def is_only_without(self, part: int, place: int) -> bool:
        """Return whether the taxes are those of a candidate, and not those of what a discount leaves of it."""
        relations = self._relations
        effect = relations.effects[part]
        # On one bill, a tax may fit by chance.
        if sum(bool(effect[bill]) for bill in relations.bills) < 2:
            return False
        values = relations.candidates[place].values
        reduced = [(value or 0) + change for value, change in zip(values, effect, strict=True)]
        for tax, series in enumerate(relations.parts):
            if series.role != "tax":
                continue
            if self.is_in_candidate(tax, place) is not None and not self._rates(tax, reduced):
                return True
        return False

    def _is_in(self, part: int, amounts: Sequence[int | None], *, is_rare: bool = False) -> bool | None:
        if self._relations.parts[part].role != "tax":
            return None
        return _only_side(self._rates(part, amounts, is_rare=is_rare))

    def _is_in_content_of(self, part: int, place: int) -> bool | None:
        """Return what the ratio of a tax to a part of a candidate shows: to one of its columns, or without its tip."""
        relations = self._relations
        candidate = relations.candidates[place]
        sides = set[bool | None]()
        for other in relations.candidates:
            is_column = len(other.columns) == 1 and other.columns[0] in candidate.columns
            if len(candidate.columns) > 1 and is_column:
                sides.add(self._is_in(part, other.values, is_rare=True))
        for relation in relations.relations:
            if relation.target != place or part in relation.parts or len(relation.parts) < 2:
                continue
            for size in range(1, len(relation.parts)):
                for few_parts in combinations(sorted(relation.parts), size):
                    amounts = relations.sum_of(relation.base, few_parts)
                    sides.add(self._is_in(part, amounts.values))
        sides.discard(None)
        return sides.pop() if len(sides) == 1 else None

    def _rates(self, part: int, amounts: Sequence[int | None], *, is_rare: bool = False) -> set[Rate]:
        return fitting_rates(self._relations.parts[part], amounts, self._relations.bills, is_rare=is_rare)


def fitting_rates(
    tax: AmountSeries, amounts: Sequence[int | None], bills: Sequence[int], *, is_rare: bool = False
) -> set[Rate]:
    """Return the rates at which a tax is in an amount, or on top of it, on all bills that have one.

    Only a tax whose heading states its rate may be rare, such as that of drinks.
    """
    taxes = effects(tax)
    taxed = [bill for bill in bills if taxes[bill] and amounts[bill]]
    stated = stated_rates(tax.name)
    is_often = len(taxed) * 2 >= len(bills) or (is_rare and bool(stated))
    if not is_often or len(taxed) < 2:
        return set()
    slacks = _slacks(tax, taxed)
    found, nearly = set[Rate](), set[Rate]()
    for rate, is_with in _possible_rates(stated):
        percent, whole = rate.numerator, 100 * rate.denominator
        times = whole + percent if is_with else whole
        is_exact = is_near = True
        for bill in taxed:
            gap = abs(taxes[bill] * times - (amounts[bill] or 0) * percent)
            slack = slacks[bill] * rate.denominator
            if gap > NEARLY * slack:
                is_near = False
                break
            is_exact = is_exact and gap <= slack
        if is_near and is_exact:
            found.add((rate, is_with))
        elif is_near and (stated or rate in TAX_RATES):
            nearly.add((rate, is_with))
    if _only_side(found) is not None and _only_side(found | nearly) is None:
        # Tills also round the amount that was taxed, so that the other side is possible, too.
        return found | nearly
    return found


def _slacks(tax: AmountSeries, bills: Sequence[int]) -> dict[int, int]:
    """Return by how much the tax of each bill may differ from its rate, in parts of a hundredth.

    The tax may be rounded on each line, by half of the smallest unit at most: a cent, unless all taxes are whole.
    """
    is_whole = all((tax.values[bill] or 0) % SCALE == 0 for bill in bills)
    unit = 100 if is_whole else 1
    slacks = {}
    for bill in bills:
        rounded = tax.counts[bill] if tax.counts else 1
        slacks[bill] = unit * SCALE * (9 + 6 * rounded) // 10
    return slacks


def _possible_rates(stated: Sequence[Fraction]) -> list[Rate]:
    """Return the rates that a tax may have: those in its heading, or the usual ones."""
    if stated:
        return list(product(stated, (True, False)))
    usual = product(map(Fraction, TAX_RATES), (True, False))
    added = product(ADDED_RATES, (False,))
    included = product(INCLUDED_RATES, (True,))
    return [*usual, *added, *included]


def _only_side(rates: set[Rate]) -> bool | None:
    """Return whether an amount is with a tax, as all rates that fit say, or None if they differ."""
    sides = {is_with for _, is_with in rates}
    return sides.pop() if len(sides) == 1 else None
