"""Converts the rows of a bill into a source record.

A bill is imported whole or not at all. If one value cannot be read, the bill is
rejected, because without that value it would be wrong and nobody would notice.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from counterfoil.domain.pos_values import record_id
from counterfoil.importing.fields import BILL_FIELDS, DAY, FLAG, LINE_FIELDS, LIST, NUMBER, OPTIONS, TIME
from counterfoil.importing.mapping import CellSource, ImportMapping, RowRule, TableMapping
from counterfoil.importing.results import (
    DIFFERENT_ROWS,
    NO_ID,
    NO_SHOP,
    NO_TIME,
    REPEATED_BILL,
    UNREADABLE_VALUE,
    ImportFailed,
    RowProblem,
)
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.sorted_rows import BillRows
from counterfoil.importing.values import (
    UnreadableCell,
    decimal_text,
    read_day,
    read_decimal,
    read_flag,
    read_time,
    shown,
)

# The fields of lines and payments that are made negative in a refund. Other numbers, such as unit prices, are made
# positive.
_SIGNED = frozenset({"qty", "total", "amount", "change"})
_ROUNDING = "amounts.rounding"
_NOT_WRITTEN = frozenset({"id", "shopId", "void", "voidReason", "removed"})


def check_columns(sheet: Sheet, table: TableMapping, rules: Sequence[RowRule | None], mapping: str) -> None:
    """Raise `ImportFailed` if a sheet lacks a column that the mapping names and does not mark as optional."""
    sources = [*table.fields.values(), *([table.key] if table.key else [])]
    needed = [name for source in sources if not source.optional for name in source.columns]
    needed += [rule.column for rule in rules if rule and not rule.optional]
    missing = [name for name in needed if name not in sheet.columns]
    missing += [
        " or ".join(source.any_of)
        for source in sources
        if source.any_of and not source.optional and not any(name in sheet.columns for name in source.any_of)
    ]
    if missing:
        raise ImportFailed(
            f"{sheet.name} has no column {', '.join(map(shown, dict.fromkeys(missing)))}, which the mapping {mapping} "
            f"names. Its columns are: {', '.join(sheet.columns)}."
        )


def cell_text(source: CellSource, row: TableRow, separator: str = "-") -> str:
    """Return the text of a field in a row, translated with the mapping's `values`."""
    if source.constant is not None:
        return source.constant
    columns = row.sheet.columns
    names = source.columns or tuple(name for name in source.any_of if name in columns)[:1]
    cells = [row.cells[columns[name]] for name in names if name in columns]
    if len(cells) == 1:
        text = cells[0]
    else:
        text = (separator if source.separator is None else source.separator).join(cell for cell in cells if cell)
    if source.values:
        text = source.values.get(text.casefold(), text)
    return text or source.default


def matches(rule: RowRule | None, row: TableRow) -> bool:
    if rule is None or rule.column not in row.sheet.columns:
        return False
    return row.cells[row.sheet.columns[rule.column]].casefold() in rule.values


