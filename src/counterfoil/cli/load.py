"""`counterfoil load`: load source records into the store."""

import os
from contextlib import closing
from pathlib import Path

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
    new_rejects_file,
    run_load,
)
from counterfoil.cli.load_watch import WatchOptions, watch
from counterfoil.cli.main import FAILED, INTERRUPTED
from counterfoil.cli.options import setting_option, settings_from, store_options, utc_option
from counterfoil.cli.terminal import print_message
from counterfoil.cli.totals import ExpectedNet, expect_net_option, net_differences
from counterfoil.domain.open_items import OpenItem
from counterfoil.ingest.checking import RejectExamples
from counterfoil.ingest.pipeline import RejectsFile, Summary
from counterfoil.ingest.sources import Source, SourceError, SourceFiles, open_source
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
        if given.expect_net and not given.check:
            _require_net(settings, given, kinds)
        raise click.exceptions.Exit(_load(settings, given, kinds))
    if not given.accept_change:
        raise click.UsageError("Missing argument 'SOURCE...'.")
    print_accepted(accept_change(settings), given.as_json)


def _require_net(settings: Settings, given: LoadOptions, kinds: SourceFiles) -> None:
    """Check the sources, and end the command if they do not add up to the expected net. Nothing is written then."""
    if "-" in given.sources:
        raise click.UsageError(
            "--expect-net reads the source twice, which standard input does not allow. Save it to a file first."
        )
    checked = replace(given, check=True, rejects=None, quarantine=None)
    status = _load(settings, checked, kinds, quiet=True)
    if status in (FAILED, INTERRUPTED):
        raise click.exceptions.Exit(status)


def _load(settings: Settings, given: LoadOptions, kinds: SourceFiles, *, quiet: bool = False) -> int:
    """Load the sources, print the summary, and return the exit status.

    If `quiet`, the summary is printed only if the bills do not add up to the expected net.
    """
    quarantine = given.quarantine
    if quarantine and quarantine.exists():
        os.close(own_folder(str(quarantine)))
    may_have_other_files = quarantine is not None
    records = SourceList(
        [open_source(name, may_have_other_files=may_have_other_files, kinds=kinds) for name in given.sources]
    )
    report = LoadReport(
        summary=Summary(source=records.name),
        rejects=_rejects_file(settings, given, records.name),
        records=records,
        quarantines=quarantine is not None,
        before_load=quiet,
    )
    try:
        run_load(settings, report, strict=given.strict, is_guarded=not given.accept_change)
    except (SourceError, StoreUnavailable) as error:
        if not (quarantine and isinstance(error, SourceError) and records.damage):
            if report.summary.lines:
                print_report(report, given.as_json)
            raise
        print_message(str(error))
    if quarantine and not report.interrupted:
        report.quarantined = _quarantine(settings, report, quarantine)
    if given.accept_change and not (report.interrupted or report.check):
        report.accepted = accept_change(settings)
    summary = report.summary
    differences = [] if report.interrupted else net_differences(given.expect_net, summary.totals)
    if differences or not quiet:
        print_report(report, given.as_json)
    for difference in differences:
        print_message(str(difference))
    return FAILED if differences else _exit_status(report)


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
    options = WatchOptions(
        folder=folder,
        quarantine=given.quarantine,
        strict=given.strict,
        delete=given.delete_loaded,
        as_json=given.as_json,
        kinds=kinds,
    )
    watch(settings, options)


def _exit_status(report: LoadReport) -> int:
    if report.interrupted:
        return INTERRUPTED
    if report.alarms or report.is_stopped:
        return SUDDEN_CHANGE
    return SOME_REJECTED if report.summary.rejected or report.quarantined or report.records.refused else 0


def _rejects_file(settings: Settings, given: LoadOptions, source: str) -> RejectsFile:
    if given.check:
        return RejectExamples()
    if given.rejects:
        return RejectsFile(_require_new_file(given.rejects), place=machine_name())
    return new_rejects_file(settings, source)


def _require_new_file(rejects: Path) -> Path:
    """Return the path. Raise if the file exists, because it may contain earlier rejects or be a source of this load."""
    if rejects.exists():
        raise click.BadParameter(f"{rejects} already exists. Choose a new file name.", param_hint="--rejects")
    return rejects
