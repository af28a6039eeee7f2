"""The possible results of an import: source records, rejected and skipped rows, and the export's own totals."""

import tomllib
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from importlib import resources
from typing import Any

from msgspec import Struct

from counterfoil.model.messages import Message, MessageError

_TEXTS: dict[str, Any] = tomllib.loads((resources.files("counterfoil.importing") / "messages.toml").read_text("utf-8"))


def message(code: str, /, **values: object) -> str:
    """Return a text of `messages.toml` with its values."""
    return str(_TEXTS[code]).format(**values)


Reason = StrEnum(
    "Reason",
    """
    BAD_ROW NO_ID NO_SHOP NO_TIME NO_AMOUNT UNREADABLE_VALUE DOUBTFUL_VALUE UNKNOWN_STATUS NO_BILL
    REPEATED_BILL DIFFERENT_ROWS OTHER_CURRENCY NOT_AN_ORDER NO_MEMBER_ID
    REPEATED_MEMBER
    """,
)
"""Why a row was rejected."""

REJECT_REASONS: dict[str, str] = _TEXTS["reject"]

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


class BaseMissing(ImportFailed):
    """Nothing says to which membership base the members of a table belong."""


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
