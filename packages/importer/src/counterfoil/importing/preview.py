"""The first rows of a table that is read with a mapping, with what each of its columns is read as.

A person who brings in a known export sees by them that the right file was chosen.
"""

from collections.abc import Collection, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from counterfoil.importing.mapping import CellSource, ImportMapping
from counterfoil.importing.results import Preview, PreviewColumn
from counterfoil.importing.sheets import OnRead, TableRow, open_tables
from counterfoil.importing.sorted_rows import BILL
from counterfoil.importing.table_bills import missing_columns, positions_of
from counterfoil.importing.tables import mapped_cells

FIRST_ROWS: Final = 20
# What the fields of a mapping are called above a column. The other fields have their own name.
ROLES: Final = {
    "closedAt": "datetime",
    "table.name": "table",
    "channel.id": "channel",
    "channel.name": "channel",
    "amounts.net": "net",
    "amounts.subtotal": "gross",
    "amounts.discount": "discount",
    "amounts.discountTotal": "discount",
    "amounts.serviceCharge": "service",
    "amounts.deliveryFee": "delivery",
    "amounts.cardSurcharge": "surcharge",
    "amounts.vat": "tax",
    "amounts.rounding": "rounding",
    "amounts.tip": "tip",
    "name": "item",
    "total": "amount",
    "amount": "paid",
    "categoryIds": "category",
}
KEY: Final = "key"
STATE: Final = "state"
METHOD: Final = "method"
MEMBER_ROLES: Final = {"id": "memberNumber"}


def preview(mapping: ImportMapping, path: Path, on_read: OnRead, *, has_lines: bool = False) -> Preview:
    """Return the first rows of a file of bills or of members. `has_lines` says that the lines are in another file."""
    sources = _sources(mapping, has_lines=has_lines)
    first = open_tables(path, mapping.file, partial(_has_columns, [source for _, source in sources]), on_read)[0]
    roles: dict[int, str] = {}
    # If a column is read several times, keeping bills apart comes last, and being a part of a sum after the others.
    sources.sort(key=lambda source: (source[0] == KEY, len(list(source[1].names()))))
    for role, source in sources:
        # What is only compared with other columns has no role.
        for position in positions_of(source, first.sheet) if role else ():
            roles.setdefault(position, "id" if role == KEY else role)
    columns = [PreviewColumn(heading, roles.get(position, "")) for heading, position in first.sheet.columns.items()]
    positions = list(first.sheet.columns.values())
    rows = [row for row in islice(first.rows(), FIRST_ROWS) if isinstance(row, TableRow)]
    cells = [tuple(row.cells[position] for position in positions) for row in rows]
    return Preview(tuple(columns), tuple(cells))


def _sources(mapping: ImportMapping, *, has_lines: bool) -> list[tuple[str, CellSource]]:
    if mapping.member:
        return [(MEMBER_ROLES.get(name, name), source) for name, source in mapping.member.fields.items()]
    cells = mapped_cells(mapping, BILL, is_flat=mapping.line is not None and not has_lines)
    # Payments with a key are in a file of their own.
    payments = [table for table in mapping.payments if not table.key]
    ways_of_paying = [table.fields["name"] for table in payments if "name" in table.fields]
    sources = [(METHOD, source) for source in ways_of_paying]
    sources += [(ROLES.get(cell.field, cell.field), cell.source) for cell in cells if cell.source not in ways_of_paying]
    rules = [rule for rule in (mapping.refund, *mapping.skips) if rule]
    sources += [(STATE, CellSource(columns=(rule.column,), optional=rule.optional)) for rule in rules]
    sources += [(STATE, rule.source) for rule in mapping.statuses]
    return sources


def _has_columns(sources: Sequence[CellSource], headings: Collection[str]) -> bool:
    return not missing_columns(headings, sources)
