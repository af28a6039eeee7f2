"""Writes made-up exports and imports them."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counterfoil.importing.formats import open_export
from counterfoil.importing.results import ExportTotals, Imported, ImportedRecord, ImportNote, RejectedRow, SkippedRow
from counterfoil.importing.tables import ImportOptions

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

# A mapping for the usual layout: one row for each line of a bill.
MAPPING = """
[dates]
order = "dmy"
[shop]
id = "riverside"
[bill]
id = "Bill"
closedAt = "Date"
amounts.net = "Total"
[line]
name = "Item"
qty = "Qty"
total = "Amount"
"""
HEADING = "Bill,Date,Item,Qty,Amount,Total\n"
SUMMED = MAPPING.replace('amounts.net = "Total"', 'amounts.net = { sum = "Amount" }')
# The start of a mapping for a table of bills, which may go on with further entries of a bill.
BILLS = '[shop]\nid = "s"\n[bill]\nid = "No"\n'


class Outcome:
    """The result of an import: bills, shops, members, rejected and skipped rows, and the export's own totals."""

    def __init__(self, found: list[Imported], titles: Sequence[str] = ()) -> None:
        self.note = " ".join(one.text for one in found if isinstance(one, ImportNote))
        self.titles = list(titles)
        records = [one.record for one in found if isinstance(one, ImportedRecord)]
        self.bills = [record for record in records if record["kind"] == "bill"]
        self.shops = [record for record in records if record["kind"] == "shop"]
        self.members = [record for record in records if record["kind"] == "member"]
        self.bases = [record for record in records if record["kind"] == "base"]
        self.rejected = [one for one in found if isinstance(one, RejectedRow)]
        self.skipped = [one for one in found if isinstance(one, SkippedRow)]
        self.totals = [one for one in found if isinstance(one, ExportTotals)]

    @property
    def bill(self) -> dict[str, Any]:
        [bill] = self.bills
        return bill

    @property
    def reasons(self) -> list[tuple[str, int, str]]:
        return [(one.file, one.line, one.reason) for one in self.rejected]


def imported(
    format_name: str | None,
    *files: Path,
    mapping: str = "",
    lines: tuple[Path, ...] = (),
    payments: tuple[Path, ...] = (),
    own_mappings: Path | None = None,
    **options: Any,
) -> Outcome:
    export = open_export(
        format_name,
        files,
        lines,
        payments,
        tomllib.loads(mapping),
        "mapping.toml",
        ImportOptions(**options),
        own_mappings,
    )
    return Outcome(list(export.records()), [file.title for file in export.files])


def written(folder: Path, text: str, name: str = "export.csv", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path
