"""Amounts of bills, one for each bill, with the entry of a mapping that computes them."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importer.columns import SCALE
from counterfoil.importer.ranks import CHARGES

TOLERANCE = SCALE // 100 + SCALE // 1000
"""Tills round; a cent is no contradiction."""
BILL, LINE, MIXED = "bill", "line", "mixed"
LINES_ROLE, PAYMENTS_ROLE, UNKNOWN_ROLE = "lines", "payments", "unknown"


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
        """Return these amounts with others added. An amount that is not known stays unknown."""
        total = self
        for part in parts:
            total = total._with(part)
        return total

    def _with(self, part: "AmountSeries") -> "AmountSeries":
        values: list[int | None] = []
        for amount, addition in zip(self.values, part.values, strict=True):
            values.append(None if amount is None else amount + (addition or 0))
        joint = "" if part.name.startswith("- ") else "+ "
        is_of_one_level = part.level == self.level and not self.is_product
        return AmountSeries(
            name=f"{self.name} {joint}{part.name}",
            role=self.role,
            level=self.level if is_of_one_level else MIXED,
            values=tuple(values),
            columns=(*self.columns, *part.columns),
            cell=added(self.cell, part.cell),
            is_product=self.is_product,
        )

    def minus(self) -> "AmountSeries":
        """Return these amounts as something that is subtracted."""
        cell = subtracted(self.cell)
        if isinstance(self.cell, str):
            cell = {"column": self.cell, "negate": True}
        values = tuple(-(value or 0) for value in self.values)
        return replace(self, name=f"- {self.name}", values=values, cell=cell)


def sums_of(amounts: Sequence[AmountSeries], bills: Sequence[int]) -> tuple[int, ...]:
    """Return what the amounts add up to on each of the bills."""
    all_values = [series.values for series in amounts]
    sums = []
    for bill in bills:
        total = 0
        for values in all_values:
            total += values[bill] or 0
        sums.append(total)
    return tuple(sums)


def differing(first: AmountSeries, second: AmountSeries, bills: Sequence[int]) -> list[int]:
    """Return the bills on which two amounts differ by more than what is rounded."""
    first_values, second_values = first.values, second.values
    found = []
    for bill in bills:
        gap = (first_values[bill] or 0) - (second_values[bill] or 0)
        if abs(gap) > TOLERANCE:
            found.append(bill)
    return found


def effects(part: AmountSeries) -> tuple[int, ...]:
    """Return what a part adds to a total on each bill. Discounts and fees reduce it, whatever sign they have."""
    values = tuple(value or 0 for value in part.values)
    if part.role in CHARGES:
        return values
    negative = sum(value < 0 for value in values)
    positive = sum(value > 0 for value in values)
    if negative > positive:
        return values
    return tuple(-value for value in values)


# --- entries of a mapping ---------------------------------------------------------------------


def added(first: Any, second: Any) -> Any:
    """Return the entry that adds two others, or None if a mapping cannot compute one of them."""
    if first is None or second is None:
        return None
    if _is_sum(first) and _is_sum(second) and "over" not in {**first, **second}:
        return {"sum": added(first["sum"], second["sum"])}
    return {"add": [*_terms(first), *_terms(second)]}


def subtracted(cell: Any) -> Any:
    """Return what is added instead of an entry of a mapping to subtract it."""
    if cell is None or cell == "":
        return cell
    if isinstance(cell, str):
        return f"-{cell}"
    if "sum" in cell:
        return {**cell, "sum": {"add": [subtracted(term) for term in _terms(cell["sum"])]}}
    if list(cell) == ["add"]:
        return {"add": [subtracted(term) for term in cell["add"]]}
    return {**cell, "negate": True}


def absolute(cell: Any) -> Any:
    """Return an entry of a mapping that leaves out the sign of another one."""
    if isinstance(cell, str):
        return {"column": cell, "absolute": True}
    if "sum" in cell:
        return {**cell, "sum": absolute(cell["sum"])}
    return {**cell, "absolute": True}


def _is_sum(cell: Any) -> bool:
    return isinstance(cell, dict) and "sum" in cell


def _terms(cell: Any) -> list[Any]:
    """Return the entries that an entry adds, or the entry alone."""
    if not isinstance(cell, dict):
        return [cell]
    if list(cell) == ["column", "negate"]:
        return [f"-{cell['column']}"]
    return cell["add"] if list(cell) == ["add"] else [cell]
