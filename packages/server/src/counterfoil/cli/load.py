"""`counterfoil load`: load source records into the store, or files as they are delivered to a folder."""

import errno
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, TypeVar

import click
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.cli import load_run
from counterfoil.cli.load_run import LoadReport
from counterfoil.cli.options import (
    EXPORT_OPTIONS,
    export_option,
    refuse_without_effect,
    setting_option,
    setting_options,
    settings_from,
    store_options,
    utc_option,
)
from counterfoil.cli.totals import ExpectedNet, expect_net_option, net_differences
from counterfoil.domain.acceptances import accepted_item, accepted_records, shown_doubts
from counterfoil.domain.deliveries import DeliveryPreview, DeliverySketch
from counterfoil.domain.intake import HEARTBEAT_MS
from counterfoil.domain.open_items import STANDARD_INPUT, OpenItem
from counterfoil.ingest import sources
from counterfoil.ingest.checking import RejectExamples
from counterfoil.ingest.pipeline import RejectsFile, Summary
from counterfoil.ingest.sources import ConvertedFile, File, FileSet, SourceError, SourceFiles, SourceList
from counterfoil.ingest.spool import Spool, own_folder, quarantined
from counterfoil.ingest.watching import NOT_LOADED, FolderWatch, not_source
from counterfoil.model.calendar import iso_utc
from counterfoil.model.text import printable
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import FAILED, INTERRUPTED, Command
from counterfoil.program.paths import UserPath
from counterfoil.program.process import SignalSafeEvent, signals_handled, stop_signals
from counterfoil.program.terminal import echo, print_json, print_message
from counterfoil.program.times import second
from counterfoil.settings import Settings, SettingsError


class LoadOptions(Struct, frozen=True, kw_only=True):
    sources: tuple[str, ...]
    rejects: Path | None
    strict: bool
    check: bool
    quarantine: Path | None
    accept_change: bool
    is_confirmed: bool = False
    """Whether the operator was asked about a sudden change, and accepted it."""
    expect_net: tuple[ExpectedNet, ...]
    exports: bool
    conversion: dict[str, Any]
    """How the exports of a watched folder are converted: the fields of `ExportRequest`."""
    watch: Path | None
    delete_loaded: bool
    as_json: bool

    @property
    def has_exports(self) -> bool:
        return self.exports or any(self.conversion[name] is not None for name in ("mapping", "converter"))


