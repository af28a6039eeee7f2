"""Starts the worker processes, replaces those that die, and stops them within a time limit."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread
from typing import IO, cast

from counterfoil.observe import Event, ServerMessage
from counterfoil.ports import STOP_SAVE_SEC
from counterfoil.program.process import SAVE_SIGNAL, SignalSafeEvent, requests_limit_sec, stop_signals

# A worker that dies within STEADY_SEC of replacing another is itself replaced only after a pause.
STEADY_SEC, PAUSE_SEC = 30.0, 1.0
# How often the supervisor looks for dead workers. It is usually told at once.
CHECK_SEC = 1.0
# How long to wait for a killed worker to end, and for its last lines on standard error.
KILL_SEC = 0.2
# A longer line on standard error is logged in parts.
MAX_LINE_BYTES = 2_048
# A terminal sends these signals to every process. Workers do not receive them, because the supervisor stops them.
BLOCKED = {signal.SIGINT, signal.SIGHUP}
# With -P and this process's search path, a worker imports the same modules, and none from the current folder.
COMMAND = (sys.executable, "-P", "-c", "from counterfoil.serving.worker import main; main()")


class Workers:
    """Keeps `count` worker processes running.

    Every worker gets `order` on standard input, which stays open until the supervisor ends, and inherits the
    descriptors in `inherited`. Each line that a worker writes to standard error is passed to `log`, which several
    threads call.
    """

    def __init__(
        self, count: int, order: bytes, inherited: Iterable[int], grace_sec: int, log: Callable[[Event], None]
    ) -> None:
        self._order = order
        self._inherited = tuple(inherited)
        self._grace_sec = requests_limit_sec(grace_sec)
        self._log = log
        self._wake = SignalSafeEvent()
        self._is_stopping = False
        # When each worker last replaced another.
        self._replaced: dict[int, float] = {}
        # Each process with the thread that watches it.
        self._running: dict[int, tuple[subprocess.Popen[bytes], Thread]] = {}
        # When to start the workers that do not run.
        self._due = dict.fromkeys(range(1, count + 1), 0.0)
        self._environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def run(self, on_stop: Callable[[], None]) -> None:
        """Keep the workers running until a signal asks to stop, then stop them. The signal handler calls `on_stop`."""

        def stop(*_: object) -> None:
            self._is_stopping = True
            on_stop()
            self._wake.set()

        for number in (signal.SIGINT, *stop_signals()):
            signal.signal(number, stop)
        while not self._is_stopping:
            self._replace()
            next_start = min(self._due.values(), default=float("inf"))
            self._wake.wait(min(CHECK_SEC, next_start - time.monotonic()))
            self._wake.clear()
        self._stop()

    def _replace(self) -> None:
        """Start the workers that are due, and set a time for each worker that has died."""
        for worker, (process, _) in list(self._running.items()):
            if process.poll() is not None:
                del self._running[worker]
                self._replace_later(worker)
        for worker, at in list(self._due.items()):
            if at <= time.monotonic() and not self._is_stopping:
                self._start(worker)

    def _replace_later(self, worker: int) -> None:
        now = time.monotonic()
        is_repeated = now - self._replaced.get(worker, -STEADY_SEC) < STEADY_SEC
        self._due[worker] = self._replaced[worker] = now + (PAUSE_SEC if is_repeated else 0)

    def _start(self, worker: int) -> None:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        try:
            process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=self._inherited, env=self._environment
            )
        except OSError as error:
            self._log(ServerMessage(level="error", message=f"Cannot start worker-{worker}: {error.strerror}"))
            self._replace_later(worker)
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        del self._due[worker]
        watcher = Thread(target=self._watch, args=(worker, process), name=f"worker-{worker}", daemon=True)
        watcher.start()
        self._running[worker] = process, watcher

    def _watch(self, worker: int, process: subprocess.Popen[bytes]) -> None:
        """Send a worker its order, and log what it and its native code write to standard error until it ends."""
        with suppress(BrokenPipeError), process:
            stdin, stderr = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stderr)
            with suppress(BrokenPipeError):
                stdin.write(self._order)
                stdin.flush()
            while line := stderr.readline(MAX_LINE_BYTES):
                if text := line.decode(errors="backslashreplace").rstrip():
                    self._log(ServerMessage(level="error", message=text))
        if not self._is_stopping:
            status = process.returncode
            ending = f"status {status}" if status >= 0 else signal.strsignal(-status)
            self._log(ServerMessage(level="error", message=f"Unexpected exit from worker-{worker}: {ending}"))
        self._wake.set()

    def _stop(self) -> None:
        """Give requests `grace_sec` to finish and workers STOP_SAVE_SEC to save their counts; then kill the rest."""
        self._signal_all(signal.SIGTERM, self._grace_sec)
        self._signal_all(SAVE_SIGNAL, STOP_SAVE_SEC)
        self.kill()

    def kill(self) -> None:
        """Kill the workers that are still running."""
        workers = list(self._running)
        self._signal_all(signal.SIGKILL, KILL_SEC)
        for worker in workers:
            message = f"Killing worker-{worker}, because it did not stop in time"
            self._log(ServerMessage(level="warning", message=message))

    def _signal_all(self, number: signal.Signals, wait_sec: float) -> None:
        """Send a signal to all workers, wait at most this long until they have ended, and forget those that have."""
        running = list(self._running.items())
        for _, (process, _) in running:
            process.send_signal(number)
        deadline = time.monotonic() + wait_sec
        for worker, (_, watcher) in running:
            watcher.join(max(0.0, deadline - time.monotonic()))
            if not watcher.is_alive():
                self._running.pop(worker, None)
