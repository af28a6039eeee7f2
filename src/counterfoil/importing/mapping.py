"""The mapping: a TOML file that says which column of an export fills which field, and how values are written."""

import tomllib
from collections.abc import Callable, Collection
from collections.abc import Mapping as Table
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, convert, field
from msgspec.structs import replace

from counterfoil.domain.calendar import zone_named
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.values import DateFormat, NumberFormat

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
SECTIONS = (
    *("recognise", "headings", "file", "numbers", "dates", "shop", "shopIds", "bill", "line", "payment"),
    *("refund", "skip", "status", "reject", "checks", "totals", "database", "undecided"),
)
# A cell has exactly one source. The sources in the second list are computed, so only a field that is a number has them.
COMPUTED_SOURCES = ("add", "multiply", "sum")
SOURCES = ("column", "columns", "any", "constant", *COMPUTED_SOURCES)
_SAME_ENTRIES = ("separator", "split", "optional", "negate", "absolute")
NUMBER_KEYS = ("negate", "absolute", "decimal", "over")
# What a status can mean for a bill. If several columns have a status, the strongest one counts.
SALE, REFUND, VOID, SKIP = "sale", "refund", "void", "skip"
STATUSES = (SALE, REFUND, VOID, SKIP)
DEFAULT_OVERLAP = timedelta(hours=1)
DEFAULT_NUMBER_OVERLAP = 1000
DURATIONS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_ENTRIES = tomllib.loads((resources.files("counterfoil.importing") / "mapping.toml").read_text("utf-8"))
Cell = StrEnum("Cell", ["TEXT", "NUMBER", "TIME", "DAY", "FLAG", "LIST", "OPTIONS"])
"""How the cells of a field are read."""


def _typed(table: str) -> dict[str, str]:
    """Return the type of each field of a table."""
    by_type = _ENTRIES["fields"][table].items()
    return {field: Cell(kind) for kind, fields in by_type for field in fields.split()}


BILL_FIELDS, LINE_FIELDS, PAYMENT_FIELDS = map(_typed, ("bill", "line", "payment"))
GROUPS: Final = frozenset({"amounts", "table", "channel"})


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
    column: str
    values: frozenset[str]
    optional: bool = False


class StatusRule(Struct, frozen=True):
    """What the values of a column, or of several joined with a hyphen, say about a bill. `values` has lower case."""

    source: CellSource
    values: dict[str, str]
    others: str = ""
    """Whether other values are sales, unless their words say otherwise, or only if they are known ways of paying."""


class RejectRule(Struct, frozen=True):
    """Rejects bills that have a number other than 0 in a column, because the export does not show what it means."""

    column: str
    reason: str


class SampleChecks(Struct, frozen=True, rename="camel"):
    """What was true of the sample that the mapping was made from. A bill for which it is not true is rejected."""

    words: tuple[str, ...] = ()
    """The columns whose words may say that a bill is void, refunded or no sale."""
    allowed: frozenset[str] = frozenset()
    """The values with such words that say nothing, in lower case."""
    filled: tuple[str, ...] = ()
    decimals: dict[str, frozenset[int]] = {}
    """How many decimals the numbers of a column had."""
    currencies: frozenset[str] = frozenset()
    """The symbols and codes that these numbers had, in lower case."""
    half_days: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    """The columns whose times all had AM or PM."""
    equal: tuple[tuple[CellSource, CellSource], ...] = ()
    larger: tuple[tuple[str, str], ...] = ()
    """Columns of which the first never had a smaller number than the second."""
    days: tuple[str, ...] = ()
    """The first and the last day."""


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


class FileLayout(Struct, frozen=True, rename="camel"):
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
    lacks: tuple[str, ...] = ()
    """Columns that show voided bills, and that the export does not have."""
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
    checks: SampleChecks = SampleChecks()
    totals: TotalsRule | None = None
    database: DatabaseMapping | None = None