@click.command(
    cls=Command,
    groups={
        "What a delivery must be": ("--strict", "--expect-net", "--rejects", "--quarantine"),
        "A watched folder": ("--kept", "--delete-loaded", "--exports", "--mapping", "--mappings", "--converter"),
        "Exports in that folder": (
            "--with-shops",
            "--franchise",
            "--closing-time",
            "--shop",
            "--base",
            "--date-order",
            "--timezone",
            "--currency",
        ),
        "Output and speed": ("--json", "--utc", "--batch", "--converters"),
    },
)
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("--strict", is_flag=True, help="Reject records that have unknown fields or unreadable values.")
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; show unknown fields, unreadable values and examples of lines that would be rejected.",
)
@click.option(
    "--accept-change",
    is_flag=True,
    help="Load the records even if they differ sharply from earlier ones or replace stored bills, and "
    "accept the change as normal. Without SOURCE, accept the change in the latest loads.",
)
@expect_net_option
@click.option(
    "--exports",
    is_flag=True,
    help="With --watch: also convert and load exports of the formats that `import` recognises.",
)
@export_option(
    "mapping",
    "With --watch: also convert and load exports of a POS (CSV, xlsx, JSON) with this mapping; see "
    "`counterfoil import`.",
)
@export_option(
    "base",
    "With --mapping or --exports: the membership base of all members of a table or, with --with-shops, of new shops.",
)
@export_option("with_shops", "With --mapping or --exports: add new shops that the exports name.")
@export_option("franchise", "With --with-shops: the franchise of new shops, so that one key can read all of them.")
@export_option(
    "closing_time", "With --with-shops: when the last bills of a business day are closed in new shops, such as 04:00."
)
@click.option(
    "--watch",
    type=UserPath(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Load files as they are delivered to this folder, until stopped. Loaded files are moved to `done`, "
    "unreadable files to `quarantine`, files that differ sharply to `held`, all in the folder of "
    "--kept or, without it, in DIR.",
)
@click.option("--delete-loaded", is_flag=True, help="With --watch: delete files after they are loaded.")
@utc_option
@store_options
@setting_options("batch", "converters")
@setting_option("kept", UserPath(file_okay=False), "DIR")
@click.option(
    "--rejects",
    type=UserPath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write rejected lines to FILE, which must not exist yet. [default: a new file in STORE/rejects]",
)
@click.option(
    "--quarantine",
    type=UserPath(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Move files that cannot be read or are not source record files to this folder. If any are moved, "
    "the exit status is 3.",
)
@export_option(
    "mappings", "With --exports: folder of your own mappings whose [recognise] says which files they are for."
)
@export_option("shop", "With --mapping or --exports: the shop that all bills belong to. [default: as in the export]")
@export_option("date_order", "With --mapping or --exports: order of day, month and year in dates.")
@export_option("timezone", "With --mapping or --exports: time zone of times without an offset. [default: the shop's]")
@export_option(
    "currency", "With --exports: currency of Square and Clover orders; orders in another currency are rejected."
)
@export_option("converter", "With --watch: also convert and load exports with this command; see docs/converters.md.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Load source records (NDJSON or JSON, also .gz or .zst) from files, folders, or `-` for standard input.

    Loading the same records twice is safe. To resume an interrupted load, run the same command again. A delivery
    that differs sharply from earlier ones, or would replace stored bills by others, is not loaded unless you accept
    it.

    Exit status: 0 if all lines were loaded, 3 if some lines or links were rejected, 6 if nothing was loaded because
    of such a change, 1 if the load failed or the net is not the one of --expect-net, 130 if it was interrupted.
    """
    settings = settings_from(**{name: options.pop(name) for name in ("batch", "converters", "kept")})
    conversion = {name: options.pop(name) for name in EXPORT_OPTIONS}
    given = LoadOptions(conversion=conversion, **options)
    is_named = {name: ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE for name in conversion}
    if any(is_named.values()) and not given.has_exports:
        named = ", ".join(f"--{name.replace('_', '-')}" for name, is_given in is_named.items() if is_given)
        raise click.UsageError(f"{named} can be used only with --mapping, --exports or --converter.")
    if given.has_exports and not given.watch:
        option = "--mapping FILE " if given.conversion["mapping"] else ""
        raise click.UsageError(
            "exports are converted by `load` only in a folder that it watches (--watch). Load an export with: "
            f"counterfoil import {option}EXPORT --load"
        )
    if not given.watch:
        refuse_without_effect("it is for the files of a folder that --watch names.", "--kept", "--delete-loaded")
    if given.check and not given.watch and (given.quarantine or given.rejects or given.accept_change):
        raise click.UsageError(
            "--check changes nothing, so it cannot be combined with --rejects, --quarantine or --accept-change."
        )
    if given.watch:
        with _watched_kinds(settings, given) as kinds:
            _watch(settings, given, given.watch, kinds)
    elif given.sources:
        return _check_and_load(settings, given)
    elif not given.accept_change:
        raise click.UsageError("Missing argument 'SOURCE...'.")
    else:
        load_run.print_accepted(load_run.accept_change(settings), given.as_json)
    return 0


def _watched_kinds(settings: Settings, given: LoadOptions) -> AbstractContextManager[SourceFiles]:
    """Return the kinds of files that are loaded: source records and, with a mapping or --exports, exports of a POS."""
    if not given.has_exports:
        return nullcontext(sources.SOURCE_RECORDS)
    # Measured: with the importer, a load of source records would take half as long again to start.
    from counterfoil.cli.load_exports import ExportRequest, export_files  # noqa: PLC0415
    from counterfoil.remembered_mappings import watched_mappings  # noqa: PLC0415

    request = ExportRequest(**given.conversion)
    if given.exports:
        request.mappings = watched_mappings(settings, request.mappings)
    return export_files(settings, request)


def _check_and_load(settings: Settings, given: LoadOptions) -> int:
    """Load the sources. If there is something to compare them with, check them before anything is written."""
    is_compared = not given.accept_change and load_run.is_checked_first(settings)
    if given.check or not (given.expect_net or is_compared):
        return _load(settings, given, None)
    with _copied_input(given.sources) as copy:
        status = _load(settings, replace(given, check=True, rejects=None), copy, is_before_load=True)
        if status in (FAILED, INTERRUPTED):
            return status
        if status == load_run.SUDDEN_CHANGE and not given.accept_change:
            load_run.require_acceptance(may_ask=not given.as_json and "-" not in given.sources)
            given = replace(given, accept_change=True, is_confirmed=True)
        return _load(settings, given, copy)


@contextmanager
def _copied_input(names: Sequence[str]) -> Iterator[File | None]:
    """Yield a copy of standard input in a temporary file without a name, because it is read twice."""
    if "-" not in names or sys.stdin is None:
        yield None
        return
    with sources.copied(sys.stdin.buffer, "standard input") as copy:
        yield File(Path(STANDARD_INPUT), os.fstat(copy.fileno()).st_size, lambda: sources.opened_again(copy))


def _load(settings: Settings, given: LoadOptions, copy: File | None, *, is_before_load: bool = False) -> int:
    """Load the sources and return the exit status. A check before a load prints only why nothing is loaded."""
    quarantine = given.quarantine
    if quarantine and quarantine.exists():
        os.close(own_folder(str(quarantine)))
    opened = partial(sources.open_source, may_have_other_files=quarantine is not None)
    records = SourceList([copy if copy and name == "-" else opened(name) for name in given.sources])
    report = LoadReport(
        summary=Summary(source=records.name),
        rejects=_rejects_file(settings, given, records.name),
        records=records,
        quarantines=quarantine is not None,
        before_load=is_before_load,
    )
    try:
        load_run.run_load(settings, report, strict=given.strict, is_guarded=not given.accept_change)
    except (SourceError, StoreUnavailable) as error:
        is_loaded = is_before_load and not given.expect_net
        if not isinstance(error, SourceError) or not records.damage or not (quarantine or is_loaded):
            if report.summary.lines:
                load_run.print_report(report, given.as_json)
            raise
        # The load says what is damaged.
        if not is_before_load:
            print_message(str(error))
    if quarantine and not (report.interrupted or report.check):
        report.quarantined = _quarantine(settings, report, quarantine)
    if given.accept_change and not (report.interrupted or report.check):
        report.accepted = load_run.accept_change(settings, report.summary, is_confirmed=given.is_confirmed)
    summary = report.summary
    differences = [] if report.interrupted else net_differences(given.expect_net, summary.totals)
    is_wrong = bool(summary.rejected or report.quarantined or records.refused)
    status = FAILED if differences else load_run.exit_status(report, is_wrong=is_wrong)
    if status in (FAILED, load_run.SUDDEN_CHANGE) or not is_before_load:
        load_run.print_report(report, given.as_json)
    for difference in differences:
        print_message(difference)
    return status


def _quarantine(settings: Settings, report: LoadReport, quarantine: Path) -> list[OpenItem]:
    """Move the files that were not loaded to the quarantine, except unfinished ones, and open items about them."""
    records = report.records
    refused = {path: f"{printable(path.name)} is {kind}." for path, kind in records.refused.items()}
    reasons = {**records.damage, **{path: not_source(path.name) for path in records.ignored}, **refused}
    items = [replace(item, load=report.summary.load) for item in quarantined(reasons, quarantine)]
    if items:
        with closing(bootstrap.store(settings).ledger()) as ledger:
            ledger.add_items(items)
    return items


def _rejects_file(settings: Settings, given: LoadOptions, source: str) -> RejectsFile:
    if given.check:
        return RejectExamples()
    if not given.rejects:
        return load_run.new_rejects_file(settings, source)
    if given.rejects.exists():
        # It may contain earlier rejects, or be a source of this load.
        raise click.BadParameter(f"{given.rejects} already exists. Choose a new file name.", param_hint="--rejects")
    return RejectsFile(given.rejects)


# --- watching a folder ----------------------------------------------------------------

Result = TypeVar("Result")

POLL_SEC = 1.0
REPLACED = ("replaced", "")
ACCEPTED_BEFORE = "This was not shown when the file was accepted in the console."
FIRST_RETRY_SEC, LAST_RETRY_SEC = 1.0, 60.0


@contextmanager
def _set_by_signals(stop: SignalSafeEvent) -> Iterator[None]:
    """Let the first signal set the event. A second one interrupts the watcher at once."""

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's signature
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    # The system sends SIGIO if a program opens a file for writing just while the spool checks whether one does.
    ignored = signals_handled([signal.SIGIO], signal.SIG_IGN)
    with signals_handled([*stop_signals(), signal.SIGINT], handle), ignored:
        yield


def _watch(settings: Settings, given: LoadOptions, folder: Path, kinds: SourceFiles) -> None:
    """Load every file that is delivered to the folder, until a signal arrives."""
    if given.sources or given.check or given.rejects or given.accept_change or given.expect_net:
        raise click.UsageError(
            "--watch cannot be used with SOURCE, --check, --rejects, --accept-change or --expect-net."
        )
    stop = SignalSafeEvent()
    kept = Path(settings.kept).expanduser() if settings.kept else None
    spool = Spool(folder, kept, given.quarantine, _say)
    with spool.locked(), _set_by_signals(stop):
        echo(f"{_now()}  Watching {folder}. {NOT_LOADED} Stop with Ctrl-C or SIGTERM.", err=True)
        loader = StoreLoader(settings, folder, stop, strict=given.strict, as_json=given.as_json)
        watcher = FolderWatch(spool, loader, _say, loader.steady_ms, delete=given.delete_loaded, kinds=kinds)
        spool.on_read = loader.on_read
        loader.meanwhile = watcher.take_files_beside
        loader.problem = watcher.problem
        loader.heartbeat(spool=spool)
        while not stop.is_set():
            try:
                has_moved = watcher.take_files()
                if not has_moved:
                    watcher.carry_out()
            except KeyboardInterrupt:
                # A signal has arrived while a file was moved to another file system, or compared.
                if stop.is_set():
                    break
                raise
            if not has_moved:
                loader.report_if_due()
                stop.wait(POLL_SEC)
        loader.heartbeat(is_stopped=True)
        echo(f"{_now()}  Stopped. Files that have not been loaded yet stay in the folder.", err=True)


def _now() -> str:
    return second(SystemClock().now_ms())


def _say(text: str) -> None:
    print_message(f"{_now()}  {text}")


class StoreLoader:
    """Loads the files of one watched folder into the store, and reports to it that the watcher is running."""

    def __init__(
        self, settings: Settings, folder: Path, stop: SignalSafeEvent, *, strict: bool = False, as_json: bool = False
    ) -> None:
        self._settings = settings
        self._stop = stop
        self._strict = strict
        self._as_json = as_json
        self._name = printable(str(folder.resolve()))
        self._reported = 0.0
        self._clock = SystemClock()
        self._latest: LoadReport | None = None
        self._failure: OSError | None = None
        # What held files would change, by their delivered names, until their items are stored.
        self._previews: dict[str, DeliveryPreview] = {}
        self.meanwhile: Callable[[], None] = lambda: None
        """Called regularly during a load."""
        self.problem: Callable[[], str] = str
        """Returns why something that was delivered cannot be taken, or an empty string."""

    def steady_ms(self) -> int:
        return self._clock.steady_us() // 1000

    def load(self, files: FileSet, *, is_beside: bool, is_accepted: bool = False) -> bool:
        handed_over = None if is_accepted else self._retried(lambda: self._handed_over(files))
        if handed_over is None and not is_accepted:
            return False
        if handed_over:
            if len(files.files) > 1:
                return self._load_each(files, is_beside=is_beside)
            is_ended = self._load_handed_over(files, handed_over[0], is_beside=is_beside)
            if is_ended is not None:
                return is_ended
        if not is_accepted:
            held = self._retried(lambda: self._alarming(files, is_beside=is_beside))
            if held is None or self._stop.is_set():
                return False
            files.held = held
            self._preview(files, is_beside=is_beside)
            files.files = [file for file in files.files if file.path not in held]
            if not files.files:
                self._latest = None
                return True
        self._latest = self._retried(lambda: self._load(files, is_beside=is_beside, is_accepted=is_accepted))
        if self._latest is None or self._latest.interrupted:
            return False
        return self._load_alone(files, is_beside=is_beside) if self._latest.is_stopped else True

    def _load_alone(self, files: FileSet, *, is_beside: bool) -> bool:
        """Load each file alone, because one would replace bills of another, or of the store since the check."""
        if len(files.files) == 1 and self._latest:
            (file,) = files.files
            files.held[file.path] = _why_held(file.name, self._latest)
            self._preview(files, is_beside=is_beside)
            return True
        stopped = self._latest.summary.load if self._latest else 0
        if not self._load_each(files, is_beside=is_beside):
            return False
        # The first load of one of them has opened an item about the load that was stopped.
        for item in self.items_of([]):
            if item.kind == "unfinished" and item.load == stopped:
                self.change(replace(item, closed_by="loaded"))
        return True

    def _load_each(self, files: FileSet, *, is_beside: bool) -> bool:
        for file in files.files:
            alone = FileSet(file.name, [file], files.max_reject_score)
            if not self.load(alone, is_beside=is_beside):
                return False
            files.held |= alone.held
            files.damage |= alone.damage
            files.empty += alone.empty
            if self._latest and file is not files.files[-1]:
                self._print(self._latest, alone)
        return True

    def _handed_over(self, files: FileSet) -> list[OpenItem]:
        """Return the items of the files that have the names of files that were accepted in the console."""
        if bootstrap.is_without_store(self._settings):
            return []
        identities = [accepted_item(file.name).identity for file in files.files]
        items = bootstrap.store(self._settings).reads().items_of(identities)
        return [item for item in items if accepted_records(item)]

    def _load_handed_over(self, files: FileSet, item: OpenItem, *, is_beside: bool) -> bool | None:
        """Load a file that was accepted in the console, unless there is a doubt that was not shown to the operator.

        Return False if interrupted, and None if the file has other content, so that it is treated like any other. Only
        a copy is compared and read, because whoever delivered the file may change it at any time.
        """
        (file,) = files.files
        accepted = accepted_records(item)
        if accepted is None or file.total != accepted.size:
            return None
        file.on_read = self.on_read
        with tempfile.TemporaryFile() as copy:
            digest = self._retried(lambda: _copy(file, copy, accepted.size))
            if digest is None:
                return False
            if digest != accepted.digest:
                return None
            converted = ConvertedFile(file.path, file.total, lambda: sources.opened_again(copy))
            converted.before_read = file.before_read
            records = FileSet(file.name, [converted], files.max_reject_score)
            report = self._retried(lambda: self._judged(records, is_beside=is_beside))
            if report is None or report.interrupted or self._stop.is_set():
                return False
            self._latest = None
            is_held = not accepted.shown.covers(shown_doubts(report.doubts, report.summary.guard))
            if not is_held:
                load = partial(self._load, records, is_beside=is_beside, is_accepted=bool(report.doubts), marks=True)
                self._latest = report = self._retried(load)
                if report is None or report.interrupted:
                    return False
                # The store has changed since the check.
                is_held = report.is_stopped
            if is_held:
                files.held[file.path] = records.held[file.path] = _why_held(file.name, report, ACCEPTED_BEFORE)
                self._preview(records, is_beside=is_beside)
                self.change(replace(item, closed_by="discarded"))
        files.damage |= records.damage
        files.empty += records.empty
        return True

    def _judged(self, files: FileSet, *, is_beside: bool) -> LoadReport:
        """Return the report of a check or, if there is nothing to compare the files with, an empty one."""
        if load_run.is_checked_first(self._settings):
            return self._check(files, is_beside=is_beside)
        return LoadReport(summary=Summary(source=files.name), rejects=RejectExamples(), records=files)

    def _alarming(self, files: FileSet, *, is_beside: bool) -> dict[Path, str]:
        """Return the files that differ sharply from earlier deliveries, or would replace stored bills, with the reason.

        Nothing is written. Of several files, those are returned that raise the same alarms alone. If none does, all are
        returned, unless one replaces bills of another: then the load finds out which one.
        """
        if not load_run.is_checked_first(self._settings):
            return {}
        together = self._check(files, is_beside=is_beside)
        alarms = _doubts_of(together)
        all_held = {file.path: _why_held(file.name, together) for file in files.files} if alarms else {}
        if not alarms or len(files.files) == 1:
            return all_held
        held = {}
        for file in files.files:
            alone = self._check(FileSet(file.name, [file], files.max_reject_score), is_beside=is_beside)
            if alarms & _doubts_of(alone):
                held[file.path] = _why_held(file.name, alone)
        if not held:
            return {} if alarms == {REPLACED} else all_held
        others = [file for file in files.files if file.path not in held]
        if others:
            held |= self._alarming(FileSet(files.name, others, files.max_reject_score), is_beside=is_beside)
        return held

    def _preview(self, files: FileSet, *, is_beside: bool) -> None:
        """Find out what each of the held files would change, for the operator who decides about it."""
        for file in files.files:
            if file.path not in files.held:
                continue
            sketch = DeliverySketch()
            alone = FileSet(file.name, [file], files.max_reject_score)
            check = partial(self._check, alone, is_beside=is_beside, sketch=sketch)
            report = self._retried(check)
            if report and not report.interrupted:
                bills = report.summary.totals.report().bills
                self._previews[printable(file.name)] = sketch.preview(bills, self._clock.now_ms())

    def _check(self, files: FileSet, *, is_beside: bool, sketch: DeliverySketch | None = None) -> LoadReport:
        """Check files without writing anything. A damaged file is reported by the load."""
        files.on_read = self.on_read
        report = LoadReport(summary=Summary(source=files.name), rejects=RejectExamples(), records=files, sketch=sketch)
        with suppress(SourceError):
            load_run.run_load(self._settings, report, strict=self._strict, is_beside=is_beside)
        files.damage.clear()
        return report

    def report(self, files: int, kept: list[OpenItem], *, loaded: FileSet | None) -> None:
        if loaded and self._latest:
            self._latest.quarantined = [item for item in kept if item.kind in ("quarantined", "needs_answers")]
            self._print(self._latest, loaded)
            # Of the files that are kept, the load has read only those that are damaged.
            read = {printable(path.name) for path in loaded.damage}
            load = self._latest.summary.load
            kept = [replace(item, load=load) if item.source in read else item for item in kept]
        self.heartbeat(files, kept)

    def _print(self, report: LoadReport, files: FileSet) -> None:
        names = [file.name for file in files.files]
        if self._as_json:
            print_json({"at": iso_utc(self._clock.now_ms()), "files": names, **load_run.report_view(report)})
            return
        more = f" and {len(names) - load_run.MAX_FILES:,} more" if len(names) > load_run.MAX_FILES else ""
        echo(f"{_now()}  {', '.join(names[: load_run.MAX_FILES])}{more}", bold=True)
        load_run.print_report(report, as_json=False)

    def change(self, item: OpenItem) -> bool:
        if item.closed_by == "accepted" and self._latest:
            item = replace(item, load=self._latest.summary.load)

        def call() -> bool:
            with load_run.open_ledger(self._settings) as ledger:
                ledger.change_items([item])
            return True

        return self._retried(call) or False

    def items_of(self, names: Iterable[str]) -> list[OpenItem]:
        def call() -> list[OpenItem]:
            reads = bootstrap.store(self._settings).reads()
            found = {item.number: item for item in (*reads.items_of(names), *reads.open_items())}
            return list(found.values())

        return self._retried(call) or []

    def _load(self, files: FileSet, *, is_beside: bool, is_accepted: bool, marks: bool = False) -> LoadReport:
        """Load files. If they are accepted, `marks` says whether to record that of the load."""
        files.on_read = self.on_read
        rejects = load_run.new_rejects_file(self._settings, files.name)
        report = LoadReport(summary=Summary(source=files.name), rejects=rejects, records=files, quarantines=True)
        options = {"strict": self._strict, "is_guarded": not is_accepted, "is_beside": is_beside}
        try:
            load_run.run_load(self._settings, report, **options, on_batch=self.on_read)
        except SourceError:
            # The watcher says of each damaged file what has become of it.
            if not files.damage:
                raise
        if is_accepted and not report.interrupted:
            marked = report.summary if marks else None
            report.accepted = load_run.accept_change(self._settings, marked, is_confirmed=marks)
        return report

    def on_read(self) -> None:
        """End the load if a signal has arrived, even if the file has no records."""
        if self._stop.is_set():
            raise KeyboardInterrupt
        try:
            self.report_if_due()
            self.meanwhile()
        except OSError as error:
            # Whoever reads the file would take this for an error of the file.
            self._failure = error
            raise KeyboardInterrupt from error

    def report_if_due(self) -> None:
        if time.monotonic() - self._reported >= HEARTBEAT_MS / 1000:
            self.heartbeat()

    def heartbeat(
        self, files: int = 0, kept: Sequence[OpenItem] = (), *, is_stopped: bool = False, spool: Spool | None = None
    ) -> None:
        """Record in the store that this watcher is running or has stopped, and how many files it has just processed.

        With `spool`, also open items for quarantined and held files that the store does not know, as after a crash.
        """

        def call() -> None:
            with load_run.open_ledger(self._settings) as ledger:
                if found := list(spool.kept()) if spool else kept:
                    ledger.add_items(found)
                    ledger.put_previews(self._previews_of(found))
                problem = printable(self.problem())
                ledger.report_watched_folder(self._name, files, len(kept), is_stopped=is_stopped, problem=problem)
            self._reported = time.monotonic()

        self._retried(call)
        if kept:
            self._previews.clear()

    def _previews_of(self, items: Iterable[OpenItem]) -> dict[str, DeliveryPreview]:
        """Return the previews of newly held files by the identities of their items."""
        found = {item.identity: self._previews.get(item.source) for item in items if item.kind == "held"}
        return {identity: preview for identity, preview in found.items() if preview}

    def _retried(self, call: Callable[[], Result]) -> Result | None:
        """Retry a call until the store is available and return its result, or None if the watcher is stopped first.

        Before the first report, StoreMismatch and SettingsError are raised. After that, the call is retried in these
        cases too, because a file of the store may be missing temporarily.
        """
        pause = FIRST_RETRY_SEC
        while True:
            try:
                if self._reported:
                    # If the store's disk is not mounted, a load would create an empty store at the mount point.
                    bootstrap.store(self._settings).require_exists()
                result = call()
            except (StoreUnavailable, StoreMismatch, SettingsError) as error:
                if not (self._reported or isinstance(error, StoreUnavailable)):
                    raise
                if self._stop.is_set():
                    return None
                if pause == FIRST_RETRY_SEC:
                    _say(f"the store is unavailable; retrying until it is available: {error}")
                self._stop.wait(pause)
                pause = min(2 * pause, LAST_RETRY_SEC)
            else:
                if self._failure:
                    raise self._failure
                if pause > FIRST_RETRY_SEC:
                    _say("the store is available again.")
                return result


def _doubts_of(report: LoadReport) -> set[tuple[str, str]]:
    """Return the measures and the fields of the doubts."""
    return {(doubt.measure, doubt.field) for doubt in report.doubts}


def _copy(file: File, copy: BinaryIO, size: int) -> str:
    """Copy a file, and return the digest of the copy, or an empty string if the file cannot be read."""
    copy.seek(0)
    try:
        return file.copy_to(copy, size)
    except SourceError:
        return ""
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return ""
        raise StoreUnavailable(
            f"{file.name} cannot be copied, because the disk for temporary files is full. Free up disk space, or set "
            "TMPDIR to another folder."
        ) from error


def _why_held(name: str, report: LoadReport, before: str = "") -> str:
    """Return why a file was not loaded, without values of its records."""
    return " ".join(
        [
            f"{name} was not loaded:",
            *load_run.doubt_texts(report),
            *([before] if before else []),
            (
                "Check the POS export, then run `counterfoil loads accept` or `counterfoil loads "
                "discard` with this name."
            ),
        ]
    )
