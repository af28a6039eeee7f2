"""Runs a load from the command line, and prints its summary as text or as JSON."""

import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache
from pathlib import Path

import click
from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.cli.auditing import record_new_store
from counterfoil.cli.totals import print_totals
from counterfoil.domain.changes import Outcome
from counterfoil.domain.deliveries import DeliverySketch
from counterfoil.domain.doubts import DeliveryDoubt, describe
from counterfoil.domain.intake import Intake, accepted
from counterfoil.domain.loads import RejectedLine
from counterfoil.domain.open_items import OpenItem
from counterfoil.domain.replacements import ReplacementGuard, StoredBill
from counterfoil.domain.tokens import MIN_SECRET_BYTES, Pseudonyms
from counterfoil.importing.sentences import joined, sentence, sentence_of
from counterfoil.ingest.checking import BillsCompared, CheckingLedger, RejectExamples
from counterfoil.ingest.converters import converter_processes, free_cores
from counterfoil.ingest.fields import FieldCounts, suggestion
from counterfoil.ingest.lines import NOT_JSON, NOT_UTF8, REASONS, UNKNOWN_KIND
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile, Summary
from counterfoil.ingest.sources import ACCEPTED_NAMES, SUFFIXES, Source, SourceError
from counterfoil.ingest.spool import kept_name
from counterfoil.machine.files import is_shared
from counterfoil.model.calendar import quiet_closing
from counterfoil.model.control_totals import TotalsOfDay, TotalsReport
from counterfoil.model.text import counted, printable
from counterfoil.ports import LoadLedger
from counterfoil.program import terminal
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import INTERRUPTED
from counterfoil.program.process import stop_signals_as_interrupt
from counterfoil.program.terminal import display_width, echo, print_fields, print_json
from counterfoil.settings import Settings
from counterfoil.views.loads import alarms_json

# A load creates many lists but no cycles. With Python's default threshold, garbage collection took 6% of its time.
OBJECTS_BETWEEN_COLLECTIONS = 100_000

# An export with fewer bills may have the totals of another one by chance.
FEWEST_COMPARED = 5
MAX_LOADS = 100

# Exit statuses in addition to those in `program/main.py`. `pull` already uses 4 and 5.
SOME_REJECTED, SUDDEN_CHANGE = 3, 6


class LoadReport(Struct, kw_only=True):
    """The result of a load, complete or partial."""

    summary: Summary
    rejects: RejectsFile
    records: Source
    seconds: float = 0
    quarantines: bool = False
    """Whether damaged files are moved to quarantine after the load."""
    quarantined: list[OpenItem] = []
    interrupted: bool = False
    before_load: bool = False
    """Whether this is the check that --expect-net makes before a load."""
    accepted: list[DeliveryDoubt] = []
    proposed_closing: str | None = None
    """The closing time that is proposed for the shops of this load that have none."""
    sketch: DeliverySketch | None = None
    """If it is set, a check adds up in it what the bills would change."""

    @property
    def doubts(self) -> list[DeliveryDoubt]:
        """What is odd about the delivery, and not accepted yet."""
        return [] if self.accepted else self.summary.doubts

    @property
    def alarms(self) -> list[DeliveryDoubt]:
        """The doubts that come from a comparison with earlier loads."""
        return [doubt for doubt in self.doubts if doubt.measure != "replaced"]

    @property
    def is_stopped(self) -> bool:
        """Whether the load was stopped, because it would have replaced many stored bills by other ones."""
        return self.summary.guard.is_exceeded

    @property
    def check(self) -> bool:
        return isinstance(self.rejects, RejectExamples)

    @property
    def per_second(self) -> float:
        return self.summary.lines / self.seconds if self.seconds else 0.0


