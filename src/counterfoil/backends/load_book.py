"""What a ledger writes about loads, beside their records: progress, rejected lines, open items, and watched folders.

The statements are written for SQLite, as in `operator_reads.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec import json
from msgspec.structs import replace

from counterfoil.domain.intake import Intake, LoadProgress
from counterfoil.domain.open_items import (
    CLOSED_ITEMS_KEPT_MS,
    COLUMNS,
    Closing,
    Decision,
    LoadedFiles,
    OpenItem,
    after_load,
    closed,
    item_of,
)
from counterfoil.operator_reads import OPEN_ITEMS

_BEGIN_LOAD = """
    INSERT INTO loads (number, source, started_at, seen_at)
    SELECT coalesce(max(number), 0) + 1, :source, :now, :now FROM loads RETURNING number
"""
_SAVE_LOAD = """
    UPDATE loads SET seen_at = :now, lines = :lines, changed = :changed, rejected = :rejected,
        finished_at = :finished_at, reasons = :reasons, rejects_file = :rejects_file, totals = :totals, files = :files,
        alarms = :alarms
    WHERE number = :number
"""
# The negative sign marks the load as stopped: see `decode_seen_at`.
_STOP_LOAD = """
    UPDATE loads SET seen_at = -:now, changed = :changed WHERE number = :number AND finished_at IS NULL
"""
_REMEMBER_REJECT = """
    INSERT INTO rejected_lines (load, place, source, line, reason, fields)
    VALUES (:load, :place, :source, :line, :reason, :fields)
"""
_FORGET_LOADS = "DELETE FROM loads WHERE number <= :number - 100"
_FORGET_REJECTS = "DELETE FROM rejected_lines WHERE load <= :number - 100"
_FORGET_ITEMS = "DELETE FROM open_items WHERE closed_at < :before"

# An item that the operator closed during the load is opened again if more lines are rejected.
_PUT_ITEM = f"""
    INSERT INTO open_items ({", ".join(COLUMNS)})
    SELECT coalesce(max(number), 0) + 1, :kind, CAST(:load AS bigint), :files, :path, :place, :reason,
        CAST(:decision AS text), CAST(:opened_at AS bigint), CAST(:closed_at AS bigint), CAST(:closed_by AS text)
    FROM open_items WHERE true
    ON CONFLICT (load, path) DO UPDATE SET
        files = excluded.files,
        closed_at = CASE WHEN open_items.files = excluded.files THEN open_items.closed_at END,
        closed_by = CASE WHEN open_items.files = excluded.files THEN open_items.closed_by END
"""  # noqa: S608 - names of our own columns
_CHANGE_ITEM = """
    UPDATE open_items SET files = :files, decision = :decision, closed_at = :closed_at, closed_by = :closed_by
    WHERE number = :number AND closed_at IS NULL RETURNING number
"""
_ITEM_PATHS = "SELECT path FROM open_items WHERE place = :place"
_FILES_OF_LOADS = "SELECT started_at, files FROM loads WHERE number < :load"

_INTAKE = "SELECT state FROM intake"
_PUT_INTAKE = """
    INSERT INTO intake (one, state) VALUES (1, :state) ON CONFLICT (one) DO UPDATE SET state = excluded.state
"""
_REPORT_WATCHED_FOLDER = """
    INSERT INTO watched_folders (name, seen_at, delivered_at, files, quarantined, stopped)
    VALUES (:name, :now, :now, :files, :quarantined, :stopped)
    ON CONFLICT (name) DO UPDATE SET
        seen_at = excluded.seen_at,
        delivered_at = CASE
            WHEN excluded.files + excluded.quarantined > 0 THEN excluded.delivered_at ELSE watched_folders.delivered_at
        END,
        files = watched_folders.files + excluded.files,
        quarantined = watched_folders.quarantined + excluded.quarantined,
        stopped = excluded.stopped
