"""`counterfoil load --watch`: load files as they are delivered to a spool folder, until stopped."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

import click
from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.cli.load_report import print_report
from counterfoil.cli.load_run import LoadReport, new_rejects_path, run_load
from counterfoil.cli.recording import is_without_store, record_new_store
from counterfoil.domain.intake import HEARTBEAT_MS
from counterfoil.ingest.pipeline import RejectsFile, Summary
from counterfoil.ingest.sources import SourceError, printable_name
from counterfoil.ingest.spool import Spool, reasons, version
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.signals import SignalSafeEvent, stop_signals
from counterfoil.ports import Ledger, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings, SettingsError

Result = TypeVar("Result")

POLL_SEC = 1.0
FIRST_RETRY_SEC, LAST_RETRY_SEC = 1.0, 60.0


class WatchOptions(Struct, frozen=True, kw_only=True):
    strict: bool
    delete: bool
    as_json: bool


class StopRequest:
    """A request to stop the watcher, sent as a signal. A second signal stops the watcher at once."""

    def __init__(self) -> None:
        self._event = SignalSafeEvent()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until a signal arrives, for at most this many seconds."""
        self._event.wait(seconds)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's signature
            if self.is_set:
                raise KeyboardInterrupt
            self._event.set()

        previous = {number: signal.signal(number, handle) for number in (*stop_signals(), signal.SIGINT)}
        # The system sends SIGIO if a program opens a file for writing just while the spool checks whether one does.
        previous[signal.SIGIO] = signal.signal(signal.SIGIO, signal.SIG_IGN)
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def watch(settings: Settings, spool: Spool, options: WatchOptions) -> None:
    """Load every file that is delivered to the folder, until a signal arrives."""
    stop = StopRequest()
    with spool.locked(), stop.on_signals():
        click.echo(f"Watching {spool.folder}. Stop with Ctrl-C or SIGTERM.", err=True)
        watcher = FolderWatch(settings, spool, options, stop)
        watcher.report(0, 0)
        while not stop.is_set:
            watcher.name_stuck_files()
            if not watcher.take_files():
                watcher.report_if_due()
                stop.wait(POLL_SEC)
        watcher.report(0, 0, is_stopped=True)
        click.echo("Stopped. Files that have not been loaded yet stay in the folder.", err=True)


class FolderWatch:
    """Loads the files of one spool folder, and reports to the store that it is running."""

    def __init__(self, settings: Settings, spool: Spool, options: WatchOptions, stop: StopRequest) -> None:
        self._settings = settings
        self._spool = spool
        self._options = options
        self._stop = stop
        self._name = printable_name(str(spool.folder.resolve()))
        self._reported = 0.0
        self._clock = SystemClock()
        self._stuck: set[Path] = set()

    def take_files(self) -> bool:
        """Load the files that are waiting; return whether there were any."""
        for link in self._spool.links():
            self._spool.quarantine(link, "This is a symbolic link. Deliver the file itself.")
            self.report(0, 1)
        paths = self._spool.waiting(self._steady_ms())
        if not paths:
            return False
        before = {path: version(path) for path in paths}
        report = self._retried(lambda: self._load(paths))
        if report is None or report.interrupted:
            return True
        failed = reasons(report.records)
        # A file that was changed or opened for writing during the load stays in the folder and is loaded again.
        now = self._steady_ms()
        unchanged = [
            path for path in paths if version(path) == before[path] and not self._spool.is_being_written(path, now)
        ]
        for path in unchanged:
            if path in failed:
                moved = self._spool.quarantine(path, failed[path])
                report.quarantined += [moved] if moved else []
            else:
                self._spool.finish(path, delete=self._options.delete)
        print_report(report, self._options.as_json)
        quarantined = len(failed.keys() & unchanged)
        self.report(len(unchanged) - quarantined, quarantined)
        return True

    def name_stuck_files(self) -> None:
        """Name each file that is not loaded because another program keeps it open for writing, once."""
        stuck = set(self._spool.stuck(self._steady_ms()))
        for path in sorted(stuck - self._stuck):
            name = printable_name(path.name)
            click.echo(
                f"counterfoil: {name} is not loaded yet, because a program still has it open for writing. "
                "Let that program close the file, or stop it.",
                err=True,
            )
        self._stuck = stuck

    def _steady_ms(self) -> int:
        return self._clock.steady_us() // 1000

    def _load(self, paths: list[Path]) -> LoadReport:
        records = self._spool.source(paths)
        rejects = RejectsFile(new_rejects_path(self._settings, records.name))
        report = LoadReport(
            summary=Summary(source=records.name), rejects=rejects, records=records, quarantines=True, quarantined=[]
        )
        try:
            run_load(self._settings, report, strict=self._options.strict, on_batch=self._between_batches)
        except SourceError as error:
            if not records.damage:
                raise
            click.echo(f"counterfoil: {error}", err=True)
        return report

    def _between_batches(self, ledger: Ledger) -> None:
        """End the load if a signal has arrived; otherwise, if a report is due, report that the watcher is running."""
        if self._stop.is_set:
            raise KeyboardInterrupt
        if self._is_report_due():
            self._report_to(ledger, 0, 0)

    # --- the heartbeat -------------------------------------------------------------

    def report_if_due(self) -> None:
        if self._is_report_due():
            self.report(0, 0)

    def report(self, files: int, quarantined: int, *, is_stopped: bool = False) -> None:
        """Record in the store that this watcher is running or has stopped, and how many files it has just processed.

        If the store is unavailable, retry until it is available or the watcher is asked to stop.
        """

        def call() -> None:
            is_new = not self._reported and is_without_store(self._settings)
            with closing(bootstrap.ledger(self._settings)) as ledger:
                if is_new:
                    record_new_store(self._settings)
                self._report_to(ledger, files, quarantined, is_stopped=is_stopped)

        self._retried(call)

    def _report_to(self, ledger: Ledger, files: int, quarantined: int, *, is_stopped: bool = False) -> None:
        ledger.report_watched_folder(self._name, files, quarantined, is_stopped=is_stopped)
        self._reported = time.monotonic()

    def _is_report_due(self) -> bool:
        return time.monotonic() - self._reported >= HEARTBEAT_MS / 1000

    # --- while the store is unavailable ----------------------------------------------

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
                    bootstrap.require_store(self._settings)
                result = call()
            except (StoreUnavailable, StoreMismatch, SettingsError) as error:
                if not (self._reported or isinstance(error, StoreUnavailable)):
                    raise
                if self._stop.is_set:
                    return None
                if pause == FIRST_RETRY_SEC:
                    said = str(error).rstrip(".")
                    click.echo(
                        f"counterfoil: the store is unavailable: {said}. Retrying until it is available.", err=True
                    )
                self._stop.wait(pause)
                pause = min(2 * pause, LAST_RETRY_SEC)
            else:
                if pause > FIRST_RETRY_SEC:
                    click.echo("counterfoil: the store is available again.", err=True)
                return result
