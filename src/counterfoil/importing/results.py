"""The possible results of an import: source records, rejected and skipped rows, and the export's own totals."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from counterfoil.domain.messages import Message

BAD_ROW = "bad_row"
NO_ID = "no_id"
NO_SHOP = "no_shop"
NO_TIME = "no_time"
NO_AMOUNT = "no_amount"
UNREADABLE_VALUE = "unreadable_value"
DOUBTFUL_VALUE = "doubtful_value"
UNKNOWN_STATUS = "unknown_status"
NO_BILL = "no_bill"
REPEATED_BILL = "repeated_bill"
DIFFERENT_ROWS = "different_rows"
OTHER_CURRENCY = "other_currency"
NOT_AN_ORDER = "not_an_order"

REJECT_REASONS = {
    BAD_ROW: "cannot be split into the columns of the header row, or is not text in the file's encoding",
    NO_ID: "has no valid bill ID",
    NO_SHOP: "does not say which shop the bill belongs to",
    NO_TIME: "has no bill time",
    NO_AMOUNT: "has no total",
    UNREADABLE_VALUE: "has a value that is not in the expected format",
    DOUBTFUL_VALUE: "has a value that may be wrong, or whose meaning the export does not show",
    UNKNOWN_STATUS: "has a status that the mapping does not list",
    NO_BILL: "belongs to a bill that is not in the bills file",
    REPEATED_BILL: "repeats the ID of an earlier bill in the same file",
    DIFFERENT_ROWS: "disagrees with another row of the same bill",
    OTHER_CURRENCY: "is in another currency",
    NOT_AN_ORDER: "is not an order that can be read",
}

# The reasons as they are stored with a load, whose own reasons have some of the same names.
IMPORT_PREFIX = "import_"
LOAD_REASONS = {
    f"{IMPORT_PREFIX}{reason}": Message(f"reject.{IMPORT_PREFIX}{reason}", meaning)
    for reason, meaning in REJECT_REASONS.items()
}


class ImportFailed(Exception):
    """The import cannot start or continue. The message says why and, if possible, what to do."""


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
    """A source record, and its position in the export."""

    file: str
    line: int
    record: dict[str, Any]
    is_found_shop: bool = False
    """True for a shop that the export names but does not describe. The store may have more data about it."""


class RejectedRow(Struct, frozen=True):
    """A row that could not be converted, and the ID of its bill if it is known."""

    file: str
    line: int
    reason: str
    detail: str
    bill: str | None = None


class SkippedRow(Struct, frozen=True):
    """A row that is deliberately not converted, such as an order that is still open."""

    file: str
    line: int
    reason: str


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


Imported = ImportedRecord | RejectedRow | SkippedRow | ExportTotals
