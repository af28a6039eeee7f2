"""The formats that can be imported, by name, and how a file of one of them is recognised.

The orders of an API are recognised by their fields, and a table by its headings: each file in `mappings/`, and in the
operator's own folder of such files, says which headings it is for.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importing import mapping as mappings
from counterfoil.importing.apis import APIS
from counterfoil.importing.mapping import ImportMapping, merged, parse_mapping
from counterfoil.importing.members import member_records
from counterfoil.importing.orders import JsonOrder, OrderImport, apis_of, json_text, list_names, read_orders
from counterfoil.importing.preview import preview
from counterfoil.importing.results import Imported, ImportFailed, NotRecognised, Preview
from counterfoil.importing.sentences import joined, sentence
from counterfoil.importing.sheets import OnRead, ignore_reads, open_table
from counterfoil.importing.tables import ImportOptions, table_records

RECOGNISE = "recognise"
CSV, DATABASE, NO_FORMAT = "csv", "database", "none"
MEMBERS = "members"
FORMATS = (
    CSV,
    "loyverse",
    "square",
    "foodics",
    "toast",
    "clover",
    "foodstory",
    "grabfood",
    "shopify",
    "odoo",
    DATABASE,
)
# The number of objects in a JSON file that are looked at. If none of them is an order, the file is not recognised.
OBJECTS_TRIED = 20
ONLY_CSV = "--lines and --payments are for --format csv. Name all files of a known format without options."
# The sections of a mapping that orders of an API use. Their fields have a meaning that no mapping changes.
SECTIONS_OF_ORDERS = ("shop", "shopIds", "numbers", "dates")
# If headings are known in one of these encodings, the file has it: UTF-8, those of old Thai tills, that of Excel.
ENCODINGS_TRIED = (None, "cp874", "windows-1252")


class KnownTable(Struct, frozen=True):
    """A table that is recognised by its headings, and the mapping for it."""

    format_name: str
    text: str
    content: dict[str, Any]
    recognition: mappings.Recognition
    headings: dict[str, str]
    is_own: bool
    """Whether the mapping is one of the operator's folder."""

    @property
    def has_id(self) -> bool:
        """Whether the mapping stands for itself. One without an ID only changes the table that it names."""
        return _has_id(self.content)

    def changed(self, tables: Sequence["KnownTable"]) -> Self:
        """Return the table with what mappings without an ID change in it, such as the order of its dates."""
        content = self.content
        for table in tables:
            names_this = set(table.recognition.columns) == set(self.recognition.columns)
            if not table.has_id and names_this and table.recognition.name == self.recognition.name:
                content = merged(content, {name: value for name, value in table.content.items() if name != RECOGNISE})
        return replace(self, content=content)

    @classmethod
    def read(cls, format_name: str, path: Path | Traversable, *, is_own: bool) -> Self:
        content, name = mappings.read_mapping(path), path.name
        mapping = parse_mapping(content, name)
        if mapping.recognition is None:
            raise ImportFailed(
                sentence("{name} has no section [recognise], so no file is recognised by it.", name=name)
            )
        recognition = replace(mapping.recognition, role=MEMBERS) if mapping.member else mapping.recognition
        return cls(format_name, path.read_text("utf-8-sig"), content, recognition, mapping.file.headings, is_own)

    def fits(self, headings: Collection[str]) -> bool:
        return not self.recognition.is_of_set and self.recognition.fits(self._names(headings))

    def kinds_of(self, headings: Collection[str]) -> list[str]:
        """Return which files of its set have these headings, or nothing if the mapping is for single files."""
        return self.recognition.kinds_of(self._names(headings)) if self.recognition.is_of_set else []

    def _names(self, headings: Collection[str]) -> set[str]:
        return {self.headings.get(name, name) for name in headings}


class RecognisedFile(Struct, frozen=True):
    path: Path
    format_name: str
    title: str
    table: KnownTable | None = None
    columns: frozenset[str] = frozenset()
    """The columns of a table, as its mapping names them."""
    encoding: str | None = None
    """The encoding in which the headings are known, or None if it is UTF-8 or the file says it."""


class RecognisedSet(Struct, frozen=True):
    """The files of one export, of which the operator's mapping says what each of them has."""

    table: KnownTable
    paths: dict[str, list[Path]]
    """The files by what they have: `bills`, `lines` and `payments`."""