def read_mapping(path: Path | Traversable) -> dict[str, Any]:
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
        recognition=parser.recognition(content),
        file=parser.file(parser.table(content, "file"), parser.table(content, "headings")),
        numbers=parser.numbers(parser.table(content, "numbers")),
        dates=parser.dates(parser.table(content, "dates")),
        shops=tuple(
            {name: str(value) for name, value in parser.checked(shop, "shop").items()}
            for shop in parser.tables(content, "shop")
        ),
        shop_ids={str(key): str(value) for key, value in parser.table(content, "shopIds").items()},
        bill=parser.fields(parser.table(content, "bill"), BILL_FIELDS, "bill"),
        line=None if line is None else parser.fields(parser.table(content, "line"), LINE_FIELDS, "line"),
        payments=tuple(parser.fields(one, PAYMENT_FIELDS, "payment") for one in parser.tables(content, "payment")),
        refund=parser.rule(content, "refund"),
        skip=parser.rule(content, "skip"),
        statuses=tuple(map(parser.status, parser.tables(content, "status"))),
        rejects=tuple(RejectRule(**parser.checked(one, "reject")) for one in parser.tables(content, "reject")),
        checks=parser.checks(parser.table(content, "checks")),
        totals=parser.totals(content),
        database=parser.database(content),
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

    def checked(self, value: object, section: str, entry: str = "") -> dict[str, Any]:
        """Return a section, or a cell, if it has only known entries with the right values, and all that it needs."""
        entry, entries = entry or section, _ENTRIES[section]
        if not isinstance(value, dict):
            raise self.fail(entry, "must be a table")
        required = entries.get("required", ())
        self.known(value, tuple(name for name in entries if name != "required"), entry)
        if any(value.get(name) in (None, "", []) for name in required):
            raise self.fail(entry, f"must have {' and '.join(required)}")
        for name, one in value.items():
            self.check(one, entries[name], f"{entry}.{name}")
        return value

    def check(self, value: object, kind: str | list[str], entry: str) -> None:
        if isinstance(kind, list):
            if value not in kind:
                visible = [one for one in kind if one.isprintable()]
                raise self.fail(entry, f"is {value!r}, but must be one of: {' '.join(visible)}")
        elif kind == "zone":
            if not isinstance(value, str) or zone_named(value) is None:
                raise self.fail(entry, f"is {value!r}, which is not a time zone such as Asia/Bangkok")
        elif kind in _KINDS and not _KINDS[kind][0](value):
            raise self.fail(entry, f"must be {_KINDS[kind][1]}")

    def file(self, table: Table[str, Any], headings: Table[str, Any]) -> FileLayout:
        given = self.checked(table, "file")
        for heading, others in headings.items():
            self.check(others, "names", f"headings.{heading}")
        layout = convert(given, FileLayout)
        names = {other: heading for heading, others in headings.items() for other in others}
        return replace(layout, delimiter=DELIMITERS.get(layout.delimiter or "", layout.delimiter), headings=names)

    def recognition(self, content: Table[str, Any]) -> Recognition | None:
        given = content.get("recognise")
        return None if given is None else convert(self.checked(given, "recognise"), Recognition)

    def numbers(self, table: Table[str, Any]) -> NumberFormat:
        given = self.checked(table, "numbers")
        decimal = given.get("decimal", ".")
        thousands = given.get("thousands", "," if decimal == "." else ".")
        if thousands == decimal:
            raise self.fail("numbers.thousands", "must not be the decimal mark")
        # Spaces and apostrophes are always accepted as thousands separators, so the format need not name them.
        return NumberFormat(decimal, thousands if thousands in ",." else "")

    def dates(self, table: Table[str, Any]) -> DateFormat:
        given = self.checked(table, "dates")
        return replace(convert(given, DateFormat), buddhist=given.get("calendar") == "buddhist")

    def fields(self, table: Table[str, Any], known: Table[str, str], within: str) -> TableMapping:
        flat = _flat(table)
        self.known(flat, ("key", *known), within)
        cells = {name: self.cell(value, f"{within}.{name}", known.get(name, Cell.TEXT)) for name, value in flat.items()}
        return TableMapping({name: cell for name, cell in cells.items() if name != "key"}, cells.get("key"))

    def tables(self, content: Table[str, Any], name: str) -> list[Any]:
        """Return the tables of a section that may occur several times."""
        value = content.get(name, [])
        tables = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in tables):
            raise self.fail(name, "must be a table")
        return tables

    def status(self, table: dict[str, Any]) -> StatusRule:
        given = self.checked(table, "status")
        if ("column" in given) == ("columns" in given) or not given["values"]:
            raise self.fail("status", "must have a column, and values such as { Paid = 'sale' }")
        for word, meaning in given["values"].items():
            self.check(meaning, list(STATUSES), f"status.values.{word}")
        meanings = {word.casefold(): meaning for word, meaning in given["values"].items()}
        source = {name: value for name, value in given.items() if name not in ("values", "others")}
        return StatusRule(self.cell(source, "status", Cell.TEXT), meanings, given.get("others", ""))

    def checks(self, table: Table[str, Any]) -> SampleChecks:
        given = self.checked(table, "checks")
        for name, counts in given.get("decimals", {}).items():
            self.check(counts, "counts", f"checks.decimals.{name}")
        for pair in (*given.get("equal", ()), *given.get("larger", ())):
            self.check(pair, "pair", "checks.equal and checks.larger")
        folded = {name: list(map(str.casefold, given.get(name, ()))) for name in ("allowed", "currencies")}
        cells = [[self.cell(one, "checks.equal", Cell.NUMBER) for one in pair] for pair in given.get("equal", ())]
        pairs = tuple((one, other) for one, other in cells)
        return replace(convert({**given, **folded, "equal": []}, SampleChecks), equal=pairs)

    def totals(self, content: Table[str, Any]) -> TotalsRule | None:
        if "totals" not in content:
            return None
        given = self.checked(content["totals"], "totals")
        if ("column" in given) == ("cells" in given):
            raise self.fail("totals", "must have values, and either a column or cells = 'any'")
        return TotalsRule(frozenset(word.casefold() for word in given["values"]), given.get("column"))

    def rule(self, content: Table[str, Any], name: str) -> RowRule | None:
        if name not in content:
            return None
        given = self.checked(content[name], name)
        words = frozenset(str(one).casefold() for one in given["values"])
        return RowRule(given["column"], words, given.get("optional", False))

    def cell(self, value: object, entry: str, kind: str, *, is_summed: bool = False) -> CellSource:
        if isinstance(value, str):
            return CellSource(columns=(value,))
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            value = {"columns": value}
        if not isinstance(value, dict):
            raise self.fail(entry, "must be the name of a column, a list of names, or a table such as {constant = ...}")
        given = self.checked(value, "cell", entry)
        self.check_cell(given, entry, kind, is_summed=is_summed)
        decimal = given.get("decimal")
        return CellSource(
            columns=(given["column"],) if "column" in given else tuple(given.get("columns", ())),
            any_of=tuple(given.get("any", ())),
            constant=_as_text(given["constant"]) if "constant" in given else None,
            terms=self.terms(given, "add", entry, is_summed=is_summed),
            factors=self.terms(given, "multiply", entry, is_summed=True),
            total_of=self.cell(given["sum"], f"{entry}.sum", Cell.NUMBER, is_summed=True) if "sum" in given else None,
            values={str(key).casefold(): _as_text(one) for key, one in given.get("values", {}).items()},
            default=_as_text(given.get("default", "")),
            **{name: given[name] for name in _SAME_ENTRIES if name in given},
            over_rows="over" in given,
            numbers=NumberFormat(decimal, "," if decimal == "." else ".") if decimal else None,
        )

    def check_cell(self, value: Table[str, Any], entry: str, kind: str, *, is_summed: bool) -> None:
        """Refuse entries that do not fit together or do not fit the type of the field."""
        sources = [key for key in SOURCES if key in value]
        if len(sources) != 1:
            raise self.fail(entry, f"must have exactly one of {', '.join(SOURCES[:-1])} and {SOURCES[-1]}")
        if kind != Cell.NUMBER and (arithmetic := [key for key in (*COMPUTED_SOURCES, *NUMBER_KEYS) if key in value]):
            raise self.fail(entry, f"is not a number, so it cannot have {arithmetic[0]}")
        if kind == Cell.NUMBER and len(value.get("columns", ())) > 1:
            raise self.fail(entry, "is a number. To sum columns, use add")
        if sources[0] in COMPUTED_SOURCES and "values" in value:
            raise self.fail(entry, f"cannot have values, because {sources[0]} computes a number")
        if "sum" in value and (is_summed or entry.startswith("line.")):
            raise self.fail(entry, "cannot have sum: only fields of a bill or a payment are sums over the lines")

    def terms(self, table: Table[str, Any], name: str, within: str, *, is_summed: bool) -> tuple[str | CellSource, ...]:
        """Return the parts of a sum or a product: columns, and tables that are computed first."""
        return tuple(
            part if isinstance(part, str) else self.cell(part, f"{within}.{name}", Cell.NUMBER, is_summed=is_summed)
            for part in table.get(name, ())
        )

    def database(self, content: Table[str, Any]) -> DatabaseMapping | None:
        if "database" not in content:
            return None
        given = self.checked(content["database"], "database")
        queries = {name: given[name].strip().rstrip(";") for name in ("bills", "lines", "payments") if name in given}
        kind = given.get("kind", "time")
        overlap = self.overlap(given.get("overlap"), kind)
        return DatabaseMapping(**queries, watermark=given["watermark"], kind=kind, overlap=overlap)

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


def _is_list_of(value: object, *kinds: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, kinds) for one in value)


# What a value must be, by the name of its kind in mapping.toml. Cells are checked when they are parsed.
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "text": (lambda value: isinstance(value, str), "a text"),
    "names": (lambda value: _is_list_of(value, str), "a list of columns"),
    "terms": (lambda value: _is_list_of(value, str, dict), "a list of columns"),
    "list": (lambda value: isinstance(value, list), "a list of values"),
    "counts": (lambda value: _is_list_of(value, int), "a list of whole numbers"),
    "pair": (lambda value: _is_list_of(value, str, dict) and len(value) == 2, "pairs of amounts"),
    "table": (lambda value: isinstance(value, dict), "a table"),
    "flag": (lambda value: isinstance(value, bool), "true or false"),
    "value": (lambda value: not isinstance(value, dict | list), "a single value"),
    "line number": (lambda value: type(value) is int and value >= 1, "a whole number of at least 1"),
}


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