class TableBillConverter:
    """Makes a source record from the rows of a bill. `order` is the order of day, month and year in dates."""

    def __init__(self, mapping: ImportMapping, order: str, shop: str | None, *, is_flat: bool) -> None:
        self._mapping = mapping
        self._order = order
        self._shop = shop
        self._is_flat = is_flat
        """True if each row of the bills file is a line of a bill."""
        self._readers: dict[str, Callable[[str], Any]] = {
            NUMBER: self._number,
            TIME: lambda cell: read_time(cell, mapping.dates, order),
            DAY: lambda cell: read_day(cell, mapping.dates, order),
            FLAG: read_flag,
        }

    def record(self, group: BillRows) -> dict[str, Any]:
        """Return the source record of a bill; raise `RowProblem` if one of its rows cannot be converted."""
        rows = _one_file(group.bills, "bill")
        first = rows[0]
        self._check_agreement(rows)
        bill = self._mapping.bill
        record: dict[str, Any] = {"kind": "bill", "id": self._id(first), "shopId": self.shop_of(first)}
        if "removed" in bill.fields and self._value(bill, "removed", FLAG, first):
            return record | {"removed": True}
        is_refund = matches(self._mapping.refund, first)
        line_rows = rows if self._is_flat else _one_file(group.lines, "lines")
        for name, source in bill.fields.items():
            if name in _NOT_WRITTEN:
                continue
            if source.total_of:
                value = self._total(source, line_rows)
            else:
                value = self._value(bill, name, BILL_FIELDS[name], first)
            if value not in (None, ""):
                _put(record, name, value)
            elif name == "closedAt" and not source.optional:
                # Many exports end with a row of totals, which must not become a bill.
                raise RowProblem(NO_TIME, "has no bill time (closedAt)", first.line, first.sheet.name)
        self._put_void(record, first)
        if self._mapping.line:
            record["lines"] = [self._line(row, is_refund=is_refund) for row in line_rows]
        record["payments"] = self._payments(rows, _one_file(group.payments, "payments"), is_refund=is_refund)
        if is_refund:
            _negate_amounts(record)
        return {name: _written(value) for name, value in record.items()}

    def shop_of(self, row: TableRow) -> str:
        """Return the ID of the shop that a bill belongs to."""
        if self._shop:
            return self._shop
        source = self._mapping.bill.fields.get("shopId")
        if source:
            text = cell_text(source, row)
            shop = self._mapping.shop_ids.get(text, text)
        else:
            shop = self._mapping.shops[0]["id"] if len(self._mapping.shops) == 1 else ""
        if record_id(shop) is None:
            raise RowProblem(NO_SHOP, "has no shop. Use --shop, or map bill.shopId", row.line, row.sheet.name)
        return shop

    def _id(self, row: TableRow) -> str:
        source = self._mapping.bill.fields.get("id")
        text = cell_text(source, row) if source else ""
        if record_id(text) is None:
            raise RowProblem(
                NO_ID, f"has {shown(text)} as the bill ID, which is not a valid ID", row.line, row.sheet.name
            )
        return text

    def _check_agreement(self, rows: Sequence[TableRow]) -> None:
        """Raise `RowProblem` if the rows of a bill differ in the bill's own fields, or if a file repeats the bill."""
        first = rows[0]
        tables = [self._mapping.bill, *(self._mapping.payments if self._is_flat else ())]
        for row in rows[1:]:
            if not self._is_flat and row.cells == first.cells:
                detail = f"is the same row as line {first.line}"
                raise RowProblem(REPEATED_BILL, detail, row.line, row.sheet.name)
            for table in tables:
                for name, source in table.fields.items():
                    one, other = cell_text(source, first), cell_text(source, row)
                    if one != other and not source.total_of:
                        reason = DIFFERENT_ROWS if self._is_flat else REPEATED_BILL
                        raise RowProblem(
                            reason,
                            f"has {shown(other)} for {name}, but line {first.line} of the same bill has {shown(one)}",
                            row.line,
                            row.sheet.name,
                        )

    def _value(self, table: TableMapping, name: str, kind: str, row: TableRow) -> Any:
        """Return the value of a field in a row, or None if the row has no value for it."""
        source = table.fields[name]
        text = cell_text(source, row, " " if kind in (TIME, DAY) else "-")
        if not text:
            return None
        if kind == LIST:
            return _split(text, source.split)
        if kind == OPTIONS:
            return [{"name": name} for name in _split(text, source.split or ",")]
        reader = self._readers.get(kind)
        if reader is None:
            return text
        try:
            return reader(text)
        except UnreadableCell as error:
            raise RowProblem(UNREADABLE_VALUE, f"{name}: {error}", row.line, row.sheet.name) from None

    def _number(self, cell: str) -> Decimal | None:
        return read_decimal(cell, self._mapping.numbers)

    def _total(self, source: CellSource, rows: Sequence[TableRow]) -> Decimal | None:
        """Return the sum of a column over the lines of a bill, or None if the column has no numbers."""
        column = TableMapping({"sum": CellSource(columns=(source.total_of or "",))})
        numbers = [self._value(column, "sum", NUMBER, row) for row in rows]
        known = [number for number in numbers if number is not None]
        return sum(known, Decimal()) if known else None

    def _put_void(self, record: dict[str, Any], row: TableRow) -> None:
        fields = self._mapping.bill.fields
        reason = self._value(self._mapping.bill, "voidReason", "text", row) if "voidReason" in fields else None
        is_void = self._value(self._mapping.bill, "void", FLAG, row) if "void" in fields else bool(reason)
        if is_void:
            record["void"] = {"reason": reason} if reason else True

    def _line(self, row: TableRow, *, is_refund: bool) -> dict[str, Any]:
        table = self._mapping.line or TableMapping({})
        return self._part(table, LINE_FIELDS, row, is_refund=is_refund)

    def _part(self, table: TableMapping, kinds: dict[str, str], row: TableRow, *, is_refund: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in table.fields:
            value = self._value(table, name, kinds[name], row)
            if value is None:
                continue
            if is_refund and isinstance(value, Decimal):
                value = -abs(value) if name in _SIGNED else abs(value)
            found[name] = value
        return found

    def _payments(
        self, bill_rows: Sequence[TableRow], rows: Sequence[TableRow], *, is_refund: bool
    ) -> list[dict[str, Any]]:
        kinds = {"name": "text", "amount": NUMBER, "change": NUMBER}
        payments = []
        for table in self._mapping.payments:
            sources = rows if table.key else bill_rows[:1] if self._is_flat else bill_rows
            for row in sources:
                payment = self._part(table, kinds, row, is_refund=is_refund)
                # If each payment method has its own column, the columns of unused methods are empty or 0.
                if payment.get("amount") or (payment.get("name") and table.fields["name"].constant is None):
                    payments.append(payment)
        return payments


def _one_file(rows: list[TableRow], what: str) -> list[TableRow]:
    """Return the rows of a bill from one file, because files with overlapping periods may repeat them.

    Raise `RowProblem` if the files differ.
    """
    if len(rows) < 2:
        return rows
    by_sheet: dict[str, list[TableRow]] = {}
    for row in rows:
        by_sheet.setdefault(row.sheet.name, []).append(row)
    first, *others = by_sheet.values()
    for other in others:
        if [_by_column(row) for row in other] != [_by_column(row) for row in first]:
            raise RowProblem(
                DIFFERENT_ROWS,
                f"differs from line {first[0].line} of {first[0].sheet.name}, which belongs to the same bill ({what}). "
                "Import the files one after the other, the oldest first",
                other[0].line,
                other[0].sheet.name,
            )
    return first


def _by_column(row: TableRow) -> dict[str, str]:
    return {name: row.cells[position] for name, position in row.sheet.columns.items()}


def _split(text: str, mark: str | None) -> list[str]:
    return [part.strip() for part in text.split(mark) if part.strip()] if mark else [text]


def _put(record: dict[str, Any], name: str, value: object) -> None:
    group, _, inner = name.rpartition(".")
    if group:
        record.setdefault(group, {})[inner] = value
    else:
        record[name] = value


def _negate_amounts(record: dict[str, Any]) -> None:
    """Make the amounts of a refund negative, whichever sign the export writes. Rounding may have either sign."""
    amounts = record.get("amounts", {})
    net = amounts.get("net")
    for name, value in amounts.items():
        if isinstance(value, Decimal):
            flips = isinstance(net, Decimal) and net > 0
            amounts[name] = (-value if flips else value) if f"amounts.{name}" == _ROUNDING else -abs(value)


def _written(value: Any) -> Any:
    """Return the value with every number in it written as plain digits, without an exponent."""
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, dict):
        return {name: _written(inner) for name, inner in value.items()}
    return [_written(inner) for inner in value] if isinstance(value, list) else value
