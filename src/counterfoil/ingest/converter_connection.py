"""Starts the processes that convert bills for a load, and exchanges messages with them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from counterfoil.ingest import converter_process
from counterfoil.ingest.converter_process import MessageQueues

if TYPE_CHECKING:
    import subprocess


class ForkedProcess:
    """A process forked from the loader. It has the methods of `subprocess.Popen` that a load needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def kill(self) -> None:
        # After `wait`, the PID may belong to another process.
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self.returncode is None:
            try:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            except ChildProcessError:  # The system keeps no exit status if the parent ignores SIGCHLD.
                self.returncode = 0
        return self.returncode


class ConverterProcess:
    """A process that converts bills for the loader. `told` is the number of facts that it has been sent.

    `is_lost` is true once the loader has noticed that the process has ended.
    """

    def __init__(self, process: ForkedProcess | subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.process = process
        self._connection = connection
        self._queues: MessageQueues | None = None
        self._is_closed = False
        self.told = 0
        self.is_lost = False

    @property
    def queues(self) -> MessageQueues:
        """The messages to and from the process. The first access starts the threads that pass them on."""
        if self._queues is None:
            self._queues = MessageQueues(self._connection)
        return self._queues

    def has_answer(self) -> bool:
        """Return whether `answer` would return without waiting."""
        return self.is_lost or self.queues.has_message()

    def answer(self) -> bytes | None:
        """Wait for the next answer and return it, or None if the process has ended."""
        answer = None if self.is_lost else self.queues.receive()
        self.is_lost = answer is None
        return answer

    def close(self) -> None:
        """End the process. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.process.kill()
        self.process.wait()
        if self._queues is None:
            self._connection.close()
        else:
            self._queues.close()


def spawned(secret: bytes, count: int) -> list[ConverterProcess]:
    """Start new processes; return those that could be started. A load works without them, but takes longer."""
    return _greeted([_spawn() for _ in range(count if sys.executable else 0)], secret)


def forked(secret: bytes, count: int) -> list[ConverterProcess]:
    """Fork this process, which takes less time than starting new processes; return the forks.

    Call this before the store is opened, because a fork must not inherit a
    connection. The result is empty on systems other than Linux. It is also empty
    if this process has several threads: another thread may hold a lock, which
    would stay locked in the fork.
    """
    # On macOS, system libraries may fail in a forked process.
    if sys.platform != "linux" or threading.active_count() > 1:
        return []
    # All forks are made before the first thread is started.
    return _greeted([_fork() for _ in range(count)], secret)


def _greeted(started: list[ConverterProcess | None], secret: bytes) -> list[ConverterProcess]:
    """Send the secret to each process that was started; return the processes that it was sent to."""
    greeted = []
    for process in started:
        if process is None:
            continue
        try:
            process.queues.send(secret)
            greeted.append(process)
        except RuntimeError:  # The system allows no more threads.
            process.close()
    return greeted


def _spawn() -> ConverterProcess | None:
    import subprocess  # noqa: PLC0415 - a load that forks starts faster without this module

    # The process has the same module search path as this one. It has its own process group, so that only the loader
    # receives Ctrl-C.
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)  # noqa: PTH109 - sys.path has strings
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "counterfoil.ingest.converter_process"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                process_group=0,
            )
        except OSError:
            ours.close()
            return None
    return ConverterProcess(process, ours)


def _fork() -> ConverterProcess | None:
    ours, theirs = socket.socketpair()
    # Block these signals, so that they never run the loader's handlers in the fork. The fork sets them to be ignored,
    # and then unblocks them.
    allowed = signal.pthread_sigmask(signal.SIG_BLOCK, converter_process.IGNORED_SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            converter_process.run_fork(theirs)
    except OSError:
        ours.close()
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, allowed)
        theirs.close()
    return ConverterProcess(ForkedProcess(pid), ours)
