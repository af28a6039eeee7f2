"""Lets `load` read exports of a POS beside source records: each file is converted before it is loaded.

A delivered file is copied first: a converter opens it by its name, and whoever may write to a watched folder could put
another file there meanwhile. A file that cannot be converted, or whose money is doubtful, is reported as damaged before
any of its bills is loaded. So is a file of which some rows were rejected, after its other bills are loaded.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO

import click
from msgspec import Struct
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.cli.import_report import Facts, ImportedSource, ImportTally, converted, facts_for_import, today
from counterfoil.cli.store import is_without_store
from counterfoil.cli.terminal import message
from counterfoil.domain.intake import Intake, RejectedRows
from counterfoil.domain.shops import ShopSettings
from counterfoil.importing.formats import Export, open_export, own_tables
from counterfoil.importing.mapping import merged, parse_mapping, read_mapping
from counterfoil.importing.orders import apis_of, list_names
from counterfoil.importing.results import REJECT_REASONS, Imported, ImportedRecord, ImportFailed
from counterfoil.importing.sorted_rows import is_disk_full
from counterfoil.importing.tables import ImportOptions
from counterfoil.ingest.checking import LenientLedger, checked_records
from counterfoil.ingest.lines import KINDS, SourceLine
from counterfoil.ingest.sources import BUFFER_BYTES, File, SourceError, SourceFiles
from counterfoil.machine.files import temporary_folder
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.shop_settings import ShopSettingsError
from counterfoil.shop_settings import checked as checked_settings
from counterfoil.text import counted, printable

TABLES = (".csv", ".tsv", ".txt", ".xlsx")
LINES = (".jsonl", ".ndjson")
_RECORD = re.compile(rb'"kind"\s*:\s*"(?:%b|reject)"' % "|".join(KINDS).encode())
# The number of results between two calls of `on_read`, and of rejected rows that the reason names.
RESULTS_PER_CALL, MAX_NAMED = 100, 5
MAX_NAME = 60


class ExportRequest(Struct, kw_only=True):
    """How the operator wants exports to be converted."""

    mapping: Path | None = None
    mappings: Path | None = None
    shop: str | None = None
    with_shops: bool = False
    franchise: str | None = None
    closing_time: str | None = None
    date_order: str | None = None
    timezone: str | None = None
    currency: str = "THB"
    accept_change: bool = False

    @property
    def mapping_name(self) -> str | None:
        return self.mapping.name if self.mapping else None

    def new_shops(self) -> ShopSettings:
        """Return what the operator says about the shops that are not loaded yet, or raise `UsageError`."""
        try:
            settings = checked_settings(ShopSettings(franchise_id=self.franchise, closing=self.closing_time))
        except ShopSettingsError as error:
            raise click.UsageError(str(error)) from error
        if settings.given() and not self.with_shops:
            raise click.UsageError(
                "--franchise and --closing-time are for new shops, so they need --with-shops. "
                "For shops that are loaded, use `counterfoil shops set`."
            )
        return settings

    def content(self) -> dict[str, Any]:
        """Return the content of the mapping file, if there is one, with --date-order and --timezone applied."""
        dates = {"order": self.date_order, "timezone": self.timezone}
        given = {name: value for name, value in dates.items() if value is not None}
        below = read_mapping(self.mapping) if self.mapping else {}
        return merged(below, {"dates": given} if given else {})

    def options(self) -> ImportOptions:
        return ImportOptions(
            shop=self.shop,
            write_shops=self.with_shops,
            timezone=self.timezone,
            currency=self.currency.upper(),
            today=today(),
            is_order_sure=self.date_order is not None,
        )


def require_known_ids(settings: Settings, export: Export, *, is_compared: bool) -> None:
    """Raise `ImportFailed` if the store has the sales of an export under other IDs: those of orders, or of checks."""
    days: dict[tuple[str, str], list[dict[str, Any]]] = {}
    is_compared = is_compared and export.has_other_ids and not is_without_store(settings)
    for one in export.records() if is_compared else ():
        if isinstance(one, ImportedRecord) and one.record["kind"] == "bill":
            days.setdefault((one.record["shopId"], one.record["closedAt"][:10]), []).append(one.record)
    if not days:
        return
    reads, dates = bootstrap.store(settings).reads(), sorted(date.fromisoformat(day) for _, day in days)
    stored = {(one.shop_id, one.day.isoformat()): one.bills for one in reads.bills(dates[0], dates[-1])}
    for (shop, day), bills in days.items():
        bill_ids = [bill["id"] for bill in bills]
        orders = {order for bill in bills for order in bill.get("orderIds", ())}.difference(bill_ids)
        # A check names its order. Of an order, only the day shows that its checks may be there.
        is_new = not orders and not reads.stored_bills(shop, bill_ids)
        if count := stored.get((shop, day), 0) if is_new else len(reads.stored_bills(shop, sorted(orders))):
            raise ImportFailed(message("stored_otherwise", count=count, shop=printable(shop), day=day))


@contextmanager
def export_files(settings: Settings, request: ExportRequest) -> Iterator[SourceFiles]:
    """Yield the kinds of files that a load reads: source records, and exports that fit the mapping or are known."""
    content = request.content()
    request.new_shops()
    # A mapping that cannot be used would send all files to quarantine.
    parse_mapping(content, request.mapping_name or "--timezone")
    own_tables(request.mappings)
    with temporary_folder("counterfoil-load-") as folder:
        yield ExportFiles(request, content, settings, facts_for_import(settings), folder)


class ExportFiles(SourceFiles, frozen=True):
    """The files of a load that has exports, and how these are converted."""

    request: ExportRequest
    mapping: dict[str, Any]
    settings: Settings
    facts: Facts
    folder: Path
    """A folder of this process, for copies and converted records."""

    def accepts(self, name: str) -> bool:
        return super().accepts(name) or name.lower().endswith(TABLES)

    def file(self, path: Path, size: int | None, opened: Callable[[], BinaryIO] | None = None) -> File:
        file = ExportFile(path, size, opened, self)
        return file if file.is_no_source_record() else super().file(path, size, opened)


class ExportFile(File):
    """A file that is converted when it is first read."""

    is_export = True

    def __init__(
        self, path: Path, size: int | None, opened: Callable[[], BinaryIO] | None, conversion: ExportFiles
    ) -> None:
        super().__init__(path, size, opened)
        self._conversion = conversion
        self._tally = ImportTally()
        self._records: Path | None = None
        self._problem: str | None = None

    def is_no_source_record(self) -> bool:
        """Return whether the file is an export. A file of JSON may also contain source records."""
        name = self.path.name.lower()
        if not name.endswith((".json", *LINES)):
            return name.endswith(TABLES)
        try:
            with self._open() as file:
                start = file.read(BUFFER_BYTES)
            first = json.loads(start.partition(b"\n")[0]) if name.endswith(LINES) else None
        except (SourceError, OSError, ValueError, RecursionError):
            return False
        is_order = apis_of(first) or list_names() & first.keys() if isinstance(first, dict) else name.endswith(".json")
        return bool(is_order) and not _RECORD.search(start)

    def rejected_rows(self) -> RejectedRows:
        return self._tally.rejected_rows(self.name)

    def close(self) -> None:
        if self._records:
            self._records.unlink(missing_ok=True)
            self._records = None

    def _all_lines(self) -> Iterator[SourceLine]:
        try:
            if self._records is None and self._problem is None:
                self._problem = self._convert()
            if self._problem:
                raise SourceError(self._problem)
            assert self._records is not None  # noqa: S101 - `_convert` has written them
            with self._records.open("rb") as lines:
                for text in lines:
                    number, _, record = text.rstrip(b"\n").partition(b"\t")
                    yield SourceLine(self.name, int(number), record)
            if self._tally.rejected:
                raise SourceError(self._rejects_problem())
        except SourceError as error:
            self.damage[self.path] = str(error)
            raise
        finally:
            self.position = lambda: self.total or 0

    def _convert(self) -> str | None:
        """Convert the file, and write its records to a file. Return why none of them may be loaded, or None."""
        try:
            with tempfile.TemporaryDirectory(dir=self._conversion.folder) as folder:
                return self._write_records(self._copied(Path(folder)))
        except BaseException as error:
            # The records are not complete, and a later attempt begins anew.
            self.close()
            if is_disk_full(error):
                raise StoreUnavailable(message("disk_full", name=self.name)) from error
            if isinstance(error, ImportFailed | SourceError):
                return str(error)
            # Whatever a deliverer writes must not stop a watcher. A panic of a library in Rust is no `Exception`.
            is_of_file = isinstance(error, Exception) or type(error).__name__ == "PanicException"
            if isinstance(error, StoreUnavailable | StoreMismatch) or not is_of_file:
                raise
            return f"{self.name} cannot be converted ({type(error).__name__})."

    def _copied(self, folder: Path) -> Path:
        """Return a copy of the file. Messages name the file, so the copy has its name."""
        end = self.path.suffix.lower()
        copy = folder / (printable(self.path.name).replace("\\", "_")[: -len(end)][:MAX_NAME] + end)
        with self._open() as file, copy.open("wb") as out:
            while part := file.read(1 << 20):
                self.on_read()
                out.write(part)
        return copy

    def _write_records(self, path: Path) -> str | None:
        conversion, tally = self._conversion, ImportTally()
        request, mapping = conversion.request, conversion.mapping
        options = replace(request.options(), on_read=self.on_read, is_of_folder=True)
        export = open_export(None, [path], (), (), mapping, request.mapping_name, options, request.mappings)
        require_known_ids(conversion.settings, export, is_compared=not request.accept_change)
        found = converted(self._observed(export.records()), tally, conversion.facts, new_shops=request.new_shops())
        with tempfile.NamedTemporaryFile(dir=conversion.folder, delete=False) as out, closing(found) as records:
            self._records = Path(out.name)
            source = ImportedSource(
                self.name, records, tally, lambda line: out.write(b"%d\t%b\n" % (line.number, line.text))
            )
            summary = checked_records(source, LenientLedger(conversion.facts, Intake))
        self._tally = tally
        if tally.wrong_totals:
            wrong = tally.wrong_totals[0]
            stated = f"{wrong.column} is {wrong.stated:,f} in line {wrong.line}, but its rows add up to"
            return f"{self.name} was not loaded: {stated} {wrong.computed:,f}."
        if summary.totals.report().is_doubtful:
            return message("doubtful_net", name=self.name)
        return None

    def _observed(self, results: Iterator[Imported]) -> Iterator[Imported]:
        for count, result in enumerate(results):
            if count % RESULTS_PER_CALL == 0:
                self.on_read()
            yield result

    def _rejects_problem(self) -> str:
        rows = counted(self._tally.rejected.total(), "row")
        # The log shows this text too, so it quotes nothing from the export.
        rejects = self._tally.first_rejects[:MAX_NAMED]
        named = " ".join(f"Line {row.line} {REJECT_REASONS[row.reason]}." for row in rejects)
        return f"{self.name}: {rows} could not be converted, and every bill with such a row is missing. {named}"
