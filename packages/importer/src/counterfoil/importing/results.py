"""The possible results of an import: source records, rejected and skipped rows, and the export's own totals."""

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum, auto
from typing import Any

from msgspec import Struct

from counterfoil.importing.sentences import sentence
from counterfoil.model.messages import Message, MessageError


class Reason(StrEnum):
    """Why a row was rejected."""

    BAD_ROW = auto()
    NO_ID = auto()
    NO_SHOP = auto()
    NO_TIME = auto()
    NO_AMOUNT = auto()
    UNREADABLE_VALUE = auto()
    DOUBTFUL_VALUE = auto()
    UNKNOWN_STATUS = auto()
    NO_BILL = auto()
    REPEATED_BILL = auto()
    DIFFERENT_ROWS = auto()
    OTHER_CURRENCY = auto()
    NOT_AN_ORDER = auto()
    NO_MEMBER_ID = auto()
    REPEATED_MEMBER = auto()


# What follows "the row".
REJECT_REASONS: dict[str, str] = {
    Reason.BAD_ROW: "cannot be split into the columns of the header row, or is not text in the file's encoding",
    Reason.NO_ID: "has no valid bill ID",
    Reason.NO_SHOP: "does not say which shop the bill belongs to",
    Reason.NO_TIME: "has no bill time",
    Reason.NO_AMOUNT: "has no total",
    Reason.UNREADABLE_VALUE: "has a value that is not in the expected format",
    Reason.DOUBTFUL_VALUE: "has a value that may be wrong, or whose meaning the export does not show",
    Reason.UNKNOWN_STATUS: "has a status that the mapping does not list",
    Reason.NO_BILL: "belongs to a bill that is not in the bills file",
    Reason.REPEATED_BILL: "repeats the ID of an earlier bill in the same file",
    Reason.DIFFERENT_ROWS: "disagrees with another row of the same bill",
    Reason.NO_MEMBER_ID: "has no valid member ID",
    Reason.REPEATED_MEMBER: "has the ID of another member",
    Reason.OTHER_CURRENCY: "is in another currency than --currency, or currency in [numbers] of the mapping, says",
    Reason.NOT_AN_ORDER: "is not an order that can be read",
}

# The reasons as they are stored with a load, whose own reasons have some of the same names.
IMPORT_PREFIX = "import_"
LOAD_REASONS = {
    f"{IMPORT_PREFIX}{reason}": Message(f"reject.{IMPORT_PREFIX}{reason}", meaning)
    for reason, meaning in REJECT_REASONS.items()
}


class ImportFailed(MessageError):
    """The import cannot start or continue. The message says why and, if possible, what to do."""


class NotRecognised(ImportFailed):
    """No mapping is for these headings, so somebody must answer what the columns mean."""

    headings: tuple[str, ...] = ()
    """The headings, if they were read to tell the files apart that wait for answers."""


class BaseMissing(ImportFailed):
    """Nothing says to which membership base the members of a table belong."""


class OrderMissing(ImportFailed):
    """No cell of a table shows whether the day or the month comes first. `dates` are a few of its dates."""

    def __init__(self, text: str, dates: Sequence[str]) -> None:
        super().__init__(text)
        self.dates = tuple(dates)


class ZoneMissing(ImportFailed):
    """Nothing names the time zone of the shops, although the times show that it is not the usual one."""


class PreviewColumn(Struct, frozen=True):
    heading: str
    role: str
    """What the column is read as, or an empty text if it is not read."""


class Preview(Struct, frozen=True):
    """The first rows of a file, with a cell for each of the columns."""

    columns: tuple[PreviewColumn, ...]
    rows: tuple[tuple[str, ...], ...]


class RowProblem(Exception):
    """A row cannot be converted, so its bill is rejected. `reason` is a key of REJECT_REASONS."""

    def __init__(self, reason: str, detail: str, line: int = 0, file: str = "", cells: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.cells = cells
        """The cells of a row that has too many or too few of them."""
        self.reason = reason
        self.detail = detail
        self.line = line
        self.file = file


def incomplete(unread: RowProblem) -> str:
    """Return why a bill is rejected because of a row that cannot be read."""
    line, file, problem = unread.line, unread.file, unread.detail
    if unread.reason == Reason.UNREADABLE_VALUE:
        return sentence("is not complete: line {line} of {file} {problem}", line=line, file=file, problem=problem)
    return sentence(
        "may be incomplete: line {line} of {file}, next to one of its rows, may belong to it, but {problem}",
        line=line,
        file=file,
        problem=problem,
    )


class ImportedRecord(Struct, frozen=True):
    file: str
    line: int
    record: dict[str, Any]
    is_found_shop: bool = False
    """True for a shop that is named, but not described. The store may have more data about it."""


class RejectedRow(Struct, frozen=True):
    """A row that could not be converted, and the ID of its bill if it is known."""

    file: str
    line: int
    reason: str
    detail: str
    bill: str | None = None


class ShopElsewhere(Struct, frozen=True):
    """A shop whose bills have times with offsets that are not those of Thailand, but nothing names its zone."""

    file: str
    shop_id: str


class SkippedRow(Struct, frozen=True):
    """A row that is deliberately not converted, such as an order that is still open.

    If it is the first row of a bill, `bills` is 1, and `net` is what the bill would have added, if that can be read.
    """

    file: str
    line: int
    reason: str
    bills: int = 0
    net: Decimal | None = None


class ExportTotals(Struct, frozen=True):
    """A total that the export itself states in a row of totals, and the sum of the imported rows.

    Some exports leave voided bills or the lines of open bills out of their totals, and others do not. `computed` is
    the sum that equals the stated total if there is one, otherwise the sum of all bills that are not voided.
    """

    file: str
    line: int
    column: str
    field: str
    stated: Decimal
    computed: Decimal


class ImportNote(Struct, frozen=True):
    """What the operator must know of an export, although it can be imported."""

    text: str


Imported = ImportedRecord | RejectedRow | SkippedRow | ShopElsewhere | ExportTotals | ImportNote
