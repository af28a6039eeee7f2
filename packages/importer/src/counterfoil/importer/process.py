"""Converts exports in a process of its own: one request in each line of standard input, answered on standard output."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from traceback import extract_tb
from typing import IO

import msgspec
from msgspec import UNSET, Raw

from counterfoil.importer import protocol
from counterfoil.importer.form import FormFiles, KnownShop, json_of
from counterfoil.importer.kept import KeptReadings
from counterfoil.importer.proposal import form
from counterfoil.importer.protocol import VERSION, Cause, ConversionRequest, FailedMessage
from counterfoil.importer.reading import headings_of
from counterfoil.importing.database import DatabaseImport, SavedState, SourceDatabase
from counterfoil.importing.formats import Export, open_export
from counterfoil.importing.mapping import parse_mapping
from counterfoil.importing.results import (
    BaseMissing,
    ExportTotals,
    Imported,
    ImportedRecord,
    ImportFailed,
    ImportNote,
    NotRecognised,
    OrderMissing,
    Reason,
    RejectedRow,
    ShopElsewhere,
    SkippedRow,
    ZoneMissing,
)
from counterfoil.importing.sentences import texts_of
from counterfoil.importing.sorted_rows import is_disk_full
from counterfoil.importing.tables import ImportOptions
from counterfoil.model.text import is_address, printable, scheme_of, use_address_form

# The load handles these signals, and then ends this process. A terminal sends them to both.
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PROGRESS_SEC = 0.5
# Cells are counted, because those of a workbook take more memory than its file says.
TOO_MANY_CELLS = "the export has more than {most:,} cells"
DATABASE = "database"
_encode_record = msgspec.json.Encoder().encode


class TooManyCells(Exception):
    """The export has more cells than the request allows."""


class AnswerWriter:
    """Writes the messages of one conversion, and counts what its end states."""

    def __init__(self, out: IO[bytes], max_cells: int) -> None:
        self._out = out
        self._max_cells = max_cells
        self._cells = 0
        self._rows = 0
        self._reported = time.monotonic()
        self._records = 0
        self._rejects = 0
        self._left_out = 0
        self._totals = 0
        self._net = Decimal()

    def write(self, message: protocol.Answer) -> None:
        self._out.write(protocol.encode(message) + b"\n")

    def result(self, result: Imported) -> None:
        """Write the message about a result, and count it."""
        match result:
            case ImportedRecord():
                self._records += 1
                if result.record["kind"] == "bill":
                    self._net += Decimal(str(result.record.get("amounts", {}).get("net", 0)))
                record = Raw(_encode_record(result.record))
                found = True if result.is_found_shop else UNSET
                self.write(protocol.RecordMessage(VERSION, result.file, result.line, record, found))
            case RejectedRow():
                self._rejects += 1
                bill = UNSET if result.bill is None else result.bill
                reason = Reason(result.reason)
                place = result.file, result.line, reason
                self.write(protocol.RejectMessage(VERSION, *place, result.detail, bill, texts_if_any(result.detail)))
            case SkippedRow():
                self._left_out += 1
                left = result.file, result.line, result.reason
                texts = texts_if_any(result.reason)
                self.write(protocol.LeftOutMessage(VERSION, *left, result.bills, result.net, texts))
            case ExportTotals():
                self._totals += 1
                amounts = result.stated, result.computed
                self.write(
                    protocol.TotalsMessage(VERSION, result.file, result.line, result.column, result.field, *amounts)
                )
            case ImportNote():
                self.write(protocol.NoteMessage(VERSION, result.text, texts=texts_if_any(result.text)))

    def count_cells(self, cells: int) -> None:
        self._rows += 1
        self._cells += cells
        if self._cells > self._max_cells:
            raise TooManyCells

    def report_progress(self) -> None:
        """Say that the export is being read. If the load has ended, writing fails, and so does the conversion."""
        now = time.monotonic()
        if now - self._reported >= PROGRESS_SEC:
            self._reported = now
            self.write(protocol.ProgressMessage(VERSION, self._rows))
            self._out.flush()

    def report_readings(self, readings: int) -> None:
        self.write(protocol.ProgressMessage(VERSION, self._rows, readings))
        self._out.flush()

    def form(self, files: FormFiles, request: ConversionRequest, kept: KeptReadings) -> None:
        """Write the form of the files with the answers of the request, and the end of a conversion without records."""
        shops = [
            KnownShop(
                id=shop.id,
                name=shop.name,
                franchise_id=shop.franchise_id,
                timezone=shop.timezone,
                closing_time=shop.closing_time,
            )
            for shop in request.shops
        ]
        kept.on_reading = self.report_readings
        found = form(
            files,
            request.answers or {},
            shops,
            request.bases,
            base=request.base,
            today=request.today,
            currency=request.currency.upper(),
            timezone=request.timezone,
            usual_timezone=request.usual_timezone,
            kept=kept,
        )
        self.write(protocol.FormMessage(VERSION, Raw(json_of(found))))
        self.write(protocol.EndMessage(VERSION, 0, 0, 0, 0, Decimal()))

    def end(self, export: "Export | DatabaseImport") -> None:
        counts = self._records, self._rejects, self._left_out, self._totals
        has_other_ids = isinstance(export, Export) and export.has_other_ids
        state = msgspec.to_builtins(export.state()) if isinstance(export, DatabaseImport) else UNSET
        self.write(protocol.EndMessage(VERSION, *counts, self._net, has_other_ids or UNSET, state))


def run() -> None:
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # The load blocks these signals while it starts this process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)
    # Whatever a library prints must not get between the messages.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=1 << 16)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    kept = KeptReadings()
    try:
        with out:
            for line in sys.stdin.buffer:
                if not _answer(line, out, kept):
                    return
    except BrokenPipeError:
        # The load has ended.
        os._exit(1)


def _answer(line: bytes, out: IO[bytes], kept: KeptReadings) -> bool:
    """Answer a request. Return False if this process cannot answer another one, because its memory is full."""
    failed = _convert(msgspec.convert(json.loads(line), ConversionRequest), out, kept)
    if failed:
        out.write(protocol.encode(failed) + b"\n")
    out.flush()
    return failed is None or failed.cause != "memory"


def _convert(request: ConversionRequest, out: IO[bytes], kept: KeptReadings) -> FailedMessage | None:
    """Write all messages about an export, or return why it cannot be converted."""
    answers = AnswerWriter(out, request.max_cells)
    if request.answers is None:
        # What was read for a form takes memory that a conversion may need.
        kept.forget()
    try:
        for result in _results(request, answers, kept):
            answers.result(result)
    except BrokenPipeError:
        raise
    except TooManyCells:
        return FailedMessage(VERSION, TOO_MANY_CELLS.format(most=request.max_cells), "cells")
    except OrderMissing as error:
        return FailedMessage(VERSION, str(error), "order", error.dates)
    except NotRecognised as error:
        return FailedMessage(VERSION, str(error), "unknown", headings=error.headings or UNSET, texts=_texts(error))
    except BaseException as error:  # noqa: BLE001 - a panic of a library in Rust is no `Exception`
        text, cause = _reason(error)
        texts = _texts(error) if isinstance(error, ImportFailed) else UNSET
        return FailedMessage(VERSION, text, cause, texts=texts)
    return None


def _texts(error: ImportFailed) -> protocol.Texts:
    return texts_if_any(error.args[0])


def texts_if_any(text: str) -> protocol.Texts:
    """Return what the sentences in a text were made of, or `UNSET` if there are none."""
    return texts_of(text) or UNSET


def _reason(error: BaseException) -> tuple[str, Cause]:
    """Return why a conversion failed. Only the text of an `ImportFailed` is shown, because others may quote values."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, MemoryError):
            return "the memory is full", "memory"
        cause = cause.__cause__ or cause.__context__
    if is_disk_full(error):
        return "the disk for temporary files is full", "disk"
    if isinstance(error, BaseMissing):
        return str(error), "base"
    if isinstance(error, ZoneMissing):
        return str(error), "zone"
    if isinstance(error, ImportFailed):
        return str(error), "export"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return error.name, "package"
    where = extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(where.filename).name}, line {where.lineno}", "error"


