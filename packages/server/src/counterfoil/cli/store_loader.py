"""Loads the files of a watched folder into the store, and holds those that an operator has to decide about."""

import errno
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.cli import load_run
from counterfoil.cli.load_run import LoadReport
from counterfoil.domain.acceptances import AcceptedRecords, accepted_item, accepted_records, shown_doubts, with_compared
from counterfoil.domain.deliveries import DeliveryPreview, DeliverySketch
from counterfoil.domain.loads import HEARTBEAT_MS
from counterfoil.domain.open_items import OpenItem
from counterfoil.ingest import sources
from counterfoil.ingest.checking import RejectExamples
from counterfoil.ingest.pipeline import Summary
from counterfoil.ingest.sources import ConvertedFile, File, FileSet, SourceError
from counterfoil.ingest.spool import Spool
from counterfoil.model.calendar import iso_utc
from counterfoil.model.text import printable
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.program.process import SignalSafeEvent
from counterfoil.program.terminal import echo, print_json, print_message
from counterfoil.program.times import second
from counterfoil.settings import Settings, SettingsError

Result = TypeVar("Result")

REPLACED = ("replaced", "")
# How often the console learns how much of an accepted file is compared.
COMPARED_SEC = 2.0
FIRST_RETRY_SEC, LAST_RETRY_SEC = 1.0, 60.0
ACCEPTED_BEFORE = "This was not shown when the file was accepted in the console."


def now_text() -> str:
    return second(SystemClock().now_ms())


def say(text: str) -> None:
    print_message(f"{now_text()}  {text}")