class Export(Struct, frozen=True):
    """An export that is ready to be read, as often as needed."""

    files: list[RecognisedFile]
    records: Callable[[], Iterator[Imported]]
    """Opens the files; returns their records, rejected rows, skipped rows and totals."""
    preview: Callable[[], Preview] | None = None
    """Returns the first rows. Orders of an API have none."""

    @property
    def has_other_ids(self) -> bool:
        """Whether other files of the format have the same sales under other IDs."""
        formats = {file.format_name for file in self.files}
        return any(table.recognition.alone for table in built_in_tables() if table.format_name in formats)


def open_export(
    format_name: str | None,
    bills: Sequence[Path],
    lines: Sequence[Path],
    payments: Sequence[Path],
    mapping: dict[str, Any],
    mapping_name: str | None,
    options: ImportOptions,
    own_mappings: Path | None = None,
) -> Export:
    """Open an export with its format, a mapping that has an ID, or one that changes a recognised format."""
    if format_name == CSV or (format_name is None and _has_id(mapping)):
        checked = parse_mapping(mapping, mapping_name or CSV)
        return Export([], _records_of(checked, options, bills, lines, payments))
    given = {"bills": bills, "lines": lines, "payments": payments}
    if format_name is None and not mapping and len(bills) + len(lines) + len(payments) > 1:
        known_set = _recognised_set(given, own_tables(own_mappings), options.on_read)
        if known_set:
            return _open_set(known_set, options)
    if (payments and format_name) or (lines and format_name in APIS):
        raise ImportFailed(ONLY_CSV)
    try:
        files = [recognised(path, format_name, own_mappings, options.on_read) for path in (*bills, *lines, *payments)]
    except ImportFailed as error:
        if mapping_name is None or format_name is not None:
            raise
        parse_mapping(mapping, mapping_name)
        raise ImportFailed(
            sentence(
                "{mapping_name} has no bill.id, the column that identifies a bill. Set it. Without it, a mapping "
                "only changes that of a known format, and {error}",
                mapping_name=mapping_name,
                error=error,
            )
        ) from error
    if payments:
        raise ImportFailed(ONLY_CSV)
    return _open_recognised(files, mapping, mapping_name, options)


def _open_recognised(
    files: Sequence[RecognisedFile], mapping: dict[str, Any], mapping_name: str | None, options: ImportOptions
) -> Export:
    """Open files of a known format, each of which was recognised by itself."""
    with_orders = [file for file in files if file.format_name != NO_FORMAT]
    first, *others = with_orders or files
    for other in others:
        if (other.format_name, other.table is None) != (first.format_name, first.table is None):
            raise ImportFailed(
                sentence(
                    "{first} has {title}, but {other} has {title_2}. Import them separately.",
                    first=first.path.name,
                    title=first.title,
                    other=other.path.name,
                    title_2=other.title,
                )
            )
    if first.format_name == NO_FORMAT:
        return Export(list(files), lambda: iter(()))
    is_own = first.table is not None and first.table.is_own
    mapping_name = mapping_name or (f"{first.format_name}.toml" if is_own else f"{first.format_name} (built in)")
    if first.table is None:
        unused = [f"[{name}]" for name in mapping if name not in SECTIONS_OF_ORDERS]
        if unused:
            raise ImportFailed(
                sentence(
                    "{mapping_name} has {unused}, which {title} do not use: what their fields mean does not depend "
                    "on a mapping. Remove it, or import their export as CSV.",
                    mapping_name=mapping_name,
                    unused=", ".join(unused),
                    title=first.title,
                )
            )
        reading = OrderImport(APIS[first.format_name], parse_mapping(mapping, mapping_name), options)
        return Export(list(files), partial(reading.records, [file.path for file in files]))
    open_files = _open_members if MEMBERS in _roles(files) else _open_tables
    return open_files(files, mapping, mapping_name, options)


def _roles(files: Sequence[RecognisedFile]) -> set[str]:
    return {file.table.recognition.role for file in files if file.table}


def _has_id(mapping: dict[str, Any]) -> bool:
    """Return whether a mapping stands for itself, instead of changing that of a recognised format."""
    return any("id" in mapping.get(name, {}) for name in ("bill", "member"))


def _records_of(
    mapping: ImportMapping,
    options: ImportOptions,
    tables: Sequence[Path],
    lines: Sequence[Path],
    payments: Sequence[Path],
) -> Callable[[], Iterator[Imported]]:
    """Return what reads the records of tables with a mapping for bills or for members."""
    if mapping.member is None:
        return partial(table_records, mapping, options, tables, lines, payments)
    others = [*lines, *payments]
    if others:
        raise ImportFailed(
            sentence("a mapping with [member] is for tables of members. Leave out {name}.", name=others[0].name)
        )
    return partial(member_records, mapping, options, tables)