def run_load(
    settings: Settings,
    report: LoadReport,
    *,
    strict: bool = False,
    is_guarded: bool = True,
    is_beside: bool = False,
    on_batch: Callable[[], None] = lambda: None,
) -> None:
    """Run the load and complete the report, even if it fails. A guarded load does not replace many bills by others."""
    records = report.records
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    began = time.perf_counter()
    pseudonyms = _pseudonyms(settings, report)
    rules = LoadRules(batch=settings.batch, strict=strict, is_guarded=is_guarded, finishes_damaged=report.quarantines)
    if report.check:
        doing = "Checking"
        opened: AbstractContextManager[LoadLedger] = open_for_check(settings, report.sketch)
    else:
        doing = "Loading"
        opened = open_ledger(settings)
    # Beside another load, no processes are started: they have to be forked before the first store is opened.
    most = 0 if is_beside else min(settings.converters, free_cores())
    with (
        converter_processes(pseudonyms, most, records.total) as processes,
        opened as ledger,
        terminal.progress(doing, records.total, "lines", in_bytes=True, is_shown=not is_beside) as show_progress,
    ):

        def show(summary: Summary) -> None:
            report.summary = summary
            show_progress(records.position(), summary.lines)
            on_batch()

        pipeline = Pipeline(ledger, pseudonyms, report.rejects, rules, show, processes)
        try:
            # A load that is asked to stop records that it has stopped.
            with stop_signals_as_interrupt():
                report.summary = pipeline.load(records)
            if isinstance(ledger, CheckingLedger) and is_guarded:
                _look_for_same_sales(settings, report.summary, ledger)
        except KeyboardInterrupt:
            report.interrupted = True
        except SourceError as error:
            if not report.summary.lines:
                raise
            done = "checked" if report.check else "loaded"
            raise SourceError(
                f"{error!s} All lines that could be read were {done}. Repair or replace what could not be "
                "read, then repeat the command."
            ) from error
        finally:
            report.rejects.close()
            report.seconds = time.perf_counter() - began
    report.proposed_closing = _proposed_closing(settings, report.summary)


def _pseudonyms(settings: Settings, report: LoadReport) -> Pseudonyms:
    """Return the tokens of the deployment, or other ones for a check that neither prints nor compares them."""
    if report.check and report.sketch is None:
        # With the secret of the deployment, the check would create that of a new store.
        return Pseudonyms(bytes(MIN_SECRET_BYTES))
    return bootstrap.pseudonyms(settings)


def _proposed_closing(settings: Settings, loaded: Summary) -> str | None:
    """Return a closing time for the shops of a load that have none, if the hours of their bills show one."""
    shops = loaded.totals.report().without_business_day
    if not shops or bootstrap.is_without_store(settings):
        return None
    return quiet_closing(bootstrap.store(settings).reads().bill_hours(shops))


def _look_for_same_sales(settings: Settings, checked: Summary, ledger: CheckingLedger) -> None:
    """Doubt an export of new bills if the store has the same sales, with other IDs."""
    guard = checked.guard
    if bootstrap.is_without_store(settings) or not (guard.is_export and guard.bills) or guard.known:
        return
    guard.same_load = _load_of_same_sales(settings, checked.totals.report())
    guard.has_same_sales = ledger.has_same_sales(bootstrap.store(settings).reads().bills_of_days)
    if (guard.same_load or guard.has_same_sales) and not guard.is_exceeded:
        guard.is_exceeded = True
        checked.doubts.append(guard.doubt)


def _load_of_same_sales(settings: Settings, totals: TotalsReport) -> int:
    """Return the number of an earlier load if most of these bills are of days that were loaded with the same totals."""
    if totals.bills < FEWEST_COMPARED or totals.more_days:
        return 0
    reads = bootstrap.store(settings).reads()
    loads = [load for load in reads.loads(MAX_LOADS) if load.finished and load.changed and not load.undone_at]
    numbers: dict[TotalsOfDay, int] = {}
    for load in loads:
        stored = reads.totals(load.number)
        for day in stored.days if stored else ():
            numbers[day] = load.number
    same = [day for day in totals.days if day in numbers]
    is_most = sum(day.bills for day in same) * 2 > totals.bills
    return numbers[same[0]] if is_most else 0


@contextmanager
def open_ledger(settings: Settings) -> "Iterator[bootstrap.Ledger]":
    is_new = bootstrap.is_without_store(settings)
    with closing(bootstrap.store(settings).ledger()) as ledger:
        if is_new:
            record_new_store(settings)
        yield ledger


