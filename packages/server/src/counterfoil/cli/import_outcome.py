"""What becomes of the records of an import: they are judged, then loaded, written to a file or only checked."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from functools import cache
from pathlib import Path

from counterfoil import bootstrap
from counterfoil.cli import import_report, load_exports, load_run
from counterfoil.cli.import_known import note_bases_without_shops, note_settings_kept
from counterfoil.cli.import_request import STANDARD_OUTPUT, ImportRequest
from counterfoil.cli.totals import net_differences, print_totals
from counterfoil.domain.intake import Intake
from counterfoil.domain.replacements import StoredBill
from counterfoil.importing.results import ImportFailed
from counterfoil.ingest.checking import FindsBills, LenientLedger, RejectExamples, checked_records
from counterfoil.ingest.converted_exports import ConvertedExport
from counterfoil.ingest.import_state import StateFile
from counterfoil.ingest.lines import OTHER_BILL, UNKNOWN_SHOP
from counterfoil.ingest.pipeline import RejectsFile, Summary
from counterfoil.machine.files import StandardOutput, draft_of, open_output
from counterfoil.model.text import counted, printable
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.main import FAILED, INTERRUPTED
from counterfoil.program.terminal import echo, is_terminal, print_json, print_message, print_note, print_wrapped
from counterfoil.settings import Settings

MAX_SHOPS_SHOWN = 5
EXPORT_IS_RIGHT = "If the export is right, repeat the command with --accept-change."


def judge(settings: Settings, request: ImportRequest, export: ConvertedExport) -> int | None:
    """Judge an export before anything of it is written. Return the exit status if it ends here, otherwise None.

    If the operator accepts on the terminal that it differs sharply from earlier ones, the request says so afterwards.
    """
    is_judged = request.is_load and not request.accept_change
    # Each import reads only what is new in a database, so it is compared with the others once it is loaded.
    is_compared = is_judged and not request.is_database
    same_sales = load_exports.other_ids(settings, export) if is_compared and export.has_other_ids else None
    if same_sales:
        raise ImportFailed(f"{same_sales} {load_exports.IF_OTHER_SALES}")
    if request.is_check:
        return None
    if is_judged and export.tally.wrong_totals:
        raise ImportFailed(f"{load_exports.wrong_total(export)} {EXPORT_IS_RIGHT}")
    if not (is_judged or request.expect_net):
        return None
    report, unknown_shops = checked_load(settings, request, export, is_guarded=is_compared)
    if is_judged and report.summary.totals.report().mostly_differs:
        raise ImportFailed(f"{load_exports.wrong_net(export.name)} {EXPORT_IS_RIGHT}")
    differences = _differences(request, report)
    status = _status(report, export, differences)
    is_sudden_change = status == load_run.SUDDEN_CHANGE and is_compared
    if status not in (INTERRUPTED, FAILED) and not is_sudden_change:
        return None
    report.before_load = True
    _print(request, report, export, unknown_shops, is_check=True)
    for difference in differences:
        print_message(difference)
    if not is_sudden_change:
        return status
    load_run.require_acceptance(may_ask=not request.as_json)
    request.accept_change = request.is_confirmed = True
    return None


def finish(settings: Settings, request: ImportRequest, export: ConvertedExport, state: StateFile | None) -> int:
    """Load, write or check the records, and return the exit status."""
    unknown_shops: Sequence[str] = ()
    if request.is_check:
        report, unknown_shops = checked_load(settings, request, export, is_guarded=not request.accept_change)
    elif request.is_load:
        first = printable(request.files[0].name) if request.files else export.name
        export.file_names = _delivered_names(request)
        report = _report(export, load_run.new_rejects_file(settings, first))
        load_run.run_load(settings, report, is_guarded=not request.accept_change)
        _finish_load(settings, request, export, report, state)
        note_bases_without_shops(settings, export)
        note_settings_kept(settings, request.new_shops(), export.tally.known_shops)
    else:
        report, unknown_shops = checked_load(settings, request, export, is_guarded=False)
        _write(request, export)
    differences = _differences(request, report)
    status = _status(report, export, differences)
    report.before_load = request.is_check and bool(status)
    _print(request, report, export, unknown_shops, is_check=request.is_check)
    for difference in differences:
        print_message(difference)
    return status


def _report(export: ConvertedExport, rejects: RejectsFile) -> load_run.LoadReport:
    return load_run.LoadReport(summary=Summary(source=export.name), rejects=rejects, records=export)


def _delivered_names(request: ImportRequest) -> dict[str, str]:
    """Return the names under which all files of an export were delivered, by those that messages and lines have."""
    names = {}
    for path in (*request.files, *request.line_files, *request.payment_files):
        names[printable(path.name)] = printable(request.delivered_name or path.name)
    return names


def checked_load(
    settings: Settings, request: ImportRequest, export: ConvertedExport, *, is_guarded: bool
) -> tuple[load_run.LoadReport, Sequence[str]]:
    """Return the report that a load of the records would have, and the shops that are not known. Nothing is written."""
    report = _report(export, RejectExamples())
    if request.is_load:
        load_run.run_load(settings, report, is_guarded=is_guarded)
        return report, ()
    ledger = LenientLedger(load_exports.facts_for_import(settings), Intake, _stored_bills(settings))
    report.summary = checked_records(export, ledger, is_guarded=is_guarded)
    return report, ledger.unknown_shops


def _differences(request: ImportRequest, report: load_run.LoadReport) -> list[str]:
    return [] if report.interrupted else net_differences(request.expect_net, report.summary.totals)


def _status(report: load_run.LoadReport, export: ConvertedExport, differences: Sequence[str]) -> int:
    tally, summary = export.tally, report.summary
    is_wrong = tally.rejected or summary.rejected or tally.wrong_totals or summary.totals.report().mostly_differs
    return FAILED if differences else load_run.exit_status(report, is_wrong=bool(is_wrong))


def _write(request: ImportRequest, export: ConvertedExport) -> None:
    """Write the records to the file or to standard output."""
    path = Path(request.output)
    if request.output == STANDARD_OUTPUT:
        out = StandardOutput()
        for line in export.lines():
            out.write(line.text + b"\n")
        out.flush()
        return
    # Write to a pipe or a device directly, because renaming a finished file would replace the pipe or device.
    is_special = path.exists() and not path.is_file()
    with nullcontext(path) if is_special else draft_of(path) as draft, open_output(draft, name=path) as file:
        for line in export.lines():
            file.write(line.text + b"\n")


def _finish_load(
    settings: Settings,
    request: ImportRequest,
    export: ConvertedExport,
    report: load_run.LoadReport,
    state: StateFile | None,
) -> None:
    """Accept a change as normal if the operator asked for it, and save the progress of an import from a database."""
    if report.interrupted:
        return
    if request.accept_change:
        report.accepted = load_run.accept_change(settings, report.summary, is_confirmed=request.is_confirmed)
    is_complete = not (export.tally.rejected or report.summary.rejected)
    if state is None:
        return
    if ((is_complete and not report.is_stopped) or request.skip_rejected) and export.state is not None:
        state.write(export.state)
    else:
        print_note(
            "progress was not saved, because rows were rejected. Fix the cause and run the same "
            "command again, or use --skip-rejected to save progress anyway."
        )


def _print(
    request: ImportRequest,
    report: load_run.LoadReport,
    export: ConvertedExport,
    unknown_shops: Sequence[str],
    *,
    is_check: bool,
) -> None:
    if request.is_load:
        _print_load(report, export, request)
    else:
        _print_import(report, export, unknown_shops, request, is_check=is_check)


def _print_load(report: load_run.LoadReport, export: ConvertedExport, request: ImportRequest) -> None:
    if request.as_json:
        request.printed = {**load_run.report_view(report), "import": import_report.tally_view(export.tally)}
        if request.item is None:
            print_json(request.printed)
        return
    franchise = request.franchise
    import_report.print_tally(export.tally)
    load_run.print_report(report, as_json=False)
    if report.summary.rejected[UNKNOWN_SHOP]:
        echo("Add --with-shops to create the shops that the export names, or load the shops first.")
    if len(export.tally.new_shops) > 1 and not report.is_stopped:
        shops = f"The {len(export.tally.new_shops):,} new shops"
        alone = f"{shops} belong to no franchise, so no key can read more than one of them. Put them into one: "
        together = f"{shops} belong to the franchise {franchise}. Issue a key that reads all of them: "
        put, issue = "counterfoil shops set --missing --franchise NAME", "counterfoil keys issue --franchise"
        print_wrapped(f"{together}{issue} {shlex.quote(franchise)}" if franchise else f"{alone}{put}")
    elif franchise and export.tally.new_shops and not report.is_stopped:
        (shop,) = export.tally.new_shops
        print_wrapped(
            f"The shop {printable(shop)} is new. It belongs to the franchise {printable(franchise)}, so the keys of "
            "this franchise read it."
        )


def _stored_bills(settings: Settings) -> FindsBills:
    """Return a function that reads bills of the store. If it cannot be read, say so once, and return none."""
    has_store = not bootstrap.is_without_store(settings)
    say, opened = cache(print_note), cache(lambda: bootstrap.store(settings).reads())

    def read(bill_ids: Mapping[str, Sequence[str]]) -> Mapping[tuple[str, str], StoredBill]:
        try:
            return opened().stored_bills_of_shops(bill_ids) if has_store else {}
        except (StoreUnavailable, StoreMismatch) as error:
            say(f"the bills were not compared with the store: {error}")
            return {}

    return read


def _print_import(
    report: load_run.LoadReport,
    export: ConvertedExport,
    unknown_shops: Sequence[str],
    request: ImportRequest,
    *,
    is_check: bool,
) -> None:
    summary, tally = report.summary, export.tally
    totals, guard = summary.totals.report(), summary.guard
    unusable = summary.rejected.total() - summary.rejected[OTHER_BILL]
    if request.as_json:
        view = import_report.tally_view(tally)
        view |= {"unusable": unusable, "unknownShops": unknown_shops, "totals": totals}
        if is_check:
            view |= {"replacements": load_run.replacement_view(guard), "check": True}
        print_json(view)
        return
    notes = [*load_run.replacement_notes(guard, "If the change is intended, load the bills with --accept-change.")]
    if unusable:
        bills = counted(unusable, "bill")
        notes.append(f"A load would reject {bills}: run `counterfoil load --check` to see why.")
    if unknown_shops:
        names = ", ".join(map(printable, unknown_shops[:MAX_SHOPS_SHOWN]))
        more = " and others" if len(unknown_shops) > MAX_SHOPS_SHOWN else ""
        notes.append(
            f"Not known yet: {names}{more}. The days of such a shop are shown in Thailand time, and a load "
            "would reject its bills. Add --with-shops to create shops from the export, or load them first."
        )
    if is_check:
        again = "" if report.before_load else " Run the same command without --check to write the records."
        notes.append(f"Nothing was written.{again}")
    elif request.output == STANDARD_OUTPUT and is_terminal(sys.stdout):
        notes.append("The records were only printed, and nothing was loaded. To load them, add --load.")
    # Standard output is for the records, also if this is the check before they are written.
    is_for_records = request.output == STANDARD_OUTPUT and not request.is_check
    with redirect_stdout(sys.stderr) if is_for_records else nullcontext():
        import_report.print_tally(tally)
        print_totals(totals)
        for note in notes:
            echo(note)