def recognised(
    path: Path, format_name: str | None = None, own_mappings: Path | None = None, on_read: OnRead = ignore_reads
) -> RecognisedFile:
    """Return what a file contains. If the format is given, the file must have it."""
    if is_json(path):
        return _recognised_orders(path, format_name)
    tables = [*own_tables(own_mappings), *built_in_tables()]
    found = _recognised_table(path, tables, on_read, format_name)
    if found:
        return found
    if format_name:
        other = _recognised_table(path, tables, on_read, None)
        if other:
            raise _other_format(path, other.title, format_name, other.format_name)
    text = sentence("{file} is not recognised by its headings.", file=path.name)
    if format_name:
        text = sentence(
            "{file} is not recognised by its headings as an export of {format_name}.",
            file=path.name,
            format_name=format_name,
        )
    raise NotRecognised(joined(text, _near_miss(path, tables, on_read)))


def _recognised_set(
    given: dict[str, Sequence[Path]], tables: Sequence[KnownTable], on_read: OnRead
) -> RecognisedSet | None:
    """Return the operator's mapping for these files together. Each must have a place in it, and no place be empty.

    If two mappings name as many headings, it is not known which one is meant.
    """
    found: list[RecognisedSet] = []
    for table in tables:
        paths = _paths_of_set(table, given, on_read) if table.recognition.is_of_set else None
        if paths:
            found.append(RecognisedSet(table, paths))
    most = max((known.table.recognition.number_of_headings for known in found), default=0)
    largest = [known for known in found if known.table.recognition.number_of_headings == most]
    return largest[0] if len(largest) == 1 else None


def _paths_of_set(table: KnownTable, given: dict[str, Sequence[Path]], on_read: OnRead) -> dict[str, list[Path]] | None:
    """Return the files by what they have, or None if they are not the files of this mapping.

    A file that was named as one of lines or payments is nothing else. Of the others, the headings decide.
    """
    paths: dict[str, list[Path]] = {kind: [] for kind in given}
    for given_kind, files in given.items():
        for path in files:
            kinds = [] if is_json(path) else _kinds_in_set(table, path, on_read)
            if given_kind != "bills":
                kinds = [kind for kind in kinds if kind == given_kind]
            if len(kinds) != 1:
                return None
            paths[kinds[0]].append(path)
    is_complete = all(paths[kind] for kind in table.recognition.kinds)
    return paths if is_complete else None


def _kinds_in_set(table: KnownTable, path: Path, on_read: OnRead) -> list[str]:
    """Return what a file has that its headings allow in this set."""

    def fits(headings: Collection[str]) -> bool:
        return bool(table.kinds_of(headings))

    for encoding in ENCODINGS_TRIED:
        columns = open_table(path, mappings.FileLayout(encoding=encoding), fits, on_read).sheet.columns
        if kinds := table.kinds_of(columns):
            return kinds
    return []


def _open_set(known: RecognisedSet, options: ImportOptions) -> Export:
    """Open the bills, lines and payments of one export with the mapping that was accepted for such files."""
    table, paths = known.table, known.paths
    checked = parse_mapping(table.content, f"{table.format_name}.toml")
    files = []
    for of_kind in paths.values():
        files += [RecognisedFile(path, table.format_name, table.recognition.name, table) for path in of_kind]
    first = partial(preview, checked, paths["bills"][0], options.on_read, has_lines=bool(paths["lines"]))
    return Export(files, partial(table_records, checked, replace(options, is_built_in=False), *paths.values()), first)


def _other_format(path: Path, title: str, wanted: str, format_name: str) -> ImportFailed:
    return ImportFailed(
        sentence(
            "{file} has {title}, not {wanted}. Use --format {format_name}, or leave out --format.",
            file=path.name,
            title=title,
            wanted=wanted,
            format_name=format_name,
        )
    )


