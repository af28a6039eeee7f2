"""`counterfoil import`: convert POS exports, or bills in a POS database, into source records."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import replace

from counterfoil.cli import import_report
from counterfoil.cli.auditing import record
from counterfoil.cli.import_asked import NOT_ANSWERED, Answered, answer, may_ask, open_order, read_answers
from counterfoil.cli.import_files import input_files
from counterfoil.cli.import_items import item_to_import, unanswered_items
from counterfoil.cli.import_known import accept_totals, ask_shop_facts, facts_of
from counterfoil.cli.import_outcome import checked_load, finish, judge
from counterfoil.cli.import_questions import Decision, ImportStopped
from counterfoil.cli.import_request import STANDARD_OUTPUT, ImportRequest
from counterfoil.cli.load_run import SOME_REJECTED
from counterfoil.cli.options import (
    export_option,
    json_option,
    refuse_without_effect,
    setting_option,
    settings_from,
    store_option,
)
from counterfoil.cli.totals import ExpectedNet, expect_net_option, print_totals
from counterfoil.conversions import conversion_limits, known_bases, known_shops
from counterfoil.domain.audit import Act
from counterfoil.domain.open_items import OpenItem
from counterfoil.domain.shops import ShopSettings
from counterfoil.importer.protocol import Kind, PosDatabase
from counterfoil.importing.apis import APIS
from counterfoil.importing.formats import CSV, DATABASE, FORMATS, built_in_tables
from counterfoil.importing.mapping import parse_mapping
from counterfoil.importing.results import ImportFailed
from counterfoil.ingest.conversion_process import ConversionFailed, UnknownExport, UnknownOrder
from counterfoil.ingest.converted_exports import ConvertedExport, convert
from counterfoil.ingest.import_state import StateFile
from counterfoil.machine.files import draft_of, open_output, temporary_folder
from counterfoil.model.calendar import zone_named
from counterfoil.model.pos_values import MILLION
from counterfoil.model.text import counted
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program import terminal
from counterfoil.program.main import FAILED, Command
from counterfoil.program.paths import UserPath
from counterfoil.program.process import stop_signals_as_interrupt
from counterfoil.program.terminal import echo, print_json, print_message, print_note, print_wrapped
from counterfoil.remembered_mappings import mapping_name, mappings_folder, remember, remember_order
from counterfoil.settings import Settings

MAPPING_SUFFIX = ".toml"
FACTS_OF_KNOWN = {"franchise", "closing", "timezone", "order"}
DATE_ORDERS = ("dmy", "mdy", "ymd", "ydm")
JSON_NEEDS_OUTPUT = "--json needs --load, --check or --output, because otherwise the records go to standard output."

_existing_file = UserPath(path_type=Path, dir_okay=False, exists=True)
_new_file = UserPath(path_type=Path, dir_okay=False)


@click.command(
    name="import",
    cls=Command,
    groups={
        "Which files": ("--format", "--lines", "--payments", "--join", "--item"),
        "How they are read": ("--answers", "--mapping", "--mappings", "--converter"),
        "What the export does not say": ("--shop", "--base", "--date-order", "--timezone", "--currency"),
        "A database": ("--url", "--state", "--full", "--skip-rejected"),
        "Result": ("--output", "--rejects", "--expect-net", "--accept-change", "--store", "--batch", "--json"),
    },
)
@click.argument("files", nargs=-1, type=_existing_file, metavar="[FILE]...")
@click.option(
    "--load",
    "is_load",
    is_flag=True,
    help="Load the records into the store instead of writing them to a file or standard output.",
)
@click.option(
    "--check",
    "is_check",
    is_flag=True,
    help="Write nothing; show what would be converted and, with --load, what would be loaded.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
    help="Format of the export. [default: database with --url, csv with --mapping, otherwise recognised from the file]",
)
@click.option(
    "--lines",
    "line_files",
    type=_existing_file,
    multiple=True,
    metavar="FILE",
    help="CSV file with the lines of the bills.",
)
@click.option(
    "--payments",
    "payment_files",
    type=_existing_file,
    multiple=True,
    metavar="FILE",
    help="CSV file with the payments of the bills.",
)
@export_option("mapping", "TOML file that says which column fills which field. Required for csv and database.")
@export_option("shop", "The shop that all bills belong to. [default: as in the export]")
@export_option(
    "base",
    "The membership base of all members of a table or, with --with-shops, of new shops. Any name will "
    "do for a new one.",
)
@export_option(
    "with_shops", "Also write a record for each shop that the export names; with --load, only for new shops."
)
@export_option(
    "franchise",
    "With --with-shops: the franchise of these shops, so that one key can read all of them. Any name will do.",
)
@export_option(
    "closing_time",
    "With --with-shops: when the last bills of a business day are closed, such as 04:00, or 22:30. "
    "Without it, bills have no business day.",
)
@export_option("date_order", "Order of day, month and year in dates.")
@export_option("timezone", "Time zone of times without an offset. [default: the shop's]")
@click.option(
    "-o",
    "--output",
    default=STANDARD_OUTPUT,
    show_default="stdout",
    metavar="FILE",
    help="File for the records or, if its name ends in .toml, for the mapping.",
)
@click.option(
    "--item",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Import the file of this open item (`loads open` lists them), with others that wait and have the "
    "same headings.",
)
@click.option(
    "--answers",
    "answers_file",
    type=_existing_file,
    metavar="FILE",
    help="TOML or JSON file with the answers, by the IDs of their questions.",
)
@click.option(
    "--url",
    envvar="COUNTERFOIL_IMPORT_URL",
    show_envvar=True,
    metavar="URL",
    help="Database to read: postgresql://... or mysql://...",
)
@click.option(
    "--state", type=_new_file, metavar="FILE", help="File that records how far the database was read. Needs --load."
)
@expect_net_option
@click.option(
    "--accept-change",
    is_flag=True,
    help="With --load: load the records even if they differ sharply from earlier ones, replace stored bills "
    "or do not add up, and accept the change as normal.",
)
@store_option
@json_option
@export_option("mappings", "Folder of your own mappings whose [recognise] says which files they are for.")
@export_option("currency", "Currency of Square and Clover orders; orders in another currency are rejected.")
@export_option("converter", "Command that converts, in place of ours; see docs/converters.md.")
@click.option(
    "--join",
    is_flag=True,
    help="Put the rows of a bill together if it is split over files. Without it, this is done only if they "
    "then add up to the total of the bill.",
)
@click.option("--rejects", type=_new_file, metavar="FILE", help="New file for all rows that were rejected.")
@click.option("--full", is_flag=True, help="Read the whole database again.")
@click.option("--skip-rejected", is_flag=True, help="Save progress to the state file even if rows were rejected.")
@setting_option("batch")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Convert POS exports (CSV, or JSON from a POS API), or bills in a POS database, into source records.

    \b
    counterfoil import receipts.csv receipts-by-item.csv --load
    counterfoil import export.csv
    counterfoil import export.csv --answers answers.toml --load

    Exports of Loyverse, Square, Foodics, Toast, Clover, FoodStory, GrabFood, Shopify and Odoo are recognised. Of
    any other CSV file or workbook, the command proves what the sums show, asks at most five questions on a terminal,
    shows the totals of each shop and day, and loads nothing before you accept them. The next file with these
    headings asks nothing. Without a terminal, nothing is asked: --json prints the questions as a form, and
    --answers gives the answers.

    Importing the same export again changes nothing. Exit status: 0 if no rows were rejected, 3 if some were, 6 if
    the records differ sharply from those of earlier loads, or stored bills would be replaced by others, so that
    nothing is loaded, 7 if questions are open, so that nothing was written, 1 if the import failed or the net is
    not the one of --expect-net, 130 if it was interrupted. If most bills do not add up, or the rows differ from the
    totals that the export states, it is 1 with --load, and nothing is loaded, otherwise 3.
    """
    request = ImportRequest(**given)
    if request.format_name is None and request.url and not request.files:
        request.format_name = DATABASE
    settings = settings_from(batch=request.batch)
    answered: OpenItem | None = None
    if request.item is not None:
        if request.files:
            raise click.UsageError("--item names its file, so name no other one.")
        answered = item_to_import(settings, request.item)
        request.files, request.delivered_name = (Path(answered.path),), answered.source
    for is_wrong, problem in _refusals(ctx, request):
        if is_wrong:
            raise click.UsageError(problem)
    request.mappings = mappings_folder(settings, request.mappings)
    request.usual_timezone = settings.timezone
    is_asked = may_ask(as_json=request.as_json) and not request.is_database and request.mapping is None
    # A person who is asked about new shops wants them to be created.
    request.with_shops = request.with_shops or is_asked or request.answers_file is not None
    request.may_load = request.is_load or (is_asked and not request.has_output)
    if not request.may_load:
        refuse_without_effect("nothing is loaded without --load.", "--batch")
    order_of_all = request.date_order
    status = _import(settings, request, is_asked=is_asked)
    if answered is None:
        return status
    others: list[dict[str, Any]] = []
    # What was answered for this file is remembered. Another one may be of another till.
    request.date_order = order_of_all
    if request.is_load and not request.is_check and status in (0, SOME_REJECTED):
        status = max(status, _load_joined(settings, request, answered, others))
    if request.printed is not None:
        print_json({**request.printed, "others": others})
    return status


