"""What a load and the process that converts exports for it write to each other: one JSON object in each line.

The load writes a request for each export, and the converter answers with messages, of which `end` or `failed` is the
last one. `docs/converters.md` describes them for converters in other languages. Fields that are not set are left out.
"""

from datetime import date
from decimal import Decimal
from typing import Any, Final, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, json

from counterfoil.importing.mapping import KnownBase
from counterfoil.importing.results import PreviewColumn, Reason
from counterfoil.importing.sentences import FormText

VERSION: Final = 1
Kind = Literal["bills", "lines", "payments"]
Cause = Literal["export", "unknown", "base", "zone", "order", "disk", "memory", "cells", "package", "error"]
"""Why nothing is converted: the export or its mapping, an export that nobody has answered for, members without a base,
shops without a time zone, dates of which nothing shows whether the day comes first, a full disk, a limit, a package
that is not installed (then the text is its name), or an error of the converter."""


Texts = tuple[FormText, ...] | UnsetType
"""What the sentences of a message were made of, for a program that shows them in another language."""


class InputFile(Struct, frozen=True):
    path: str
    kind: Kind = "bills"


class StoredShop(Struct, frozen=True, rename="camel", kw_only=True):
    """A shop that the store knows."""

    id: str
    name: str | None = None
    franchise_id: str | None = None
    timezone: str | None = None
    closing_time: str | None = None


class PosDatabase(Struct, frozen=True):
    """The database of a POS. Its address may have a password, so a request has it, and never an argument."""

    url: str
    state: dict[str, Any] | None = None
    """What the `end` of the last import said."""


class ConversionRequest(Struct, frozen=True, rename="camel", kw_only=True):
    """An export that is to be converted: files, or a database."""

    v: int = VERSION
    files: tuple[InputFile, ...] = ()
    database: PosDatabase | None = None
    format: str | None = None
    mapping: dict[str, Any] = {}
    """The content of the mapping, or an empty object if the files are recognised."""
    mapping_name: str | None = None
    mappings: str | None = None
    """The operator's folder of mappings by which files are recognised."""
    answers: dict[str, str] | None = None
    """If it is set, the form of the files with these answers is returned, instead of records."""
    today: date
    currency: str = "THB"
    shop: str | None = None
    timezone: str | None = None
    usual_timezone: str = "Asia/Bangkok"
    """The zone of new shops that a form proposes, unless the export shows another one."""
    with_shops: bool = False
    joins: bool = False
    is_of_folder: bool = False
    is_order_sure: bool = False
    shops: tuple[StoredShop, ...] = ()
    base: str | None = None
    """The membership base of the members of a table."""
    bases: tuple[KnownBase, ...] = ()
    """The bases that the store knows."""
    preview: bool = False
    """Whether a person wants to see the first rows of a known table."""
    max_cells: int


class ConverterMessage(Struct, frozen=True, rename="camel", tag_field="type"):
    """A message of the converter."""


class RecordMessage(ConverterMessage, frozen=True, tag="record"):
    """A source record, and where it is in the export."""

    v: int
    file: str
    line: int
    record: Raw
    is_found_shop: bool | UnsetType = UNSET
    """True for a shop that the export names but does not describe. The store may have more data about it."""


class RejectMessage(ConverterMessage, frozen=True, tag="reject"):
    """A row that could not be converted, and the ID of its bill if it is known."""

    v: int
    file: str
    line: int
    reason: Reason
    detail: str
    bill: str | UnsetType = UNSET
    texts: Texts = UNSET


class LeftOutMessage(ConverterMessage, frozen=True, tag="left_out"):
    """A row that is deliberately not converted. For the first row of a bill, `bills` is 1, and `net` is its money."""

    v: int
    file: str
    line: int
    reason: str
    bills: int = 0
    net: Decimal | None = None
    texts: Texts = UNSET


class NoteMessage(ConverterMessage, frozen=True, tag="note"):
    """What the operator must know, or what a file was recognised as."""

    v: int
    text: str = ""
    file: str | UnsetType = UNSET
    recognised: str | UnsetType = UNSET
    texts: Texts = UNSET


class PreviewMessage(ConverterMessage, frozen=True, tag="preview"):
    """The first rows of a known table, with what each column is read as."""

    v: int
    columns: tuple[PreviewColumn, ...]
    rows: tuple[tuple[str, ...], ...]


class ProgressMessage(ConverterMessage, frozen=True, tag="progress"):
    """Shows that the converter is working, and the rows that it has read."""

    v: int
    rows: int
    readings: int | UnsetType = UNSET
    """In how many ways a table was read so far of which nobody has said what its columns mean."""


class FormMessage(ConverterMessage, frozen=True, tag="form"):
    """The form of an export that nobody has answered for."""

    v: int
    form: Raw


class TotalsMessage(ConverterMessage, frozen=True, tag="totals"):
    """A total that the export itself states, and the sum of its rows."""

    v: int
    file: str
    line: int
    column: str
    field: str
    stated: Decimal
    computed: Decimal


class EndMessage(ConverterMessage, frozen=True, tag="end"):
    """Everything was converted. The counts and the net must be those of the messages before it."""

    v: int
    records: int
    rejects: int
    left_out: int
    totals: int
    net: Decimal
    """The sum of `amounts.net` of all bills, whether they are void or not."""
    has_other_ids: bool | UnsetType = UNSET
    """Whether other files of the format have the same sales under other IDs."""
    state: dict[str, Any] | UnsetType = UNSET
    """What the next import from the same database needs. It is kept once everything is loaded."""


class FailedMessage(ConverterMessage, frozen=True, tag="failed"):
    """Nothing may be loaded. The text is a sentence that says why and what to do."""

    v: int
    text: str
    cause: Cause = "export"
    dates: tuple[str, ...] | UnsetType = UNSET
    """A few dates of which nothing shows whether the day or the month comes first."""
    headings: tuple[str, ...] | UnsetType = UNSET
    """Those of a table of which nobody has said what its columns mean."""
    texts: Texts = UNSET


Answer = (
    RecordMessage
    | RejectMessage
    | LeftOutMessage
    | NoteMessage
    | ProgressMessage
    | PreviewMessage
    | FormMessage
    | TotalsMessage
    | EndMessage
    | FailedMessage
)
encode: Final = json.Encoder(decimal_format="string", enc_hook=str).encode
decode: Final = json.Decoder(Answer).decode
