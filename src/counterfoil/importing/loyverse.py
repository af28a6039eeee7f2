"""Loyverse: the CSV exports "Receipts" and "Receipts by item" of the back office.

The header row shows which of the two exports a file is, so the files can be given in any order.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counterfoil.importing.mapping import built_in_mapping
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sheets import open_table

ITEM_COLUMNS = ("Item", "Item name")
# Used if only the items were exported: the amounts of a bill are sums over its items.
SUMS = {
    "subtotal": {"sum": "Gross sales"},
    "discount": {"sum": "Discounts", "optional": True},
    "discountTotal": {"sum": "Discounts", "optional": True},
    "vat": {"sum": "Taxes", "optional": True},
    "net": {"sum": "Net sales"},
}


def sort_files(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files with receipts, and the files with items."""
    receipts: list[Path] = []
    items: list[Path] = []
    for path in paths:
        columns = open_table(path).sheet.columns
        if "Receipt number" not in columns:
            raise ImportFailed(
                f'{path.name} is not a Loyverse export of receipts: it has no column "Receipt number". '
                "If your back office is not in English, use --format csv with a mapping."
            )
        (items if any(name in columns for name in ITEM_COLUMNS) else receipts).append(path)
    return receipts, items


def loyverse_mapping(*, has_receipts: bool, has_items: bool) -> dict[str, Any]:
    """Return the built-in mapping for the kinds of file that were given."""
    mapping = built_in_mapping("loyverse")
    if not has_items:
        del mapping["line"]
    elif not has_receipts:
        mapping["bill"]["amounts"] = SUMS
        del mapping["payment"]
    return mapping
