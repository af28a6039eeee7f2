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


class ConverterStopped(Exception):
    """A converter process ended during the load."""

    def __init__(self) -> None:
        super().__init__(
            "a process that converts bills for this load was killed or failed. Every batch written so far is "
            "complete. Run the same command to resume, or add --converters 0 to load without such processes."
        )


class ForkedProcess:
    """A fork of the loader. It has the methods of `subprocess.Popen` that a load needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def kill(self) -> None:
        # After `wait`, the PID may belong to another process.
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


class ConverterProcess:
    """A process that converts bills for the loader. `told` is the number of facts that it has received."""

    def __init__(self, process: ForkedProcess | subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.process = process
        self._connection = connection
        self._queues: MessageQueues | None = None
        self._is_closed = False
        self.told = 0

    @property
    def queues(self) -> MessageQueues:
        """The messages to and from the process. The first use starts threads."""
        if self._queues is None:
            self._queues = MessageQueues(self._connection)
        return self._queues

    def has_answer(self) -> bool:
        return self.queues.has_message()

    def answer(self) -> bytes:
        """Wait for the next answer and return it."""
        answer = self.queues.receive()
        if answer is None:
            raise ConverterStopped
        return answer

    def close(self) -> None:
        """End the process. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.process.kill()
        self.process.wait()
        self.queues.close()


def spawned(secret: bytes, count: int) -> list[ConverterProcess]:
    """Start new processes; return those that could be started. Without them, a load only takes longer."""
    processes: list[ConverterProcess] = []
    with suppress(OSError):
        for _ in range(count if sys.executable else 0):
            processes.append(_spawn())
            processes[-1].queues.send(secret)
    return processes


def forked(secret: bytes, count: int) -> list[ConverterProcess]:
    """Fork this process, which takes less time than to start new ones; return the forks.

    Call this before the store is opened, because a fork must not inherit a
    connection. The result is empty if this process has several threads: another
    thread may hold a lock, which would stay locked in the fork.
    """
    processes: list[ConverterProcess] = []
    # On macOS, system libraries may fail in a fork.
    if sys.platform != "linux" or threading.active_count() > 1:
        return processes
    with suppress(OSError):
        for _ in range(count):
            processes.append(_fork())  # noqa: PERF401 - keeps the processes that could be forked
    # Start threads only after the last fork.
    for process in processes:
        process.queues.send(secret)
    return processes


def _spawn() -> ConverterProcess:
    import subprocess  # noqa: PLC0415 - a load that forks starts faster without this module

    # The process has the same module search path as this one. It has its own process group, so that only the loader
    # receives Ctrl-C.
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)  # noqa: PTH109 - as sys.path has it
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
        except BaseException:
            ours.close()
            raise
    return ConverterProcess(process, ours)


def _fork() -> ConverterProcess:
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            raise
        if pid == 0:
            converter_process.run_fork(theirs)
    return ConverterProcess(ForkedProcess(pid), ours)
