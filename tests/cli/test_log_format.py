"""Tests for the log format of a real `serve` process, on a terminal and in a file."""

import json
import os
import pty
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cli.command import PYTHON, Command
from counterfoil.machine.addresses import free_port
from waiting import until

pytestmark = pytest.mark.programs


class Served:
    """A `serve` process whose standard error goes to the given file descriptor."""

    def __init__(self, store: Path, log: int, **environment: str) -> None:
        self.port = free_port("127.0.0.1")
        flags = ("--port", str(self.port), "--admin-port", str(free_port("127.0.0.1")), "--store", str(store))
        self.process = subprocess.Popen(
            (*PYTHON, "serve", *flags),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=os.environ | {"TERM": "xterm"} | environment,
        )

    def get(self, path: str) -> None:
        urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5).close()


@contextmanager
def on_a_terminal(store: Path, **environment: str) -> Iterator[tuple[Served, list[str]]]:
    """Run a service with a terminal as standard error and send it a request; yield the service and its output.

    The output is the only item of a list, so that the caller also sees text that is added later.
    """
    main_end, child_end = pty.openpty()
    os.set_blocking(main_end, False)
    served, pieces = Served(store, child_end, **environment), [""]

    def has(text: str) -> bool:
        with suppress(BlockingIOError):
            pieces[0] += os.read(main_end, 65_536).decode()
        return text in pieces[0]

    try:
        until(lambda: has("ready "), "the service is ready")
        served.get("/ext/v1/openapi.json?secret=query")
        until(lambda: has("200  openapi.json") or has("200\x1b[0m  openapi.json"), "the request is logged")
        yield served, pieces
        until(lambda: has("stopped") if served.process.poll() is not None else False, "the stop is logged")
    finally:
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(20)
        has("")
        os.close(main_end)
        os.close(child_end)


def test_a_terminal_gets_text_in_colour_without_the_query(counterfoil: Command, store: Path) -> None:
    counterfoil("init")
    with on_a_terminal(store, NO_COLOR="") as (served, pieces):
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(20)
    assert "\x1b[32mready" in pieces[0]
    assert '{"at"' not in pieces[0]
    assert "query" not in pieces[0]


def test_no_color_leaves_the_text_without_colours(counterfoil: Command, store: Path) -> None:
    counterfoil("init")
    with on_a_terminal(store, NO_COLOR="1") as (served, pieces):
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(20)
    assert "\x1b" not in pieces[0]
    assert "Z ready            127.0.0.1:" in pieces[0]


@pytest.mark.parametrize(
    ("log_format", "is_json"), [("auto", True), pytest.param("json", True, marks=pytest.mark.long), ("text", False)]
)
def test_a_file_gets_json_unless_text_is_requested(
    counterfoil: Command, store: Path, tmp_path: Path, log_format: str, is_json: bool
) -> None:
    counterfoil("init")
    log = tmp_path / "log"
    with log.open("wb") as file:
        served = Served(store, file.fileno(), COUNTERFOIL_LOG_FORMAT=log_format)
    try:
        until(lambda: "ready" in log.read_text("utf-8"), "the service is ready")
    finally:
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(20)
    lines = log.read_text("utf-8").splitlines()
    assert all(line.startswith('{"at"') for line in lines) is is_json
    if is_json:
        assert json.loads(lines[-1])["what"] == "stopped"
    assert "\x1b" not in log.read_text("utf-8")


def test_an_unknown_format_is_refused(counterfoil: Command) -> None:
    assert "log_format" in counterfoil.bare("serve", "--log-format", "xml", status=2).output.replace("-", "_")
