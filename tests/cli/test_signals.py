"""A service or a demo on a terminal: its log, Ctrl-C while it starts, and SIGHUP when the terminal is closed."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from cli.command import PYTHON, SHOPS, Command
from running_service import free_port
from waiting import answers, until

pytestmark = pytest.mark.programs


@contextmanager
def serving(store: Path, log: int, **environment: str) -> Iterator[str]:
    """Run a service whose standard error is this file descriptor; yield its address."""
    Command(store)("init")
    port, admin_port = (str(free_port()) for _ in range(2))
    process = subprocess.Popen(
        (*PYTHON, "serve", "--port", port, "--admin-port", admin_port, "--store", str(store)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        env=os.environ | {"TERM": "xterm"} | environment,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.parametrize("no_color", ["", "1"], ids=["in colour", "without colours"])
def test_a_terminal_gets_text_without_the_query_and_in_colour_unless_no_color_is_set(
    store: Path, no_color: str
) -> None:
    main_end, child_end = pty.openpty()
    os.set_blocking(main_end, False)
    pieces: list[str] = []

    def shown() -> str:
        with suppress(BlockingIOError):
            pieces.append(os.read(main_end, 65_536).decode())
        return "".join(pieces)

    try:
        with serving(store, child_end, NO_COLOR=no_color) as url:
            until(lambda: "ready " in shown(), "the service is ready")
            httpx.get(f"{url}/ext/v1/openapi.json?secret=query")
            until(lambda: re.search(r"200\S*  openapi.json", shown()), "the request is logged")
        until(lambda: "stopped" in shown(), "the stop is logged")
    finally:
        os.close(main_end)
        os.close(child_end)
    text = "".join(pieces)
    assert ("\x1b[32mready" in text, "\x1b" in text) == (not no_color, not no_color)
    assert ("Z ready            127.0.0.1:" in text) is bool(no_color)
    assert '{"at"' not in text
    assert "query" not in text


@pytest.mark.parametrize(
    ("log_format", "is_json"), [("auto", True), pytest.param("json", True, marks=pytest.mark.long), ("text", False)]
)
def test_a_file_gets_json_unless_text_is_requested(store: Path, tmp_path: Path, log_format: str, is_json: bool) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file, serving(store, file.fileno(), COUNTERFOIL_LOG_FORMAT=log_format):
        until(lambda: "ready" in log.read_text("utf-8"), "the service is ready")
    lines = log.read_text("utf-8").splitlines()
    assert all(line.startswith('{"at"') for line in lines) is is_json
    if is_json:
        assert json.loads(lines[-1])["what"] == "stopped"
    assert "\x1b" not in log.read_text("utf-8")


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


@contextmanager
def on_own_terminal(*arguments: str, nohup: bool = False, **environment: str) -> Iterator[tuple[int, int]]:
    """Run a command in its own terminal; yield its process and the terminal, at whose closing it receives SIGHUP."""
    command = [*PYTHON, *arguments]
    process, terminal = pty.fork()
    if process == 0:
        # The tests themselves may have been started with nohup.
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
        os.execve(command[0], command, os.environ | environment)  # noqa: S606 - a shell would not pass on SIGHUP
    try:
        yield process, terminal
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def exit_status(process: int) -> int:
    """Wait for the command to end and return its exit status, which is negative if a signal ended the command."""

    def ended() -> tuple[int, int] | None:
        found = os.waitpid(process, os.WNOHANG)
        return found if found[0] else None

    return os.waitstatus_to_exitcode(until(ended, "the command ended")[1])


@pytest.fixture
def ports() -> tuple[str, str]:
    return str(free_port()), str(free_port())


def test_a_service_stops_when_its_terminal_is_closed(
    counterfoil: Command, store: Path, tmp_path: Path, ports: tuple[str, str]
) -> None:
    counterfoil("load", "-", stdin=SHOPS[0])
    flags = ("--port", ports[0], "--admin-port", ports[1], "--store", str(store))
    with on_own_terminal("serve", *flags, TMPDIR=str(tmp_path)) as (process, terminal):
        until(lambda: answers(f"http://127.0.0.1:{ports[1]}/ready"), "the service is ready")
        os.close(terminal)
        assert exit_status(process) == 0
    assert not answers(f"http://127.0.0.1:{ports[0]}/ext/v1/openapi.json")
    assert not list(tmp_path.glob("counterfoil-*"))


def test_a_demo_deletes_its_folder_when_its_terminal_is_closed(tmp_path: Path, ports: tuple[str, str]) -> None:
    flags = ("--bills", "500", "--until", "2026-09-30", "--port", ports[0], "--admin-port", ports[1])
    with on_own_terminal("demo", *flags, TMPDIR=str(tmp_path)) as (process, terminal):
        until(lambda: answers(f"http://127.0.0.1:{ports[1]}/ready"), "the demo is ready")
        os.close(terminal)
        assert exit_status(process) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_service_started_with_nohup_survives_its_terminal(counterfoil: Command, ports: tuple[str, str]) -> None:
    counterfoil("load", "-", stdin=SHOPS[0])
    flags = ("--port", ports[0], "--admin-port", ports[1], "--store", str(counterfoil.store), "--log", "off")
    with on_own_terminal("serve", *flags, nohup=True) as (process, terminal):
        until(lambda: answers(f"http://127.0.0.1:{ports[1]}/ready"), "the service is ready")
        os.close(terminal)
        os.kill(process, signal.SIGHUP)
        assert answers(f"http://127.0.0.1:{ports[1]}/ready")
        os.kill(process, signal.SIGTERM)
        assert exit_status(process) == 0
