"""Chooses what the customer paid among the totals of an export.

A total is chosen only if the arithmetic shows what it contains: the tip, the tax, charges and discounts, but not the
fees that a bank or a platform keeps. Otherwise the result is a question that names the columns in doubt.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, islice

from msgspec import Struct, field

from counterfoil.importer.form import sentence
from counterfoil.importer.ranks import DEDUCTIONS
from counterfoil.importer.sums.relations import AmountRelations, Contents, Relation
from counterfoil.importer.sums.series import LINE, LINES_ROLE, PAYMENTS_ROLE, UNKNOWN_ROLE, AmountSeries, differing
from counterfoil.importer.sums.taxes import Taxes

MOST_CHOICES = 6
MOST_SUMS = 4
MOST_EVIDENCE = 4


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


class _Judged(Struct, frozen=True):
    """A candidate, what is related to it, and the parts that it lacks, or of which that is not known."""

    place: int
    amount: AmountSeries
    related: Contents
    missing: list[int]
    unknown: list[int]
    is_paid: bool
    """Whether the payments are equal to it."""
    is_proved: bool
    """Whether other amounts confirm it."""


class TotalSearch:
    """Finds the total among candidates. `bills` are the numbers of those that count: neither voids nor refunds."""

    def __init__(
        self,
        candidates: Sequence[AmountSeries],
        parts: Sequence[AmountSeries],
        bills: Sequence[int],
        all_bills: Sequence[int] | None = None,
    ) -> None:
        self.relations = AmountRelations(candidates, parts, bills)
        self._taxes = Taxes(self.relations)
        self._all_bills = bills if all_bills is None else all_bills
        """The bills on which an equation is counted. `bills` may be some of them."""
        self._bills = self.relations.bills
        self._candidates = self.relations.candidates
        self._parts = self.relations.parts

    def finding(self) -> TotalFinding:
        """Return the total, or the question that is left."""
        if not self._candidates:
            return TotalFinding(question=sentence("No column with the bill's total was found."))
        if text := self.relations.sometimes_included():
            return TotalFinding(question=text, is_impossible=True)
        ranked = []
        for place in self.relations.known:
            judged = self._judge(place)
            if judged is not None:
                finding = self._finding(judged)
                ranked.append((_rank(judged, finding), finding))
        if not any(finding.chosen for _, finding in ranked):
            total = self.relations.before_fees()
            if total is not None:
                candidates = [*self._candidates, total]
                return TotalSearch(candidates, self._parts, self._bills, self._all_bills).finding()
        if not ranked:
            text = sentence("No column is what the customer paid, as far as the amounts show.")
            return TotalFinding(choices=self.relations.plain_totals(), question=text, must_confirm=True)
        _, best = min(ranked, key=lambda entry: entry[0])
        by_name = {total.name: total for total in best.choices}
        best.choices = list(by_name.values())[:MOST_CHOICES]
        return best

    def other_parts(self, total: AmountSeries) -> list[AmountSeries]:
        """Return what is not added to a candidate, and what nothing shows to be in it, as it changes the candidate."""
        cells = [candidate.cell for candidate in self._candidates]
        if total.cell not in cells:
            return []
        of_total = [part for part in self._parts if not set(part.columns).isdisjoint(total.columns)]
        roles = {part.role for part in of_total}
        # The same amounts under two headings are one part.
        distinct: dict[tuple[int | None, ...], int] = {}
        for number, part in enumerate(self._parts):
            if part.role != "fee":
                distinct[part.values] = number
        others = [number for number in distinct.values() if self._parts[number].role not in roles]
        # What shows that a tax is in another amount shows it for this one, if they do not differ by the tax.
        included = set()
        for other, content in self.relations.related(cells.index(total.cell)).items():
            related = self.relations.related(other)
            for number in others:
                if not content.get(number) and self._is_with(number, other, related):
                    included.add(number)
        return [self.relations.as_added(number) for number in others if number not in included]

    # --- judging a candidate -------------------------------------------------------

    def _judge(self, place: int) -> _Judged | None:
        """Return what is known of a candidate, or None if it is not the total."""
        candidate, related = self._candidates[place], self.relations.related(place)
        equal = [other for other, content in related.items() if other != place and not any(content.values())]
        has_other_name = len(related) > 1 and (bool(equal) or candidate.cell is None)
        if candidate.role == "payout" or (candidate.role == PAYMENTS_ROLE and has_other_name):
            # A column or a sum of columns that equals the payments is a better name for the same amount.
            return None
        missing, unknown = [], []
        for part in range(len(self._parts)):
            is_with = self._is_with(part, place, related)
            if is_with is None:
                unknown.append(part)
            elif not is_with:
                missing.append(part)
        if any(self._parts[part].role in DEDUCTIONS for part in missing):
            return None
        payments = [other for other in related if self._candidates[other].role == PAYMENTS_ROLE]
        is_paid = bool(payments) and not any(related[payments[0]].values())
        return _Judged(place, candidate, related, missing, unknown, is_paid, self._is_proved(place, related))

    def _is_proved(self, place: int, related: Contents) -> bool:
        """Return whether other amounts confirm a candidate: a sum, the payments alone, or the rate of a tax in it."""
        # The same amounts under a similar heading, such as a subtotal before changes, prove nothing.
        different = set()
        for other in related:
            amount = self._candidates[other]
            heading = amount.name if amount.role == LINES_ROLE else amount.role
            different.add((heading, amount.level, amount.values))
        if len(different) > 1:
            return True
        all_amounts = {(candidate.role, candidate.values) for candidate in self._candidates}
        if all_amounts == {(PAYMENTS_ROLE, self._candidates[place].values)}:
            return True
        return any(self._taxes.is_in_candidate(part, place) for part in range(len(self._parts)))

    def _is_with(self, part: int, place: int, related: Contents) -> bool | None:
        """Return whether a candidate is with a charge, after a discount, or before a fee; None if that is not known."""
        role, is_strong = self._parts[part].role, self._candidates[place].role == "paid"
        # The same amounts under two headings are one part, of which the relations name only one.
        for name in (part, *self.relations.same_parts(part)):
            if _differs(name, related):
                # A fee is taken off what the customer paid; anything else is in it.
                others = [content.get(name, 0) for content in related.values()]
                return min(others) >= 0 if role == "fee" else max(others) <= 0
        if role not in ("discount", "tax") and self._has_bare(related):
            return role == "fee"
        if role != "tip" and any(self._candidates[other].role == PAYMENTS_ROLE for other in related):
            # What was paid is with all charges and discounts, and the candidate with those by which it does not differ.
            # A tip may have been paid apart from the other payments.
            return True
        if role == "tax":
            is_in = self._taxes.is_in_candidate(part, place)
            if is_in is None:
                is_in = self._taxes.is_in_related(part, related)
            if is_in is not None:
                return is_in
        is_total = self._candidates[place].role in ("paid", "total")
        if role == "discount" and is_total and self._taxes.is_only_without(part, place):
            return True
        return True if is_strong and role != "tip" else None

    def _has_bare(self, related: Contents) -> bool:
        """Return whether one of the candidates is the price of the items alone, without tips and charges."""
        for other in related:
            candidate = self._candidates[other]
            if candidate.role == LINES_ROLE or candidate.level == LINE:
                return True
            if candidate.role == "gross" and self._is_increased(other):
                return True
        return False

    def _is_increased(self, base: int) -> bool:
        """Return whether another candidate is this one with parts other than fees."""
        for relation in self.relations.relations:
            if relation.base == base and any(self._parts[part].role != "fee" for part in relation.parts):
                return True
        return False

    # --- findings --------------------------------------------------------------------

    def _finding(self, judged: _Judged) -> TotalFinding:
        """Return a candidate with the parts that it lacks or, if it is not clear which they are, a question."""
        if judged.unknown:
            return self._finding_of_unknown(judged)
        doubtful = []
        for part in judged.missing:
            is_clear = self._parts[part].role in ("tip", "tax") or _differs(part, judged.related)
            if judged.is_paid or not judged.is_proved or not is_clear:
                doubtful.append(part)
        if doubtful:
            return self._finding_of_doubtful(judged, doubtful)
        if not judged.is_proved and not self._is_only_amount(judged.place):
            return self._finding_by_heading(judged)
        return self._finding_of_sums(judged)

    def _finding_of_unknown(self, judged: _Judged) -> TotalFinding:
        """Return the question whether a candidate already contains parts that nothing relates to it."""
        # The tip comes first, because it is the most probable answer.
        unknown = sorted(judged.unknown, key=lambda number: self._parts[number].role != "tip")
        total = self._with_missing(judged)
        added = [self.relations.as_paid(number) for number in unknown]
        sums = [total.plus(*parts) for parts in islice(_none_all_or_some(added), MOST_SUMS)]
        text = sentence(
            "The amounts do not show whether {name} already takes {names} into account.",
            name=judged.amount.name,
            names=_names([self._parts[number] for number in unknown]),
        )
        plain = self.relations.plain_totals()
        if judged.is_proved:
            # Where nothing is in doubt, other amounts show what was paid.
            is_in_doubt = [any(part.values[bill] for part in added) for bill in self._bills]
            clear = [bill for bill, doubt in zip(self._bills, is_in_doubt, strict=True) if not doubt]
            plain = [amount for amount in plain if not differing(amount, total, clear)]
        return TotalFinding(choices=[*sums, *plain], question=text)

    def _finding_of_doubtful(self, judged: _Judged, doubtful: Sequence[int]) -> TotalFinding:
        """Return the question whether parts that a candidate lacks were paid in addition."""
        tips = [self._parts[part] for part in doubtful if self._parts[part].role == "tip"]
        others = [self._parts[part] for part in judged.missing if self._parts[part] not in tips]
        total = self._with_missing(judged)
        text = sentence(
            "{name} adds up without {names}. Did the customer pay it in addition?",
            name=judged.amount.name,
            names=_names([self._parts[part] for part in doubtful]),
        )
        is_alone_probable = judged.is_paid or judged.is_proved
        return TotalFinding(
            choices=[judged.amount, total] if is_alone_probable else [total, judged.amount],
            question=text,
            tips=tips,
            without_tips=judged.amount.plus(*others) if tips else None,
        )

    def _finding_by_heading(self, judged: _Judged) -> TotalFinding:
        """Return the question whether a candidate is what its heading says, which nothing else confirms."""
        rivals = [candidate for candidate in self._candidates if candidate is not judged.amount]
        text = sentence(
            "Only its heading says that {name} is what the customer paid. Nothing in the export adds up to it.",
            name=judged.amount.name,
        )
        if rivals:
            text = sentence(
                "Only its heading says that {name} is what the customer paid. Nothing in the export adds up "
                "to it, and there is also {rivals}.",
                name=judged.amount.name,
                rivals=_names(rivals),
            )
        plain = self.relations.plain_totals()
        are_unknown = all(amount.role == UNKNOWN_ROLE for amount in plain)
        return TotalFinding(choices=plain, question=text, must_confirm=are_unknown)

    def _finding_of_sums(self, judged: _Judged) -> TotalFinding:
        """Return the finding for a candidate of which the sums show all parts."""
        tips, others = self._tips_and_others(judged)
        total = self._with_missing(judged)
        evidence = self._evidence(judged)
        if others:
            evidence.append(
                sentence(
                    "{others} is not in {name}, so it is added", others=_names(others, " and "), name=judged.amount.name
                )
            )
        relations = [relation for relation in self.relations.relations if judged.place in relation.places]
        return TotalFinding(
            chosen=total,
            evidence=evidence[:MOST_EVIDENCE],
            is_proved=judged.is_proved,
            is_exact=any(relation.is_exact for relation in relations),
            shown=total,
            tips=tips,
            without_tips=self._without_tips(judged),
        )

    def _with_missing(self, judged: _Judged) -> AmountSeries:
        return judged.amount.plus(*[self._parts[part] for part in judged.missing])

    def _without_tips(self, judged: _Judged) -> AmountSeries | None:
        """Return a candidate with what it lacks but the tips that no sum has, or None if there are none."""
        tips, others = self._tips_and_others(judged)
        return judged.amount.plus(*others) if tips else None

    def _tips_and_others(self, judged: _Judged) -> tuple[list[AmountSeries], list[AmountSeries]]:
        """Return the tips that a candidate lacks and that no sum has, and all else that it lacks."""
        tips, others = [], []
        for part in judged.missing:
            series = self._parts[part]
            # The same amounts under two headings are one part.
            same = self.relations.same_parts(part)
            is_in_sums = any(_differs(other, judged.related) for other in same)
            if series.role == "tip" and not is_in_sums:
                tips.append(series)
            else:
                others.append(series)
        return tips, others

    def _is_only_amount(self, place: int) -> bool:
        """Return whether there is nothing else that could be the total, and nothing that it may lack."""
        for other, candidate in enumerate(self._candidates):
            if other != place and candidate.role != UNKNOWN_ROLE:
                return False
        role = self._candidates[place].role
        return role == "paid" or (role in ("total", "amount", LINES_ROLE) and not self._parts)

    # --- evidence --------------------------------------------------------------------

    def _evidence(self, judged: _Judged) -> list[str]:
        """Return what adds up to a candidate or, if nothing does, what it is a part of."""
        lines: list[str] = []
        shown = set()
        for relation in self._relations_to_show(judged.place):
            base, target = self._candidates[relation.base], self._candidates[relation.target]
            # If each bill has one row, a column and its sum are the same.
            terms = base.columns, relation.parts
            is_same = not relation.parts and set(base.columns) == set(target.columns)
            if terms in shown or is_same:
                continue
            shown.add(terms)
            lines.append(self._equation(target, self.relations.sum_of(relation.base, relation.parts)))
        for number, part in enumerate(self._parts):
            is_included = self._taxes.is_in_candidate(number, judged.place)
            if is_included is not None and not _differs(number, judged.related):
                lines.append(_shown_by_rate(part.name, judged.amount.name, is_included=is_included))
        if not lines:
            lines.append(
                sentence("{name} is the only amount; nothing in the export confirms it", name=judged.amount.name)
            )
        return lines

    def _relations_to_show(self, place: int) -> list[Relation]:
        """Return the relations that add up to a candidate, or those in which it is added to something."""
        columns = set(self._candidates[place].columns)
        to_candidate, from_candidate = [], []
        for relation in self.relations.relations:
            if set(self._candidates[relation.base].columns) < columns:
                # A column is no evidence for a sum that contains it.
                continue
            if relation.target == place:
                to_candidate.append(relation)
            elif relation.base == place:
                from_candidate.append(relation)
        return to_candidate or from_candidate

    def _equation(self, target: AmountSeries, total: AmountSeries) -> str:
        """Return a sentence such as `Total = Subtotal + VAT on 6 of 6 bills`.

        Whether a bill was sold may be asked about, so all bills are counted if the amounts are equal on each of them.
        """
        held = checked = 0
        for bills in (range(len(target.values)), self._all_bills):
            known = [bill for bill in bills if _are_stated(target.values[bill], total.values[bill])]
            different = differing(target, total, known)
            checked = len(known)
            held = checked - len(different)
            if held == checked:
                break
        return sentence(
            "{target} = {total} on {held} of {checked} bills",
            target=target.name,
            total=total.name,
            held=f"{held:,}",
            checked=f"{checked:,}",
        )


def _rank(judged: _Judged, finding: TotalFinding) -> tuple[int, ...]:
    """Return how good a candidate is: lower is better."""
    in_doubt = len(judged.missing) + len(judged.unknown)
    return int(not finding.chosen), int(not judged.is_paid), int(not judged.is_proved), in_doubt, judged.place


def _none_all_or_some(amounts: Sequence[AmountSeries]) -> Iterator[tuple[AmountSeries, ...]]:
    """Yield no amount, then all of them, then each one, each two, and so on."""
    yield ()
    if amounts:
        yield tuple(amounts)
    for size in range(1, len(amounts)):
        yield from combinations(amounts, size)


def _are_stated(amount: int | None, other: int | None) -> bool:
    """Return whether both amounts are known, and one of them is not 0."""
    return amount is not None and other is not None and bool(amount or other)


def _differs(part: int, related: Contents) -> bool:
    return any(content.get(part) for content in related.values())


def _names(amounts: Sequence[AmountSeries], separator: str = ", ") -> str:
    return separator.join(amount.name for amount in amounts)


def _shown_by_rate(part: str, total: str, *, is_included: bool) -> str:
    if is_included:
        return sentence("the rate shows that {part} is included in {total}", part=part, total=total)
    return sentence("the rate shows that {part} is on top of {total}", part=part, total=total)
