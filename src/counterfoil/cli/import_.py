"""`counterfoil import`: convert POS exports, or bills in a POS database, into source records."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import replace

from counterfoil.cli.import_output import (
    STANDARD_OUTPUT,
    check_records,
    facts_for_import,
    load_records,
    print_import,
    print_load,
    stored_bills,
    without_known_shops,
    write_records,
)
from counterfoil.cli.import_report import ImportRejects, ImportTally, converted, today
from counterfoil.cli.load_run import (
    SOME_REJECTED,
    SUDDEN_CHANGE,
    accept_change,
    is_checked_first,
    require_acceptance,
)
from counterfoil.cli.main import FAILED, INTERRUPTED
from counterfoil.cli.options import json_option, setting_option, settings_from, store_option
from counterfoil.cli.terminal import echo, print_message, print_note
from counterfoil.cli.totals import ExpectedNet, expect_net_option, net_differences
from counterfoil.domain.calendar import zone_named
from counterfoil.domain.control_totals import ControlTotals
from counterfoil.importing.formats import CSV, DATABASE, FORMATS, Export, open_export
from counterfoil.importing.mapping import merged, read_mapping
from counterfoil.importing.tables import ImportOptions
from counterfoil.importing.values import DATE_ORDERS
from counterfoil.ingest.checking import RecordTotals
from counterfoil.settings import Settings

_existing_file = click.Path(path_type=Path, dir_okay=False, exists=True)
_new_file = click.Path(path_type=Path, dir_okay=False)


class ImportRequest(Struct, kw_only=True):
    """The arguments and options of the command."""

    files: tuple[Path, ...]
    format_name: str | None
    mapping: Path | None
    mappings: Path | None
    line_files: tuple[Path, ...]
    payment_files: tuple[Path, ...]
    shop: str | None
    with_shops: bool
    date_order: str | None
    timezone: str | None
    currency: str
    join: bool
    output: str
    rejects: Path | None
    is_load: bool
    is_check: bool
    infer: bool
    answers: tuple[str, ...]
    url: str | None
    state: Path | None
    full: bool
    skip_rejected: bool
    expect_net: tuple[ExpectedNet, ...]
    accept_change: bool
    batch: int | None
    store: str | None
    as_json: bool
    is_before_load: bool = False
    """Whether this is the check that --expect-net makes before the records are loaded or written."""

    @property
    def mapping_name(self) -> str | None:
        return self.mapping.name if self.mapping else None

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
            joins=self.join,
            today=today(),
            is_order_sure=self.date_order is not None,
        )


@click.command(name="import")
@click.argument("files", nargs=-1, type=_existing_file, metavar="[FILE]...")
@click.option("--format", "format_name", type=click.Choice(FORMATS))
@click.option("--mapping", type=_existing_file, metavar="FILE")
@click.option(
    "--mappings",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    envvar="COUNTERFOIL_IMPORT_MAPPINGS",
    show_envvar=True,
    metavar="FOLDER",
)
@click.option("--lines", "line_files", type=_existing_file, multiple=True, metavar="FILE")
@click.option("--payments", "payment_files", type=_existing_file, multiple=True, metavar="FILE")
@click.option("--shop", metavar="ID")
@click.option("--with-shops", is_flag=True)
@click.option("--date-order", type=click.Choice(DATE_ORDERS))
@click.option("--timezone", metavar="NAME")
@click.option("--currency", default="THB", show_default=True, metavar="CODE")
@click.option("--join", is_flag=True)
@click.option("-o", "--output", default=STANDARD_OUTPUT, show_default="stdout", metavar="FILE")
@click.option("--rejects", type=_new_file, metavar="FILE")
@click.option("--load", "is_load", is_flag=True)
@click.option("--check", "is_check", is_flag=True)
@click.option("--infer", is_flag=True)
@click.option("--set", "answers", multiple=True, metavar="ENTRY=VALUE")
@click.option("--url", envvar="COUNTERFOIL_IMPORT_URL", show_envvar=True, metavar="URL")
@click.option("--state", type=_new_file, metavar="FILE")
@click.option("--full", is_flag=True)
@click.option("--skip-rejected", is_flag=True)
@expect_net_option
@click.option("--accept-change", is_flag=True)
@setting_option("batch")
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    request = ImportRequest(**given)
    if request.format_name is None and request.url and not request.files:
        request.format_name = DATABASE
    if request.infer:
        # Only this option needs these imports.
        from counterfoil.cli.import_infer import answers_of, propose_mapping, write_known_mapping  # noqa: PLC0415

        is_asked = bool(request.answers or request.line_files or request.payment_files or request.format_name)
        if not is_asked and write_known_mapping(_files(request), request.mappings, request.output):
            return
        answers = answers_of(request.answers)
        if request.date_order:
            answers["dates.order"] = request.date_order
        propose_mapping(
            _files(request),
            request.line_files,
            request.payment_files,
            request.shop,
            request.output,
            timezone=request.timezone,
            answers=answers,
        )
        return
    _check_options(ctx, request)
    _require_distinct_files(ctx, request)
    with ImportRejects(request.rejects) as rejects, _opened(request) as reading:
        _say_what_was_recognised(request, reading)
        settings = settings_from(ctx, batch=request.batch, store=request.store)
        # A database is read once, so a sudden change in it is noticed only after it is loaded.
        is_compared = request.is_load and not request.accept_change and request.format_name != DATABASE
        if not request.is_check and (request.expect_net or (is_compared and is_checked_first(settings))):
            checked = replace(request, is_check=True, is_before_load=True, rejects=None)
            status = _convert(settings, checked, reading, ImportRejects(None), is_quiet=True)
            if status in (FAILED, INTERRUPTED):
                raise click.exceptions.Exit(status)
            if status == SUDDEN_CHANGE and is_compared:
                require_acceptance(may_ask=not request.as_json)
                request = replace(request, accept_change=True)
        status = _convert(settings, request, reading, rejects)
    raise click.exceptions.Exit(status)


def _say_what_was_recognised(request: ImportRequest, reading: Any) -> None:
    """Say which formats the files have, unless the operator named it, and what such files do not show."""
    if not isinstance(reading, Export) or request.as_json:
        return
    if request.format_name is None:
        for title in dict.fromkeys(file.title for file in reading.files):
            echo(f"Recognised: {title}", err=True)
    if reading.note:
        print_note(reading.note.strip())


def _new_tally(request: ImportRequest, reading: Any) -> ImportTally:
    files = reading.files if isinstance(reading, Export) else ()
    return ImportTally(rejects_file=request.rejects, recognised={file.path.name: file.title for file in files})


class Conversion(Struct, kw_only=True):
    """The result of an import: how many rows and lines were rejected, and the function that prints the summary.

    Its argument says whether it prints to standard error.
    """

    tally: ImportTally
    rejected: int
    totals: ControlTotals
    show: Callable[[bool], None]
    has_alarms: bool = False
    is_interrupted: bool = False


def _convert(
    settings: Settings, request: ImportRequest, reading: Any, rejects: ImportRejects, *, is_quiet: bool = False
) -> int:
    """Write, load or check the records, print the summary, and return the exit status.

    If `is_quiet`, the summary is printed only if the bills do not add up to the expected net.
    """
    convert = _load if request.is_load else _write
    result = convert(settings, request, reading, rejects)
    differences = [] if result.is_interrupted else net_differences(request.expect_net, result.totals)
    if differences or not is_quiet or (result.has_alarms and request.is_load and not request.accept_change):
        # Standard output is for the records, also if this is the check before they are written.
        is_output = request.output == STANDARD_OUTPUT and not request.is_load and (is_quiet or not request.is_check)
        result.show(is_output)
    for difference in differences:
        print_message(str(difference))
    if differences:
        return FAILED
    if result.is_interrupted:
        return INTERRUPTED
    if result.has_alarms:
        return SUDDEN_CHANGE
    is_wrong = result.rejected or result.tally.wrong_totals or result.totals.report().is_doubtful
    return SOME_REJECTED if is_wrong else 0


def _load(settings: Settings, request: ImportRequest, reading: Any, rejects: ImportRejects) -> Conversion:
    """Load the records, or only check them."""
    tally = _new_tally(request, reading)
    found = reading.records()
    if request.with_shops:
        found = without_known_shops(settings, found, is_check=request.is_check)
    records = converted(found, tally, rejects)
    name, is_check = _source_name(request), request.is_check
    report = load_records(settings, records, name, tally, is_check=is_check, is_guarded=not request.accept_change)
    report.before_load = request.is_before_load
    if request.accept_change and not (is_check or report.interrupted):
        report.accepted = accept_change(settings)
    rejected = tally.rejected.total() + report.summary.rejected.total() + report.is_stopped
    if not (request.is_check or report.interrupted):
        _save_progress(request, reading, rejected)
    return Conversion(
        tally=tally,
        rejected=rejected,
        totals=report.summary.totals,
        show=lambda _: print_load(report, tally, as_json=request.as_json),
        has_alarms=bool(report.alarms) or report.is_stopped,
        is_interrupted=report.interrupted,
    )


def _write(settings: Settings, request: ImportRequest, reading: Any, rejects: ImportRejects) -> Conversion:
    """Write the records to a file or to standard output, or only check them."""
    tally = _new_tally(request, reading)
    records = converted(reading.records(), tally, rejects)
    totals = RecordTotals(facts_for_import(settings), stored_bills(settings) if request.is_check else None)
    if request.is_check:
        check_records(records, totals)
    else:
        write_records(records, totals, request.output)
    show = partial(print_import, tally, totals, request.as_json, request.is_check, request.is_before_load)
    guard = totals.guard
    rejected = tally.rejected.total() + totals.unusable + guard.others
    return Conversion(tally=tally, rejected=rejected, totals=totals.totals, show=show, has_alarms=guard.is_exceeded)


def _save_progress(request: ImportRequest, reading: Any, rejected: int) -> None:
    if not rejected or request.skip_rejected:
        reading.commit()
    elif request.state:
        print_note(
            "progress was not saved, because rows were rejected. Fix the cause and run the same command "
            "again, or use --skip-rejected to save progress anyway."
        )


def _require_distinct_files(ctx: click.Context, request: ImportRequest) -> None:
    """Refuse a file that was given twice, because its rows would be counted twice."""
    files = [path.resolve() for path in (*request.files, *request.line_files, *request.payment_files)]
    if len(files) != len(set(files)):
        raise click.UsageError("The same file was given twice. Name each file once.", ctx)


def _check_options(ctx: click.Context, request: ImportRequest) -> None:
    """Refuse options that are invalid or cannot be used together."""
    if not request.output:
        raise click.UsageError("--output needs a file name.", ctx)
    if request.timezone is not None and zone_named(request.timezone) is None:
        raise click.UsageError(f"{request.timezone!r} is not a valid time zone. Use a name such as Asia/Bangkok.", ctx)
    _check_destination(ctx, request)
    _check_sources(ctx, request)


def _check_destination(ctx: click.Context, request: ImportRequest) -> None:
    if request.is_check and (request.output != STANDARD_OUTPUT or request.rejects):
        raise click.UsageError("--check writes no files. Leave out --output and --rejects.", ctx)
    if request.accept_change and not request.is_load:
        raise click.UsageError("--accept-change needs --load.", ctx)
    if request.is_load and request.output != STANDARD_OUTPUT:
        raise click.UsageError("Use --load or --output, not both.", ctx)
    if request.as_json and not request.is_load and not request.is_check and request.output == STANDARD_OUTPUT:
        raise click.UsageError(
            "--json needs --load, --check or --output, because otherwise the records go to standard output.", ctx
        )


def _check_sources(ctx: click.Context, request: ImportRequest) -> None:
    if request.format_name == DATABASE:
        if request.files or request.line_files or request.payment_files or not request.url or not request.mapping:
            raise click.UsageError("An import from a database needs --url and --mapping, and takes no files.", ctx)
        if request.expect_net and not request.is_check:
            raise click.UsageError("--expect-net needs --check for a database, which is read once.", ctx)
        if request.state and not request.is_load:
            raise click.UsageError(
                "--state needs --load, because progress may be saved only after the records are loaded.", ctx
            )
        return
    is_given = ctx.get_parameter_source("url") == ParameterSource.COMMANDLINE
    if is_given or request.state or request.full or request.skip_rejected:
        raise click.UsageError(
            "--url, --state, --full and --skip-rejected are for a database, which takes no files.", ctx
        )
    if request.format_name == CSV and request.mapping is None:
        raise click.UsageError(
            "--format csv needs --mapping FILE. `counterfoil import --infer FILE` proposes one.", ctx
        )


def _opened(request: ImportRequest) -> AbstractContextManager[Any]:
    if request.format_name == DATABASE:
        from counterfoil.cli.import_database import open_database  # noqa: PLC0415 - its driver is in an extra

        return open_database(
            request.url or "",
            request.content(),
            request.mapping_name or DATABASE,
            request.options(),
            request.state,
            full=request.full,
        )
    return nullcontext(
        open_export(
            request.format_name,
            _files(request),
            request.line_files,
            request.payment_files,
            request.content(),
            request.mapping_name,
            request.options(),
            request.mappings,
        )
    )


def _files(request: ImportRequest) -> Sequence[Path]:
    if not request.files:
        raise click.UsageError("Missing argument 'FILE...': the export to read.", click.get_current_context())
    return request.files


def _source_name(request: ImportRequest) -> str:
    names = [path.name for path in (*request.files, *request.line_files, *request.payment_files)]
    return ", ".join(names) or "database"
