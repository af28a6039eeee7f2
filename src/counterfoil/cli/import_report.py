"""The summary of an import: how many bills and shops were converted, and why rows were skipped or rejected."""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

import click
from msgspec import Struct, field, json
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.cli.store import is_without_store
from counterfoil.cli.terminal import echo, message, print_note, style
from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.intake import MAX_REMEMBERED, RejectedLine, RejectedRows
from counterfoil.domain.shops import NOTHING_SET, ShopSettings
from counterfoil.importing import results
from counterfoil.importing.results import IMPORT_PREFIX, ExportTotals, Imported, ImportedRecord, RejectedRow
from counterfoil.ingest.lines import SourceLine
from counterfoil.ingest.pipeline import RejectsFile
from counterfoil.ingest.sources import Source
from counterfoil.machine.clock import SystemClock
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.text import counted

MAX_SHOWN = 20
COLUMN = 10
_ADVICE = re.compile(r"\. (?=[A-Z])")
Facts = Callable[[str], KnownFacts | None]
"""Returns what the store knows of a shop."""
_encode = json.Encoder().encode


class ImportTally(Struct):
    bills: int = 0
    shops: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    first_rejects: list[RejectedRow] = []
    rejects_file: Path | None = None
    new_shops: list[str] = []
    """The IDs of the shops that the export names and the store does not know."""
    recognised: dict[str, str] = {}
    """What each file was recognised as, by its name."""
    export_totals: list[ExportTotals] = []
    """The totals that the export itself states."""

    @property
    def wrong_totals(self) -> list[ExportTotals]:
        return [total for total in self.export_totals if total.stated != total.computed]

    def count(self, imported: ImportedRecord) -> None:
        is_bill = imported.record["kind"] == "bill"
        self.bills += is_bill
        self.shops += not is_bill
        if imported.is_found_shop:
            self.new_shops.append(imported.record["id"])

    def add(self, row: RejectedRow) -> None:
        self.rejected[row.reason] += 1
        if len(self.first_rejects) < MAX_REMEMBERED:
            self.first_rejects.append(row)

    def rejected_rows(self, source: str | None = None) -> RejectedRows:
        """Return the rejected rows as a load stores them. They are of this source, or of the file that each names."""
        first = [RejectedLine(source or row.file, row.line, IMPORT_PREFIX + row.reason) for row in self.first_rejects]
        return RejectedRows({IMPORT_PREFIX + reason: count for reason, count in self.rejected.items()}, first)


WriteReject = Callable[[RejectedRow], None]


@contextmanager
def import_rejects(path: Path | None) -> Iterator[WriteReject]:
    """Yield a function that writes rejected rows to a new file. If the import fails, delete it for the next one."""
    if path is None:
        yield ignore_reject
        return
    if path.exists():
        raise click.BadParameter(f"{path} already exists. Choose a new file name.", param_hint="--rejects")
    with closing(RejectsFile(path)) as file:
        try:
            yield file.write
        except BaseException:
            if file.used:
                path.unlink(missing_ok=True)
            raise


def ignore_reject(row: RejectedRow) -> None:
    """Write nothing: rejects are only counted."""


class ImportedSource(Source):
    """Passes imported records to a load. Each line keeps the file name and line number that it has in the export."""

    is_export = True

    def __init__(
        self, name: str, records: Iterable[ImportedRecord], tally: ImportTally, write: Callable[[SourceLine], object]
    ) -> None:
        super().__init__(name, None)
        self._records = records
        self._tally = tally
        self._write = write

    def lines(self) -> Iterator[SourceLine]:
        for one in self._records:
            line = SourceLine(one.file, one.line, _encode(one.record))
            self._write(line)
            yield line

    def rejected_rows(self) -> RejectedRows:
        return self._tally.rejected_rows()


def facts_for_import(settings: Settings) -> Facts:
    """Return a function that reads what the store knows of a shop, such as its closing time, or None if it cannot."""

    def facts(shop_id: str) -> KnownFacts | None:
        try:
            return None if is_without_store(settings) else bootstrap.store(settings).reads().facts(shop_id)
        except (StoreUnavailable, StoreMismatch):
            return None

    return facts


def today() -> date:
    """Return the day in UTC. No bill is later than the day after it."""
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).date()


