"""This process: whether its output may use colours, and the signals that stop it."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from types import FrameType


def wants_colour() -> bool:
    """Return whether to use colours. The environment variable NO_COLOR turns them off (see no-color.org)."""
    return not os.environ.get("NO_COLOR")


def is_colourful(descriptor: int) -> bool:
    """Return whether a descriptor is a terminal that supports colours, and the user has not turned them off."""
    return os.isatty(descriptor) and wants_colour() and os.environ.get("TERM") != "dumb"


# --- the signals that ask a process to stop, and waiting for them -----------

SignalHandler = Callable[[int, FrameType | None], object] | signal.Handlers

# How often a waiting thread wakes up, so that Python can run signal handlers.
WAKE_UP_SEC = 0.25


def stop_signals() -> list[signal.Signals]:
    """Return SIGTERM and SIGHUP (sent when a terminal closes). Leave out SIGHUP if it is ignored, as under `nohup`."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if is_ignored else [signal.SIGTERM, signal.SIGHUP]


@contextmanager
def signals_handled(numbers: Iterable[signal.Signals], handler: SignalHandler) -> Iterator[None]:
    """Handle these signals inside the `with` block, and restore the previous handlers afterwards."""
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous_handler in previous.items():
            signal.signal(number, previous_handler)


def stop_signals_as_interrupt() -> AbstractContextManager[None]:
    """Handle SIGTERM and a closed terminal like Ctrl-C, unless something else handles them already."""
    unhandled = [number for number in stop_signals() if signal.getsignal(number) is signal.SIG_DFL]
    return signals_handled(unhandled, signal.default_int_handler)


class SignalSafeEvent:
    """An event that a signal handler can set, and that the main thread can wait for without missing a signal."""

    # If the signal arrives while the main thread holds the lock of a `threading.Event`, setting it blocks forever.
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


# Tells a worker to save its counts and records and exit, even if requests are still in progress.
SAVE_SIGNAL = signal.SIGUSR1
# Time limit for `before_end`. In the supervisor, that function kills the workers and writes the log's last line.
REPORT_SEC = 0.5


def requests_limit_sec(grace_sec: int) -> float:
    """Return how long a stopping service waits for requests in progress."""
    return max(1.0, grace_sec)


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
