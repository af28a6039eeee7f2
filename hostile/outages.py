"""Outages under load: files that are locked, lost, damaged or replaced, a full disk, servers that die or freeze.

During an outage, every response must be as documented and none may be wrong: a
valid key is never refused as invalid, a revoked key never succeeds, and no list is
incomplete. After the outage, the service recovers by itself, unless a damaged file
must be restored from a backup.
"""

import json
import os
import resource
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from hostile.callers import Caller, ConcurrentCallers, pause, status_of
from hostile.checker import Checker, Document
from hostile.targets import Attacked, Postgres, Valkey, until
from hostile.world import World

SHOP = "sh-0-1"
LIST = f"transactions?shopId={SHOP}&from=20260101&to=20260131"
CHANGES = f"transactions?shopId={SHOP}&updatedSince=2000-01-01T00:00:00Z"
FILES = ("books", "keys", "usage")
# All callers are served again within this time after an outage.
RECOVERY_SEC = 20.0
# No caller waits longer than this, whatever is broken. See docs/evidence/faults.md.
LONGEST_SEC = 10.0
WORKER_KILLED = "worker killed"
SERVED = {200, 500, 503}
REVOKED = {401, 500, 503}


Outages = dict[str, Callable[[], AbstractContextManager[None]]]


class Report(Struct):
    outage: str
    calls: int
    by_status: dict[int, int]
    recovered_sec: float
    faults: list[str]


class OutageRun:
    """A running service that goes through several outages, with callers that check every response."""

    def __init__(self, site: Attacked, world: World) -> None:
        self.site = site
        self.key = site.issue("shop", SHOP)
        self.revoked = site.issue("shop", SHOP)
        # The list by change has the same number of bills, because each of the two lists leaves out one bill that the
        # other contains.
        self._bills = len(world.listed_bills(SHOP, by_day=True))
        if not site.nodes:
            site.start()
        self.checker = Checker(Document.served_by(site.ports[0]), trouble=True)
        until(lambda: status_of(site.ports[0], self.revoked, "shops") == 200, "the service accepted the key")
        self.copies = self._copies_before_the_revocation()
        site.revoke(self.revoked)
        pause(0.6)

    def _copies_before_the_revocation(self) -> Path:
        """Back up the files of an embedded store before a key is revoked; return the folder."""
        folder = self.site.folder / "older"
        folder.mkdir()
        store = self.site.office.store
        for name in FILES if store.exists() else ():
            _backup(store / f"{name}.sqlite3", folder / f"{name}.sqlite3")
        return folder

    def callers(self) -> list[Caller]:
        found = []
        for number in range(4):
            port = self.site.ports[number % len(self.site.ports)]
            served = Caller(
                port, self.key, (LIST, CHANGES, "shops", LIST)[number], checker=self.checker, patience_sec=LONGEST_SEC
            )
            served.judge = self._one_shop if number == 2 else self._all_bills
            found.append(served)
        refused = Caller(self.site.ports[0], self.revoked, "shops", checker=self.checker, patience_sec=LONGEST_SEC)
        return [*found, refused]

    def _all_bills(self, body: bytes) -> list[str]:
        rows = len(json.loads(body)["data"])
        return [] if rows == self._bills else [f"{rows} bills instead of {self._bills}"]

    @staticmethod
    def _one_shop(body: bytes) -> list[str]:
        rows = json.loads(body)["data"]
        return [] if [row["shopId"] for row in rows] == [SHOP] else [f"the shops are {rows}"]

    def run(self, name: str, outage: AbstractContextManager[object], seconds: float) -> Report:
        """Cause an outage while callers send requests before, during and after it; return the report."""
        until(self._all_workers_started, "all workers had opened the store")
        callers = self.callers()
        with ConcurrentCallers(callers, 0.01) as concurrent:
            pause(0.3)
            with outage:
                before = self.site.processes()
                pause(seconds)
                died = set(before.values()) - set(self.site.processes().values())
            recovered = seconds_until_recovery(self._is_served_by_all)
            pause(0.2)
        faults = [*concurrent.faults, *self._wrong_statuses(callers)]
        if died and name != WORKER_KILLED:
            faults.append(f"{len(died)} processes died")
        if recovered > RECOVERY_SEC:
            faults.append(f"the service did not recover within {RECOVERY_SEC:g} s")
        counts: dict[int, int] = {}
        for call in concurrent.calls:
            counts[call.status] = counts.get(call.status, 0) + 1
        return Report(name, len(concurrent.calls), counts, recovered, [f"{name}: {fault}" for fault in faults])

    def _all_workers_started(self) -> bool:
        """Return whether all workers have opened the embedded store, or there is no embedded store.

        An outage must not begin earlier, because a worker cannot open a damaged store.
        """
        workers = [pid for name, pid in self.site.processes().items() if name.startswith("worker")]
        return not self.site.office.store.exists() or all(map(_has_opened_usage, workers))

    def _is_served_by_all(self) -> bool:
        return all(status_of(port, self.key, LIST) == 200 for port in self.site.ports)

    @staticmethod
    def _wrong_statuses(callers: list[Caller]) -> list[str]:
        """Return wrong statuses and timeouts. A connection may break when a worker dies: that is not a fault."""
        *served, refused = callers
        found = {
            f"{call.status} {call.error} for a valid key"
            for one in served
            for call in one.calls
            if call.status not in SERVED | {0}
        }
        found |= {
            f"{call.status} {call.error} for a revoked key"
            for call in refused.calls
            if call.status not in REVOKED | {0}
        }
        found |= {"no answer in time" for one in callers for call in one.calls if call.error == "no answer in time"}
        return sorted(found)


