"""`counterfoil load`: load source records into the store."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import click
from msgspec import Struct
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.cli.load_exports import source_files
from counterfoil.cli.load_report import print_accepted, print_report
from counterfoil.cli.load_run import (
    SOME_REJECTED,
    SUDDEN_CHANGE,
    LoadReport,
    SourceList,
    accept_change,
    is_checked_first,
    new_rejects_file,
    require_acceptance,
    run_load,
)
from counterfoil.cli.load_watch import watch
from counterfoil.cli.main import FAILED, INTERRUPTED
from counterfoil.cli.options import setting_option, settings_from, store_options, utc_option
from counterfoil.cli.terminal import print_message
from counterfoil.cli.totals import ExpectedNet, expect_net_option, net_differences
from counterfoil.domain.open_items import STANDARD_INPUT, OpenItem
from counterfoil.ingest.archives import spooled
from counterfoil.ingest.checking import RejectExamples
from counterfoil.ingest.pipeline import RejectsFile, Summary
from counterfoil.ingest.sources import File, Source, SourceError, SourceFiles, open_source, opened_again
from counterfoil.ingest.spool import own_folder, quarantined
from counterfoil.ingest.watching import not_source
from counterfoil.machine.operator import machine_name
from counterfoil.ports import StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.text import printable


class LoadOptions(Struct, frozen=True, kw_only=True):
    """The arguments and options of the command, except for those that are settings."""

    sources: tuple[str, ...]
    rejects: Path | None
    strict: bool
    check: bool
    quarantine: Path | None
    accept_change: bool
    expect_net: tuple[ExpectedNet, ...]
    mapping: Path | None
    exports: bool
    with_shops: bool
    watch: Path | None
    delete_loaded: bool
    as_json: bool


@click.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@setting_option("batch")
@setting_option("converters")
@setting_option("kept", click.Path(file_okay=False), "DIR")
@click.option("--rejects", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--strict", is_flag=True)
@click.option("--check", is_flag=True)
@click.option("--quarantine", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--accept-change", is_flag=True)
@expect_net_option
@click.option("--mapping", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE")
@click.option("--exports", is_flag=True)
@click.option("--with-shops", is_flag=True)
@click.option("--watch", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--delete-loaded", is_flag=True)
@utc_option
@store_options
def command(
    ctx: click.Context,
    /,
    batch: int | None,
    converters: int | None,
    kept: str | None,
    store: str | None,
    **options: object,
) -> None:
    settings = settings_from(ctx, batch=batch, converters=converters, kept=kept, store=store)
    given = LoadOptions(**options)  # type: ignore[arg-type]
    if given.with_shops and not (given.mapping or given.exports):
        raise click.UsageError("--with-shops can be used only with --mapping or --exports.")
    with source_files(settings, given.mapping, exports=given.exports, with_shops=given.with_shops) as kinds:
        _run(settings, given, kinds)


def _run(settings: Settings, given: LoadOptions, kinds: SourceFiles) -> None:
    if given.delete_loaded and not given.watch:
        raise click.UsageError("--delete-loaded can be used only with --watch.")
    if given.watch:
        _watch(settings, given, given.watch, kinds)
        return
    if given.check and (given.quarantine or given.rejects or given.accept_change):
        raise click.UsageError(
            "--check changes nothing, so it cannot be combined with --rejects, --quarantine or --accept-change."
        )
    if given.sources:
        raise click.exceptions.Exit(_check_and_load(settings, given, kinds))
    if not given.accept_change:
        raise click.UsageError("Missing argument 'SOURCE...'.")
    print_accepted(accept_change(settings), given.as_json)


def _check_and_load(settings: Settings, given: LoadOptions, kinds: SourceFiles) -> int:
    """Load the sources. If there is something to compare them with, check them before anything is written."""
    is_compared = not given.accept_change and is_checked_first(settings)
    if given.check or not (given.expect_net or is_compared):
        return _load(settings, given, _Sources(kinds))
    with _copied_input(given.sources) as standard_input:
        sources = _Sources(kinds, standard_input)
        status = _load(settings, replace(given, check=True, rejects=None), sources, is_before_load=True)
        if status in (FAILED, INTERRUPTED):
            return status
        if status == SUDDEN_CHANGE and not given.accept_change:
            require_acceptance(may_ask=not given.as_json and "-" not in given.sources)
            given = replace(given, accept_change=True)
        return _load(settings, given, sources)


@contextmanager
def _copied_input(names: Sequence[str]) -> Iterator[Callable[[], BinaryIO] | None]:
    """Copy standard input to a temporary file without a name, because it is read twice. Yield what opens the copy."""
    if "-" not in names or sys.stdin is None:
        yield None
        return
    try:
        copy = spooled(sys.stdin.buffer)
    except OSError as error:
        raise SourceError(f"cannot copy standard input to a temporary file: {error.strerror}.") from error
    with copy:
        yield lambda: opened_again(copy)


class _Sources(Struct, frozen=True):
    """Opens the sources of a load. `standard_input` opens a copy of it."""

    kinds: SourceFiles
    standard_input: Callable[[], BinaryIO] | None = None

    def open(self, name: str, *, may_have_other_files: bool) -> Source:
        if name == "-" and self.standard_input:
            with self.standard_input() as copy:
                size = os.fstat(copy.fileno()).st_size
            return File(Path(STANDARD_INPUT), size, self.standard_input)
        return open_source(name, may_have_other_files=may_have_other_files, kinds=self.kinds)


def _load(settings: Settings, given: LoadOptions, sources: _Sources, *, is_before_load: bool = False) -> int:
    """Load the sources and return the exit status. A check before a load prints only why nothing is loaded."""
    quarantine = given.quarantine
    if quarantine and quarantine.exists():
        os.close(own_folder(str(quarantine)))
    may_have_other_files = quarantine is not None
    records = SourceList([sources.open(name, may_have_other_files=may_have_other_files) for name in given.sources])
    report = LoadReport(
        summary=Summary(source=records.name),
        rejects=_rejects_file(settings, given, records.name),
        records=records,
        quarantines=quarantine is not None,
        before_load=is_before_load,
    )
    try:
        run_load(settings, report, strict=given.strict, is_guarded=not given.accept_change)
    except (SourceError, StoreUnavailable) as error:
        is_loaded = is_before_load and not given.expect_net
        if not isinstance(error, SourceError) or not records.damage or not (quarantine or is_loaded):
            if report.summary.lines:
                print_report(report, given.as_json)
            raise
        # The load says what is damaged.
        if not is_before_load:
            print_message(str(error))
    if quarantine and not (report.interrupted or report.check):
        report.quarantined = _quarantine(settings, report, quarantine)
    if given.accept_change and not (report.interrupted or report.check):
        report.accepted = accept_change(settings)
    summary = report.summary
    differences = [] if report.interrupted else net_differences(given.expect_net, summary.totals)
    status = FAILED if differences else _exit_status(report)
    if status in (FAILED, SUDDEN_CHANGE) or not is_before_load:
        print_report(report, given.as_json)
    for difference in differences:
        print_message(str(difference))
    return status


def _why_not_loaded(records: Source) -> dict[Path, str]:
    """Return every file that was not loaded, except unfinished ones, with the reason."""
    refused = {path: f"{printable(path.name)} is {kind}." for path, kind in records.refused.items()}
    return {**records.damage, **{path: not_source(path.name) for path in records.ignored}, **refused}


def _quarantine(settings: Settings, report: LoadReport, quarantine: Path) -> list[OpenItem]:
    """Move the files that were not loaded to the quarantine, and open items about them."""
    found = quarantined(_why_not_loaded(report.records), quarantine)
    items = [replace(item, load=report.summary.load) for item in found]
    if items:
        with closing(bootstrap.ledger(settings)) as ledger:
            ledger.add_items(items)
    return items


def _watch(settings: Settings, given: LoadOptions, folder: Path, kinds: SourceFiles) -> None:
    if given.sources or given.check or given.rejects or given.accept_change or given.expect_net:
        raise click.UsageError(
            "--watch cannot be used with SOURCE, --check, --rejects, --accept-change or --expect-net."
        )
    options = {"strict": given.strict, "delete": given.delete_loaded, "as_json": given.as_json}
    watch(settings, folder, given.quarantine, kinds, **options)


def _exit_status(report: LoadReport) -> int:
    if report.interrupted:
        return INTERRUPTED
    if report.alarms or report.is_stopped:
        return SUDDEN_CHANGE
    return SOME_REJECTED if report.summary.rejected or report.quarantined or report.records.refused else 0


def _rejects_file(settings: Settings, given: LoadOptions, source: str) -> RejectsFile:
    if given.check:
        return RejectExamples()
    if not given.rejects:
        return new_rejects_file(settings, source)
    if given.rejects.exists():
        # It may contain earlier rejects, or be a source of this load.
        raise click.BadParameter(f"{given.rejects} already exists. Choose a new file name.", param_hint="--rejects")
    return RejectsFile(given.rejects, place=machine_name())