@contextmanager
def open_for_check(settings: Settings, sketch: DeliverySketch | None = None) -> Iterator[LoadLedger]:
    """Yield a ledger that writes no records. An embedded store that does not exist yet is not created."""
    if bootstrap.is_without_store(settings):
        yield CheckingLedger(lambda _: None, Intake)
        return
    reads = bootstrap.store(settings).reads()
    bootstrap.require_secret(settings)
    on_bills: BillsCompared = sketch.add if sketch else lambda _bills, _stored: None
    facts = cache(reads.facts)

    def stored_bills(bill_ids: Mapping[str, Sequence[str]]) -> Mapping[tuple[str, str], StoredBill]:
        # The store has no bills of a shop that it does not know, and a new group brings thousands of them.
        of_known_shops = {shop_id: wanted for shop_id, wanted in bill_ids.items() if facts(shop_id)}
        return reads.stored_bills_of_shops(of_known_shops) if of_known_shops else {}

    yield CheckingLedger(facts, reads.intake, stored_bills, on_bills)


def is_checked_first(settings: Settings) -> bool:
    """Return whether a delivery is compared before anything of it is written. The first one is not."""
    if bootstrap.is_without_store(settings):
        return False
    return bootstrap.store(settings).reads().intake() != Intake()


def compared_state(settings: Settings) -> str:
    """Return the state of the store with which a delivery is compared, or an empty string if it has none."""
    if not is_checked_first(settings):
        return ""
    return bootstrap.store(settings).reads().compared_state()


def exit_status(report: LoadReport, *, is_wrong: bool) -> int:
    if report.interrupted:
        return INTERRUPTED
    if report.doubts:
        return SUDDEN_CHANGE
    return SOME_REJECTED if is_wrong else 0


def require_acceptance(*, may_ask: bool) -> None:
    """Ask whether a delivery that differs sharply is to be loaded. If nobody can be asked, end the command."""
    if not (may_ask and terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr)):
        raise click.exceptions.Exit(SUDDEN_CHANGE)
    terminal.confirm("Load the records nevertheless, and accept the change as normal?")


def accept_change(
    settings: Settings, loaded: Summary | None = None, *, is_confirmed: bool = False
) -> list[DeliveryDoubt]:
    """Accept the latest sudden change as normal, and return the alarms that were cleared.

    `loaded` is the load that was accepted. It is marked if it raised doubts, or the operator was asked and confirmed.
    """
    ended: list[DeliveryDoubt] = []

    def change(intake: Intake, now_ms: int) -> Intake:  # noqa: ARG001 - the ledger's signature
        ended.extend(intake.alarms)
        return accepted(intake)

    bootstrap.store(settings).require_exists()
    with closing(bootstrap.store(settings).ledger()) as ledger:
        ledger.change_intake(change)
        if loaded and (loaded.doubts or is_confirmed):
            ledger.add_items([_accepted_item(loaded)])
    return ended


def _accepted_item(loaded: Summary) -> OpenItem:
    """Return an item that was opened and closed at once: that the operator accepted this load."""
    return OpenItem(
        identity=f"accepted load {loaded.load}",
        kind="held",
        load=loaded.load,
        files={loaded.source: 0},
        reason=" ".join(f"{describe(doubt)}." for doubt in loaded.doubts),
        closed_at=SystemClock().now_ms(),
        closed_by="accepted",
    )


def new_rejects_file(settings: Settings, name: str) -> RejectsFile:
    first = name.partition(", ")[0]
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        first = first.removesuffix(suffix)
    return RejectsFile(settings.store / "rejects" / kept_name(f"{first}.ndjson"), is_shared=is_shared(settings.store))


# The printed summary is kept short; `--json` lists everything.
MAX_FIELDS, MAX_FILES = 12, 10
UNKNOWN = "unknown field"

OUTCOMES = tuple(
    outcome.value
    for outcome in (Outcome.ADDED, Outcome.CHANGED, Outcome.UNCHANGED, Outcome.LATE, Outcome.REMOVED, Outcome.FORGOTTEN)
)

# Reasons for rejecting a line that is not a source record at all.
NO_RECORD = (NOT_JSON, NOT_UTF8, UNKNOWN_KIND)


def print_report(report: LoadReport, as_json: bool) -> None:
    summary = report.summary
    if as_json:
        print_json(report_view(report))
        return
    alarms = [str(describe(alarm)) for alarm in report.alarms]
    print_fields(
        [
            *_line_rows(report),
            *_field_rows(summary.fields, with_lines=report.check),
            *_file_rows(report),
            *_shortened("ALARM", alarms, MAX_FIELDS),
        ]
    )
    print_totals(summary.totals.report(), report.proposed_closing)
    for note in _notes(report):
        echo(note)
    if report.accepted:
        print_accepted(report.accepted, as_json=False)


