"""What a ledger writes about loads, beside their records: progress, rejected lines, open items, and watched folders.

The statements are written for SQLite, as in `operator_reads.py`.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec import json
from msgspec.structs import replace

from counterfoil.domain.intake import STALLED_MS, Intake, LoadProgress
from counterfoil.domain.open_items import CLOSED_ITEMS_KEPT_MS, COLUMNS, KEPT_NAME, OpenItem, item_of
from counterfoil.operator_reads import ITEM, UNFINISHED

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
# The negative sign marks the load as stopped: see `load_row`.
_STOP_LOAD = """
    UPDATE loads SET seen_at = -:now, changed = :changed WHERE number = :number AND finished_at IS NULL
"""
_REMEMBER_REJECT = """
    INSERT INTO rejected_lines (load, place, source, line, reason, fields)
    VALUES (:load, :place, :source, :line, :reason, :fields)
"""
_STALLED_LOADS = f"SELECT number, source, abs(seen_at) FROM loads WHERE seen_at < :before AND {UNFINISHED}"  # noqa: S608 - our own
_FINISHED_NOW = """
    SELECT open_items.identity, open_items.files, loads.source FROM open_items, loads
    WHERE open_items.kind = 'unfinished' AND open_items.closed_at IS NULL AND loads.number = :number
"""
_FORGET_LOADS = "DELETE FROM loads WHERE number <= :number - 100"
_FORGET_REJECTS = "DELETE FROM rejected_lines WHERE load <= :number - 100"
_FORGET_ITEMS = "DELETE FROM open_items WHERE closed_at < :before"

# PostgreSQL cannot infer the types of these, which may be null.
_CASTS = {"load": "bigint", "opened_at": "bigint", "closed_at": "bigint", "decision": "text", "closed_by": "text"}
_VALUES = {name: f"CAST(:{name} AS {_CASTS[name]})" if name in _CASTS else f":{name}" for name in COLUMNS}
_NEW_ITEM = ", ".join((_VALUES | {"number": "coalesce(max(number), 0) + 1"}).values())
# An item is opened once. One that the operator closed during the load is opened again if more lines are rejected.
_PUT_ITEM = f"""
    INSERT INTO open_items ({", ".join(COLUMNS)}) SELECT {_NEW_ITEM} FROM open_items WHERE true
    ON CONFLICT (identity) DO UPDATE SET
        files = excluded.files,
        closed_at = CASE WHEN open_items.files = excluded.files THEN open_items.closed_at END,
        closed_by = CASE WHEN open_items.files = excluded.files THEN open_items.closed_by END
"""  # noqa: S608 - names of our own columns
_CHANGE_ITEM = """
    UPDATE open_items SET kind = :kind, path = :path, reason = :reason, decision = :decision,
        closed_at = :closed_at, closed_by = :closed_by
    WHERE number = :number AND closed_at IS NULL RETURNING number
"""
_CLOSE_LOADED = """
    UPDATE open_items SET closed_at = :now, closed_by = 'loaded' WHERE identity = :identity AND closed_at IS NULL
"""

_INTAKE = "SELECT state FROM intake"
_PUT_INTAKE = """
    INSERT INTO intake (one, state) VALUES (1, :state) ON CONFLICT (one) DO UPDATE SET state = excluded.state
"""
_REPORT_WATCHED_FOLDER = """
    INSERT INTO watched_folders (name, seen_at, delivered_at, files, quarantined, stopped, problem)
    VALUES (:name, :now, :now, :files, :quarantined, :stopped, :problem)
    ON CONFLICT (name) DO UPDATE SET
        seen_at = excluded.seen_at,
        delivered_at = CASE
            WHEN excluded.files + excluded.quarantined > 0 THEN excluded.delivered_at ELSE watched_folders.delivered_at
        END,
        files = watched_folders.files + excluded.files,
        quarantined = watched_folders.quarantined + excluded.quarantined,
        stopped = excluded.stopped,
        problem = excluded.problem
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
            for load, unfinished, seen_at in self._run(_STALLED_LOADS, before=now - STALLED_MS).fetchall():
                identity, files = f"unfinished load {load}", {unfinished: 0}
                item = OpenItem(identity=identity, kind="unfinished", load=load, files=files, opened_at=seen_at)
                self._run(_PUT_ITEM, **item.values())
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
            self._run(_PUT_ITEM, **self._continued(item).values())
        for identity, files, source in self._run(_FINISHED_NOW, number=progress.number) if progress.finished else ():
            if source in json.decode(files):
                self._run(_CLOSE_LOADED, identity=identity, now=now)

    # --- open items ----------------------------------------------------------------

    def _of_kept_file(self, name: str) -> OpenItem | None:
        rows = self._run(ITEM, identity=name).fetchall() if KEPT_NAME.match(name) else []
        return item_of(rows[0]) if rows else None

    def _continued(self, item: OpenItem) -> OpenItem:
        """Return the item with the delivered names of files that we kept, and waiting for as long as they have been."""
        files, opened_at = Counter[str](), item.opened_at
        for name, count in item.files.items():
            earlier = self._of_kept_file(name)
            files[earlier.source if earlier else name] += count
            opened_at = min(opened_at, earlier.opened_at) if earlier else opened_at
        return replace(item, files=files, opened_at=opened_at)

    def add_items(self, items: Iterable[OpenItem]) -> None:
        """Open items about files, unless they are known. A load opens the items about the lines that it rejects."""
        with self._locked() as now:
            for item in items:
                self._run(_PUT_ITEM, **item.values() | {"opened_at": now})

    def change_items(self, items: Iterable[OpenItem]) -> list[OpenItem]:
        """Store what has changed about items, and whether they are closed. Return those that were still open."""
        with self._unlocked() as now:
            changed = [replace(item, closed_at=now if item.closed_by else None) for item in items]
            return [item for item in changed if self._run(_CHANGE_ITEM, **item.values()).fetchall()]

    def close_loaded(self, lines: Mapping[str, int]) -> None:
        if not any(map(KEPT_NAME.match, lines)):
            return
        with self._unlocked() as now:
            for name, count in lines.items():
                item = self._of_kept_file(name)
                # Lines that somebody took out of a rejects file were not loaded.
                if item and count >= (item.lines or 0):
                    self._run(_CLOSE_LOADED, identity=name, now=now)

    # --- intake and watched folders --------------------------------------------------

    def change_intake(self, change: Callable[[Intake, int], Intake]) -> Intake:
        with self._locked() as now:
            rows: Sequence[Any] = self._run(_INTAKE).fetchall()
            intake = change(json.decode(rows[0][0], type=Intake) if rows else Intake(), now)
            self._run(_PUT_INTAKE, state=json.encode(intake))
        return intake

    def report_watched_folder(
        self, name: str, files: int, quarantined: int, *, is_stopped: bool = False, problem: str = ""
    ) -> None:
        """Record whether a folder's watcher runs or why it cannot, and how many files it took since the last call."""
        counts = {"files": files, "quarantined": quarantined, "problem": problem}
        with self._locked() as now:
            self._run(_REPORT_WATCHED_FOLDER, name=name, now=now, stopped=is_stopped, **counts)