def _results(request: ConversionRequest, answers: AnswerWriter, kept: KeptReadings) -> Iterator[Imported]:
    options = ImportOptions(
        shop=request.shop,
        write_shops=request.with_shops,
        timezone=request.timezone,
        currency=request.currency.upper(),
        base=request.base,
        bases=request.bases,
        joins=request.joins,
        today=request.today,
        is_of_folder=request.is_of_folder,
        is_order_sure=request.is_order_sure,
        on_read=answers.report_progress,
        on_cells=answers.count_cells,
    )
    known = {shop.id for shop in request.shops}
    if request.database:
        state = _saved_state(request.database)
        checked = parse_mapping(request.mapping, request.mapping_name or DATABASE)
        with closing(_connected(request.database.url)) as source:
            database = DatabaseImport(source, checked, options, state)
            for note in database.notes:
                yield ImportNote(note[0].lower() + note[1:])
            yield from _known_shops(database.records(), known)
            answers.end(database)
        return
    paths: dict[str, list[Path]] = {"bills": [], "lines": [], "payments": []}
    for input_file in request.files:
        paths[input_file.kind].append(Path(input_file.path))
    own_mappings = Path(request.mappings) if request.mappings else None
    mapping = request.mapping, request.mapping_name
    if request.answers is not None:
        answers.form(FormFiles(*(tuple(paths[kind]) for kind in ("bills", "lines", "payments"))), request, kept)
        return
    given = paths["bills"], paths["lines"], paths["payments"]
    try:
        export = open_export(request.format, *given, *mapping, options, own_mappings)
    except NotRecognised as error:
        if request.is_of_folder:
            # It waits until somebody answers, so there must be something to ask about.
            error.headings = tuple(headings_of(paths["bills"][0]))
        raise
    for file in export.files:
        answers.write(
            protocol.NoteMessage(
                VERSION, file=printable(file.path.name), recognised=file.title, texts=texts_if_any(file.title)
            )
        )
    if request.preview and export.preview:
        first = export.preview()
        answers.write(protocol.PreviewMessage(VERSION, first.columns, first.rows))
    yield from _known_shops(export.records(), known)
    answers.end(export)