def say_once(note: str) -> None:
    """Say once in a command what an export does not show, and not for each file that arrives or is read again."""
    context = click.get_current_context(silent=True)
    said: set[str] = context.meta.setdefault(__name__, set()) if context else set()
    if note not in said:
        said.add(note)
        print_note(note)


def converted(
    found: Iterable[Imported],
    tally: ImportTally,
    facts: Facts,
    reject: WriteReject = ignore_reject,
    stored: Facts | None = None,
    new_shops: ShopSettings = NOTHING_SET,
) -> Generator[ImportedRecord, None, None]:
    """Yield the records. Count records, skipped rows and rejects in the tally, and write the rejects to their file.

    A shop that the export names but does not describe is left out if `facts` knows it, and otherwise gets `new_shops`.
    Its time zone must be known if it is not that of Thailand, unless `stored` knows the shop.
    """
    for one in found:
        match one:
            case ImportedRecord() if one.is_found_shop and facts(one.record["id"]):
                continue
            case ImportedRecord():
                tally.count(one)
                if one.is_found_shop and "timezone" not in one.record:
                    say_once(message("zone_assumed"))
                yield replace(one, record=new_shops.in_record(one.record)) if one.is_found_shop else one
            case ExportTotals():
                tally.export_totals.append(one)
            case results.ShopElsewhere() if not (stored or facts)(one.shop_id):
                raise results.ImportFailed(message("zone_needed", name=one.file))
            case results.ImportNote():
                say_once(one.text)
            case results.SkippedRow():
                tally.skipped[one.reason] += 1
            case RejectedRow():
                tally.add(one)
                reject(one)


def print_tally(tally: ImportTally) -> None:
    def say(name: str, text: str) -> None:
        echo(style(name.ljust(COLUMN), dim=True) + "  " + text)

    say("bills", f"{tally.bills:,} converted")
    if tally.shops:
        say("shops", f"{tally.shops:,} converted")
    for reason, count in tally.skipped.items():
        say("skipped", f"{count:,}: {reason}")
    for reason, count in tally.rejected.items():
        say("rejected", f"{count:,}: the row {results.REJECT_REASONS[reason]}")
    advised: set[str] = set()
    for row in tally.first_rejects[:MAX_SHOWN]:
        bill = f", bill {row.bill}" if row.bill else ""
        # What is wrong differs from row to row, but what to do about it is said once.
        problem, *advice = _ADVICE.split(row.detail, maxsplit=1)
        say("", f"{row.file} line {row.line}{bill}: {problem if advised.issuperset(advice) else row.detail}")
        advised.update(advice)
    total = tally.rejected.total()
    if total > MAX_SHOWN:
        say("", f"… and {total - MAX_SHOWN:,} more")
    if total:
        where = f" The rejected rows are in {tally.rejects_file}." if tally.rejects_file else ""
        hint = "" if tally.rejects_file or total <= MAX_SHOWN else " Use --rejects FILE to write all rejects to a file."
        rows = "1 row, so its bill was" if total == 1 else f"{total:,} rows, so their bills were"
        echo(message("rows_rejected", rows=rows, advice=f"{where}{hint}"))
    _print_export_totals(tally)


def _print_export_totals(tally: ImportTally) -> None:
    wrong = tally.wrong_totals
    for total in wrong[:MAX_SHOWN]:
        difference = f"{total.stated:,f}, but its rows add up to {total.computed:,f}"
        echo(f"{total.file} line {total.line}: the export states that {total.column} is {difference}.")
    if wrong:
        echo(message("wrong_totals", wrong=len(wrong), totals=len(tally.export_totals)))
    elif tally.export_totals:
        echo(f"The rows add up to {counted(len(tally.export_totals), 'total')} of the export.")


def tally_view(tally: ImportTally) -> dict[str, object]:
    return {
        "recognised": tally.recognised,
        "bills": tally.bills,
        "shops": tally.shops,
        "newShops": tally.new_shops,
        "skipped": dict(tally.skipped),
        "rejected": tally.rejected.total(),
        "reasons": dict(tally.rejected),
        "rejects": tally.first_rejects[:MAX_SHOWN],
        "rejectsFile": str(tally.rejects_file) if tally.rejects_file else None,
        "exportTotals": tally.export_totals,
    }
