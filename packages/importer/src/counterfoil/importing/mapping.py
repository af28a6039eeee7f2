"""The mapping: a TOML file that says which column of an export fills which field, and how values are written."""

import re
import tomllib
from collections.abc import Collection
from collections.abc import Mapping as Table
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta, Struct, ValidationError, convert, field, to_builtins
from msgspec.structs import asdict, fields, force_setattr

from counterfoil.importing.mapped_fields import BILL_FIELDS, LINE_FIELDS, MEMBER_FIELDS, PAYMENT_FIELDS, Cell
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sentences import sentence
from counterfoil.importing.values import DateFormat, NumberFormat, check_zone

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
ENCODINGS = (
    *("utf-8", "utf-8-sig", "utf-16", "cp874", "tis-620", "cp932", "shift_jis", "gb18030", "big5", "cp949"),
    *(f"{name}{number}" for name in ("windows-", "cp") for number in range(1250, 1257)),
)
SECTIONS = (
    *("recognise", "headings", "file", "numbers", "dates", "shop", "shopIds", "bill", "line", "payment"),
    *("refund", "skip", "status", "reject", "checks", "totals", "database", "undecided", "answers", "accepted"),
    *("base", "member"),
)
SECTIONS_OF_BILLS = (
    *("shop", "shopIds", "bill", "line", "payment", "refund", "skip", "status", "reject", "checks", "totals"),
    "database",
)
# A cell has exactly one source.
COMPUTED = ("add", "multiply")
SOURCES = ("column", "columns", "any", "constant", *COMPUTED, "sum")
ROWS, PAYMENTS = "rows", "payments"
# What a status can mean for a bill. If several columns have a status, the strongest one counts.
SALE, REFUND, VOID, SKIP = "sale", "refund", "void", "skip"
STATUSES = (SALE, REFUND, VOID, SKIP)
DURATIONS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
NEVER_STORED = frozenset({"name", "nickname", "birthday", "gender", "address", "note", "notes", "photo"})
"""What nobody may map, because the API never returns it and no store keeps it."""
GROUPS: Final = frozenset({"amounts", "table", "channel"})
_UNKNOWN = re.compile("unknown field `(.*)`")
_BAR = re.compile(r"\|(?![^\[]*\])")
_CHOICES = re.compile(r"Expected `str` matching regex '\^(.*)\$'")

Name = Annotated[str, Meta(min_length=1)]
T = TypeVar("T")