def _near_miss(path: Path, tables: Sequence[KnownTable], on_read: OnRead) -> str:
    """Return a sentence about a mapping of the operator's that nearly fits a file, or an empty text.

    The file lacks one of its headings, or is one of the files that the mapping reads together.
    """
    own = [table for table in tables if table.is_own and table.has_id]

    def missing(table: KnownTable, headings: Collection[str]) -> list[str]:
        names = {table.headings.get(name, name) for name in headings}
        return [name for name in table.recognition.columns if name not in names]

    def is_near(headings: Collection[str]) -> bool:
        are_near = [len(missing(table, headings)) == 1 < len(table.recognition.columns) for table in own]
        return any(are_near) or any(table.kinds_of(headings) for table in own)

    columns = open_table(path, mappings.FileLayout(), is_near, on_read).sheet.columns
    for table in own:
        if table.kinds_of(columns):
            return sentence(
                "The mapping {mapping} reads it with the other files of its export: name all of them.",
                mapping=f"{table.format_name}.toml",
            )
        lacking = missing(table, columns)
        if len(lacking) == 1 < len(table.recognition.columns):
            return sentence(
                "It nearly fits the mapping {mapping}, but has no column {column}.",
                mapping=f"{table.format_name}.toml",
                column=lacking[0],
            )
    return ""


def _recognised_table(
    path: Path, tables: Sequence[KnownTable], on_read: OnRead, format_name: str | None
) -> RecognisedFile | None:
    wanted = [table for table in tables if table.has_id and format_name in (None, table.format_name)]

    def fits(headings: Collection[str]) -> bool:
        return any(table.fits(headings) for table in wanted)

    for encoding in ENCODINGS_TRIED:
        layout = mappings.FileLayout(encoding=encoding)
        columns = open_table(path, layout, fits, on_read).sheet.columns
        fitting = [table for table in wanted if table.fits(columns)]
        if fitting:
            # The operator's mappings come first, and of the built-in ones, the one that names the most headings.
            table = max(fitting, key=lambda known: (known.is_own, len(known.recognition.columns)))
            names = frozenset(table.headings.get(name, name) for name in columns)
            table = table.changed(tables)
            return RecognisedFile(path, table.format_name, table.recognition.name, table, names, encoding)
    return None


def is_json(path: Path) -> bool:
    return next(json_text(path), b"").lstrip()[:1] in (b"{", b"[")


def _recognised_orders(path: Path, format_name: str | None) -> RecognisedFile:
    known = ", ".join(f"{api.title} ({name})" for name, api in APIS.items())
    if format_name is not None and format_name not in APIS:
        raise ImportFailed(
            sentence(
                "{file} is JSON, which {format_name} does not export. Known are: {known}.",
                file=path.name,
                format_name=format_name,
                known=known,
            )
        )
    orders = list(islice(read_orders(path, list_names()), OBJECTS_TRIED))
    found: set[str] = set()
    why = ""
    for order in orders:
        if isinstance(order, JsonOrder):
            found.update(apis_of(order.content))
        elif not why:
            why = sentence(": line {line} {problem}", line=order.line, problem=order.detail)
    fitting = [name for name in APIS if name in found]
    if format_name is None and not fitting:
        if not orders:
            return RecognisedFile(path, NO_FORMAT, sentence("an empty page of orders"))
        raise ImportFailed(
            sentence(
                "{file} is JSON, but has no orders of a known format{why}. Known are: {known}. If a program "
                "has wrapped its pages, save only the pages.",
                file=path.name,
                why=why,
                known=known,
            )
        )
    if format_name is not None and fitting and format_name not in fitting:
        raise _other_format(path, APIS[fitting[0]].title, APIS[format_name].title, fitting[0])
    name = format_name or fitting[0]
    return RecognisedFile(path, name, APIS[name].title)