"""


class LoadBook(ABC):
    """The part of a ledger that all back ends share."""

    @abstractmethod
    def _run(self, statement: str, **values: object) -> Any:
        """Run a statement with named parameters in the current transaction, and return the cursor."""

    @abstractmethod
    def _locked(self) -> AbstractContextManager[int]:
        """Open a transaction, take the write lock and return the current time."""

    @abstractmethod
    def _unlocked(self) -> AbstractContextManager[int]:
        """Open a transaction that does not wait long for other writers, and return the current time."""

    def begin_load(self, source: str) -> LoadProgress:
        with self._locked() as now:
            ((number,),) = self._run(_BEGIN_LOAD, source=source.replace("\0", ""), now=now).fetchall()
            self._run(_FORGET_LOADS, number=number)
            self._run(_FORGET_REJECTS, number=number)
            self._run(_FORGET_ITEMS, before=now - CLOSED_ITEMS_KEPT_MS)
        return LoadProgress(number)

    def stop_load(self, number: int, changed: int) -> None:
        with self._unlocked() as now:
            self._run(_STOP_LOAD, now=now, changed=changed, number=number)

    def _save(self, progress: LoadProgress, now: int) -> None:
        self._run(_SAVE_LOAD, **progress.values(now))
        for values in progress.reject_values():
            self._run(_REMEMBER_REJECT, **values)
        for item in progress.items(now):
            self._run(_PUT_ITEM, **item.values())

    # --- open items ----------------------------------------------------------------

    def open_items(self) -> list[OpenItem]:
        with self._unlocked():
            return self._open_items()

    def _open_items(self) -> list[OpenItem]:
        return [item_of(row) for row in self._run(OPEN_ITEMS).fetchall()]

    def item_paths(self, place: str) -> set[str]:
        with self._unlocked():
            return {path for (path,) in self._run(_ITEM_PATHS, place=place).fetchall()}

    def add_items(self, items: Iterable[OpenItem]) -> None:
        with self._locked() as now:
            for item in items:
                self._run(_PUT_ITEM, **item.values() | {"opened_at": now})

    def close_items(self, numbers: Iterable[int], by: Closing) -> list[OpenItem]:
        wanted = set(numbers)
        with self._unlocked() as now:
            return self._changed(closed(item, by, now) for item in self._open_items() if item.number in wanted)

    def decide_items(self, numbers: Iterable[int], decision: Decision) -> list[OpenItem]:
        wanted = set(numbers)
        with self._unlocked():
            held = [item for item in self._open_items() if item.number in wanted and item.kind == "held"]
            return self._changed(replace(item, decision=decision) for item in held)

    def close_loaded(self, load: int, files: LoadedFiles) -> list[OpenItem]:
        with self._unlocked() as now:
            if not (items := self._open_items()):
                return []
            rows = self._run(_FILES_OF_LOADS, load=load).fetchall()
            earlier = [(at, json.decode(stored, type=dict[str, int | None])) for at, stored in rows]
            return self._changed(after_load(items, load, files, earlier, now))

    def _changed(self, items: Iterable[OpenItem]) -> list[OpenItem]:
        """Store items that were open, and return those that no other process has closed meanwhile."""
        return [item for item in items if self._run(_CHANGE_ITEM, **item.values()).fetchall()]

    # --- intake and watched folders --------------------------------------------------

    def change_intake(self, change: Callable[[Intake, int], Intake]) -> Intake:
        with self._locked() as now:
            rows: Sequence[Any] = self._run(_INTAKE).fetchall()
            intake = change(json.decode(rows[0][0], type=Intake) if rows else Intake(), now)
            self._run(_PUT_INTAKE, state=json.encode(intake))
        return intake

    def report_watched_folder(self, name: str, files: int, quarantined: int, *, is_stopped: bool = False) -> None:
        counts = {"files": files, "quarantined": quarantined}
        with self._locked() as now:
            self._run(_REPORT_WATCHED_FOLDER, name=name, now=now, stopped=is_stopped, **counts)
