"""The HTTP server: Granian, its limits and its worker processes. No other module imports Granian."""

import asyncio
import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

from granian import Granian, _signals
from granian._granian import WorkerSignal
from granian.constants import HTTPModes, Interfaces, Loops
from granian.errors import ConfigurationError
from granian.http import HTTP1Settings
from granian.log import LogLevels, logger

from counterfoil.http.app import App
from counterfoil.machine.signals import SignalSafeEvent, stop_signals
from counterfoil.ports import STOP_SAVE_SEC
from counterfoil.serving.stopping import StopDeadline, requests_limit_sec

BACKLOG = 1024
# Maximum number of open connections per worker. By default, Granian stops accepting connections at backlog / workers,
# so a few hundred idle connections would keep all other clients out.
MAX_CONNECTIONS = 8_192
# Maximum size of a request head, and the time within which it must arrive.
MAX_HEAD_BYTES = 65_536
HEAD_TIMEOUT_MS = 10_000
ORPHAN_CHECK_SEC = 1.0
OTHER_DESCRIPTORS = 256
# A new worker that dies within STEADY_SEC of replacing another is itself replaced only after a pause. The pause doubles
# each time, up to LONGEST_PAUSE_SEC.
STEADY_SEC = 30.0
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.5, 10.0
REPORT_AGAIN_SEC = 0.25
# How long to wait for a killed worker to end.
KILL_SEC = 0.2
# Tells a worker to save its counts and records and exit, even if requests are still in progress.
SAVE_SIGNAL = signal.SIGUSR1

LIMITS = HTTP1Settings(header_read_timeout=HEAD_TIMEOUT_MS, keep_alive=True, max_buffer_size=MAX_HEAD_BYTES)


