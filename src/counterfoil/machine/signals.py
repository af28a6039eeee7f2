"""The signals that ask a process to stop, and waiting for them."""

import signal
import time
from contextlib import suppress
from queue import Empty, SimpleQueue

# How often a waiting thread wakes up, so that Python can run signal handlers.
WAKE_UP_SEC = 0.25


def stop_signals() -> list[signal.Signals]:
    """Return SIGTERM and SIGHUP (sent when a terminal closes). Leave out SIGHUP if it is ignored, as under `nohup`."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if is_ignored else [signal.SIGTERM, signal.SIGHUP]


class SignalSafeEvent:
    """An event that a signal handler can set, and that the main thread can wait for without missing a signal.

    A `threading.Event` is unsuitable. If the signal arrives while the main thread
    holds the lock of the event, setting the event in the handler blocks forever.
    """

    def __init__(self) -> None:
        self._is_set = False
        # Contains an item whenever a waiting thread should wake up.
        self._wake: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self._is_set = True
        self._wake.put(None)

    def is_set(self) -> bool:
        return self._is_set

    def clear(self) -> None:
        self._is_set = False
        with suppress(Empty):
            while True:
                self._wake.get_nowait()

    def wait(self, seconds: float = float("inf")) -> bool:
        """Wait until the event is set, for at most this many seconds; return whether it is set."""
        deadline = time.monotonic() + seconds
        # A signal does not wake the main thread if it arrives just before that thread blocks, or if another thread
        # receives it. The handler would then not run until this thread wakes up.
        while not self._is_set and (left := deadline - time.monotonic()) > 0:
            with suppress(Empty):
                self._wake.get(timeout=min(left, WAKE_UP_SEC))
        return self._is_set
