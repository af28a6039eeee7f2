"""Two demos can start at once, and a demo reports a console that died."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from cli.command import PYTHON, SHOPS, Command
from console.running_console import signed_in
from counterfoil import settings
from counterfoil.demo.console import DemoConsole
from counterfoil.machine.addresses import free_port, is_free, reserved_port
from waiting import until

pytestmark = pytest.mark.programs


class DemoProcess:
    """A demo in a process of its own. `notes` collects the lines that it writes to standard error."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
        words = [*PYTHON, "demo", "--port", "0", "--bills", "500", "--workers", "1", "--json"]
        self._process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment | {"TMPDIR": str(folder), "COUNTERFOIL_LOG": "off"},
        )
        self.notes: list[str] = []
        self._reader = threading.Thread(target=self._read_notes, daemon=True)
        self._reader.start()

    def _read_notes(self) -> None:
        assert self._process.stderr
        self.notes.extend(line.decode() for line in self._process.stderr)

    def printed(self) -> dict[str, Any]:
        """Wait until the demo is ready and return the JSON that it prints."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, self.notes
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._reader.join(60)
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()


def test_two_demos_that_start_at_once_have_different_ports_and_both_answer(tmp_path: Path) -> None:
    with ExitStack() as running:
        demos = [running.enter_context(closing(DemoProcess(tmp_path / name))) for name in ("first", "second")]
        printed = [demo.printed() for demo in demos]
        addresses = [found[name] for found in printed for name in ("baseUrl", "admin", "console")]
        assert len({urlsplit(address).port for address in addresses}) == len(addresses)
        for found in printed:
            headers = {"authorization": f"Bearer {found['keys'][0]['key']}"}
            assert httpx.get(f"{found['baseUrl']}/shops", headers=headers, timeout=30).status_code == 200
            assert httpx.get(f"{found['admin']}/ready", timeout=30).status_code == 200
            assert signs_in(found["console"])


def test_a_reserved_port_is_given_to_nobody_else_and_can_be_used_by_its_number() -> None:
    with ExitStack() as reserved:
        ports = [reserved_port("127.0.0.1", reserved) for _ in range(50)]
        assert not {free_port("127.0.0.1") for _ in range(300)} & set(ports)
        assert all(is_free("127.0.0.1", port) for port in ports)


@pytest.fixture
def console(tmp_path: Path) -> Iterator[DemoConsole]:
    store = tmp_path / "store"
    Command(store)("load", "-", stdin=b"\n".join(SHOPS))
    running = DemoConsole(settings.load({"store": str(store), "console_port": free_port("127.0.0.1")}, {}))
    yield running
    running.close()


def signs_in(link: str | None) -> bool:
    assert link
    with signed_in(link):
        return True


def test_a_console_that_was_killed_is_reported_with_the_command_that_starts_it(console: DemoConsole) -> None:
    notes: list[str] = []
    assert signs_in(console.link())
    console.watch(notes.append)
    os.kill(console.process_id, signal.SIGKILL)
    until(lambda: len(notes) == 1, "the demo reports the console")
    assert "status -9" in notes[0]
    assert "counterfoil console --store" in notes[0]


def test_a_console_that_the_demo_stops_is_not_reported(console: DemoConsole) -> None:
    notes: list[str] = []
    console.link()
    console.watch(notes.append)
    console.close()
    assert notes == []