class Worker:
    """The application that a worker process runs, and the function that closes it.

    `grace_sec` limits how long requests may take if the supervisor was killed.
    """

    def __init__(self, app: App, close: Callable[[], None], grace_sec: int) -> None:
        self._close = close
        self._is_closing = False
        self._grace_sec = requests_limit_sec(grace_sec)
        self._orphan_deadline: StopDeadline | None = None
        # Use the PID that the supervisor passed on: if the supervisor has already died, getppid() returns the PID of
        # another process.
        supervisor = multiprocessing.parent_process()
        self._parent = (supervisor and supervisor.pid) or os.getppid()
        self.__rsgi__ = app.__rsgi__
        # Override Granian's function, which is called later, when the worker starts.
        _signals.set_loop_signals = _stop_at_first_signal

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        _allow_descriptors(MAX_CONNECTIONS)
        # When a terminal is closed, every process gets SIGHUP. Workers ignore it, because the supervisor stops them.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        loop.add_signal_handler(SAVE_SIGNAL, self._save_and_exit)
        self._stop_if_orphaned(loop)

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_closing = True
        self._close()

    def _save_and_exit(self) -> None:
        """Save counts and records, then exit without waiting any longer for requests."""
        if not self._is_closing:
            self._is_closing = True
            self._close()
            os._exit(0)

    def _stop_if_orphaned(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop this worker if its supervisor was killed, so that the next supervisor has the port to itself."""
        if os.getppid() != self._parent:
            # Send the signal at every check, because a signal that arrives while the worker is starting is lost.
            os.kill(os.getpid(), signal.SIGTERM)
            if self._orphan_deadline is None:
                loop.call_later(self._grace_sec, self._save_and_exit)
                self._orphan_deadline = StopDeadline(self._grace_sec + STOP_SAVE_SEC)
                self._orphan_deadline.begin()
        loop.call_later(ORPHAN_CHECK_SEC, self._stop_if_orphaned, loop)


def _stop_at_first_signal(loop: asyncio.AbstractEventLoop) -> WorkerSignal:
    """Return Granian's stop signal, which only the first SIGINT or SIGTERM sets.

    Setting it a third time while requests are in progress would block the worker
    forever. A worker often receives several signals: systemd and Ctrl-C
    send a signal to every process, and the supervisor sends another.
    """
    stop = WorkerSignal()
    unset = [stop]

    def set_once() -> None:
        if unset:
            unset.pop().set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, set_once)
    return stop


def _allow_descriptors(connections: int) -> None:
    """Raise the limit on open files (often 1,024) to what the connections need, but not above the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _PersistentServer(Granian):  # type: ignore[misc, valid-type]
    """A Granian server that always replaces dead workers.

    Granian itself stops the service when a worker dies twice within 5.5
    seconds. Here a dead worker is replaced immediately the first time, and
    after increasing pauses if it dies again soon. During a pause, other dead
    workers are still replaced.
    """

    def __init__(self, *, grace_sec: int = 0, on_stop: Callable[[], None] = lambda: None, **terms: Any) -> None:
        super().__init__(**terms)
        self._grace_sec = requests_limit_sec(grace_sec)
        self._on_stop = on_stop
        self.main_loop_interrupt = SignalSafeEvent()
        self._pauses = Pauses(time.monotonic)
        # Workers whose pause is over but that have not been replaced yet.
        self._paused: set[int] = set()
        self._stops_on_hangup = signal.SIGHUP in stop_signals()

    def signal_handler_interrupt(self, *args: Any, **extra: Any) -> None:
        self._on_stop()
        super().signal_handler_interrupt(*args, **extra)

    def signal_handler_reload(self, *args: Any, **extra: Any) -> None:
        """Stop on SIGHUP unless it was ignored at the start. By default, Granian would only replace the workers."""
        if self._stops_on_hangup:
            self.signal_handler_interrupt(*args, **extra)

    def _respawn_workers(self, workers: list[int], spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        # A delay means that the worker is replaced on purpose and needs time to finish its requests, so no pause is
        # added.
        due = workers if delay else [worker for worker in workers if not self._postpone(worker)]
        self._paused.difference_update(due)
        super()._respawn_workers(due, spawn_target, target_loader, delay)
        # Granian stops the service if a worker in this list dies again soon, so the list is cleared.
        self.respawned_wrks.clear()
        if self.interrupt_signal:
            # Granian clears the event just before it calls this method, so a signal at that moment would be lost.
            self.main_loop_interrupt.set()

    def _stop_workers(self) -> None:
        """Give requests `grace_sec` to finish and workers STOP_SAVE_SEC to save their counts; then kill the rest."""
        for worker in self.wrks:
            worker.terminate()
        give_up = time.monotonic() + self._grace_sec
        slow = [worker for worker in self.wrks if not _ends(worker, give_up - time.monotonic())]
        for worker in slow:
            with suppress(ProcessLookupError):
                os.kill(worker.inner.pid, SAVE_SIGNAL)
        give_up = time.monotonic() + STOP_SAVE_SEC
        for worker in slow:
            _ends(worker, give_up - time.monotonic())
        self.kill_workers()
        self.wrks.clear()

    def kill_workers(self) -> None:
        """Kill the workers that are still running."""
        running = [worker for worker in self.wrks if not _ends(worker)]
        for worker in running:
            logger.warning(f"Killing worker-{worker.idx + 1}, because it did not stop in time")
            worker.kill()
        for worker in running:
            _ends(worker, KILL_SEC)

    def _postpone(self, worker: int) -> bool:
        """Return whether the worker must not be replaced yet. If so, report it as dead again after its pause."""
        pause = 0.0 if worker in self._paused else self._pauses.next(worker)
        if pause:
            self._later(pause, worker)
        return bool(pause)

    def _later(self, seconds: float, worker: int) -> None:
        timer = threading.Timer(seconds, self._pause_is_over, [worker])
        timer.daemon = True
        timer.start()

    def _pause_is_over(self, worker: int) -> None:
        self._paused.add(worker)
        # Granian empties its list of dead workers without a lock, so add the worker again until it is replaced.
        while worker in self._paused and not self.interrupt_signal:
            if worker not in self.interrupt_children:
                self.interrupt_children.append(worker)
            self.main_loop_interrupt.set()
            time.sleep(REPORT_AGAIN_SEC)


def _ends(worker: Any, within_sec: float = 0.0) -> bool:
    """Return whether a worker process ends within this time.

    `worker.is_alive` is not reliable here, because a thread of Granian waits for
    the same process. The system reports the end of a process to only one thread.
    Until that thread has recorded it, `is_alive` returns True in the other thread.
    """
    return bool(wait([worker.inner.sentinel], max(0.0, within_sec)))


class Pauses:
    """Computes how long to wait before a worker is replaced."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last: dict[int, tuple[float, float]] = {}

    def next(self, worker: int) -> float:
        """Return how many seconds to wait. The result is 0 unless the worker died soon after it was last replaced."""
        died = self._now()
        replaced, pause = self._last.get(worker, (0.0, 0.0))
        soon = worker in self._last and died - replaced < STEADY_SEC
        pause = min(max(FIRST_PAUSE_SEC, 2 * pause), LONGEST_PAUSE_SEC) if soon else 0.0
        self._last[worker] = died + pause, pause
        return pause


class HttpServer:
    """Listens on the port and keeps `workers` processes running. Each process calls `load` to get its application.

    `logging` configures Granian's own messages, as in `logging.config.dictConfig`.
    `on_stop` is called in the signal handler when the service is asked to stop.
    """

    def __init__(
        self,
        host: str,
        port: int,
        workers: int,
        grace_sec: int,
        load: Callable[[], Worker],
        logging: dict[str, object] | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        # Workers start in a new interpreter, because the supervisor runs threads, which do not survive a fork.
        multiprocessing.set_start_method("spawn", force=True)
        self._load = load
        self._server: Any = _PersistentServer(
            target="counterfoil",
            address=host,
            port=port,
            interface=Interfaces.RSGI,
            workers=workers,
            loop=Loops.auto,
            http=HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG,
            backpressure=MAX_CONNECTIONS,
            http1_settings=LIMITS,
            log_level=LogLevels.warning,
            log_dictconfig=logging,
            respawn_failed_workers=True,
            grace_sec=grace_sec,
            on_stop=on_stop,
        )

    def kill_workers(self) -> None:
        self._server.kill_workers()

    def run(self) -> None:
        """Serve until the process receives SIGINT, SIGTERM or, unless it is ignored, SIGHUP."""
        try:
            self._server.serve(target_loader=self._load, wrap_loader=False)
        except ConfigurationError as error:
            raise OSError(f"the server cannot start: {error}") from error
