"""`counterfoil import`: convert POS exports, or bills in a POS database, into source records."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.cli import import_report, load_run
from counterfoil.cli.import_report import ImportTally, WriteReject
from counterfoil.cli.load_exports import ExportRequest, require_known_ids
from counterfoil.cli.main import FAILED, INTERRUPTED
from counterfoil.cli.options import export_options, json_option, setting_option, settings_from, store_option
from counterfoil.cli.store import is_without_store
from counterfoil.cli.terminal import echo, message, print_json, print_message, print_note, print_wrapped
from counterfoil.cli.totals import ExpectedNet, expect_net_option, net_differences, print_totals
from counterfoil.domain.calendar import zone_named
from counterfoil.domain.intake import Intake
from counterfoil.domain.replacements import StoredBill
from counterfoil.importing.formats import CSV, DATABASE, FORMATS, Export, open_export
from counterfoil.importing.mapping import parse_mapping
from counterfoil.importing.results import ImportFailed
from counterfoil.ingest.checking import LenientLedger, RejectExamples, checked_records
from counterfoil.ingest.lines import OTHER_BILL, UNKNOWN_SHOP, SourceLine
from counterfoil.ingest.pipeline import Summary
from counterfoil.machine.files import StandardOutput, draft_of, open_output
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.text import counted, is_address, printable, scheme_of, use_address_form

STANDARD_OUTPUT = "-"
MAX_SHOPS_SHOWN = 5

_existing_file = click.Path(path_type=Path, dir_okay=False, exists=True)
_new_file = click.Path(path_type=Path, dir_okay=False)


class ImportRequest(ExportRequest, kw_only=True):
    files: tuple[Path, ...]
    format_name: str | None
    line_files: tuple[Path, ...]
    payment_files: tuple[Path, ...]
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
    as_json: bool
    is_before_load: bool = False
    """Whether this is the check that --expect-net makes before the records are loaded or written."""
    is_confirmed: bool = False
    """Whether the operator was asked about a sudden change, and accepted it."""

    @property
    def is_database(self) -> bool:
        return self.format_name == DATABASE


@click.command(name="import")
@click.argument("files", nargs=-1, type=_existing_file, metavar="[FILE]...")
@click.option("--format", "format_name", type=click.Choice(FORMATS))
@click.option("--lines", "line_files", type=_existing_file, multiple=True, metavar="FILE")
@click.option("--payments", "payment_files", type=_existing_file, multiple=True, metavar="FILE")
@export_options
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
def command(ctx: click.Context, /, **given: Any) -> int:
    request = ImportRequest(**given)
    if request.format_name is None and request.url and not request.files:
        request.format_name = DATABASE
    if request.infer:
        # Only this option needs these imports.
        from counterfoil.cli.import_infer import answers_of, propose_mapping, write_known_mapping  # noqa: PLC0415

        files = (_files(request), request.line_files, request.payment_files)
        known, is_asked = (files[0], request.mappings, request.output), bool(request.answers or files[1] or files[2])
        if request.format_name is None and write_known_mapping(*known, is_asked=is_asked):
            return 0
        answers = answers_of(request.answers)
        if request.date_order:
            answers["dates.order"] = request.date_order
        propose_mapping(files, request.shop, request.output, request.timezone, answers)
        return 0
    for is_wrong, problem in _refusals(ctx, request):
        if is_wrong:
            raise click.UsageError(problem)
    with import_report.import_rejects(request.rejects) as reject, _opened(request) as reading:
        settings = settings_from(batch=request.batch)
        # A database is read once, so a sudden change in it is noticed only after it is loaded.
        is_compared = request.is_load and not request.accept_change and not request.is_database
        require_known_ids(settings, reading, is_compared=is_compared)
        if not request.is_check and (request.expect_net or (is_compared and load_run.is_checked_first(settings))):
            checked = replace(request, is_check=True, is_before_load=True, rejects=None)
            status = _convert(settings, checked, reading, import_report.ignore_reject)
            if status in (FAILED, INTERRUPTED):
                return status
            if status == load_run.SUDDEN_CHANGE and is_compared:
                load_run.require_acceptance(may_ask=not request.as_json)
                request = replace(request, accept_change=True, is_confirmed=True)
        return _convert(settings, request, reading, reject)


def _refusals(ctx: click.Context, request: ImportRequest) -> Iterator[tuple[object, str]]:
    """Yield whether options are invalid or cannot be used together, and what to say then."""
    is_to_stdout, zone = request.output == STANDARD_OUTPUT, request.timezone
    files = [path.resolve() for path in (*request.files, *request.line_files, *request.payment_files)]
    yield not request.output, "--output needs a file name."
    is_described = request.new_shops().given() and request.content().get("shop")
    yield is_described, "The mapping describes its shops: write franchiseId and closingTime into its [[shop]] entries."
    yield zone is not None and zone_named(zone) is None, message("no_time_zone", zone=repr(zone))
    is_written = not is_to_stdout or request.rejects
    yield request.is_check and is_written, "--check writes no files. Leave out --output and --rejects."
    yield request.accept_change and not request.is_load, "--accept-change needs --load."
    yield request.is_load and not is_to_stdout, "Use --load or --output, not both."
    is_printed = is_to_stdout and not (request.is_load or request.is_check)
    yield request.as_json and is_printed, message("import_json")
    if request.is_database:
        yield files or not request.url or not request.mapping, message("database_needs")
        yield request.expect_net and not request.is_check, message("database_net")
        yield request.state and not request.is_load, message("state_needs_load")
        return
    is_given = ctx.get_parameter_source("url") == ParameterSource.COMMANDLINE
    yield is_given or request.state or request.full or request.skip_rejected, message("database_only")
    yield request.format_name == CSV and request.mapping is None, message("mapping_needed")
    # The rows of a file that is given twice would be counted twice.
    yield len(files) != len(set(files)), "The same file was given twice. Name each file once."


def _files(request: ImportRequest) -> Sequence[Path]:
    if not request.files:
        raise click.UsageError("Missing argument 'FILE...': the export to read.")
    return request.files


@contextmanager
def _opened(request: ImportRequest) -> Iterator[Any]:
    """Yield the export or the database to read. Say which formats an export has, unless it was named or is in JSON."""
    if not request.is_database:
        files = (_files(request), request.line_files, request.payment_files)
        content, name = request.content(), request.mapping_name
        options = replace(request.options(), joins=request.join)
        export = open_export(request.format_name, *files, content, name, options, request.mappings)
        if request.format_name is None and not request.as_json:
            for title in dict.fromkeys(file.title for file in export.files):
                echo(f"Recognised: {title}", err=True)
        yield export
        return
    # Only databases need these imports, and a driver that is part of an extra.
    from counterfoil.importing.database import DatabaseImport, StateFile  # noqa: PLC0415

    mapping = parse_mapping(request.content(), request.mapping_name or DATABASE)
    # The state file is locked before the snapshot is taken. Otherwise, another import could save a state that is newer
    # than this snapshot.
    state = closing(StateFile(request.state)) if request.state else nullcontext()
    with state as saved, closing(_connected(request.url or "")) as source:
        reading = DatabaseImport(source, mapping, request.options(), saved, full=request.full)
        for note in reading.notes:
            print_note(note[0].lower() + note[1:])
        yield reading


def _connected(url: str) -> Any:
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


def _convert(settings: Settings, request: ImportRequest, reading: Any, reject: WriteReject) -> int:
    """Write, load or check the records, and return the exit status. A check before that prints only why it ends."""
    files = reading.files if isinstance(reading, Export) else ()
    recognised = {file.path.name: file.title for file in files}
    tally = ImportTally(rejects_file=request.rejects, recognised=recognised)
    name = ", ".join(path.name for path in (*request.files, *request.line_files, *request.payment_files)) or "database"
    facts = import_report.facts_for_import(settings)
    is_dry = request.is_check or not request.is_load
    rejected_lines = RejectExamples() if is_dry else load_run.new_rejects_file(settings, name)
    found = import_report.converted(
        reading.records(), tally, facts if request.is_load else lambda _: None, reject, facts, request.new_shops()
    )
    ledger = LenientLedger(facts, Intake, _stored_bills(settings))
    with _output(request) as write, closing(found) as records:
        source = import_report.ImportedSource(name, records, tally, write)
        report = load_run.LoadReport(summary=Summary(source=name), rejects=rejected_lines, records=source)
        if request.is_load:
            load_run.run_load(settings, report, is_guarded=not request.accept_change)
        else:
            report.summary = checked_records(source, ledger, is_guarded=request.is_check)
    summary = report.summary
    if request.is_load and not request.is_check:
        _finish_load(settings, request, reading, report, is_complete=not (tally.rejected or summary.rejected))
    differences = [] if report.interrupted else net_differences(request.expect_net, summary.totals)
    is_wrong = tally.rejected or summary.rejected or tally.wrong_totals or summary.totals.report().is_doubtful
    status = FAILED if differences else load_run.exit_status(report, is_wrong=bool(is_wrong))
    is_end = status == FAILED or (status == load_run.SUDDEN_CHANGE and request.is_load)
    if is_end or not request.is_before_load:
        report.before_load = bool(status) or request.is_before_load
        if request.is_load:
            _print_load(report, tally, request.franchise, as_json=request.as_json)
        else:
            _print_import(tally, report, ledger.unknown_shops, request)
    for difference in differences:
        print_message(difference)
    return status


@contextmanager
def _output(request: ImportRequest) -> Iterator[Callable[[SourceLine], object]]:
    """Yield a function that writes a record to the file or to standard output, or nowhere."""
    path = Path(request.output)
    if request.is_load or request.is_check:
        yield lambda _: None
    elif request.output == STANDARD_OUTPUT:
        out = StandardOutput()
        yield lambda line: out.write(line.text + b"\n")
        out.flush()
    else:
        # Write to a pipe or a device directly, because renaming a finished file would replace the pipe or device.
        is_special = path.exists() and not path.is_file()
        with nullcontext(path) if is_special else draft_of(path) as draft, open_output(draft, name=path) as file:
            yield lambda line: file.write(line.text + b"\n")


def _finish_load(
    settings: Settings, request: ImportRequest, reading: Any, report: load_run.LoadReport, *, is_complete: bool
) -> None:
    """Accept a change as normal if the operator asked for it, and save the progress of an import from a database."""
    if report.interrupted:
        return
    if request.accept_change:
        report.accepted = load_run.accept_change(settings, report.summary, is_confirmed=request.is_confirmed)
    if (is_complete and not report.is_stopped) or request.skip_rejected:
        reading.commit()
    elif request.state:
        print_note(message("progress_not_saved"))


def _print_load(report: load_run.LoadReport, tally: ImportTally, franchise: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({**load_run.report_view(report), "import": import_report.tally_view(tally)})
        return
    import_report.print_tally(tally)
    load_run.print_report(report, as_json=False)
    if report.summary.rejected[UNKNOWN_SHOP]:
        echo("Add --with-shops to create the shops that the export names, or load the shops first.")
    if len(tally.new_shops) > 1 and not report.is_stopped:
        shops = f"The {len(tally.new_shops):,} new shops"
        alone = f"{shops} belong to no franchise, so no key can read more than one of them. Put them into one: "
        together = f"{shops} belong to the franchise {franchise}. Issue a key that reads all of them: "
        put, issue = "counterfoil shops set --missing --franchise NAME", "counterfoil keys issue --franchise"
        print_wrapped(f"{together}{issue} {shlex.quote(franchise)}" if franchise else f"{alone}{put}")


def _stored_bills(settings: Settings) -> Callable[[str, Sequence[str]], dict[str, StoredBill]]:
    """Return a function that reads bills of the store. If it cannot be read, say so once, and return none."""
    has_store = not is_without_store(settings)
    say, opened = cache(print_note), cache(lambda: bootstrap.store(settings).reads())

    def read(shop_id: str, bill_ids: Sequence[str]) -> dict[str, StoredBill]:
        try:
            return opened().stored_bills(shop_id, bill_ids) if has_store else {}
        except (StoreUnavailable, StoreMismatch) as error:
            say(f"the bills were not compared with the store: {error}")
            return {}

    return read


def _print_import(
    tally: ImportTally, report: load_run.LoadReport, unknown_shops: Sequence[str], request: ImportRequest
) -> None:
    summary = report.summary
    totals, guard = summary.totals.report(), summary.guard
    unusable = summary.rejected.total() - summary.rejected[OTHER_BILL]
    if request.as_json:
        view = import_report.tally_view(tally)
        view |= {"unusable": unusable, "unknownShops": unknown_shops, "totals": totals}
        if request.is_check:
            view |= {"replacements": load_run.replacement_view(guard), "check": True}
        print_json(view)
        return
    notes = [*load_run.replacement_notes(guard, message("accept_load"))]
    if unusable:
        bills = counted(unusable, "bill")
        notes.append(f"A load would reject {bills}: run `counterfoil load --check` to see why.")
    if unknown_shops:
        names = ", ".join(map(printable, unknown_shops[:MAX_SHOPS_SHOWN]))
        more = " and others" if len(unknown_shops) > MAX_SHOPS_SHOWN else ""
        notes.append(message("shops_unknown", names=f"{names}{more}"))
    if request.is_check:
        again = "" if report.before_load else " Run the same command without --check to write the records."
        notes.append(f"Nothing was written.{again}")
    # Standard output is for the records, also if this is the check before they are written.
    is_for_records = request.output == STANDARD_OUTPUT and (request.is_before_load or not request.is_check)
    with redirect_stdout(sys.stderr) if is_for_records else nullcontext():
        import_report.print_tally(tally)
        print_totals(totals)
        for note in notes:
            echo(note)
