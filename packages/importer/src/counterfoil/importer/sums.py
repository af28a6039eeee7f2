"""Finds what the customer paid, by checking over all bills of a sample which columns of amounts add up to which.

A candidate is a column, a sum over the lines, or a sum of columns. It is chosen only if the arithmetic shows what it
contains: the tip, the tax, charges and discounts, but not the fees that a bank or a platform keeps. Otherwise the
result is a question that names the columns in doubt.
"""

from collections.abc import Collection, Sequence
from fractions import Fraction
from itertools import combinations, islice, permutations, product, takewhile
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.importer.columns import SCALE
from counterfoil.importer.form import sentence
from counterfoil.importer.ranks import CHARGES, DEDUCTIONS, stated_rates

TOLERANCE = SCALE // 100 + SCALE // 1000
"""Tills round; a cent is no contradiction."""
SHARE = 0.95
SHARE_WITH_PART = 0.8
MOST_PARTS = 10
MOST_CHOICES = 6
BILL, LINE, MIXED = "bill", "line", "mixed"
LINES_ROLE, PAYMENTS_ROLE, UNKNOWN_ROLE = "lines", "payments", "unknown"
# With many unknown columns and many parts, there are too many sums to try.
MOST_UNKNOWN, MOST_PARTS_OF_UNKNOWN = 8, 4
# Rates of value added and sales taxes, in per cent. They show whether an amount is with or without the tax.
TAX_RATES = (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 27)
# Rates of sales taxes that are added, which may look like another one that is included.
ADDED_RATES = tuple(Fraction(eighths, 8) for eighths in range(4 * 8, 12 * 8 + 1) if eighths % 8)
INCLUDED_RATES = tuple(Fraction(tenths, 10) for tenths in (26, 38, 55, 77, 81, 135))
_ROLE_ORDER = ("paid", "total", "net", "gross", "amount", LINES_ROLE, "payout", PAYMENTS_ROLE, UNKNOWN_ROLE)

# Amounts before discounts and charges, then those to which taxes may be added, then what the customer paid.
_STAGES = (("gross", LINES_ROLE), ("net", "amount"), ("total", "paid"))
MOST_KNOWN_PARTS = 3
NEARLY = 3
"""A tax that is so many times as far from a rate as it is rounded does not show that it has another rate."""

_Contents = dict[int, dict[int, int]]
"""The candidates that are related to one, and how often each of them contains a part more or less than that one."""


class AmountSeries(Struct, frozen=True):
    """Amounts that the export states, one for each bill. `level` says whether a column is one of bills or of lines."""

    name: str
    role: str
    level: str
    values: tuple[int | None, ...]
    columns: tuple[str, ...] = ()
    cell: Any = None
    """The entry of a mapping that computes the amounts, or None if a mapping cannot."""
    is_product: bool = False
    counts: tuple[int, ...] = ()
    """How many rows of each bill are added, each of which may be rounded."""
    is_prepaid: bool = False
    """Whether the heading is that of a deposit, for example, which was paid before or is still to be paid."""

    def plus(self, *parts: "AmountSeries") -> "AmountSeries":
        total = self
        for part in parts:
            pairs = zip(total.values, part.values, strict=True)
            total = AmountSeries(
                f"{total.name} {part.name if part.name.startswith('- ') else f'+ {part.name}'}",
                total.role,
                total.level if part.level == total.level and not total.is_product else MIXED,
                tuple(None if one is None else one + (other or 0) for one, other in pairs),
                (*total.columns, *part.columns),
                added(total.cell, part.cell),
                total.is_product,
            )
        return total

    def minus(self) -> "AmountSeries":
        """Return these amounts as something that is subtracted."""
        values = tuple(-(value or 0) for value in self.values)
        cell = {"column": self.cell, "negate": True} if isinstance(self.cell, str) else subtracted(self.cell)
        return replace(self, name=f"- {self.name}", values=values, cell=cell)