def _import(settings: Settings, request: ImportRequest, *, is_asked: bool) -> int:
    """Import the files or the database of a request, and return the exit status."""
    with ExitStack() as opened:
        write_rejects = opened.enter_context(import_report.import_rejects(request.rejects))
        # The state file is locked before the database is read. Otherwise, another import could save a state that is
        # newer than what is read here.
        state = opened.enter_context(closing(StateFile(request.state))) if request.state else None
        folder = opened.enter_context(temporary_folder("counterfoil-convert-"))
        run = _Import(settings, request, state, folder, is_asked)
        try:
            export = run.converted()
        except ImportStopped:
            echo("Stopped. Nothing was written.", err=True)
            return NOT_ANSWERED
        if isinstance(export, int):
            return export
        opened.enter_context(closing(export))
        _require_use_of_base(request, export)
        export.tally.rejects_file = request.rejects
        status = judge(settings, request, export)
        if status is not None:
            return status
        write_rejects(export)
        status = finish(settings, request, export, state)
        run.remember(status)
    return status


class _Import(Struct):
    """How an export comes to be converted: at once, if it is known, or once its form is answered and accepted."""

    settings: Settings
    request: ImportRequest
    state: StateFile | None
    folder: Path
    is_asked: bool
    answered: Answered | None = None
    tables: tuple[str, ...] = ()
    """The known tables of which it was answered whether the day or the month comes first."""

    def converted(self) -> ConvertedExport | int:
        """Return the export, or the exit status if nothing is to be written."""
        request = self.request
        try:
            export = self._convert_with_order()
        except UnknownExport as unknown:
            if request.format_name not in (None, CSV):
                raise
            # A mapping that nearly fits is named, unless the answers were given anyway.
            if str(unknown) and request.answers_file is None:
                print_note(str(unknown))
            return self._with_answers(read_answers(request.answers_file))
        if isinstance(export, int):
            return export
        try:
            return self._known(export)
        except BaseException:
            export.close()
            raise

    def remember(self, status: int) -> None:
        """Keep the mapping for files with the same headings, if the files were loaded with it."""
        request = self.request
        if not request.is_load or request.is_check or status not in (0, SOME_REJECTED):
            return
        if self.answered is not None:
            self._remember(self.answered)
        if self.tables:
            self._remember_order()

    def _remember(self, answered: Answered) -> Path:
        request = self.request
        others: dict[Kind, Sequence[Path]] = {"lines": request.line_files, "payments": request.payment_files}
        kinds: list[Kind] = ["bills", *(kind for kind, paths in others.items() if paths)]
        path = remember(self.settings, request.mappings, self._export_name, answered.form, kinds)
        self._record(path)
        print_wrapped(f"Files with these headings are read in the same way from now on: {path}", err=True)
        return path

    def _remember_order(self) -> None:
        request = self.request
        for path in remember_order(self.settings, request.mappings, self.tables, request.date_order or ""):
            self._record(path)
            print_wrapped(f"The dates of such files are read in the same order from now on: {path}", err=True)

    def _record(self, path: Path) -> None:
        """Write into the audit log who has accepted a mapping."""
        try:
            record(self.settings, Act.MAPPING_ACCEPTED, path.name)
        except (StoreUnavailable, StoreMismatch, OSError) as error:
            print_note(f"the keys cannot be written, so the mapping {path.name} is not in the audit log: {error}")

    @property
    def _export_name(self) -> Path:
        """The name of the export, after which its mapping is named."""
        return Path(self.request.delivered_name or _files(self.request)[0].name)

    def _convert(self) -> ConvertedExport:
        return _converted(self.settings, self.request, self.state, self.folder)

    def _convert_with_order(self) -> ConvertedExport | int:
        """Convert the files. If nothing shows the order of their dates, ask for it, or return the exit status."""
        request = self.request
        try:
            return self._convert()
        except UnknownOrder as unknown:
            if request.mapping is not None:
                raise
            order = read_answers(request.answers_file).get("order")
            order = order or open_order(unknown, is_asked=self.is_asked, as_json=request.as_json)
        if order is None:
            return NOT_ANSWERED
        self._set_order(order)
        export = self._convert()
        self.tables = tuple(dict.fromkeys(export.tally.recognised.values()))
        return export

    def _set_order(self, order: str) -> None:
        if order not in DATE_ORDERS:
            raise click.UsageError(f"The answer order = {order!r}: use {' or '.join(DATE_ORDERS)}.")
        self.request.date_order = order

    # --- an export that is known ------------------------------------------------------

    def _known(self, export: ConvertedExport) -> ConvertedExport | int:
        """Ask what no export says about new shops, and whether the totals are right."""
        request = self.request
        if request.as_json and not request.writes_records:
            raise click.UsageError(JSON_NEEDS_OUTPUT)
        answers = read_answers(request.answers_file)
        if answers and not set(answers) <= FACTS_OF_KNOWN:
            export.close()
            if _is_built_in(export):
                title = " and ".join(export.tally.recognised.values())
                raise click.UsageError(f"{title}: nothing is asked about it but {', '.join(sorted(FACTS_OF_KNOWN))}.")
            return self._with_answers(answers)
        if request.format_name is None and not request.as_json:
            for title in dict.fromkeys(export.tally.recognised.values()):
                echo(f"Recognised: {title}", err=True)
        if request.output.endswith(MAPPING_SUFFIX):
            export.close()
            return self._write_built_in(export)
        if answers:
            export.close()
            self._set_facts(facts_of(answers, request.new_shops()))
            if "order" in answers:
                # If the dates show another order, this fails.
                self._set_order(answers["order"])
            export = self._convert()
        if self.is_asked:
            return self._accepted(export)
        import_report.say_notes(export)
        return export

    def _accepted(self, export: ConvertedExport) -> ConvertedExport | int:
        request = self.request
        if export.tally.new_shops and not request.new_shops().closing:
            facts = ask_shop_facts(self.settings, export, request.new_shops())
            export.close()
            self._set_facts(facts)
            export = self._convert()
        for note in export.notes:
            import_report.say_once(note)
        if not request.has_output:
            self._accept_totals(export)
        return export

    def _accept_totals(self, export: ConvertedExport) -> None:
        """Show the totals of all bills. If they are not to be loaded, close the export, and raise `ImportStopped`."""
        report, _ = checked_load(self.settings, self.request, export, is_guarded=False)
        with redirect_stdout(sys.stderr):
            import_report.print_tally(export.tally)
            print_totals(report.summary.totals.report())
        try:
            accept_totals()
        except ImportStopped:
            export.close()
            raise
        self.request.is_load = True

    def _set_facts(self, facts: ShopSettings) -> None:
        request = self.request
        request.franchise = facts.franchise_id
        request.closing_time = facts.closing
        request.timezone = request.timezone or facts.timezone

    def _write_built_in(self, export: ConvertedExport) -> int:
        """Write the mapping of a known till to the output, for changes of the operator's own."""
        titles = set(export.tally.recognised.values())
        texts = [table.text for table in built_in_tables() if table.recognition.name in titles]
        if len(texts) != 1:
            raise click.UsageError("There is no single mapping for these files. Name one file of a known table.")
        _write_text(Path(self.request.output), texts[0])
        echo(f"The built-in mapping is in {self.request.output}. Nothing was loaded.", err=True)
        return 0

    # --- an export that nobody has answered for ---------------------------------------

    def _with_answers(self, answers: Mapping[str, str]) -> ConvertedExport | int:
        """Return the export as its answered form says, or the exit status if that is not to be loaded."""
        request = self.request
        options = {
            "franchise": request.franchise,
            "closing": request.closing_time,
            "shop": request.shop,
            "order": request.date_order,
        }
        given = {name: value for name, value in options.items() if value is not None}
        answered = answer(
            self.settings,
            request,
            input_files(_files(request), request.line_files, request.payment_files, self.folder),
            {**given, **answers},
            is_asked=self.is_asked,
            as_json=request.as_json,
            only_form=request.as_json and not request.writes_records,
        )
        if isinstance(answered, int):
            return answered
        if request.output.endswith(MAPPING_SUFFIX):
            _write_text(Path(request.output), answered.form.mapping)
            echo(f"The mapping is in {request.output}. Nothing was loaded.", err=True)
            return 0
        if answered.decision is Decision.WRITE:
            self._remember(answered)
            echo("Nothing was loaded.", err=True)
            return 0
        return self._converted_form(answered)

    def _converted_form(self, answered: Answered) -> ConvertedExport | int:
        """Return the export, converted with the accepted mapping. Its totals must be those that were accepted."""
        request = self.request
        path = self.folder / mapping_name(self._export_name)
        path.write_text(answered.form.mapping, "utf-8")
        request.mapping = path
        is_decided_here = self.is_asked and not request.has_output
        request.is_load = request.is_load or is_decided_here
        # The mapping has the facts of the new shops.
        request.franchise = request.closing_time = request.shop = request.timezone = None
        request.with_shops = False
        accepted = None if answered.form.is_sample else answered.form.totals
        if accepted is not None:
            net = int(Decimal(accepted.net) * MILLION)
            request.expect_net = (*request.expect_net, ExpectedNet(None, net))
        export = self._convert()
        if accepted is not None and export.tally.bills != accepted.bills:
            bills = counted(accepted.bills, "bill")
            export.close()
            raise ImportFailed(f"{export.name}: {bills} accepted, but {export.tally.bills:,} converted. Report it.")
        import_report.say_notes(export)
        self.answered = answered
        if answered.form.is_sample and is_decided_here:
            self._accept_totals(export)
        return export