def _saved_state(database: protocol.PosDatabase) -> SavedState | None:
    try:
        return msgspec.convert(database.state, SavedState | None)
    except msgspec.ValidationError as error:
        text = f"the state of the last import cannot be used: {error}. Use --full to read the whole database again."
        raise ImportFailed(text) from error


def _known_shops(results: Iterator[Imported], known: set[str]) -> Iterator[Imported]:
    """Yield the results. Raise `ImportFailed` if nothing names the time zone of a new shop outside Thailand."""
    for result in results:
        if not isinstance(result, ShopElsewhere):
            yield result
        elif result.shop_id not in known:
            raise ZoneMissing(
                f"the times of {result.file} are not in the time zone of Bangkok, and the day of a bill depends on "
                "that of its shop. Name it with --timezone."
            )


def _connected(url: str) -> SourceDatabase:
    scheme = scheme_of(url)
    if scheme in ("postgresql", "postgres", "mysql", "mariadb") and not is_address(url):
        # A driver's error message may quote a part of such an address that contains the password.
        raise ImportFailed(f"the database address (--url) is not valid: {use_address_form(url)}.")
    if scheme in ("postgresql", "postgres"):
        from counterfoil.importing.postgres import PostgresSource  # noqa: PLC0415 - the driver is part of an extra

        return PostgresSource(url)
    if scheme in ("mysql", "mariadb"):
        from counterfoil.importing.mysql import MySqlSource  # noqa: PLC0415 - the driver is part of an extra

        return MySqlSource(url)
    raise ImportFailed("the database address (--url) must begin with postgresql:// or mysql://.")