def added(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    if all(isinstance(cell, dict) and "sum" in cell for cell in (one, other)):
        return {"sum": added(one["sum"], other["sum"])}
    return {"add": [*_terms(one), *_terms(other)]}


def subtracted(cell: Any) -> Any:
    """Return what is added instead of an entry of a mapping to subtract it."""
    if cell is None or isinstance(cell, str):
        return cell and f"-{cell}"
    if "sum" in cell:
        return {"sum": {"add": [subtracted(term) for term in _terms(cell["sum"])]}}
    return {"add": [subtracted(term) for term in cell["add"]]} if list(cell) == ["add"] else {**cell, "negate": True}


def absolute(cell: Any) -> Any:
    """Return an entry of a mapping that leaves out the sign of another one."""
    if isinstance(cell, str):
        return {"column": cell, "absolute": True}
    return {"sum": absolute(cell["sum"])} if "sum" in cell else {**cell, "absolute": True}


def _terms(cell: Any) -> list[Any]:
    if isinstance(cell, dict) and list(cell) == ["column", "negate"]:
        return [f"-{cell['column']}"]
    return cell["add"] if isinstance(cell, dict) and list(cell) == ["add"] else [cell]


class TotalFinding(Struct):
    """The total that was chosen, or the totals between which a person must choose, with the reasons."""

    chosen: AmountSeries | None = None
    choices: list[AmountSeries] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    question: str = ""
    is_proved: bool = False
    """Whether other amounts of the export confirm the total."""
    is_exact: bool = False
    """Whether one of them does so on all bills of the sample."""
    doubts: list[AmountSeries] = field(default_factory=list)
    """Amounts that nothing relates to `shown`, so that the customer may have paid them in addition, or instead."""
    shown: AmountSeries | None = None
    """The total that the arithmetic shows, apart from the doubts."""
    must_confirm: bool = False
    """Whether a person must answer although only one total is possible."""
    is_impossible: bool = False
    """Whether no answer would be right."""
    tips: list[AmountSeries] = field(default_factory=list)
    """Tips that no total or payment of the export contains, so that nothing shows who paid them."""
    without_tips: AmountSeries | None = None
    """The total if the customer did not pay the tips."""


class _Relation(Struct, frozen=True):
    """`target` is `base` with these parts added on `held` of `checked` bills."""

    target: int
    base: int
    parts: frozenset[int]
    held: int
    checked: int


def effects(part: AmountSeries) -> tuple[int, ...]:
    """Return what a part adds to a total on each bill. Discounts and fees reduce it, whatever sign they have."""
    values = tuple(value or 0 for value in part.values)
    if part.role in CHARGES:
        return values
    negative = sum(value < 0 for value in values)
    return values if negative > sum(value > 0 for value in values) else tuple(-value for value in values)


def without_parts_of_sums(parts: Sequence[AmountSeries], bills: Sequence[int]) -> list[AmountSeries]:
    """Leave out parts whose sum is another part of the same role, such as discounts per item beside all discounts."""
    left = [part for part in parts if any(part.values[bill] for bill in bills)]
    for whole in list(left):
        others = [part for part in left if part.role == whole.role and part is not whole]
        for some in (some for size in range(2, min(len(others), 4) + 1) for some in combinations(others, size)):
            gaps = ((whole.values[bill] or 0) - sum(part.values[bill] or 0 for part in some) for bill in bills)
            if all(part in left for part in (whole, *some)) and all(abs(gap) <= TOLERANCE for gap in gaps):
                left = [part for part in left if part not in some]
    return left[:MOST_PARTS]


def shown_by_sums(
    candidates: Sequence[AmountSeries],
    parts: list[AmountSeries],
    unknown: list[AmountSeries],
    taxed: list[AmountSeries],
    bills: Sequence[int],
) -> tuple[list[AmountSeries], list[AmountSeries]]:
    """Return unknown amounts that lead from an amount to a later one, and sums of amounts that do so from nothing."""
    # On one bill, an amount may fit by chance.
    amounts, bases = (
        [one for one in some if sum(bool(one.values[bill]) for bill in bills) > 1][:MOST_UNKNOWN]
        for some in (unknown, taxed)
    )
    signed = {sums_of([one], bills): one for amount in amounts for one in (amount, amount.minus())}
    # Amounts of departments, or those on which taxes at several rates are paid.
    wholes = [
        (few, sums_of(few, bills), role)
        for some, role in ((amounts, "gross"), (bases, "net"))
        for size in range(len(some), 1, -1)
        for few in combinations(some, size)
    ]
    taken = [replace(part, values=effects(part)).minus() for part in without_parts_of_sums(parts, bills)]
    stages = [(stage, one) for one in candidates for stage, roles in enumerate(_STAGES) if one.role in roles]
    pairs = [([target], [base.minus()]) for late, target in stages for early, base in stages if early < late]
    pairs += [([target], []) for stage, target in stages if stage == len(_STAGES) - 1]
    totals = [sums_of([one], bills) for stage, one in stages if stage == len(_STAGES) - 1]
    charges, sums = {}, {}
    for target, base in pairs if wholes or amounts else ():
        for few in (few for size in range(MOST_KNOWN_PARTS + 1) for few in combinations(taken, size)):
            gap = sums_of([*target, *base, *few], bills)
            if base and not any(gap):
                break
            if base and (found := signed.get(gap)):
                plain = next(one for one in amounts if one.columns == found.columns)
                is_charge = sum(gap) > 0
                before = sums_of([*target, found.minus()], bills)
                if not is_charge and (plain.is_prepaid or before in totals):
                    # A deposit, for example, was paid before.
                    continue
                if not is_charge and not totals and target[0].role == "net":
                    # It may be a tax, so that the larger amount was paid, or a discount.
                    continue
                charges[plain.name] = replace(found if is_charge else plain, role="charge" if is_charge else "discount")
            elif not base and (fitting := next((one for one in wholes if _are_close(one[1], gap)), None)):
                some, _, role = fitting
                whole = replace(some[0].plus(*some[1:]), role=role)
                sums[whole.name] = whole
    return list(charges.values()), list(sums.values())


def sums_of(amounts: Sequence[AmountSeries], bills: Sequence[int]) -> tuple[int, ...]:
    return tuple(sum(one.values[bill] or 0 for one in amounts) for bill in bills)


def differing(one: AmountSeries, other: AmountSeries, bills: Sequence[int]) -> list[int]:
    """Return the bills on which two amounts differ by more than what is rounded."""
    return [bill for bill in bills if abs((one.values[bill] or 0) - (other.values[bill] or 0)) > TOLERANCE]


def _are_close(some: Sequence[int], others: Sequence[int]) -> bool:
    return all(abs(one - other) <= TOLERANCE for one, other in zip(some, others, strict=True))


class TotalSearch:
    """Relates possible totals to each other. `bills` are the numbers of those that count: neither voids nor refunds."""

    def __init__(
        self,
        candidates: Sequence[AmountSeries],
        parts: Sequence[AmountSeries],
        bills: Sequence[int],
        all_bills: Sequence[int] | None = None,
    ) -> None:
        self._all_bills = bills if all_bills is None else all_bills
        """The bills on which an equation is counted. `bills` may be some of them."""
        self._bills = [bill for bill in bills if any(one.values[bill] for one in candidates)]
        self._candidates = sorted(
            (one for one in candidates if any(one.values[bill] for bill in self._bills)),
            key=lambda one: (_ROLE_ORDER.index(one.role), one.level != BILL),
        )
        self._parts = without_parts_of_sums(parts, bills)
        self._effects = [effects(part) for part in self._parts]
        # Beside known amounts, an unknown one is only evidence for them.
        known = [place for place, one in enumerate(self._candidates) if one.role != UNKNOWN_ROLE]
        self._known = known or list(range(len(self._candidates)))
        pairs = [pair for pair in permutations(range(len(self._candidates)), 2) if pair[0] in self._known]
        self._relations = [relation for target, base in pairs if (relation := self._relate(target, base))]
        self.parts_of_sums = {self._parts[part].name for relation in self._relations for part in relation.parts}
        """The charges and deductions by which candidates differ."""

    def finding(self) -> TotalFinding:
        if not self._candidates:
            return TotalFinding(question=sentence("No column with the bill's total was found."))
        if text := self._sometimes_included():
            return TotalFinding(question=text, is_impossible=True)
        found = [one for place in self._known if (one := self._judge(place))]
        if not any(finding.chosen for _, finding in found) and (total := self._before_fees()):
            return TotalSearch([*self._candidates, total], self._parts, self._bills, self._all_bills).finding()
        if not found:
            text = sentence("No column is what the customer paid, as far as the amounts show.")
            return TotalFinding(choices=self._plain(), question=text, must_confirm=True)
        _, finding = min(found, key=lambda one: one[0])
        finding.choices = list({one.name: one for one in finding.choices}.values())[:MOST_CHOICES]
        return finding

    def _before_fees(self) -> AmountSeries | None:
        """Return what another amount is on all bills before fees are taken off, which is what the customer paid."""
        for relation in self._relations:
            fees = {part for part in relation.parts if self._parts[part].role == "fee"}
            total = self._sum_of(relation.base, relation.parts - fees)
            is_stated = any(set(one.columns) == set(total.columns) for one in self._candidates)
            if fees and relation.held == relation.checked and total.cell is not None and not is_stated:
                return replace(total, role="total")
        return None

    def other_parts(self, total: AmountSeries) -> list[AmountSeries]:
        """Return what is not added to a candidate, and what nothing shows to be in it, as it changes the candidate."""
        place = next((place for place, one in enumerate(self._candidates) if one.cell == total.cell), None)
        # The same amounts under two headings are one part.
        parts = {part.values: number for number, part in enumerate(self._parts) if part.role != "fee"}
        roles = {part.role for part in self._parts if set(part.columns) & set(total.columns)}
        others = [part for part in parts.values() if self._parts[part].role not in roles]
        if place is None:
            return []
        # What shows that a tax is in another amount shows it for this one, if they do not differ by the tax.
        related = self._related(place)
        same = [(part, other) for part in others for other in related if not related[other].get(part)]
        included = {part for part, other in same if self._state(part, other, self._related(other))}
        return [self._as_added(part) for part in others if part not in included]

    def equations(self) -> list[tuple[AmountSeries, AmountSeries]]:
        """Return pairs of amounts that are equal on all bills, as few as relate all candidates that are related."""
        groups = [{place} for place in range(len(self._candidates))]
        found = []
        for relation in sorted(self._relations, key=lambda one: len(one.parts)):
            target, base = self._candidates[relation.target], self._candidates[relation.base]
            total = self._sum_of(relation.base, relation.parts)
            is_known = any({relation.target, relation.base} <= group for group in groups)
            is_same = set(target.columns) in (set(base.columns), set(total.columns))
            is_other = not is_same and target.cell is not None and total.cell is not None
            if relation.held == relation.checked and is_other and not is_known:
                found.append((target, total))
                joined = [group for group in groups if relation.target in group or relation.base in group]
                groups = [set().union(*joined), *(group for group in groups if group not in joined)]
        return found

    def is_level_shown(self, level: str, names: Collection[str]) -> bool:
        """Return whether payments, or rows of other columns, add up to these columns on all bills at this level."""
        pairs = [(one.target, one.base) for one in self._relations if one.held == one.checked]
        return any(
            one.level == level
            and not {*names}.isdisjoint(one.columns)
            and (other.role == PAYMENTS_ROLE or (other.level != BILL and {*names}.isdisjoint(other.columns)))
            for pair in pairs
            for one, other in permutations([self._candidates[place] for place in pair])
        )

    def explained_columns(self) -> set[str]:
        """Return the columns of candidates that others explain, or that are other readings of these."""
        # A payment that is another amount on some bills is not explained.
        roles = [one.role for one in self._candidates]
        places = [
            (one.target, one.base)
            for one in self._relations
            if one.held == one.checked or PAYMENTS_ROLE not in (roles[one.target], roles[one.base])
        ]
        related = {place for pair in places for place in pair}
        explained = [*(self._candidates[place] for place in related), *self._other_readings(related)]
        return {name for one in explained for name in one.columns}

    def _as_added(self, part: int, *, is_paid: bool = False) -> AmountSeries:
        """Return a part as it changes an amount or, if `is_paid`, what was paid. A fee was kept back from that."""
        series = self._parts[part]
        is_as_written = self._effects[part] == tuple(value or 0 for value in series.values)
        return series if is_as_written != (is_paid and series.role == "fee") else series.minus()

    def _plain(self) -> list[AmountSeries]:
        dismissed = self._other_readings({place for one in self._relations for place in (one.target, one.base)})
        usable = [one for one in self._candidates if one.cell is not None and one.role != "payout"]
        usable = [one for one in usable if one not in dismissed]
        return [one for one in usable if one.role != "unknown"] or usable

    def _other_readings(self, related: Collection[int]) -> list[AmountSeries]:
        """Return unrelated readings of related columns, if a column that can only be read in one way is among them."""
        columns = [one.columns for one in self._candidates]
        if all(columns[place] and columns.count(columns[place]) > 1 for place in related):
            return []
        known = {columns[place] for place in related}
        return [one for place, one in enumerate(self._candidates) if place not in related and one.columns in known]

    def _sometimes_included(self) -> str | None:
        """Return which charge a total includes on some bills only, though everything else adds up on all of them."""
        charges = [part for part in self._parts if part.role in CHARGES]
        taken = [replace(part, values=effects(part)).minus() for part in self._parts]
        # Where a column that repeats on the rows of a bill is the total, the sum of its rows says nothing.
        related = {place for relation in self._relations for place in (relation.target, relation.base)}
        dismissed = self._other_readings(related)
        amounts = [self._candidates[place] for place in self._known]
        pairs = permutations([one for one in amounts if one not in dismissed], 2)
        sums = [few for size in range(3) for few in combinations(taken, size)]
        negated = {id(base): base.minus() for base in self._candidates}
        for (target, base), few, charge in product(pairs, sums, charges):
            terms = [target, negated[id(base)], *few]
            gaps = ((sums_of(terms, [bill])[0], charge.values[bill] or 0) for bill in self._bills)
            known = list(takewhile(lambda gap: min(abs(gap[0]), abs(gap[0] - gap[1])) <= TOLERANCE, gaps))
            # An amount of a cent is no larger than what is rounded.
            included = [abs(gap) > TOLERANCE for gap, amount in known if abs(amount) > 2 * TOLERANCE]
            if len(known) == len(self._bills) and 1 < (count := sum(included)) < len(included) - 1:
                others = len(included) - count
                return sentence(
                    "{target} includes {charge} on {count} bills, but not on {others} others, though everything "
                    "else adds up. No sum of columns is right for all. Export a total that always includes it, "
                    "or one that never does.",
                    target=target.name,
                    charge=charge.name,
                    count=f"{count:,}",
                    others=f"{others:,}",
                )
        return None

    # --- relations ---------------------------------------------------------------

    def _relate(self, target: int, base: int) -> _Relation | None:
        """Return the smallest set of parts that turns one candidate into another on nearly all bills."""
        goal, start = self._candidates[target].values, self._candidates[base].values
        gaps = {
            bill: (goal[bill] or 0) - (start[bill] or 0)
            for bill in self._bills
            if goal[bill] is not None and start[bill] is not None
        }
        if not gaps or len(gaps) * 2 < len(self._bills):
            return None
        most = len(self._parts) if base in self._known else MOST_PARTS_OF_UNKNOWN
        for size in range(min(len(self._parts), most) + 1):
            sets = combinations(range(len(self._parts)), size)
            found = [(held, some) for some in sets if (held := self._held(gaps, some)) is not None]
            if found:
                held, some = max(found, key=lambda one: one[0])
                return _Relation(target, base, frozenset(some), held, len(gaps))
        return None

    def _held(self, gaps: dict[int, int], parts: tuple[int, ...]) -> int | None:
        """Return on how many bills the parts explain the gap, or None if that is not on nearly all of them."""

        def is_held(bill: int) -> bool:
            return abs(gaps[bill] - sum(self._effects[part][bill] for part in parts)) <= TOLERANCE

        some = list(islice(gaps, 20))
        if sum(map(is_held, some)) * 2 < len(some):
            # Most parts explain nothing, so the other bills need not be looked at.
            return None
        failed = {bill for bill in gaps if not is_held(bill)}
        if len(failed) > len(gaps) * (1 - SHARE):
            return None
        for effect in self._effects:
            with_part = [bill for bill in gaps if effect[bill]]
            if len(failed.intersection(with_part)) > (1 - SHARE_WITH_PART) * len(with_part):
                return None
        return len(gaps) - len(failed)

    def _related(self, place: int) -> _Contents:
        """Return the candidates related to one, also by way of others, and which parts they contain more or less."""
        known: _Contents = {place: {}}
        waiting = [place]
        while waiting:
            here = waiting.pop(0)
            for relation in self._relations:
                for start, end, sign in ((relation.base, relation.target, 1), (relation.target, relation.base, -1)):
                    if start == here and end not in known:
                        known[end] = dict(known[here])
                        for part in relation.parts:
                            known[end][part] = known[end].get(part, 0) + sign
                        waiting.append(end)
        return known

    # --- judging a candidate -------------------------------------------------------

    def _judge(self, place: int) -> tuple[tuple[int, ...], TotalFinding] | None:
        """Return how good a candidate is (lower is better) and the finding for it, or None if it is not the total."""
        candidate, related = self._candidates[place], self._related(place)
        equal = [other for other, content in related.items() if other != place and not any(content.values())]
        is_other = len(related) > 1 and (bool(equal) or candidate.cell is None)
        if candidate.role == "payout" or (candidate.role == PAYMENTS_ROLE and is_other):
            # A column or a sum of columns that equals the payments is a better name for the same amount.
            return None
        paid = next((other for other in related if self._candidates[other].role == PAYMENTS_ROLE), None)
        is_paid = paid is not None and not any(related[paid].values())
        states = [self._state(part, place, related) for part in range(len(self._parts))]
        missing = [part for part, state in enumerate(states) if state is False]
        unknown = [part for part, state in enumerate(states) if state is None]
        if any(self._parts[part].role in DEDUCTIONS for part in missing):
            return None
        # The same amounts under a similar heading, such as a subtotal before changes, prove nothing.
        amounts = [self._candidates[other] for other in related]
        known = {(one.name if one.role == LINES_ROLE else one.role, one.level, one.values) for one in amounts}
        is_proved = (
            len(known) > 1
            or {(one.role, one.values) for one in self._candidates} == {(PAYMENTS_ROLE, candidate.values)}
            or any(self._rate(part, place) for part in range(len(self._parts)))
        )
        finding = self._finding(place, related, missing, unknown, is_paid=is_paid, is_proved=is_proved)
        rank = (not finding.chosen, not is_paid, not is_proved, len(missing) + len(unknown), place)
        return tuple(map(int, rank)), finding

    def _finding(
        self, place: int, related: _Contents, missing: list[int], unknown: list[int], *, is_paid: bool, is_proved: bool
    ) -> TotalFinding:
        """Return a candidate with the parts that it lacks or, if it is not clear which they are, a question."""
        candidate, lacking = self._candidates[place], [self._parts[part] for part in missing]
        name, total = candidate.name, candidate.plus(*lacking)
        if outside := [self._parts[part] for part in (*missing, *unknown) if self._parts[part].cell is None]:
            is_shown = not unknown and (self._has_bare(related) or not is_paid)
            text = sentence(
                "{outside} may not be in {name}, and a mapping cannot add amounts of payments. Export the bills "
                "with a total that includes it.",
                outside=_names(outside),
                name=name,
            )
            if is_shown:
                text = sentence(
                    "{outside} is not in {name}, and a mapping cannot add amounts of payments. Export the bills "
                    "with a total that includes it.",
                    outside=_names(outside),
                    name=name,
                )
            if is_shown:
                # A mapping cannot compute this total, but an answer is compared with it.
                evidence = self._evidence(place, related)[:4]
                return TotalFinding(total, [], evidence, question=text, shown=total, is_proved=True)
            return TotalFinding(choices=[candidate], question=text, must_confirm=True)
        if unknown:
            # The tip comes first, because it is the most probable answer.
            unknown.sort(key=lambda part: self._parts[part].role != "tip")
            added = [self._as_added(part, is_paid=True) for part in unknown]
            sizes = (0, len(added), *range(1, len(added)))
            sums = [total.plus(*some) for size in sizes for some in combinations(added, size)]
            names = _names([self._parts[part] for part in unknown])
            text = sentence(
                "The amounts do not show whether {name} already takes {names} into account.", name=name, names=names
            )
            plain = self._plain()
            clear = [bill for bill in self._bills if not any(part.values[bill] for part in added)]
            if is_proved:
                # Where nothing is in doubt, other amounts show what was paid.
                plain = [one for one in plain if not differing(one, total, clear)]
            return TotalFinding(choices=[*sums[:4], *plain], question=text)
        clear = [part for part in missing if self._parts[part].role in ("tip", "tax") or _differs(part, related)]
        doubtful = [part for part in missing if is_paid or not is_proved or part not in clear]
        tips = [part for part in missing if self._parts[part].role == "tip" and not self._is_in_sums(part, related)]
        others = [self._parts[part] for part in missing if part not in tips]
        without_tips = candidate.plus(*others) if tips else None
        if doubtful:
            names = _names([self._parts[part] for part in doubtful])
            text = sentence(
                "{name} adds up without {names}. Did the customer pay it in addition?", name=name, names=names
            )
            return TotalFinding(
                choices=[candidate, total] if is_paid or is_proved else [total, candidate],
                question=text,
                tips=[self._parts[part] for part in tips],
                without_tips=without_tips,
            )
        if not is_proved and not self._is_only_amount(place):
            rivals = _names([one for one in self._candidates if one is not candidate])
            text = sentence(
                "Only its heading says that {name} is what the customer paid. Nothing in the export adds up to it.",
                name=name,
            )
            if rivals:
                text = sentence(
                    "Only its heading says that {name} is what the customer paid. Nothing in the export adds up "
                    "to it, and there is also {rivals}.",
                    name=name,
                    rivals=rivals,
                )
            plain = self._plain()
            are_unknown = all(one.role == UNKNOWN_ROLE for one in plain)
            return TotalFinding(choices=plain, question=text, must_confirm=are_unknown)
        evidence = self._evidence(place, related)
        if others:
            evidence.append(
                sentence("{others} is not in {name}, so it is added", others=_names(others, " and "), name=name)
            )
        relations = [one for one in self._relations if place in (one.target, one.base)]
        is_exact = any(one.held == one.checked for one in relations)
        return TotalFinding(
            chosen=total,
            evidence=evidence[:4],
            is_proved=is_proved,
            is_exact=is_exact,
            shown=total,
            tips=[self._parts[part] for part in tips],
            without_tips=without_tips,
        )

    def _is_in_sums(self, part: int, related: _Contents) -> bool:
        """Return whether some amount contains a part and another one does not. The same amounts are one part."""
        same = [other for other, effect in enumerate(self._effects) if effect == self._effects[part]]
        return any(_differs(one, related) for one in same)

    def _state(self, part: int, place: int, related: _Contents) -> bool | None:
        """Return whether a candidate is with a charge, after a discount, or before a fee; None if that is not known."""
        role, is_strong = self._parts[part].role, self._candidates[place].role == "paid"
        # The same amounts under two headings are one part, of which the relations name only one.
        same = [other for other, effect in enumerate(self._effects) if effect == self._effects[part]]
        named = next((one for one in (part, *same) if _differs(one, related)), part)
        if _differs(named, related):
            # A fee is taken off what the customer paid; anything else is in it.
            others = [content.get(named, 0) for content in related.values()]
            return min(others) >= 0 if role == "fee" else max(others) <= 0
        if role not in ("discount", "tax") and self._has_bare(related):
            return role == "fee"
        if role != "tip" and any(self._candidates[other].role == PAYMENTS_ROLE for other in related):
            # What was paid is with all charges and discounts, and the candidate with those by which it does not differ.
            # A tip may have been paid apart from the other payments.
            return True
        if role == "tax":
            rate = self._rate(part, place)
            rates = [self._rate_within(part, other) for other in related] if rate is None else [rate]
            shown = {one for one in rates if one is not None}
            if len(shown) == 1:
                return shown.pop()
        if role == "discount" and self._is_taxed_without(part, place):
            return True
        return True if is_strong and role != "tip" else None

    def _has_bare(self, related: _Contents) -> bool:
        """Return whether one of the candidates is the price of the items alone, without tips and charges."""
        for other in related:
            candidate = self._candidates[other]
            if candidate.role == LINES_ROLE or candidate.level == LINE:
                return True
            added = {part for relation in self._relations if relation.base == other for part in relation.parts}
            if candidate.role == "gross" and any(self._parts[part].role != "fee" for part in added):
                return True
        return False

    def _rate(self, part: int, place: int) -> bool | None:
        """Return whether the ratio of a tax to a candidate shows that the candidate is with the tax, or without it."""
        if self._parts[part].role != "tax":
            return None
        found = self._rates(part, self._candidates[place].values)
        return _only_side(found)

    def _rate_within(self, part: int, place: int) -> bool | None:
        """Return what the ratio of a tax to a part of a candidate shows: to one of its columns, or without its tip."""
        if self._parts[part].role != "tax":
            return None
        sides = set[bool]()
        candidate = self._candidates[place]
        for other in self._candidates:
            is_column = len(other.columns) == 1 and other.columns[0] in candidate.columns
            if len(candidate.columns) > 1 and is_column:
                side = _only_side(self._rates(part, other.values, is_rare=True))
                sides |= {side} if side is not None else set()
        for relation in self._relations:
            if relation.target != place or part in relation.parts or len(relation.parts) < 2:
                continue
            for size in range(1, len(relation.parts)):
                for some in combinations(sorted(relation.parts), size):
                    amounts = self._sum_of(relation.base, frozenset(some))
                    side = _only_side(self._rates(part, amounts.values))
                    sides |= {side} if side is not None else set()
        return sides.pop() if len(sides) == 1 else None

    def _rates(self, part: int, base: Sequence[int | None], *, is_rare: bool = False) -> set[tuple[Fraction, bool]]:
        """Return the rates at which a tax is in an amount, or on top of it, on all bills that have one.

        Only a tax whose heading states its rate may be rare, such as that of drinks.
        """
        tax, counts = self._effects[part], self._parts[part].counts
        bills = [bill for bill in self._bills if tax[bill] and base[bill]]
        stated = stated_rates(self._parts[part].name)
        is_often = len(bills) * 2 >= len(self._bills) or (is_rare and bool(stated))
        if not is_often or len(bills) < 2:
            return set()
        # The tax may be rounded on each line, by half of the smallest unit at most: a cent, unless all taxes are whole.
        is_whole = all(tax[bill] % SCALE == 0 for bill in bills)
        unit = 100 if is_whole else 1
        slacks = {bill: unit * SCALE * (9 + 6 * (counts[bill] if counts else 1)) // 10 for bill in bills}
        rates = [(rate, is_with) for rate in stated or map(Fraction, TAX_RATES) for is_with in (True, False)]
        if not stated:
            rates += [(rate, False) for rate in ADDED_RATES]
            rates += [(rate, True) for rate in INCLUDED_RATES]
        found = set[tuple[Fraction, bool]]()
        nearly = set[tuple[Fraction, bool]]()
        for rate, is_with in rates:
            gaps = [abs(tax[bill] * (100 + rate * is_with) - (base[bill] or 0) * rate) / slacks[bill] for bill in bills]
            if max(gaps) <= 1:
                found.add((rate, is_with))
            elif max(gaps) <= NEARLY and (stated or rate in TAX_RATES):
                nearly.add((rate, is_with))
        if _only_side(found) is not None and _only_side(found | nearly) is None:
            # Tills also round the amount that was taxed, so that the other side is possible, too.
            return found | nearly
        return found

    def _is_taxed_without(self, part: int, place: int) -> bool:
        """Return whether a total is after a discount because the tax is that of the total, and not of what is left."""
        values, effect = self._candidates[place].values, self._effects[part]
        reduced = [(value or 0) + one for value, one in zip(values, effect, strict=True)]
        # On one bill, a tax may fit by chance.
        is_often = sum(bool(effect[bill]) for bill in self._bills) > 1
        taxes = [tax for tax, one in enumerate(self._parts) if one.role == "tax" and is_often]
        is_total = self._candidates[place].role in ("paid", "total")
        return is_total and any(self._rate(tax, place) is not None and not self._rates(tax, reduced) for tax in taxes)

    def _is_only_amount(self, place: int) -> bool:
        """Return whether there is nothing else that could be the total, and nothing that it may lack."""
        role = self._candidates[place].role
        has_rivals = any(one.role != "unknown" for other, one in enumerate(self._candidates) if other != place)
        return not has_rivals and (role == "paid" or (role in ("total", "amount", LINES_ROLE) and not self._parts))

    def _evidence(self, place: int, related: _Contents) -> list[str]:
        """Return what adds up to a candidate or, if nothing does, what it is a part of."""
        name = self._candidates[place].name
        columns = set(self._candidates[place].columns)
        others = [one for one in self._relations if not set(self._candidates[one.base].columns) < columns]
        relations = [one for one in others if one.target == place] or [one for one in others if one.base == place]
        lines: list[str] = []
        shown = set()
        for relation in relations:
            base, target = self._candidates[relation.base], self._candidates[relation.target]
            # If each bill has one row, a column and its sum are the same.
            terms = base.columns, relation.parts
            if terms in shown or (not relation.parts and set(base.columns) == set(target.columns)):
                continue
            shown.add(terms)
            total = self._sum_of(relation.base, relation.parts)
            held, checked = self._count_bills(target, total)
            lines.append(
                sentence(
                    "{target} = {total} on {held} of {checked} bills",
                    target=target.name,
                    total=total.name,
                    held=f"{held:,}",
                    checked=f"{checked:,}",
                )
            )
        for number, part in enumerate(self._parts):
            rate = self._rate(number, place)
            if rate is not None and not _differs(number, related):
                lines.append(_shown_by_rate(part.name, name, is_included=bool(rate)))
        return lines or [sentence("{name} is the only amount; nothing in the export confirms it", name=name)]

    def _count_bills(self, target: AmountSeries, total: AmountSeries) -> tuple[int, int]:
        """Return on how many bills two amounts are equal, and on how many they are known.

        Whether a bill was sold may be asked about, so all bills are counted if the amounts are equal on each of them.
        """
        every_bill = range(len(target.values))
        for bills in (every_bill, self._all_bills):
            known = [bill for bill in bills if target.values[bill] is not None and total.values[bill] is not None]
            known = [bill for bill in known if target.values[bill] or total.values[bill]]
            others = differing(target, total, known)
            if not others:
                break
        return len(known) - len(others), len(known)

    def _sum_of(self, base: int, parts: frozenset[int]) -> AmountSeries:
        return self._candidates[base].plus(*map(self._as_added, sorted(parts)))


def _differs(part: int, related: _Contents) -> bool:
    return any(content.get(part) for content in related.values())


def _only_side(rates: set[tuple[Fraction, bool]]) -> bool | None:
    """Return whether an amount is with a tax, as all rates that fit say, or None if they differ."""
    sides = {is_with for _, is_with in rates}
    return sides.pop() if len(sides) == 1 else None


def _names(amounts: Sequence[AmountSeries], separator: str = ", ") -> str:
    return separator.join(one.name for one in amounts)


def _shown_by_rate(part: str, total: str, *, is_included: bool) -> str:
    if is_included:
        return sentence("the rate shows that {part} is included in {total}", part=part, total=total)
    return sentence("the rate shows that {part} is on top of {total}", part=part, total=total)
