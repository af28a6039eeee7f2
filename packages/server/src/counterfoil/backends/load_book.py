"""The part of a ledger that all back ends share: the order of the steps, and what it writes in few rows.

These are the rows of the change feed, day totals, and what is known about loads: progress, rejected lines, open items,
and watched folders. Each back end writes shops, bills and members itself, because there are many of them. The
statements are in load_book.sql.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from msgspec import json
from msgspec.structs import asdict, replace

from counterfoil.domain.batch import (
    Batch,
    NeededRows,
    known_facts,
    needed_rows,
    rewritten,
    rewritten_days,
    unlinked,
    voided,
)
from counterfoil.domain.change_feed import REMOVALS_KEPT_MS
from counterfoil.domain.changes import BillRow, Change, KnownFacts, Outcome, OutdatedBill, Removal, Row, ShopRow
from counterfoil.domain.day_totals import day_total
from counterfoil.domain.deliveries import DeliveryPreview
from counterfoil.domain.forgetting import ForgottenMember, mark_of, member_on
from counterfoil.domain.intake import STALLED_MS, Intake, LoadProgress
from counterfoil.domain.open_items import CLOSED_ITEMS_KEPT_MS, COLUMNS, KEPT_NAME, OpenItem, item_of
from counterfoil.domain.replacements import ReplacementGuard
from counterfoil.domain.undo import verdict
from counterfoil.model.text import statements
from counterfoil.operator_reads import BILL_IDS, FACTS, ITEM, UNFINISHED, bill_values

# PostgreSQL cannot infer the types of these, which may be null.
_CASTS = {"load": "bigint", "opened_at": "bigint", "closed_at": "bigint", "decision": "text", "closed_by": "text"}
_VALUES = {name: f"CAST(:{name} AS {_CASTS[name]})" if name in _CASTS else f":{name}" for name in COLUMNS}
_NEW_ITEM = ", ".join((_VALUES | {"number": "coalesce(max(number), 0) + 1"}).values())
_SQL = statements(
    Path(__file__).with_suffix(".sql").read_text("utf-8"),
    columns=", ".join(COLUMNS),
    new_item=_NEW_ITEM,
    unfinished=UNFINISHED,
    bill_ids=BILL_IDS,
)
REFUSE_MARKS = _SQL["refuse_marks"]


class LoadBook(ABC):
    """A ledger, without the statements that read and write many rows."""

    def __init__(self) -> None:
        # The last bill that was rewritten under a version of a shop's facts.
        self._rewritten: dict[tuple[int, int], str] = {}
        # The marks of the forgotten members. Marks are only added, so their number shows whether there are others.
        self.forgotten: frozenset[str] = frozenset()

    @abstractmethod
    def _run(self, statement: str, **values: object) -> Any:
        """Run a statement with named parameters in the current transaction, and return the cursor."""

    @abstractmethod
    def _briefly(self) -> AbstractContextManager[object]:
        """Translate the driver's errors, and limit how long a server may take, if there is one."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[object]:
        """Open a transaction that can take the write lock."""

    @abstractmethod
    def _begin(self) -> int:
        """Take the write lock and return the current time."""

    @abstractmethod
    def _take_stamp(self) -> tuple[int, int]:
        """Take the write lock, and move the horizon to the time, or at least 1 ms on. Return it and the time."""

    @abstractmethod
    def _open(self, needed: NeededRows) -> tuple[Batch, int]:
        """Take a stamp, and read the rows that the batch affects. Return the batch and the current time."""

    @abstractmethod
    def _bodies(self, keys: Sequence[tuple[int, str]]) -> Iterable[Row]:
        """Return the bodies of stored bills, with their keys."""

    @abstractmethod
    def _put_shops(self, rows: Sequence[ShopRow]) -> None: ...

    @abstractmethod
    def _write_records(self, batch: Batch) -> None:
        """Write the bills and members of a batch."""

    @abstractmethod
    def _write_rewritten(self, bills: Sequence[BillRow]) -> None:
        """Write stored bills under new facts of their shop. Some of them have no new body."""

    @abstractmethod
    def _remove_bills(self, keys: Sequence[tuple[int, str]]) -> None: ...

    @abstractmethod
    def _unlocked(self) -> AbstractContextManager[int]:
        """Open a transaction that does not wait long for other writers, and return the current time."""

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open a transaction, take the write lock and return the current time."""
        with self._writing():
            yield self._begin()

    def _rev(self, rev: float | None) -> object:
        """Return a revision as it is stored."""
        return rev

    def _loaded(self, row: Row) -> Row:
        """Return a stored row with the revision that was loaded."""
        return row

    # --- shops, bills and members ----------------------------------------------------

    def facts(self, shop_id: str) -> KnownFacts | None:
        with self._briefly():
            row = self._run(FACTS, id=shop_id).fetchone()
        return known_facts(*row) if row else None

    def apply(
        self, changes: Sequence[Change], progress: LoadProgress | None = None, guard: ReplacementGuard | None = None
    ) -> list[Outcome]:
        needed = needed_rows(changes)
        with self._writing():
            batch, now = self._open(needed)
            if guard:
                batch.compare_with(guard, self._bodies(batch.bills_to_compare(changes)))
            batch.load = progress.number if progress else 0
            batch.forgotten = self._read_marks()
            outcomes = batch.apply(changes)
            if guard and not guard.may_write(len(needed.bills)):
                return outcomes
            self._write(batch)
            if progress:
                self._save(progress, now)
        return outcomes

    def _write(self, batch: Batch) -> None:
        self._write_small_tables(batch)
        self._write_records(batch)

    def _write_small_tables(self, batch: Batch) -> None:
        stamp = batch.stamp
        self._put_shops(batch.written_shops())
        for (shop_id, kind, removed_id), rev in batch.remembered.items():
            self._run(_SQL["remember_removal"], shop=shop_id, kind=kind, id=removed_id, rev=self._rev(rev))
        for base in batch.written_bases():
            self._run(_SQL["put_base"], id=base.provider_id, rev=self._rev(base.rev), body=base.body)
        for row in batch.relisted_shops():
            self._run(_SQL["relist"], shop=row.number, franchise_id=row.franchise_id, stamp=stamp)
        for franchise_id, shop in batch.departures():
            self._run(_SQL["depart"], franchise_id=franchise_id, shop=shop, stamp=stamp)
        for shop, bill_id in batch.removed_bills():
            self._run(_SQL["remove"], shop=shop, id=bill_id, stamp=stamp, load=batch.load)
        self._note_changes(batch.touched_shops(), batch.stale_days(), stamp)

    def _note_changes(self, shops: Sequence[int], days: Sequence[tuple[int, int]], stamp: int) -> None:
        """Record for the feed and the digests that bills of these shops and days were written with this stamp."""
        # Every batch does this, so each takes one statement, which contains the numbers.
        if shops:
            self._run(_SQL["touch"].format(shops=", ".join(map(str, shops))), stamp=stamp)
        if days:
            self._run(_SQL["mark_stale"].format(days=", ".join(f"({shop}, {day})" for shop, day in days)))

    def rewrite_bills(self, most: int) -> bool:
        with self._writing():
            self._begin()
            found = self._run(_SQL["to_rewrite"]).fetchone()
            if not found:
                return False
            shop, version, facts = found
            stamp, _ = self._take_stamp()
            known = known_facts(version, facts)
            # Continue after the last rewritten bill. After a restart, all bills of the shop are checked again.
            after = self._rewritten.get((shop, version), "")
            asked = {"shop": shop, "after": after, "version": version, "most": most}
            rows = [self._loaded(row) for row in self._run(_SQL["outdated_bills"], **asked)]
            outdated = [OutdatedBill(*row[1:]) for row in rows]
            bills = [rewritten(bill, shop, known, stamp) for bill in outdated]
            self._note_changes([shop], rewritten_days(outdated, bills), stamp)
            self._write_rewritten(bills)
            if len(rows) < most:
                self._run(_SQL["rewritten"], version=version, shop=shop)
        # Record the progress only after the commit, because a failed transaction has rewritten nothing.
        if len(rows) == most:
            self._rewritten[shop, version] = rows[-1][0]
        return True

    # --- the undo of a load ------------------------------------------------------------

    def undo_bills(self, load: int, shop: int, bill_ids: Sequence[str], void_reason: str | None) -> int:
        """Take back those of the bills that the load added, and nothing has changed since; return their number.

        Without a reason they are removed, otherwise they become void. Those that the load changed stay as they are, but
        the next record replaces them. At most `BILLS_PER_READ` bills at once.
        """
        with self._writing():
            self._begin()
            undone = {number for (number,) in self._run(_SQL["undone_loads"]).fetchall()}
            asked = {"shop": shop, "load": load, **bill_values(bill_ids)}
            rows = [self._loaded(row) for row in self._run(_SQL["bills_to_undo"], **asked)]
            verdicts = [verdict(before, confirmed_by, undone) for *_, before, confirmed_by in rows]
            changed = [row[0] for row, found in zip(rows, verdicts, strict=True) if found == "changed"]
            if changed:
                self._run(_SQL["release_bills"], shop=shop, load=load, undone=-load, **bill_values(changed))
            found = [row[:-2] for row, found in zip(rows, verdicts, strict=True) if found == "added"]
            if not found:
                return 0
            stamp, _ = self._take_stamp()
            outdated = [OutdatedBill(*row[1:]) for row in found]
            if void_reason is None:
                for bill_id, *_ in found:
                    self._run(_SQL["remove"], shop=shop, id=bill_id, stamp=stamp, load=-load)
                self._note_changes([shop], sorted({(shop, bill.bill_day) for bill in outdated}), stamp)
                self._remove_bills([(shop, bill_id) for bill_id, *_ in found])
            else:
                known = known_facts(*self._run(_SQL["facts_of_number"], shop=shop).fetchone())
                bills = [voided(bill, shop, known, stamp, void_reason, load) for bill in outdated]
                self._note_changes([shop], rewritten_days(outdated, bills), stamp)
                self._write_rewritten(bills)
        return len(found)

    def finish_undo(self, load: int) -> None:
        """Record that everything of the load was taken back."""
        with self._locked() as now:
            self._run(_SQL["allow_removed"], number=load)
            self._run(_SQL["finish_undo"], number=load, now=now)

    # --- forgetting a member -----------------------------------------------------------

    def _read_marks(self) -> frozenset[str]:
        """Return the marks of the forgotten members. The write lock is held, so none is added meanwhile."""
        ((count,),) = self._run(_SQL["count_marks"]).fetchall()
        if count != len(self.forgotten):
            self.forgotten = frozenset(mark for (mark,) in self._run(_SQL["marks"]).fetchall())
        return self.forgotten

    def mark_forgotten(self, marks: Iterable[ForgottenMember]) -> None:
        """Let no later record bring these members back. Their data counts as unfinished until `finish_forgetting`."""
        with self._locked():
            for member in marks:
                self._run(_SQL["mark_member"], mark=member.mark, at=member.at)

    def unlink_bills(self, shop: int, bill_ids: Sequence[str], marks: Collection[str]) -> int:
        """Take forgotten members off their bills; return the number of bills. At most `BILLS_PER_READ` at once."""
        with self._writing():
            self._begin()
            rows = self._run(_SQL["bills_to_unlink"], shop=shop, **bill_values(bill_ids)).fetchall()
            named = []
            for row in rows:
                bill = OutdatedBill(*self._loaded(row)[1:])
                token = member_on(bill.body)
                if token and mark_of(token) in marks:
                    named.append(bill)
            if not named:
                return 0
            stamp, _ = self._take_stamp()
            known = known_facts(*self._run(_SQL["facts_of_number"], shop=shop).fetchone())
            bills = [unlinked(bill, shop, known, stamp) for bill in named]
            self._note_changes([shop], rewritten_days(named, bills), stamp)
            self._write_rewritten(bills)
        return len(named)

    def erase_member(self, token: str) -> bool:
        """Delete the record, the accounts and the removal of a member; return whether there was a record."""
        (outcome,) = self.apply([Removal(("", "member", token), None)])
        with self._locked():
            self._run(_SQL["forget_removal"], token=token)
        return outcome is Outcome.REMOVED

    def erase_lines(self, item: OpenItem, known_files: Mapping[str, int]) -> None:
        """Store how many lines the file of an item still has and its digest, unless the item has changed."""
        values = item.values()
        chosen = {name: values[name] for name in ("number", "files", "digest")}
        with self._unlocked():
            self._run(_SQL["erase_lines"], **chosen, known_files=json.encode(known_files).decode())

    def finish_forgetting(self, marks: Iterable[str]) -> None:
        with self._locked() as now:
            for mark in marks:
                self._run(_SQL["finish_marks"], mark=mark, now=now)

    # --- chores of the supervisor ----------------------------------------------------

    def prune_removals(self) -> int:
        """Delete old removals, raise the oldest valid mark, as older ones would miss them, and return the count."""
        with self._unlocked():
            deleted: int = self._run(_SQL["prune_removals"], kept=REMOVALS_KEPT_MS).rowcount
            if deleted:
                self._run(REFUSE_MARKS, kept=REMOVALS_KEPT_MS)
        return deleted

    def compute_totals(self, most: int) -> int:
        """Compute the totals of up to `most` days whose bills have changed; return the number of days."""
        with self._briefly():
            # This runs often, and usually no day is stale. In that case no lock is taken, so that no load has to wait.
            if not self._run(_SQL["stale_days"], most=1).fetchone():
                return 0
        with self._briefly(), self._locked():
            stale = self._run(_SQL["stale_days"], most=most).fetchall()
            for shop, day in stale:
                total = day_total(self._run(_SQL["bills_of_day"], shop=shop, day=day))
                if total.bills:
                    self._run(_SQL["store_total"], shop=shop, day=day, **asdict(total))
                else:
                    self._run(_SQL["delete_total"], shop=shop, day=day)
        return len(stale)

    # --- the progress of a load ------------------------------------------------------

    def begin_load(self, source: str) -> LoadProgress:
        with self._locked() as now:
            self._read_marks()
            ((number,),) = self._run(_SQL["begin_load"], source=source.replace("\0", ""), now=now).fetchall()
            for load, unfinished, seen_at in self._run(_SQL["stalled_loads"], before=now - STALLED_MS).fetchall():
                identity, files = f"unfinished load {load}", {unfinished: 0}
                item = OpenItem(identity=identity, kind="unfinished", load=load, files=files, opened_at=seen_at)
                self._run(_SQL["put_item"], **item.values())
            self._run(_SQL["forget_loads"], number=number)
            self._run(_SQL["forget_rejects"], number=number)
            self._run(_SQL["forget_items"], before=now - CLOSED_ITEMS_KEPT_MS)
        return LoadProgress(number)

    def stop_load(self, number: int, changed: int) -> None:
        with self._unlocked() as now:
            self._run(_SQL["stop_load"], now=now, changed=changed, number=number)

    def _save(self, progress: LoadProgress, now: int) -> None:
        self._run(_SQL["save_load"], **progress.values(now))
        for values in progress.reject_values():
            self._run(_SQL["remember_reject"], **values)
        for item in progress.items(now):
            self._run(_SQL["put_item"], **self._continued(item).values())
        for identity, files, source in (
            self._run(_SQL["finished_now"], number=progress.number) if progress.finished else ()
        ):
            if source in json.decode(files):
                self._run(_SQL["close_loaded"], identity=identity, now=now)

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
                self._run(_SQL["put_item"], **item.values() | {"opened_at": now})

    def put_previews(self, previews: Mapping[str, DeliveryPreview]) -> None:
        """Store what held deliveries would change, by the identity of their items. Forget those of closed items."""
        if not previews:
            return
        with self._locked():
            self._run(_SQL["forget_previews"])
            for identity, preview in previews.items():
                self._run(_SQL["put_preview"], identity=identity, preview=json.encode(preview).decode())

    def change_items(self, items: Iterable[OpenItem]) -> list[OpenItem]:
        """Store what has changed about items, and whether they are closed. Return those that were still open."""
        with self._unlocked() as now:
            changed = [replace(item, closed_at=now if item.closed_by else None) for item in items]
            return [item for item in changed if self._run(_SQL["change_item"], **item.values()).fetchall()]

    def close_loaded(self, lines: Mapping[str, int]) -> None:
        if not any(map(KEPT_NAME.match, lines)):
            return
        with self._unlocked() as now:
            for name, count in lines.items():
                item = self._of_kept_file(name)
                # Lines that somebody took out of a rejects file were not loaded.
                if item and count >= (item.lines or 0):
                    self._run(_SQL["close_loaded"], identity=name, now=now)

    # --- intake and watched folders --------------------------------------------------

    def change_intake(self, change: Callable[[Intake, int], Intake]) -> Intake:
        with self._locked() as now:
            rows: Sequence[Any] = self._run(_SQL["intake"]).fetchall()
            intake = change(json.decode(rows[0][0], type=Intake) if rows else Intake(), now)
            self._run(_SQL["put_intake"], state=json.encode(intake))
        return intake

    def report_watched_folder(
        self, name: str, files: int, quarantined: int, *, is_stopped: bool = False, problem: str = ""
    ) -> None:
        """Record whether a folder's watcher runs or why it cannot, and how many files it took since the last call."""
        counts = {"files": files, "quarantined": quarantined, "problem": problem}
        with self._locked() as now:
            self._run(_SQL["report_watched_folder"], name=name, now=now, stopped=is_stopped, **counts)
