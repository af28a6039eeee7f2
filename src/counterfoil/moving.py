"""Copies a live store into an empty one until both contain the same data, and cuts over on request.

A pass compares every group of rows (the bills of a shop, the members of a base) and moves the rows that differ. The
first copy, catching up and resuming after a kill are therefore the same operation. Each pass reads the source from
one snapshot. The target stays closed until the cut-over, which retires the source: its horizon no longer advances, so
every stamp at the target is later than any horizon that a client has received from the source.
"""

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from enum import Enum
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, convert, msgpack

from counterfoil.domain.audit import AuditEntry
from counterfoil.domain.calendar import HOUR_MS

HOUR = "hour"

Row = tuple[Any, ...]


class MovedTable(Struct, frozen=True):
    """A table that both stores have, as moving.toml lists it. Its key columns come first.

    Rows with the same value in the column `group` form a group, and groups are compared one by one. If `group` is HOUR,
    the rows of one hour form a group; if it is empty, all rows do. In a table without a key, a group is replaced as a
    whole. If `sealed` is True, the last column is a body and other columns contain digests of it, so a pass compares
    the digests and not the body. Verification reads the body too.
    """

    file: Literal["books", "keys", "usage"]
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
        """Yield each complete row with its group."""
        if not self.group:
            yield from ((None, row) for row in rows)
        elif self.group == HOUR:
            index = self.columns.index("at")
            yield from ((row[index] // HOUR_MS, row) for row in rows)
        else:
            index = self.columns.index(self.group)
            yield from ((row[index], row) for row in rows)


def _tables() -> dict[str, list[MovedTable]]:
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {file: [convert(table | {"file": file}, MovedTable) for table in listed[file]] for file in listed}


_TABLES = _tables()
BOOKS, KEYS_AND_USAGE = _TABLES["books"], _TABLES["keys"] + _TABLES["usage"]
TABLES = BOOKS + KEYS_AND_USAGE
SHOPS, LOADS, REQUESTS = (
    next(table for table in TABLES if table.name == name) for name in ("shops", "loads", "requests")
)


# --- the source and the target ----------------------------------------------


class MoveRefused(Exception):
    """The copy cannot be made or finished; the message says why and what to do."""


class MoveSide(Protocol):
    """One side of a copy: a store whose rows can be read."""

    def groups(self, table: MovedTable, since: int) -> list[Any]:
        """Return the groups of a table. For request records, return only groups from the hour `since` onwards."""

    def compared(self, table: MovedTable, group: Any) -> Iterable[Row]:
        """Return the rows of a group. The body column is left out if the table also stores a digest of it."""

    def whole(self, table: MovedTable, since: int) -> Iterator[tuple[Any, Row]]:
        """Yield complete rows with their groups. For request records, yield only rows from the hour `since` onwards."""


class MoveSource(MoveSide, Protocol):
    """The store to copy from."""

    def fingerprint(self) -> str: ...

    def retired(self) -> bool: ...

    def moved_to(self) -> str:
        """Return the address of the store that replaces this one, or "" if there is none.

        This works even if retiring the store was interrupted.
        """

    def snapshot(self) -> AbstractContextManager[int]:
        """Return a context in which everything is read from one snapshot. It yields the horizon of the snapshot."""

    def held(self) -> AbstractContextManager[int]:
        """Return a context that blocks all other writers to the source. It yields the horizon of the source."""

    def retire(self, moved_to: str) -> None:
        """Retire the source permanently, so that it no longer stamps bills, admits requests or issues keys.

        This must be called within `held`.
        """

    def picked(self, table: MovedTable, group: Any, keys: Collection[Row] | None) -> Iterator[Row]:
        """Yield complete rows of a group: the rows with the given keys, or all rows if `keys` is None."""

    def size(self) -> int:
        """Return the approximate number of rows, for the progress bar."""

    def newest_stamp(self) -> int: ...


class MoveTarget(MoveSide, Protocol):
    """The store to copy into."""

    def claim(self, fingerprint: str) -> bool:
        """Claim the target for a copy of the store with this fingerprint.

        Return False if the target is already open as a copy of that store. Raise
        `MoveRefused` if the target contains any other data.
        """

    def move(self, table: MovedTable, group: Any, gone: Collection[Row], rows: list[Row]) -> None:
        """Delete the rows with the keys in `gone` and insert `rows`, in one transaction."""

    def clear(self, table: MovedTable, group: Any) -> None: ...

    def open(self, fingerprint: str, horizon: int, entry: AuditEntry) -> None:
        """Open the target to services and loaders, at this horizon or later, and add `entry` to its audit log."""


# --- moving -------------------------------------------------------------------

# The maximum number of rows that one transaction inserts at the target.
BATCH_ROWS = 2_000
# Passes are repeated until a pass moves at most this many rows. They also end if a pass moves more than half as many
# rows as the previous pass, because further passes would not catch up.
FEW_ROWS = 500


class TableDifference(Struct, frozen=True):
    """A group of rows, such as one shop's bills, that differs between source and target, and its size on both sides."""

    table: str
    group: str
    at_source: int
    at_target: int


class MoveReport(Struct, kw_only=True):
    """The progress and the result of a copy."""

    passes: int = 0
    moved: int = 0
    horizon: int = 0
    rows: dict[str, int] = {}
    differences: list[TableDifference] = []
    verified: bool = False
    opened: bool = False
    nothing_to_do: bool = False


class CutOver(Struct, frozen=True):
    """The address of the store that replaces the source, and the audit entry to write there."""

    address: str
    entry: AuditEntry


class MoveStage(Enum):
    COPYING = "Copying"
    CATCHING_UP = "Catching up"
    VERIFYING = "Verifying"


# Called with the stage, the number of rows that it has processed, and how many of them it has moved.
Progress = Callable[[MoveStage, int, int], None]


class StoreMove:
    """Copies one store into another."""

    def __init__(self, source: MoveSource, target: MoveTarget, on_progress: Progress) -> None:
        self._source = source
        self._target = target
        self._on_progress = on_progress
        self._stage = MoveStage.COPYING
        self._rows_seen = self._rows_moved = 0
        self.report = MoveReport()

    def run(self, cut_over: CutOver | None = None) -> MoveReport:
        """Copy, catch up and verify. If `cut_over` is given and the stores are equal, then cut over."""
        cut_over_to = cut_over.address if cut_over else ""
        report, fingerprint = self.report, self._source.fingerprint()
        if cut_over_to and self._source.moved_to() not in ("", cut_over_to):
            raise MoveRefused(
                f"this store was already moved to {self._source.moved_to()}, and a second target would diverge. "
                "If that cut-over was interrupted, finish it with the same address."
            )
        if not self._target.claim(fingerprint):
            if not self._source.retired():
                raise MoveRefused(
                    "the target already contains this store and is open, so it may be newer than the source. "
                    "Copy into an empty database."
                )
            report.nothing_to_do = report.opened = True
            return report
        previous = 0
        while True:
            with self._source.snapshot() as report.horizon:
                moved = self._pass(TABLES)
                is_close = moved <= FEW_ROWS or (previous and moved > previous // 2)
                if is_close:
                    self._verify(TABLES)
            if is_close:
                break
            previous = moved
        if report.verified and cut_over:
            self._cut_over(fingerprint, cut_over)
        return report

    def _cut_over(self, fingerprint: str, cut_over: CutOver) -> None:
        """Copy the data written by the operator and the service, then retire the source and open the target.

        The source is locked only briefly, because the books are already verified. If a load has written to the source
        since the verification, the cut-over is refused. If the data copied here cannot be verified, the source stays in
        use.
        """
        since = self.report.horizon // HOUR_MS - 1
        with self._source.held() as horizon:
            if self._loaded_since():
                raise MoveRefused(
                    "a load has written to the source since the copy was verified. "
                    "Stop all loads, then run the same command again."
                )
            self._pass(KEYS_AND_USAGE, since)
            self._verify(KEYS_AND_USAGE, since)
            if not self.report.verified:
                return
            self.report.horizon = horizon
            self._source.retire(cut_over.address)
        self._target.open(fingerprint, horizon, cut_over.entry)
        self.report.opened = True

    def _loaded_since(self) -> bool:
        if self._source.newest_stamp() > self.report.horizon:
            return True
        return any(any(self._differing(table, None)[:2]) for table in (SHOPS, LOADS))

    # --- a pass --------------------------------------------------------------------

    def _pass(self, tables: Iterable[MovedTable], since: int = 0) -> int:
        self._stage = MoveStage.CATCHING_UP if self.report.passes else MoveStage.COPYING
        self.report.passes += 1
        moved = self._rows_seen = self._rows_moved = 0
        for table in tables:
            groups = dict.fromkeys(self._source.groups(table, since)) | dict.fromkeys(self._target.groups(table, since))
            for group in groups:
                moved += self._sync_group(table, group) if table.key else self._replace_group(table, group)
                self._report_progress(0)
        self.report.moved += moved
        return moved

    def _sync_group(self, table: MovedTable, group: Any) -> int:
        """Make a group at the target equal to the same group at the source; return the number of rows that differed."""
        to_fetch, to_delete, empty = self._differing(table, group)
        if not to_fetch and not to_delete:
            return 0
        rows = self._source.picked(table, group, None if empty else to_fetch)
        for batch in _batches(rows):
            keys = [row[: len(table.key)] for row in batch]
            self._target.move(table, group, [key for key in keys if key in to_delete], batch)
            to_delete.difference_update(keys)
            self._report_progress(len(batch))
        if to_delete:
            self._target.move(table, group, to_delete, [])
        return len(to_fetch) + len(to_delete)

    def _differing(self, table: MovedTable, group: Any) -> tuple[set[Row], set[Row], bool]:
        """Return keys to fetch from the source, keys to delete at the target, and whether the group is empty there."""
        width = len(table.key)
        target_rows = {row[:width]: row[width:] for row in self._target.compared(table, group)}
        empty = not target_rows
        to_fetch: set[Row] = set()
        to_delete: set[Row] = set()
        for row in self._source.compared(table, group):
            key = row[:width]
            known = target_rows.pop(key, None)
            if known is None:
                to_fetch.add(key)
            elif known != row[width:]:
                to_fetch.add(key)
                to_delete.add(key)
            else:
                self._rows_seen += 1
        return to_fetch, to_delete | target_rows.keys(), empty

    def _replace_group(self, table: MovedTable, group: Any) -> int:
        """In a table without a key, replace a group of rows if it differs from the source.

        Return the number of its rows at the source or at the target, whichever is larger, or 0 if nothing differed.
        """
        source_sum, target_sum = _Checksum(), _Checksum()
        for row in self._source.compared(table, group):
            source_sum.add(row)
        for row in self._target.compared(table, group):
            target_sum.add(row)
        if source_sum == target_sum:
            self._rows_seen += source_sum.count
            return 0
        self._target.clear(table, group)
        for batch in _batches(self._source.picked(table, group, None)):
            self._target.move(table, group, [], batch)
            self._report_progress(len(batch))
        return max(source_sum.count, target_sum.count)

    def _report_progress(self, moved: int) -> None:
        self._rows_seen += moved
        self._rows_moved += moved
        self._on_progress(self._stage, self._rows_seen, self._rows_moved)

    # --- verification ----------------------------------------------------------------

    def _verify(self, tables: Iterable[MovedTable], since: int = 0) -> None:
        """Read every column of every row again on both sides, including bodies, and report the differences.

        Request records from before the hour `since` are left out.
        """
        found: list[TableDifference] = []
        self._stage, self._rows_seen, self._rows_moved = MoveStage.VERIFYING, 0, 0
        for table in tables:
            source_sums = self._checksums(table, self._source, since)
            target_sums = self._checksums(table, self._target, since)
            for group in source_sums.keys() | target_sums.keys():
                at_source, at_target = source_sums.get(group, _Checksum()), target_sums.get(group, _Checksum())
                if at_source != at_target:
                    found.append(TableDifference(table.name, str(group or ""), at_source.count, at_target.count))
            if not since:
                self.report.rows[table.name] = sum(checksum.count for checksum in source_sums.values())
        self.report.differences = sorted(found, key=lambda difference: (difference.table, difference.group))
        self.report.verified = not found

    def _checksums(self, table: MovedTable, side: MoveSide, since: int) -> dict[Any, "_Checksum"]:
        sums: dict[Any, _Checksum] = {}
        for number, (group, row) in enumerate(side.whole(table, since), 1):
            if group not in sums:
                sums[group] = _Checksum()
            sums[group].add(row)
            if number % BATCH_ROWS == 0:
                self._rows_seen += BATCH_ROWS
                self._report_progress(0)
        return sums


class _Checksum(Struct):
    """The number of rows and the sum of their digests. Both are independent of the order of the rows."""

    count: int = 0
    total: int = 0

    def add(self, row: Row) -> None:
        self.count += 1
        digest = blake2b(msgpack.encode(row), digest_size=16).digest()
        self.total = (self.total + int.from_bytes(digest, "little")) % (1 << 128)


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch
