"""A live store copied into an empty one, until both hold the same, and then the cut-over.

A pass compares every group of rows (the bills of a shop, the members of a
base) and moves what differs, so that the first copy, the catching up and the
going on after a kill are one and the same thing. Each pass reads the source as
of one moment. The target stays closed until the cut-over, and the source is
retired by it: no horizon is given out there any more, so that no stamp at the
target lies at or before one that a client has been told.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from enum import Enum
from hashlib import blake2b
from itertools import islice
from typing import Any, Protocol

from msgspec import Struct, msgpack

# Rows in one transaction at the target.
PORTION = 2_000
# A pass that moved this many or fewer has caught up; so has one that moved no fewer than half of the one before.
FEW_ROWS = 500
HOUR, HOUR_MS = "hour", 3_600_000

Row = tuple[Any, ...]


class CopyRefused(Exception):
    """The copy cannot be made or finished; the message says why and what to do."""


class Table(Struct, frozen=True):
    """A table as both sides can tell it: columns by name, those of the key first.

    Rows are compared in groups by `group`. Without a key a group is replaced
    whole. The body of a sealed table need not be read to be compared, because
    the columns before it hold its digests; verifying reads it all the same.
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
        """Whole rows, each with its group."""
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
# What loads write.
BOOKS = (
    SHOPS,
    Table("bases", ("id",), ("rev", "body")),
    Table("members", ("provider_id", "token"), ("created_at", "rev", "record", "form"), group="provider_id"),
    Table("accounts", ("provider_id", "token", "place"), ("hash", "created_at", "channel"), group="provider_id"),
    Table("removals", ("shop", "kind", "id"), ("rev",)),
    BILLS,
    LOADS,
)
# What the operator and the service write.
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
        """The groups there are; of the request records those from the hour `since`."""

    def compared(self, table: Table, group: Any) -> Iterable[Row]:
        """The rows of a group, without what is sealed."""

    def whole(self, table: Table, since: int) -> Iterator[tuple[Any, Row]]:
        """Every row with its group."""


class Source(Side, Protocol):
    """The store that is left."""

    def fingerprint(self) -> str: ...

    def retired(self) -> bool: ...

    def moved_to(self) -> str:
        """The address in favour of which it was retired, wholly or half; empty if it was not."""

    def snapshot(self) -> AbstractContextManager[int]:
        """Within it, everything is read as of one moment; the horizon of that moment."""

    def held(self) -> AbstractContextManager[int]:
        """Within it, nobody else writes to the source; its horizon."""

    def retire(self, moved_to: str) -> None:
        """For good, while it is held: from here on nothing is stamped, admitted or issued there."""

    def picked(self, table: Table, group: Any, keys: Collection[Row] | None) -> Iterator[Row]:
        """Whole rows of a group: those with these keys, or all."""

    def size(self) -> int:
        """How many rows there are, roughly: for the progress bar."""

    def newest_stamp(self) -> int: ...


class Target(Side, Protocol):
    """The store that is made."""

    def claim(self, fingerprint: str) -> bool:
        """Make it the copy of this store; false if it is that already, and open. Whatever else it holds is refused."""

    def move(self, table: Table, group: Any, gone: Collection[Row], rows: list[Row]) -> None:
        """Take these keys away and put these rows in, as one transaction."""

    def clear(self, table: Table, group: Any) -> None: ...

    def open(self, fingerprint: str, horizon: int) -> None:
        """Let services and loaders in, at a horizon not below this one."""


class Difference(Struct, frozen=True):
    """Where the two sides differ after all."""

    table: str
    group: str
    at_source: int
    at_target: int


class Report(Struct, kw_only=True):
    """A copy as far as it came."""

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


# The stage, how many rows it has dealt with, and how many of them it had to move.
Progress = Callable[[Stage, int, int], None]


class Copy:
    """From one store into the other."""

    def __init__(self, source: Source, target: Target, on_progress: Progress) -> None:
        self._source = source
        self._target = target
        self._on_progress = on_progress
        self._stage = Stage.COPYING
        self._seen = self._moved = 0
        self.report = Report()

    def run(self, cut_over_to: str = "") -> Report:
        """Copy, catch up, verify; and if an address is given, retire the source in favour of it."""
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
        """Short, because the books are verified: if a load has written since, it is refused."""
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
        """Bring a group of the target up to the source's."""
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
        """The keys to fetch from the source, those to take away from the target before, and whether it had none."""
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
        """Rows without a key: the group as a whole, if it differs."""
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

    # --- the proof -------------------------------------------------------------------

    def _verify(self, tables: Iterable[Table], since: int = 0) -> None:
        """Every column of every row, bodies included, read again on both sides."""
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
    """Of rows in any order: how many, and their digests added up."""

    count: int = 0
    total: int = 0

    def add(self, row: Row) -> None:
        self.count += 1
        digest = blake2b(msgpack.encode(row), digest_size=16).digest()
        self.total = (self.total + int.from_bytes(digest, "little")) % (1 << 128)


def _portions(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while portion := list(islice(rows, PORTION)):
        yield portion
