"""Writes imported records to a file or to standard output, or loads them into the store."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from msgspec import json

from counterfoil import bootstrap
from counterfoil.cli.import_report import ImportTally, print_tally, tally_view
from counterfoil.cli.load_report import print_report, report_view
from counterfoil.cli.load_run import LoadReport, new_rejects_file, open_for_check, run_load
from counterfoil.cli.terminal import echo, print_json
from counterfoil.domain.intake import RejectedLine, RejectedRows
from counterfoil.importing.results import IMPORT_PREFIX, Imported, ImportedRecord
from counterfoil.ingest.checking import RejectExamples
from counterfoil.ingest.lines import SourceLine
from counterfoil.ingest.pipeline import Summary
from counterfoil.ingest.sources import Source
from counterfoil.machine.files import StandardOutput, draft_of, open_output
from counterfoil.settings import Settings

STANDARD_OUTPUT = "-"
_encode = json.Encoder().encode


class ImportedSource(Source):
    """Passes imported records to a load. Each line keeps the file name and line number that it has in the export."""

    def __init__(self, name: str, records: Iterable[ImportedRecord], tally: ImportTally) -> None:
        super().__init__(name, None)
        self._records = records
        self._tally = tally

    def lines(self) -> Iterator[SourceLine]:
        for one in self._records:
            yield SourceLine(one.file, one.line, _encode(one.record))

    def rejected_rows(self) -> RejectedRows:
        return RejectedRows(
            {IMPORT_PREFIX + reason: count for reason, count in self._tally.rejected.items()},
            [RejectedLine(row.file, row.line, IMPORT_PREFIX + row.reason) for row in self._tally.first_rejects],
        )


def write_records(records: Iterable[ImportedRecord], output: str, tally: ImportTally, *, as_json: bool) -> None:
    """Write the records as NDJSON, then print the summary."""
    if output == STANDARD_OUTPUT:
        out = StandardOutput()
        for one in records:
            out.write(_encode(one.record) + b"\n")
        out.flush()
        print_tally(tally, to_stderr=True)
        return
    path = Path(output)
    if path.exists() and not path.is_file():
        # Write to a pipe or a device directly, because renaming a finished file would replace the pipe or device.
        _write_to(path, path, records)
    else:
        with draft_of(path) as draft:
            _write_to(draft, path, records)
    if as_json:
        print_json(tally_view(tally))
    else:
        print_tally(tally, to_stderr=False)


def check_records(records: Iterable[ImportedRecord], tally: ImportTally, *, as_json: bool) -> None:
    """Convert the records without writing them, then print the summary."""
    for _ in records:
        pass
    if as_json:
        print_json({**tally_view(tally), "check": True})
        return
    print_tally(tally, to_stderr=False)
    echo("Nothing was written. Run the same command without --check to write the records.")


def _write_to(path: Path, name: Path, records: Iterable[ImportedRecord]) -> None:
    with open_output(path, name=name) as file:
        for one in records:
            file.write(_encode(one.record) + b"\n")


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
    as_json: bool,
    is_check: bool,
) -> LoadReport:
    """Load the records, or only check them. Print the summaries of the import and the load; return the report."""
    rejects = RejectExamples() if is_check else new_rejects_file(settings, name)
    report = LoadReport(summary=Summary(source=name), rejects=rejects, records=ImportedSource(name, records, tally))
    run_load(settings, report)
    if as_json:
        print_json({**report_view(report), "import": tally_view(tally)})
    else:
        print_tally(tally, to_stderr=False)
        print_report(report, as_json=False)
    return report
