"""Imports tables: the bills of files or of a database, with their lines and payments."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importing import checks, left_out, results, table_bills
from counterfoil.importing import mapping as mappings
from counterfoil.importing.checks import format_of_numbers, require_columns
from counterfoil.importing.export_totals import NO_ROW, TOTALS_ROW, AmountColumn, SheetTotals
from counterfoil.importing.filled_cells import FilledDown
from counterfoil.importing.headings import may_change_totals
from counterfoil.importing.mapped_fields import BILL_FIELDS, LINE_FIELDS, PAYMENT_FIELDS, Cell
from counterfoil.importing.mapping import SKIP, VOID, CellSource, ImportMapping, KnownBase, TableMapping
from counterfoil.importing.repeated_rows import leave_out_repeated
from counterfoil.importing.results import ImportedRecord, ImportFailed, Reason, RejectedRow, RowProblem
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import OnRead, Sheet, TableRow, ignore_reads, open_tables
from counterfoil.importing.sorted_rows import BILL, LINE, PAYMENT, BillRows, SortedRows
from counterfoil.importing.sum_rows import TOTALS, SumRows, amounts_of
from counterfoil.importing.usual_amounts import FirstRows
from counterfoil.importing.values import ERRORS, is_rounded_id, shown, shown_all
from counterfoil.importing.written_dates import WrittenDates, require_plausible_day

SUMMED_KINDS: dict[str | None, int] = {mappings.ROWS: BILL, mappings.PAYMENTS: PAYMENT}
KIND_NAMES = {BILL: "bill", LINE: "line", PAYMENT: "payment"}
CANCELLED_LINE = sentence("a cancelled line of a bill that is not in the bills file")
HAS_NO_ID = "has no bill ID"
MAX_AMOUNTS = 10_000
OTHER_OFFSET = re.compile(r"T[\d:.]+[+-](?!07:00|00:00)\d\d:\d\d$")
# So many rows of numbers at the end of a table may be totals.
MAX_LAST_ROWS = 5
# The money of so many rows that are no bills is read.
MAX_LEFT_OUT = 10_000
# The types of values of which a part is a value too.
CUT_KINDS = (Cell.NUMBER, Cell.TIME, Cell.DAY)
CUT_FIELDS = ("id", "key", "shopId")
NOT_SUMMED = frozenset({"unitPrice", "rev"})


class TableInput(Struct, frozen=True):
    kind: int
    sheet: Sheet
    rows: Iterable[TableRow | RowProblem]


class ImportOptions(Struct, frozen=True, kw_only=True):
    """Command-line options that supplement a mapping, and what is called while files are read."""

    shop: str | None = None
    write_shops: bool = False
    timezone: str | None = None
    currency: str = "THB"
    base: str | None = None
    """The ID of the membership base of the members of a table."""
    bases: tuple[KnownBase, ...] = ()
    """The bases that the store knows."""
    joins: bool = False
    """Whether a bill may be split over files."""
    today: date | None = None
    """The day after which no bill can be, if it is known."""
    is_of_folder: bool = False
    """Whether the file is one of a folder, which may have other files of the same sales."""
    is_built_in: bool = False
    """Whether the mapping is built in, so that columns that it does not use are known to say nothing."""
    is_order_sure: bool = False
    """Whether the operator has said in which order dates are written."""
    on_read: OnRead = ignore_reads
    on_cells: Callable[[int], object] = int
    """Called with the number of cells of each row. It may raise an exception to stop."""


def table_records(
    mapping: ImportMapping,
    options: ImportOptions,
    bills: Sequence[Path],
    lines: Sequence[Path],
    payments: Sequence[Path],
) -> Iterator[results.Imported]:
    """Return the results of an import. A file without the right header row is reported before anything is written."""
    opened = []
    is_flat = mapping.line is not None and not lines
    for kind, paths in ((BILL, bills), (LINE, lines), (PAYMENT, payments)):
        sources = [cell.source for cell in mapped_cells(mapping, kind, is_flat=is_flat)]
        for path in paths:
            files = open_tables(path, mapping.file, partial(_has_columns, sources), options.on_read)
            checks.require_sheets_of_sales(files[0])
            opened += [TableInput(kind, file.sheet, file.rows()) for file in files]
    return TableImport(mapping, opened, options).records()


def _has_columns(sources: Sequence[CellSource], headings: Collection[str]) -> bool:
    return not table_bills.missing_columns(headings, sources)


class MappedCell(Struct, frozen=True):
    """A value that is read from the tables of one kind, and the field that it fills, or an empty text."""

    field: str
    source: CellSource
    type: str


def mapped_cells(mapping: ImportMapping, kind: int, *, is_flat: bool) -> Iterator[MappedCell]:
    """Yield the values that are read from tables of this kind. `is_flat` says that each row of a bill is a line."""
    line_kind = BILL if is_flat or not mapping.line else LINE
    for own_kind, cell in _all_cells(mapping, line_kind, is_flat=is_flat):
        for total in cell.source.sums():
            summed_kind = SUMMED_KINDS.get(total.over, line_kind)
            if total.total_of and summed_kind == kind:
                yield MappedCell(cell.field, total.total_of, cell.type)
        if own_kind == kind and not cell.source.total_of:
            yield cell


def required_columns(mapping: ImportMapping, kind: int, *, is_flat: bool) -> list[str]:
    """Return the columns without which a table of this kind cannot be read with the mapping."""
    cells = mapped_cells(mapping, kind, is_flat=is_flat)
    return table_bills.missing_columns((), [cell.source for cell in cells])


def _all_cells(mapping: ImportMapping, line_kind: int, *, is_flat: bool) -> Iterator[tuple[int, MappedCell]]:
    """Yield all values of a mapping, each with the kind of the table that it is read from."""
    yield from _cells_of_table(BILL, mapping.bill, BILL_FIELDS)
    if mapping.line:
        yield from _cells_of_table(line_kind, mapping.line, LINE_FIELDS, has_key=not is_flat)
    for table in mapping.payments:
        yield from _cells_of_table(PAYMENT if table.key else BILL, table, PAYMENT_FIELDS)
    for rule in (mapping.refund, *mapping.skips):
        if rule:
            yield BILL, MappedCell("", CellSource(columns=(rule.column,), optional=rule.optional), "")
    for status in mapping.statuses:
        yield BILL, MappedCell("", status.source, "")
    for source in chain.from_iterable(mapping.checks.equal):
        yield BILL, MappedCell("", source, "")


def _cells_of_table(
    kind: int, table: TableMapping, types: dict[str, Cell], *, has_key: bool = True
) -> Iterator[tuple[int, MappedCell]]:
    if table.key and has_key:
        yield kind, MappedCell("key", table.key, "")
    for name, source in table.fields.items():
        yield kind, MappedCell(name, source, types[name])


class TableImport:
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
        self._dates = WrittenDates(mapping.dates)
        # Rows that are no bills, and why. Their money is read once it is known how numbers are written.
        self._left_out: list[tuple[TableRow, str]] = []
        # Distinct amounts of a known table, which show how its numbers are written.
        self._amounts: set[str] = set()
        # Bills that have a row next to an unreadable row. Such a bill may be incomplete, because the unreadable row may
        # belong to it.
        self._doubtful: dict[str, RowProblem] = {}
        self._in_parts: set[str] = set()
        self._named_shops = {shop["id"] for shop in mapping.shops}
        # The last row of a file, by its bill, if its last value may be cut off.
        self._cut: dict[str, TableRow] = {}
        # Rows of numbers at the end of a table, by the bill before them. They are lines of it, unless they are sums.
        self._last_rows: dict[str, list[TableRow]] = {}
        kinds = {table.kind for table in inputs}
        self._is_flat = mapping.line is not None and LINE not in kinds
        self._cells = {kind: list(mapped_cells(mapping, kind, is_flat=self._is_flat)) for kind in KIND_NAMES}
        self._check(kinds)
        self._totals = {id(table.sheet): self._sheet_totals(table) for table in inputs}

    def records(self) -> Iterator[results.Imported]:
        """Yield a source record for each bill, and a result for each row that was not converted."""
        yield from self._notes()
        with closing(SortedRows()) as rows_by_bill:
            for table in self._inputs:
                yield from self._fill(table, rows_by_bill)
            order = self._dates.order(self._mapping, today=self._options.today, is_sure=self._options.is_order_sure)
            self._find_number_format()
            self._in_parts = rows_by_bill.in_parts() if self._mapping.file.together else set()
            converter = table_bills.TableBillConverter(
                self._mapping, order, self._options.shop, is_flat=self._is_flat, joins=self._options.joins
            )
            for row, reason in self._left_out:
                yield results.SkippedRow(row.sheet.name, row.line, reason, 1, converter.net_of(row, [row]))
            for number, shop in enumerate(self._mapping.shops, start=1):
                record = {"kind": "shop", **shop}
                yield ImportedRecord(self._mapping.name, number, record, is_found_shop=shop.keys() == {"id"})
            yield from self._bills(converter, rows_by_bill)
            # If only some bills were read, the rows may include lines and payments of bills that were not read.
            if self._has_all_bills:
                for key, rows in groupby(rows_by_bill.orphans(), key=itemgetter(2)):
                    yield from self._orphans(converter, key, [(kind, row) for kind, row, _ in rows])
        for table in self._inputs:
            totals = self._totals[id(table.sheet)]
            yield from totals.compared()
            if self._mapping.checks.totals and not totals.lines and table.kind == BILL:
                yield RejectedRow(
                    totals.sheet.name,
                    1,
                    Reason.DOUBTFUL_VALUE,
                    sentence(
                        "has no row of totals at its end, unlike the sample, so rows may be missing. If it is "
                        "complete, use a mapping with totals = false in [checks]"
                    ),
                )

    def _orphans(
        self, converter: table_bills.TableBillConverter, key: str, rows: Sequence[tuple[int, TableRow]]
    ) -> Iterator[results.Imported]:
        """Yield a voided bill if a bill without a row of its own has only cancelled lines, which show when it was."""
        first, fields = rows[0][1], self._mapping.bill.fields
        own = [fields[name] for name in ("id", "shopId", "closedAt") if name in fields]
        is_void = all(kind == LINE and converter.is_cancelled(row) for kind, row in rows)
        if is_void and not table_bills.missing_columns(first.sheet.columns, own):
            yield from self._bill(converter, BillRows(key, [first], [row for _, row in rows], []))
            return
        for kind, row in rows:
            if kind == LINE and converter.is_cancelled(row):
                yield results.SkippedRow(row.sheet.name, row.line, CANCELLED_LINE)
                continue
            detail = f"is a {KIND_NAMES[kind]} of the bill {key}, which is not in the bills file"
            yield RejectedRow(row.sheet.name, row.line, Reason.NO_BILL, detail, key)

    def _check(self, kinds: set[int]) -> None:
        mapping = self._mapping
        if "id" not in mapping.bill.fields:
            raise ImportFailed(f"the mapping {mapping.name} does not say which column holds the bill ID. Set bill.id.")
        if LINE in kinds and (mapping.line is None or mapping.line.key is None):
            raise self._key_needed("line.key")
        if PAYMENT in kinds and not any(table.key for table in mapping.payments):
            raise self._key_needed("payment.key")
        for table in self._inputs:
            sheet, sources = table.sheet, [cell.source for cell in self._cells[table.kind]]
            require_columns(sheet, mapping.name, table_bills.missing_columns(sheet.columns, sources))
            new = [name for name in sheet.columns if name not in mapping.file.columns]
            if mapping.file.columns and new:
                raise ImportFailed(
                    sentence(
                        "{sheet} has the columns {new}, which the export did not have when the mapping {mapping} was "
                        "made. They may change what a bill costs. Map them, or add them to file.columns to "
                        "ignore them.",
                        sheet=sheet.name,
                        new=shown_all(new),
                        mapping=mapping.name,
                    )
                )
        named = list(mapping.file.fill_down)
        if mapping.totals and mapping.totals.column:
            named.append(mapping.totals.column)
        for name in named:
            if not any(name in table.sheet.columns for table in self._inputs):
                raise ImportFailed(
                    sentence(
                        "no file has the column {name}, which the mapping {mapping} names.",
                        name=shown(name),
                        mapping=mapping.name,
                    )
                )

    def _key_needed(self, entry: str) -> ImportFailed:
        return ImportFailed(
            f"the mapping {self._mapping.name} needs {entry}. Set it to the column that holds the bill ID."
        )

    def _notes(self) -> Iterator[results.ImportNote]:
        """Yield what the format does not show or, of a mapping written by hand, what was not compared with a sample."""
        mapping = self._mapping
        if mapping.recognition and mapping.recognition.note:
            yield results.ImportNote(mapping.recognition.note)
        for table in self._inputs:
            if table.sheet.hidden:
                yield results.ImportNote(
                    sentence(
                        "{sheet} has hidden sheets with the same columns, which are not read: {hidden}. To read one, "
                        "set file.sheet in a mapping, or show it in the workbook.",
                        sheet=table.sheet.name,
                        hidden=", ".join(table.sheet.hidden),
                    )
                )
        if self._options.is_built_in:
            return
        if mapping.checks == mappings.SampleChecks() and not mapping.database:
            yield results.ImportNote(
                sentence(
                    "{mapping} has no [checks], so little notices that a later file is written differently. "
                    "`counterfoil import FILE -o NEW.toml` asks about a sample and writes checks for it: copy "
                    "[checks] and file.columns into the mapping.",
                    mapping=mapping.name,
                )
            )
        for table in self._inputs:
            doubtful = self._unused_columns(table.sheet)
            if doubtful:
                yield results.ImportNote(
                    sentence(
                        "the mapping does not use these columns of {sheet}: {doubtful}. If one of them is paid in "
                        "addition, or says that a bill does not count, the totals are wrong.",
                        sheet=table.sheet.name,
                        doubtful=", ".join(doubtful),
                    )
                )

    def _unused_columns(self, sheet: Sheet) -> list[str]:
        """Return the columns that may change totals, but that the mapping does not name."""
        mapping = self._mapping
        named = {*mapping.file.columns, *mapping.file.fill_down, *(rule.column for rule in mapping.rejects)}
        used = _positions(chain.from_iterable(self._cells.values()), sheet)
        unused = []
        for name, position in sheet.columns.items():
            if position not in used and name not in named and may_change_totals(name):
                unused.append(name)
        return unused

    def _sheet_totals(self, table: TableInput) -> SheetTotals:
        mapping, sheet = self._mapping, table.sheet
        ids = self._id_positions(table)
        places: set[int] = set()
        for name in ("shopId", "deviceId"):
            if name in mapping.bill.fields:
                places.update(table_bills.positions_of(mapping.bill.fields[name], sheet))
        numbers = [position for position in ids if position not in places] or ids
        names: list[int] = []
        if mapping.line and table.kind == (BILL if self._is_flat else LINE):
            for name in ("name", "id"):
                if name in mapping.line.fields:
                    names += table_bills.positions_of(mapping.line.fields[name], sheet)
        dates = self._date_positions(sheet)
        has_unnamed_rows = bool(mapping.file.fill_down) and not names
        amounts = self._amount_columns(table)
        return SheetTotals(sheet, mapping.totals, amounts, ids, numbers, dates, names, has_unnamed_rows)

    def _amount_columns(self, table: TableInput) -> list[AmountColumn]:
        """Return the columns of a sheet that can be summed."""
        mapping, sheet = self._mapping, table.sheet
        headings = list(sheet.columns)
        own: set[int] = set()
        for mapped in (mapping.bill, *mapping.payments):
            own.update(map(id, mapped.fields.values()))
        amounts: dict[int, AmountColumn] = {}
        for cell in self._cells[table.kind]:
            source = cell.source
            if cell.type != Cell.NUMBER or cell.field in NOT_SUMMED or source.factors:
                continue
            for position in table_bills.positions_of(source, sheet):
                numbers = source.numbers or mapping.numbers
                # A column may fill several fields. The bill's own field is the first one.
                if position not in amounts:
                    is_of_bill = id(source) in own
                    amounts[position] = AmountColumn(position, headings[position], cell.field, numbers, is_of_bill)
        return list(amounts.values())

    def _fill(self, table: TableInput, rows_by_bill: SortedRows) -> Iterator[results.Imported]:
        """Store the rows of a table by bill; yield a result for each row that does not belong to a bill."""
        sheet, key_source = rows_by_bill.add_sheet(table.sheet), self._key(table.kind)
        day_columns = table_bills.day_columns(self._mapping)
        has_several_rows = self._has_several_rows(table.kind)
        read_positions = _positions(self._cells[table.kind], table.sheet)
        may_be_cut = self._positions_that_may_be_cut(table)
        dated = self._dated() if table.kind == BILL else []
        amounts = self._positions_of_amounts(table)
        first_rows = FirstRows(self._mapping, table.sheet)
        last_rows: list[TableRow] = []
        latest_key = ""
        unread: RowProblem | None = None
        for row in self._rows(table, last_rows):
            if isinstance(row, results.SkippedRow):
                yield row
                continue
            if isinstance(row, RowProblem):
                yield RejectedRow(row.file, row.line, row.reason, row.detail)
                if has_several_rows:
                    # A row without an ID may belong to the bill before it, any other row also to the one after it.
                    self._doubtful.setdefault(latest_key, row)
                    if row.reason != Reason.NO_ID:
                        unread = row
                continue
            key = table_bills.key_text(key_source, row, day_columns)
            if unread is not None:
                self._doubtful.setdefault(key, unread)
            latest_key, unread = key, None
            # If a bill has several rows, it may have had more of them, whatever the last column has.
            if row.may_be_cut and (has_several_rows or len(row.cells) - 1 in may_be_cut):
                self._cut[key] = row
            self._doubt_errors(key, row, read_positions)
            self._note_formats(row, dated, amounts)
            first_rows.add(row)
            rows_by_bill.add(table.kind, key, sheet, row.line, row.cells)
        for row in last_rows:
            self._totals[id(table.sheet)].keep(row)
            self._last_rows.setdefault(latest_key if has_several_rows else "", []).append(row)
        first_rows.finish()

    def _positions_of_amounts(self, table: TableInput) -> list[int]:
        """Return the columns of amounts that show how a known table writes its numbers."""
        if not self._mapping.finds_numbers or table.sheet.is_typed:
            return []
        columns = self._totals[id(table.sheet)].amounts
        # A tax may have more decimals than an amount that is paid.
        return [column.position for column in columns if column.field not in ("qty", "amounts.vat")]

    def _note_formats(self, row: TableRow, dated: Sequence[CellSource], amounts: Sequence[int]) -> None:
        """Keep what a row shows about the order of dates, and how numbers are written."""
        for source in dated:
            self._dates.add(row.sheet, table_bills.cell_text(source, row, " "), row.cells)
        if len(self._amounts) < MAX_AMOUNTS:
            self._amounts.update(row.cells[position] for position in amounts)

    def _has_several_rows(self, kind: int) -> bool:
        """Return whether a bill may have several rows in tables of this kind."""
        if kind != BILL or self._is_flat:
            return True
        return not self._mapping.line and any(source.sums_own_rows() for source in self._mapping.bill.fields.values())

    def _positions_that_may_be_cut(self, table: TableInput) -> set[int]:
        cells = [cell for cell in self._cells[table.kind] if cell.type in CUT_KINDS or cell.field in CUT_FIELDS]
        return _positions(cells, table.sheet)

    def _doubt_errors(self, key: str, row: TableRow, positions: Collection[int]) -> None:
        """Note that a bill cannot be read if a cell of it has an error of a spreadsheet."""
        if ERRORS.isdisjoint(row.cells):
            return
        for error in {row.cells[position] for position in positions} & ERRORS:
            problem = f"has {error}, which a spreadsheet writes instead of a value that it cannot compute"
            self._doubtful[key] = row.problem(Reason.UNREADABLE_VALUE, problem)

    def _rows(
        self, table: TableInput, last_rows: list[TableRow]
    ) -> Iterator[TableRow | RowProblem | results.SkippedRow]:
        """Yield the rows that have an ID, with filled cells, and a result for each other row.

        Add the rows of numbers at the end of the table, of totals or of the bill before them, to `last_rows`.
        """
        totals, key_source = self._totals[id(table.sheet)], self._key(table.kind)
        filled = FilledDown(self._mapping.file.fill_down, table.sheet)
        for row in table.rows:
            self._options.on_cells(len(row.cells))
            if isinstance(row, TableRow) and totals.is_total(row.cells):
                yield results.SkippedRow(row.sheet.name, row.line, totals.keep(row))
                continue
            if isinstance(row, TableRow) and totals.may_be_total(row.cells) and len(last_rows) < MAX_LAST_ROWS:
                last_rows.append(row)
                continue
            if isinstance(row, RowProblem):
                filled.forget()
            if not self._mapping.file.fill_down and totals.is_no_row(row.cells):
                yield results.SkippedRow(table.sheet.name, row.line, NO_ROW)
                continue
            for other in last_rows:
                yield other.problem(Reason.NO_ID, HAS_NO_ID)
            last_rows.clear()
            if isinstance(row, RowProblem):
                yield row
                continue
            filled.fill(row)
            problem = _id_problem(
                table_bills.cell_text(key_source, row), [row.cells[position] for position in totals.numbers]
            )
            reason = left_out.reason_for_row(self._mapping, row, has_id=not problem) if table.kind == BILL else None
            if reason:
                totals.add(row, SKIP, SKIP, is_first=True)
                yield from self._leave_out(row, reason)
            elif problem:
                yield row.problem(Reason.NO_ID, problem)
            else:
                yield row

    def _dated(self) -> list[CellSource]:
        """Return the sources of the days and times of a bill."""
        fields = self._mapping.bill.fields
        return [source for name, source in fields.items() if BILL_FIELDS[name] in (Cell.TIME, Cell.DAY)]

    def _date_positions(self, sheet: Sheet) -> list[int]:
        positions = []
        for source in self._dated():
            positions += table_bills.positions_of(source, sheet)
        return positions

    def _key(self, kind: int) -> CellSource:
        """Return the source of the key by which rows of this kind are assigned to their bill."""
        bill = self._mapping.bill
        if kind == BILL:
            return bill.key or bill.fields["id"]
        tables = [self._mapping.line] if kind == LINE else list(self._mapping.payments)
        return next((table.key for table in tables if table and table.key), CellSource(constant=""))

    def _id_positions(self, table: TableInput) -> list[int]:
        """Return the columns that must have a value in each row. A day alone, in an ID of several columns, is no ID."""
        source = self._mapping.bill.fields["id"] if table.kind == BILL else self._key(table.kind)
        dates = self._date_positions(table.sheet)
        return [position for position in table_bills.positions_of(source, table.sheet) if position not in dates]

    def _leave_out(self, row: TableRow, reason: str) -> Iterator[results.SkippedRow]:
        """Keep a row that is no bill until its money can be read, or yield it without money."""
        if self._is_flat or len(self._left_out) == MAX_LEFT_OUT:
            # A line may repeat the total of its bill, which is not left out.
            yield results.SkippedRow(row.sheet.name, row.line, reason)
        else:
            self._left_out.append((row, reason))

    def _find_number_format(self) -> None:
        """Set how a known table writes its numbers, as its amounts show it, or raise `ImportFailed`."""
        if self._amounts:
            numbers = format_of_numbers(self._amounts, self._inputs[0].sheet.name)
            self._mapping = replace(self._mapping, numbers=numbers)

    def _bills(self, converter: table_bills.TableBillConverter, rows_by_bill: SortedRows) -> Iterator[results.Imported]:
        # Whether these bills are complete is known when all rows are summed.
        last_bills: dict[str, ImportedRecord] = {}
        sums = SumRows(self._mapping, self._keys_of_sums(converter, rows_by_bill))
        for group in rows_by_bill.bills():
            for result in self._bill(converter, group):
                if not isinstance(result, ImportedRecord) or result.is_found_shop:
                    yield result
                elif group.key in self._last_rows:
                    last_bills[group.key] = result
                else:
                    yield from sums.passed(group.key, result)
        yield from sums.finish()
        for key, rows in self._last_rows.items():
            yield from self._last_bill(key, rows, last_bills.get(key))

    def _keys_of_sums(self, converter: table_bills.TableBillConverter, rows_by_bill: SortedRows) -> frozenset[str]:
        """Return the keys of the rows of totals, if an answer says that rows with the sums of all bills are such."""
        sums = SumRows(self._mapping)
        for group in rows_by_bill.bills() if self._mapping.file.sums == TOTALS else ():
            with suppress(RowProblem):
                _, record = converter.converted(group)
                if record:
                    bill = ImportedRecord(group.bills[0].sheet.name, group.bills[0].line, record)
                    sums.note(group.key, bill, amounts_of(bill))
        return sums.keys()

    def _bill(self, converter: table_bills.TableBillConverter, group: BillRows) -> Iterator[results.Imported]:
        first = group.bills[0]
        yield from leave_out_repeated(group, self._mapping.file.repeated, is_flat=self._is_flat)
        try:
            if unread := self._doubtful.get(group.key):
                raise first.problem(unread.reason, results.incomplete(unread))
            if group.key in self._in_parts:
                raise first.problem(
                    Reason.DIFFERENT_ROWS,
                    sentence(
                        "occurs again after other bills, so there may be two bills with this number. If there are two, "
                        "add a column that tells them apart to bill.id, such as the time. If it is one bill, remove "
                        "file.together from the mapping"
                    ),
                )
            status, record = converter.converted(group)
            if record and not self._mapping.database:
                require_plausible_day(record.get("closedAt", ""), self._mapping, self._options.today, first)
            cut = self._cut.get(group.key)
            if record and cut and not self._proves(record, cut):
                raise cut.problem(
                    Reason.DOUBTFUL_VALUE,
                    f"ends with {shown(cut.cells[-1])}, where the file ends without a line break. The value may be cut "
                    "off. Export the file again or, if it is complete, add a line break at its end",
                )
        except RowProblem as problem:
            yield RejectedRow(problem.file, problem.line, problem.reason, problem.detail, group.key)
            return
        self._add_to_totals(converter, group, status)
        if record is None:
            reason, net = converter.left_out(group)
            yield results.SkippedRow(first.sheet.name, first.line, reason, 1, net)
            for row in group.bills[1:]:
                yield results.SkippedRow(row.sheet.name, row.line, reason)
            return
        if record["shopId"] not in self._named_shops:
            self._named_shops.add(record["shopId"])
            yield from self._new_shop(record, first, converter.zone_name)
        yield ImportedRecord(first.sheet.name, first.line, record)

    def _new_shop(self, bill: dict[str, Any], row: TableRow, zone_of_bill: str | None) -> Iterator[results.Imported]:
        """Yield the shop of its first bill, and whether its times are those of another country."""
        shop_id = bill["shopId"]
        foreign_names = {own: foreign for foreign, own in self._mapping.shop_ids.items()}
        zone = self._options.timezone or zone_of_bill or self._mapping.dates.timezone
        if not zone and OTHER_OFFSET.search(bill.get("closedAt", "")):
            yield results.ShopElsewhere(row.sheet.name, shop_id)
        if self._options.write_shops:
            shop = shop_record(shop_id, foreign_names.get(shop_id, shop_id), zone)
            yield ImportedRecord(row.sheet.name, row.line, shop, is_found_shop=True)

    def _proves(self, record: dict[str, Any], cut: TableRow) -> bool:
        """Return whether the last value of a row is complete, because with it the bill adds up in other columns."""
        net = self._mapping.bill.fields.get("amounts.net")
        if net is None or net.sums():
            return False
        column = list(cut.sheet.columns)[-1]
        is_mapped = any(column in cell.source.names() for cell in chain.from_iterable(self._cells.values()))
        lines = [self._mapping.line] if self._mapping.line else []
        for part, field, tables in (("lines", "total", lines), ("payments", "amount", self._mapping.payments)):
            names = _columns_of(tables, field)
            is_used_here = not is_mapped or column in names or column in net.names()
            if names.isdisjoint(net.names()) and is_used_here and _adds_up(record, part, field):
                return True
        return False

    def _last_bill(self, key: str, rows: Sequence[TableRow], bill: ImportedRecord | None) -> Iterator[results.Imported]:
        """Yield the bill before the last rows of a table if these are totals, otherwise reject it with them."""
        problem = None
        for row in rows:
            if self._totals[id(row.sheet)].is_sum(row):
                yield results.SkippedRow(row.sheet.name, row.line, TOTALS_ROW)
            else:
                problem = row.problem(Reason.NO_ID, HAS_NO_ID)
                yield RejectedRow(problem.file, problem.line, Reason.NO_ID, HAS_NO_ID)
        if bill:
            yield RejectedRow(bill.file, bill.line, Reason.NO_ID, results.incomplete(problem), key) if problem else bill

    def _add_to_totals(self, converter: table_bills.TableBillConverter, group: BillRows, status: str) -> None:
        """Add the rows of a bill to the sums with which the export's own totals are compared."""
        kinds: dict[int, int] = {}
        rows: dict[int, TableRow] = {}
        # A line may also stand for its bill.
        for kind, rows_of_kind in ((BILL, group.bills), (LINE, group.lines), (PAYMENT, group.payments)):
            for row in rows_of_kind:
                kinds[id(row)] = kind
                rows[id(row)] = row
        begun_sheets: set[int] = set()
        for number, row in rows.items():
            totals = self._totals[id(row.sheet)]
            if totals.lines:
                is_line = kinds[number] == (BILL if self._is_flat else LINE)
                line_status = VOID if is_line and converter.is_cancelled(row) else status
                totals.add(row, status, line_status, is_first=id(row.sheet) not in begun_sheets)
                begun_sheets.add(id(row.sheet))


