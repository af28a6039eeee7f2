"""The mapping: a TOML file that says which column of an export fills which field, and how values are written."""

import tomllib
from collections.abc import Collection
from collections.abc import Mapping as Table
from datetime import timedelta
from difflib import get_close_matches
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.domain.calendar import zone_named
from counterfoil.importing.fields import BILL_FIELDS, GROUPS, LINE_FIELDS, NUMBER, PAYMENT_FIELDS, TEXT
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.values import AUTO, DATE_ORDERS, DateFormat, NumberFormat

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", ",": ",", ";": ";", "\t": "\t", "|": "|"}
ENCODINGS = ("utf-8", "utf-8-sig", "cp874", "tis-620", "windows-1252", "utf-16")
SECTIONS = (
    *("recognise", "headings", "file", "numbers", "dates", "shop", "shopIds", "bill", "line", "payment"),
    *("refund", "skip", "status", "reject", "totals", "database", "undecided"),
)
SHOP_FIELDS = ("id", "name", "franchiseId", "providerId", "timezone", "closingTime")
# A cell has exactly one source. The sources in the second list are computed, so only a field that is a number has them.
PLAIN_SOURCES = ("column", "columns", "any", "constant")
COMPUTED_SOURCES = ("add", "multiply", "sum")
SOURCES = (*PLAIN_SOURCES, *COMPUTED_SOURCES)
NUMBER_KEYS = ("negate", "absolute", "decimal", "over")
CELL_KEYS = (*SOURCES, "values", "default", "separator", "split", "optional", *NUMBER_KEYS)
# What a status can mean for a bill. If several columns have a status, the strongest one counts.
SALE, REFUND, VOID, SKIP = "sale", "refund", "void", "skip"
STATUSES = (SALE, REFUND, VOID, SKIP)
ROLES = ("bills", "lines")
DEFAULT_OVERLAP = timedelta(hours=1)
DEFAULT_NUMBER_OVERLAP = 1000
DURATIONS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


class CellSource(Struct, frozen=True, kw_only=True):
    """Where the value of a field comes from: columns of a row, a constant, or arithmetic over columns and lines."""

    columns: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    constant: str | None = None
    terms: "tuple[str | CellSource, ...]" = ()
    """Columns that are added; one that begins with `-` is subtracted, unless a column has that very name."""
    factors: "tuple[str | CellSource, ...]" = ()
    total_of: "CellSource | None" = None
    """What is summed over the lines of a bill."""
    over_rows: bool = False
    """Whether the sum is over the rows of the bills file, even if the lines are in another file."""
    values: dict[str, str] = {}
    default: str = ""
    separator: str | None = None
    split: str | None = None
    optional: bool = False
    negate: bool = False
    absolute: bool = False
    numbers: NumberFormat | None = None

    def names(self) -> tuple[str, ...]:
        """Return the columns of the row itself, without those that are summed over the lines."""
        parts = (*self.terms, *self.factors)
        computed = (name for part in parts for name in ((part,) if isinstance(part, str) else part.names()))
        return (*self.columns, *self.any_of, *computed)

    def sums(self) -> "list[CellSource]":
        """Return the sums over the lines: the source itself, or parts of it that are added."""
        parts = [part for part in self.terms if isinstance(part, CellSource)]
        return [self] if self.total_of else [one for part in parts for one in part.sums()]


class TableMapping(Struct, frozen=True):
    """The fields that the rows of one table fill. `key` identifies the bill that a row belongs to."""

    fields: dict[str, CellSource]
    key: CellSource | None = None


class RowRule(Struct, frozen=True):
    """Selects the rows that have one of these values in a column."""

    column: str
    values: frozenset[str]
    optional: bool = False


class StatusRule(Struct, frozen=True):
    """What the values of a column, or of several joined with a hyphen, say about a bill. `values` has lower case."""

    source: CellSource
    values: dict[str, str]


class RejectRule(Struct, frozen=True):
    """Rejects bills that have a number other than 0 in a column, because the export does not show what it means."""

    column: str
    reason: str


class TotalsRule(Struct, frozen=True):
    """Selects the rows of totals: those with one of these values in a column, or in any cell."""

    values: frozenset[str]
    column: str | None = None


class Recognition(Struct, frozen=True):
    """The headings by which a file of a known format is recognised."""

    name: str
    columns: tuple[str, ...]
    without: tuple[str, ...] = ()
    role: str = "bills"
    note: str = ""
    """What such a file does not show."""

    def fits(self, headings: Collection[str]) -> bool:
        return all(name in headings for name in self.columns) and not any(name in headings for name in self.without)


