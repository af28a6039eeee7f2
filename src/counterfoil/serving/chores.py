"""The supervisor's periodic chores, such as advancing the horizon, computing day totals, checkpoints and pruning."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from counterfoil import bootstrap
from counterfoil.observe.events import Event, ServiceChanged
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.text import counted

CHECKPOINT_SEC = 2.0
USAGE_SEC = 0.5
PRUNE_SEC = 3600.0
# Maximum number of days whose totals are computed per transaction. Each day blocks loads for a few milliseconds.
TOTALS_AT_ONCE = 10
TOTALS_SEC = 1.0
# How long to wait for all chores when the service stops. A load can block a chore for up to a minute, so stopping does
# not wait for every chore to finish.
STOP_SEC = 2.0


class Closable(Protocol):
    """A store that must be closed when the service stops."""

    def close(self) -> None: ...


class Chores:
    """Runs chores in three threads: for the books, for usage, and for deleting old usage data.

    A load may block the books for up to a minute, and deleting old data may take minutes. Neither may delay the chores
    for usage, because requests can be found only after their records were moved.
    """

    def __init__(self, settings: Settings, log: Callable[[Event], None]) -> None:
        self._settings = settings
        self._log = log
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run_book_chores, name="books", daemon=True),
            threading.Thread(target=self._run_usage_chores, name="usage", daemon=True),
            threading.Thread(target=self._run_pruning, name="prune", daemon=True),
        ]
        self._due: dict[str, float] = {}
        self._failing: set[str] = set()
        self._open: tuple[Closable, ...] = ()

    def start(self) -> None:
        self._ledger = bootstrap.ledger(self._settings)
        self._usage = bootstrap.usage(self._settings)
        self._old_usage = bootstrap.usage(self._settings)
        self._old_cursors = bootstrap.cursors(self._settings)
        self._open = (self._ledger, self._usage, self._old_usage, self._old_cursors)
        self._run("horizon", 0, self._ledger.advance_horizon)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        give_up = time.monotonic() + STOP_SEC
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, give_up - time.monotonic()))
        # If a chore is still waiting for another process's lock, leave the stores open: they are closed when this
        # process ends.
        if not any(thread.is_alive() for thread in self._threads):
            for store in self._open:
                store.close()

    def _run_book_chores(self) -> None:
        while not self._stop.wait(self._settings.tick_ms / 1000):
            self._run("horizon", 0, self._ledger.advance_horizon)
            self._run("checkpoint", CHECKPOINT_SEC, self._ledger.checkpoint)
            self._run("prune_removals", PRUNE_SEC, self._ledger.prune_removals)
            self._run("totals", TOTALS_SEC, lambda: self._ledger.compute_totals(TOTALS_AT_ONCE))

    def _run_usage_chores(self) -> None:
        while not self._stop.wait(USAGE_SEC):
            self._run("move_requests", 0, self._usage.move_recent)
            self._run("usage_checkpoint", 0, self._usage.checkpoint)

    def _run_pruning(self) -> None:
        while not self._stop.wait(USAGE_SEC):
            self._run("prune", PRUNE_SEC, self._prune)

    def _run(self, name: str, every_sec: float, chore: Callable[[], object]) -> None:
        """Run a chore if it is due. Log when it starts to fail and when it works again."""
        now = time.monotonic()
        if now < self._due.get(name, 0):
            return
        self._due[name] = now + every_sec
        try:
            chore()
        except (StoreUnavailable, StoreMismatch) as error:
            if name not in self._failing:
                self._failing.add(name)
                self._log(ServiceChanged(what=f"{name}_failing", detail=str(error)))
        else:
            if name in self._failing:
                self._failing.discard(name)
                self._log(ServiceChanged(what=f"{name}_recovered"))

    def _prune(self) -> None:
        records, days = self._old_usage.prune()
        cursors = self._old_cursors.prune()
        if records or days or cursors:
            deleted = f"{counted(records, 'request record')}, {counted(days, 'daily total')}"
            self._log(ServiceChanged(what="pruned", detail=f"{deleted}, {counted(cursors, 'expired cursor')}"))
