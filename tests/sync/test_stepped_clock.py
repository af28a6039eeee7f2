"""Runs real processes while faketime steps their clock: serverTime never goes back, and no change is missed."""

import os
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import httpx
import msgspec
import pytest

import records as r
from client.copy_contents import Json
from running_service import SECRET
from sync.killable_processes import COMMAND, FRANCHISE, KillableProcesses

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
STEPS = ("+0", "+3600", "-3600", "-1", "+7200", "-86400", "+0")
SHOP = r.branch(id="s", franchiseId=FRANCHISE, providerId=None)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not LIBRARIES,
        reason="libfaketime is not installed, so clock steps were NOT tested (Debian: apt-get install faketime)",
    ),
]


class ProcessesWithFakeClock(KillableProcesses):
    """A deployment whose processes all use a clock that the test sets."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, bills=0, seed=1)
        self.clock = folder / "clock"
        self.step("+0")
        self.environment = os.environ | {
            "COUNTERFOIL_SECRET": SECRET,
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self.clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, seconds: str) -> None:
        self.clock.write_text(f"{seconds}\n")

    def _start(self, who: str, *words: str) -> None:
        with (self.folder / f"{who}.log").open("ab") as log:
            self.running[who] = subprocess.Popen(
                [*COMMAND, *words], env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def load(self, *records: Json) -> None:
        (self.folder / "source.ndjson").write_bytes(b"\n".join(map(msgspec.json.encode, records)))
        self._start("loader", "load", str(self.folder / "source.ndjson"), *self._store)
        self.finish("loader")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[ProcessesWithFakeClock]:
    processes = ProcessesWithFakeClock(tmp_path)
    yield processes
    processes.close()


class Reader:
    """Reads the shop's changes, each time from the previous mark."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.copy: dict[str, Json] = {}
        self.mark = "1970-01-01T00:00:00Z"

    def ask(self, path: str, **query: str | int) -> Json:
        body: Json = self._client.get(path, params=query).json()
        assert body["ok"], body
        return body

    def read(self) -> None:
        told = self.ask("shops")["serverTime"]
        assert datetime.fromisoformat(told) >= datetime.fromisoformat(self.mark)
        changed = self.ask("transactions", shopId="s", updatedSince=self.mark, limit=200)["data"]
        self.copy |= {bill["id"]: bill for bill in changed}
        self.mark = told

    def assert_right(self) -> None:
        held = self.ask("transactions", shopId="s", limit=200, **{"from": "20260101", "to": "20260101"})["data"]
        assert held
        assert self.copy == {bill["id"]: bill for bill in held}


def test_a_copy_by_change_stays_right_while_the_clock_steps(processes: ProcessesWithFakeClock) -> None:
    processes.load(SHOP)
    processes.start("server", 0)
    with httpx.Client(
        headers={"authorization": f"Bearer {processes.key}"}, base_url=processes.url, timeout=30
    ) as client:
        reader = Reader(client)
        for number, step in enumerate(STEPS):
            processes.step(step)
            reader.read()
            processes.load(*(r.bill(SHOP, id=f"b{number % 3 + each}", cashier=f"Nok {number}") for each in range(4)))
            reader.read()
            reader.assert_right()
