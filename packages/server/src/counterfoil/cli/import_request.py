"""What the operator wants of an import."""

import sys
from pathlib import Path
from typing import Any

from counterfoil.cli.load_exports import ExportRequest
from counterfoil.cli.totals import ExpectedNet
from counterfoil.importing.formats import DATABASE
from counterfoil.program import terminal

STANDARD_OUTPUT = "-"


class ImportRequest(ExportRequest, kw_only=True):
    files: tuple[Path, ...]
    format_name: str | None
    line_files: tuple[Path, ...]
    payment_files: tuple[Path, ...]
    join: bool
    output: str
    rejects: Path | None
    is_load: bool
    is_check: bool
    answers_file: Path | None
    item: int | None
    delivered_name: str | None = None
    """The name under which the file of the item was delivered."""
    url: str | None
    state: Path | None
    full: bool
    skip_rejected: bool
    expect_net: tuple[ExpectedNet, ...]
    accept_change: bool
    batch: int | None
    as_json: bool
    may_load: bool = False
    """Whether the records are loaded, or will be if a person accepts their totals."""
    printed: dict[str, Any] | None = None
    """What `--json` prints of the load. If it is of an open item, the other files that are loaded follow in it."""
    is_confirmed: bool = False
    """Whether the operator was asked about a sudden change, and accepted it."""

    @property
    def is_database(self) -> bool:
        return self.format_name == DATABASE

    @property
    def writes_records(self) -> bool:
        """Whether an option says what becomes of the records. Otherwise, they go to standard output."""
        return self.is_load or self.is_check or self.output != STANDARD_OUTPUT

    @property
    def has_output(self) -> bool:
        return self.writes_records or not terminal.is_terminal(sys.stdout)
