"""Imports tables: the bills of files or of a database, with their lines and payments."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importing import mapping as mappings
from counterfoil.importing import results, table_bills
from counterfoil.importing import values as cell_values
from counterfoil.importing.checks import HeadingCheck, improbable_days, probable_order
from counterfoil.importing.export_totals import NO_ROW, TOTALS_ROW, AmountColumn, BillsAbove, SheetTotals
from counterfoil.importing.headings import may_change_totals
from counterfoil.importing.mapping import BILL_FIELDS, SKIP, VOID, Cell, CellSource, ImportMapping, KnownBase
from counterfoil.importing.results import ImportedRecord, ImportFailed, Reason, RejectedRow, RowProblem, message
from counterfoil.importing.sheets import OnRead, Sheet, TableRow, ignore_reads, is_damaged, open_tables
from counterfoil.importing.sorted_rows import BILL, LINE, PAYMENT, BillRows, SortedRows
from counterfoil.importing.values import AUTO, ERRORS, is_rounded_id, order_of, ordered_date, shown, shown_all

KIND_NAMES = {BILL: "bill", LINE: "line", PAYMENT: "payment"}
CANCELLED_LINE = "a cancelled line of a bill that is not in the bills file"
HAS_NO_ID = "has no bill ID"
NOT_BILLS = "the mapping says that such rows are not bills"
MAX_AMOUNTS = 10_000
OTHER_OFFSET = re.compile(r"T[\d:.]+[+-](?!07:00|00:00)\d\d:\d\d$")
# So many rows of numbers at the end of a table may be totals.
MAX_LAST_ROWS = 5
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
        sources = [source for _, source, _ in mapped_cells(mapping, kind, is_flat=is_flat)]
        for path in paths:
            files = open_tables(path, mapping.file, partial(_has_columns, sources), options.on_read)
            opened += [TableInput(kind, file.sheet, file.rows()) for file in files]
    return TableImport(mapping, opened, options).records()


def _has_columns(sources: Sequence[CellSource], headings: Collection[str]) -> bool:
    return not table_bills.missing_columns(headings, sources)


def mapped_cells(mapping: ImportMapping, kind: int, *, is_flat: bool) -> Iterator[tuple[str, CellSource, str]]:
    """Yield the field, the source and the type of each value that is read from tables of this kind."""
    line_kind = BILL if is_flat or not mapping.line else LINE
    tables = [(BILL, mapping.bill, BILL_FIELDS)]
    if mapping.line:
        tables.append((line_kind, mapping.line, mappings.LINE_FIELDS))
    tables += [(PAYMENT if table.key else BILL, table, mappings.PAYMENT_FIELDS) for table in mapping.payments]
    cells: list[tuple[int, str, CellSource, str]] = []
    for own, table, kinds in tables:
        if table.key and not (is_flat and table is mapping.line):
            cells.append((own, "key", table.key, ""))
        cells += [(own, name, source, kinds[name]) for name, source in table.fields.items()]
    rules = [rule for rule in (mapping.refund, *mapping.skips) if rule]
    others = [CellSource(columns=(rule.column,), optional=rule.optional) for rule in rules]
    others += [*(rule.source for rule in mapping.statuses), *chain.from_iterable(mapping.checks.equal)]
    for own, name, source, cell_kind in (*cells, *((BILL, "", source, "") for source in others)):
        sums = [one.total_of for one in source.sums() if (BILL if one.over else line_kind) == kind]
        yield from ((name, one, cell_kind) for one in sums if one)
        if own == kind and not source.total_of:
            yield name, source, cell_kind


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
        # The distinct dates of each sheet that depend on the order of day and month.
        self._dates: dict[str, set[str]] = {}
        self._zones: set[str] = set()
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
        kinds = {one.kind for one in inputs}
        self._is_flat = mapping.line is not None and LINE not in kinds
        self._check(kinds)
        self._totals = {id(one.sheet): self._sheet_totals(one) for one in inputs}

    def records(self) -> Iterator[results.Imported]:
        """Yield a source record for each bill, and a result for each row that was not converted."""
        yield from self._notes()
        with closing(SortedRows()) as rows_by_bill:
            for one in self._inputs:
                yield from self._fill(one, rows_by_bill)
            order = self._date_order()
            self._find_number_format()
            self._in_parts = rows_by_bill.in_parts() if self._mapping.file.together else set()
            converter = table_bills.TableBillConverter(
                self._mapping, order, self._options.shop, is_flat=self._is_flat, joins=self._options.joins
            )
            for number, shop in enumerate(self._mapping.shops, start=1):
                record = {"kind": "shop", **shop}
                yield ImportedRecord(self._mapping.name, number, record, is_found_shop=shop.keys() == {"id"})
            yield from self._bills(converter, rows_by_bill)
            # If only some bills were read, the rows may include lines and payments of bills that were not read.
            orphans = rows_by_bill.orphans() if self._has_all_bills else ()
            for key, rows in groupby(orphans, key=itemgetter(2)):
                yield from self._orphans(converter, key, [(kind, row) for kind, row, _ in rows])
        for one in self._inputs:
            totals = self._totals[id(one.sheet)]
            yield from totals.compared()
            if self._mapping.checks.totals and not totals.lines and one.kind == BILL:
                yield RejectedRow(
                    totals.sheet.name,
                    1,
                    Reason.DOUBTFUL_VALUE,
                    (
                        "has no row of totals at its end, unlike the sample, so rows "
                        "may be missing. If it is complete, use a mapping with totals = false in [checks]"
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
            raise ImportFailed(message("key_needed", mapping=mapping.name, entry="line.key"))
        if PAYMENT in kinds and not any(table.key for table in mapping.payments):
            raise ImportFailed(message("key_needed", mapping=mapping.name, entry="payment.key"))
        for one in self._inputs:
            sources = [source for _, source, _ in mapped_cells(mapping, one.kind, is_flat=self._is_flat)]
            if missing := table_bills.missing_columns(one.sheet.columns, sources):
                names, columns = shown_all(missing), shown_all(list(one.sheet.columns))
                values = {"sheet": one.sheet.name, "mapping": mapping.name, "missing": names, "columns": columns}
                encoding = message("not_text") if any(map(is_damaged, one.sheet.columns)) else ""
                raise ImportFailed(message("columns_missing", encoding=encoding, **values))
            new = [name for name in one.sheet.columns if name not in mapping.file.columns]
            if mapping.file.columns and new:
                values = {"sheet": one.sheet.name, "mapping": mapping.name, "new": shown_all(new)}
                raise ImportFailed(message("new_columns", **values))
        column = mapping.totals.column if mapping.totals else None
        for name in (*mapping.file.fill_down, *((column,) if column else ())):
            if not any(name in one.sheet.columns for one in self._inputs):
                raise ImportFailed(f"no file has the column {shown(name)}, which the mapping {mapping.name} names.")

    def _notes(self) -> Iterator[results.ImportNote]:
        """Yield what the format does not show or, of a mapping written by hand, what was not compared with a sample."""
        mapping = self._mapping
        if mapping.recognition and mapping.recognition.note:
            yield results.ImportNote(mapping.recognition.note)
        for one in self._inputs:
            if one.sheet.hidden:
                names = ", ".join(one.sheet.hidden)
                yield results.ImportNote(
                    f"{one.sheet.name} has hidden sheets with the same columns, "
                    f"which are not read: {names}. To read one, set file.sheet in a mapping, or show it "
                    "in the workbook."
                )
        if self._options.is_built_in:
            return
        if mapping.checks == mappings.SampleChecks() and not mapping.database:
            yield results.ImportNote(
                f"{mapping.name} has no [checks], so little notices that a later "
                "file is written differently. `counterfoil import FILE -o NEW.toml` asks about a "
                "sample and writes checks for it: copy [checks] and file.columns into the mapping."
            )
        cells = [cell for kind in KIND_NAMES for _, cell, _ in mapped_cells(mapping, kind, is_flat=self._is_flat)]
        named = {*mapping.file.columns, *mapping.file.fill_down, *(rule.column for rule in mapping.rejects)}
        for one in self._inputs:
            used = {at for cell in cells for at in table_bills.positions_of(cell, one.sheet)}
            others = [name for name, at in one.sheet.columns.items() if at not in used and name not in named]
            if doubtful := ", ".join(name for name in others if may_change_totals(name)):
                yield results.ImportNote(
                    f"the mapping does not use these columns of {one.sheet.name}: "
                    f"{doubtful}. If one of them is paid in addition, or says that a bill does not "
                    "count, the totals are wrong."
                )

    def _sheet_totals(self, one: TableInput) -> SheetTotals:
        mapping, sheet = self._mapping, one.sheet
        cells = list(mapped_cells(mapping, one.kind, is_flat=self._is_flat))
        own = {id(source) for table in (mapping.bill, *mapping.payments) for source in table.fields.values()}
        # A column may fill several fields. The bill's own field is the first one.
        amounts: dict[int, AmountColumn] = {}
        for name, source, kind in cells:
            for at in table_bills.positions_of(source, sheet) if kind == Cell.NUMBER and name not in NOT_SUMMED else ():
                written, heading = source.numbers or mapping.numbers, list(sheet.columns)[at]
                if not source.factors:
                    amounts.setdefault(at, AmountColumn(at, heading, name, written, id(source) in own))
        dates = [at for source in self._dated() for at in table_bills.positions_of(source, sheet)]
        lines = mapping.line.fields if mapping.line and one.kind == (BILL if self._is_flat else LINE) else {}
        names = [at for name in ("name", "id") if name in lines for at in table_bills.positions_of(lines[name], sheet)]
        has_unnamed_rows = bool(mapping.file.fill_down) and not names
        columns, ids = list(amounts.values()), self._id_positions(one)
        places = [mapping.bill.fields[name] for name in ("shopId", "deviceId") if name in mapping.bill.fields]
        others = {at for source in places for at in table_bills.positions_of(source, sheet)}
        numbers = [at for at in ids if at not in others] or ids
        return SheetTotals(sheet, mapping.totals, columns, ids, numbers, dates, names, has_unnamed_rows)

    def _fill(self, one: TableInput, rows_by_bill: SortedRows) -> Iterator[results.Imported]:
        """Store the rows of a table by bill; yield a result for each row that does not belong to a bill."""
        sheet, dated, key_source = rows_by_bill.add_sheet(one.sheet), self._dated(), self._key(one.kind)
        zone = self._mapping.bill.fields.get("timezone")
        has_sums = not self._mapping.line and any(source.sums() for source in self._mapping.bill.fields.values())
        has_several_rows = one.kind != BILL or self._is_flat or has_sums
        cells = list(mapped_cells(self._mapping, one.kind, is_flat=self._is_flat))
        positions = list({at for _, source, _ in cells for at in table_bills.positions_of(source, one.sheet)})
        may_be_cut = {
            at
            for name, source, kind in cells
            if kind in CUT_KINDS or name in CUT_FIELDS
            for at in table_bills.positions_of(source, one.sheet)
        }
        columns = self._totals[id(one.sheet)].amounts if self._mapping.finds_numbers and not one.sheet.is_typed else ()
        # A tax may have more decimals than an amount that is paid.
        amounts = [column.position for column in columns if column.field not in ("qty", "amounts.vat")]
        latest_key, unread, days = "", None, table_bills.day_columns(self._mapping)
        headings = HeadingCheck(self._mapping, one.sheet)
        last_rows: list[TableRow] = []
        for row in self._rows(one, last_rows):
            if isinstance(row, results.SkippedRow):
                yield row
                continue
            if isinstance(row, RowProblem):
                yield RejectedRow(row.file, row.line, row.reason, row.detail)
                if has_several_rows:
                    # A row without an ID may belong to the bill before it, any other row also to the one after it.
                    self._doubtful.setdefault(latest_key, row)
                    unread = unread if row.reason == Reason.NO_ID else row
                continue
            key = table_bills.key_text(key_source, row, days)
            if unread is not None:
                self._doubtful.setdefault(key, unread)
            latest_key, unread = key, None
            # If a bill has several rows, it may have had more of them, whatever the last column has.
            if row.may_be_cut and (has_several_rows or len(row.cells) - 1 in may_be_cut):
                self._cut[key] = row
            for error in () if ERRORS.isdisjoint(row.cells) else {row.cells[at] for at in positions} & ERRORS:
                problem = f"has {error}, which a spreadsheet writes instead of a value that it cannot compute"
                self._doubtful[key] = row.problem(Reason.UNREADABLE_VALUE, problem)
            texts = [table_bills.cell_text(source, row, " ") for source in dated] if one.kind == BILL else []
            self._dates.setdefault(row.sheet.name, set()).update(filter(None, map(ordered_date, texts)))
            self._zones.add(table_bills.cell_text(zone, row) if zone and texts else "")
            headings.add(row)
            if len(self._amounts) < MAX_AMOUNTS:
                self._amounts.update(row.cells[at] for at in amounts)
            rows_by_bill.add(one.kind, key, sheet, row.line, row.cells)
        for row in last_rows:
            self._totals[id(one.sheet)].keep(row)
            self._last_rows.setdefault(latest_key if has_several_rows else "", []).append(row)
        headings.finish()

    def _rows(self, one: TableInput, last_rows: list[TableRow]) -> Iterator[TableRow | RowProblem | results.SkippedRow]:
        """Yield the rows that have an ID, with filled cells, and a result for each other row.

        Add the rows of numbers at the end of the table, of totals or of the bill before them, to `last_rows`.
        """
        totals, ids, key_source = self._totals[id(one.sheet)], self._id_positions(one), self._key(one.kind)
        filled = FilledDown(self._mapping.file.fill_down, one.sheet)
        for row in one.rows:
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
                yield results.SkippedRow(one.sheet.name, row.line, NO_ROW)
                continue
            yield from (other.problem(Reason.NO_ID, HAS_NO_ID) for other in last_rows)
            last_rows.clear()
            if isinstance(row, RowProblem):
                yield row
                continue
            filled.fill(row)
            problem = _id_problem(table_bills.cell_text(key_source, row), [row.cells[position] for position in ids])
            if one.kind == BILL and self._is_skipped(row, has_id=not problem):
                totals.add(row, SKIP, SKIP, is_first=True)
                yield results.SkippedRow(row.sheet.name, row.line, NOT_BILLS)
            else:
                yield row.problem(Reason.NO_ID, problem) if problem else row

    def _dated(self) -> list[CellSource]:
        return [
            source for name, source in self._mapping.bill.fields.items() if BILL_FIELDS[name] in (Cell.TIME, Cell.DAY)
        ]

    def _key(self, kind: int) -> CellSource:
        """Return the source of the key by which rows of this kind are assigned to their bill."""
        bill = self._mapping.bill
        if kind == BILL:
            return bill.key or bill.fields["id"]
        tables = [self._mapping.line] if kind == LINE else list(self._mapping.payments)
        return next((table.key for table in tables if table and table.key), CellSource(constant=""))

    def _id_positions(self, one: TableInput) -> list[int]:
        """Return the columns that must have a value in each row. A day alone, in an ID of several columns, is no ID."""
        source = self._mapping.bill.fields["id"] if one.kind == BILL else self._key(one.kind)
        dates = {at for dated in self._dated() for at in table_bills.positions_of(dated, one.sheet)}
        return [at for at in table_bills.positions_of(source, one.sheet) if at not in dates]

    def _is_skipped(self, row: TableRow, *, has_id: bool) -> bool:
        """Return whether a row is left out. If it has an ID, its status counts for the whole bill, later."""
        if any(table_bills.matches(rule, row) for rule in self._mapping.skips):
            return True
        return not has_id and any(
            rule.values.get(table_bills.cell_text(rule.source, row).casefold()) == SKIP
            for rule in self._mapping.statuses
        )

    def _date_order(self) -> str:
        """Return the order of day, month and year. Raise `ImportFailed` if the dates of a file contradict it."""
        mapping, order = self._mapping, self._mapping.dates.order
        orders = {name: Counter(map(order_of, dates)) for name, dates in self._dates.items()}
        proved = {order for found in orders.values() for order in found if order}
        if order == AUTO:
            if len(proved) > 1:
                raise ImportFailed(message("date_order_mixed"))
            dates = sorted(day for found in self._dates.values() for day in found)
            probable = next(iter(proved), None) or probable_order(dates, mapping.dates, self._options.today)
            usual = {cell_values.order_in_zone(str(cell_values.read_zone(name))) for name in self._zones if name}
            if not probable and len(usual) == 1 and (local := usual.pop()):
                is_improbable = improbable_days(dates, mapping.dates, local, self._options.today, ())
                probable = None if is_improbable else local
            for name, found in orders.items():
                if not probable and found[None]:
                    example = min(day for day in self._dates[name] if order_of(day) is None)
                    raise ImportFailed(message("date_order_unknown", name=name, example=example))
            return probable or "dmy"
        other = "mdy" if order == "dmy" else "dmy"
        for name, found in orders.items():
            if order != "ymd" and found[other] > found[order]:
                example = min(day for day in self._dates[name] if order_of(day) == other)
                raise ImportFailed(f"{name} has {example}, but dates.order is {order}. Use --date-order {other}.")
            cells = () if found[order] or self._options.is_order_sure else self._dates[name]
            if days := improbable_days(cells, mapping.dates, order, self._options.today, mapping.checks.days):
                raise ImportFailed(message("days_improbable", name=name, **days))
        return order

    def _find_number_format(self) -> None:
        """Set how a known table writes its numbers, as its amounts show it, or raise `ImportFailed`."""
        if self._amounts:
            found = cell_values.format_of_amounts(self._amounts)
            if found is None:
                example = cell_values.in_thousands_or_not(sorted(self._amounts))
                raise ImportFailed(message("decimals_unknown", name=self._inputs[0].sheet.name, example=example))
            self._mapping = replace(self._mapping, numbers=found)

    def _bills(self, converter: table_bills.TableBillConverter, rows_by_bill: SortedRows) -> Iterator[results.Imported]:
        # Whether these bills are complete is known when all rows are summed.
        last_bills: dict[str, ImportedRecord] = {}
        above: dict[str, BillsAbove] = {}
        for group in rows_by_bill.bills():
            for result in self._bill(converter, group):
                if not isinstance(result, ImportedRecord) or result.is_found_shop:
                    yield result
                elif group.key in self._last_rows:
                    last_bills[group.key] = result
                elif self._is_no_sum(result):
                    yield result
                else:
                    passed = above.setdefault(result.file, BillsAbove()).passed(result)
                    yield from map(self._of_sums, passed)
        for bills in above.values():
            if bills.doubtful:
                yield self._of_sums(bills.rejected(bills.doubtful))
        for key, rows in self._last_rows.items():
            yield from self._last_bill(key, rows, last_bills.get(key))

    def _is_no_sum(self, bill: ImportedRecord) -> bool:
        """Return whether a bill with the sums of those above it is known to be none."""
        is_allowed = bill.record["id"].casefold() in self._mapping.checks.allowed
        return bool(self._mapping.database) or self._mapping.file.sums == "bills" or is_allowed

    def _of_sums(self, found: ImportedRecord | RejectedRow) -> results.Imported:
        """Return a bill, or what becomes of a row that has the sums of the bills above it."""
        if isinstance(found, RejectedRow) and self._mapping.file.sums == "totals":
            return results.SkippedRow(found.file, found.line, TOTALS_ROW)
        return found

    def _bill(self, converter: table_bills.TableBillConverter, group: BillRows) -> Iterator[results.Imported]:
        first = group.bills[0]
        try:
            if unread := self._doubtful.get(group.key):
                raise first.problem(unread.reason, _incomplete(unread))
            if group.key in self._in_parts:
                raise first.problem(
                    Reason.DIFFERENT_ROWS,
                    (
                        "occurs again after other bills, so there may be two bills with "
                        "this number. If there are two, add a column that tells them apart to bill.id, such "
                        "as the time. If it is one bill, remove file.together from the mapping"
                    ),
                )
            status, record = converter.converted(group)
            if record and (cut := self._cut.get(group.key)) and not self._proves(record, cut):
                raise cut.problem(
                    Reason.DOUBTFUL_VALUE,
                    (
                        f"ends with {shown(cut.cells[-1])}, where the file ends without "
                        "a line break. The value may be cut off. Export the file again or, if it is "
                        "complete, add a line break at its end"
                    ),
                )
        except RowProblem as problem:
            yield RejectedRow(problem.file, problem.line, problem.reason, problem.detail, group.key)
            return
        self._add_to_totals(converter, group, status)
        if record is None:
            reason, net = converter.left_out(group)
            yield results.SkippedRow(first.sheet.name, first.line, reason, 1, net)
            yield from (results.SkippedRow(row.sheet.name, row.line, reason) for row in group.bills[1:])
            return
        if record["shopId"] not in self._named_shops:
            self._named_shops.add(record["shopId"])
            names = {own: foreign for foreign, own in self._mapping.shop_ids.items()}
            zone = self._options.timezone or converter.zone_name or self._mapping.dates.timezone
            found = shop_record(record["shopId"], names.get(record["shopId"], record["shopId"]), zone)
            if not zone and OTHER_OFFSET.search(record.get("closedAt", "")):
                yield results.ShopElsewhere(first.sheet.name, record["shopId"])
            if self._options.write_shops:
                yield ImportedRecord(first.sheet.name, first.line, found, is_found_shop=True)
        yield ImportedRecord(first.sheet.name, first.line, record)

    def _proves(self, record: dict[str, Any], cut: TableRow) -> bool:
        """Return whether the last value of a row is complete, because with it the bill adds up in other columns."""
        net = self._mapping.bill.fields.get("amounts.net")
        if net is None or net.sums():
            return False
        column = list(cut.sheet.columns)[-1]
        cells = [each for kind in KIND_NAMES for each in mapped_cells(self._mapping, kind, is_flat=self._is_flat)]
        is_mapped = any(column in source.names() for _, source, _ in cells)
        lines = [self._mapping.line] if self._mapping.line else []
        for tables, parts, name in ((lines, "lines", "total"), (self._mapping.payments, "payments", "amount")):
            sources = [table.fields[name] for table in tables if name in table.fields]
            names = {each for source in sources for each in (source.total_of or source).names()}
            if names.isdisjoint(net.names()) and (not is_mapped or column in (*names, *net.names())):
                numbers = [
                    Decimal(part.get(name, "NaN")) for part in record.get(parts, ()) if not part.get("cancelled")
                ]
                if numbers and sum(numbers) == Decimal(record.get("amounts", {}).get("net", "NaN")):
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
            yield RejectedRow(bill.file, bill.line, Reason.NO_ID, _incomplete(problem), key) if problem else bill

    def _add_to_totals(self, converter: table_bills.TableBillConverter, group: BillRows, status: str) -> None:
        """Add the rows of a bill to the sums with which the export's own totals are compared."""
        seen: set[int] = set()
        kinds = ((BILL, group.bills), (LINE, group.lines), (PAYMENT, group.payments))
        # A line may also stand for its bill.
        for kind, row in {id(row): (kind, row) for kind, rows in kinds for row in rows}.values():
            totals = self._totals[id(row.sheet)]
            if totals.lines:
                is_line = kind == (BILL if self._is_flat else LINE)
                line_status = VOID if is_line and converter.is_cancelled(row) else status
                totals.add(row, status, line_status, is_first=id(row.sheet) not in seen)
                seen.add(id(row.sheet))