def _load_joined(settings: Settings, request: ImportRequest, answered: OpenItem, others: list[dict[str, Any]]) -> int:
    """Load the other files that wait for answers and have the same headings, and add what became of each to `others`.

    Return the exit status.
    """
    status = 0
    for waiting in unanswered_items(settings):
        if waiting.identity == answered.identity:
            continue
        item = waiting
        if waiting.headings_digest == answered.headings_digest != "":
            # It was a file of the same item, whose first file is loaded now.
            item = replace(waiting, number=answered.number)
        joined = replace(
            request,
            item=item.number,
            files=(Path(item.path),),
            delivered_name=item.source,
            mapping=None,
            mappings=mappings_folder(settings, request.mappings),
            answers_file=None,
            expect_net=(),
            printed=None,
        )
        try:
            with temporary_folder("counterfoil-convert-") as folder:
                _converted(settings, joined, None, folder).close()
        except (UnknownExport, UnknownOrder):
            # It has other headings, or dates in an order that nobody has said yet.
            continue
        echo(f"{item.title}: it has the same headings, so it is loaded too.", err=True)
        try:
            status = max(status, _import(settings, joined, is_asked=False))
        except (ConversionFailed, ImportFailed) as error:
            print_message(str(error))
            others.append({"item": item.number, "source": item.source, "problem": str(error)})
            status = max(status, FAILED)
        else:
            others.append({"item": item.number, **(joined.printed or {}), "source": item.source})
    return status


