"""The progress of a load, with the position of each rejected line and the reason, but not the line's content."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, json

# The store keeps at most this many rejected lines per load. The rejects file contains all lines that the load rejected.
MAX_REMEMBERED = 1_000


class RejectedLine(Struct, frozen=True):
    """The position of a rejected line, and why it was rejected. `fields` are the names of the fields that are wrong."""

    source: str
    line: int
    reason: str
    fields: Sequence[str] = ()


class RejectedRows(Struct, frozen=True):
    """Rows of an export that an import could not convert into lines: the count by reason, and the first rows."""

    reasons: Mapping[str, int] = {}
    first: Sequence[RejectedLine] = ()


class LoadProgress(Struct):
    """The progress of a load, stored with every batch.

    `reasons` maps each reason to the number of lines rejected for it. `new_rejects` are
    rejected lines that are not stored yet, and `stored_rejects` is the number of
    rejected lines that are already stored.
    """

    number: int
    lines: int = 0
    changed: int = 0
    rejected: int = 0
    finished: bool = False
    reasons: dict[str, int] = field(default_factory=dict)
    rejects_file: str | None = None
    new_rejects: list[RejectedLine] = field(default_factory=list)
    stored_rejects: int = 0

    def add_reject(self, line: RejectedLine) -> None:
        if self.stored_rejects + len(self.new_rejects) < MAX_REMEMBERED:
            self.new_rejects.append(line)

    def mark_stored(self) -> None:
        """Count the new rejected lines as stored, and forget them."""
        self.stored_rejects += len(self.new_rejects)
        self.new_rejects.clear()

    def values(self, now: int) -> tuple[Any, ...]:
        """Return the parameters of the statement with which a ledger updates the load's row."""
        finished_at = now if self.finished else None
        reasons = json.encode(self.reasons).decode()
        counts = (self.lines, self.changed, self.rejected)
        return now, *counts, finished_at, reasons, self.rejects_file, self.number

    def reject_values(self) -> Iterator[tuple[Any, ...]]:
        """Yield a database row for each rejected line that is not stored yet."""
        for place, line in enumerate(self.new_rejects, self.stored_rejects):
            yield self.number, place, line.source, line.line, line.reason, json.encode(line.fields).decode()


class LatestLoad(Struct, frozen=True):
    """The progress of the latest load. `idle_ms` is the time since it last wrote to the store.

    `is_stopped` says that the load has recorded that it ended with an error. A load that was killed records nothing.
    """

    lines: int
    changed: int
    rejected: int
    finished: bool
    idle_ms: int
    is_stopped: bool = False


def latest_load(row: tuple[Any, ...], now_ms: int) -> LatestLoad:
    """Return the load of a database row with its counts, `finished_at` and `seen_at`."""
    lines, changed, rejected, finished_at, stored = row
    seen_at, is_stopped = decode_seen_at(stored)
    return LatestLoad(lines, changed, rejected, finished_at is not None, max(0, now_ms - seen_at), is_stopped)


def decode_seen_at(stored: int) -> tuple[int, bool]:
    """Return when a load last wrote to the store, and whether it has recorded that it ended with an error.

    The column `seen_at` of such a load is negative.
    """
    return abs(stored), stored < 0