class FileLayout(Struct, frozen=True):
    """How a file is written. What is None is found in the file."""

    encoding: str | None = None
    delimiter: str | None = None
    heading_line: int | None = None
    sheet: str | None = None
    fill_down: tuple[str, ...] = ()
    together: bool = False
    """Whether the rows of a bill follow each other, so that a number that occurs again is that of another bill."""
    columns: tuple[str, ...] = ()
    """All columns that the export had when the mapping was made. If it is not empty, a new column is an error."""
    headings: dict[str, str] = {}
    """The heading that the mapping uses for each heading that a file may have instead, such as in another language."""
    decimal: str = "."
    """The decimal mark with which the numbers of a workbook are written, so that the mapping reads them."""
    decimals: dict[str, str] = {}


class DatabaseMapping(Struct, frozen=True, kw_only=True):
    """The queries that read a POS database, and the watermark column that shows which bills are new or changed."""

    bills: str
    lines: str | None = None
    payments: str | None = None
    watermark: str
    kind: str = "time"
    overlap: timedelta | int = DEFAULT_OVERLAP


class ImportMapping(Struct, frozen=True, kw_only=True):
    """A mapping that has been checked."""

    name: str
    recognition: Recognition | None = None
    file: FileLayout = FileLayout()
    numbers: NumberFormat = NumberFormat()
    dates: DateFormat = DateFormat()
    shops: tuple[dict[str, str], ...] = ()
    shop_ids: dict[str, str] = {}
    bill: TableMapping = field(default_factory=lambda: TableMapping({}))
    line: TableMapping | None = None
    payments: tuple[TableMapping, ...] = ()
    refund: RowRule | None = None
    skip: RowRule | None = None
    statuses: tuple[StatusRule, ...] = ()
    rejects: tuple[RejectRule, ...] = ()
    totals: TotalsRule | None = None
    database: DatabaseMapping | None = None


