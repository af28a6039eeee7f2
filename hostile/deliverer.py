"""Attacks a watched folder as another user, while a second deliverer sends good files.

Run `PYTHONPATH=tests python -m hostile.deliverer --seconds 600` as root: the store, the watcher, the attacker and the
good deliverer then have users of their own, as in the deployment files. The attacker even owns the folder and the
folder above it. Without root, all are one user, and the report says so.

With `--exports`, the watcher reads exports too and may use only 512 MiB of memory, the attacker also delivers workbooks
that would fill it, and every second good file is a workbook.
"""

import argparse
import gzip
import json
import os
import random
import secrets
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field

from importing import hostile_workbooks

# IDs without an account. Each process gets exactly these users and groups.
SERVICE, WATCHER, ATTACKER, DELIVERER = 61_001, 61_002, 61_003, 61_004
GOOD_EVERY_SEC, STOP_EVERY_SEC = 2.0, 60.0
# The attacker pauses while the folder has this many entries, so that the disk does not fill up.
MOST_ENTRIES = 12_000
BURST = 10_000
SHOP = b'{"kind":"shop","id":"sh_1","name":"Riverside"}\n'
SOURCE_NAMES = ("a.ndjson", "b.json", "c.ndjson.gz", "d.ndjson.zst", "e.jsonl")
MEANINGFUL = (
    "keys.sqlite3-journal",
    "books.sqlite3-wal",
    "keys.sqlite3",
    ".counterfoil.lock",
    "x.reason.txt",
    "secret",
)
MEMORY_BYTES = 512 << 20
STORE_FILES = {f"{name}.sqlite3{end}" for name in ("books", "keys", "usage") for end in ("", "-wal", "-shm")}


class Report(Struct):
    seconds: float
    users: str
    attacks: dict[str, int] = field(default_factory=dict)
    good_files: int = 0
    good_median_sec: float = 0
    good_slowest_sec: float = 0
    stops: int = 0
    slowest_stop_sec: float = 0
    moved: int = 0
    faults: list[str] = field(default_factory=list)


class Site(Struct, frozen=True):
    """Where everything is."""

    root: Path
    kept_outside: bool

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def incoming(self) -> Path:
        return self.root / "spool" / "incoming"

    @property
    def kept(self) -> Path:
        return self.root / "kept"

    @property
    def mapping(self) -> Path:
        return self.root / "mapping.toml"

    @property
    def canaries(self) -> Path:
        return self.root / "canaries"


# --- the attacker: runs in a process of its own -----------------------------------------


