"""Imports tables: the bills of CSV files or of a database, with their lines and payments."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from counterfoil.importing.fields import BILL_FIELDS, DAY, TIME
from counterfoil.importing.mapping import CellSource, ImportMapping, RowRule, TableMapping
from counterfoil.importing.results import (
    NO_BILL,
    NO_ID,
    Imported,
    ImportedRecord,
    ImportFailed,
    RejectedRow,
    RowProblem,
    SkippedRow,
)
from counterfoil.importing.sheets import CsvFile, Sheet, TableRow
from counterfoil.importing.sorted_rows import BILL, LINE, PAYMENT, BillRows, SortedRows
from counterfoil.importing.table_bills import TableBillConverter, cell_text, check_columns, matches
from counterfoil.importing.values import AUTO, is_order_ambiguous, order_evidence

KIND_NAMES = {BILL: "bill", LINE: "line", PAYMENT: "payment"}


class TableInput(Struct, frozen=True):
    """Rows of one kind, from one file or query."""

    kind: int
    sheet: Sheet
    rows: Iterable[TableRow | RowProblem]


class ImportOptions(Struct, frozen=True, kw_only=True):
    """Command-line options that supplement a mapping."""

    shop: str | None = None
    write_shops: bool = False
    timezone: str | None = None
    currency: str = "THB"


def csv_inputs(
    mapping: ImportMapping, bills: Sequence[Path], lines: Sequence[Path], payments: Sequence[Path]
) -> list[TableInput]:
    """Open CSV files and read their header rows, so that a wrong file is reported before anything is written."""
    opened = []
    for kind, paths in ((BILL, bills), (LINE, lines), (PAYMENT, payments)):
        for path in paths:
            file = CsvFile(path, mapping.encoding, mapping.delimiter, mapping.heading_line)
            opened.append(TableInput(kind, file.sheet, file.rows()))
    return opened


class TableImport:
    """Imports the bills in one set of tables."""

    def __init__(
        self,
        mapping: ImportMapping,
        inputs: Sequence[TableInput],
        options: ImportOptions,
        *,
        has_all_bills: bool = True,
    ) -> None:
        self._has_all_bills = has_all_bills
        self._mapping = mapping
        self._inputs = inputs
        self._options = options
        self._orders: Counter[str] = Counter()
        self._ambiguous: RowProblem | None = None
        # Bills that have a row next to an unreadable row. Such a bill may be incomplete, because the unreadable row may
        # belong to it.
        self._doubtful: dict[str, RowProblem] = {}
        kinds = {one.kind for one in inputs}
        self._is_flat = mapping.line is not None and LINE not in kinds
        self._check(kinds)

    def records(self) -> Iterator[Imported]:
        """Yield a source record for each bill, and a result for each row that was not converted."""
        with closing(SortedRows()) as rows_by_bill:
            yield from self._fill(rows_by_bill)
            order = self._date_order()
            converter = TableBillConverter(self._mapping, order, self._options.shop, is_flat=self._is_flat)
            yield from self._shops()
            named = {shop["id"] for shop in self._mapping.shops}
            for group in rows_by_bill.bills():
                yield from self._bill(converter, group, named)
            # If only some bills were read, the rows may include lines and payments of bills that were not read.
            for kind, row, key in rows_by_bill.orphans() if self._has_all_bills else ():
                detail = f"is a {KIND_NAMES[kind]} of the bill {key}, which is not in the bills file"
                yield RejectedRow(row.sheet.name, row.line, NO_BILL, detail, key)

    def _check(self, kinds: set[int]) -> None:
        mapping = self._mapping
        if "id" not in mapping.bill.fields:
            raise ImportFailed(f"the mapping {mapping.name} does not say which column holds the bill ID. Set bill.id.")
        if LINE in kinds and (mapping.line is None or mapping.line.key is None):
            raise ImportFailed(
                f"the mapping {mapping.name} needs line.key. Set it to the column that holds the bill ID."
            )
        if PAYMENT in kinds and not any(table.key for table in mapping.payments):
            raise ImportFailed(
                f"the mapping {mapping.name} needs payment.key. Set it to the column that holds the bill ID."
            )
        for one in self._inputs:
            for table, rules in self._tables_of(one.kind):
                check_columns(one.sheet, table, rules, mapping.name)

    def _tables_of(self, kind: int) -> Iterator[tuple[TableMapping, tuple[RowRule | None, ...]]]:
        """Yield the parts of the mapping whose columns must exist in tables of this kind."""
        mapping = self._mapping
        if kind == BILL:
            yield mapping.bill, (mapping.refund, mapping.skip)
            if mapping.line and self._is_flat:
                yield TableMapping(mapping.line.fields), ()
        if kind == LINE and mapping.line:
            yield mapping.line, ()
        if kind == (BILL if self._is_flat else LINE):
            yield TableMapping(_summed(mapping.bill)), ()
        for payment in mapping.payments:
            if (payment.key is None and kind == BILL) or (payment.key and kind == PAYMENT):
                yield payment, ()

    def _fill(self, rows_by_bill: SortedRows) -> Iterator[Imported]:
        bill = self._mapping.bill
        keys = {BILL: bill.key or bill.fields["id"], LINE: self._key(LINE), PAYMENT: self._key(PAYMENT)}
        dated = [source for name, source in bill.fields.items() if BILL_FIELDS[name] in (TIME, DAY)]
        for one in self._inputs:
            sheet, key_source = rows_by_bill.add_sheet(one.sheet), keys[one.kind]
            has_several_rows = one.kind != BILL or self._is_flat
            latest_key, unread = "", None
            for row in one.rows:
                if isinstance(row, RowProblem):
                    yield RejectedRow(row.file, row.line, row.reason, row.detail)
                    if has_several_rows:
                        unread = row
                        self._doubtful.setdefault(latest_key, row)
                    continue
                if one.kind == BILL and matches(self._mapping.skip, row):
                    yield SkippedRow(row.sheet.name, row.line, "the mapping says that such rows are not bills")
                    continue
                key = cell_text(key_source, row)
                if not key:
                    yield RejectedRow(row.sheet.name, row.line, NO_ID, "has no bill ID")
                    continue
                if unread is not None:
                    self._doubtful.setdefault(key, unread)
                latest_key, unread = key, None
                if one.kind == BILL:
                    self._note_order(dated, row)
                rows_by_bill.add(one.kind, key, sheet, row.line, row.cells)

    def _key(self, kind: int) -> CellSource:
        tables = [self._mapping.line] if kind == LINE else list(self._mapping.payments)
        return next((table.key for table in tables if table and table.key), CellSource(constant=""))

    def _note_order(self, dated: Sequence[CellSource], row: TableRow) -> None:
        """Note what the dates of a row show about the day/month order."""
        if self._mapping.dates.order != AUTO:
            return
        for source in dated:
            text = cell_text(source, row, " ")
            if evidence := order_evidence(text):
                self._orders[evidence] += 1
            elif self._ambiguous is None and is_order_ambiguous(text):
                self._ambiguous = RowProblem("", text, row.line, row.sheet.name)

    def _date_order(self) -> str:
        if self._mapping.dates.order != AUTO:
            return self._mapping.dates.order
        if len(self._orders) > 1:
            raise ImportFailed(
                "some dates can only be day/month and others only month/day. "
                "Set dates.order in the mapping, or use --date-order."
            )
        if self._orders:
            return next(iter(self._orders))
        if self._ambiguous:
            raise ImportFailed(
                f"the dates do not show whether the day or the month comes first: {self._ambiguous.file} line "
                f"{self._ambiguous.line} has {self._ambiguous.detail}. Use --date-order dmy or --date-order mdy, "
                "or set dates.order in the mapping."
            )
        return "dmy"

    def _shops(self) -> Iterator[Imported]:
        for number, shop in enumerate(self._mapping.shops, start=1):
            yield ImportedRecord(self._mapping.name, number, {"kind": "shop", **shop})

    def _bill(self, converter: TableBillConverter, group: BillRows, named: set[str]) -> Iterator[Imported]:
        first = group.bills[0]
        if unread := self._doubtful.get(group.key):
            detail = (
                f"may be incomplete: line {unread.line} of {unread.file}, next to one of its rows, "
                "could not be read and may belong to it"
            )
            yield RejectedRow(first.sheet.name, first.line, unread.reason, detail, group.key)
            return
        try:
            record = converter.record(group)
        except RowProblem as problem:
            yield RejectedRow(problem.file, problem.line, problem.reason, problem.detail, group.key)
            return
        if self._options.write_shops and record["shopId"] not in named:
            named.add(record["shopId"])
            yield ImportedRecord(first.sheet.name, first.line, self._found_shop(record["shopId"]), is_found_shop=True)
        yield ImportedRecord(first.sheet.name, first.line, record)

    def _found_shop(self, shop_id: str) -> dict[str, Any]:
        names = {own: foreign for foreign, own in self._mapping.shop_ids.items()}
        return shop_record(shop_id, names.get(shop_id, shop_id), self._options.timezone or self._mapping.dates.timezone)


def _summed(table: TableMapping) -> dict[str, CellSource]:
    """Return the columns that are summed to fill fields of the bill. They belong to the lines."""
    return {
        name: CellSource(columns=(source.total_of,), optional=source.optional)
        for name, source in table.fields.items()
        if source.total_of
    }


def shop_record(shop_id: str, name: str, timezone: str | None) -> dict[str, Any]:
    """Return a source record for a shop that the export names but does not describe."""
    return {"kind": "shop", "id": shop_id, "name": name} | ({"timezone": timezone} if timezone else {})
