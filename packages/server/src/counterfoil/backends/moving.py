"""Copies a live store into an empty one until both contain the same data, and cuts over on request.

A round compares every group of rows (the bills of a shop, the members of a base) and moves the rows that differ. The
first copy, catching up and resuming after a kill are therefore the same operation. Each round reads the source from
one snapshot. The target stays closed until the cut-over, which retires the source: its horizon no longer advances, so
every stamp at the target is later than any horizon that a client has received from the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, msgpack

from counterfoil.backends.moved_tables import GROUPS, KEYS_AND_USAGE, LOADS, SHOPS, TABLES, MovedTable, MoveRefused, Row
from counterfoil.domain.audit import AuditEntry
from counterfoil.model.calendar import HOUR_MS

if TYPE_CHECKING:
    from counterfoil.backends.postgres.move_target import PostgresMoveTarget
    from counterfoil.backends.sqlite.move_source import SqliteMoveSource

# The maximum number of rows that one transaction inserts at the target.
BATCH_ROWS = 2_000
# Rounds are repeated until a round moves at most this many rows. They also end if a round moves more than half as many
# rows as the previous one, because further rounds would not catch up.
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


# Called with the stage, the number of the source's rows that it has compared, and how many rows it has moved.
Progress = Callable[[MoveStage, int, int], None]


class _Comparison(Struct):
    """Keys to fetch from the source and to delete at the target (empty if the table has none), and row counts."""

    to_fetch: set[Row]
    to_delete: set[Row]
    at_source: int
    at_target: int

    @property
    def differs(self) -> bool:
        return bool(self.to_fetch or self.to_delete)


class StoreMove:
    """Copies one store into another."""

    def __init__(self, source: SqliteMoveSource, target: PostgresMoveTarget, on_progress: Progress) -> None:
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
                f"this store was already moved to {self._source.moved_to()}, and a second target would diverge. If "
                "that cut-over was interrupted, finish it with the same address."
            )
        if not self._target.claim(fingerprint):
            if not self._source.retired():
                raise MoveRefused(
                    "the target already contains this store and is open, so it may be newer than the source. Copy "
                    "into an empty database."
                )
            report.nothing_to_do = report.opened = True
            return report
        previous = 0
        while True:
            with self._source.snapshot() as report.horizon:
                moved = self._pass(TABLES)
                is_close = moved <= FEW_ROWS or (previous and moved > previous // 2)
                if is_close and moved:
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
            newest = self._source.newest_stamp()
            if newest > self.report.horizon or any(self._compared(table, None).differs for table in (SHOPS, LOADS)):
                raise MoveRefused(
                    "a load has written to the source since the copy was verified. Stop all loads, then run the same "
                    "command again."
                )
            if self._pass(KEYS_AND_USAGE, since):
                self._verify(KEYS_AND_USAGE, since)
            if not self.report.verified:
                return
            self.report.horizon = horizon
            self._source.retire(cut_over.address)
        self._target.open(fingerprint, horizon, cut_over.entry)
        self.report.opened = True

    # --- a round ---------------------------------------------------------------------

    def _pass(self, tables: Iterable[MovedTable], since: int = 0) -> int:
        """Move the rows that differ, and return their number. If there are none, the stores are verified."""
        self._stage = MoveStage.CATCHING_UP if self.report.passes else MoveStage.COPYING
        self.report.passes += 1
        moved = self._compare(tables, since, self._sync)
        self.report.moved += moved
        return moved

    def _verify(self, tables: Iterable[MovedTable], since: int = 0) -> None:
        self._stage = MoveStage.VERIFYING
        self._compare(tables, since, lambda *_: 0)

    def _compare(
        self, tables: Iterable[MovedTable], since: int, sync: Callable[[MovedTable, Any, _Comparison], int]
    ) -> int:
        """Compare all rows except request records before the hour `since`, report, and return how many moved."""
        moved = self._rows_seen = self._rows_moved = 0
        rows: Counter[str] = Counter()
        found: list[TableDifference] = []
        for table in tables:
            for group in self._groups(table, since):
                compared = self._compared(table, group)
                rows[table.name] += compared.at_source
                if compared.differs:
                    found.append(TableDifference(table.name, str(group or ""), compared.at_source, compared.at_target))
                    moved += sync(table, group, compared)
                self._report_progress()
        if not since:
            self.report.rows = dict(rows)
        self.report.differences = sorted(found, key=lambda difference: (difference.table, difference.group))
        self.report.verified = not found
        return moved

    def _groups(self, table: MovedTable, since: int) -> Iterable[Any]:
        if not table.group:
            return [None]
        listed = GROUPS[table.name]
        at_source = self._source.ask(table, listed, since=since)
        at_target = self._target.ask(table, listed, since=since)
        return dict.fromkeys(group for (group,) in (*at_source, *at_target))

    def _compared(self, table: MovedTable, group: Any) -> _Comparison:
        """Compare the digests of complete rows. A row may occur twice in a table without a key."""
        width = len(table.key)
        at_target = Counter((row[:width], _digest(row)) for row in self._target.rows(table, group))
        compared = _Comparison(set(), set(), 0, at_target.total())
        for row in self._source.rows(table, group):
            compared.at_source += 1
            found = row[:width], _digest(row)
            if at_target[found]:
                at_target[found] -= 1
            else:
                compared.to_fetch.add(found[0])
            self._rows_seen += 1
            if compared.at_source % BATCH_ROWS == 0:
                self._report_progress()
        compared.to_delete = {key for (key, _), count in at_target.items() if count}
        return compared

    def _sync(self, table: MovedTable, group: Any, compared: _Comparison) -> int:
        """Make a group at the target equal to the same group at the source; return the number of rows that differed."""
        width, rows = len(table.key), self._source.rows(table, group)
        if table.key:
            for keys in _batches(compared.to_delete):
                self._target.delete(table, keys)
        else:
            self._target.clear(table, group)
        for batch in _batches(row for row in rows if not width or row[:width] in compared.to_fetch):
            self._target.insert(table, group, batch)
            self._rows_moved += len(batch)
            self._report_progress()
        return len(compared.to_fetch | compared.to_delete) if table.key else max(compared.at_source, compared.at_target)

    def _report_progress(self) -> None:
        self._on_progress(self._stage, self._rows_seen, self._rows_moved)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH_ROWS)):
        yield batch


def _digest(row: Row) -> bytes:
    return blake2b(msgpack.encode(row), digest_size=16).digest()