def _line_rows(report: LoadReport) -> Iterator[tuple[str, str]]:
    """Yield the rows that say what became of the lines."""
    summary = report.summary
    yield "lines read", f"{summary.lines:,} in {report.seconds:.1f} s ({report.per_second:,.0f}/s)"
    if report.check:
        yield "would load", f"{summary.outcomes.total():,}"
    else:
        for name in OUTCOMES:
            if summary.outcomes[name]:
                yield name, f"{summary.outcomes[name]:,}"
    for reason, count in summary.rejected.items():
        yield "rejected", f"{count:,}: the line {REASONS[reason]}"
    if isinstance(report.rejects, RejectExamples):
        for example in report.rejects.examples:
            yield "for example", _describe(example)
    if report.rejects.used:
        yield "rejects file", str(report.rejects.path)


def _file_rows(report: LoadReport) -> Iterator[tuple[str, str]]:
    """Yield the rows about files that were not simply loaded."""
    # A file that needs answers is not damaged, although it is in the folder of those that are.
    undamaged: set[str] = set()
    for item in report.quarantined:
        if item.kind == "needs_answers":
            undamaged |= {item.source, item.path}
    for json_name, label, files in _files(report):
        texts = []
        for name, remark in files:
            if name in undamaged and json_name in ("unreadableFiles", "quarantined"):
                continue
            texts.append(f"{name} ({remark})" if remark else name)
        yield from _shortened(label, texts, MAX_FILES)


def _notes(report: LoadReport) -> Iterator[str]:
    summary = report.summary
    if not summary.lines and not report.interrupted:
        yield "No records were found in the delivery."
    how = "load the bills with --accept-change" if report.check else "repeat the command with --accept-change"
    yield from replacement_notes(summary.guard, f"If the change is intended, {how}.")
    if report.check:
        again = "" if report.before_load else " Run the same command without --check to load the records."
        yield f"Nothing was written.{again}"
    elif report.interrupted:
        yield "Stopped. Progress saved. Run the same command to resume."
    elif report.rejects.used:
        yield (
            f"Rejected {summary.rejected.total():,} of {counted(summary.lines, 'line')}. Fix the cause, then "
            "run `counterfoil load` on the rejects file."
        )
    if forgotten := summary.outcomes[Outcome.FORGOTTEN.value]:
        verb = "was" if forgotten == 1 else "were"
        yield (
            f"{counted(forgotten, 'record')} of forgotten members {verb} left out, as the members had asked."
            " Delete them in the POS as well, so that it does not deliver them again."
        )
    yield from _notes_on_conversion(report)
    if report.alarms:
        accept = "load the records with --accept-change" if report.check else "run `counterfoil load --accept-change`"
        yield (
            "The records differ sharply from those of earlier loads. Check the POS export. If the "
            f"change is intended, {accept}."
        )


def _notes_on_conversion(report: LoadReport) -> Iterator[str]:
    """Yield notes on sources that probably have to be converted before they can be loaded."""
    summary = report.summary
    if summary.rejected[NOT_UTF8]:
        yield "Write the export in UTF-8, or convert it, for example with `iconv -f UTF-16 -t UTF-8`."
    no_records = sum(summary.rejected[reason] for reason in NO_RECORD)
    if summary.lines and no_records == summary.lines:
        yield (
            "No line is a source record. To convert a POS export, use `counterfoil import`; for a "
            "CSV file, run `counterfoil import FILE` on a terminal."
        )
    elif report.records.ignored:
        yield (
            f"In a folder, only files whose names end in {ACCEPTED_NAMES} are loaded. To convert a POS export "
            "into source records, use `counterfoil import`."
        )


