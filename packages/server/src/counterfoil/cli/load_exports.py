"""Converts exports of a POS for `import` and `load --watch`, and judges them before their records are loaded.

A delivered file is copied first: a converter opens it by its name, and whoever may write to a watched folder could put
another file there meanwhile. A file that cannot be converted, or whose money does not add up, is reported as damaged
before any of its bills is loaded. So is a file of which some rows were rejected, after its other bills are loaded.
"""

import errno
import json
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO

import click
from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.cli.import_report import say_notes, today
from counterfoil.conversions import conversion_limits, known_bases, known_shops
from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.intake import Intake
from counterfoil.domain.loads import RejectedRows
from counterfoil.domain.shops import ShopSettings
from counterfoil.importer.protocol import ConversionRequest, InputFile, PosDatabase, StoredShop
from counterfoil.importing.formats import own_tables
from counterfoil.importing.mapping import KnownBase, merged, parse_mapping, read_mapping
from counterfoil.importing.orders import apis_of, list_names
from counterfoil.importing.results import REJECT_REASONS, ImportFailed
from counterfoil.importing.sentences import sentence
from counterfoil.ingest.checking import LenientLedger, checked_records
from counterfoil.ingest.conversion_process import (
    OWN_CONVERTER,
    ConversionFailed,
    ConversionLimits,
    DiskFull,
    UnknownExport,
    UnknownOrder,
)
from counterfoil.ingest.converted_exports import ConvertedExport, convert
from counterfoil.ingest.lines import KINDS, SourceLine
from counterfoil.ingest.sources import BUFFER_BYTES, File, Source, SourceError, SourceFiles
from counterfoil.machine.files import temporary_folder
from counterfoil.model.text import counted, printable
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.shop_settings import ShopSettingsError
from counterfoil.shop_settings import checked as checked_settings

TABLES = (".csv", ".tsv", ".txt", ".xlsx")
LINES = (".jsonl", ".ndjson")
_RECORD = re.compile(rb'"kind"\s*:\s*"(?:%b|reject)"' % "|".join(KINDS).encode())
MAX_NAMED = 5
NEEDS_ANSWERS = (
    "{name} needs answers: nobody has said yet what its columns mean. `counterfoil loads open` has the number of its "
    "item, and `counterfoil import --item NUMBER` asks."
)
NEEDS_ORDER = (
    "{name} needs answers: its dates do not show whether the day or the month comes first. `counterfoil loads open` "
    "has the number of its item, and `counterfoil import --item NUMBER` asks."
)
MAX_NAME = 60
Facts = Callable[[str], KnownFacts | None]
"""Returns what the store knows of a shop."""


class ExportRequest(Struct, kw_only=True):
    """How the operator wants exports to be converted."""

    mapping: Path | None = None
    mappings: Path | None = None
    shop: str | None = None
    base: str | None = None
    with_shops: bool = False
    franchise: str | None = None
    closing_time: str | None = None
    date_order: str | None = None
    timezone: str | None = None
    usual_timezone: str = "Asia/Bangkok"
    """The zone of new shops that a form proposes."""
    currency: str = "THB"
    converter: str | None = None

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
        content = read_mapping(self.mapping) if self.mapping else {}
        if self.date_order is not None:
            content = merged(content, {"dates": {"order": self.date_order}})
        if self.timezone is not None:
            content = merged(content, {"dates": {"timezone": self.timezone}})
        return content

    def conversion(
        self,
        shops: Sequence[StoredShop],
        bases: Sequence[KnownBase],
        files: Sequence[InputFile] = (),
        database: PosDatabase | None = None,
        *,
        format_name: str | None = None,
        joins: bool = False,
        is_of_folder: bool = False,
    ) -> ConversionRequest:
        """Return the request to convert files, or the bills of a database."""
        return ConversionRequest(
            files=tuple(files),
            database=database,
            format=format_name,
            mapping=self.content(),
            mapping_name=self.mapping_name,
            mappings=str(self.mappings.absolute()) if self.mappings else None,
            today=today(),
            currency=self.currency,
            shop=self.shop,
            timezone=self.timezone,
            usual_timezone=self.usual_timezone,
            with_shops=self.with_shops,
            joins=joins,
            is_of_folder=is_of_folder,
            is_order_sure=self.date_order is not None,
            shops=tuple(shops),
            base=self.base,
            bases=tuple(bases),
            max_cells=ConversionLimits().cells,
        )

    def command(self) -> Sequence[str]:
        """Return the command that converts: that of --converter, or our own."""
        return shlex.split(self.converter) if self.converter else OWN_CONVERTER


def facts_for_import(settings: Settings) -> Facts:
    """Return a function that reads what the store knows of a shop, such as its closing time, or None if it cannot."""

    def facts(shop_id: str) -> KnownFacts | None:
        try:
            return None if bootstrap.is_without_store(settings) else bootstrap.store(settings).reads().facts(shop_id)
        except (StoreUnavailable, StoreMismatch):
            return None

    return facts


IF_OTHER_SALES = "If they are other sales, import them again with --accept-change."