def _open_tables(
    files: Sequence[RecognisedFile], mapping: dict[str, Any], mapping_name: str, options: ImportOptions
) -> Export:
    """Open the tables of one format: bills, lines, or both."""
    tables: dict[str, dict[str, KnownTable]] = {"bills": {}, "lines": {}}
    paths: dict[str, list[Path]] = {"bills": [], "lines": []}
    for file in files:
        if file.table:
            role = file.table.recognition.role
            tables[role][file.title] = file.table
            paths[role].append(file.path)
    for same_role in tables.values():
        if len(same_role) > 1:
            raise ImportFailed(
                sentence("{same_role} show the same sales. Import only one of them.", same_role=" and ".join(same_role))
            )
    alone = [file for file in files if file.table and file.table.recognition.alone]
    if alone and (options.is_of_folder or paths["lines"]):
        raise ImportFailed(
            sentence(
                "{file} has {title}, whose bills have other IDs than those of the format's other files, so both "
                "would count. Import either this file alone or only the others.",
                file=alone[0].path.name,
                title=alone[0].title,
            )
        )
    bills, lines = list(tables["bills"].values()), list(tables["lines"].values())
    if bills and lines:
        content = _joined(bills[0].content, lines[0].content)
    else:
        # Lines alone are imported as a file in which each row is a line of a bill.
        content = (bills or lines)[0].content
        paths = {"bills": [*paths["bills"], *paths["lines"]], "lines": []}
    encodings = {file.encoding for file in files}
    if len(encodings) > 1:
        names = " and ".join(file.path.name for file in files)
        raise ImportFailed(
            sentence("{names} have different encodings. Save them in UTF-8, or import them separately.", names=names)
        )
    if encoding := encodings.pop():
        content = merged({"file": {"encoding": encoding}}, content)
    parse_mapping(mapping, mapping_name)
    checked = parse_mapping(merged(content, mapping), mapping_name)
    lacking = [name for name in _missing_statuses(checked, files) if name not in checked.file.lacks]
    if lacking:
        raise ImportFailed(
            sentence(
                "{file} has no column {lacking}, so voided bills would count as sales. Export it too, or import "
                "a file that has it together with this one. If it has another heading here, add that to "
                "[headings] of a mapping. If you know that no bill was voided, use a mapping with lacks = "
                '["{lacking}"] in [file].',
                file=files[0].path.name,
                lacking=lacking[0],
            )
        )
    options = replace(options, is_built_in=not any(file.table and file.table.is_own for file in files))
    first = partial(preview, checked, paths["bills"][0], options.on_read, has_lines=bool(paths["lines"]))
    return Export(list(files), partial(table_records, checked, options, paths["bills"], paths["lines"], []), first)


def _open_members(
    files: Sequence[RecognisedFile], mapping: dict[str, Any], mapping_name: str, options: ImportOptions
) -> Export:
    """Open tables of members of one format."""
    first, *others = files
    for file in others:
        if (file.title, file.encoding) != (first.title, first.encoding):
            names = f"{first.path.name} ({first.title}) and {file.path.name} ({file.title})"
            raise ImportFailed(
                sentence("{names} differ in what they have, or in their encoding. Import them separately.", names=names)
            )
    content = first.table.content if first.table else {}
    if first.encoding:
        content = merged({"file": {"encoding": first.encoding}}, content)
    parse_mapping(mapping, mapping_name)
    checked = parse_mapping(merged(content, mapping), mapping_name)
    paths = [file.path for file in files]
    rows = partial(preview, checked, paths[0], options.on_read)
    return Export(list(files), _records_of(checked, options, paths, (), ()), rows)


def _missing_statuses(mapping: ImportMapping, files: Sequence[RecognisedFile]) -> Iterator[str]:
    """Yield the columns that would show which bills are void, but are in none of the files."""
    columns: set[str] = set()
    for file in files:
        columns.update(mapping.file.headings.get(name, name) for name in file.columns)
    for rule in mapping.statuses:
        if mappings.VOID in rule.values.values() and columns.isdisjoint(rule.source.columns):
            yield " and ".join(rule.source.columns)


def _joined(bills: dict[str, Any], lines: dict[str, Any]) -> dict[str, Any]:
    """Return the mapping of a table of bills, with the lines of another table, and the sums that only lines show."""
    headings = merged(lines.get("headings", {}), bills.get("headings", {}))
    sums = {name: cell for name, cell in lines["bill"]["amounts"].items() if "sum" in cell}
    bill = {**bills["bill"], "amounts": {**sums, **bills["bill"]["amounts"]}}
    # What each of them does not show alone, the other one has.
    own = {"recognise": {**bills["recognise"], "note": ""}, "bill": bill, "line": lines["line"], "headings": headings}
    of_lines, of_bills = lines.get("checks", {}), bills.get("checks", {})
    checks = {name: [*of_lines.get(name, ()), *of_bills.get(name, ())] for name in ("filled", "equal")}
    return {**bills, **own, "checks": checks}


@cache
def built_in_tables() -> list[KnownTable]:
    """Return the tables that are recognised without a mapping of the operator."""
    folder = resources.files("counterfoil.importing") / "mappings"
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    files.sort(key=lambda file: file.name)
    return [KnownTable.read(file.name.partition("-")[0], file, is_own=False) for file in files]


def own_tables(folder: Path | None) -> list[KnownTable]:
    """Return the tables of the operator's folder of mappings. They take precedence over the built-in ones."""
    if folder is None:
        return []
    if not folder.is_dir():
        raise ImportFailed(sentence("{folder}, the folder of mappings, does not exist.", folder=folder))
    return [KnownTable.read(path.stem, path, is_own=True) for path in sorted(folder.glob("*.toml"))]
