"""Two demos can start at once."""

import json
import os
import signal
import subprocess
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from cli.command import PYTHON
from console.running_console import signed_in
from counterfoil.machine.addresses import free_port, is_free, reserved_port

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


def signs_in(link: str | None) -> bool:
    assert link
    with signed_in(link):
        return True
