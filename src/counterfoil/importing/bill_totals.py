"""Finds what the customer paid, by checking over all bills of a sample which columns of amounts add up to which.

A candidate is a column, a sum over the lines, or a sum of columns. It is chosen only if the arithmetic shows what it
contains: the tip, the tax, charges and discounts, but not the fees that a bank or a platform keeps. Otherwise the
result is a question that names the columns in doubt.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, islice

from msgspec import Struct, field

from counterfoil.importing.headings import CHARGES

# Amounts are whole numbers of this fraction of the currency's unit.
SCALE = 10_000
TOLERANCE = SCALE // 100 + SCALE // 1000
"""Tills round; a cent is no contradiction."""
SHARE = 0.95
SHARE_WITH_PART = 0.8
MOST_PARTS = 10
BILL, LINE = "bill", "line"
LINES_ROLE, PAYMENTS_ROLE = "lines", "payments"
# Rates of value added and sales taxes, in per cent. They show whether an amount is with or without the tax.
TAX_RATES = (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 27)
_ROLE_ORDER = ("paid", "total", "net", "gross", "amount", LINES_ROLE, "payout", PAYMENTS_ROLE, "unknown")


class AmountSeries(Struct, frozen=True):
    """Amounts that the export states, one for each bill. `level` says whether a column is one of bills or of lines."""

    name: str
    role: str
    level: str
    values: tuple[int | None, ...]
    columns: tuple[str, ...] = ()
    is_product: bool = False

    def has_values(self) -> bool:
        return any(self.values)


class Total(Struct, frozen=True):
    """An expression for what the customer paid: a candidate, and amounts that are added to it."""

    base: AmountSeries
    added: tuple[AmountSeries, ...] = ()

    @property
    def text(self) -> str:
        names = (part.name if part.name.startswith("- ") else f"+ {part.name}" for part in self.added)
        return " ".join([self.base.name, *names])

    def value(self, bill: int) -> int | None:
        base = self.base.values[bill]
        return None if base is None else base + sum(part.values[bill] or 0 for part in self.added)


class TotalFinding(Struct):
    """The total that was chosen, or the totals between which a person must choose, with the reasons."""

    chosen: Total | None = None
    choices: list[Total] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    parts: frozenset[str] = frozenset()
    """The charges and deductions by which candidates differ."""
    question: str = ""


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


def _as_paid(part: AmountSeries) -> AmountSeries:
    """Return a part as it is added to an amount that does not take it into account, to get what the customer paid.

    A discount reduces what was paid. A fee was kept back from it, so it is added again.
    """
    if part.role in CHARGES:
        return part
    reduction = effects(part)
    values = reduction if part.role == "discount" else tuple(-value for value in reduction)
    if values == tuple(value or 0 for value in part.values):
        return part
    return AmountSeries(f"- {part.name}", part.role, part.level, values, tuple(f"-{name}" for name in part.columns))


def find_total(candidates: Sequence[AmountSeries], parts: Sequence[AmountSeries], bills: Sequence[int]) -> TotalFinding:
    """Return what the customer paid. `bills` are the numbers of the bills that count: neither voids nor refunds."""
    found = _TotalSearch(candidates, without_parts_of_sums(parts, bills), bills)
    return found.finding()


def without_parts_of_sums(parts: Sequence[AmountSeries], bills: Sequence[int]) -> list[AmountSeries]:
    """Leave out parts whose sum is another part of the same role, such as discounts per item beside all discounts."""
    left = [part for part in parts if any(part.values[bill] for bill in bills)]
    for whole in list(left):
        others = [part for part in left if part.role == whole.role and part is not whole]
        for size in range(2, min(len(others), 4) + 1):
            for some in combinations(others, size):
                is_sum = all(
                    abs((whole.values[bill] or 0) - sum(part.values[bill] or 0 for part in some)) <= TOLERANCE
                    for bill in bills
                )
                if whole in left and is_sum and all(part in left for part in some):
                    left = [part for part in left if part not in some]
    return left[:MOST_PARTS]


class _TotalSearch:
    """Relates the candidates to each other, and chooses one."""

    def __init__(self, candidates: Sequence[AmountSeries], parts: Sequence[AmountSeries], bills: Sequence[int]) -> None:
        self._bills = [bill for bill in bills if any(one.values[bill] for one in candidates)]
        self._candidates = sorted(
            (one for one in candidates if any(one.values[bill] for bill in self._bills)),
            key=lambda one: (_ROLE_ORDER.index(one.role), one.level != BILL),
        )
        self._parts = list(parts)
        self._effects = [effects(part) for part in self._parts]
        self._relations = list(self._find_relations())

    def finding(self) -> TotalFinding:
        if not self._candidates:
            return TotalFinding(question="No column with the bill's total was found.")
        contents = self._contents()
        judged = [one for place in range(len(self._candidates)) if (one := self._judge(place, contents))]
        if not judged:
            return self._ask("No column is what the customer paid, as far as the amounts show.", self._plain_choices())
        rank, finding = min(judged, key=lambda one: one[0])
        rivals = self._rivals(finding.chosen, contents[rank[-1]]) if finding.chosen else []
        if finding.chosen and rivals:
            names = ", ".join(rival.name for rival in rivals)
            choices = [finding.chosen, *(Total(rival) for rival in rivals)]
            return self._ask(f"{finding.chosen.text} adds up, but nothing explains {names}.", choices)
        return finding

    def _rivals(self, chosen: Total, related: Collection[int]) -> list[AmountSeries]:
        """Return candidates that by their headings may be the total, but that the arithmetic does not explain."""
        return [
            one
            for place, one in enumerate(self._candidates)
            if place not in related
            and one.level == BILL
            and one.role in ("paid", "total", "net", "amount")
            and any(abs((one.values[bill] or 0) - (chosen.value(bill) or 0)) > TOLERANCE for bill in self._bills)
        ]

    # --- relations ---------------------------------------------------------------

    def _find_relations(self) -> Iterator[_Relation]:
        for target in range(len(self._candidates)):
            for base in range(len(self._candidates)):
                if target != base and (relation := self._relate(target, base)):
                    yield relation

    def _relate(self, target: int, base: int) -> _Relation | None:
        """Return the smallest set of parts that turns one candidate into another on nearly all bills."""
        goal, start = self._candidates[target].values, self._candidates[base].values
        bills = [bill for bill in self._bills if goal[bill] is not None and start[bill] is not None]
        if not bills or len(bills) * 2 < len(self._bills):
            return None
        gaps = {bill: (goal[bill] or 0) - (start[bill] or 0) for bill in bills}
        best: _Relation | None = None
        for size in range(len(self._parts) + 1):
            for some in combinations(range(len(self._parts)), size):
                held = self._held(gaps, some)
                if held is not None and (best is None or held > best.held):
                    best = _Relation(target, base, frozenset(some), held, len(bills))
            if best:
                return best
        return None

    def _held(self, gaps: dict[int, int], parts: tuple[int, ...]) -> int | None:
        """Return on how many bills the parts explain the gap, or None if that is not on nearly all of them."""
        allowed = len(gaps) - SHARE * len(gaps)
        failed: list[int] = []
        if not self._holds_on_first(gaps, parts):
            return None
        for bill, gap in gaps.items():
            if abs(gap - sum(self._effects[part][bill] for part in parts)) > TOLERANCE:
                failed.append(bill)
                if len(failed) > allowed:
                    return None
        for effect in self._effects:
            with_part = [bill for bill in gaps if effect[bill]]
            if with_part and sum(bill in failed for bill in with_part) > (1 - SHARE_WITH_PART) * len(with_part):
                return None
        return len(gaps) - len(failed)

    def _holds_on_first(self, gaps: dict[int, int], parts: tuple[int, ...]) -> bool:
        """Return whether the parts explain most of the first gaps. If not, the others need not be looked at."""
        some = list(islice(gaps.items(), 20))
        held = sum(abs(gap - sum(self._effects[part][bill] for part in parts)) <= TOLERANCE for bill, gap in some)
        return held * 2 >= len(some)

    def _contents(self) -> dict[int, dict[int, dict[int, int]]]:
        """Return for each candidate the candidates related to it, and which parts they contain more or less than it."""
        edges: dict[int, list[tuple[int, frozenset[int], int]]] = {}
        for relation in self._relations:
            edges.setdefault(relation.base, []).append((relation.target, relation.parts, 1))
            edges.setdefault(relation.target, []).append((relation.base, relation.parts, -1))
        found = {}
        for start in range(len(self._candidates)):
            known: dict[int, dict[int, int]] = {start: {}}
            waiting = [start]
            while waiting:
                place = waiting.pop(0)
                for other, parts, sign in edges.get(place, []):
                    if other not in known:
                        known[other] = dict(known[place])
                        for part in parts:
                            known[other][part] = known[other].get(part, 0) + sign
                        waiting.append(other)
            found[start] = known
        return found

    # --- judging a candidate -------------------------------------------------------

    def _judge(
        self, place: int, contents: dict[int, dict[int, dict[int, int]]]
    ) -> tuple[tuple[int, ...], TotalFinding] | None:
        """Return how good a candidate is (lower is better) and the finding for it, or None if it is not the total."""
        candidate, related = self._candidates[place], contents[place]
        if candidate.role == "payout" or (candidate.role == PAYMENTS_ROLE and len(related) > 1):
            # A column or a sum of columns that equals the payments is a better name for the same amount.
            return None
        paid = next((other for other in related if self._candidates[other].role == PAYMENTS_ROLE), None)
        is_paid = paid is not None and not any(related[paid].values())
        missing, unknown, is_outside = [], [], False
        for part in range(len(self._parts)):
            state = self._state(part, place, related, is_paid=is_paid)
            role = self._parts[part].role
            if state is False and role in ("discount", "fee"):
                is_outside = True
            elif state is False:
                missing.append(part)
            elif state is None:
                unknown.append(part)
        if is_outside:
            return None
        is_proved = (
            len(related) > 1
            or all(one.role == PAYMENTS_ROLE for one in self._candidates)
            or any(self._rate(part, place) for part in range(len(self._parts)))
        )
        finding = self._finding(place, missing, unknown, related, is_paid=is_paid, is_proved=is_proved)
        rank = (
            not finding.chosen,
            not is_paid,
            not is_proved,
            len(missing) + len(unknown),
            place,
        )
        return tuple(map(int, rank)), finding

    def _state(self, part: int, place: int, related: dict[int, dict[int, int]], *, is_paid: bool) -> bool | None:
        """Return whether a candidate is with a charge, after a discount, or before a fee; None if that is not known."""
        role = self._parts[part].role
        # The same amounts under two headings are one part, of which the relations name only one.
        same = [other for other, effect in enumerate(self._effects) if effect == self._effects[part]]
        varying = [one for one in same if any(content.get(one) for content in related.values())]
        named = part if part in varying or not varying else varying[0]
        others = {other: content.get(named, 0) for other, content in related.items()}
        if role == "fee":
            # A fee is taken off what the customer paid, so the candidate must have it less often than the others.
            if any(others.values()):
                return min(others.values()) >= 0
            return True if is_paid or self._has_bare(related) or self._is_strong(place) else None
        if any(others.values()):
            return max(others.values()) <= 0
        if role == "discount":
            return True if is_paid or self._is_strong(place) else None
        if role == "tax":
            if is_paid:
                return True
            rate = self._rate(part, place)
            return rate if rate is not None else True if self._is_strong(place) else None
        if self._has_bare(related):
            return False
        if role == "tip":
            return True if is_paid else None
        return True if is_paid or self._is_strong(place) else None

    def _has_bare(self, related: dict[int, dict[int, int]]) -> bool:
        """Return whether one of the candidates is the price of the items alone, without tips and charges."""
        for other in related:
            role = self._candidates[other].role
            is_items = role == LINES_ROLE or (role == "amount" and self._candidates[other].level == LINE)
            is_subtotal = role == "gross" and any(
                relation.base == other and any(self._parts[part].role != "fee" for part in relation.parts)
                for relation in self._relations
            )
            if is_items or is_subtotal:
                return True
        return False

    def _is_strong(self, place: int) -> bool:
        """Return whether the heading itself says that this is what the customer paid."""
        return self._candidates[place].role == "paid"

    def _rate(self, part: int, place: int) -> bool | None:
        """Return whether the ratio of a tax to a candidate shows that the candidate is with the tax, or without it."""
        if self._parts[part].role != "tax":
            return None
        tax, base = self._effects[part], self._candidates[place].values
        pairs = [(tax[bill], base[bill] or 0) for bill in self._bills if tax[bill] and base[bill]]
        if len(pairs) * 2 < len(self._bills) or len(pairs) < 2:
            return None
        slack = 3 * SCALE // 200
        fits = {
            is_with
            for rate in TAX_RATES
            for is_with in (True, False)
            if all(abs(one * (100 + rate * is_with) - amount * rate) <= slack * 100 for one, amount in pairs)
        }
        return fits.pop() if len(fits) == 1 else None

    # --- the result ------------------------------------------------------------------

    def _finding(
        self,
        place: int,
        missing: list[int],
        unknown: list[int],
        related: dict[int, dict[int, int]],
        *,
        is_paid: bool,
        is_proved: bool,
    ) -> TotalFinding:
        candidate = self._candidates[place]
        total = Total(candidate, tuple(self._parts[part] for part in missing))
        names = ", ".join(self._parts[part].name for part in unknown)
        with_unknown = Total(candidate, (*total.added, *(_as_paid(self._parts[part]) for part in unknown)))
        doubtful = [
            part
            for part in missing
            if self._parts[part].role not in ("tip", "tax")
            and not any(content.get(part) for content in related.values())
        ]
        if unknown:
            return self._ask(
                f"The amounts do not show whether {candidate.name} already takes {names} into account.",
                [total, with_unknown, *self._plain_choices()],
            )
        if is_paid and missing:
            parts = ", ".join(self._parts[part].name for part in missing)
            return self._ask(
                f"The payments equal {candidate.name}, but its other amounts add up without {parts}.",
                [Total(candidate), total],
            )
        if doubtful:
            parts = ", ".join(self._parts[part].name for part in doubtful)
            return self._ask(
                f"{candidate.name} adds up without {parts}. Did the customer pay it in addition?",
                [Total(candidate), total],
            )
        if any(part.level != candidate.level for part in total.added) or (total.added and candidate.is_product):
            return self._ask(
                f"What the customer paid seems to be {total.text}, but columns of bills and of lines cannot be added "
                "in a mapping. Export the bills with a total, or with a column that includes both.",
                [],
            )
        if not is_proved and not self._is_only_amount(place):
            others = ", ".join(one.name for one in self._candidates if one is not candidate)
            return self._ask(
                f"Only its heading says that {candidate.name} is what the customer paid. Nothing in the export adds up "
                f"to it{f', and there is also {others}' if others else ''}.",
                self._plain_choices(),
            )
        differing = frozenset(self._parts[part].name for relation in self._relations for part in relation.parts)
        return TotalFinding(chosen=total, evidence=self._evidence(place, missing, related), parts=differing)

    def _is_only_amount(self, place: int) -> bool:
        """Return whether there is nothing else that could be the total, and nothing that it may lack."""
        candidate = self._candidates[place]
        rivals = [one for one in self._candidates if one is not candidate and one.role != "unknown"]
        is_total = candidate.role in ("total", "amount", LINES_ROLE) and not self._parts
        return not rivals and (candidate.role == "paid" or is_total)

    def _evidence(self, place: int, missing: list[int], related: dict[int, dict[int, int]]) -> list[str]:
        candidate = self._candidates[place]
        lines = [
            f"{candidate.name} = {self._sum_text(relation)} on {relation.held:,} of {relation.checked:,} bills"
            for relation in self._relations
            if relation.target == place
        ]
        if not lines:
            lines = [
                f"{self._candidates[relation.target].name} = {self._sum_text(relation)} on {relation.held:,} of "
                f"{relation.checked:,} bills"
                for relation in self._relations
                if relation.base == place
            ]
        for part in range(len(self._parts)):
            rate = self._rate(part, place)
            if rate is not None and not any(content.get(part) for content in related.values()):
                how = "is included in" if rate else "is on top of"
                lines.append(f"the rate shows that {self._parts[part].name} {how} {candidate.name}")
        if missing:
            names = " and ".join(self._parts[part].name for part in missing)
            lines.append(f"{names} is not in {candidate.name}, so it is added")
        return lines[:4] or [f"{candidate.name} is the only amount; nothing in the export confirms it"]

    def _sum_text(self, relation: _Relation) -> str:
        text = self._candidates[relation.base].name
        for part in sorted(relation.parts):
            sign = "+" if self._parts[part].role in CHARGES else "-"
            text += f" {sign} {self._parts[part].name}"
        return text

    def _plain_choices(self) -> list[Total]:
        return [Total(one) for one in self._candidates if one.role not in (PAYMENTS_ROLE, "unknown", "payout")]

    def _ask(self, question: str, choices: list[Total]) -> TotalFinding:
        """Return a question, with a bill on which the choices differ most as an example."""
        different: list[Total] = []
        for total in choices:
            if total.text not in [one.text for one in different]:
                different.append(total)
        return TotalFinding(choices=different[:5], question=question)


def example_bill(choices: Sequence[Total], bills: Sequence[int]) -> int | None:
    """Return the first bill on which most of the choices differ."""
    return max(bills, key=lambda bill: len({total.value(bill) for total in choices}), default=None)