def replacement_notes(guard: ReplacementGuard, advice: str) -> Iterator[str]:
    """Yield the sentences about stored bills that were or would be replaced by other ones."""
    if not (guard.moved or guard.others or guard.same_load or guard.has_same_sales):
        return
    if guard.is_exceeded:
        yield would_replace(guard)
    elif guard.others:
        if guard.is_export:
            yield (
                f"Rejected {counted(guard.others, 'bill')} with the ID of another stored bill, which has other lines "
                "or other parts, or was closed far apart or at another till. If a bill is split over two exports, "
                "import both files together."
            )
        else:
            yield (
                f"Warning: {counted(guard.moved + guard.others, 'stored bill')} got other lines and another "
                "total, lost a part, or moved to another day or time. If the IDs of bills begin again, make them "
                "unique:"
            )
        if guard.incomplete:
            yield _other_export(guard.incomplete)
    else:
        yield f"Warning: {counted(guard.moved, 'stored bill')} moved to another day or time:"
    for bill in guard.first:
        stored, delivered = bill.stored_at or bill.stored_day or "no day", bill.closed_at or bill.day or "no day"
        times = f"stored with {stored}, in this delivery with {delivered}"
        yield f"  bill {printable(bill.bill_id)} of shop {printable(bill.shop_id)}: {times}"
    if guard.is_exceeded or (guard.others and guard.is_export):
        yield advice


def _other_export(count: int) -> str:
    return sentence(
        "Bills that lack lines, all payments, the tip or the tax of the stored bill: {count}. This looks like another "
        "export of the same bills, or one that begins within a bill. Import both files together.",
        count=f"{count:,}",
    )


def doubt_texts(report: LoadReport) -> list[str]:
    """Return a sentence or more about each doubt, without values of the records."""
    texts: list[str] = []
    for doubt in report.doubts:
        if doubt.measure == "replaced":
            texts.append(would_replace(report.summary.guard))
        else:
            texts.append(sentence("{description}.", description=sentence_of(describe(doubt))))
    return texts


def would_replace(guard: ReplacementGuard) -> str:
    if guard.same_load or guard.has_same_sales:
        where = sentence("The store has most of these bills with the same times and totals, but none of these IDs.")
        if guard.same_load:
            where = sentence(
                "Load {load} has the same days with the same totals, but none of these IDs.", load=guard.same_load
            )
        advice = sentence(
            "So a load is stopped. These may be the same sales with other IDs, for example because bill.id of the "
            "mapping was changed. Use the earlier mapping."
        )
        return joined(where, advice)
    others, found = guard.others - guard.incomplete, guard.moved + guard.others
    text = sentence(
        "Of {bills} bills, {found} would replace a stored bill by another one, so a load is stopped. Other bills, with "
        "other lines or another total, or closed far apart or at another till: {others}. Only moved to another day, or "
        "by hours as in another time zone: {moved}. Already written: {written}.",
        bills=f"{guard.bills:,}",
        found=f"{found:,}",
        others=f"{others:,}",
        moved=f"{guard.moved:,}",
        written=f"{guard.written:,}",
    )
    hint = ""
    if others:
        hint = sentence(
            "If the POS begins again with the same numbers every day, in every shop or at every till, join the day, "
            "the shop or the till to bill.id in the mapping."
        )
    elif guard.moved:
        hint = sentence("Compare the time zone of the mapping and of the shop with that of earlier loads.")
    other_export = _other_export(guard.incomplete) if guard.incomplete else ""
    return joined(text, other_export, hint)


def replacement_view(guard: ReplacementGuard) -> dict[str, object]:
    return {"stopped": guard.is_exceeded, "moved": guard.moved, "otherBills": guard.others, "first": guard.first}


def print_accepted(alarms: Sequence[DeliveryDoubt], as_json: bool) -> None:
    if as_json:
        print_json({"accepted": alarms_json(alarms)})
        return
    if not alarms:
        echo("There is no sudden change to accept.")
    for alarm in alarms:
        echo(f"Accepted as normal: {describe(alarm)}.")


def _describe(example: RejectedLine) -> str:
    named = f" ({', '.join(example.fields)})" if example.fields else ""
    return f"{example.source} line {example.line}: {example.reason}{named}"


def report_view(report: LoadReport) -> dict[str, object]:
    summary = report.summary
    checked: dict[str, object] = {}
    if isinstance(report.rejects, RejectExamples):
        # The outcome of a record is known only after it has been written, so a check reports null.
        checked = {
            **dict.fromkeys(OUTCOMES),
            "check": True,
            "wouldLoad": summary.outcomes.total(),
            "rejectExamples": report.rejects.examples,
        }
    return {
        "source": summary.source,
        "lines": summary.lines,
        **{name: summary.outcomes[name] for name in OUTCOMES},
        "rejected": summary.rejected.total(),
        "reasons": dict(summary.rejected),
        "rejectsFile": str(report.rejects.path) if report.rejects.used else None,
        "seconds": round(report.seconds, 3),
        "linesPerSecond": round(report.per_second),
        "interrupted": report.interrupted,
        "totals": summary.totals.report(),
        "proposedClosingTime": report.proposed_closing,
        "replacements": replacement_view(summary.guard),
        **_fields_json(summary.fields),
        **{json_name: [name for name, _ in files] for json_name, _, files in _files(report)},
        "alarms": alarms_json(report.alarms),
        "accepted": alarms_json(report.accepted),
        **checked,
    }


