"""The summary of an import: how many bills and shops were converted, and why rows were skipped or rejected."""

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO

import click
from msgspec import Struct, field, json

from counterfoil import bootstrap
from counterfoil.cli.terminal import echo, message, print_note, style
from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.intake import MAX_REMEMBERED, RejectedLine, RejectedRows
from counterfoil.importing.results import (
    IMPORT_PREFIX,
    REJECT_REASONS,
    ExportTotals,
    Imported,
    ImportedRecord,
    ImportNote,
    RejectedRow,
    SkippedRow,
)
from counterfoil.ingest.lines import SourceLine
from counterfoil.ingest.sources import Source
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.files import open_output
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.text import counted

MAX_SHOWN = 20
COLUMN = 10
Facts = Callable[[str], KnownFacts | None]
"""Returns what the store knows of a shop."""
_encode = json.Encoder().encode


class ImportTally(Struct):
    bills: int = 0
    shops: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    first_rejects: list[RejectedRow] = []
    rejects_file: Path | None = None
    recognised: dict[str, str] = {}
    """What each file was recognised as, by its name."""
    export_totals: list[ExportTotals] = []
    """The totals that the export itself states."""

    @property
    def wrong_totals(self) -> list[ExportTotals]:
        return [total for total in self.export_totals if total.stated != total.computed]

    def rejected_rows(self, source: str | None = None) -> RejectedRows:
        """Return the rejected rows as a load stores them. They are of this source, or of the file that each names."""
        first = [RejectedLine(source or row.file, row.line, IMPORT_PREFIX + row.reason) for row in self.first_rejects]
        return RejectedRows({IMPORT_PREFIX + reason: count for reason, count in self.rejected.items()}, first)


class ImportRejects(AbstractContextManager["ImportRejects"]):
    """The file for rejected rows, created at the first reject. It quotes the export, so only its owner can read it.

    As a context manager, it deletes the file if the import fails, because the next import needs a new file.
    """

    def __init__(self, path: Path | None) -> None:
        if path is not None and path.exists():
            raise click.BadParameter(f"{path} already exists. Choose a new file name.", param_hint="--rejects")
        self._path = path
        self._file: IO[bytes] | None = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._file is None or self._path is None:
            return
        try:
            self._file.close()
        finally:
            if error is not None:
                self._path.unlink(missing_ok=True)

    def add(self, row: RejectedRow) -> None:
        if self._path is None:
            return
        if self._file is None:
            self._file = open_output(self._path, flags=os.O_EXCL, mode=0o600)
        self._file.write(json.encode(row) + b"\n")

    def close(self) -> None:
        if self._file:
            self._file.close()


class ImportedSource(Source):
    """Passes imported records to a load. Each line keeps the file name and line number that it has in the export."""

    is_export = True

    def __init__(
        self, name: str, records: Iterable[ImportedRecord], tally: ImportTally, write: Callable[[SourceLine], object]
    ) -> None:
        super().__init__(name, None)
        self._records = records
        self._tally = tally
        self._write = write

    def lines(self) -> Iterator[SourceLine]:
        for one in self._records:
            line = SourceLine(one.file, one.line, _encode(one.record))
            self._write(line)
            yield line

    def rejected_rows(self) -> RejectedRows:
        return self._tally.rejected_rows()


def facts_for_import(settings: Settings) -> Facts:
    """Return a function that reads what the store knows of a shop, such as its closing time, or None if it cannot."""

    def facts(shop_id: str) -> KnownFacts | None:
        if not settings.database and not (settings.store / "books.sqlite3").exists():
            return None
        try:
            return bootstrap.store(settings).reads().facts(shop_id)
        except (StoreUnavailable, StoreMismatch):
            return None

    return facts


def today() -> date:
    """Return the day in UTC. No bill is later than the day after it."""
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).date()


def say_once(note: str) -> None:
    """Say once in a command what an export does not show, and not for each file that arrives or is read again."""
    context = click.get_current_context(silent=True)
    said: set[str] = context.meta.setdefault(__name__, set()) if context else set()
    if note not in said:
        said.add(note)
        print_note(note)


def converted(
    found: Iterable[Imported], tally: ImportTally, rejects: ImportRejects, facts: Facts = lambda _: None
) -> Generator[ImportedRecord, None, None]:
    """Yield the records. Count records, skipped rows and rejects in the tally, and write the rejects to their file.

    A shop that the export names but does not describe is left out if `facts` knows it.
    """
    try:
        for one in found:
            match one:
                case ImportedRecord() if one.is_found_shop and facts(one.record["id"]):
                    continue
                case ImportedRecord():
                    if one.record["kind"] == "bill":
                        tally.bills += 1
                    else:
                        tally.shops += 1
                    yield one
                case ExportTotals():
                    tally.export_totals.append(one)
                case ImportNote():
                    say_once(one.text)
                case SkippedRow():
                    tally.skipped[one.reason] += 1
                case RejectedRow():
                    tally.rejected[one.reason] += 1
                    if len(tally.first_rejects) < MAX_REMEMBERED:
                        tally.first_rejects.append(one)
                    rejects.add(one)
    finally:
        rejects.close()


def print_tally(tally: ImportTally, *, to_stderr: bool) -> None:
    def say(name: str, text: str) -> None:
        echo(style(name.ljust(COLUMN), dim=True) + "  " + text, err=to_stderr)

    say("bills", f"{tally.bills:,} converted")
    if tally.shops:
        say("shops", f"{tally.shops:,} converted")
    for reason, count in tally.skipped.items():
        say("skipped", f"{count:,}: {reason}")
    for reason, count in tally.rejected.items():
        say("rejected", f"{count:,}: the row {REJECT_REASONS[reason]}")
    for row in tally.first_rejects[:MAX_SHOWN]:
        bill = f", bill {row.bill}" if row.bill else ""
        say("", f"{row.file} line {row.line}{bill}: {row.detail}")
    total = tally.rejected.total()
    if total > MAX_SHOWN:
        say("", f"… and {total - MAX_SHOWN:,} more")
    if total:
        where = f" The rejected rows are in {tally.rejects_file}." if tally.rejects_file else ""
        hint = "" if tally.rejects_file or total <= MAX_SHOWN else " Use --rejects FILE to write all rejects to a file."
        rows = "1 row, so its bill was" if total == 1 else f"{total:,} rows, so their bills were"
        echo(message("rows_rejected", rows=rows, advice=f"{where}{hint}"), err=to_stderr)
    _print_export_totals(tally, to_stderr=to_stderr)


def _print_export_totals(tally: ImportTally, *, to_stderr: bool) -> None:
    wrong = tally.wrong_totals
    for total in wrong[:MAX_SHOWN]:
        difference = f"{total.stated:,f}, but its rows add up to {total.computed:,f}"
        echo(f"{total.file} line {total.line}: the export states that {total.column} is {difference}.", err=to_stderr)
    if wrong:
        echo(message("wrong_totals", wrong=len(wrong), totals=len(tally.export_totals)), err=to_stderr)
    elif tally.export_totals:
        echo(f"The rows add up to {counted(len(tally.export_totals), 'total')} of the export.", err=to_stderr)


def tally_view(tally: ImportTally) -> dict[str, object]:
    return {
        "recognised": tally.recognised,
        "bills": tally.bills,
        "shops": tally.shops,
        "skipped": dict(tally.skipped),
        "rejected": tally.rejected.total(),
        "reasons": dict(tally.rejected),
        "rejects": tally.first_rejects[:MAX_SHOWN],
        "rejectsFile": str(tally.rejects_file) if tally.rejects_file else None,
        "exportTotals": tally.export_totals,
    }