class MappingSection(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A table of the mapping file."""


class CellSource(MappingSection, frozen=True, kw_only=True):
    """Where the value of a field comes from: columns of a row, a constant, or arithmetic over columns and lines."""

    columns: tuple[str, ...] = ()
    any_of: tuple[str, ...] = field(name="any", default=())
    constant: str | None = None
    terms: "tuple[str | CellSource, ...]" = field(name="add", default=())
    """Columns that are added; one that begins with `-` is subtracted, unless a column has that very name."""
    factors: "tuple[str | CellSource, ...]" = field(name="multiply", default=())
    total_of: "CellSource | None" = field(name="sum", default=None)
    """What is summed over the lines of a bill."""
    over: Annotated[str, Meta(pattern="^(rows|payments)$")] | None = None
    """Whether the sum is over the rows of the bills file or of the payments file, and not over the lines."""
    values: dict[str, str] = {}
    others: str | None = None
    """What stands for a value that is not listed. If it is None, the value stays as it is."""
    default: str = ""
    separator: str | None = None
    split: str | None = None
    prefix: bool = False
    """Whether only the letters before the number are read, such as `CN` of `CN1001`."""
    sign: bool = False
    """Whether only the sign of a number is read: `-` of one below 0, otherwise `+`."""
    optional: bool = False
    latest: bool = False
    """Whether the rows of a bill, such as its payments, may have different times, of which the latest one counts."""
    negate: bool = False
    absolute: bool = False
    decimal: Annotated[str, Meta(pattern="^[.,]$")] | None = None
    round: Annotated[int, Meta(ge=0, le=4)] | None = None
    """To how many decimals a number is rounded, half a cent up, as what is paid has whole cents."""

    def __post_init__(self) -> None:
        force_setattr(self, "values", {word.casefold(): value for word, value in self.values.items()})
        computed = (self.terms, self.factors, self.total_of)
        sources = (self.columns, self.any_of, self.constant, *computed)
        given = [source for source in sources if source not in ((), None)]
        if len(given) != 1:
            raise ValueError(f"Expected exactly one of {', '.join(SOURCES)}")
        if any(computed) and self.values:
            raise ValueError("What is computed cannot have values")
        parts = [part for part in (*self.terms, *self.factors, self.total_of) if isinstance(part, CellSource)]
        for part in parts:
            problem = part.problem(Cell.NUMBER)
            if problem:
                raise ValueError(problem)
        if not self.terms and any(part.sums() for part in parts):
            raise ValueError("A sum over the lines cannot be multiplied, or be within another one")

    def problem(self, kind: str) -> str | None:
        """Return why this is no source of values of this type, or None."""
        if self.latest and kind != Cell.TIME:
            return "This is no time, so none is the latest"
        if kind == Cell.NUMBER:
            if self.prefix:
                return "This is a number, so it has no letters before it"
            if self.sign:
                return "This is a number, so its sign is read with it"
            return "This is a number. To sum columns, use add" if len(self.columns) > 1 else None
        is_computed = self.terms or self.factors or self.total_of
        if is_computed or self.negate or self.absolute or self.decimal or self.over or self.round is not None:
            return "This is not a number, so it cannot be computed or have a sign or a decimal mark"
        return None

    @property
    def numbers(self) -> NumberFormat | None:
        return NumberFormat(self.decimal) if self.decimal else None

    def names(self) -> tuple[str, ...]:
        """Return the columns of the row itself, without those that are summed over the lines."""
        names = [*self.columns, *self.any_of]
        for part in (*self.terms, *self.factors):
            names += [part] if isinstance(part, str) else part.names()
        return tuple(names)

    def sums(self) -> "list[CellSource]":
        """Return the sums over the lines: the source itself, or parts of it that are added."""
        if self.total_of:
            return [self]
        found = []
        for part in self.terms:
            if isinstance(part, CellSource):
                found += part.sums()
        return found

    def sums_own_rows(self) -> bool:
        """Return whether it sums rows of the bill, and not only payments of a file of their own."""
        return any(total.over != PAYMENTS for total in self.sums())


class TableMapping(Struct, frozen=True):
    """The fields that the rows of one table fill. `key` identifies the bill that a row belongs to."""

    fields: dict[str, CellSource]
    key: CellSource | None = None


def _folded(words: Collection[str]) -> frozenset[str]:
    return frozenset(map(str.casefold, words))


class Words(MappingSection, frozen=True):
    """Words that are compared without regard to case."""

    values: Annotated[frozenset[str], Meta(min_length=1)]

    def __post_init__(self) -> None:
        force_setattr(self, "values", _folded(self.values))


class RowRule(Words, frozen=True):
    column: Name
    optional: bool = False


class StatusRule(MappingSection, frozen=True):
    """What the values of a column, or of several joined with a hyphen, say about a bill. `values` has lower case."""

    source: CellSource
    values: Annotated[dict[str, str], Meta(min_length=1)]
    others: Annotated[str, Meta(pattern="^(sale|payment|void|refund|skip)$")] | None = None
    """What other values mean. Those with words that say otherwise are no sales; a payment must be a known one."""

    def __post_init__(self) -> None:
        for word, meaning in self.values.items():
            if meaning not in STATUSES:
                raise ValueError(f"{word} is {meaning!r}, but must be one of: {' '.join(STATUSES)}")
        force_setattr(self, "values", {word.casefold(): meaning for word, meaning in self.values.items()})


class RejectRule(MappingSection, frozen=True):
    """Rejects bills that have a number other than 0 in a column, because the export does not show what it means."""

    column: Name
    reason: Name


class SampleChecks(MappingSection, frozen=True):
    """What was true of the sample that the mapping was made from. A bill for which it is not true is rejected."""

    words: tuple[str, ...] = ()
    """The columns whose words may say that a bill is void, refunded or no sale."""
    allowed: frozenset[str] = frozenset()
    """The values with such words that say nothing, and the words among codes, in lower case."""
    codes: tuple[str, ...] = ()
    """The columns of short codes, such as those of tables, in which another word may say that a bill is no sale."""
    filled: tuple[str, ...] = ()
    decimals: dict[str, frozenset[int]] = {}
    """How many decimals the numbers of a column had."""
    currencies: frozenset[str] = frozenset()
    """The symbols and codes that these numbers had, in lower case."""
    half_days: tuple[str, ...] = ()
    """The columns whose times all had AM or PM."""
    whole: tuple[str, ...] = ()
    known: dict[str, tuple[str, ...]] = {}
    """The values of columns that were the same on all rows, so that another one may change what a bill means."""
    letters: dict[str, tuple[str, ...]] = {}
    """What the numbers of bills had beside their digits, such as `INV`. Others may be credit notes or voids."""
    equal: tuple[Annotated[tuple[CellSource, ...], Meta(min_length=2, max_length=3)], ...] = ()
    """Values that were equal or, of three, of which the first was between the others."""
    larger: tuple[tuple[str, str], ...] = ()
    """Columns of which the first never had a smaller number than the second."""
    usual: dict[str, Decimal] = {}
    """The median of the amounts that a customer paid, by their column."""
    hours: Annotated[tuple[Annotated[int, Meta(ge=0, le=23)], ...], Meta(max_length=2)] = ()
    """The first and the last hour at which bills were closed, on the clock of the export."""
    width: dict[str, int] = {}
    """How many digits all numbers of a column had, because zeros were before some, or 0 if no zeros were."""
    returned: tuple[str, ...] = ()
    """Columns of quantities that are negative on no bill with a positive total, as nothing shows what that means."""
    days: tuple[str, ...] = ()
    """The first and the last day."""
    totals: bool = False
    """Whether the table ended in a row of totals."""

    def __post_init__(self) -> None:
        force_setattr(self, "allowed", _folded(self.allowed))
        force_setattr(self, "currencies", _folded(self.currencies))


class TotalsRule(Words, frozen=True):
    """Selects the rows of totals: those with one of these values in a column, or in any cell."""

    column: str | None = None
    cells: Annotated[str, Meta(pattern="^any$")] | None = None

    def __post_init__(self) -> None:
        Words.__post_init__(self)
        if (self.column is None) == (self.cells is None):
            raise ValueError("Expected either a column or cells = 'any'")


class Recognition(MappingSection, frozen=True):
    """The headings by which a file of a known format is recognised."""

    name: Name
    columns: Annotated[tuple[str, ...], Meta(min_length=1)]
    without: tuple[str, ...] = ()
    role: Annotated[str, Meta(pattern="^(bills|lines|members)$")] = "bills"
    note: str = ""
    """What such a file does not show."""
    alone: bool = False
    """Whether it has the sales of the format's other files under other IDs, so that together they would count twice."""
    lines: tuple[str, ...] = ()
    """The headings of the file with the lines, if the bills of such an export have their lines in a file of its own."""
    payments: tuple[str, ...] = ()
    """The same for payments."""

    @property
    def is_of_set(self) -> bool:
        """Whether a file is only recognised together with the other files of its export."""
        return bool(self.lines or self.payments)

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """The headings of each file of the set, by what it has: `bills`, `lines` or `payments`."""
        headings = {"bills": self.columns, "lines": self.lines, "payments": self.payments}
        return {kind: names for kind, names in headings.items() if names}

    @property
    def number_of_headings(self) -> int:
        return len(self.columns) + len(self.lines) + len(self.payments)

    def kinds_of(self, headings: Collection[str]) -> list[str]:
        """Return which files of the set have these headings."""
        return [kind for kind, names in self.kinds.items() if set(names) <= set(headings)]

    def fits(self, headings: Collection[str]) -> bool:
        return all(name in headings for name in self.columns) and not any(name in headings for name in self.without)


class FileSection(MappingSection, frozen=True):
    """How a file is written, as the mapping says. What is None is found in the file."""

    encoding: Annotated[str, Meta(pattern=f"^({'|'.join(ENCODINGS)})$")] | None = None
    delimiter: Annotated[str, Meta(pattern="^(comma|semicolon|tab|pipe|[,;\t|])$")] | None = None
    heading_line: Annotated[int, Meta(ge=1)] | None = None
    sheet: str | None = None
    fill_down: tuple[str, ...] = ()
    together: bool = False
    """Whether the rows of a bill follow each other, so that a number that occurs again is that of another bill."""
    columns: tuple[str, ...] = ()
    """All columns that the export had when the mapping was made. If it is not empty, a new column is an error."""
    sums: Annotated[str, Meta(pattern="^(bills|totals)$")] | None = None
    """What a row with a number of its own is that has the sums of other bills. None refuses it."""
    repeated: Annotated[str, Meta(pattern="^(once|all|last)$")] | None = None
    """What rows of a bill with the same cells are: printed again, or parts that all count. None rejects the bill.

    If it is `last`, the bill was changed, and only its last row counts, whatever cells it has.
    """
    lacks: tuple[str, ...] = ()
    """Columns that show voided bills, and that the export does not have."""


class FileLayout(FileSection, frozen=True):
    """How a file is written, with what follows from other sections."""

    headings: dict[str, str] = {}
    """The heading that the mapping uses for each heading that a file may have instead, such as in another language."""
    decimal: str = "."
    """The decimal mark with which the numbers of a workbook are written, so that the mapping reads them."""
    decimals: dict[str, str] = {}


class MappedShop(MappingSection, frozen=True):
    id: Name
    name: str | None = None
    franchise_id: str | None = None
    provider_id: str | None = None
    timezone: str | None = None
    closing_time: str | None = None

    def __post_init__(self) -> None:
        check_zone(self.timezone)


class MappedTier(MappingSection, frozen=True):
    code: Name
    name: Name | None = None


class MappedBase(MappingSection, frozen=True):
    """The membership base of the members of a table, as far as the mapping says."""

    id: Name | None = None
    credit_enabled: bool = False
    tiers: tuple[MappedTier, ...] = ()
    """The lowest tier first."""


class KnownBase(Struct, frozen=True, rename="camel", kw_only=True):
    """A membership base that the store knows. Nothing of it is written over."""

    id: str
    tiers: tuple[str, ...] = ()
    """The codes of its tiers."""
    credit_enabled: bool = False


class DatabaseMapping(MappingSection, frozen=True, kw_only=True):
    """The queries that read a POS database, and the watermark column that shows which bills are new or changed."""

    bills: Name
    lines: str | None = None
    payments: str | None = None
    watermark: Name
    kind: Annotated[str, Meta(pattern="^(time|number|xid)$")] = "time"
    overlap: str | None = None

    def __post_init__(self) -> None:
        for name in ("bills", "lines", "payments"):
            query = getattr(self, name)
            if query:
                force_setattr(self, name, query.strip().rstrip(";"))
        self.span()

    def span(self) -> timedelta | int:
        """Return by how much an import begins before the last watermark."""
        if self.kind == "xid":
            return 0
        count, _, unit = (self.overlap or ("1 hour" if self.kind == "time" else "1000")).partition(" ")
        if self.kind == "number" and count.isdigit() and not unit:
            return int(count)
        if self.kind == "time" and count.isdigit() and unit.removesuffix("s") in DURATIONS:
            return timedelta(seconds=int(count) * DURATIONS[unit.removesuffix("s")])
        wanted = (
            "a duration such as '2 hours'" if self.kind == "time" else "a whole number, because the watermark is one"
        )
        raise ValueError(f"overlap is {self.overlap!r}, but must be {wanted}")


class Accepted(MappingSection, frozen=True):
    """What a person accepted when the mapping was made."""

    bills: int = 0
    net: str = ""
    first_day: str = ""
    last_day: str = ""


class ImportMapping(Struct, frozen=True, kw_only=True):
    name: str
    answers: dict[str, str] = {}
    """The answers from which the mapping was made. Its entries say what they lead to."""
    accepted: Accepted = Accepted()
    recognition: Recognition | None = None
    file: FileLayout = FileLayout()
    numbers: NumberFormat = NumberFormat()
    finds_numbers: bool = False
    """Whether the amounts show how numbers are written, because this is a known table of any country."""
    dates: DateFormat = DateFormat()
    shops: tuple[dict[str, str], ...] = ()
    shop_ids: dict[str, str] = {}
    bill: TableMapping = field(default_factory=lambda: TableMapping({}))
    line: TableMapping | None = None
    payments: tuple[TableMapping, ...] = ()
    refund: RowRule | None = None
    skips: tuple[RowRule, ...] = ()
    statuses: tuple[StatusRule, ...] = ()
    rejects: tuple[RejectRule, ...] = ()
    checks: SampleChecks = SampleChecks()
    totals: TotalsRule | None = None
    database: DatabaseMapping | None = None
    base: MappedBase = MappedBase()
    member: TableMapping | None = None
    """How the columns of a table of members are read. A mapping is either for members or for bills."""


def read_mapping(path: Path | Traversable) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise ImportFailed(
            sentence("cannot read the mapping {path}: {strerror}", path=path, strerror=error.strerror)
        ) from error
    except (ValueError, RecursionError) as error:
        raise ImportFailed(sentence("the mapping {path} is not valid TOML: {error}", path=path, error=error)) from error


def merged(below: Table[str, Any], above: Table[str, Any]) -> dict[str, Any]:
    """Return a mapping in which the entries of `above` replace those of `below`, and add to the words of a status."""
    result = dict(below)
    for name, value in above.items():
        old = result.get(name)
        if name == "status" and old:
            result[name] = _merged_statuses(_tables(below, name), _tables(above, name))
            continue
        is_cell = isinstance(value, dict) and any(key in value for key in SOURCES)
        if isinstance(old, dict) and isinstance(value, dict) and not is_cell:
            result[name] = merged(old, value)
        else:
            result[name] = value
    return result


def _merged_statuses(below: list[dict[str, Any]], above: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the statuses of all columns. What a word means in a column is added to what is known of that column."""
    result = {str(long.get("columns")): long for long in map(_long, below)}
    for status in map(_long, above):
        columns = str(status.get("columns"))
        known = result.get(columns, {})
        result[columns] = {**known, **status, "values": {**known.get("values", {}), **dict(status.get("values", {}))}}
    return list(result.values())


def parse_mapping(content: dict[str, Any], name: str) -> ImportMapping:
    """Return a checked mapping. If an entry is invalid, raise `ImportFailed` with a message that names the entry."""
    try:
        return _parsed(_texts(content), name)
    except ValueError as error:
        raise ImportFailed(sentence("{name}: {error}.", name=name, error=error)) from error


def _parsed(content: dict[str, Any], name: str) -> ImportMapping:
    def section(entry: str, kind: type[T]) -> T:
        return _converted(content.get(entry, {}), kind, entry)

    def given(entry: str, kind: type[T]) -> T | None:
        return section(entry, kind) if entry in content else None

    _require_known(content, SECTIONS, "the mapping")
    _require_one_subject(content)
    for entry, question in section("undecided", dict[str, str]).items():
        if not has_entry(content, entry):
            how = f"Set {entry} and remove it from [undecided], or make a mapping again with `counterfoil import FILE`"
            raise ValueError(f"{entry} is not decided. {question} {how}")
    numbers = section("numbers", NumberFormat)
    headings: dict[str, str] = {}
    for heading, others in section("headings", dict[str, tuple[str, ...]]).items():
        headings.update(dict.fromkeys(others, heading))
    bill = _fields(section("bill", dict[str, Any]), BILL_FIELDS, "bill")
    line = _fields(section("line", dict[str, Any]), LINE_FIELDS, "line") if "line" in content else None
    payments = tuple(_fields(table, PAYMENT_FIELDS, "payment") for table in _tables(content, "payment"))
    member = _member_fields(section("member", dict[str, Any])) if "member" in content else None
    decimals = _decimals_of_columns([table for table in (bill, line, *payments, member) if table])
    file, checks = section("file", FileSection), section("checks", dict[str, Any])
    pairs = _converted(checks.get("equal", []), list[list[Any]], "checks.equal")
    return ImportMapping(
        name=name,
        answers=section("answers", dict[str, str]),
        accepted=section("accepted", Accepted),
        recognition=given("recognise", Recognition),
        file=FileLayout(
            **asdict(file) | {"delimiter": DELIMITERS.get(file.delimiter or "", file.delimiter)},
            headings=headings,
            decimal=numbers.decimal,
            decimals=decimals,
        ),
        numbers=numbers,
        finds_numbers="recognise" in content and "numbers" not in content,
        dates=section("dates", DateFormat),
        shops=tuple(to_builtins(_converted(table, MappedShop, "shop")) for table in _tables(content, "shop")),
        shop_ids=section("shopIds", dict[str, str]),
        bill=bill,
        line=line,
        payments=payments,
        refund=given("refund", RowRule),
        skips=tuple(_converted(table, RowRule, "skip") for table in _tables(content, "skip")),
        statuses=tuple(_converted(_long_status(table), StatusRule, "status") for table in _tables(content, "status")),
        rejects=tuple(_converted(table, RejectRule, "reject") for table in _tables(content, "reject")),
        checks=_converted({**checks, "equal": [list(map(_long, pair)) for pair in pairs]}, SampleChecks, "checks"),
        totals=given("totals", TotalsRule),
        database=given("database", DatabaseMapping),
        base=section("base", MappedBase),
        member=member,
    )


def _decimals_of_columns(tables: Collection[TableMapping]) -> dict[str, str]:
    """Return the decimal mark of each column that has one of its own."""
    sources: list[CellSource] = []
    for table in tables:
        sources += table.fields.values()
    summed: list[CellSource] = []
    for source in sources:
        summed += [total.total_of for total in source.sums() if total.total_of]
    decimals: dict[str, str] = {}
    for cell in (*sources, *summed):
        if cell.decimal:
            decimals.update(dict.fromkeys(cell.names(), cell.decimal))
    return decimals


def _require_one_subject(content: Table[str, Any]) -> None:
    """Raise `ValueError` if a mapping is for members and for bills. Each of them is a table of its own."""
    of_members = [name for name in ("member", "base") if name in content]
    of_bills = [name for name in SECTIONS_OF_BILLS if name in content]
    if of_members and of_bills:
        raise ValueError(
            f"[{of_members[0]}] is for a table of members, and [{of_bills[0]}] for bills. Write a mapping for each"
        )
    for name in ("fillDown", "together", "repeated", "lacks", "sums"):
        if of_members and name in content.get("file", {}):
            raise ValueError(f"file.{name} is for bills, not for members")


def _member_fields(table: Table[str, Any]) -> TableMapping:
    for name in table:
        if name in NEVER_STORED:
            raise ValueError(
                f"member.{name} cannot be imported: names, birthdays, addresses and notes are never stored"
            )
    found = _fields(table, MEMBER_FIELDS, "member")
    if found.key:
        raise ValueError("[member] has one row for each member, so it has no key")
    for name, source in found.fields.items():
        is_computed = source.terms or source.factors or source.total_of or source.over
        if is_computed or source.negate or source.absolute or source.round is not None:
            raise ValueError(f"member.{name}: Only a column, a constant or the first filled column can be read")
    return found


def _tables(content: Table[str, Any], entry: str) -> list[dict[str, Any]]:
    """Return the tables of a section that may occur several times."""
    value = content.get(entry, [])
    return _converted(value if isinstance(value, list) else [value], list[dict[str, Any]], entry)


def _converted(value: object, kind: type[T], entry: str) -> T:
    try:
        # All values are texts, which are converted to numbers and flags if these are expected.
        return convert(value, kind, strict=False)
    except ValidationError as error:
        problem, _, place = _CHOICES.sub(_named_choices, str(error)).partition(" - at `$")
        hint = ""
        unknown = _UNKNOWN.search(problem)
        if unknown:
            # Only sections, and the cells within them, have unknown entries.
            sections: Any = (kind, CellSource)
            known = [*fields(sections[0]), *fields(sections[1])]
            hint = _hint(unknown[1], [entry.encode_name for entry in known])
        raise ValueError(f"{entry}{place.rstrip('`')}: {problem}{hint}") from None


def _named_choices(found: re.Match[str]) -> str:
    words = _BAR.split(found[1].strip("()"))
    if len(words) == 1:
        # It is a set of characters, such as [.,].
        words = list(words[0].strip("[]"))
    return f"Use {' or '.join(words)}"


def _require_known(table: Table[str, Any], names: Collection[str], where: str) -> None:
    for name in table:
        if name not in names:
            raise ValueError(f"the entry {name} in {where} is not known{_hint(name, names)}")


def _hint(name: str, names: Collection[str]) -> str:
    close = get_close_matches(name, names, n=1)
    return f" (did you mean {close[0]}?)" if close else f". Known: {', '.join(names)}"


def has_entry(content: Table[str, Any], entry: str) -> bool:
    """Return whether a mapping has an entry, which is named with dots, as in `bill.amounts.net`."""
    name, _, rest = entry.partition(".")
    if name not in content:
        return False
    # There may be several tables, such as [[shop]]. All of them must have the entry.
    tables = content[name] if isinstance(content[name], list) else [content[name]]
    if name == "status" and rest:
        return any(rest in (table.get("column"), *table.get("columns", ())) for table in tables)
    return not rest or all(isinstance(table, dict) and has_entry(table, rest) for table in tables)


def _texts(value: Any) -> Any:
    """Return a value of a mapping in which numbers, flags, dates and times are texts, except in what is computed."""
    if isinstance(value, dict):
        texts = {}
        for name, inner in value.items():
            is_computed = name in COMPUTED and isinstance(inner, list)
            texts[name] = inner if is_computed else _texts(inner)
        return texts
    if isinstance(value, list):
        return list(map(_texts, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fields(table: Table[str, Any], known: Table[str, str], within: str) -> TableMapping:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if name in GROUPS and isinstance(value, dict):
            for inner, cell in value.items():
                flat[f"{name}.{inner}"] = cell
        else:
            flat[name] = value
    _require_known(flat, ("key", *known), f"[{within}]")
    cells = {name: _converted(_long(value), CellSource, f"{within}.{name}") for name, value in flat.items()}
    for name, cell in cells.items():
        problem = cell.problem(known.get(name, Cell.TEXT))
        if problem:
            raise ValueError(f"{within}.{name}: {problem}")
        if within == "line" and cell.sums():
            raise ValueError(f"line.{name}: Only a bill or a payment can have a sum over the lines")
    key = cells.pop("key", None)
    return TableMapping(cells, key)


def _long_status(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status with the entries of its source in a table of their own."""
    rule = {name: value for name, value in status.items() if name in ("values", "others")}
    source = {name: value for name, value in status.items() if name not in rule}
    return {**rule, "source": _long(source)}


def _long(cell: Any) -> Any:
    """Return a cell as a table: the name of a column, or a list of names, is short for `columns`."""
    if not isinstance(cell, dict):
        return {"columns": [cell] if isinstance(cell, str) else cell}
    long = dict(cell)
    if "column" in long and "columns" not in long:
        long["columns"] = [long.pop("column")]
    if "sum" in long:
        long["sum"] = _long(long["sum"])
    for name in COMPUTED:
        parts = long.get(name)
        if isinstance(parts, list):
            long[name] = [_long(_texts(part)) if isinstance(part, dict) else part for part in parts]
    return long