def _shortened(label: str, texts: Sequence[str], most: int) -> list[tuple[str, str]]:
    rows = [(label, text) for text in texts[:most]]
    if len(texts) > most:
        rows.append((label, f"{len(texts) - most:,} more; --json lists them"))
    return rows


def _files(report: LoadReport) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return the lists of files that were not simply loaded: name in `--json`, label, and each file with a remark."""
    records = report.records
    return [
        ("unreadableFiles", "incomplete", _named(list(records.damage))),
        ("ignoredFiles", "not loaded", _named(records.ignored, "not a source record file")),
        ("refusedFiles", "not loaded", [(printable(path.name), kind) for path, kind in records.refused.items()]),
        ("unfinishedFiles", "not loaded", _named(records.unfinished, "still being written")),
        ("emptyFiles", "empty", [(name, "") for name in records.empty]),
        ("quarantined", "quarantined", [(item.path, "") for item in report.quarantined]),
        (
            "needsAnswers",
            "needs answers",
            [(item.path, "") for item in report.quarantined if item.kind == "needs_answers"],
        ),
    ]


def _named(paths: Sequence[Path], remark: str = "") -> list[tuple[str, str]]:
    return [(printable(path.name), remark) for path in paths]


def _field_rows(counts: FieldCounts, *, with_lines: bool) -> list[tuple[str, str]]:
    """Return the rows about unknown fields, unreadable values and incomplete bills; `with_lines` names first lines."""
    found = {UNKNOWN: _most_common(counts.unknown), "unreadable": _most_common(counts.unreadable)}
    width = 0
    for fields in found.values():
        for (kind, path), _ in fields[:MAX_FIELDS]:
            width = max(width, display_width(f"{kind}: {path}"))
    rows = []
    for label, fields in found.items():
        texts = []
        for (kind, path), count in fields:
            name = f"{kind}: {path}"
            text = f"{name}{' ' * (width - display_width(name))}  in {counted(count, 'record')}"
            if with_lines:
                source, line = counts.first[kind, path]
                text += f", first in {source} line {line:,}" if source else ""
            meant = suggestion(kind, path) if label == UNKNOWN else None
            if meant:
                text += f" (did you mean {meant}?)"
            texts.append(text)
        rows += _shortened(label, texts, MAX_FIELDS)
    lacking = {"a date": counts.lacking["date"], "items": counts.lacking["items"], "amounts": counts.lacking["amounts"]}
    parts = [f"{count:,} without {what} ({count / counts.bills:.1%})" for what, count in lacking.items() if count]
    if parts:
        rows.append(("bills", f"{counts.bills:,} read, {', '.join(parts)}"))
    return rows


def _most_common(counts: Counter[tuple[str, str]]) -> list[tuple[tuple[str, str], int]]:
    """Return the fields with their counts, most frequent first, then by kind and name."""
    return sorted(counts.items(), key=lambda counted_field: (-counted_field[1], counted_field[0]))


def _fields_json(counts: FieldCounts) -> dict[str, object]:
    def field(kind: str, path: str, count: int) -> dict[str, object]:
        source, line = counts.first[kind, path]
        return {"kind": kind, "field": path, "records": count, "firstSource": source, "firstLine": line}

    return {
        "unknownFields": [
            {**field(kind, path, count), "didYouMean": suggestion(kind, path)}
            for (kind, path), count in _most_common(counts.unknown)
        ],
        "unreadableValues": [field(kind, path, count) for (kind, path), count in _most_common(counts.unreadable)],
        "bills": {
            "read": counts.bills,
            "withoutDate": counts.lacking["date"],
            "withoutItems": counts.lacking["items"],
            "withoutAmounts": counts.lacking["amounts"],
        },
    }