def _columns_of(tables: Iterable[TableMapping], field: str) -> set[str]:
    """Return the columns from which a field of lines or payments is read."""
    names: set[str] = set()
    for table in tables:
        if field in table.fields:
            source = table.fields[field]
            names.update((source.total_of or source).names())
    return names


def _adds_up(record: dict[str, Any], part: str, field: str) -> bool:
    """Return whether the lines or the payments of a bill make its total."""
    counted = [entry for entry in record.get(part, ()) if not entry.get("cancelled")]
    numbers = [Decimal(entry.get(field, "NaN")) for entry in counted]
    return bool(numbers) and sum(numbers) == Decimal(record.get("amounts", {}).get("net", "NaN"))


def _positions(cells: Iterable[MappedCell], sheet: Sheet) -> set[int]:
    """Return the columns of a sheet that these values are read from."""
    positions: set[int] = set()
    for cell in cells:
        positions.update(table_bills.positions_of(cell.source, sheet))
    return positions


def _id_problem(key: str, cells: Sequence[str]) -> str | None:
    """Return why a row cannot be assigned to a bill, or None."""
    if not key or (cells and not any(cells)):
        return HAS_NO_ID
    for cell in cells:
        if is_rounded_id(cell):
            return f"has {shown(cell)} as the bill ID: a spreadsheet has cut off its last digits. Export it again"
    return None


def shop_record(shop_id: str, name: str, timezone: str | None) -> dict[str, Any]:
    """Return a source record for a shop that the export names but does not describe."""
    record = {"kind": "shop", "id": shop_id, "name": name}
    if timezone:
        record["timezone"] = timezone
    return record