def _is_built_in(export: ConvertedExport) -> bool:
    known = {table.recognition.name for table in built_in_tables()} | {api.title for api in APIS.values()}
    return known.issuperset(export.tally.recognised.values())


def _write_text(path: Path, text: str) -> None:
    if path.exists():
        raise click.BadParameter(f"{path} already exists. Choose a new file name.", param_hint="--output")
    with draft_of(path) as draft, open_output(draft, name=path) as file:
        file.write(text.encode())


def _refusals(ctx: click.Context, request: ImportRequest) -> Iterator[tuple[object, str]]:
    """Yield whether options are invalid or cannot be used together, and what to say then."""
    is_to_stdout, zone = request.output == STANDARD_OUTPUT, request.timezone
    files = [path.resolve() for path in (*request.files, *request.line_files, *request.payment_files)]
    yield not request.output, "--output needs a file name."
    is_described = request.new_shops().given() and request.content().get("shop")
    yield is_described, "The mapping describes its shops: write franchiseId and closingTime into its [[shop]] entries."
    has_base = request.base and request.with_shops and request.content().get("shop")
    yield has_base, "The mapping describes its shops: write providerId into its [[shop]] entries."
    yield (
        zone is not None and zone_named(zone) is None,
        f"{zone!r} is not a valid time zone. Use a name such as Asia/Bangkok.",
    )
    is_written = not is_to_stdout or request.rejects
    yield request.is_check and is_written, "--check writes no files. Leave out --output and --rejects."
    yield request.accept_change and not request.is_load, "--accept-change needs --load."
    yield request.is_load and not is_to_stdout, "Use --load or --output, not both."
    yield request.as_json and request.format_name and not request.writes_records, JSON_NEEDS_OUTPUT
    if request.is_database:
        yield (
            files or not request.url or not request.mapping,
            ("An import from a database needs --url and --mapping, and takes no files."),
        )
        yield (
            request.state and not request.is_load,
            ("--state needs --load, because progress may be saved only after the records are loaded."),
        )
        return
    is_given = ctx.get_parameter_source("url") == ParameterSource.COMMANDLINE
    yield (
        is_given or request.state or request.full or request.skip_rejected,
        ("--url, --state, --full and --skip-rejected are for a database, which takes no files."),
    )
    yield (
        request.format_name == CSV and request.mapping is None,
        ("--format csv needs --mapping FILE. `counterfoil import FILE -o mapping.toml` asks for one."),
    )
    # The rows of a file that is given twice would be counted twice.
    yield len(files) != len(set(files)), "The same file was given twice. Name each file once."


