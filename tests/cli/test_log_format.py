"""Tests for the log format of a real `serve` process, on a terminal and in a file."""

import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from cli.command import PYTHON, Command
from counterfoil.machine.addresses import free_port
from waiting import until

pytestmark = pytest.mark.programs


@contextmanager
def serving(store: Path, log: int, **environment: str) -> Iterator[str]:
    """Run a service whose standard error is this file descriptor; yield its address."""
    Command(store)("init")
    port, admin_port = (str(free_port("127.0.0.1")) for _ in range(2))
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
