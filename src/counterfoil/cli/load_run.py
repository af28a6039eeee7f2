"""Runs a load from the command line: opens the store, shows progress and completes the report."""

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC
from functools import cache

import click
from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.checks.open_items import close_removed
from counterfoil.cli.store import is_without_store, record_new_store
from counterfoil.cli.terminal import confirm, is_terminal, progress
from counterfoil.domain.calendar import from_ms
from counterfoil.domain.intake import Intake, IntakeAlarm, RejectedRows, accepted
from counterfoil.domain.open_items import OpenItem
from counterfoil.domain.tokens import MIN_SECRET_BYTES, Pseudonyms
from counterfoil.ingest.checking import CheckingLedger, RejectExamples
from counterfoil.ingest.converters import converter_processes, free_cores
from counterfoil.ingest.lines import SourceLine
from counterfoil.ingest.pipeline import Pipeline, RejectsFile, Summary
from counterfoil.ingest.sources import SUFFIXES, Damage, Source, SourceError, all_rejected_rows
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.files import is_shared
from counterfoil.machine.operator import machine_name
from counterfoil.machine.process import stop_signals_as_interrupt
from counterfoil.ports import Ledger
from counterfoil.settings import Settings

# A load creates thousands of lists per batch but no reference cycles. With Python's default threshold, garbage
# collection took 6% of the load time.
OBJECTS_BETWEEN_COLLECTIONS = 100_000

# Exit statuses in addition to those in `cli/main.py`. `pull` already uses 4 and 5.
SOME_REJECTED, SUDDEN_CHANGE = 3, 6


class SourceList(Source):
    """Several sources, read one after the other as if they were a single source."""

    def __init__(self, parts: Sequence[Source]) -> None:
        sizes = [part.total for part in parts]
        total = None if None in sizes else sum(size for size in sizes if size is not None)
        super().__init__(", ".join(part.name for part in parts), total)
        self._parts = parts
        self.is_export = any(part.is_export for part in parts)
        self.ignored = [path for part in parts for path in part.ignored]
        self.refused = {path: kind for part in parts for path, kind in part.refused.items()}
        self.unfinished = [path for part in parts for path in part.unfinished]

    def rejected_rows(self) -> RejectedRows:
        return all_rejected_rows(self._parts)

    def lines(self) -> Iterator[SourceLine]:
        done = 0
        damage = Damage()
        for part in self._parts:
            self.position = lambda part=part, done=done: done + part.position()  # type: ignore[misc]
            yield from damage.skipped(part)
            done += part.position()
            self.damage |= part.damage
            self.empty += part.empty
        self.position = lambda: done
        damage.raise_if_any()


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
    accepted: list[IntakeAlarm] = []

    @property
    def alarms(self) -> list[IntakeAlarm]:
        """The sudden changes in this load that nobody has accepted yet."""
        return [] if self.accepted else self.summary.alarms

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
    on_batch: Callable[[Ledger], None] = lambda _: None,
) -> None:
    """Run the load and complete the report, even if the load fails.

    Unless `is_guarded` is false, the load stops before it replaces many stored bills by other ones.

    A load beside another one of this process shows no progress and starts no processes, which have to be forked before
    the first store is opened.
    """
    records, is_check = report.records, report.check
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    began = time.perf_counter()
    # A check prints no tokens, so any secret will do. `bootstrap.pseudonyms` would create the secret of a new store.
    pseudonyms = Pseudonyms(bytes(MIN_SECRET_BYTES)) if is_check else bootstrap.pseudonyms(settings)
    doing = "Checking" if is_check else "Loading"
    most = 0 if is_beside else min(settings.converters, free_cores())
    with (
        converter_processes(pseudonyms, most, records.total) as processes,
        open_for_check(settings) if is_check else open_ledger(settings) as ledger,
        progress(doing, records.total, "lines", in_bytes=True, is_shown=not is_beside) as show_progress,
    ):
        close_removed(settings, ledger)

        def show(summary: Summary) -> None:
            report.summary = summary
            show_progress(records.position(), summary.lines)
            on_batch(ledger)

        pipeline = Pipeline(
            ledger,
            pseudonyms,
            report.rejects,
            settings.batch,
            show,
            strict=strict,
            is_guarded=is_guarded,
            finishes_damaged=report.quarantines,
            processes=processes,
        )
        try:
            # A load that is asked to stop records that it has stopped.
            with stop_signals_as_interrupt():
                _load(pipeline, report)
        finally:
            report.rejects.close()
            report.seconds = time.perf_counter() - began


def _load(pipeline: Pipeline, report: LoadReport) -> None:
    try:
        pipeline.load(report.records)
    except KeyboardInterrupt:
        report.interrupted = True
    except SourceError as error:
        if not report.summary.lines:
            raise
        raise SourceError(
            f"{error} All lines that could be read were {'checked' if report.check else 'loaded'}. "
            "Repair or replace what could not be read, then repeat the command."
        ) from error


@contextmanager
def open_ledger(settings: Settings) -> Iterator[Ledger]:
    """Yield the ledger. If the store is new, say so."""
    is_new = is_without_store(settings)
    with closing(bootstrap.ledger(settings)) as ledger:
        if is_new:
            record_new_store(settings)
        yield ledger


@contextmanager
def open_for_check(settings: Settings) -> Iterator[Ledger]:
    """Yield a ledger that writes no records. An embedded store that does not exist yet is not created."""
    if not settings.database and not (settings.store / "books.sqlite3").exists():
        yield CheckingLedger(lambda _: None, Intake)
        return
    reads = bootstrap.operator_reads(settings)
    bootstrap.require_secret(settings)
    yield CheckingLedger(cache(reads.facts), reads.intake, reads.stored_bills)


def is_checked_first(settings: Settings) -> bool:
    """Return whether a delivery is compared before anything of it is written. The first one is not."""
    if is_without_store(settings):
        return False
    return bootstrap.operator_reads(settings).intake() != Intake()


def require_acceptance(*, may_ask: bool) -> None:
    """Ask whether a delivery that differs sharply is to be loaded. If nobody can be asked, end the command."""
    if not (may_ask and is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.exceptions.Exit(SUDDEN_CHANGE)
    confirm("Load the records nevertheless, and accept the change as normal?")


def accept_change(settings: Settings) -> list[IntakeAlarm]:
    """Accept the latest sudden change as normal, and return the alarms that were cleared."""
    ended: list[IntakeAlarm] = []

    def change(intake: Intake, now_ms: int) -> Intake:  # noqa: ARG001 - the ledger's signature
        ended.extend(intake.alarms)
        return accepted(intake)

    bootstrap.store(settings).require_exists()
    with closing(bootstrap.ledger(settings)) as ledger:
        ledger.change_intake(change)
    return ended


def new_rejects_file(settings: Settings, name: str) -> RejectsFile:
    first = name.partition(", ")[0]
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        first = first.removesuffix(suffix)
    first = first.encode()[:100].decode("utf-8", "ignore")
    stamp = f"{from_ms(SystemClock().now_ms(), UTC):%Y%m%dT%H%M%SZ}"
    folder, number = settings.store / "rejects", 1
    path = folder / f"{first}-{stamp}.ndjson"
    while path.exists():
        number += 1
        path = folder / f"{first}-{stamp}-{number}.ndjson"
    return RejectsFile(path, place=machine_name() if settings.database else "", is_shared=is_shared(settings.store))