class StoreLoader:
    """Loads the files of one watched folder into the store, and reports to it that the watcher is running."""

    def __init__(
        self, settings: Settings, folder: Path, stop: SignalSafeEvent, *, strict: bool = False, as_json: bool = False
    ) -> None:
        self._settings = settings
        self._stop = stop
        self._strict = strict
        self._as_json = as_json
        self._name = printable(str(folder.resolve()))
        self._reported = 0.0
        self._clock = SystemClock()
        self._latest: LoadReport | None = None
        self._failure: OSError | None = None
        # What held files would change, by their delivered names, until their items are stored.
        self._previews: dict[str, DeliveryPreview] = {}
        # Reports how much of an accepted file is compared, while it is.
        self._report_compared: Callable[[], None] = lambda: None
        self.meanwhile: Callable[[], None] = lambda: None
        """Called regularly during a load."""
        self.problem: Callable[[], str] = str
        """Returns why something that was delivered cannot be taken, or an empty string."""

    def steady_ms(self) -> int:
        return self._clock.steady_us() // 1000

    def load(self, files: FileSet, *, is_beside: bool, is_accepted: bool = False) -> bool:
        handed_over = None if is_accepted else self._retried(lambda: self._handed_over(files))
        if handed_over is None and not is_accepted:
            return False
        if handed_over:
            if len(files.files) > 1:
                return self._load_each(files, is_beside=is_beside)
            is_ended = self._load_handed_over(files, handed_over[0], is_beside=is_beside)
            if is_ended is not None:
                return is_ended
        if not is_accepted:
            held = self._retried(lambda: self._alarming(files, is_beside=is_beside))
            if held is None or self._stop.is_set():
                return False
            files.held = held
            self._preview(files, is_beside=is_beside)
            files.files = [file for file in files.files if file.path not in held]
            if not files.files:
                self._latest = None
                return True
        self._latest = self._retried(lambda: self._load(files, is_beside=is_beside, is_accepted=is_accepted))
        if self._latest is None or self._latest.interrupted:
            return False
        return self._load_alone(files, is_beside=is_beside) if self._latest.is_stopped else True

    def _load_alone(self, files: FileSet, *, is_beside: bool) -> bool:
        """Load each file alone, because one would replace bills of another, or of the store since the check."""
        if len(files.files) == 1 and self._latest:
            (file,) = files.files
            files.held[file.path] = _why_held(file.name, self._latest)
            self._preview(files, is_beside=is_beside)
            return True
        stopped = self._latest.summary.load if self._latest else 0
        if not self._load_each(files, is_beside=is_beside):
            return False
        # The first load of one of them has opened an item about the load that was stopped.
        for item in self.items_of([]):
            if item.kind == "unfinished" and item.load == stopped:
                self.change(replace(item, closed_by="loaded"))
        return True

    def _load_each(self, files: FileSet, *, is_beside: bool) -> bool:
        for file in files.files:
            alone = FileSet(file.name, [file], files.max_reject_score)
            if not self.load(alone, is_beside=is_beside):
                return False
            files.held |= alone.held
            files.damage |= alone.damage
            files.empty += alone.empty
            if self._latest and file is not files.files[-1]:
                self._print(self._latest, alone)
        return True

    def _handed_over(self, files: FileSet) -> list[OpenItem]:
        """Return the items of the files that have the names of files that were accepted in the console."""
        if bootstrap.is_without_store(self._settings):
            return []
        identities = [accepted_item(file.name).identity for file in files.files]
        items = bootstrap.store(self._settings).reads().items_of(identities)
        return [item for item in items if accepted_records(item)]

    def _load_handed_over(self, files: FileSet, item: OpenItem, *, is_beside: bool) -> bool | None:
        """Load a file that was accepted in the console, unless there is a doubt that was not shown to the operator.

        Return False if interrupted, and None if the file has other content, so that it is treated like any other. Only
        a copy is compared and read, because whoever delivered the file may change it at any time.
        """
        (file,) = files.files
        accepted = accepted_records(item)
        if accepted is None or file.total != accepted.size:
            return None
        file.on_read = self.on_read
        with tempfile.TemporaryFile() as copy:
            digest = self._retried(lambda: _copy(file, copy, accepted.size))
            if digest is None:
                return False
            if digest != accepted.digest:
                return None
            converted = ConvertedFile(file.path, file.total, lambda: sources.opened_again(copy))
            converted.before_read = file.before_read
            records = FileSet(file.name, [converted], files.max_reject_score)
            self._report_compared = self._comparing(item, accepted, copy)
            try:
                report = self._retried(lambda: self._judged(records, accepted, is_beside=is_beside))
            finally:
                self._report_compared = lambda: None
            if report is None or report.interrupted or self._stop.is_set():
                return False
            self._latest = None
            is_held = not accepted.shown.covers(shown_doubts(report.doubts, report.summary.guard))
            if not is_held:
                load = partial(self._load, records, is_beside=is_beside, is_accepted=bool(report.doubts), marks=True)
                self._latest = report = self._retried(load)
                if report is None or report.interrupted:
                    return False
                # The store has changed since the check.
                is_held = report.is_stopped
            if is_held:
                files.held[file.path] = records.held[file.path] = _why_held(file.name, report, ACCEPTED_BEFORE)
                self._preview(records, is_beside=is_beside)
                self.change(replace(item, closed_by="discarded"))
        files.damage |= records.damage
        files.empty += records.empty
        return True

    def _comparing(self, item: OpenItem, accepted: AcceptedRecords, copy: BinaryIO) -> Callable[[], None]:
        """Return what stores now and then, beside the item, which share of the copy was read."""
        reported = -COMPARED_SEC

        def report() -> None:
            nonlocal reported
            now = time.monotonic()
            if now - reported < COMPARED_SEC:
                return
            reported = now
            # Whoever reads the copy shares its position.
            position = os.lseek(copy.fileno(), 0, os.SEEK_CUR)
            self.change(with_compared(item, accepted, min(100, 100 * position // max(accepted.size, 1))))

        return report

    def _judged(self, files: FileSet, accepted: AcceptedRecords, *, is_beside: bool) -> LoadReport:
        """Return the report of a check or, if nothing has changed since the console's, one with its doubts.

        A check of a large file takes minutes. A strict one may reject records that the console does not.
        """
        state = load_run.compared_state(self._settings)
        # A store without earlier loads has nothing to compare with.
        if state and (self._strict or state != accepted.compared_with):
            return self._check(files, is_beside=is_beside)
        summary = Summary(source=files.name, doubts=list(accepted.shown.doubts))
        return LoadReport(summary=summary, rejects=RejectExamples(), records=files)

    def _alarming(self, files: FileSet, *, is_beside: bool) -> dict[Path, str]:
        """Return the files that differ sharply from earlier deliveries, or would replace stored bills, with the reason.

        Nothing is written. Of several files, those are returned that raise the same alarms alone. If none does, all are
        returned, unless one replaces bills of another: then the load finds out which one.
        """
        if not load_run.is_checked_first(self._settings):
            return {}
        together = self._check(files, is_beside=is_beside)
        alarms = _doubts_of(together)
        all_held = {file.path: _why_held(file.name, together) for file in files.files} if alarms else {}
        if not alarms or len(files.files) == 1:
            return all_held
        held = {}
        for file in files.files:
            alone = self._check(FileSet(file.name, [file], files.max_reject_score), is_beside=is_beside)
            if alarms & _doubts_of(alone):
                held[file.path] = _why_held(file.name, alone)
        if not held:
            return {} if alarms == {REPLACED} else all_held
        others = [file for file in files.files if file.path not in held]
        if others:
            held |= self._alarming(FileSet(files.name, others, files.max_reject_score), is_beside=is_beside)
        return held

    def _preview(self, files: FileSet, *, is_beside: bool) -> None:
        """Find out what each of the held files would change, for the operator who decides about it."""
        for file in files.files:
            if file.path not in files.held:
                continue
            sketch = DeliverySketch()
            alone = FileSet(file.name, [file], files.max_reject_score)
            check = partial(self._check, alone, is_beside=is_beside, sketch=sketch)
            report = self._retried(check)
            if report and not report.interrupted:
                bills = report.summary.totals.report().bills
                preview = sketch.preview(bills, self._clock.now_ms())
                self._previews[printable(file.name)] = replace(preview, doubts=list(report.doubts))

    def _check(self, files: FileSet, *, is_beside: bool, sketch: DeliverySketch | None = None) -> LoadReport:
        """Check files without writing anything. A damaged file is reported by the load."""
        files.on_read = self.on_read
        report = LoadReport(summary=Summary(source=files.name), rejects=RejectExamples(), records=files, sketch=sketch)
        with suppress(SourceError):
            load_run.run_load(self._settings, report, strict=self._strict, is_beside=is_beside)
        files.damage.clear()
        return report

    def report(self, files: int, kept: list[OpenItem], *, loaded: FileSet | None) -> None:
        if loaded and self._latest:
            self._latest.quarantined = [item for item in kept if item.kind in ("quarantined", "needs_answers")]
            self._print(self._latest, loaded)
            # Of the files that are kept, the load has read only those that are damaged.
            damaged = {printable(path.name) for path in loaded.damage}
            for place, item in enumerate(kept):
                if item.source in damaged:
                    kept[place] = replace(item, load=self._latest.summary.load)
        self.heartbeat(files, kept)

    def _print(self, report: LoadReport, files: FileSet) -> None:
        names = [file.name for file in files.files]
        if self._as_json:
            print_json({"at": iso_utc(self._clock.now_ms()), "files": names, **load_run.report_view(report)})
            return
        more = f" and {len(names) - load_run.MAX_FILES:,} more" if len(names) > load_run.MAX_FILES else ""
        echo(f"{now_text()}  {', '.join(names[: load_run.MAX_FILES])}{more}", bold=True)
        load_run.print_report(report, as_json=False)

    def change(self, item: OpenItem) -> bool:
        if item.closed_by == "accepted" and self._latest:
            item = replace(item, load=self._latest.summary.load)

        def call() -> bool:
            with load_run.open_ledger(self._settings) as ledger:
                ledger.change_items([item])
            return True

        return self._retried(call) or False

    def items_of(self, names: Iterable[str]) -> list[OpenItem]:
        def call() -> list[OpenItem]:
            reads = bootstrap.store(self._settings).reads()
            found = {item.number: item for item in (*reads.items_of(names), *reads.open_items())}
            return list(found.values())

        return self._retried(call) or []

    def _load(self, files: FileSet, *, is_beside: bool, is_accepted: bool, marks: bool = False) -> LoadReport:
        """Load files. If they are accepted, `marks` says whether to record that of the load."""
        files.on_read = self.on_read
        rejects = load_run.new_rejects_file(self._settings, files.name)
        report = LoadReport(summary=Summary(source=files.name), rejects=rejects, records=files, quarantines=True)
        options = {"strict": self._strict, "is_guarded": not is_accepted, "is_beside": is_beside}
        try:
            load_run.run_load(self._settings, report, **options, on_batch=self.on_read)
        except SourceError:
            # The watcher says of each damaged file what has become of it.
            if not files.damage:
                raise
        if is_accepted and not report.interrupted:
            marked = report.summary if marks else None
            report.accepted = load_run.accept_change(self._settings, marked, is_confirmed=marks)
        return report

    def on_read(self) -> None:
        """End the load if a signal has arrived, even if the file has no records."""
        if self._stop.is_set():
            raise KeyboardInterrupt
        try:
            self.report_if_due()
            self._report_compared()
            self.meanwhile()
        except OSError as error:
            # Whoever reads the file would take this for an error of the file.
            self._failure = error
            raise KeyboardInterrupt from error

    def report_if_due(self) -> None:
        if time.monotonic() - self._reported >= HEARTBEAT_MS / 1000:
            self.heartbeat()

    def heartbeat(
        self, files: int = 0, kept: Sequence[OpenItem] = (), *, is_stopped: bool = False, spool: Spool | None = None
    ) -> None:
        """Record in the store that this watcher is running or has stopped, and how many files it has just processed.

        With `spool`, also open items for quarantined and held files that the store does not know, as after a crash.
        """

        def call() -> None:
            with load_run.open_ledger(self._settings) as ledger:
                if found := list(spool.kept()) if spool else kept:
                    ledger.add_items(found)
                    ledger.put_previews(self._previews_of(found))
                problem = printable(self.problem())
                ledger.report_watched_folder(self._name, files, len(kept), is_stopped=is_stopped, problem=problem)
            self._reported = time.monotonic()

        self._retried(call)
        if kept:
            self._previews.clear()

    def _previews_of(self, items: Iterable[OpenItem]) -> dict[str, DeliveryPreview]:
        """Return the previews of newly held files by the identities of their items."""
        found = {item.identity: self._previews.get(item.source) for item in items if item.kind == "held"}
        return {identity: preview for identity, preview in found.items() if preview}

    def _retried(self, call: Callable[[], Result]) -> Result | None:
        """Retry a call until the store is available and return its result, or None if the watcher is stopped first.

        Before the first report, StoreMismatch and SettingsError are raised. After that, the call is retried in these
        cases too, because a file of the store may be missing temporarily.
        """
        pause = FIRST_RETRY_SEC
        while True:
            try:
                if self._reported:
                    # If the store's disk is not mounted, a load would create an empty store at the mount point.
                    bootstrap.store(self._settings).require_exists()
                result = call()
            except (StoreUnavailable, StoreMismatch, SettingsError) as error:
                if not (self._reported or isinstance(error, StoreUnavailable)):
                    raise
                if self._stop.is_set():
                    return None
                if pause == FIRST_RETRY_SEC:
                    say(f"the store is unavailable; retrying until it is available: {error}")
                self._stop.wait(pause)
                pause = min(2 * pause, LAST_RETRY_SEC)
            else:
                if self._failure:
                    raise self._failure
                if pause > FIRST_RETRY_SEC:
                    say("the store is available again.")
                return result


def _doubts_of(report: LoadReport) -> set[tuple[str, str]]:
    """Return the measures and the fields of the doubts."""
    return {(doubt.measure, doubt.field) for doubt in report.doubts}


def _copy(file: File, copy: BinaryIO, size: int) -> str:
    """Copy a file, and return the digest of the copy, or an empty string if the file cannot be read."""
    copy.seek(0)
    try:
        return file.copy_to(copy, size)
    except SourceError:
        return ""
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return ""
        raise StoreUnavailable(
            f"{file.name} cannot be copied, because the disk for temporary files is full. Free up disk space, or set "
            "TMPDIR to another folder."
        ) from error


def _why_held(name: str, report: LoadReport, before: str = "") -> str:
    """Return why a file was not loaded, without values of its records."""
    return " ".join(
        [
            f"{name} was not loaded:",
            *load_run.doubt_texts(report),
            *([before] if before else []),
            (
                "Check the POS export, then run `counterfoil loads accept` or `counterfoil loads "
                "discard` with this name."
            ),
        ]
    )