class Attacker:
    def __init__(self, site: Site, seed: int, *, with_exports: bool = False) -> None:
        self.site, self.folder = site, site.incoming
        self.random = random.Random(seed)  # noqa: S311 - attacks are repeatable, not secret
        self.counts: Counter[str] = Counter()
        self._targets = [site.store, site.store / "secret", site.store / "keys.sqlite3", site.canaries]
        self._targets += [
            site.canaries / "mine",
            site.kept,
            Path("/proc/self/environ"),
            Path("/dev/zero"),
            Path("nowhere"),
        ]
        self._bombs = bombs()
        self._workbooks: list[tuple[str, bytes]] = []
        if with_exports:
            self._workbooks = [*hostile_workbooks.small(), *hostile_workbooks.large(), *hostile_workbooks.damaged()]
            self._workbooks.append(("ordinary", hostile_workbooks.workbook_of({})))

    def attacks(self) -> list[Callable[[], None]]:
        return [
            *(
                self.link,
                self.pipe,
                self.socket,
                self.exchange,
                self.take_place,
                self.name,
                self.bomb,
                self.sparse,
                self.rejected,
            ),
            *(self.modes, self.growing, self.overwritten, self.folders, self.hard_link, self.withdraw),
            # With exports, half of the attacks are workbooks.
            *([self.workbook] * 15 if self._workbooks else []),
        ]

    def run(self, seconds: float) -> None:
        end, next_burst, next_move = time.monotonic() + seconds, time.monotonic() + 5, time.monotonic() + 3
        while time.monotonic() < end:
            now = time.monotonic()
            if now > next_burst:
                next_burst = now + max(60.0, seconds / 6)
                self._do(self.burst)
            if now > next_move:
                next_move = now + 7
                self._do(self.move_the_watched_folder)
            if len(self._names()) < MOST_ENTRIES:
                self._do(self.random.choice(self.attacks()))
            time.sleep(self.random.uniform(0, 0.05))

    def _do(self, attack: Callable[[], None]) -> None:
        # The watcher may take away what an attack uses, and some attacks are not allowed to this user.
        with suppress(OSError):
            attack()
        self.counts[attack.__name__] += 1

    def _name(self) -> str:
        return f"bad-{self.random.randrange(10_000)}-{self.random.choice(SOURCE_NAMES)}"

    def _names(self) -> list[str]:
        return [path.name for path in self.folder.iterdir()]

    def _path(self) -> Path:
        return self.folder / self._name()

    def link(self) -> None:
        self._path().symlink_to(self.random.choice(self._targets))

    def pipe(self) -> None:
        os.mkfifo(self._path())

    def socket(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / f"s-{self.random.randrange(1000)}.ndjson"))

    def exchange(self) -> None:
        """Exchange a file for a link, a pipe, a folder and another file, as fast as possible."""
        path = self._path()
        others = [path.with_name(f".{path.name}-{number}") for number in range(4)]
        others[0].symlink_to(self.random.choice(self._targets))
        os.mkfifo(others[1])
        others[2].write_bytes(b"exchanged")
        others[3].write_bytes(SHOP)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            other = self.random.choice(others)
            with suppress(OSError):
                other.rename(path)
                time.sleep(self.random.uniform(0, 0.002))
                path.rename(other)
        for other in (path, *others):
            other.unlink(missing_ok=True)

    def take_place(self) -> None:
        """Put something else in the place of the folders of the watcher."""
        name = self.random.choice(("done", "quarantine"))
        path, kind = self.folder / name, self.random.randrange(4)
        with suppress(OSError):
            path.rename(self.folder / f".taken-{self.random.randrange(10**9)}")
        if kind == 0:
            path.symlink_to(self.random.choice((self.site.store, self.site.canaries)))
        elif kind == 1:
            path.write_bytes(b"a file")
        elif kind == 2:
            path.mkdir()
            path.chmod(0o777)

    def name(self) -> None:
        choice = self.random.randrange(4)
        if choice == 0:
            name = self.random.choice(MEANINGFUL)
        elif choice == 1:
            name = "n" * self.random.randrange(230, 248) + ".ndjson"
        elif choice == 2:
            name = os.fsdecode(bytes(self.random.choice((10, 27, 37, 92, 128, 255)) for _ in range(60)) + b".ndjson")
        else:
            name = "ก" * self.random.randrange(60, 80) + self.random.choice((".ndjson", ".csv", "-journal"))
        (self.folder / name).write_bytes(self.random.choice((SHOP, b"{}", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")))

    def bomb(self) -> None:
        name, content = self.random.choice(self._bombs)
        (self.folder / f"bomb-{self.random.randrange(100)}-{name}").write_bytes(content)

    def workbook(self) -> None:
        _, content = self.random.choice(self._workbooks)
        draft = self.folder / f".workbook-{self.random.randrange(10**9)}"
        draft.write_bytes(content)
        draft.rename(self.folder / f"bad-{self.random.randrange(10_000)}.xlsx")

    def rejected(self) -> None:
        """Deliver hundreds of thousands of lines that are rejected."""
        self._path().write_bytes(b"{}\n" * self.random.randrange(500_000))

    def sparse(self) -> None:
        with self._path().open("wb") as file:
            file.truncate(1 << self.random.randrange(20, 41))

    def modes(self) -> None:
        path = self._path()
        path.write_bytes(SHOP)
        path.chmod(self.random.choice((0o000, 0o200, 0o111, 0o4777)))

    def growing(self) -> None:
        path = self._path()
        with path.open("wb", buffering=0) as file:
            for _ in range(20):
                file.write(SHOP[: self.random.randrange(1, len(SHOP))])
                time.sleep(0.02)
        os.utime(path, (0, self.random.randrange(2**31)))

    def overwritten(self) -> None:
        path = self.folder / f"bad-{self.random.randrange(100)}-over.ndjson.gz"
        path.write_bytes(gzip.compress(SHOP * self.random.randrange(1, 5_000)))
        time.sleep(self.random.uniform(1.9, 2.6))
        with path.open("r+b") as file:
            file.truncate(self.random.randrange(200))

    def folders(self) -> None:
        path = self.folder / f"folder-{self.random.randrange(50)}.ndjson"
        with suppress(FileExistsError):
            path.mkdir()
        (path / "inside.ndjson").write_bytes(SHOP)
        path.rename(self.folder / f"folder-{self.random.randrange(50)}.ndjson")

    def hard_link(self) -> None:
        found = [name for name in self._names() if name.startswith("bad-")]
        os.link(self.folder / self.random.choice(found or ["none"]), self._path(), follow_symlinks=False)
        os.link(self.site.store / "secret", self._path())

    def withdraw(self) -> None:
        for name in [name for name in self._names() if name.startswith("bad-")][:20]:
            (self.folder / name).unlink()

    def burst(self) -> None:
        """Deliver thousands of small files at once."""
        for number in range(BURST):
            path = self.folder / f".burst-{number}"
            path.write_bytes(SHOP if number % 3 else b"x")
            path.rename(self.folder / f"bad-burst-{number}.{'csv' if number % 2 else 'ndjson'}")

    def move_the_watched_folder(self) -> None:
        """Put a link to the store, a file or an empty folder in the place of the watched folder, for a moment."""
        away = self.folder.with_name(".away")
        self.folder.rename(away)
        try:
            kind = self.random.randrange(3)
            if kind == 0:
                self.folder.symlink_to(self.random.choice((self.site.store, self.site.canaries)))
            elif kind == 1:
                self.folder.write_bytes(b"a file")
            else:
                self.folder.mkdir()
            time.sleep(self.random.uniform(0.1, 1.2))
        finally:
            if self.folder.is_symlink() or self.folder.is_file():
                self.folder.unlink()
            elif self.folder.exists():
                self.folder.rename(self.folder.with_name(f".empty-{self.random.randrange(10**9)}"))
            away.rename(self.folder)


def bombs() -> list[tuple[str, bytes]]:
    from backports import zstd  # noqa: PLC0415 - only the attacker needs it

    texts = (b"\n" * 40_000_000, b"{}\n" * 13_000_000, b"x" * 40_000_000, b"[" * 40_000_000, SHOP * 800_000)
    archives = [("bomb.ndjson.gz", gzip.compress(text, 6)) for text in texts]
    return archives + [("bomb.ndjson.zst", zstd.compress(text)) for text in texts]


def good_workbook(number: int) -> bytes:
    rows = b"".join(
        b'<row><c t="inlineStr"><is><t>good_%d_%d</t></is></c><c s="1"><v>46340.75</v></c><c t="s"><v>0</v></c>'
        b"<c><v>1</v></c><c><v>%d</v></c></row>" % (number, line, 60 + number)
        for line in range(20)
    )
    return hostile_workbooks.workbook_of({hostile_workbooks.SHEET: hostile_workbooks.sheet(rows)})


# --- the campaign -----------------------------------------------------------------------


class Campaign:
    def __init__(self, site: Site, python: str, *, as_root: bool, with_exports: bool = False) -> None:
        self._with_exports = with_exports
        self.site = site
        self._python = python
        self._as_root = as_root
        self._watcher: subprocess.Popen[bytes] | None = None

    def start(
        self, user: int, groups: list[int], *words: str, limit: tuple[str, ...] = (), **more: int
    ) -> subprocess.Popen[bytes]:
        users = {"user": user, "group": user, "extra_groups": groups} if self._as_root else {}
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.Popen([*limit, self._python, *words], env=environment, cwd=self.site.root, **users, **more)  # type: ignore[call-overload, no-any-return]

    def prepare(self) -> None:
        site = self.site
        for path, owner, mode in (
            (site.store, SERVICE, 0o3770),
            (site.incoming.parent, ATTACKER, 0o755),
            (site.incoming, ATTACKER, 0o777),
            (site.kept, WATCHER, 0o700),
            (site.canaries, WATCHER, 0o700),
        ):
            path.mkdir()
            if self._as_root:
                os.chown(path, owner, owner)
            path.chmod(mode)
        for name in ("mine", "keys.sqlite3-journal", "a.ndjson"):
            (site.canaries / name).write_text("unchanged")
            if self._as_root:
                os.chown(site.canaries / name, WATCHER, WATCHER)
        assert self.start(SERVICE, [], "-m", "counterfoil", "init", "--share", "--store", str(site.store)).wait() == 0

    def start_watcher(self) -> None:
        kept = ["--kept", str(self.site.kept)] if self.site.kept_outside else []
        words = ["load", "--watch", str(self.site.incoming), "--json", "--store", str(self.site.store), *kept]
        if self._with_exports:
            words += ["--mapping", str(self.site.mapping)]
        # The processes that it starts to convert exports inherit this limit.
        limit = ("prlimit", f"--as={MEMORY_BYTES}") if self._with_exports else ()
        with (self.site.root / "watch.err").open("ab") as errors:
            streams = {"stdout": subprocess.DEVNULL, "stderr": errors.fileno()}
            self._watcher = self.start(WATCHER, [SERVICE], "-m", "counterfoil", *words, limit=limit, **streams)

    def stop_watcher(self, report: Report) -> None:
        assert self._watcher
        if self._watcher.poll() is not None:
            said = (self.site.root / "watch.err").read_text("utf-8", "replace").splitlines()[-3:]
            report.faults.append(f"the watcher ended by itself with status {self._watcher.returncode}: {said}")
            return
        began = time.monotonic()
        self._watcher.send_signal(signal.SIGTERM)
        try:
            status = self._watcher.wait(60)
        except subprocess.TimeoutExpired:
            self._watcher.kill()
            status = self._watcher.wait()
            report.faults.append("the watcher did not stop within a minute")
        if status:
            report.faults.append(f"the watcher was stopped with status {status}")
        report.stops += 1
        report.slowest_stop_sec = max(report.slowest_stop_sec, time.monotonic() - began)

    def deliver(self, number: int) -> None:
        """Deliver a good file as the good deliverer does: under another name, renamed when it is complete."""
        lines = [{"kind": "bill", "id": f"good_{number}_{line}", "shopId": "sh_good"} for line in range(20)]
        shop = {"kind": "shop", "id": "sh_good", "name": "Hillside"}
        content = "".join(json.dumps(line) + "\n" for line in [shop, *lines]).encode()
        name = f"good-{number}.ndjson"
        if self._with_exports and number % 2:
            name, content = f"good-{number}.xlsx", good_workbook(number)
        # The attacker may have put something else in the place of the folder. Wait until it is back.
        while True:
            with suppress(OSError):
                folder = os.open(self.site.incoming, os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    if os.fstat(folder).st_ino == self._inode:
                        draft = os.open(f".{name}", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder)
                        if self._as_root:
                            os.fchown(draft, DELIVERER, DELIVERER)
                        os.write(draft, content)
                        os.close(draft)
                        os.rename(f".{name}", name, src_dir_fd=folder, dst_dir_fd=folder)
                        return
                finally:
                    os.close(folder)
            time.sleep(0.05)

    def loaded(self) -> set[int]:
        """Return the numbers of the good files whose bills are all in the store."""
        query = "SELECT id FROM bills WHERE id LIKE 'good%'"
        found: Counter[int] = Counter()
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"file:{self.site.store}/books.sqlite3?mode=ro", uri=True)) as books,
        ):
            found.update(int(bill.split("_")[1]) for (bill,) in books.execute(query))
        return {number for number, bills in found.items() if bills == 20}

    def run(self, seconds: float, seed: int) -> Report:
        users = "four users" if self._as_root else "ONE user, because this does not run as root"
        report = Report(seconds=seconds, users=users)
        self.prepare()
        self._inode = self.site.incoming.stat().st_ino
        if self._with_exports:
            self.site.mapping.write_text(hostile_workbooks.MAPPING, "utf-8")
        before = self._outside()
        self.start_watcher()
        words = (
            "-m",
            "hostile.deliverer",
            "--attack",
            str(self.site.root),
            "--seed",
            str(seed),
            "--seconds",
            str(seconds),
        )
        options = [*([] if self.site.kept_outside else ["--inside"]), *(["--exports"] if self._with_exports else [])]
        attacker = self.start(ATTACKER, [], *words, *options)
        delivered: dict[int, float] = {}
        waits: dict[int, float] = {}
        end, next_good, next_stop = time.monotonic() + seconds, 0.0, time.monotonic() + STOP_EVERY_SEC
        while time.monotonic() < end or len(waits) < len(delivered):
            now = time.monotonic()
            if now > end + 180:
                break
            if next_good < now < end:
                delivered[len(delivered)] = now
                self.deliver(len(delivered) - 1)
                next_good = now + GOOD_EVERY_SEC
            for number in self.loaded() - waits.keys():
                waits[number] = time.monotonic() - delivered[number]
            if next_stop < now < end:
                self.stop_watcher(report)
                self.start_watcher()
                next_stop = now + STOP_EVERY_SEC
            time.sleep(0.1)
        attacker.wait()
        self.stop_watcher(report)
        report.attacks = json.loads((self.site.incoming.parent / "attacks.json").read_text())
        report.good_files = len(delivered)
        if waits:
            report.good_median_sec = round(statistics.median(waits.values()), 1)
            report.good_slowest_sec = round(max(waits.values()), 1)
        report.slowest_stop_sec = round(report.slowest_stop_sec, 1)
        report.faults += [f"good-{number} was not loaded" for number in sorted(delivered.keys() - waits.keys())]
        report.faults += self._changes(before)
        report.moved = sum(1 for _ in self.site.kept.rglob("*-*"))
        return report

    def _outside(self) -> dict[str, tuple[int, int, bytes]]:
        """Return the files that a deliverer must not change. Loads write only the books and the rejects."""
        files = [
            *self.site.canaries.iterdir(),
            *(self.site.store / name for name in ("keys.sqlite3", "usage.sqlite3", "secret")),
        ]
        return {str(path): (path.stat().st_ino, path.stat().st_uid, path.read_bytes()) for path in files}

    def _changes(self, before: dict[str, tuple[int, int, bytes]]) -> Iterator[str]:
        after = self._outside()
        yield from (
            f"{path} was changed" for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        )
        others = {path.name for path in self.site.store.iterdir()} - STORE_FILES - {"secret", "rejects"}
        yield from (f"{name} was put into the store" for name in others)
        ours = {"store", "spool", "kept", "canaries", "watch.err", "mapping.toml"}
        top = {path.name for path in self.site.root.iterdir()} - ours
        yield from (f"{name} was put beside the store" for name in top)
        with closing(sqlite3.connect(self.site.store / "books.sqlite3")) as books:
            if books.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                yield "books.sqlite3 is damaged"
        secret = (self.site.store / "secret").read_bytes().strip()
        for path in self.site.store.glob("rejects/*"):
            if secret in path.read_bytes():
                yield f"{path} contains the deployment secret"


def usable_python(user: int) -> str | None:
    """Return an interpreter that another user can run with our packages, or None."""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    for program in dict.fromkeys((sys.executable, "/usr/bin/python3.11", "/usr/bin/python3")):
        with suppress(OSError, subprocess.SubprocessError):
            words = [program, "-c", "import counterfoil.cli.load, backports.zstd"]
            subprocess.run(
                words, env=environment, user=user, group=user, extra_groups=[], check=True, capture_output=True
            )
            return program
    return None


@contextmanager
def temporary_site(*, kept_outside: bool) -> Iterator[Site]:
    root = Path(tempfile.mkdtemp(prefix="deliverer-"))
    root.chmod(0o755)
    try:
        yield Site(root, kept_outside)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def attack_folder(seconds: float, *, kept_outside: bool = True, seed: int = 0, with_exports: bool = False) -> Report:
    """Run the campaign in a temporary folder and return its report."""
    python = usable_python(ATTACKER) if os.geteuid() == 0 else None
    with temporary_site(kept_outside=kept_outside) as site:
        campaign = Campaign(site, python or sys.executable, as_root=python is not None, with_exports=with_exports)
        return campaign.run(seconds, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--inside", action="store_true", help="let the watcher keep its files in the watched folder")
    parser.add_argument("--exports", action="store_true", help="deliver workbooks, too, and limit the memory")
    parser.add_argument("--attack", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attack:
        attacker = Attacker(Site(given.attack, not given.inside), given.seed, with_exports=given.exports)
        attacker.run(given.seconds)
        (given.attack / "spool" / "attacks.json").write_text(json.dumps(attacker.counts))
        return
    report = attack_folder(given.seconds, kept_outside=not given.inside, seed=given.seed, with_exports=given.exports)
    print(
        json.dumps({"seed": given.seed, **{name: getattr(report, name) for name in report.__struct_fields__}}, indent=2)
    )
    sys.exit(bool(report.faults))


if __name__ == "__main__":
    main()
