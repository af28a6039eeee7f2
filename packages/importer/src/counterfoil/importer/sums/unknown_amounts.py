"""Finds what columns without a known heading are: charges, discounts and totals that only the sums show."""

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importer.ranks import CHARGES
from counterfoil.importer.sums.relations import are_close, without_parts_of_sums
from counterfoil.importer.sums.series import LINES_ROLE, AmountSeries, effects, sums_of

MOST_UNKNOWN = 8
MOST_KNOWN_PARTS = 3
MOST_KEPT_BACK = 2
# A heading such as `Fee` may be that of a charge of the customer, or of what a bank or a platform keeps back.
_MAY_BE_KEPT_BACK = ("service", "delivery", "surcharge")
# Amounts before discounts and charges, then those to which taxes may be added, then what the customer paid.
_STAGES = (("gross", LINES_ROLE), ("net", "amount"), ("total", "paid"))
_LAST_STAGE = len(_STAGES) - 1


class _Whole(Struct, frozen=True):
    """Amounts that may add up to a total, such as those of departments."""

    amounts: tuple[AmountSeries, ...]
    sums: tuple[int, ...]
    role: str


def shown_by_sums(
    candidates: Sequence[AmountSeries],
    parts: list[AmountSeries],
    unknown: list[AmountSeries],
    taxed: list[AmountSeries],
    bills: Sequence[int],
) -> tuple[list[AmountSeries], list[AmountSeries]]:
    """Return unknown amounts that lead from an amount to a later one, and sums of amounts that do so from nothing."""
    amounts = _on_several_bills(unknown, bills)
    bases = _on_several_bills(taxed, bills)
    # Amounts of departments, or those on which taxes at several rates are paid.
    wholes = [*_wholes(amounts, "gross", bills), *_wholes(bases, "net", bills)]
    stages = []
    for candidate in candidates:
        for stage, roles in enumerate(_STAGES):
            if candidate.role in roles:
                stages.append((stage, candidate))
    known = without_parts_of_sums(parts, bills)
    taken_off = [replace(part, values=effects(part)).minus() for part in known]
    charges = _charges(stages, taken_off, amounts, bills) if amounts else []
    sums = _sums(stages, taken_off, wholes, bills) if wholes else []
    return charges, sums


def _on_several_bills(amounts: Sequence[AmountSeries], bills: Sequence[int]) -> list[AmountSeries]:
    """Return the amounts of more than one bill. On one bill, an amount may fit by chance."""
    found = [series for series in amounts if sum(bool(series.values[bill]) for bill in bills) > 1]
    return found[:MOST_UNKNOWN]


def _wholes(amounts: Sequence[AmountSeries], role: str, bills: Sequence[int]) -> Iterator[_Whole]:
    """Yield the sums of two and more amounts, those of the most amounts first."""
    for size in range(len(amounts), 1, -1):
        for addends in combinations(amounts, size):
            yield _Whole(addends, sums_of(addends, bills), role)


def _charges(
    stages: Sequence[tuple[int, AmountSeries]],
    taken_off: Sequence[AmountSeries],
    amounts: Sequence[AmountSeries],
    bills: Sequence[int],
) -> list[AmountSeries]:
    """Return the amounts by which a total differs from an earlier one, less a few known parts."""
    by_sums: dict[tuple[int, ...], tuple[AmountSeries, AmountSeries]] = {}
    for amount in amounts:
        for signed in (amount, amount.minus()):
            by_sums[sums_of([signed], bills)] = (amount, signed)
    totals = [sums_of([candidate], bills) for stage, candidate in stages if stage == _LAST_STAGE]
    found: dict[str, AmountSeries] = {}
    for target, gaps in _gaps(stages, taken_off, bills):
        if gaps not in by_sums:
            continue
        amount, signed = by_sums[gaps]
        if sum(gaps) > 0:
            found[amount.name] = replace(signed, role="charge")
            continue
        before = sums_of([target, signed.minus()], bills)
        # A deposit, for example, was paid before.
        is_prepaid = amount.is_prepaid or before in totals
        # It may be a tax, so that the larger amount was paid, or a discount.
        is_doubtful = not totals and target.role == "net"
        if not is_prepaid and not is_doubtful:
            found[amount.name] = replace(amount, role="discount")
    return list(found.values())


def _gaps(
    stages: Sequence[tuple[int, AmountSeries]], taken_off: Sequence[AmountSeries], bills: Sequence[int]
) -> Iterator[tuple[AmountSeries, tuple[int, ...]]]:
    """Yield each total, and by how much it differs from an earlier one with a few known parts."""
    for late, target in stages:
        for early, base in stages:
            difference = [target, base.minus()]
            for parts in _some(taken_off, 0, MOST_KNOWN_PARTS) if early < late else ():
                gaps = sums_of([*difference, *parts], bills)
                if not any(gaps):
                    # Known parts explain everything.
                    break
                yield target, gaps


def _sums(
    stages: Sequence[tuple[int, AmountSeries]],
    taken_off: Sequence[AmountSeries],
    wholes: Sequence[_Whole],
    bills: Sequence[int],
) -> list[AmountSeries]:
    """Return the sums of amounts that are what the customer paid, less a few known parts."""
    found: dict[str, AmountSeries] = {}
    for stage, target in stages:
        for parts in _some(taken_off, 0, MOST_KNOWN_PARTS) if stage == _LAST_STAGE else ():
            left = sums_of([target, *parts], bills)
            whole = next((whole for whole in wholes if are_close(whole.sums, left)), None)
            if whole is not None:
                first, *others = whole.amounts
                total = replace(first.plus(*others), role=whole.role)
                found[total.name] = total
    return list(found.values())


# --- what is kept back ------------------------------------------------------------------------


def kept_back(totals: Sequence[AmountSeries], parts: Sequence[AmountSeries], bills: Sequence[int]) -> list[str]:
    """Return the charges that are taken off on the way to a payout, as the sums show, so that they are fees."""
    on_bills = _on_several_bills(parts, bills)
    doubtful = [part for part in on_bills if part.role in _MAY_BE_KEPT_BACK]
    charges = [part for part in on_bills if part.role in CHARGES]
    for left, base in permutations(totals if doubtful else (), 2):
        gaps = sums_of([left, base.minus()], bills)
        for kept in _some(doubtful, 1, MOST_KEPT_BACK):
            taken_off = sums_of([part.minus() for part in kept], bills)
            others = [charge for charge in charges if charge not in kept]
            # Other amounts that are less by a charge are those without it, unless another charge is added to them.
            fewest = 0 if left.role == "payout" else 1
            for added in _some(others, fewest, MOST_KNOWN_PARTS):
                changes = [taken + more for taken, more in zip(taken_off, sums_of(added, bills), strict=True)]
                if are_close(gaps, changes):
                    return [part.name for part in kept]
    return []


def _some(parts: Sequence[AmountSeries], fewest: int, most: int) -> Iterator[tuple[AmountSeries, ...]]:
    """Yield the combinations of so many parts."""
    for size in range(fewest, most + 1):
        yield from combinations(parts, size)
