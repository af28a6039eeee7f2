"""Converts the rows of a bill into a source record.

If one value cannot be read, the bill is rejected, because it would be wrong without it and nobody would notice.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import tzinfo
from decimal import ROUND_HALF_UP, Decimal
from itertools import combinations
from typing import Any
from zoneinfo import ZoneInfo

from counterfoil.importing import headings
from counterfoil.importing import mapping as mappings
from counterfoil.importing import values as cell_values
from counterfoil.importing.checks import RowChecks, check_equal, check_quantities, positive_part, unlisted_status
from counterfoil.importing.mapped_fields import BILL_FIELDS, LINE_FIELDS, PAYMENT_FIELDS, Cell
from counterfoil.importing.mapping import REFUND, SALE, SKIP, VOID, CellSource, ImportMapping, TableMapping
from counterfoil.importing.repeated_rows import ALL, second_print
from counterfoil.importing.results import Reason, RowProblem
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.sorted_rows import BillRows
from counterfoil.importing.values import EXACT, UnreadableCell, decimal_text, read_decimal, shown
from counterfoil.model.calendar import zone_named
from counterfoil.model.pos_values import record_id

# The fields of lines and payments that are negative in a refund. Other numbers, such as unit prices, are positive.
_SIGNED = frozenset({"qty", "total", "amount", "change"})
_ROUNDING = "rounding"
# The time of day in a cell that begins with a day, also in 20261114180512 and in 45975.75.
_TIME_AFTER_DAY = re.compile(r"[T, ]+\d{1,2}[:.h]\d{2}(?!\d).*$|(?<=^\d{8})\d{4,6}$|(?<=^\d{5})[.]\d+$", re.ASCII)
_MIDNIGHT = re.compile(r"[T ]+(?:0?0:00(?::00(?:\.0+)?)?|12:00(?::00)? ?AM)$", re.IGNORECASE)
_NIGHT_ENDS = f"{cell_values.NIGHT_ENDS:%H:%M}"
_NOT_WRITTEN = frozenset({"id", "shopId", "timezone", "void", "voidReason", "removed"})
_TOO_LARGE = 10**15
"""From this amount on, a double cannot hold the hundredths, and no till sells for that much."""


def missing_columns(columns: Collection[str], sources: Iterable[CellSource]) -> list[str]:
    """Return the columns that a table lacks, although the mapping names them and does not mark them as optional."""
    missing = []
    for source in sources:
        if source.optional:
            continue
        parts = (*source.terms, *source.factors)
        missing += missing_columns(columns, [part for part in parts if isinstance(part, CellSource)])
        names = [term_of(part, columns)[0] for part in parts if isinstance(part, str)]
        missing += [name for name in (*source.columns, *names) if name not in columns]
        if source.any_of and not any(name in columns for name in source.any_of):
            missing.append(" or ".join(source.any_of))
    return list(dict.fromkeys(missing))


def term_of(name: str, columns: Collection[str]) -> tuple[str, int]:
    """Return the column that an entry of `add` names, and its sign."""
    return (name[1:], -1) if name.startswith("-") and name not in columns else (name, 1)


def positions_of(source: CellSource, sheet: Sheet) -> list[int]:
    names = [term_of(name, sheet.columns)[0] for name in source.names()]
    return [sheet.columns[name] for name in names if name in sheet.columns]


def cell_text(source: CellSource, row: TableRow, separator: str = "-") -> str:
    """Return the text of a field in a row, translated with the mapping's `values`."""
    if source.constant is not None:
        return source.constant
    columns = row.sheet.columns
    if len(source.columns) == 1:
        position = columns.get(source.columns[0])
        text = "" if position is None else row.cells[position]
    elif source.any_of:
        filled = (row.cells[columns[name]] for name in source.any_of if name in columns)
        text = next(filter(None, filled), "")
    else:
        cells = [row.cells[columns[name]] for name in source.columns if name in columns]
        if separator == " " and any(cells[1:]):
            # A spreadsheet may write a day with the time 0:00, beside a column with the time of day.
            cells[0] = _MIDNIGHT.sub("", cells[0])
        text = (separator if source.separator is None else source.separator).join(cell for cell in cells if cell)
    if source.prefix:
        text = cell_values.prefix_of(text)
    if source.sign:
        text = "-" if cell_values.is_negative(text) else "+"
    if source.values:
        text = source.values.get(text.casefold(), text if source.others is None else source.others)
    return text or source.default