def seconds_until_recovery(is_served: Callable[[], bool], now: Callable[[], float] = time.monotonic) -> float:
    """Return how many seconds it takes until `is_served` has been true five times in a row.

    Stop asking after RECOVERY_SEC; the result is then larger than RECOVERY_SEC.
    """
    began = now()
    in_a_row = 0
    while now() - began <= RECOVERY_SEC:
        in_a_row = in_a_row + 1 if is_served() else 0
        if in_a_row == 5:
            break
        pause(0.05)
    return now() - began


def _has_opened_usage(pid: int) -> bool:
    try:
        return any(file.readlink().name == "usage.sqlite3" for file in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        """The process has ended or closed the file in the meantime."""
        return False


def _backup(path: Path, to: Path) -> None:
    with closing(sqlite3.connect(path)) as current, closing(sqlite3.connect(to)) as copy:
        current.backup(copy)


# --- files of the embedded store ---------------------------------------------------------


@contextmanager
def _aside(site: Attacked, name: str) -> Iterator[Path]:
    """Move a database and its -wal and -shm files away, yield the path for a replacement, and move everything back."""
    store = site.office.store
    aside = site.folder / "aside"
    aside.mkdir()
    for file in store.glob(f"{name}.sqlite3*"):
        file.rename(aside / file.name)
    try:
        yield store / f"{name}.sqlite3"
    finally:
        for file in store.glob(f"{name}.sqlite3*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        for file in aside.iterdir():
            file.rename(store / file.name)
        aside.rmdir()


def _original(site: Attacked, name: str) -> bytes:
    return (site.folder / "aside" / f"{name}.sqlite3").read_bytes()


@contextmanager
def locked_for_writing(site: Attacked, name: str, _: Path) -> Iterator[None]:
    with closing(sqlite3.connect(site.office.store / f"{name}.sqlite3", timeout=30, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


@contextmanager
def missing(site: Attacked, name: str, _: Path) -> Iterator[None]:
    with _aside(site, name):
        yield


@contextmanager
def truncated(site: Attacked, name: str, _: Path) -> Iterator[None]:
    with _aside(site, name) as place:
        whole = _original(site, name)
        place.write_bytes(whole[: len(whole) // 2])
        yield


@contextmanager
def emptied(site: Attacked, name: str, _: Path) -> Iterator[None]:
    with _aside(site, name) as place:
        place.write_bytes(b"")
        yield


@contextmanager
def garbage(site: Attacked, name: str, _: Path) -> Iterator[None]:
    with _aside(site, name) as place:
        place.write_bytes(os.urandom(40_000))
        yield


@contextmanager
def older_copy(site: Attacked, name: str, copies: Path) -> Iterator[None]:
    with _aside(site, name) as place:
        shutil.copyfile(copies / f"{name}.sqlite3", place)
        yield


@contextmanager
def a_folder(site: Attacked, name: str, _: Path) -> Iterator[None]:
    """Put a folder where the file was, so that opening the file fails. Removing permissions would not stop root."""
    with _aside(site, name) as place:
        place.mkdir()
        yield


@contextmanager
def disk_full(site: Attacked) -> Iterator[None]:
    """Simulate a full disk: prevent all processes of the service from writing to files."""
    with ExitStack() as restored:
        for pid in site.processes().values():
            soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
            restored.callback(_restore_limit, pid, (soft, hard))
        yield


def _restore_limit(pid: int, limit: tuple[int, int]) -> None:
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)
    except ProcessLookupError:
        """The process has died, which `OutageRun.run` reports as a fault."""


@contextmanager
def worker_killed(site: Attacked) -> Iterator[None]:
    for node in site.nodes:
        os.kill(min(node.pids()), signal.SIGKILL)
    yield


FILE_OUTAGES: dict[str, Callable[[Attacked, str, Path], AbstractContextManager[None]]] = {
    "locked": locked_for_writing,
    "missing": missing,
    "truncated": truncated,
    "emptied": emptied,
    "garbage": garbage,
    "an older copy": older_copy,
    "a folder": a_folder,
}


def on_files(run: OutageRun) -> Outages:
    """Return every outage of an embedded store, keyed by name."""
    site, copies = run.site, run.copies
    found: Outages = {
        f"{name} {kind}": partial(outage, site, name, copies) for kind, outage in FILE_OUTAGES.items() for name in FILES
    }
    found |= {
        f"{name} {kind}": partial(damaged, site, name, damage) for kind, damage in DAMAGE.items() for name in FILES
    }
    return found | {"disk full": lambda: disk_full(site), WORKER_KILLED: lambda: worker_killed(site)}


# --- damage in place, which only a restored backup repairs ---------------------------------


def truncate_in_place(path: Path) -> None:
    os.truncate(path, 8192)


def overwrite_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"this is not a database " * (path.stat().st_size // 23))


@contextmanager
def damaged(site: Attacked, name: str, damage: Callable[[Path], None]) -> Iterator[None]:
    """Damage a file while the service is running.

    After the block, stop the service, restore a backup and start the service again,
    as described in docs/run.md.
    """
    path = site.office.store / f"{name}.sqlite3"
    backup = site.folder / "backup"
    _backup(path, backup)
    damage(path)
    yield
    site.stop()
    for file in site.office.store.glob(f"{name}.sqlite3*"):
        file.unlink()
    backup.rename(path)
    path.chmod(0o600)
    site.start()


DAMAGE: dict[str, Callable[[Path], None]] = {"truncated in place": truncate_in_place, "overwritten": overwrite_in_place}


# --- servers -------------------------------------------------------------------------------


@contextmanager
def killed(server: Postgres | Valkey) -> Iterator[None]:
    server.kill()
    try:
        yield
    finally:
        server.start()


@contextmanager
def frozen(server: Postgres | Valkey) -> Iterator[None]:
    stop = server.freeze_all if isinstance(server, Postgres) else server.signal
    stop(signal.SIGSTOP)
    try:
        yield
    finally:
        stop(signal.SIGCONT)


@contextmanager
def restarted(server: Postgres | Valkey) -> Iterator[None]:
    """Shut the server down cleanly and restart it immediately."""
    assert server.process is not None
    server.signal(signal.SIGINT if isinstance(server, Postgres) else signal.SIGTERM)
    server.process.wait(30)
    server.start()
    yield


def on_servers(postgres: Postgres, valkey: Valkey, site: Attacked) -> Outages:
    return {
        "postgres killed": lambda: killed(postgres),
        "postgres frozen": lambda: frozen(postgres),
        "postgres restarted": lambda: restarted(postgres),
        "valkey killed": lambda: killed(valkey),
        "valkey frozen": lambda: frozen(valkey),
        "valkey restarted": lambda: restarted(valkey),
        WORKER_KILLED: lambda: worker_killed(site),
    }