class FilledDown:
    """Fills the empty cells of columns that an export writes only where their value changes.

    The columns are listed from the outer to the inner one: where an outer column changes, inner ones begin again. So a
    bill without a table does not get the table of the bill before it.
    """

    def __init__(self, columns: Sequence[str], sheet: Sheet) -> None:
        self._positions = [sheet.columns[name] for name in columns if name in sheet.columns]
        self._above: dict[int, str] = {}

    def fill(self, row: TableRow) -> None:
        has_changed = False
        for position in self._positions:
            cell, above = row.cells[position], self._above.get(position, "")
            if not cell and not has_changed:
                row.cells[position] = above
                continue
            has_changed = has_changed or cell != above
            self._above[position] = cell

    def forget(self) -> None:
        """Forget the values above, because a row that cannot be read may have changed them."""
        self._above.clear()


def _incomplete(unread: RowProblem) -> str:
    """Return why a bill is rejected because of a row that cannot be read."""
    where = f"line {unread.line} of {unread.file}"
    if unread.reason == Reason.UNREADABLE_VALUE:
        return f"is not complete: {where} {unread.detail}"
    return f"may be incomplete: {where}, next to one of its rows, may belong to it, but {unread.detail}"


def _id_problem(key: str, cells: Sequence[str]) -> str | None:
    """Return why a row cannot be assigned to a bill, or None."""
    if not key or (cells and not any(cells)):
        return HAS_NO_ID
    if rounded := next((cell for cell in cells if is_rounded_id(cell)), None):
        return f"has {shown(rounded)} as the bill ID: a spreadsheet has cut off its last digits. Export it again"
    return None


def shop_record(shop_id: str, name: str, timezone: str | None) -> dict[str, Any]:
    """Return a source record for a shop that the export names but does not describe."""
    return {"kind": "shop", "id": shop_id, "name": name} | ({"timezone": timezone} if timezone else {})
