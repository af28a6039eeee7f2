"""Why a row of a table is no bill, as its mapping says."""

from counterfoil.importing.mapping import SKIP, ImportMapping
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import TableRow
from counterfoil.importing.table_bills import cell_text, matches


def reason_for_row(mapping: ImportMapping, row: TableRow, *, has_id: bool) -> str | None:
    """Return why a row is left out, or None. If it has an ID, its status counts for the whole bill, later."""
    for skip in mapping.skips:
        if matches(skip, row):
            return _is_value(skip.column, row.cells[row.sheet.columns[skip.column]])
    if has_id:
        return None
    for rule in mapping.statuses:
        word = cell_text(rule.source, row)
        if rule.values.get(word.casefold()) == SKIP:
            return _is_value(" and ".join(rule.source.columns), word)
    return None


def _is_value(columns: str, value: str) -> str:
    return sentence("{columns} is {value}", columns=columns, value=value or sentence("empty"))