def day_columns(mapping: ImportMapping) -> frozenset[str]:
    """Return the columns with the day of a bill, which may be followed by a time of day."""
    fields = [mapping.bill.fields.get(name) for name in ("closedAt", "tradingDay")]
    return frozenset(name for source in fields if source for name in source.columns)


def key_text(
    source: CellSource, row: TableRow, days: frozenset[str], plain_day: Callable[[str], str] | None = None
) -> str:
    """Return what identifies a bill: of a time that is joined to a number, the day, also if it was closed twice."""
    if len(source.columns) > 1 and not days.isdisjoint(source.columns):
        cells = list(row.cells)
        for name in source.columns:
            if name in days and name in row.sheet.columns:
                position = row.sheet.columns[name]
                cells[position] = plain_day(cells[position]) if plain_day else _TIME_AFTER_DAY.sub("", cells[position])
        row = TableRow(row.sheet, row.line, cells)
    return cell_text(source, row)


def matches(rule: mappings.RowRule | None, row: TableRow) -> bool:
    if rule is None or rule.column not in row.sheet.columns:
        return False
    return row.cells[row.sheet.columns[rule.column]].casefold() in rule.values


class TableBillConverter:
    """Makes a source record from the rows of a bill. `order` is the order of day, month and year in dates."""

    def __init__(
        self, mapping: ImportMapping, order: str, shop: str | None, *, is_flat: bool, joins: bool = False
    ) -> None:
        self._mapping = mapping
        self._joins = joins
        """Whether a bill may be split over files."""
        self._order = order
        self._shop = shop
        self._is_flat = is_flat
        """True if each row of the bills file is a line of a bill."""
        self._day_columns = day_columns(mapping)
        self._zone: tzinfo | None = None
        self._shop_zone: tzinfo | None = None
        self._shop_zones = {shop["id"]: zone_named(shop.get("timezone")) for shop in mapping.shops}
        self._readers: dict[str, Callable[[str], Any]] = {
            Cell.TIME: self._read_time,
            Cell.DAY: lambda cell: cell_values.read_day(cell, mapping.dates, order),
            Cell.FLAG: _read_flag,
        }
        self._shops_in_lower_case = {name.casefold(): name for name in mapping.shop_ids}
        self._own_positions: dict[int, list[int]] = {}
        self._paid: list[TableRow] = []
        """The payments of the present bill that are in a file of their own, without cancelled ones."""
        self._checks = RowChecks(mapping)

    def converted(self, group: BillRows) -> tuple[str, dict[str, Any] | None]:
        """Return the status of a bill, and its source record unless it is skipped, or raise `RowProblem`."""
        rows = self._of_one_bill(group.bills, "bill", group)
        if len(rows) == 2 and not self._is_flat and (sale := self._voided_sale(*rows)):
            return VOID, self._record([sale], group, {SALE, VOID})
        self._check_agreement(rows)
        statuses = self._statuses(rows[0])
        for row in rows[1:]:
            if self._statuses(row) != statuses:
                detail = f"has another status than line {rows[0].line} of the same bill"
                raise row.problem(Reason.DIFFERENT_ROWS, detail)
        status = max(statuses, key=mappings.STATUSES.index)
        return status, None if status == SKIP else self._record(rows, group, statuses)

    def left_out(self, group: BillRows) -> tuple[str, Decimal | None]:
        """Return why a bill is left out, and its net if that can be read."""
        rows = self._of_one_bill(group.bills, "bill", group)
        reasons = []
        for rule in self._mapping.statuses:
            word = cell_text(rule.source, rows[0]) if positions_of(rule.source, rows[0].sheet) else ""
            if rule.values.get(word.casefold()) == SKIP:
                value, columns = word or sentence("empty"), " and ".join(rule.source.columns)
                reasons.append(sentence("{columns} is {value}", columns=columns, value=value))
        reason, *others = reasons or [sentence("the mapping says that such bills are left out")]
        for other in others:
            reason = sentence("{reason} and {other}", reason=reason, other=other)
        net = self._mapping.bill.fields.get("amounts.net")
        is_of_rows = net is None or net.over or not self._mapping.line or self._is_flat
        self._paid = group.payments
        return reason, self.net_of(rows[0], rows if is_of_rows else group.lines)

    def net_of(self, row: TableRow, summed: Sequence[TableRow]) -> Decimal | None:
        """Return the net of rows that are left out, or None: they may lack what those of a bill must have."""
        net = self._mapping.bill.fields.get("amounts.net")
        try:
            return self._value("amounts.net", net, Cell.NUMBER, row, summed) if net else None
        except RowProblem:
            return None

    def _voided_sale(self, one: TableRow, other: TableRow) -> TableRow | None:
        """Return the row of a sale if the other one only says that this sale was voided: it has the same amount."""
        net = self._mapping.bill.fields.get("amounts.net")
        sales, voids = [], []
        for row in (one, other):
            states = self._statuses(row) - {SALE}
            if not states:
                sales.append(row)
            elif states == {VOID}:
                voids.append(row)
        if not net or net.sums() or len(sales) != 1 or not voids:
            return None
        amounts = {abs(self._value("amounts.net", net, Cell.NUMBER, row) or Decimal()) for row in (one, other)}
        return sales[0] if len(amounts) == 1 else None

    def _statuses(self, row: TableRow) -> set[str]:
        """Return what the columns of a row say about the status of its bill."""
        found = {SALE, REFUND} if matches(self._mapping.refund, row) else {SALE}
        unknown: list[tuple[mappings.StatusRule, str]] = []
        for rule in self._mapping.statuses:
            if not positions_of(rule.source, row.sheet):
                continue
            word = cell_text(rule.source, row)
            status = rule.values.get(word.casefold()) or unlisted_status(rule, word)
            if status:
                found.add(status)
            else:
                unknown.append((rule, word))
        if self._flag(self._mapping.bill, "void", row):
            found.add(VOID)
        for rule, word in unknown:
            # How a voided bill would have been paid does not matter, nor an empty cell in a row that is left out.
            if not (rule.others and VOID in found) and (word or SKIP not in found):
                self._check_doubtful([row], found)
                column = row.sheet.shown(*rule.source.columns)
                detail = sentence(
                    "has {word} in the column {column}, which the mapping does not list as a status. Add a line to the "
                    'values of that [[status]]: {word} = "sale", "void", "refund" or "skip"',
                    word=shown(word),
                    column=column,
                )
                raise row.problem(Reason.UNKNOWN_STATUS, detail)
        return found

    def _record(self, rows: list[TableRow], group: BillRows, statuses: Collection[str]) -> dict[str, Any]:
        first = rows[0]
        bill = self._mapping.bill
        record: dict[str, Any] = {"kind": "bill", "id": self._id(first), "shopId": self.shop_of(first)}
        if self._flag(bill, "removed", first):
            return record | {"removed": True}
        self._check_doubtful(rows, statuses)
        self._zone, self._shop_zone = self._zone_of(first), self._shop_zones.get(record["shopId"])
        is_refund = REFUND in statuses
        line_rows = rows if self._is_flat else self._of_one_bill(group.lines, "lines", group)
        payment_rows = self._of_one_bill(group.payments, "payments", group)
        self._paid = [row for row in payment_rows if not self._is_cancelled_payment(row)]
        # Without lines, a sum is over the rows of the bill, which differ in their payments.
        summed = line_rows if self._mapping.line else rows
        for name, source in bill.fields.items():
            if name in _NOT_WRITTEN:
                continue
            row = self._latest_row(name, source, rows) if source.latest else first
            value = self._value(name, source, BILL_FIELDS[name], row, rows if source.over else summed)
            if value not in (None, ""):
                _put(record, name, value)
            elif name == "closedAt" and not source.optional:
                raise first.problem(Reason.NO_TIME, "has no bill time (closedAt)")
        self._put_day_of_business(record, rows)
        # A bill is void, too, if all its lines were cancelled.
        is_void = VOID in statuses or (bool(line_rows) and all(map(self.is_cancelled, line_rows)))
        self._put_void(record, first, is_void=is_void)
        net = bill.fields.get("amounts.net")
        if net and not net.optional and not is_void and "net" not in record.get("amounts", {}):
            raise first.problem(Reason.NO_AMOUNT, "has no total (amounts.net)")
        if self._mapping.line:
            record["lines"] = [self._part(self._mapping.line, LINE_FIELDS, row, (), is_refund) for row in line_rows]
        record["payments"] = self._payments(rows, payment_rows, summed, is_refund=is_refund)
        if not is_void:
            counted = [row for row in line_rows if not self.is_cancelled(row)]
            others = self._paid if self._is_flat else [*rows, *self._paid]
            self._check_against_sample(record, rows, [*counted, *others], summed, is_refund=is_refund)
        if is_refund:
            negate_amounts(record)
        return {name: written(value) for name, value in record.items()}

    def _check_against_sample(
        self,
        record: dict[str, Any],
        own: Sequence[TableRow],
        rows: Sequence[TableRow],
        summed: Sequence[TableRow],
        *,
        is_refund: bool,
    ) -> None:
        """Raise `RowProblem` if a bill contradicts itself, or the sample from which the mapping was made."""
        first = own[0]
        positive = None if is_refund else positive_part(record)
        if positive:
            detail = sentence(
                "has a negative total (amounts.net), but positive {positive}. If it is a refund, map a column that "
                "says so with [[status]]; otherwise correct the export",
                positive=positive,
            )
            raise first.problem(Reason.DOUBTFUL_VALUE, detail)
        net = record.get("amounts", {}).get("net") or Decimal()
        if net > 0 and not is_refund:
            check_quantities(self._mapping.checks.returned, own, record, is_flat=self._is_flat)
        is_refund = is_refund or net < 0
        self._checks.check(rows, is_refund=is_refund)
        if is_refund:
            return
        for cells in self._mapping.checks.equal:
            amounts = [self._value("amount", cell, Cell.NUMBER, first, own if cell.over else summed) for cell in cells]
            if None not in amounts:
                check_equal(cells, amounts, first, len(summed))

    def _latest_row(self, name: str, source: CellSource, rows: Sequence[TableRow]) -> TableRow:
        """Return the row of a bill with the latest time, such as that of the last payment."""
        return max(rows, key=lambda row: self._value(name, source, Cell.TIME, row) or "")

    def shop_of(self, row: TableRow) -> str:
        if self._shop:
            return self._shop
        source = self._mapping.bill.fields.get("shopId")
        if source:
            text = cell_text(source, row)
            shop = self._mapping.shop_ids.get(text, "" if headings.names_no_shop(text) else text)
            known = self._shops_in_lower_case.get(text.casefold(), text)
            if known != text and text not in self._mapping.shop_ids:
                detail = f"has the shop {shown(text)}, and the mapping {shown(known)}. Add it to [shopIds]"
                raise row.problem(Reason.NO_SHOP, detail)
        else:
            shop = self._mapping.shops[0]["id"] if len(self._mapping.shops) == 1 else ""
        if record_id(shop) is None:
            raise row.problem(Reason.NO_SHOP, sentence("has no shop. Use --shop, or map bill.shopId"))
        return shop

    @property
    def zone_name(self) -> str | None:
        """The time zone that the latest bill names, if it has a name and is not only an offset."""
        return self._zone.key if isinstance(self._zone, ZoneInfo) else None

    def is_cancelled(self, row: TableRow) -> bool:
        """Return whether a line was cancelled, so that it is not part of any sum."""
        return self._mapping.line is not None and self._flag(self._mapping.line, "cancelled", row)

    def _is_cancelled_payment(self, row: TableRow) -> bool:
        return any(table.key and self._flag(table, "cancelled", row) for table in self._mapping.payments)

    def _flag(self, table: TableMapping, name: str, row: TableRow) -> bool:
        return name in table.fields and bool(self._value(name, table.fields[name], Cell.FLAG, row))

    def _of_one_bill(self, rows: list[TableRow], what: str, group: BillRows) -> list[TableRow]:
        """Return the rows of a bill from one of the files that repeat it, or from all if these have parts of it."""
        # By identity, because two folders may have files with the same name.
        by_sheet: dict[int, list[TableRow]] = {}
        for row in rows:
            by_sheet.setdefault(id(row.sheet), []).append(row)
        if len(by_sheet) < 2:
            return rows
        parts = list(by_sheet.values())
        contents = [[_by_column(row) for row in part] for part in parts]
        if all(content == contents[0] for content in contents):
            return parts[0]
        has_lines = what == "lines" or (what == "bill" and self._is_flat)
        is_disjoint = not any(row in other for one, other in combinations(contents, 2) for row in one)
        if is_disjoint and (has_lines or what == "payments") and self._are_parts(parts, group, has_lines=has_lines):
            return rows
        first, other = parts[0][0], parts[1][0]
        detail = sentence(
            "has the same ID as line {line} of {file}, but other values ({what}). If numbers start again every day, in "
            "every branch or at every till, add that column to bill.id. If a bill is split over files, add --join. "
            "Otherwise import only the file with the complete and latest bill",
            line=first.line,
            file=first.sheet.name,
            what=what,
        )
        raise other.problem(Reason.DIFFERENT_ROWS, detail)

    def _are_parts(self, parts: list[list[TableRow]], group: BillRows, *, has_lines: bool) -> bool:
        """Return whether files have different rows of one bill: the operator says so, or only all rows add up to it."""
        rows = [row for part in parts for row in part]
        if self._is_flat:
            try:
                self._check_agreement(rows)
            except RowProblem:
                return False
        if self._joins:
            return True
        tables = [self._mapping.line] if has_lines else [table for table in self._mapping.payments if table.key]
        name = "total" if has_lines else "amount"
        amounts = [table.fields[name] for table in tables if table and name in table.fields]
        net = self._mapping.bill.fields.get("amounts.net")
        if net is None or net.sums() or len(amounts) != 1:
            return False
        stated = self._value("amounts.net", net, Cell.NUMBER, group.bills[0])
        sums = [self._total("amount", amounts[0], part) for part in (rows, *parts)]
        return stated == sums[0] and stated not in sums[1:]

    def _id(self, row: TableRow) -> str:
        text = key_text(self._mapping.bill.fields["id"], row, self._day_columns, self._plain_day)
        if record_id(text) is None:
            raise row.problem(Reason.NO_ID, f"has {shown(text)} as the bill ID, which is not a valid ID")
        return text

    def _read_time(self, cell: str) -> str:
        """Return a time. One after midnight, beside the day of business, may be on that day or on the next one."""
        text = cell_values.read_time(cell, self._mapping.dates, self._order, self._zone, self._shop_zone)
        closed, trading = (self._mapping.bill.fields.get(name) for name in ("closedAt", "tradingDay"))
        is_of_business = closed and trading and closed.columns[1:] and closed.columns[:1] == trading.columns
        is_unclear = is_of_business and not self._mapping.dates.night_until and text[11:16] < _NIGHT_ENDS
        if is_unclear and text[:10] == self._plain_day(cell):
            problem = sentence(
                "{cell} is after midnight. If that was on the calendar day after the day of business, set "
                'dates.nightUntil to "06:00", otherwise to "00:00"',
                cell=shown(cell),
            )
            raise UnreadableCell(problem)
        return text

    def _plain_day(self, cell: str) -> str:
        """Return a day as ISO-8601, so that a bill has the same ID in a CSV file and in a workbook."""
        try:
            return cell_values.read_day(cell, self._mapping.dates, self._order)
        except UnreadableCell:
            return cell

    def _zone_of(self, row: TableRow) -> tzinfo | None:
        """Return the time zone that a row names for its times, or None if the times are in the usual zone."""
        source = self._mapping.bill.fields.get("timezone")
        name = cell_text(source, row) if source else ""
        zone = cell_values.read_zone(name)
        if name and zone is None:
            detail = f"timezone: {shown(name)} is not a known time zone"
            raise row.problem(Reason.UNREADABLE_VALUE, detail)
        return zone

    def _check_doubtful(self, rows: Sequence[TableRow], statuses: Collection[str]) -> None:
        """Raise `RowProblem` if a row of a bill that counts has a number that the mapping says must not be there."""
        if VOID in statuses:
            return
        for rule in self._mapping.rejects:
            source = CellSource(columns=(rule.column,))
            for row in rows:
                if not cell_values.has_digit_above_zero(cell_text(source, row)):
                    # A column of zeros does not show how it writes decimals.
                    continue
                number = self._value(rule.column, source, Cell.NUMBER, row)
                if number:
                    detail = f"has {decimal_text(number)} in the column {shown(rule.column)}: {rule.reason}"
                    raise row.problem(Reason.DOUBTFUL_VALUE, detail)

    def _check_agreement(self, rows: Sequence[TableRow]) -> None:
        """Raise `RowProblem` if the rows of a bill differ in the bill's own fields, or if a file repeats the bill."""
        first = rows[0]
        are_all_counted = self._mapping.file.repeated == ALL
        if not are_all_counted and (again := second_print(rows)):
            detail = f"repeats all rows of the same bill, from line {first.line} on. The file may have its rows twice"
            raise again[0].problem(Reason.REPEATED_BILL, detail)
        for row in rows[1:]:
            is_same = all(row.cells[position] == first.cells[position] for position in self._positions(row.sheet))
            if not is_same:
                self._require_same_bill(row, first, rows)
            is_repeated = row.cells == first.cells and not are_all_counted
            if not self._is_flat and (is_repeated or not self._has_payment_rows):
                detail = sentence(
                    "is the same bill as line {line}. If a bill is split over rows, such as one for each payment or "
                    "guest, sum them in amounts.net. If these are two bills, add a column to bill.id",
                    line=first.line,
                )
                raise row.problem(Reason.REPEATED_BILL, detail)

    def _require_same_bill(self, row: TableRow, first: TableRow, rows: Sequence[TableRow]) -> None:
        """Raise `RowProblem` if a row differs from the first one of its bill in a field of the bill itself."""
        for name, source in self._own_sources():
            text, other = self._compared_text(source, row), self._compared_text(source, first)
            if text != other:
                self._check_doubtful(rows, ())
                text, other = cell_text(source, row) or text, cell_text(source, first) or other
                reason = Reason.DIFFERENT_ROWS if self._is_flat else Reason.REPEATED_BILL
                detail = f"has {shown(text)} for {name}, but line {first.line} of the same bill has {shown(other)}"
                raise row.problem(reason, detail)

    @property
    def _has_payment_rows(self) -> bool:
        """Whether several rows may be one bill because each has a payment: an amount of its own, or a part of a sum."""
        net = self._mapping.bill.fields.get("amounts.net")
        if net and net.sums_own_rows():
            return True
        return any(not table.key and table.fields.get("amount") != net for table in self._mapping.payments)

    def _own_sources(self) -> Iterator[tuple[str, CellSource]]:
        """Yield the sources of the values that belong to the bill itself, and so are the same on all its rows."""
        for name, source in self._mapping.bill.fields.items():
            if not source.latest:
                yield name, source
        for table in self._mapping.payments:
            if self._is_flat and not table.key:
                for name, source in table.fields.items():
                    yield f"payment.{name}", source
        for rule in self._mapping.statuses:
            if not rule.others:
                yield f"the column {' and '.join(rule.source.columns)}", rule.source
        if self._mapping.refund:
            yield f"the column {self._mapping.refund.column}", CellSource(columns=(self._mapping.refund.column,))

    def _compared_text(self, source: CellSource, row: TableRow) -> str:
        if source.terms or source.factors:
            return " ".join(row.cells[position] for position in positions_of(source, row.sheet))
        if source is self._mapping.bill.fields["id"]:
            return key_text(source, row, self._day_columns)
        # Payments of a bill may have different words for the same: cash has no status, and a card was captured.
        text = cell_text(source, row)
        for rule in self._mapping.statuses:
            if rule.source is source:
                return rule.values.get(text.casefold(), text)
        return text

    def _positions(self, sheet: Sheet) -> list[int]:
        found = self._own_positions.get(id(sheet))
        if found is None:
            positions: set[int] = set()
            for _, source in self._own_sources():
                positions.update(positions_of(source, sheet))
            found = list(positions)
            self._own_positions[id(sheet)] = found
        return found

    def _value(self, name: str, source: CellSource, kind: str, row: TableRow, summed: Sequence[TableRow] = ()) -> Any:
        try:
            if kind == Cell.NUMBER:
                return self._number(name, source, row, summed)
            text = cell_text(source, row, " " if kind in (Cell.TIME, Cell.DAY) else "-")
            if not text:
                return None
            if kind == Cell.LIST:
                return _split(text, source.split)
            if kind == Cell.OPTIONS:
                return [{"name": name} for name in _split(text, source.split or ",")]
            reader = self._readers.get(kind)
            return text if reader is None else reader(text)
        except UnreadableCell as error:
            detail = sentence("{name}: {problem}", name=name, problem=error.args[0])
            raise row.problem(Reason.UNREADABLE_VALUE, detail) from None

    def _number(self, name: str, source: CellSource, row: TableRow, summed: Sequence[TableRow]) -> Decimal | None:
        if source.total_of:
            number = self._total(name, source.total_of, self._paid if source.over == mappings.PAYMENTS else summed)
        elif source.terms or source.factors:
            number = self._computed(name, source, row, summed)
        else:
            number = self._decimal(cell_text(source, row), source, row, *source.columns)
        if number is None:
            return read_decimal(source.default, self._mapping.numbers) if source.default else None
        if not -_TOO_LARGE < number < _TOO_LARGE and name != "rev":
            raise UnreadableCell(f"{shown(decimal_text(number))} is too large to be an amount")
        if source.round is not None:
            number = number.quantize(Decimal(1).scaleb(-source.round), ROUND_HALF_UP)
        if source.absolute:
            number = number.copy_abs()
        return number.copy_negate() if source.negate else number

    def _decimal(self, cell: str, source: CellSource, row: TableRow, *columns: str) -> Decimal | None:
        try:
            return read_decimal(cell, source.numbers or self._mapping.numbers)
        except UnreadableCell as error:
            column, problem = row.sheet.shown(*columns), error.args[0]
            raise UnreadableCell(
                sentence("{problem}, in the column {column}", problem=problem, column=column)
            ) from None

    def _computed(self, name: str, source: CellSource, row: TableRow, summed: Sequence[TableRow]) -> Decimal | None:
        """Return the sum or the product of columns of a row, or None if the row has no values for it."""
        columns = row.sheet.columns
        numbers: list[Decimal | None] = []
        for part in source.terms or source.factors:
            if isinstance(part, CellSource):
                numbers.append(self._number(name, part, row, summed))
                continue
            column, sign = term_of(part, columns) if source.terms else (part, 1)
            number = None
            if column in columns:
                number = self._decimal(row.cells[columns[column]], source, row, column)
            if number is not None and sign < 0:
                number = number.copy_negate()
            numbers.append(number)
        known = [number for number in numbers if number is not None]
        if not known or (source.factors and len(known) < len(numbers)):
            return None
        result = known[0]
        for number in known[1:]:
            result = EXACT.multiply(result, number) if source.factors else EXACT.add(result, number)
        return result

    def _total(self, name: str, source: CellSource, rows: Sequence[TableRow]) -> Decimal | None:
        """Return the sum over the lines that are not cancelled, or None if they have no numbers."""
        counted = [row for row in rows if not self.is_cancelled(row)]
        numbers = [self._value(name, source, Cell.NUMBER, row) for row in counted]
        total = None if counted or not rows else Decimal()
        for number in numbers:
            if number is not None:
                total = EXACT.add(total or Decimal(), number)
        return total

    def _put_day_of_business(self, record: dict[str, Any], rows: Sequence[TableRow]) -> None:
        """Add the day of a time such as 25:30, which shows that it is the day of business."""
        closed = record.get("closedAt", "")
        if closed and closed[11:16] < _NIGHT_ENDS and not self._mapping.dates.night_until:
            source = self._mapping.bill.fields["closedAt"]
            row = self._latest_row("closedAt", source, rows) if source.latest else rows[0]
            day = self._plain_day(cell_text(source, row, " "))
            if day < closed[:10]:
                record.setdefault("tradingDay", day)

    def _put_void(self, record: dict[str, Any], row: TableRow, *, is_void: bool) -> None:
        fields = self._mapping.bill.fields
        reason = cell_text(fields["voidReason"], row) if "voidReason" in fields else ""
        if headings.is_placeholder(reason) or headings.flag_of(reason) is False:
            reason = ""
        says_void = "void" in fields or any(VOID in rule.values.values() for rule in self._mapping.statuses)
        if reason and says_void and not is_void:
            detail = f"has the void reason {shown(reason)}, but its status is not that of a voided bill"
            raise row.problem(Reason.DOUBTFUL_VALUE, detail)
        if is_void or reason:
            record["void"] = {"reason": reason} if reason else True

    def _part(
        self, table: TableMapping, kinds: dict[str, Cell], row: TableRow, summed: Sequence[TableRow], is_refund: bool
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, source in table.fields.items():
            value = self._value(name, source, kinds[name], row, summed)
            if value is not None:
                found[name] = value
        return refunded(found) if is_refund else found

    def _payments(
        self, bill_rows: Sequence[TableRow], rows: Sequence[TableRow], summed: Sequence[TableRow], *, is_refund: bool
    ) -> list[dict[str, Any]]:
        payments = []
        for table in self._mapping.payments:
            has_sum = any(source.sums() for source in table.fields.values())
            if table.key:
                own_rows = rows
            elif self._is_flat or has_sum:
                own_rows = bill_rows[:1]
            else:
                own_rows = bill_rows
            for row in own_rows:
                payment = self._part(table, PAYMENT_FIELDS, row, summed, is_refund)
                if payment.pop("cancelled", False):
                    continue
                # If each payment method has its own column, the columns of unused methods are empty or 0.
                if payment.get("amount") or (payment.get("name") and table.fields["name"].constant is None):
                    payments.append(payment)
        return payments


def _read_flag(cell: str) -> bool:
    flag = headings.flag_of(cell)
    if flag is None:
        raise UnreadableCell(f"{shown(cell)} is neither yes nor no")
    return flag


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


def refunded(part: dict[str, Any]) -> dict[str, Any]:
    """Return a line or a payment of a refund, whichever sign the export writes: only unit prices are positive."""
    negative = dict(part)
    for name, value in part.items():
        if isinstance(value, Decimal):
            negative[name] = -abs(value) if name in _SIGNED else abs(value)
    return negative


def negate_amounts(record: dict[str, Any]) -> None:
    """Make the amounts of a refund negative, whichever sign the export writes. Rounding may have either sign."""
    amounts = record.get("amounts", {})
    net = amounts.get("net")
    is_written_positive = isinstance(net, Decimal) and net > 0
    for name, value in amounts.items():
        if not isinstance(value, Decimal):
            continue
        if name != _ROUNDING:
            amounts[name] = value.copy_abs().copy_negate()
        elif is_written_positive:
            amounts[name] = value.copy_negate()


def written(value: Any) -> Any:
    """Return the value with every number in it written as plain digits, without an exponent."""
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, dict):
        return {name: written(inner) for name, inner in value.items()}
    return [written(inner) for inner in value] if isinstance(value, list) else value
