"""The steps of an import in the console: convert, ask, check, hand over. Each works on what an operator brought in.

The console reads no export and writes no bill. The importer's limited process converts, a process that can open no keys
checks, and the accepted records go to the watched folder or, without one, to such a process.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence, Set
from contextlib import closing, suppress
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.console.imports import (
    Asking,
    BroughtIn,
    Checked,
    DayReportNet,
    Failed,
    HandedOver,
    ReadingFiles,
    Stage,
)
from counterfoil.conversions import conversion_limits, known_bases, known_franchises, known_shops
from counterfoil.domain.acceptances import NO_DOUBTS, AcceptedRecords, ShownDoubts, accepted_item
from counterfoil.domain.open_items import OpenItem
from counterfoil.domain.shops import NOTHING_SET
from counterfoil.importer.form import Form
from counterfoil.importer.protocol import ConversionRequest, InputFile
from counterfoil.importer.shops.shop_questions import closing_question, group_question, order_form, zone_question
from counterfoil.importing.mapping import read_mapping
from counterfoil.importing.results import ExportTotals, ImportFailed, Reason
from counterfoil.importing.sentences import FormText, sentence, texts_of
from counterfoil.ingest.conversion_process import (
    OWN_CONVERTER,
    ConversionFailed,
    ConversionLimits,
    UnknownBase,
    UnknownExport,
    UnknownOrder,
    UnknownZone,
)
from counterfoil.ingest.converted_exports import ConvertedExport, convert, read_form
from counterfoil.machine.uploaded_files import safe_name
from counterfoil.model.calendar import quiet_closing
from counterfoil.model.control_totals import TotalsReport
from counterfoil.model.messages import Message, MessageError, quoted
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.remembered_mappings import mapping_name, mappings_folder
from counterfoil.settings import TABLE, Settings, SettingsError

LOADER = "counterfoil.cli.keyless_load"
# Files whose names end so are not loaded yet.
UNFINISHED = ".part"
MAX_PROBLEM = 600
READ_BYTES = 1 << 20
NO_RESULT = Message(
    "no_result",
    "The process that compares and loads records ended without a result (exit status {status}). If the status is -9, "
    "the machine had too little memory.",
)
CANNOT_READ = Message("cannot_read_files", "The files cannot be read: {why}.")
READING_FAILED = Message("reading_failed", "The files cannot be read ({where}). Please report it.")
# The exit statuses of a load that rejected some records, and of one that differs sharply from earlier ones.
SOME_REJECTED, SUDDEN_CHANGE = 3, 6

# Exports may take much memory, so they are converted one after the other.
_converting = threading.Lock()


class _Discarded(Exception):
    """The operator has discarded the files meanwhile, or the console stops."""


class _LoaderResult(Struct, rename="camel"):
    """What the process says that checks or loads."""

    load: int
    totals: TotalsReport
    rejected: int
    doubts: list[str]
    texts: list[FormText] = []
    """What the doubts were made of."""
    shown: ShownDoubts = NO_DOUBTS
    compared_with: str = ""


class _LoadHeld(Exception):
    """The records differ sharply from earlier ones, or would replace other bills. Nothing of them is loaded."""

    def __init__(self, doubts: Sequence[str], texts: Sequence[FormText], shown: ShownDoubts) -> None:
        super().__init__(*doubts)
        self.doubts = tuple(doubts)
        self.texts = tuple(texts)
        self.shown = shown


def begin_reading(settings: Settings, brought: BroughtIn) -> threading.Thread:
    """Convert the files in another thread, with all answers that were given. The stage says what comes of it."""
    brought.stage = ReadingFiles()
    brought.rows = brought.readings = brought.records = brought.line = brought.compared = 0
    thread = threading.Thread(target=_read, args=(settings, brought), name="import", daemon=True)
    thread.start()
    return thread


def _read(settings: Settings, brought: BroughtIn) -> None:
    try:
        # One thread at a time: the operator may send answers twice.
        with brought.lock, _converting:
            _require_kept(brought)
            brought.stage = _next_stage(settings, brought)
    except _Discarded:
        brought.delete_files()
    except (ConversionFailed, ImportFailed, StoreUnavailable, StoreMismatch, SettingsError) as error:
        brought.stage = _failed(error)
    except OSError as error:
        brought.stage = Failed(problem=CANNOT_READ(why=str(error.strerror)))
    except Exception as error:  # noqa: BLE001 - its message may have values of the file
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"
        sys.stderr.write(f"counterfoil console: an import failed ({where}).\n")
        brought.stage = Failed(problem=READING_FAILED(where=where))


def _failed(error: MessageError, accepted_as: str | None = None) -> Failed:
    """Return why files cannot be converted or loaded, in words of which a converter may have written too many."""
    text = str(error)
    if len(text) > MAX_PROBLEM:
        return Failed(problem=quoted(text[:MAX_PROBLEM]), accepted_as=accepted_as)
    texts = error.texts if isinstance(error, ConversionFailed) else texts_of(*error.args)
    return Failed(problem=error.message.as_sentence(), texts=texts, accepted_as=accepted_as)


def _require_kept(brought: BroughtIn) -> None:
    if brought.is_discarded:
        raise _Discarded


def _next_stage(settings: Settings, brought: BroughtIn) -> Stage:
    if not brought.is_unknown:
        try:
            return _known(settings, brought)
        except UnknownExport:
            brought.is_unknown = True
        except UnknownBase:
            return Asking(needs="base", choices=tuple(base.id for base in known_bases(settings)))
        except UnknownZone:
            return Asking(needs="timezone")
        except UnknownOrder as unknown:
            return Asking(form=order_form(unknown.dates))
    if len(brought.files) > 1 and not brought.has_kinds:
        return Asking(needs="kinds")
    brought.stage = ReadingFiles(is_asking=True)

    def note_reading(readings: int) -> None:
        brought.readings = readings

    form = read_form(
        replace(_request(settings, brought), answers=dict(brought.answers)),
        conversion_limits(settings),
        on_wait=lambda: _require_kept(brought),
        on_reading=note_reading,
    )
    brought.answers = dict(form.answers)
    if form.questions or form.refused or form.advice:
        return Asking(form=form)
    brought.stage = ReadingFiles()
    return _with_mapping(settings, brought, form)


def _known(settings: Settings, brought: BroughtIn) -> Stage:
    """Return the next stage of an export of a known till, or of one that was accepted before.

    Its records are kept while a person answers, because a large file takes minutes to convert.
    """
    known = {shop.id for shop in known_shops(settings)}
    if brought.export and not known.isdisjoint(brought.export.tally.new_shops):
        # Another file has brought in some of these shops meanwhile.
        brought.forget_export()
    export = brought.export or _converted(settings, brought, replace(_request(settings, brought), preview=True))
    brought.export = export
    asked = _asked_of_rejects(export, brought, known)
    if asked:
        return asked
    if export.tally.new_shops and brought.facts is None:
        franchises = known_franchises(settings)
        zone = brought.said.get("timezone", settings.timezone)
        questions = [zone_question(zone, "")] if export.has_shop_without_zone else []
        questions.append(group_question(len(export.tally.new_shops), franchises))
        questions.append(closing_question(quiet_closing(export.bill_hours(zone))))
        return Asking(new_shops=tuple(export.tally.new_shops), questions=tuple(questions), preview=export.preview)
    export.describe_new_shops(brought.facts or NOTHING_SET)
    return _checked(settings, brought, export, None)


def _asked_of_rejects(export: ConvertedExport, brought: BroughtIn, known_shops: Set[str]) -> Asking | None:
    """Return the question whose answer could make bills of the rows, if all are rejected for the same reason."""
    if export.tally.bills or export.tally.members:
        return None
    rejected = export.tally.rejected
    if rejected[Reason.OTHER_CURRENCY] == rejected.total() > 0:
        return Asking(needs="currency", refused=brought.said.get("currency"), preview=export.preview)
    if rejected[Reason.NO_SHOP] == rejected.total() > 0:
        return Asking(needs="shop", choices=tuple(sorted(known_shops)), preview=export.preview)
    return None


def _with_mapping(settings: Settings, brought: BroughtIn, form: Form) -> Stage:
    """Convert the files with the mapping of a complete form. Its totals must be those that the form shows."""
    path = brought.folder / mapping_name(brought.files[0].path)
    path.write_text(form.mapping, "utf-8")
    request = replace(
        _request(settings, brought), mapping=read_mapping(path), mapping_name=path.name, with_shops=False, timezone=None
    )
    export = _converted(settings, brought, request)
    try:
        totals = form.totals
        if totals is not None and not form.is_sample and export.tally.bills != totals.bills:
            raise ConversionFailed(
                Message(
                    "form_and_conversion",
                    "{bills} bills in the form, but {converted} converted. Please report it.",
                    bills=f"{totals.bills:,}",
                    converted=f"{export.tally.bills:,}",
                )
            )
        return _checked(settings, brought, export, form)
    finally:
        export.close()


def _request(settings: Settings, brought: BroughtIn) -> ConversionRequest:
    files = [
        InputFile(str(file.path), kind)
        for file, kind in sorted(zip(brought.files, brought.kinds, strict=True), key=_of)
    ]
    mappings = mappings_folder(settings, None)
    said = brought.said
    request = ConversionRequest(
        files=tuple(files),
        mappings=str(mappings.absolute()) if mappings else None,
        today=_today(),
        shop=said.get("shop"),
        timezone=said.get("timezone"),
        usual_timezone=settings.timezone,
        with_shops=True,
        shops=tuple(known_shops(settings)),
        base=said.get("base"),
        bases=tuple(known_bases(settings)),
        max_cells=ConversionLimits().cells,
    )
    if "order" in brought.answers and not brought.is_unknown:
        request = replace(request, mapping={"dates": {"order": brought.answers["order"]}}, is_order_sure=True)
    return replace(request, currency=said["currency"]) if "currency" in said else request


def _of(pair: tuple[object, str]) -> int:
    return ("bills", "lines", "payments").index(pair[1])


def _today() -> date:
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).date()


def _converted(settings: Settings, brought: BroughtIn, request: ConversionRequest) -> ConvertedExport:
    known = {shop.id for shop in request.shops}

    if brought.lines is None:
        brought.lines = _lines_in([file.path for file in brought.files])

    def note_progress(rows: int) -> None:
        brought.rows = rows

    def note_records(records: int, line: int) -> None:
        brought.records = records
        brought.line = line

    return convert(
        request,
        conversion_limits(settings),
        is_known=known.__contains__,
        folder=brought.folder,
        command=OWN_CONVERTER,
        on_wait=lambda: _require_kept(brought),
        on_progress=note_progress,
        on_records=note_records,
    )


def _lines_in(paths: Sequence[Path]) -> int | None:
    """Return how many lines these files have, or None if one of them is no text."""
    lines = 0
    for path in paths:
        with path.open("rb") as file:
            while part := file.read(READ_BYTES):
                if b"\0" in part:
                    return None
                lines += part.count(b"\n")
    return lines


# --- check ------------------------------------------------------------------------------


def _checked(settings: Settings, brought: BroughtIn, export: ConvertedExport, form: Form | None) -> Stage:
    """Write the records, and let another process compare them with the store."""
    brought.stage = ReadingFiles(is_comparing=True)
    name = f"{safe_name(brought.files[0].path.name)}.{brought.import_id}.ndjson"
    records = brought.folder / name
    with os.fdopen(os.open(records, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=1 << 20) as out:
        lines = 0
        for line in export.lines():
            out.write(line.text + b"\n")
            lines += 1
    tally = export.tally
    doubts = [_wrong_total(total) for total in tally.wrong_totals]
    with records.open("rb") as opened:
        process = _start_loader(settings, "check", opened, ["--other-ids"] if export.has_other_ids else [])
        result = _result_of(process, brought, compared=opened)
    texts = (*texts_of(doubts), *result.texts)
    doubts += result.doubts
    return Checked(
        form=form,
        preview=export.preview,
        tally=tally,
        notes=tuple(export.notes),
        totals=result.totals,
        rejected=result.rejected,
        doubts=tuple(doubts),
        texts=texts,
        shown=result.shown,
        compared_with=result.compared_with,
        records=records,
        lines=lines,
    )


def _wrong_total(total: ExportTotals) -> str:
    return sentence(
        "{file}, line {line}: the file states that {column} is {stated}, but its rows add up to {computed}.",
        file=total.file,
        line=total.line,
        column=total.column,
        stated=f"{total.stated:,f}",
        computed=f"{total.computed:,f}",
    )


def difference_of(expected: DayReportNet, totals: TotalsReport) -> Decimal:
    """Return by how much the net of the files differs from the net that the till states."""
    if expected.day is None:
        found = Decimal(totals.net)
    else:
        found = sum((Decimal(day.net) for day in totals.days if day.day == expected.day), Decimal(0))
    return found - Decimal(expected.net)


def amount_in(text: str) -> str | None:
    """Return an amount such as `1,234.50` without its separators, or None if it is none."""
    plain = text.strip().replace(",", "").replace(" ", "")
    try:
        amount = Decimal(plain)
    except InvalidOperation:
        return None
    return plain if amount.is_finite() and len(plain) <= 20 else None


# --- hand over --------------------------------------------------------------------------


def hand_over(settings: Settings, brought: BroughtIn, checked: Checked, now: int, *, is_accepted: bool) -> None:
    """Give the records to the watcher, or to a process of our own. Raise `OSError` if they cannot be given.

    `is_accepted` says that the operator has seen the doubts.
    """
    folder = Path(settings.console_deliveries).expanduser() if settings.console_deliveries else None
    handed = HandedOver(
        name=checked.records.name,
        folder=folder,
        totals=checked.totals,
        tally=checked.tally,
        at=now,
        lines=checked.lines,
    )
    if folder is not None:
        shown = checked.shown if is_accepted else NO_DOUBTS
        _add_item(settings, accepted_item(handed.name, _accepted(checked, shown)))
        try:
            _deliver(checked.records, folder)
        except OSError:
            _close_item(settings, handed.name)
            raise
        brought.stage = handed
        brought.delete_files()
        return
    arguments = ["--accept-change"] if is_accepted else []
    # Until the load begins, the item is all that says that somebody has accepted the file.
    _add_item(settings, accepted_item(handed.name))
    try:
        with checked.records.open("rb") as opened:
            process = _start_loader(settings, "load", opened, arguments)
    except OSError:
        _close_item(settings, handed.name)
        raise
    brought.stage = handed
    work = (settings, brought, checked, handed, process)
    brought.loader = threading.Thread(target=_load, args=work, name="load", daemon=True)
    brought.loader.start()


def _add_item(settings: Settings, item: OpenItem) -> None:
    with closing(bootstrap.store(settings).ledger()) as ledger:
        ledger.add_items([item])


def _accepted(checked: Checked, shown: ShownDoubts) -> AcceptedRecords:
    with checked.records.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return AcceptedRecords(digest, checked.records.stat().st_size, shown, checked.compared_with)


def _deliver(records: Path, folder: Path) -> None:
    """Copy the records to the watched folder. They get their name when they are complete."""
    draft = folder / f".{records.name}{UNFINISHED}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        with os.fdopen(descriptor, "wb") as out, records.open("rb") as source:
            # The watcher may be another user, who reads them as a member of the folder's group.
            os.fchmod(descriptor, 0o640)
            shutil.copyfileobj(source, out, 1 << 20)
            out.flush()
            os.fsync(descriptor)
        draft.rename(folder / records.name)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _load(
    settings: Settings, brought: BroughtIn, checked: Checked, handed: HandedOver, process: "subprocess.Popen[bytes]"
) -> None:
    """Wait for the process that loads. If its load has not begun, the item of the file says why."""
    try:
        result = _result_of(process, brought, compared=None)
    except _LoadHeld as held:
        _close_item(settings, handed.name)
        brought.stage = replace(checked, doubts=held.doubts, texts=held.texts, shown=held.shown)
        return
    except ConversionFailed as error:
        brought.stage = _failed(error, accepted_as=handed.name)
        _change_item(settings, handed.name, reason=str(error))
    else:
        brought.stage = replace(handed, load=result.load)
    brought.delete_files()


def _close_item(settings: Settings, name: str) -> None:
    """Close the item of a file that was accepted, because a person decides about the file again."""
    _change_item(settings, name, closed_by="discarded")


def _change_item(settings: Settings, name: str, **changes: str) -> None:
    """Change the item of a file that was accepted, if its load has not begun."""
    identity = accepted_item(name).identity
    # If the store is not available, the item stays as it is, and is due after a while.
    with suppress(StoreUnavailable, StoreMismatch):
        items = [item for item in bootstrap.store(settings).reads().open_items() if item.identity == identity]
        with closing(bootstrap.store(settings).ledger()) as ledger:
            ledger.change_items([replace(item, **changes) for item in items])


def _start_loader(
    settings: Settings, action: str, records: BinaryIO, arguments: Sequence[str]
) -> "subprocess.Popen[bytes]":
    """Start the process that checks or loads. It needs neither the console nor the path of the records any more."""
    command = [sys.executable, "-P", "-m", LOADER, action, *arguments, Path(records.name).name]
    return subprocess.Popen(
        command,
        stdin=records,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(settings),
        # Ctrl-C in a terminal stops the console, and not a load that a person has accepted.
        start_new_session=action == "load",
    )


def _result_of(process: "subprocess.Popen[bytes]", brought: BroughtIn, *, compared: BinaryIO | None) -> _LoaderResult:
    """Return what the process says when it ends. Raise `ConversionFailed` if it has failed.

    `compared` is the file that a check reads, of which the page says how much is compared.
    """
    is_check = compared is not None
    while True:
        try:
            printed, said = process.communicate(timeout=0.25)
            break
        except subprocess.TimeoutExpired:
            if compared:
                # The process reads the same open file, so its position is ours, too.
                size = os.fstat(compared.fileno()).st_size
                position = os.lseek(compared.fileno(), 0, os.SEEK_CUR)
                brought.compared = max(brought.compared, 100 * position // max(size, 1))
            # A load goes on, also if nobody follows it any more.
            if brought.is_discarded and is_check:
                process.terminate()
    if brought.is_discarded and is_check:
        raise _Discarded
    try:
        result = msgspec.json.decode(printed, type=_LoaderResult)
    except msgspec.MsgspecError:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        if not lines:
            raise ConversionFailed(NO_RESULT(status=process.returncode)) from None
        raise ConversionFailed(lines[-1].removeprefix("counterfoil: ")) from None
    if not is_check and process.returncode == SUDDEN_CHANGE:
        raise _LoadHeld(result.doubts, result.texts, result.shown)
    return result


def _environment(settings: Settings) -> dict[str, str]:
    """Return the environment in which another process of ours has the same settings."""
    values = {setting.variable: str(getattr(settings, setting.name)) for setting in TABLE}
    values["COUNTERFOIL_STORE"] = settings.database or str(settings.store)
    values["COUNTERFOIL_STORE_FILE"] = ""
    return {**os.environ, **values}