def other_ids(settings: Settings, export: Source) -> str | None:
    """Return a sentence if the store has the sales of an export under other IDs: those of orders, or of checks."""
    if bootstrap.is_without_store(settings):
        return None
    days: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in export.lines():
        record = json.loads(line.text)
        if record["kind"] == "bill":
            days.setdefault((record["shopId"], record["closedAt"][:10]), []).append(record)
    if not days:
        return None
    reads = bootstrap.store(settings).reads()
    dates = sorted(date.fromisoformat(day) for _, day in days)
    stored = {(of_day.shop_id, of_day.day.isoformat()): of_day.bills for of_day in reads.bills(dates[0], dates[-1])}
    for (shop, day), bills in days.items():
        bill_ids = [bill["id"] for bill in bills]
        orders: set[str] = set()
        for bill in bills:
            orders.update(bill.get("orderIds", ()))
        orders.difference_update(bill_ids)
        # A check names its order. Of an order, only the day shows that its checks may be there.
        if not orders and not reads.stored_bills(shop, bill_ids):
            count = stored.get((shop, day), 0)
        else:
            count = len(reads.stored_bills(shop, sorted(orders)))
        if count:
            return sentence(
                "Bills that the store has of shop {shop} on {day}: {count}, but none of this export. They may be the "
                "same sales with other IDs, from another file of the POS: an order, or its checks.",
                shop=printable(shop),
                day=day,
                count=f"{count:,}",
            )
    return None


def wrong_net(name: str) -> str:
    return (
        f"{name} was not loaded, because the net of most of its bills differs from their payments or lines. Check "
        "which column fills amounts.net."
    )


def wrong_total(export: ConvertedExport) -> str:
    """Return a sentence about the first total that the export states and its rows do not add up to."""
    wrong = export.tally.wrong_totals[0]
    stated = f"{wrong.column} is {wrong.stated:,f} in line {wrong.line}, but its rows add up to"
    return f"{export.name} was not loaded: {stated} {wrong.computed:,f}."


@contextmanager
def export_files(settings: Settings, request: ExportRequest) -> Iterator[SourceFiles]:
    """Yield the kinds of files that a load reads: source records, and exports that fit the mapping or are known."""
    request.new_shops()
    # A mapping that cannot be used would send all files to quarantine.
    parse_mapping(request.content(), request.mapping_name or "--timezone")
    own_tables(request.mappings)
    with temporary_folder("counterfoil-load-") as folder:
        yield ExportFiles(settings, request, folder)


class ExportFiles(SourceFiles, frozen=True):
    """The files of a watched folder that has exports, and how these are converted."""

    settings: Settings
    request: ExportRequest
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
        self._export: ConvertedExport | None = None
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
        return self._export.tally.rejected_rows(self.name) if self._export else RejectedRows()

    def close(self) -> None:
        if self._export:
            self._export.close()
            self._export = None

    def _all_lines(self) -> Iterator[SourceLine]:
        try:
            if self._export is None and self._problem is None:
                self._convert()
            if self._problem or self._export is None:
                raise SourceError(self._problem or "")
            for line in self._export.lines():
                yield SourceLine(self.name, line.number, line.text)
            if self._export.tally.rejected:
                raise SourceError(self._rejects_problem(self._export))
        except SourceError as error:
            self.damage[self.path] = str(error)
            raise
        finally:
            self.position = lambda: self.total or 0

    def _convert(self) -> None:
        """Convert the file, or set why none of its records may be loaded."""
        conversion = self._conversion
        try:
            with tempfile.TemporaryDirectory(dir=conversion.folder) as folder:
                self._export = self._converted(self._copied(Path(folder)))
            self._problem = self._why_not_loaded(self._export)
        except BaseException as error:
            # A later attempt begins anew.
            self.close()
            is_disk_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            if is_disk_full or isinstance(error, DiskFull):
                raise StoreUnavailable(
                    f"{self.name} cannot be converted, because the disk for temporary files is "
                    "full. Free up disk space, or set TMPDIR to another folder."
                ) from error
            if not isinstance(error, ConversionFailed | ImportFailed | SourceError):
                raise
            self._problem = str(error)
            if isinstance(error, UnknownExport):
                self.needs_answers, self.headings = True, error.headings
                self._problem = NEEDS_ANSWERS.format(name=self.name)
            elif isinstance(error, UnknownOrder) and conversion.request.mapping is None:
                self.needs_answers = True
                self._problem = NEEDS_ORDER.format(name=self.name)

    def _copied(self, folder: Path) -> Path:
        """Return a copy of the file. Messages name the file, so the copy has its name."""
        end = self.path.suffix.lower()
        copy = folder / (printable(self.path.name).replace("\\", "_")[: -len(end)][:MAX_NAME] + end)
        with self._open() as file, copy.open("wb") as out:
            while part := file.read(1 << 20):
                self.on_read()
                out.write(part)
        return copy

    def _converted(self, path: Path) -> ConvertedExport:
        conversion = self._conversion
        shops = known_shops(conversion.settings)
        bases = known_bases(conversion.settings)
        request = conversion.request.conversion(shops, bases, [InputFile(str(path))], is_of_folder=True)
        known = {shop.id for shop in shops}
        return convert(
            request,
            conversion_limits(conversion.settings),
            is_known=known.__contains__,
            new_shops=conversion.request.new_shops(),
            folder=conversion.folder,
            command=conversion.request.command(),
            on_wait=self.on_read,
        )

    def _why_not_loaded(self, export: ConvertedExport) -> str | None:
        conversion = self._conversion
        say_notes(export)
        same_sales = other_ids(conversion.settings, export) if export.has_other_ids else None
        if same_sales:
            return f"{same_sales} {IF_OTHER_SALES}"
        if export.tally.wrong_totals:
            return wrong_total(export)
        facts = facts_for_import(conversion.settings)
        if checked_records(export, LenientLedger(facts, Intake)).totals.report().mostly_differs:
            return wrong_net(self.name)
        return None

    def _rejects_problem(self, export: ConvertedExport) -> str:
        rows = counted(export.tally.rejected.total(), "row")
        # The log shows this text too, so it quotes nothing from the export.
        rejects = export.tally.first_rejects[:MAX_NAMED]
        named = " ".join(f"Line {row.line} {REJECT_REASONS[row.reason]}." for row in rejects)
        return f"{self.name}: {rows} could not be converted, and every bill with such a row is missing. {named}"
