"""A watched folder, with a watcher in this process or in a process of its own, and what is delivered to it."""

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.command import PYTHON, SHOPS
from counterfoil.cli.store_loader import StoreLoader
from counterfoil.ingest.sources import SOURCE_RECORDS, FileSet, SourceFiles
from counterfoil.ingest.spool import SETTLE_MS, Spool
from counterfoil.ingest.watching import FolderWatch
from counterfoil.program.process import SignalSafeEvent
from counterfoil.settings import load
from waiting import until

SHOP_LINES = b"".join(shop + b"\n" for shop in SHOPS)
# What the watcher puts in front of the name of a file that it moves.
MOVED = re.compile("[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}-")


def bills(first: int, number: int = 250, **fields: Any) -> bytes:
    """Return bills with items and amounts; `fields` are added to every tenth one, or replace its fields."""
    found = []
    for place in range(first, first + number):
        record = {"kind": "bill", "id": f"b_{place}", "shopId": "sh_1", "closedAt": 1_760_000_000 + place}
        record |= {"lines": [{"name": "Soup", "qty": 1}], "amounts": {"net": 1}}
        found.append(json.dumps(record | fields if place % 10 == 0 else record).encode() + b"\n")
    return b"".join(found)


def names(folder: Path) -> list[str]:
    """Return the names of the entries of a folder; those of moved files as they were delivered."""
    found = [path.name for path in folder.iterdir() if path.name != ".counterfoil.lock"] if folder.exists() else []
    is_kept = folder.name in ("done", "quarantine", "held")
    assert not is_kept or all(MOVED.match(name) for name in found), found
    return sorted(MOVED.sub("", name) for name in found)


def reasons(folder: Path) -> list[str]:
    return sorted(note.read_text("utf-8") for note in folder.glob("*.reason.txt"))


class Watched:
    """A watched folder, and a watcher in this process whose rounds are called one by one."""

    def __init__(
        self, folder: Path, store: Path, kept: Path | None = None, kinds: SourceFiles = SOURCE_RECORDS
    ) -> None:
        self.folder, self.store, self.kept = folder, store, kept or folder
        self.done, self.quarantine = self.kept / "done", self.kept / "quarantine"
        self.messages: list[str] = []
        self.during_load: Callable[[], object] = lambda: None
        self.spool = Spool(folder, kept, say=self.messages.append)
        self._loader = StoreLoader(load({"store": str(store)}, {}), folder, SignalSafeEvent(), as_json=True)
        self._load = self._loader.load
        self._loader.load = self._load_while  # type: ignore[method-assign]
        self._now_ms = 0
        self._watch = FolderWatch(self.spool, self._loader, self.messages.append, lambda: self._now_ms, kinds=kinds)
        self._loader.problem = self._watch.problem
        self.report()

    def _load_while(self, files: FileSet, *, is_beside: bool, is_accepted: bool = False) -> bool:
        has_ended = self._load(files, is_beside=is_beside, is_accepted=is_accepted)
        self.during_load()
        return has_ended

    def report(self) -> None:
        self._loader.heartbeat(spool=self.spool)

    def deliver(self, name: str, content: bytes = SHOP_LINES) -> Path:
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def take(self, **files: bytes) -> bool:
        """Deliver files, and run a round of the watcher: what was decided, then what was delivered.

        It is long enough after the previous round that files of other users count as complete.
        """
        for name, content in files.items():
            self.deliver(f"{name}.ndjson", content)
        self._now_ms += SETTLE_MS
        self._watch.carry_out()
        return self._watch.take_files()


class WatcherProcess:
    """A watcher that runs in a separate process."""

    def __init__(self, spool: Path, store: Path, *options: object, form: tuple[str, ...] = ("--json",)) -> None:
        self.spool = spool
        self.out, self._errors = spool.with_name("watch.out"), spool.with_name("watch.err")
        words = [*PYTHON, "load", "--watch", spool, "--store", store, *form, *options]
        with self.out.open("ab") as out, self._errors.open("ab") as errors:
            self._earlier = self.said().count("SIGTERM.\n")
            self.process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=errors)

    def wait_until_ready(self) -> None:
        until(lambda: self.said().count("SIGTERM.\n") > self._earlier, "the folder was watched")

    def deliver(self, name: str, content: bytes) -> None:
        """Write a file under a temporary name, then rename it, as documented."""
        unfinished = self.spool / f".{name}"
        unfinished.write_bytes(content)
        unfinished.rename(self.spool / name)

    def summaries(self) -> list[dict[str, Any]]:
        lines = self.out.read_text("utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def said(self) -> str:
        return self._errors.read_text("utf-8")

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)
