"""Tests for signals: Ctrl-C while a command starts, and SIGHUP when its terminal is closed."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from cli.command import PYTHON, SHOPS, Command
from counterfoil.machine.addresses import free_port
from waiting import until

pytestmark = pytest.mark.programs

# Runs the program, and sends it SIGINT while it imports click.
INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, *rest):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
from counterfoil.__main__ import run
run()
"""


def test_ctrl_c_while_a_command_starts_prints_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_a_background_job_that_ignores_ctrl_c_keeps_ignoring_it() -> None:
    source = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{INTERRUPTED_IMPORT}"
    done = subprocess.run([sys.executable, "-c", source, "--version"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


class OnTerminal:
    """A command that runs in its own terminal."""

    def __init__(self, *arguments: str, nohup: bool = False, **environment: str) -> None:
        command = [*PYTHON, *arguments]
        self._ended: int | None = None
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            if nohup:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.execve(command[0], command, os.environ | environment)  # noqa: S606 - a shell would not pass on SIGHUP

    def __enter__(self) -> "OnTerminal":
        return self

    def __exit__(self, *failure: object) -> None:
        if self._ended is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def close(self) -> None:
        """Close the terminal, so that its processes receive SIGHUP."""
        os.close(self._terminal)

    def exit_status(self) -> int:
        """Wait for the command to end and return its exit status, which is negative if a signal ended the command."""
        until(self._has_ended, "the command ended")
        assert self._ended is not None
        return os.waitstatus_to_exitcode(self._ended)

    def _has_ended(self) -> bool:
        process, status = os.waitpid(self.pid, os.WNOHANG)
        if process:
            self._ended = status
        return bool(process)


def answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=2).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def ports() -> tuple[str, str]:
    return str(free_port("127.0.0.1")), str(free_port("127.0.0.1"))


def test_a_service_stops_when_its_terminal_is_closed(
    counterfoil: Command, store: Path, tmp_path: Path, ports: tuple[str, str]
) -> None:
    counterfoil("load", "-", stdin=SHOPS[0])
    flags = ("--port", ports[0], "--admin-port", ports[1], "--store", str(store))
    with OnTerminal("serve", *flags, TMPDIR=str(tmp_path)) as running:
        until(lambda: answers(f"http://127.0.0.1:{ports[1]}/ready"), "the service is ready")
        running.close()
        assert running.exit_status() == 0
    assert not answers(f"http://127.0.0.1:{ports[0]}/ext/v1/openapi.json")
    assert not list(tmp_path.glob("counterfoil-*"))


def test_a_demo_deletes_its_folder_when_its_terminal_is_closed(tmp_path: Path, ports: tuple[str, str]) -> None:
    flags = ("--bills", "500", "--until", "2026-09-30", "--port", ports[0], "--admin-port", ports[1])
    with OnTerminal("demo", *flags, TMPDIR=str(tmp_path)) as running:
        until(lambda: answers(f"http://127.0.0.1:{ports[1]}/ready"), "the demo is ready")
        running.close()
        assert running.exit_status() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_service_started_with_nohup_survives_its_terminal(counterfoil: Command, ports: tuple[str, str]) -> None:
    counterfoil("load", "-", stdin=SHOPS[0])
    flags = ("--port", ports[0], "--admin-port", ports[1], "--store", str(counterfoil.store), "--log", "off")
    with OnTerminal("serve", *flags, nohup=True) as running:
        until(lambda: answers(f"http://127.0.0.1:{ports[1]}/ready"), "the service is ready")
        running.close()
        os.kill(running.pid, signal.SIGHUP)
        assert answers(f"http://127.0.0.1:{ports[1]}/ready")
        os.kill(running.pid, signal.SIGTERM)
        assert running.exit_status() == 0
