"""Limits the time that a process takes to stop if a server, a client or the reader of the log does not respond."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

from counterfoil.ports import STOP_SAVE_SEC
from counterfoil.serving.chores import STOP_SEC

# Time limit for `before_end`. In the supervisor, that function kills the workers and writes the log's last line.
REPORT_SEC = 0.5
# How often a waiting thread wakes up, so that Python can run signal handlers.
WAKE_UP_SEC = 0.25
# Additional time for the supervisor's own work while it stops.
MARGIN_SEC = 1.0


def requests_limit_sec(grace_sec: int) -> float:
    """Return how long a stopping service waits for requests in progress."""
    return max(1.0, grace_sec)


def stop_limit_sec(grace_sec: int) -> float:
    """Return the time limit for stopping the service, including time for requests in progress, saving and chores."""
    return requests_limit_sec(grace_sec) + STOP_SAVE_SEC + STOP_SEC + MARGIN_SEC


class SignalSafeEvent:
    """An event that a signal handler can set.

    A signal handler interrupts the main thread. If the main thread holds the
    lock of a `threading.Event` at that moment, setting that event in the
    handler blocks forever.
    """

    def __init__(self) -> None:
        self._set: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self._set.put(None)

    def is_set(self) -> bool:
        return not self._set.empty()

    def clear(self) -> None:
        with suppress(Empty):
            while True:
                self._set.get_nowait()

    def wait(self) -> None:
        # A signal does not wake the main thread if it arrives just before that thread blocks, or if another thread
        # receives it. The handler would then not run until this thread wakes up.
        while True:
            with suppress(Empty):
                self._set.get(timeout=WAKE_UP_SEC)
                break
        self._set.put(None)


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