def read_mapping(path: Path | Traversable) -> dict[str, Any]:
    """Return the content of a mapping file."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise ImportFailed(f"cannot read the mapping {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ImportFailed(f"the mapping {path} is not valid TOML: {error}") from error


def merged(below: Table[str, Any], above: Table[str, Any]) -> dict[str, Any]:
    """Return a mapping in which the entries of `above` replace those of `below`, table by table."""
    result = dict(below)
    for name, value in above.items():
        old = result.get(name)
        is_table = isinstance(value, dict) and isinstance(old, dict) and not _is_cell(value)
        result[name] = merged(old, value) if is_table and isinstance(old, dict) else value
    return result


def parse_mapping(content: dict[str, Any], name: str) -> ImportMapping:
    """Return a checked mapping. If an entry is invalid, raise `ImportFailed` with a message that names the entry."""
    parser = _Parser(name)
    parser.known(content, SECTIONS, "")
    for entry, question in parser.table(content, "undecided").items():
        if not has_entry(content, entry):
            raise ImportFailed(f"{name}: {entry} is not decided. {question} Set {entry}.")
    line = content.get("line")
    mapping = ImportMapping(
        name=name,
        recognition=parser.recognition(content.get("recognise")),
        file=parser.file(parser.table(content, "file"), parser.table(content, "headings")),
        numbers=parser.numbers(parser.table(content, "numbers")),
        dates=parser.dates(parser.table(content, "dates")),
        shops=parser.shops(content.get("shop")),
        shop_ids={str(key): str(value) for key, value in parser.table(content, "shopIds").items()},
        bill=parser.fields(parser.table(content, "bill"), BILL_FIELDS, "bill"),
        line=None if line is None else parser.fields(parser.table(content, "line"), LINE_FIELDS, "line"),
        payments=parser.payments(content.get("payment")),
        refund=parser.rule(content.get("refund"), "refund"),
        skip=parser.rule(content.get("skip"), "skip"),
        statuses=parser.statuses(content.get("status")),
        rejects=parser.rejects(content.get("reject")),
        totals=parser.totals(content.get("totals")),
        database=parser.database(content.get("database")),
    )
    tables = (mapping.bill, *((mapping.line,) if mapping.line else ()), *mapping.payments)
    sources = [source for table in tables for source in table.fields.values()]
    cells = [*sources, *(one.total_of for source in sources for one in source.sums() if one.total_of)]
    decimals = {name: one.numbers.decimal for one in cells if one.numbers for name in one.names()}
    return replace(mapping, file=replace(mapping.file, decimal=mapping.numbers.decimal, decimals=decimals))


def has_entry(content: Table[str, Any], entry: str) -> bool:
    """Return whether a mapping has an entry, which is named with dots, as in `bill.amounts.net`."""
    name, _, rest = entry.partition(".")
    if name not in content:
        return False
    # There may be several tables, such as [[shop]]. All of them must have the entry.
    tables = content[name] if isinstance(content[name], list) else [content[name]]
    return not rest or all(isinstance(table, dict) and has_entry(table, rest) for table in tables)


def _is_cell(value: Table[str, Any]) -> bool:
    return any(key in value for key in SOURCES)


class _Parser:
    """Parses the entries of one mapping file. Error messages name the file and the entry."""

    def __init__(self, name: str) -> None:
        self._name = name

    def fail(self, entry: str, problem: str) -> ImportFailed:
        return ImportFailed(f"{self._name}: {entry} {problem}.")

    def known(self, table: Table[str, Any], names: tuple[str, ...], within: str) -> None:
        for name in table:
            if name not in names:
                close = get_close_matches(name, names, n=1)
                hint = f" Did you mean {close[0]}?" if close else f" Known: {', '.join(names)}."
                where = f"in [{within}] " if within else ""
                raise ImportFailed(f"{self._name}: the entry {name} {where}is not known.{hint}")

    def table(self, content: Table[str, Any], name: str) -> dict[str, Any]:
        value = content.get(name, {})
        if not isinstance(value, dict):
            raise self.fail(name, "must be a table")
        return value

    def choice(self, table: Table[str, Any], name: str, choices: tuple[str, ...], within: str) -> str | None:
        value = table.get(name)
        if value is not None and value not in choices:
            visible = [one for one in choices if one.isprintable()]
            raise self.fail(f"{within}.{name}", f"is {value!r}, but must be one of: {' '.join(visible)}")
        return value

    def names(self, table: Table[str, Any], name: str, within: str) -> tuple[str, ...]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.fail(f"{within}.{name}", "must be a list of columns")
        return tuple(value)

    def flag(self, table: Table[str, Any], name: str, within: str) -> bool:
        value = table.get(name, False)
        if not isinstance(value, bool):
            raise self.fail(f"{within}.{name}", "must be true or false")
        return value

    def file(self, table: Table[str, Any], headings: Table[str, Any]) -> FileLayout:
        self.known(table, ("encoding", "delimiter", "headingLine", "sheet", "fillDown", "together", "columns"), "file")
        heading_line = table.get("headingLine")
        if heading_line is not None and (type(heading_line) is not int or heading_line < 1):
            raise self.fail("file.headingLine", "must be a whole number of at least 1")
        sheet = table.get("sheet")
        if sheet is not None and not isinstance(sheet, str):
            raise self.fail("file.sheet", "must be the name of a sheet")
        return FileLayout(
            self.choice(table, "encoding", ENCODINGS, "file"),
            DELIMITERS.get(self.choice(table, "delimiter", tuple(DELIMITERS), "file") or ""),
            heading_line,
            sheet,
            self.names(table, "fillDown", "file"),
            self.flag(table, "together", "file"),
            self.names(table, "columns", "file"),
            {other: heading for heading in headings for other in self.names(headings, heading, "headings")},
        )

    def recognition(self, value: object) -> Recognition | None:
        if value is None:
            return None
        if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value.get("columns"):
            raise self.fail("recognise", "must have a name and columns")
        self.known(value, ("name", "columns", "without", "role", "note"), "recognise")
        return Recognition(
            value["name"],
            self.names(value, "columns", "recognise"),
            self.names(value, "without", "recognise"),
            self.choice(value, "role", ROLES, "recognise") or "bills",
            str(value.get("note", "")),
        )

    def numbers(self, table: Table[str, Any]) -> NumberFormat:
        self.known(table, ("decimal", "thousands"), "numbers")
        decimal = self.choice(table, "decimal", (".", ","), "numbers") or "."
        default = "," if decimal == "." else "."
        thousands = table.get("thousands", default)
        if thousands not in (",", ".", " ", "'", "") or thousands == decimal:
            raise self.fail("numbers.thousands", "must be empty, a space or one of , . ' but not the decimal mark")
        # Spaces and apostrophes are always accepted as thousands separators, so the format need not name them.
        return NumberFormat(decimal, thousands if thousands in ",." else "")

    def dates(self, table: Table[str, Any]) -> DateFormat:
        self.known(table, ("order", "timezone", "defaultTime", "calendar", "serial"), "dates")
        zone = table.get("timezone")
        if zone is not None and zone_named(zone) is None:
            raise self.fail("dates.timezone", f"is {zone!r}, which is not a time zone such as Asia/Bangkok")
        return DateFormat(
            self.choice(table, "order", (*DATE_ORDERS, AUTO), "dates") or AUTO,
            zone,
            table.get("defaultTime"),
            self.choice(table, "calendar", ("gregorian", "buddhist"), "dates") == "buddhist",
            self.flag(table, "serial", "dates"),
        )

    def shops(self, value: object) -> tuple[dict[str, str], ...]:
        shops = self.tables(value, "shop")
        for shop in shops:
            if not shop.get("id"):
                raise self.fail("shop", "must be a table with an id")
            self.known(shop, SHOP_FIELDS, "shop")
            if "timezone" in shop and zone_named(shop["timezone"]) is None:
                raise self.fail("shop.timezone", f"is {shop['timezone']!r}, which is not a time zone")
        return tuple({str(key): str(one) for key, one in shop.items()} for shop in shops)

    def fields(self, table: Table[str, Any], known: Table[str, str], within: str) -> TableMapping:
        flat = _flat(table)
        self.known(flat, ("key", *known), within)
        cells = {name: self.cell(value, f"{within}.{name}", known.get(name, TEXT)) for name, value in flat.items()}
        return TableMapping({name: cell for name, cell in cells.items() if name != "key"}, cells.get("key"))

    def payments(self, value: object) -> tuple[TableMapping, ...]:
        return tuple(self.fields(one, PAYMENT_FIELDS, "payment") for one in self.tables(value, "payment"))

    def tables(self, value: object, name: str) -> list[dict[str, Any]]:
        """Return the tables of a section that may occur several times."""
        tables: list[Any] = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(one, dict) for one in tables):
            raise self.fail(name, "must be a table")
        return tables

    def statuses(self, value: object) -> tuple[StatusRule, ...]:
        found = []
        for table in self.tables(value, "status"):
            self.known(table, ("column", "columns", "values", "optional"), "status")
            values = table.get("values")
            if ("column" in table) == ("columns" in table) or not isinstance(values, dict) or not values:
                raise self.fail("status", "must have a column, and values such as { Paid = 'sale' }")
            for word in values:
                if self.choice(values, word, STATUSES, "status.values") is None:
                    raise self.fail(f"status.values.{word}", f"must be one of: {' '.join(STATUSES)}")
            meanings = {word.casefold(): meaning for word, meaning in values.items()}
            source = {name: value for name, value in table.items() if name != "values"}
            found.append(StatusRule(self.cell(source, "status", TEXT), meanings))
        return tuple(found)

    def rejects(self, value: object) -> tuple[RejectRule, ...]:
        found = []
        for table in self.tables(value, "reject"):
            self.known(table, ("column", "reason"), "reject")
            if not isinstance(table.get("column"), str) or not isinstance(table.get("reason"), str):
                raise self.fail("reject", "must have a column and a reason")
            found.append(RejectRule(table["column"], table["reason"]))
        return tuple(found)

    def totals(self, value: object) -> TotalsRule | None:
        if value is None:
            return None
        if not isinstance(value, dict) or ("column" in value) == ("cells" in value):
            raise self.fail("totals", "must have values, and either a column or cells = 'any'")
        self.known(value, ("column", "cells", "values"), "totals")
        self.choice(value, "cells", ("any",), "totals")
        words = frozenset(word.casefold() for word in self.names(value, "values", "totals"))
        if not words:
            raise self.fail("totals.values", "must be a list of the values that mark a row of totals")
        return TotalsRule(words, value.get("column"))

    def rule(self, value: object, name: str) -> RowRule | None:
        if value is None:
            return None
        if not isinstance(value, dict) or not isinstance(value.get("column"), str):
            raise self.fail(name, "must have a column and values")
        self.known(value, ("column", "values", "optional"), name)
        values = value.get("values")
        if not isinstance(values, list) or not values:
            raise self.fail(f"{name}.values", "must be a list of the values that select a row")
        return RowRule(value["column"], frozenset(str(one).casefold() for one in values), bool(value.get("optional")))

    def cell(self, value: object, entry: str, kind: str, *, is_summed: bool = False) -> CellSource:
        if isinstance(value, str):
            return CellSource(columns=(value,))
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            value = {"columns": value}
        if not isinstance(value, dict):
            raise self.fail(entry, "must be the name of a column, a list of names, or a table such as {constant = ...}")
        self.check_cell(value, entry, kind, is_summed=is_summed)
        values = self.table(value, "values")
        constant = value.get("constant")
        decimal = self.choice(value, "decimal", (".", ","), entry)
        return CellSource(
            columns=(value["column"],) if "column" in value else self.names(value, "columns", entry),
            any_of=self.names(value, "any", entry),
            constant=None if constant is None else _as_text(constant),
            terms=self.terms(value, "add", entry, is_summed=is_summed),
            factors=self.terms(value, "multiply", entry, is_summed=True),
            total_of=self.cell(value["sum"], f"{entry}.sum", NUMBER, is_summed=True) if "sum" in value else None,
            values={str(key).casefold(): _as_text(one) for key, one in values.items()},
            default=_as_text(value.get("default", "")),
            separator=value.get("separator"),
            split=value.get("split"),
            optional=self.flag(value, "optional", entry),
            negate=self.flag(value, "negate", entry),
            absolute=self.flag(value, "absolute", entry),
            over_rows=self.choice(value, "over", ("rows",), entry) is not None,
            numbers=NumberFormat(decimal, "," if decimal == "." else ".") if decimal else None,
        )

    def check_cell(self, value: Table[str, Any], entry: str, kind: str, *, is_summed: bool) -> None:
        """Refuse entries that do not fit together or do not fit the type of the field."""
        self.known(value, CELL_KEYS, entry)
        sources = [key for key in SOURCES if key in value]
        if len(sources) != 1:
            raise self.fail(entry, f"must have exactly one of {', '.join(SOURCES[:-1])} and {SOURCES[-1]}")
        if kind != NUMBER and (arithmetic := [key for key in (*COMPUTED_SOURCES, *NUMBER_KEYS) if key in value]):
            raise self.fail(entry, f"is not a number, so it cannot have {arithmetic[0]}")
        if kind == NUMBER and len(value.get("columns", ())) > 1:
            raise self.fail(entry, "is a number. To sum columns, use add")
        if sources[0] in COMPUTED_SOURCES and "values" in value:
            raise self.fail(entry, f"cannot have values, because {sources[0]} computes a number")
        if "sum" in value and (is_summed or entry.startswith("line.")):
            raise self.fail(entry, "cannot have sum: only fields of a bill or a payment are sums over the lines")
        for name in ("default", "separator", "split", "column"):
            if isinstance(value.get(name), dict | list):
                raise self.fail(f"{entry}.{name}", "must be a single value")

    def terms(self, table: Table[str, Any], name: str, within: str, *, is_summed: bool) -> tuple[str | CellSource, ...]:
        """Return the parts of a sum or a product: columns, and tables that are computed first."""
        parts = table.get(name, [])
        if not isinstance(parts, list) or not all(isinstance(part, str | dict) for part in parts):
            raise self.fail(f"{within}.{name}", "must be a list of columns")
        return tuple(
            part if isinstance(part, str) else self.cell(part, f"{within}.{name}", NUMBER, is_summed=is_summed)
            for part in parts
        )

    def database(self, value: object) -> DatabaseMapping | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.fail("database", "must be a table")
        self.known(value, ("bills", "lines", "payments", "watermark", "kind", "overlap"), "database")
        for name in ("bills", "watermark"):
            if not isinstance(value.get(name), str):
                raise self.fail(f"database.{name}", "is missing or is not a string")
        kind = self.choice(value, "kind", ("time", "number", "xid"), "database") or "time"
        return DatabaseMapping(
            bills=_query(value["bills"]),
            lines=_query(value["lines"]) if "lines" in value else None,
            payments=_query(value["payments"]) if "payments" in value else None,
            watermark=value["watermark"],
            kind=kind,
            overlap=self.overlap(value.get("overlap"), kind),
        )

    def overlap(self, value: object, kind: str) -> timedelta | int:
        if kind == "xid":
            return 0
        if kind == "number":
            if value is not None and not (isinstance(value, int) and value >= 0):
                raise self.fail(
                    "database.overlap", "must be a whole number of at least 0, because the watermark is a number"
                )
            return DEFAULT_NUMBER_OVERLAP if value is None else int(str(value))
        if value is None:
            return DEFAULT_OVERLAP
        count, _, unit = str(value).partition(" ")
        seconds = DURATIONS.get(unit.removesuffix("s"))
        if not count.isdigit() or seconds is None:
            raise self.fail("database.overlap", f"is {value!r}, but must be a duration such as '2 hours'")
        return timedelta(seconds=int(count) * seconds)


def _flat(table: Table[str, Any]) -> dict[str, Any]:
    """Return the table with dotted names, so that `amounts = { net = ... }` becomes `amounts.net`."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if name in GROUPS and isinstance(value, dict):
            flat |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            flat[name] = value
    return flat


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _query(value: str) -> str:
    return value.strip().rstrip(";")
