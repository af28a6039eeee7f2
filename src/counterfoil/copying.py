"""Copies a live store into an empty one until both hold the same data, then cuts over.

A pass compares every group of rows (the bills of a shop, the members of a
base) and moves the rows that differ. The first copy, catching up and resuming
after a kill are therefore the same operation. Each pass reads the source as of
one moment. The target stays closed until the cut-over, which retires the
source: it gives out no more horizons, so every stamp at the target is later
than any horizon that a client has received from the source.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from enum import Enum
from hashlib import blake2b
from itertools import islice
from typing import Any, Protocol

from msgspec import Struct, msgpack

# The number of rows moved to the target in one transaction.
PORTION = 2_000
# Passes end after one that moved at most this many rows, or more than half as many as the pass before it: then
# another pass would not get closer.
FEW_ROWS = 500
HOUR, HOUR_MS = "hour", 3_600_000

Row = tuple[Any, ...]


class CopyRefused(Exception):
    """The copy cannot be made or finished; the message says why and what to do."""


class Table(Struct, frozen=True):
    """A table as both sides know it: column names, those of the key first.

    Rows are compared in groups by `group`. In a table without a key, a group
    is replaced as a whole. The last column of a sealed table, its body, is not
    compared, because the columns before it hold digests of it; verification
    reads it too.
    """

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    group: str = ""
    sealed: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key + self.rest

    @property
    def compared(self) -> tuple[str, ...]:
        return self.columns[:-1] if self.sealed else self.columns

    def grouped(self, rows: Iterable[Row]) -> Iterator[tuple[Any, Row]]:
        """Yield each whole row with its group."""
        if not self.group:
            yield from ((None, row) for row in rows)
        elif self.group == HOUR:
            place = self.columns.index("at")
            yield from ((row[place] // HOUR_MS, row) for row in rows)
        else:
            place = self.columns.index(self.group)
            yield from ((row[place], row) for row in rows)


SHOPS = Table(
    "shops",
    ("number",),
    ("id", "franchise_id", "provider_id", "removed", "rev", "facts_version", "applied_version", "facts", "body"),
)
LOADS = Table("loads", ("number",), ("source", "started_at", "seen_at", "finished_at", "lines", "changed", "rejected"))
BILLS = Table(
    "bills",
    ("shop", "id"),
    (
        "bill_day",
        "closed_at",
        "updated_at",
        "trading_day",
        "rev",
        "facts_version",
        "digest",
        "seal",
        "withheld",
        "body",
    ),
    group="shop",
    sealed=True,
)
REQUESTS = Table(
    "requests",
    (),
    ("at", "key_id", "route", "status", "error", "took_us", "personal_base", "personal_members"),
    group=HOUR,
)
# The tables that loads write.
BOOKS = (
    SHOPS,
    Table("bases", ("id",), ("rev", "body")),
    Table("members", ("provider_id", "token"), ("created_at", "rev", "record", "form"), group="provider_id"),
    Table("accounts", ("provider_id", "token", "place"), ("hash", "created_at", "channel"), group="provider_id"),
    Table("removals", ("shop", "kind", "id"), ("rev",)),
    BILLS,
    LOADS,
)
# The tables that the operator and the service write.
DESK = (
    Table("keys", ("key_id",), ("secret_digest", "body")),
    Table("daily_totals", ("key_id", "day"), ("count",)),
    Table("meters", ("key_id",), ("n", "at", "ahead", "day", "count")),
    Table("admissions", ("key_id", "n"), ("at",)),
    Table(
        "cursors",
        ("lineage", "resource", "query", "cursor"),
        ("row_id", "major", "minor", "earliest", "latest", "ends_at", "expired"),
    ),
    REQUESTS,
)
TABLES = BOOKS + DESK


class Side(Protocol):
    """A store whose rows can be read."""

    def groups(self, table: Table, since: int) -> list[Any]:
        """Return the groups of a table; of request records, only those from the hour `since` on."""

    def compared(self, table: Table, group: Any) -> Iterable[Row]:
        """Return the rows of a group, without the body of a sealed table."""

    def whole(self, table: Table, since: int) -> Iterator[tuple[Any, Row]]:
        """Yield every whole row with its group; of request records, only those from the hour `since` on."""


class Source(Side, Protocol):
    """The store to copy from."""

    def fingerprint(self) -> str: ...

    def retired(self) -> bool: ...

    def moved_to(self) -> str:
        """Return the address that replaces this store, even if retiring it did not finish; empty if there is none."""

    def snapshot(self) -> AbstractContextManager[int]:
        """Read everything in this context as of one moment; the context value is the horizon of that moment."""

    def held(self) -> AbstractContextManager[int]:
        """Block all other writers to the source in this context; the context value is its horizon."""

    def retire(self, moved_to: str) -> None:
        """Retire the held source permanently: it no longer stamps bills, admits requests or issues keys."""

    def picked(self, table: Table, group: Any, keys: Collection[Row] | None) -> Iterator[Row]:
        """Yield the whole rows of a group: those with these keys, or all if `keys` is None."""

    def size(self) -> int:
        """Return the approximate number of rows, for the progress bar."""

    def newest_stamp(self) -> int: ...


class Target(Side, Protocol):
    """The store to copy into."""

    def claim(self, fingerprint: str) -> bool:
        """Claim the target as the copy of this store; return False if it already is that copy and open.

        Raise `CopyRefused` if the target holds anything else.
        """

    def move(self, table: Table, group: Any, gone: Collection[Row], rows: list[Row]) -> None:
        """Delete the rows with the keys in `gone` and insert `rows`, in one transaction."""

    def clear(self, table: Table, group: Any) -> None: ...

    def open(self, fingerprint: str, horizon: int) -> None:
        """Open the target to services and loaders, at this horizon or a later one."""


class Difference(Struct, frozen=True):
    """A group that differs between the two sides, with its row counts."""

    table: str
    group: str
    at_source: int
    at_target: int


class Report(Struct, kw_only=True):
    """The progress and the result of a copy."""

    passes: int = 0
    moved: int = 0
    horizon: int = 0
    rows: dict[str, int] = {}
    differences: list[Difference] = []
    verified: bool = False
    opened: bool = False
    nothing_to_do: bool = False


class Stage(Enum):
    COPYING = "Copying"
    CATCHING_UP = "Catching up"
    VERIFYING = "Verifying"


# Called with the stage, the number of rows it has processed, and how many of them it had to move.
Progress = Callable[[Stage, int, int], None]


class Copy:
    """Copies one store into another."""

    def __init__(self, source: Source, target: Target, on_progress: Progress) -> None:
        self._source = source
        self._target = target
        self._on_progress = on_progress
        self._stage = Stage.COPYING
        self._seen = self._moved = 0
        self.report = Report()

    def run(self, cut_over_to: str = "") -> Report:
        """Copy, catch up and verify; if an address is given, also retire the source in favour of it."""
        report, fingerprint = self.report, self._source.fingerprint()
        if cut_over_to and self._source.moved_to() not in ("", cut_over_to):
            raise CopyRefused(
                f"this store was moved to {self._source.moved_to()} already, and two targets would go apart: "
                "if that cut-over broke off, finish it with that very address"
            )
        if not self._target.claim(fingerprint):
            if not self._source.retired():
                raise CopyRefused(
                    "the target holds this store already and is open, so it may be ahead of the source; "
                    "copy into an empty database"
                )
            report.nothing_to_do = report.opened = True
            return report
        before = 0
        while True:
            with self._source.snapshot() as report.horizon:
                moved = self._pass(TABLES)
                settled = moved <= FEW_ROWS or (before and moved > before // 2)
                if settled:
                    self._verify(TABLES)
            if settled:
                break
            before = moved
        if report.verified and cut_over_to:
            self._cut_over(fingerprint, cut_over_to)
        return report

    def _cut_over(self, fingerprint: str, address: str) -> None:
        """Copy what the operator and the service wrote, then retire the source and open the target.

        The source is held only briefly, because the books are verified already; if a load has written since, the
        cut-over is refused.
        """
        since = self.report.horizon // HOUR_MS - 1
        with self._source.held() as horizon:
            if self._loaded_since():
                raise CopyRefused(
                    "a load has written to the source since the copy was verified: "
                    "stop the loads, and run the same command again"
                )
            self._pass(DESK, since)
            self._verify(DESK, since)
            if not self.report.verified:
                return
            self.report.horizon = horizon
            self._source.retire(address)
        self._target.open(fingerprint, horizon)
        self.report.opened = True

    def _loaded_since(self) -> bool:
        if self._source.newest_stamp() > self.report.horizon:
            return True
        return any(any(self._differing(table, None)[:2]) for table in (SHOPS, LOADS))

    # --- a pass --------------------------------------------------------------------

    def _pass(self, tables: Iterable[Table], since: int = 0) -> int:
        self._stage = Stage.CATCHING_UP if self.report.passes else Stage.COPYING
        self.report.passes += 1
        moved = self._seen = self._moved = 0
        for table in tables:
            groups = dict.fromkeys(self._source.groups(table, since)) | dict.fromkeys(self._target.groups(table, since))
            for group in groups:
                moved += self._settle(table, group) if table.key else self._replace(table, group)
                self._tell(0)
        self.report.moved += moved
        return moved

    def _settle(self, table: Table, group: Any) -> int:
        """Make a group at the target equal to the source's; return the number of rows that differed."""
        wanted, gone, empty = self._differing(table, group)
        if not wanted and not gone:
            return 0
        rows = self._source.picked(table, group, None if empty else wanted)
        for portion in _portions(rows):
            keys = [row[: len(table.key)] for row in portion]
            self._target.move(table, group, [key for key in keys if key in gone], portion)
            gone.difference_update(keys)
            self._tell(len(portion))
        if gone:
            self._target.move(table, group, gone, [])
        return len(wanted) + len(gone)

    def _differing(self, table: Table, group: Any) -> tuple[set[Row], set[Row], bool]:
        """Return the keys to fetch from the source, the keys to delete at the target, and whether that had no rows."""
        width = len(table.key)
        there = {row[:width]: row[width:] for row in self._target.compared(table, group)}
        empty = not there
        wanted: set[Row] = set()
        gone: set[Row] = set()
        for row in self._source.compared(table, group):
            key = row[:width]
            known = there.pop(key, None)
            if known is None:
                wanted.add(key)
            elif known != row[width:]:
                wanted.add(key)
                gone.add(key)
            else:
                self._seen += 1
        return wanted, gone | there.keys(), empty

    def _replace(self, table: Table, group: Any) -> int:
        """Replace a whole group of a table without a key if it differs; return the number of rows."""
        here = _Sum()
        for row in self._source.compared(table, group):
            here.add(row)
        there = _Sum()
        for row in self._target.compared(table, group):
            there.add(row)
        if here == there:
            self._seen += here.count
            return 0
        self._target.clear(table, group)
        for portion in _portions(self._source.picked(table, group, None)):
            self._target.move(table, group, [], portion)
            self._tell(len(portion))
        return max(here.count, there.count)

    def _tell(self, moved: int) -> None:
        self._seen += moved
        self._moved += moved
        self._on_progress(self._stage, self._seen, self._moved)

    # --- verification ----------------------------------------------------------------

    def _verify(self, tables: Iterable[Table], since: int = 0) -> None:
        """Read every column of every row again on both sides, bodies included, and report the differences."""
        found: list[Difference] = []
        self._stage, self._seen, self._moved = Stage.VERIFYING, 0, 0
        for table in tables:
            here, there = self._sums(table, self._source, since), self._sums(table, self._target, since)
            for group in here.keys() | there.keys():
                ours, theirs = here.get(group, _Sum()), there.get(group, _Sum())
                if ours != theirs:
                    found.append(Difference(table.name, str(group or ""), ours.count, theirs.count))
            if not since:
                self.report.rows[table.name] = sum(one.count for one in here.values())
        self.report.differences = sorted(found, key=lambda one: (one.table, one.group))
        self.report.verified = not found

    def _sums(self, table: Table, side: Side, since: int) -> dict[Any, "_Sum"]:
        sums: dict[Any, _Sum] = {}
        for number, (group, row) in enumerate(side.whole(table, since), 1):
            if group not in sums:
                sums[group] = _Sum()
            sums[group].add(row)
            if number % PORTION == 0:
                self._seen += PORTION
                self._tell(0)
        return sums


class _Sum(Struct):
    """The number of rows and the sum of their digests, whatever the order of the rows."""

    count: int = 0
    total: int = 0

    def add(self, row: Row) -> None:
        self.count += 1
        digest = blake2b(msgpack.encode(row), digest_size=16).digest()
        self.total = (self.total + int.from_bytes(digest, "little")) % (1 << 128)


def _portions(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while portion := list(islice(rows, PORTION)):
        yield portion
