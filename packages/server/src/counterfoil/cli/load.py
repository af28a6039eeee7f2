"""`counterfoil load`: load source records into the store, or files as they are delivered to a folder."""

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

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
from counterfoil.cli.store_loader import StoreLoader, now_text, say
from counterfoil.cli.totals import ExpectedNet, expect_net_option, net_differences
from counterfoil.domain.open_items import STANDARD_INPUT, OpenItem
from counterfoil.ingest import sources
from counterfoil.ingest.checking import RejectExamples
from counterfoil.ingest.pipeline import RejectsFile, Summary
from counterfoil.ingest.sources import File, Source, SourceError, SourceFiles, SourceList
from counterfoil.ingest.spool import Spool, own_folder, quarantined
from counterfoil.ingest.watching import NOT_LOADED, FolderWatch, not_source
from counterfoil.model.text import printable
from counterfoil.ports import StoreUnavailable
from counterfoil.program.main import FAILED, INTERRUPTED, Command
from counterfoil.program.paths import UserPath
from counterfoil.program.process import SignalSafeEvent, signals_handled, stop_signals
from counterfoil.program.terminal import echo, print_message
from counterfoil.settings import Settings


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
    if not given.has_exports:
        _refuse_conversion_options(ctx, conversion)
    if given.watch:
        with _watched_kinds(settings, given) as kinds:
            _watch(settings, given, given.watch, kinds)
        return 0
    _refuse_without_watch(given)
    if given.sources:
        return _check_and_load(settings, given)
    if not given.accept_change:
        raise click.UsageError("Missing argument 'SOURCE...'.")
    load_run.print_accepted(load_run.accept_change(settings), given.as_json)
    return 0


def _refuse_conversion_options(ctx: click.Context, names: Iterable[str]) -> None:
    named = [name for name in names if ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE]
    if named:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in named)
        raise click.UsageError(f"{options} can be used only with --mapping, --exports or --converter.")


def _refuse_without_watch(given: LoadOptions) -> None:
    if given.has_exports:
        option = "--mapping FILE " if given.conversion["mapping"] else ""
        raise click.UsageError(
            "exports are converted by `load` only in a folder that it watches (--watch). Load an export with: "
            f"counterfoil import {option}EXPORT --load"
        )
    refuse_without_effect("it is for the files of a folder that --watch names.", "--kept", "--delete-loaded")
    if given.check and (given.quarantine or given.rejects or given.accept_change):
        raise click.UsageError(
            "--check changes nothing, so it cannot be combined with --rejects, --quarantine or --accept-change."
        )


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
    parts: list[Source] = []
    for name in given.sources:
        if copy and name == "-":
            parts.append(copy)
        else:
            parts.append(sources.open_source(name, may_have_other_files=quarantine is not None))
    records = SourceList(parts)
    report = LoadReport(
        summary=Summary(source=records.name),
        rejects=_rejects_file(settings, given, records.name),
        records=records,
        quarantines=quarantine is not None,
        before_load=is_before_load,
    )
    _run(settings, given, report)
    is_complete = not (report.interrupted or report.check)
    if quarantine and is_complete:
        report.quarantined = _quarantine(settings, report, quarantine)
    if given.accept_change and is_complete:
        report.accepted = load_run.accept_change(settings, report.summary, is_confirmed=given.is_confirmed)
    differences = [] if report.interrupted else net_differences(given.expect_net, report.summary.totals)
    is_wrong = bool(report.summary.rejected or report.quarantined or records.refused)
    status = FAILED if differences else load_run.exit_status(report, is_wrong=is_wrong)
    if not is_before_load or status in (FAILED, load_run.SUDDEN_CHANGE):
        load_run.print_report(report, given.as_json)
    for difference in differences:
        print_message(difference)
    return status


def _run(settings: Settings, given: LoadOptions, report: LoadReport) -> None:
    """Run the load. A damaged file ends it, except if it is then moved to quarantine, or the load will name it."""
    is_named_later = report.before_load and not given.expect_net
    try:
        load_run.run_load(settings, report, strict=given.strict, is_guarded=not given.accept_change)
    except (SourceError, StoreUnavailable) as error:
        is_damage = isinstance(error, SourceError) and bool(report.records.damage)
        if not (is_damage and (report.quarantines or is_named_later)):
            if report.summary.lines:
                load_run.print_report(report, given.as_json)
            raise
        if not report.before_load:
            print_message(str(error))


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

POLL_SEC = 1.0


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
    spool = Spool(folder, kept, given.quarantine, say)
    with spool.locked(), _set_by_signals(stop):
        echo(f"{now_text()}  Watching {folder}. {NOT_LOADED} Stop with Ctrl-C or SIGTERM.", err=True)
        loader = StoreLoader(settings, folder, stop, strict=given.strict, as_json=given.as_json)
        watcher = FolderWatch(spool, loader, say, loader.steady_ms, delete=given.delete_loaded, kinds=kinds)
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
        echo(f"{now_text()}  Stopped. Files that have not been loaded yet stay in the folder.", err=True)
