"""Writes imported records to a file or to standard output, or loads them into the store."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

from msgspec import json

from counterfoil import bootstrap
from counterfoil.cli.import_report import ImportTally, print_tally, tally_view
from counterfoil.cli.load_run import (
    CHECKED,
    LoadReport,
    new_rejects_file,
    open_for_check,
    print_report,
    replacement_notes,
    replacement_view,
    report_view,
    run_load,
)
from counterfoil.cli.terminal import echo, print_json, print_note
from counterfoil.cli.totals import print_totals
from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.intake import RejectedRows
from counterfoil.domain.replacements import StoredBill
from counterfoil.importing.results import Imported, ImportedRecord
from counterfoil.ingest.checking import ComparedBills, RecordTotals, RejectExamples
from counterfoil.ingest.lines import UNKNOWN_SHOP, SourceLine
from counterfoil.ingest.pipeline import Summary
from counterfoil.ingest.sources import Source
from counterfoil.machine.files import StandardOutput, draft_of, open_output
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.text import counted, printable

STANDARD_OUTPUT = "-"
MAX_SHOPS_SHOWN = 5
_encode = json.Encoder().encode


class ImportedSource(Source):
    """Passes imported records to a load. Each line keeps the file name and line number that it has in the export."""

    is_export = True

    def __init__(self, name: str, records: Iterable[ImportedRecord], tally: ImportTally) -> None:
        super().__init__(name, None)
        self._records = records
        self._tally = tally

    def lines(self) -> Iterator[SourceLine]:
        for one in self._records:
            yield SourceLine(one.file, one.line, _encode(one.record))

    def rejected_rows(self) -> RejectedRows:
        return self._tally.rejected_rows()


def facts_for_import(settings: Settings) -> Callable[[str], KnownFacts | None]:
    """Return a function that reads the facts of a shop from the store, or returns None if the store cannot be read.

    A closing time in the store decides to which business day a bill belongs.
    """

    def facts(shop_id: str) -> KnownFacts | None:
        if not settings.database and not (settings.store / "books.sqlite3").exists():
            return None
        try:
            return bootstrap.operator_reads(settings).facts(shop_id)
        except (StoreUnavailable, StoreMismatch):
            return None

    return facts


def stored_bills(settings: Settings) -> ComparedBills | None:
    """Return what compares bills with those in the store, or None if there is no store yet."""
    if not settings.database and not (settings.store / "books.sqlite3").exists():
        return None
    stored = bootstrap.operator_reads(settings).stored_bills

    @cache
    def say(problem: str) -> None:
        print_note(f"the bills were not compared with the store: {problem}")

    def read(shop_id: str, bill_ids: Sequence[str]) -> dict[str, StoredBill]:
        try:
            return stored(shop_id, bill_ids)
        except (StoreUnavailable, StoreMismatch) as error:
            say(str(error))
            return {}

    return ComparedBills(read)


def _lines(records: Iterable[ImportedRecord], totals: RecordTotals) -> Iterator[bytes]:
    for one in records:
        line = _encode(one.record)
        totals.add(one.record, line)
        yield line + b"\n"
    totals.finish()


def write_records(records: Iterable[ImportedRecord], totals: RecordTotals, output: str) -> None:
    """Write the records as NDJSON, and add them up."""
    lines = _lines(records, totals)
    if output == STANDARD_OUTPUT:
        out = StandardOutput()
        for line in lines:
            out.write(line)
        out.flush()
        return
    path = Path(output)
    if path.exists() and not path.is_file():
        # Write to a pipe or a device directly, because renaming a finished file would replace the pipe or device.
        _write_to(path, path, lines)
    else:
        with draft_of(path) as draft:
            _write_to(draft, path, lines)


def check_records(records: Iterable[ImportedRecord], totals: RecordTotals) -> None:
    """Convert the records without writing them, and add them up."""
    for _ in _lines(records, totals):
        pass


def print_import(
    tally: ImportTally, totals: RecordTotals, as_json: bool, is_check: bool, is_before_load: bool, to_stderr: bool
) -> None:
    """Print the summary of an import that does not load the records."""
    if as_json:
        view = {**tally_view(tally), "unusable": totals.unusable, "unknownShops": totals.unknown_shops}
        view |= {"totals": totals.totals.report()}
        if is_check:
            view["replacements"] = replacement_view(totals.guard)
        print_json({**view, "check": True} if is_check else view)
        return
    print_tally(tally, to_stderr=to_stderr)
    print_totals(totals.totals.report(), to_stderr=to_stderr)
    for line in replacement_notes(totals.guard, CHECKED):
        echo(line, err=to_stderr)
    if totals.unusable:
        bills = counted(totals.unusable, "bill")
        echo(f"A load would reject {bills}: run `counterfoil load --check` to see why.", err=to_stderr)
    if totals.unknown_shops:
        names = ", ".join(map(printable, totals.unknown_shops[:MAX_SHOPS_SHOWN]))
        more = " and others" if len(totals.unknown_shops) > MAX_SHOPS_SHOWN else ""
        echo(
            f"Not known yet: {names}{more}. The days of such a shop are shown in Thailand time, and a load would "
            "reject its bills. Add --with-shops to create shops from the export, or load them first.",
            err=to_stderr,
        )
    if is_check:
        again = "" if is_before_load else " Run the same command without --check to write the records."
        echo(f"Nothing was written.{again}", err=to_stderr)


def _write_to(path: Path, name: Path, lines: Iterable[bytes]) -> None:
    with open_output(path, name=name) as file:
        for line in lines:
            file.write(line)


def without_known_shops(settings: Settings, found: Iterable[Imported], *, is_check: bool) -> Iterator[Imported]:
    """Yield the results. Skip a shop that the export names but does not describe, if the store already knows it."""
    with open_for_check(settings) if is_check else closing(bootstrap.ledger(settings)) as ledger:
        for one in found:
            is_known = isinstance(one, ImportedRecord) and one.is_found_shop and ledger.facts(one.record["id"])
            if not is_known:
                yield one


def load_records(
    settings: Settings,
    records: Iterable[ImportedRecord],
    name: str,
    tally: ImportTally,
    *,
    is_check: bool,
    is_guarded: bool,
) -> LoadReport:
    """Load the records, or only check them, and return the report."""
    rejects = RejectExamples() if is_check else new_rejects_file(settings, name)
    report = LoadReport(summary=Summary(source=name), rejects=rejects, records=ImportedSource(name, records, tally))
    run_load(settings, report, is_guarded=is_guarded)
    return report


def print_load(report: LoadReport, tally: ImportTally, *, as_json: bool) -> None:
    """Print the summaries of an import and its load."""
    if as_json:
        print_json({**report_view(report), "import": tally_view(tally)})
    else:
        print_tally(tally, to_stderr=False)
        print_report(report, as_json=False)
        if report.summary.rejected[UNKNOWN_SHOP]:
            echo("Add --with-shops to create the shops that the export names, or load the shops first.")
