"""Runs the process that checks and loads for the console, forked from one that has already imported its modules.

It gets the arguments, the standard input and the environment of the process that the console would start. This module
imports little, because the fork server imports it before it starts the first process.
"""

import os
import subprocess
import sys
import threading
from importlib import import_module
from multiprocessing.connection import Connection, wait
from tempfile import TemporaryFile
from typing import BinaryIO

from new_processes import new_processes

INTERPRETER = [sys.executable, "-P", "-m"]
# `multiprocessing` looks at all processes when it starts one, and reads the status of one that has ended only once.
_lock = threading.Lock()


class ForkedLoader:
    """What the console uses of `subprocess.Popen`."""

    def __init__(
        self,
        command: list[str],
        *,
        stdin: BinaryIO,
        stdout: int,
        stderr: int,
        env: dict[str, str],
        start_new_session: bool,
    ) -> None:
        assert command[: len(INTERPRETER)] == INTERPRETER
        assert stdout == stderr == subprocess.PIPE
        self._out, self._errors = TemporaryFile(), TemporaryFile()  # noqa: SIM115 - they are closed when they are read
        # Connections are descriptors that another process can be given.
        streams = [Connection(os.dup(file.fileno())) for file in (stdin, self._out, self._errors)]
        words = command[len(INTERPRETER) :]
        self._process = new_processes().Process(target=_run, args=(words, env, start_new_session, streams))
        with _lock:
            self._process.start()
        for stream in streams:
            stream.close()

    @property
    def returncode(self) -> int | None:
        with _lock:
            return self._process.exitcode

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        if not wait([self._process.sentinel], timeout):
            raise subprocess.TimeoutExpired("loader", timeout)
        with self._out, self._errors:
            self._out.seek(0)
            self._errors.seek(0)
            return self._out.read(), self._errors.read()

    def terminate(self) -> None:
        self._process.terminate()


def _run(words: list[str], environment: dict[str, str], is_leader: bool, streams: list[Connection]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = os.fdopen(0, closefd=False)
    if is_leader:
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    import_module(words[0]).run()