def _files(request: ImportRequest) -> Sequence[Path]:
    if not request.files:
        raise click.UsageError("Missing argument 'FILE...': the export to read.")
    return request.files


def _converted(settings: Settings, request: ImportRequest, state: StateFile | None, folder: Path) -> ConvertedExport:
    """Return the export or the database, converted by another process. Its records may be in the folder."""
    if request.is_database:
        # A mistake in the mapping is found before anything is connected.
        parse_mapping(request.content(), request.mapping_name or DATABASE)
        saved = state.read() if state and not request.full else None
        database = PosDatabase(request.url or "", saved)
    else:
        database = None
    shops, bases = known_shops(settings), known_bases(settings)
    # A shop that the store knows is not written over. In a file of records, it stays.
    known = {shop.id for shop in shops} if request.may_load else set()
    with terminal.progress("Converting", None, "rows") as show_progress, stop_signals_as_interrupt():
        files = (
            []
            if request.is_database
            else input_files(_files(request), request.line_files, request.payment_files, folder)
        )
        return convert(
            request.conversion(shops, bases, files, database, format_name=request.format_name, joins=request.join),
            conversion_limits(settings),
            is_known=known.__contains__,
            new_shops=request.new_shops(),
            folder=folder,
            command=request.command(),
            on_progress=lambda rows: show_progress(0, rows),
        )


def _require_use_of_base(request: ImportRequest, export: ConvertedExport) -> None:
    """Raise if --base would have no effect, because the export has bills and no new shops are written."""
    if request.base and export.tally.bills and not request.with_shops:
        raise click.UsageError(
            "--base is for tables of members and, with --with-shops, for new shops. This export has bills."
        )
