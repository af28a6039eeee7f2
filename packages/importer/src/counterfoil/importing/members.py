"""Converts a table of members: a source record for each row, and one for a base that the store does not know.

Of a row, only the columns that the mapping names are read. Names, birthdays, gender, addresses and notes are never
stored, so no mapping can name them. Messages about values of people name lines, and no values.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from counterfoil.importing import table_bills
from counterfoil.importing import values as cell_values
from counterfoil.importing.checks import format_of_numbers, require_columns
from counterfoil.importing.export_totals import TOTALS_ROW, is_total_label
from counterfoil.importing.mapped_fields import MEMBER_FIELDS, Cell
from counterfoil.importing.mapping import CellSource, ImportMapping, MappedTier
from counterfoil.importing.repeated_rows import SAME_ROW
from counterfoil.importing.results import (
    BaseMissing,
    Imported,
    ImportedRecord,
    ImportFailed,
    ImportNote,
    Reason,
    RejectedRow,
    RowProblem,
    SkippedRow,
)
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import TableFile, TableRow, open_tables
from counterfoil.importing.tables import ImportOptions
from counterfoil.importing.values import AUTO, ERRORS, UnreadableCell, order_of, ordered_date, shown, shown_all
from counterfoil.importing.written_dates import require_one_order, unknown_order
from counterfoil.model.pos_values import record_id

LEFT_OUT = sentence("the mapping says that such rows are not members")
MOST_VISITS = 50_000
"""With more visits than this, the record of a member would be too long."""
MOST_LINES_NAMED = 5
MOST_TIERS = 50
_EMAIL = re.compile(r"[^@\s,;<>\"]+@[^@\s,;<>\"]+\.[^@\s,;<>\".]{2,}")
_PHONE = re.compile(r"[+(]?[\d][\d\s().\-/#*+xX]{3,}")
_FEWEST_DIGITS = 5
_YES, _NO = frozenset({"true", "yes", "1"}), frozenset({"", "false", "no", "0"})
_DATED = [name for name, kind in MEMBER_FIELDS.items() if kind in (Cell.TIME, Cell.DAY)]


class LeftOutValues(Struct):
    """Values that were left out of their records, because they cannot be right."""

    what: str
    lines: list[int] = []
    count: int = 0

    def add(self, line: int) -> None:
        self.count += 1
        if len(self.lines) < MOST_LINES_NAMED:
            self.lines.append(line)

    def note(self, name: str) -> str:
        lines = ", ".join(f"{line:,}" for line in self.lines)
        more = f" and {self.count - len(self.lines):,} more" if self.count > len(self.lines) else ""
        return f"{name}: {self.what} is not read in {self.count:,} of its rows: line {lines}{more}."


class _Survey(Struct):
    """What the whole table shows before its first record is written."""

    ids: Counter[str] = field(default_factory=Counter)
    dates: dict[str, set[str]] = {}
    """The distinct dates of each column that depend on the order of day and month."""
    numbers: set[str] = set()
    tiers: Counter[str] = field(default_factory=Counter)


def is_email(text: str) -> bool:
    return bool(_EMAIL.fullmatch(text))


def is_phone(text: str) -> bool:
    return bool(_PHONE.fullmatch(text)) and sum(map(str.isdigit, text)) >= _FEWEST_DIGITS


def member_records(mapping: ImportMapping, options: ImportOptions, paths: Sequence[Path]) -> Iterator[Imported]:
    """Return the results of an import. A file without the columns of the mapping is reported before anything else."""
    return MemberImport(mapping, options, paths).records()


class MemberImport:
    def __init__(self, mapping: ImportMapping, options: ImportOptions, paths: Sequence[Path]) -> None:
        if mapping.member is None or "id" not in mapping.member.fields:
            raise ImportFailed(
                sentence(
                    "the mapping {mapping} does not say which column holds the member ID. Set member.id.",
                    mapping=mapping.name,
                )
            )
        self._mapping = mapping
        self._options = options
        self._fields: dict[str, CellSource] = mapping.member.fields
        sources = list(self._fields.values())
        fits = partial(_has_columns, sources)
        self._files: list[TableFile] = []
        for path in paths:
            self._files += open_tables(path, mapping.file, fits, options.on_read)
        for file in self._files:
            self._require_columns(file, sources)
        self._base_id = self._find_base()
        self._bad_emails = LeftOutValues("the email address")
        self._bad_phones = LeftOutValues("the phone number")
        self._bad_visits = LeftOutValues("the number of visits")
        read_fields = {*self._fields, *(["visits"] if "lastVisit" in self._fields else [])}
        self._field_readers = {name: read for name, read in self._readers().items() if name in read_fields}
        self._order = ""
        self._numbers = mapping.numbers
        self._last_day = options.today + timedelta(days=1) if options.today else date.max

    # --- before the first record -----------------------------------------------------

    def _require_columns(self, file: TableFile, sources: Sequence[CellSource]) -> None:
        mapping, sheet = self._mapping, file.sheet
        require_columns(sheet, mapping.name, table_bills.missing_columns(sheet.columns, sources))
        new = [name for name in sheet.columns if name not in mapping.file.columns]
        if mapping.file.columns and new:
            raise ImportFailed(
                sentence(
                    "{sheet} has the columns {new}, which the export did not have when the mapping {mapping} was "
                    "made. They may be points or credit. Map them, or add them to file.columns to ignore them.",
                    sheet=sheet.name,
                    new=shown_all(new),
                    mapping=mapping.name,
                )
            )

    def _find_base(self) -> str:
        """Return the ID of the base that all members of the table belong to, or raise `ImportFailed`."""
        known = [base.id for base in self._options.bases]
        found = self._options.base or self._mapping.base.id or (known[0] if len(known) == 1 else None)
        if found is None:
            names = f" The store has {shown_all(known)}." if known else " Any name will do for a new one."
            raise BaseMissing(
                "nothing says to which membership base these members belong. Name it with --base, as in --base club."
                + names
            )
        if record_id(found) is None:
            raise ImportFailed(
                sentence("{found} cannot be the ID of a base: use up to 512 printable characters.", found=shown(found))
            )
        return found

    def _survey(self) -> _Survey:
        found = _Survey()
        has_format = not self._mapping.finds_numbers
        for row in self._rows():
            if isinstance(row, RejectedRow | SkippedRow):
                continue
            found.ids[self._text("id", row)] += 1
            for name in _DATED:
                day = ordered_date(self._text(name, row))
                if day:
                    found.dates.setdefault(name, set()).add(day)
            if not (has_format or row.sheet.is_typed):
                amounts = self._text("points", row), self._text("credit", row)
                found.numbers.update(filter(None, amounts))
            tier = self._text("rank", row)
            if tier and len(found.tiers) < MOST_TIERS:
                found.tiers[tier] += 1
        return found

    def _find_order(self, dates: dict[str, set[str]]) -> str:
        """Return the order of day, month and year. Raise `ImportFailed` if no date shows it, or if they contradict."""
        written = self._mapping.dates
        proved: set[str] = set()
        unclear: dict[str, str] = {}
        for name, days in dates.items():
            for day in sorted(days):
                order = order_of(day)
                if order:
                    proved.add(order)
                elif order is None:
                    unclear[name] = day
        if written.order != AUTO:
            other = "mdy" if written.order == "dmy" else "dmy"
            if written.order != "ymd" and other in proved and not self._options.is_order_sure:
                raise ImportFailed(
                    sentence(
                        "some dates can only be in the order {other}, but dates.order is {order}. Use --date-order "
                        "{other}.",
                        other=other,
                        order=written.order,
                    )
                )
            return written.order
        require_one_order(proved)
        if proved:
            return proved.pop()
        left = [order for order in ("dmy", "mdy") if self._is_past(dates, order)]
        if unclear and len(left) != 1:
            zone = self._options.timezone or written.timezone
            usual = cell_values.order_in_zone(zone) if zone else None
            if usual is None or usual not in left:
                name, example = next(iter(unclear.items()))
                names = self._files[0].sheet.shown(*self._fields[name].names())
                raise unknown_order(names, [example])
            return usual
        return left[0] if left else "dmy"

    def _is_past(self, dates: dict[str, set[str]], order: str) -> bool:
        """Return whether no sign-up and no visit is in the future in this order. An expiry may be."""
        past = [day for name in ("createdAt", "lastVisit") for day in dates.get(name, ())]
        days = [cell_values.day_in(day, self._mapping.dates, order) for day in past]
        return all(day is not None and day <= self._last_day for day in days)

    # --- records ------------------------------------------------------------------------

    def records(self) -> Iterator[Imported]:
        survey = self._survey()
        self._order = self._find_order(survey.dates)
        if survey.numbers:
            self._numbers = format_of_numbers(survey.numbers, self._files[0].sheet.name)
        yield from self._notes(survey)
        if self._base_id not in {base.id for base in self._options.bases}:
            yield ImportedRecord(self._files[0].sheet.name, 1, self._base_record(survey))
        held: dict[str, list[tuple[TableRow, Imported]]] = {}
        for row in self._rows():
            if isinstance(row, RejectedRow | SkippedRow):
                yield row
                continue
            result = self._result(row)
            member_id = self._text("id", row)
            if survey.ids[member_id] > 1:
                held.setdefault(member_id, []).append((row, result))
            else:
                yield result
        for rows in held.values():
            yield from _of_one_id(rows)
        for left_out in (self._bad_emails, self._bad_phones, self._bad_visits):
            if left_out.count:
                yield ImportNote(left_out.note(self._files[0].sheet.name))

    def _rows(self) -> Iterator[TableRow | RejectedRow | SkippedRow]:
        """Yield the rows that have an ID, and a result for each other row."""
        for file in self._files:
            for row in file.rows():
                if isinstance(row, RowProblem):
                    yield RejectedRow(row.file, row.line, row.reason, row.detail)
                else:
                    yield self._reject_or_skip(row) or row

    def _reject_or_skip(self, row: TableRow) -> RejectedRow | SkippedRow | None:
        """Return why a row is no member that can be identified, or None."""
        sheet, found = row.sheet.name, self._text("id", row)
        if is_total_label(found) or (not found and any(map(is_total_label, row.cells))):
            return SkippedRow(sheet, row.line, TOTALS_ROW)
        if cell_values.is_rounded_id(found):
            detail = "has a member ID whose last digits a spreadsheet has cut off. Export it again"
            return RejectedRow(sheet, row.line, Reason.NO_MEMBER_ID, detail)
        if record_id(found) is None or found in ERRORS:
            return RejectedRow(sheet, row.line, Reason.NO_MEMBER_ID, "has no member ID")
        if row.may_be_cut and self._is_read(len(row.cells) - 1, row):
            detail = (
                "ends where the file ends without a line break, so that its last value may be cut off. If the file is "
            )
            return RejectedRow(sheet, row.line, Reason.DOUBTFUL_VALUE, f"{detail}complete, add a line break at its end")
        return None

    def _is_read(self, position: int, row: TableRow) -> bool:
        return any(position in table_bills.positions_of(source, row.sheet) for source in self._fields.values())

    def _result(self, row: TableRow) -> Imported:
        self._options.on_cells(len(row.cells))
        try:
            return self._record(row)
        except RowProblem as problem:
            return RejectedRow(problem.file, problem.line, problem.reason, problem.detail)

    def _record(self, row: TableRow) -> ImportedRecord | SkippedRow:
        if self._flag("leftOut", row):
            return SkippedRow(row.sheet.name, row.line, LEFT_OUT)
        record: dict[str, Any] = {"kind": "member", "id": self._text("id", row), "providerId": self._base_id}
        for name, read in self._field_readers.items():
            value = read(row)
            if value not in (None, "", []):
                record[name] = value
        return ImportedRecord(row.sheet.name, row.line, record)

    def _readers(self) -> dict[str, Callable[[TableRow], Any]]:
        """Return how each field of a record is read."""
        readers: dict[str, Callable[[TableRow], Any]] = {
            "rev": partial(self._number, "rev"),
            "createdAt": self._created_at,
            "rank": partial(self._text, "rank"),
            "points": partial(self._balance, "points", "pointsExpireAt"),
            "credit": partial(self._balance, "credit", "creditExpireAt"),
            "coupons": self._coupons,
            "labels": partial(self._list, "labels"),
            "visits": self._visits,
            "tel": self._phone,
            "email": self._email,
        }
        return readers

    # --- values -----------------------------------------------------------------------------

    def _text(self, name: str, row: TableRow) -> str:
        source = self._fields.get(name)
        return table_bills.cell_text(source, row) if source else ""

    def _list(self, name: str, row: TableRow) -> list[str]:
        text, source = self._text(name, row), self._fields.get(name)
        mark = source.split if source else None
        parts = [part.strip() for part in text.split(mark)] if mark else [text]
        return [part for part in parts if part]

    def _flag(self, name: str, row: TableRow) -> bool:
        text = self._text(name, row).casefold()
        if text not in _YES | _NO:
            column = row.sheet.shown(*self._fields[name].names())
            problem = sentence("the mapping does not say what a value of {column} means", column=column)
            raise row.problem(Reason.UNKNOWN_STATUS, sentence("{name}: {problem}", name=name, problem=problem))
        return text in _YES

    def _problem(self, name: str, row: TableRow, what: str) -> RowProblem:
        """Return a problem that names the column. It quotes no value, because it may be one of a person."""
        column = row.sheet.shown(*self._fields[name].names())
        problem = sentence("the value in the column {column} {what}", column=column, what=what)
        return row.problem(Reason.UNREADABLE_VALUE, sentence("{name}: {problem}", name=name, problem=problem))

    def _number(self, name: str, row: TableRow) -> str | None:
        text, source = self._text(name, row), self._fields.get(name)
        try:
            number = cell_values.read_decimal(text, (source and source.numbers) or self._numbers)
        except UnreadableCell:
            raise self._problem(name, row, sentence("is not a number in the format of the mapping")) from None
        return None if number is None else cell_values.decimal_text(number)

    def _balance(self, name: str, expiry: str, row: TableRow) -> str | list[dict[str, str]] | None:
        amount, expires = self._number(name, row), self._day(expiry, row)
        return amount if amount is None or expires is None else [{"amount": amount, "expireAt": expires}]

    def _day(self, name: str, row: TableRow) -> str | None:
        text = self._text(name, row)
        if not text:
            return None
        try:
            return cell_values.read_day(text, self._mapping.dates, self._order)
        except UnreadableCell:
            raise self._problem(name, row, sentence("is not a day")) from None

    def _created_at(self, row: TableRow) -> str | None:
        text = self._text("createdAt", row)
        day = self._past_day("createdAt", row)
        if day is None or not cell_values.has_time(text):
            return day
        try:
            zone = cell_values.read_zone(self._options.timezone or "")
            return cell_values.read_time(text, self._mapping.dates, self._order, zone)
        except UnreadableCell:
            raise self._problem("createdAt", row, "is not a time") from None

    def _past_day(self, name: str, row: TableRow) -> str | None:
        day = self._day(name, row)
        if day is not None and date.fromisoformat(day) > self._last_day:
            raise self._problem(name, row, sentence("is in the future. The order of day and month may be another one"))
        return day

    def _visits(self, row: TableRow) -> list[str]:
        """Return a day for each visit: only their number and the latest day are stored."""
        last, text = self._past_day("lastVisit", row), self._number("visits", row)
        if "visits" not in self._fields:
            return [last] if last else []
        count = Decimal(text or 0)
        if count != int(count) or not 0 <= count <= MOST_VISITS:
            raise self._problem("visits", row, f"is not a whole number from 0 to {MOST_VISITS:,}")
        if count and not last:
            self._bad_visits.add(row.line)
        return [last] * int(count) if last else []

    def _coupons(self, row: TableRow) -> list[dict[str, str]]:
        status = self._text("couponStatus", row)
        known = {"status": status} if status else {}
        return [{"code": code, **known} for code in self._list("coupons", row)]

    def _phone(self, row: TableRow) -> str | None:
        text = self._text("tel", row).removeprefix("'").strip()
        if cell_values.is_rounded_id(text):
            raise self._problem("tel", row, "has lost digits in a spreadsheet. Export it again")
        if text in ("", "-"):
            return None
        if not is_phone(text):
            self._bad_phones.add(row.line)
            return None
        prefix = self._text("telPrefix", row)
        return text if text.startswith(("0", "+", "(")) else prefix + text

    def _email(self, row: TableRow) -> str | None:
        text = self._text("email", row)
        if text in ("", "-"):
            return None
        if not is_email(text):
            self._bad_emails.add(row.line)
            return None
        return text

    # --- the base -----------------------------------------------------------------------------

    def _base_record(self, survey: _Survey) -> dict[str, Any]:
        base = self._mapping.base
        tiers = base.tiers or tuple(MappedTier(code) for code in survey.tiers)
        record: dict[str, Any] = {"kind": "base", "id": self._base_id}
        if base.credit_enabled or "credit" in self._fields:
            record["creditEnabled"] = True
        if tiers:
            record["tiers"] = [{"code": tier.code, "name": tier.name or tier.code} for tier in tiers]
        return record

    def _notes(self, survey: _Survey) -> Iterator[ImportNote]:
        """Yield what the operator must know about the base, or about what such a file does not show."""
        if self._mapping.recognition and self._mapping.recognition.note:
            yield ImportNote(self._mapping.recognition.note)
        known = next((base for base in self._options.bases if base.id == self._base_id), None)
        if known is None:
            if survey.tiers and not self._mapping.base.tiers:
                yield ImportNote(
                    sentence(
                        "the base {base_id} gets the tiers {tiers}, in the order in which they occur. List them in "
                        "[base] of a mapping, the lowest first, if their order matters.",
                        base_id=shown(self._base_id),
                        tiers=shown_all(list(survey.tiers)),
                    )
                )
            return
        if unknown := [tier for tier in survey.tiers if tier not in known.tiers]:
            yield ImportNote(
                sentence(
                    "the base {id} has no tier {unknown}, so members have no name of their tier. Load a record of "
                    "the base with it.",
                    id=shown(known.id),
                    unknown=shown_all(unknown),
                )
            )
        if "credit" in self._fields and not known.credit_enabled:
            yield ImportNote(
                sentence(
                    "the base {id} has no store credit, so that of its members is read as 0. Load a record of the "
                    "base with creditEnabled.",
                    id=shown(known.id),
                )
            )


def _has_columns(sources: Sequence[CellSource], headings: Collection[str]) -> bool:
    return not table_bills.missing_columns(headings, sources)


def _of_one_id(rows: Sequence[tuple[TableRow, Imported]]) -> Iterator[Imported]:
    """Yield the member if all rows with its ID are the same, otherwise reject them all: nothing says which is right."""
    (first, result), *others = rows
    if all(row.cells == first.cells for row, _ in others):
        yield result
        yield from (SkippedRow(row.sheet.name, row.line, SAME_ROW) for row, _ in others)
        return
    for row, _ in rows:
        other = next(each for each, _ in rows if each is not row)
        detail = (
            f"has the member ID of line {other.line} of {other.sheet.name}, but other values. Each member needs an ID "
            "of its own: correct the export, or use another column"
        )
        yield RejectedRow(row.sheet.name, row.line, Reason.REPEATED_MEMBER, detail)
