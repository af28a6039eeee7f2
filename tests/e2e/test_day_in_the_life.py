"""A day in the life of an operator, with real processes: what goes wrong is told, and stays a warning until fixed."""

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.watched_folder import bills
from e2e.serve_process import SHOP, Deployment, ServeProcess
from notice_receiver import Receiver
from waiting import until

pytestmark = pytest.mark.programs

PROGRAM = (sys.executable, "-m", "counterfoil")


class Day:
    """A service that notifies a receiver, a watcher of a folder, and the operator's commands."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self._receiver = receiver
        self._deployment = Deployment(folder)
        self._deployment.variables = {"COUNTERFOIL_NOTIFY_URL": receiver.url, "COUNTERFOIL_NOTIFY_EVERY_SEC": "1"}
        self._deployment.issue({"erp": {}})
        for first in (0, 300, 600):
            self._deployment.load(SHOP, *bills(first).splitlines())
        self.incoming = folder / "incoming"
        self.incoming.mkdir()
        self.service: ServeProcess = self._deployment.start()
        with (folder / "watch.log").open("wb") as log:
            words = [*PROGRAM, "load", "--watch", str(self.incoming), "--kept", str(folder / "kept")]
            self._watcher = subprocess.Popen(words, env=self._deployment.environment(), stdout=log, stderr=log)

    def end(self) -> None:
        self._watcher.send_signal(signal.SIGTERM)
        self._watcher.wait(30)
        self.service.stop()

    def deliver(self, name: str, content: bytes) -> None:
        unfinished = self.incoming / f".{name}"
        unfinished.write_bytes(content)
        unfinished.rename(self.incoming / name)

    def run(self, *words: str, status: int = 0) -> Any:
        """Run a command with `--json`, and return what it printed."""
        done = subprocess.run(
            [*PROGRAM, *words, "--json"], env=self._deployment.environment(), capture_output=True, check=False
        )
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout)

    def wait_for_notice(self, change: str, code: str) -> dict[str, Any]:
        """Wait until this change is sent, and return the finding. Forget the notifications up to it."""

        def found() -> dict[str, Any] | None:
            for place, body in enumerate(self._receiver.bodies()):
                for finding in body["findings"]:
                    if (finding["change"], finding["code"]) == (change, code):
                        del self._receiver.received[: place + 1]
                        return dict(finding)
            return None

        return until(found, f"a notification said that {code} had {change}", 60)

    def wait_for_load(self, files: dict[str, int]) -> None:
        """Wait until the latest load has read these files without rejecting a line."""

        def found() -> bool:
            latest = self.run("loads")[0]
            return bool(latest["files"] == files and latest["state"] == "finished")

        until(found, f"{', '.join(files)} was loaded", 60)

    def warnings(self) -> list[str]:
        """Return the codes of the warnings of `status` about open items."""
        found = self.run("status", status=2)
        return [check["code"] for check in found["checks"] if check["check"] == "items" and check["status"] == "warn"]

    def is_served(self, bill_id: str) -> bool:
        answer = self.service.get(f"transactions/{bill_id}?shopId=sh_1", self.service.key("erp"))
        assert answer.status_code in (200, 404)
        return answer.status_code == 200

    def open_item(self) -> dict[str, Any]:
        (item,) = self.run("loads", "open")
        found: dict[str, Any] = item
        return found


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    with Receiver() as receiver:
        found = Day(tmp_path, receiver)
        yield found
        found.end()


def test_what_goes_wrong_is_told_and_stays_a_warning_until_it_is_dealt_with(day: Day) -> None:
    # A delivery arrives damaged. The fix is delivered, and the operator says that it replaces the damaged file.
    whole = gzip.compress(bills(1_000))
    day.deliver("bills-16.ndjson.gz", whole[:-9])
    assert day.wait_for_notice("appeared", "items_quarantined")["severity"] == "warn"
    assert day.warnings() == ["items_quarantined"]
    status = day.run("status", status=2)
    assert (status["status"], status["openItems"]["quarantined"]) == ("warn", 1)
    assert status["openItems"]["oldestAgeMs"] >= 0
    assert day.service.metric("open_items", kind="quarantined") == 1
    assert "items" in day.service.admin("ready").json()["warnings"]
    item = day.open_item()
    assert Path(item["path"]).exists()
    day.deliver("bills-16.ndjson.gz", whole)
    day.wait_for_load({"bills-16.ndjson.gz": 0})
    assert day.is_served("b_1000")
    assert day.run("loads", "resolve", str(item["number"])) == {"resolved": [item["number"]]}
    day.wait_for_notice("resolved", "items_quarantined")
    assert day.run("loads", "open") == []

    # A line of another delivery is rejected, because its shop is not there. Then the rejects file is loaded.
    day.deliver("bills-17.ndjson", bills(2_000, 20) + b'{"kind":"bill","id":"b_x","shopId":"sh_9"}')
    day.wait_for_notice("appeared", "items_rejects")
    item = day.open_item()
    assert (item["kind"], item["source"], item["lines"]) == ("rejects", "bills-17.ndjson", 1)
    day.deliver("shops.ndjson", b'{"kind":"shop","id":"sh_9","name":"Hillside"}')
    day.wait_for_load({"shops.ndjson": 0})
    day.run("load", item["path"])
    day.wait_for_notice("resolved", "items_rejects")
    entry = day.run("audit")[0]
    assert (entry["act"], entry["detail"].startswith("item 1: ")) == ("items_resolved", True)
    assert entry["actor"]

    # A delivery differs sharply from earlier ones. It is not served until it is accepted.
    day.deliver("bills-18.ndjson", bills(3_000, lines=[]))
    day.wait_for_notice("appeared", "items_held")
    assert day.warnings() == ["items_held"]
    assert (day.is_served("b_3000"), day.is_served("b_3001")) == (False, False)
    day.run("loads", "accept", "bills-18.ndjson")
    day.wait_for_notice("resolved", "items_held")
    assert (day.is_served("b_3000"), day.is_served("b_3001")) == (True, True)
    assert next(entry["act"] for entry in day.run("audit")) == "delivery_accepted"
    assert day.run("loads", "open") == []
