"""Limits the time that a process takes to stop if a server, a client or the reader of the log does not respond."""

import os
import signal
import time
from collections.abc import Callable
from threading import Thread

from counterfoil.machine.signals import SignalSafeEvent
from counterfoil.ports import STOP_SAVE_SEC
from counterfoil.serving.chores import STOP_SEC

# Tells a worker to save its counts and records and exit, even if requests are still in progress.
SAVE_SIGNAL = signal.SIGUSR1
# Time limit for `before_end`. In the supervisor, that function kills the workers and writes the log's last line.
REPORT_SEC = 0.5
# Additional time for the supervisor's own work while it stops.
MARGIN_SEC = 1.0


def requests_limit_sec(grace_sec: int) -> float:
    """Return how long a stopping service waits for requests in progress."""
    return max(1.0, grace_sec)


def stop_limit_sec(grace_sec: int) -> float:
    """Return the time limit for stopping the service, including time for requests in progress, saving and chores."""
    return requests_limit_sec(grace_sec) + STOP_SAVE_SEC + STOP_SEC + MARGIN_SEC


class StopDeadline:
    """Ends the process if it is still running `limit_sec` after `begin`. A signal handler can call `begin`."""

    def __init__(self, limit_sec: float, before_end: Callable[[], None] = lambda: None) -> None:
        self._limit_sec = limit_sec
        self._before_end = before_end
        self._begun = SignalSafeEvent()
        # The thread is started in advance, because a signal handler cannot safely start a thread.
        Thread(target=self._run, name="stop deadline", daemon=True).start()

    def begin(self) -> None:
        self._begun.set()

    def _run(self) -> None:
        self._begun.wait()
        time.sleep(self._limit_sec)
        # `before_end` may block, for example if it writes to a pipe that nobody reads, so it runs in its own thread.
        last = Thread(target=self._before_end, name="before end", daemon=True)
        last.start()
        last.join(REPORT_SEC)
        os._exit(1)
