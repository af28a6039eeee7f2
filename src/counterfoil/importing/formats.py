"""The formats that can be imported, by name."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from counterfoil.importing.foodics import FoodicsOrders
from counterfoil.importing.loyverse import loyverse_mapping, sort_files
from counterfoil.importing.mapping import merged, parse_mapping
from counterfoil.importing.orders import OrderFormat
from counterfoil.importing.results import Imported, ImportFailed
from counterfoil.importing.square import SquareOrders
from counterfoil.importing.tables import ImportOptions, TableImport, table_inputs

CSV, LOYVERSE, SQUARE, FOODICS, DATABASE = "csv", "loyverse", "square", "foodics", "database"
FORMATS = (CSV, LOYVERSE, SQUARE, FOODICS, DATABASE)
JSON_FORMATS: dict[str, type[OrderFormat]] = {SQUARE: SquareOrders, FOODICS: FoodicsOrders}


def import_files(
    format_name: str,
    bills: Sequence[Path],
    lines: Sequence[Path],
    payments: Sequence[Path],
    mapping: dict[str, Any],
    mapping_name: str,
    options: ImportOptions,
) -> Iterator[Imported]:
    """Import files in one of the file formats; return the records, rejected rows and skipped rows."""
    if format_name in JSON_FORMATS:
        if lines or payments:
            raise ImportFailed(
                f"--lines and --payments cannot be used with --format {format_name}, because its orders include both."
            )
        return JSON_FORMATS[format_name](parse_mapping(mapping, mapping_name), options).records(bills)
    if format_name == LOYVERSE:
        receipts, items = sort_files([*bills, *lines])
        below = loyverse_mapping(has_receipts=bool(receipts), has_items=bool(items))
        mapping = merged(below, mapping)
        bills, lines = receipts or items, items if receipts else []
    checked = parse_mapping(mapping, mapping_name)
    return TableImport(checked, table_inputs(checked, bills, lines, payments), options).records()
