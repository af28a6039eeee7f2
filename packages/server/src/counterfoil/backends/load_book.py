"""The part of a ledger that all back ends share: the order of the steps, and what it writes in few rows.

These are the rows of the change feed, day totals, and what is known about loads: progress, rejected lines, open items,
and watched folders. Each back end writes shops, bills and members itself, because there are many of them.

The statements are written like those of `operator_reads.py`.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
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
from counterfoil.domain.changes import BillRow, Change, KnownFacts, Outcome, OutdatedBill, Removal, Row
from counterfoil.domain.day_totals import day_total
from counterfoil.domain.deliveries import DeliveryPreview
from counterfoil.domain.forgetting import ForgottenMember, mark_of, member_on
from counterfoil.domain.intake import Intake
from counterfoil.domain.loads import STALLED_MS, LoadProgress
from counterfoil.domain.open_items import CLOSED_ITEMS_KEPT_MS, KEPT_NAME, OpenItem, item_of
from counterfoil.domain.replacements import ReplacementGuard
from counterfoil.domain.undo import verdict
from counterfoil.operator_reads import BILL_IDS, FACTS, ITEM, bill_values

# Marks older than `kept` milliseconds are refused from now on.
REFUSE_MARKS = """
    INSERT INTO feed (one, oldest) SELECT 1, at - :kept FROM horizon WHERE true
    ON CONFLICT (one) DO UPDATE SET oldest = excluded.oldest WHERE feed.oldest < excluded.oldest
"""


class LoadBook(ABC):
    """A ledger, without the statements that read and write many rows.

    A back end has transactions of three kinds, and five methods for the many rows.
    """

    def __init__(self) -> None:
        # The last bill that was rewritten under a version of a shop's facts.
        self._rewritten: dict[tuple[int, int], str] = {}
        # The marks of the forgotten members. Marks are only added, so their number shows whether there are others.
        self.forgotten: frozenset[str] = frozenset()

    # --- transactions ------------------------------------------------------------------

    @abstractmethod
    def _reading(self) -> AbstractContextManager[object]:
        """Limit how long the statements may take, without a transaction."""

    @abstractmethod
    def _unlocked(self) -> AbstractContextManager[int]:
        """Open a transaction that does not wait long for other writers, and yield the current time."""

    @abstractmethod
    def _locked(self) -> AbstractContextManager[int]:
        """Open a transaction that holds the write lock, and yield the current time."""

    @abstractmethod
    def _take_stamp(self) -> int:
        """Under the write lock, move the horizon to the time, or at least 1 ms on, and return it."""

    @abstractmethod
    def _run(self, statement: str, **values: object) -> Any:
        """Run a statement with named parameters in the current transaction, and return the cursor."""

    # --- many rows ---------------------------------------------------------------------

    @abstractmethod
    def _opened(self, needed: NeededRows) -> AbstractContextManager[tuple[Batch, int]]:
        """Open a transaction like `_locked`, and take a stamp. Yield a batch with the rows it needs, and the time."""

    @abstractmethod
    def _bodies(self, keys: Sequence[tuple[int, str]]) -> Iterable[Row]:
        """Return the bodies of stored bills, with their keys."""

    @abstractmethod
    def _write(self, batch: Batch) -> None:
        """Write the shops of a batch, then its notes (see `_note`), its bills and its members."""

    @abstractmethod
    def _rewrite(self, bills: Sequence[BillRow]) -> None:
        """Write stored bills under new facts of their shop. Some of them have no new body."""

    @abstractmethod
    def _remove_bills(self, keys: Sequence[tuple[int, str]]) -> None: ...

    # --- shops, bills and members ----------------------------------------------------

    def facts(self, shop_id: str) -> KnownFacts | None:
        with self._reading():
            row = self._run(FACTS, id=shop_id).fetchone()
        return known_facts(*row) if row else None

    def apply(
        self, changes: Sequence[Change], progress: LoadProgress | None = None, guard: ReplacementGuard | None = None
    ) -> list[Outcome]:
        needed = needed_rows(changes)
        with self._opened(needed) as (batch, now):
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

    _REMEMBER_REMOVAL = """
        INSERT INTO removals (shop, kind, id, rev) VALUES (:shop, :kind, :id, :rev)
        ON CONFLICT (shop, kind, id) DO UPDATE SET rev = excluded.rev
    """
    _PUT_BASE = """
        INSERT INTO bases (id, rev, body) VALUES (:id, :rev, :body)
        ON CONFLICT (id) DO UPDATE SET rev = excluded.rev, body = excluded.body
    """
    _RELIST = """
        INSERT INTO shop_changes (shop, franchise_id, joined_at, listed_at, latest_at)
        VALUES (:shop, :franchise_id, :stamp, :stamp, :stamp)
        ON CONFLICT (shop) DO UPDATE SET
            joined_at = CASE
                WHEN coalesce(shop_changes.franchise_id, '') = coalesce(excluded.franchise_id, '')
                THEN shop_changes.joined_at ELSE excluded.joined_at
            END,
            franchise_id = excluded.franchise_id, listed_at = excluded.listed_at, latest_at = excluded.latest_at
    """
    _DEPART = """
        INSERT INTO departures (franchise_id, shop, left_at) VALUES (:franchise_id, :shop, :stamp)
        ON CONFLICT (franchise_id, shop) DO UPDATE SET left_at = excluded.left_at
    """
    _REMOVE = """
        INSERT INTO removed_bills (shop, id, removed_at, load) VALUES (:shop, :id, :stamp, :load)
        ON CONFLICT (shop, id) DO UPDATE SET removed_at = excluded.removed_at, load = excluded.load
    """

    def _note(self, batch: Batch) -> None:
        """Write everything about a batch that is in few rows."""
        stamp = batch.stamp
        for (shop_id, kind, removed_id), rev in batch.remembered.items():
            self._run(self._REMEMBER_REMOVAL, shop=shop_id, kind=kind, id=removed_id, rev=rev)
        for base in batch.written_bases():
            self._run(self._PUT_BASE, id=base.provider_id, rev=base.rev, body=base.body)
        for row in batch.relisted_shops():
            self._run(self._RELIST, shop=row.number, franchise_id=row.franchise_id, stamp=stamp)
        for franchise_id, shop in batch.departures():
            self._run(self._DEPART, franchise_id=franchise_id, shop=shop, stamp=stamp)
        for shop, bill_id in batch.removed_bills():
            self._run(self._REMOVE, shop=shop, id=bill_id, stamp=stamp, load=batch.load)
        self._note_changes(batch.touched_shops(), batch.stale_days(), stamp)

    _TOUCH = "UPDATE shop_changes SET latest_at = :stamp WHERE shop = :shop"
    _MARK_STALE = """
        INSERT INTO day_totals (shop, bill_day) VALUES (:shop, :day)
        ON CONFLICT (shop, bill_day) DO UPDATE SET stale = 1
    """

    def _note_changes(self, shops: Sequence[int], days: Sequence[tuple[int, int]], stamp: int) -> None:
        """Record for the feed and the digests that bills of these shops and days were written with this stamp."""
        for shop in shops:
            self._run(self._TOUCH, shop=shop, stamp=stamp)
        for shop, day in days:
            self._run(self._MARK_STALE, shop=shop, day=day)

    _TO_REWRITE = "SELECT number, latest_version, facts FROM shops WHERE applied_version < latest_version LIMIT 1"
    _OUTDATED_BILLS = """
        SELECT id, closed_at, updated_at, trading_day, rev, withheld, body, bill_day FROM bills
        WHERE shop = :shop AND id > :after AND facts_version < :version ORDER BY id LIMIT :most
    """
    _REWRITTEN = "UPDATE shops SET applied_version = :version WHERE number = :shop"

    def rewrite_bills(self, most: int) -> bool:
        with self._locked():
            found = self._run(self._TO_REWRITE).fetchone()
            if not found:
                return False
            shop, version, facts = found
            stamp = self._take_stamp()
            known = known_facts(version, facts)
            # Continue after the last rewritten bill. After a restart, all bills of the shop are checked again.
            after = self._rewritten.get((shop, version), "")
            asked = {"shop": shop, "after": after, "version": version, "most": most}
            rows = self._run(self._OUTDATED_BILLS, **asked).fetchall()
            outdated = [OutdatedBill(*row[1:]) for row in rows]
            bills = [rewritten(bill, shop, known, stamp) for bill in outdated]
            self._note_changes([shop], rewritten_days(outdated, bills), stamp)
            self._rewrite(bills)
            if len(rows) < most:
                self._run(self._REWRITTEN, version=version, shop=shop)
        # Record the progress only after the commit, because a failed transaction has rewritten nothing.
        if len(rows) == most:
            self._rewritten[shop, version] = rows[-1][0]
        return True

    # --- the undo of a load ------------------------------------------------------------

    _UNDONE_LOADS = "SELECT number FROM loads WHERE undone_at IS NOT NULL"
    _BILLS_TO_UNDO = f"""
        SELECT id, closed_at, updated_at, trading_day, rev, withheld, body, bill_day, load_before, confirmed_by
        FROM bills WHERE shop = :shop AND load = :load AND id IN ({BILL_IDS})
    """  # noqa: S608 - contains only places
    # The next record of such a bill replaces it, whatever its revision is.
    _RELEASE_BILLS = f"""
        UPDATE bills SET load = :undone, rev = NULL WHERE shop = :shop AND load = :load AND id IN ({BILL_IDS})
    """  # noqa: S608 - contains only places
    _FACTS_OF_NUMBER = "SELECT latest_version, facts FROM shops WHERE number = :shop"

    def undo_bills(self, load: int, shop: int, bill_ids: Sequence[str], void_reason: str | None) -> int:
        """Take back those of the bills that the load added, and nothing has changed since; return their number.

        Without a reason they are removed, otherwise they become void. Those that the load changed stay as they are, but
        the next record replaces them. At most `BILLS_PER_READ` bills at once.
        """
        with self._locked():
            undone = {number for (number,) in self._run(self._UNDONE_LOADS).fetchall()}
            asked = {"shop": shop, "load": load, **bill_values(bill_ids)}
            changed: list[str] = []
            added: dict[str, OutdatedBill] = {}
            for bill_id, *bill, before, confirmed_by in self._run(self._BILLS_TO_UNDO, **asked).fetchall():
                match verdict(before, confirmed_by, undone):
                    case "changed":
                        changed.append(bill_id)
                    case "added":
                        added[bill_id] = OutdatedBill(*bill)
            if changed:
                self._run(self._RELEASE_BILLS, shop=shop, load=load, undone=-load, **bill_values(changed))
            if not added:
                return 0
            stamp = self._take_stamp()
            outdated = list(added.values())
            if void_reason is None:
                for bill_id in added:
                    self._run(self._REMOVE, shop=shop, id=bill_id, stamp=stamp, load=-load)
                self._note_changes([shop], sorted({(shop, bill.bill_day) for bill in outdated}), stamp)
                self._remove_bills([(shop, bill_id) for bill_id in added])
            else:
                known = known_facts(*self._run(self._FACTS_OF_NUMBER, shop=shop).fetchone())
                bills = [voided(bill, shop, known, stamp, void_reason, load) for bill in outdated]
                self._note_changes([shop], rewritten_days(outdated, bills), stamp)
                self._rewrite(bills)
        return len(added)

    # What a load removed can be loaded again, whatever its revision is.
    _ALLOW_REMOVED = """
        DELETE FROM removals WHERE kind = 'bill' AND (shop, id) IN (
            SELECT shops.id, removed_bills.id FROM removed_bills JOIN shops ON shops.number = removed_bills.shop
            WHERE removed_at > coalesce((SELECT horizon FROM loads WHERE loads.number = :number), -1)
                AND load = :number
        )
    """
    _FINISH_UNDO = "UPDATE loads SET undone_at = :now WHERE number = :number AND undone_at IS NULL"

    def finish_undo(self, load: int) -> None:
        """Record that everything of the load was taken back."""
        with self._locked() as now:
            self._run(self._ALLOW_REMOVED, number=load)
            self._run(self._FINISH_UNDO, number=load, now=now)

    # --- forgetting a member -----------------------------------------------------------

    def _read_marks(self) -> frozenset[str]:
        """Return the marks of the forgotten members. The write lock is held, so none is added meanwhile."""
        ((count,),) = self._run("SELECT count(*) FROM forgotten_members").fetchall()
        if count != len(self.forgotten):
            rows = self._run("SELECT mark FROM forgotten_members").fetchall()
            self.forgotten = frozenset(mark for (mark,) in rows)
        return self.forgotten

    _MARK_MEMBER = """
        INSERT INTO forgotten_members (mark, at) VALUES (:mark, :at)
        ON CONFLICT (mark) DO UPDATE SET finished_at = NULL
    """

    def mark_forgotten(self, marks: Iterable[ForgottenMember]) -> None:
        """Let no later record bring these members back. Their data counts as unfinished until `finish_forgetting`."""
        with self._locked():
            for member in marks:
                self._run(self._MARK_MEMBER, mark=member.mark, at=member.at)

    _BILLS_TO_UNLINK = f"""
        SELECT id, closed_at, updated_at, trading_day, rev, withheld, body, bill_day FROM bills
        WHERE shop = :shop AND id IN ({BILL_IDS})
    """  # noqa: S608 - contains only places

    def unlink_bills(self, shop: int, bill_ids: Sequence[str], marks: Collection[str]) -> int:
        """Take forgotten members off their bills; return the number of bills. At most `BILLS_PER_READ` at once."""
        with self._locked():
            rows = self._run(self._BILLS_TO_UNLINK, shop=shop, **bill_values(bill_ids)).fetchall()
            named = []
            for row in rows:
                bill = OutdatedBill(*row[1:])
                token = member_on(bill.body)
                if token and mark_of(token) in marks:
                    named.append(bill)
            if not named:
                return 0
            stamp = self._take_stamp()
            known = known_facts(*self._run(self._FACTS_OF_NUMBER, shop=shop).fetchone())
            bills = [unlinked(bill, shop, known, stamp) for bill in named]
            self._note_changes([shop], rewritten_days(named, bills), stamp)
            self._rewrite(bills)
        return len(named)

    _FORGET_REMOVAL = "DELETE FROM removals WHERE kind = 'member' AND shop = '' AND id = :token"

    def erase_member(self, token: str) -> bool:
        """Delete the record, the accounts and the removal of a member; return whether there was a record."""
        (outcome,) = self.apply([Removal(("", "member", token), None)])
        with self._locked():
            self._run(self._FORGET_REMOVAL, token=token)
        return outcome is Outcome.REMOVED

    # The decision about a held file is about its content, which is another one from now on.
    _ERASE_LINES = """
        UPDATE open_items SET files = :files, digest = :digest
        WHERE number = :number AND closed_at IS NULL AND files = :known_files
    """

    def erase_lines(self, item: OpenItem, known_files: Mapping[str, int]) -> None:
        """Store how many lines the file of an item still has and its digest, unless the item has changed."""
        values = item.values()
        chosen = {name: values[name] for name in ("number", "files", "digest")}
        with self._unlocked():
            self._run(self._ERASE_LINES, **chosen, known_files=json.encode(known_files).decode())

    _FINISH_MARK = "UPDATE forgotten_members SET finished_at = :now WHERE mark = :mark AND finished_at IS NULL"

    def finish_forgetting(self, marks: Iterable[str]) -> None:
        with self._locked() as now:
            for mark in marks:
                self._run(self._FINISH_MARK, mark=mark, now=now)

    # --- chores of the supervisor ----------------------------------------------------

    _PRUNE_REMOVALS = "DELETE FROM removed_bills WHERE removed_at <= (SELECT at FROM horizon) - :kept"

    def prune_removals(self) -> int:
        """Delete old removals, raise the oldest valid mark, as older ones would miss them, and return the count."""
        with self._unlocked():
            deleted: int = self._run(self._PRUNE_REMOVALS, kept=REMOVALS_KEPT_MS).rowcount
            if deleted:
                self._run(REFUSE_MARKS, kept=REMOVALS_KEPT_MS)
        return deleted

    _STALE_DAYS = "SELECT shop, bill_day FROM day_totals WHERE stale = 1 LIMIT :most"
    _BILLS_OF_DAY = "SELECT updated_at, body FROM bills WHERE shop = :shop AND bill_day = :day"
    _STORE_TOTAL = """
        UPDATE day_totals
        SET stale = 0, bills = :bills, voids = :voids, net = :net, tip = :tip, latest = :latest, hash = :hash,
            void_net = :void_net
        WHERE shop = :shop AND bill_day = :day
    """
    _DELETE_TOTAL = "DELETE FROM day_totals WHERE shop = :shop AND bill_day = :day"

    def compute_totals(self, most: int) -> int:
        """Compute the totals of up to `most` days whose bills have changed; return the number of days."""
        with self._reading():
            # This runs often, and usually no day is stale. In that case no lock is taken, so that no load has to wait.
            if not self._run(self._STALE_DAYS, most=1).fetchone():
                return 0
        with self._reading(), self._locked():
            stale = self._run(self._STALE_DAYS, most=most).fetchall()
            for shop, day in stale:
                total = day_total(self._run(self._BILLS_OF_DAY, shop=shop, day=day))
                if total.bills:
                    self._run(self._STORE_TOTAL, shop=shop, day=day, **asdict(total))
                else:
                    self._run(self._DELETE_TOTAL, shop=shop, day=day)
        return len(stale)

    # --- the progress of a load ------------------------------------------------------

    _BEGIN_LOAD = """
        INSERT INTO loads (number, source, started_at, seen_at, horizon)
        SELECT coalesce(max(number), 0) + 1, :source, :now, :now, (SELECT at FROM horizon) FROM loads
        RETURNING number
    """
    # A load has not finished, nor was its source loaded again, nor is there an item about it.
    _STALLED_LOADS = """
        SELECT number, source, abs(seen_at) FROM loads
        WHERE seen_at < :before AND finished_at IS NULL
            AND NOT EXISTS (
                SELECT 1 FROM loads AS later WHERE later.number > loads.number AND later.source = loads.source
            )
            AND NOT EXISTS (
                SELECT 1 FROM open_items
                WHERE load = loads.number AND kind IN ('quarantined', 'needs_answers', 'unfinished')
            )
    """
    _FORGET_LOADS = "DELETE FROM loads WHERE number <= :number - 100"
    _FORGET_REJECTS = "DELETE FROM rejected_lines WHERE load <= :number - 100"
    _FORGET_ITEMS = "DELETE FROM open_items WHERE closed_at < :before"

    _NOT_BEGUN = "SELECT identity, files FROM open_items WHERE kind = 'not_begun' AND closed_at IS NULL"

    def begin_load(self, source: str) -> LoadProgress:
        with self._locked() as now:
            self._read_marks()
            ((number,),) = self._run(self._BEGIN_LOAD, source=source.replace("\0", ""), now=now).fetchall()
            for load, unfinished, seen_at in self._run(self._STALLED_LOADS, before=now - STALLED_MS).fetchall():
                identity, files = f"unfinished load {load}", {unfinished: 0}
                item = OpenItem(identity=identity, kind="unfinished", load=load, files=files, opened_at=seen_at)
                self._run(self._PUT_ITEM, **item.values())
            for identity, files in self._run(self._NOT_BEGUN).fetchall():
                if source in json.decode(files):
                    self._run(self._CLOSE_LOADED, identity=identity, now=now)
            self._run(self._FORGET_LOADS, number=number)
            self._run(self._FORGET_REJECTS, number=number)
            self._run(self._FORGET_ITEMS, before=now - CLOSED_ITEMS_KEPT_MS)
        return LoadProgress(number)

    # The negative sign marks the load as stopped: see `load_row`.
    _STOP_LOAD = "UPDATE loads SET seen_at = -:now, changed = :changed WHERE number = :number AND finished_at IS NULL"

    def stop_load(self, number: int, changed: int) -> None:
        with self._unlocked() as now:
            self._run(self._STOP_LOAD, now=now, changed=changed, number=number)

    _SAVE_LOAD = """
        UPDATE loads SET seen_at = :now, lines = :lines, changed = :changed, rejected = :rejected,
            finished_at = :finished_at, reasons = :reasons, rejects_file = :rejects_file, totals = :totals,
            files = :files, alarms = :alarms
        WHERE number = :number
    """
    _REMEMBER_REJECT = """
        INSERT INTO rejected_lines (load, place, source, line, reason, fields)
        VALUES (:load, :place, :source, :line, :reason, :fields)
    """
    _FINISHED_NOW = """
        SELECT open_items.identity, open_items.files, loads.source FROM open_items, loads
        WHERE open_items.kind = 'unfinished' AND open_items.closed_at IS NULL AND loads.number = :number
    """

    def _save(self, progress: LoadProgress, now: int) -> None:
        self._run(self._SAVE_LOAD, **progress.values(now))
        for values in progress.reject_values():
            self._run(self._REMEMBER_REJECT, **values)
        for item in progress.items(now):
            self._run(self._PUT_ITEM, **self._continued(item).values())
        if not progress.finished:
            return
        for identity, files, source in self._run(self._FINISHED_NOW, number=progress.number).fetchall():
            if source in json.decode(files):
                self._run(self._CLOSE_LOADED, identity=identity, now=now)

    # --- open items ----------------------------------------------------------------

    def _of_kept_file(self, name: str) -> OpenItem | None:
        if not KEPT_NAME.match(name):
            return None
        rows = self._run(ITEM, identity=name).fetchall()
        return item_of(rows[0]) if rows else None

    def _continued(self, item: OpenItem) -> OpenItem:
        """Return the item with the delivered names of files that we kept, and waiting for as long as they have been."""
        files, opened_at = Counter[str](), item.opened_at
        for name, count in item.files.items():
            earlier = self._of_kept_file(name)
            files[earlier.source if earlier else name] += count
            opened_at = min(opened_at, earlier.opened_at) if earlier else opened_at
        return replace(item, files=files, opened_at=opened_at)

    # An item is opened once. One that the operator closed during the load is opened again if more lines are rejected.
    # PostgreSQL cannot infer the types of values that may be null.
    _PUT_ITEM = """
        INSERT INTO open_items
            (identity, kind, files, load, path, machine, reason, digest, decision, number, opened_at, closed_at,
            closed_by)
        SELECT :identity, :kind, :files, CAST(:load AS bigint), :path, :machine, :reason, :digest,
            CAST(:decision AS text), coalesce(max(number), 0) + 1, CAST(:opened_at AS bigint),
            CAST(:closed_at AS bigint), CAST(:closed_by AS text)
        FROM open_items WHERE true
        ON CONFLICT (identity) DO UPDATE SET
            files = excluded.files,
            reason = CASE WHEN open_items.kind = 'rejects' THEN excluded.reason ELSE open_items.reason END,
            closed_at = CASE WHEN open_items.files = excluded.files THEN open_items.closed_at END,
            closed_by = CASE WHEN open_items.files = excluded.files THEN open_items.closed_by END
    """

    def add_items(self, items: Iterable[OpenItem]) -> None:
        """Open items about files, unless they are known. A load opens the items about the lines that it rejects."""
        with self._locked() as now:
            for item in items:
                self._run(self._PUT_ITEM, **item.values() | {"opened_at": now})

    _PUT_PREVIEW = """
        INSERT INTO delivery_previews (identity, preview) VALUES (:identity, :preview)
        ON CONFLICT (identity) DO UPDATE SET preview = excluded.preview
    """
    _FORGET_PREVIEWS = """
        DELETE FROM delivery_previews WHERE NOT EXISTS (
            SELECT 1 FROM open_items
            WHERE open_items.identity = delivery_previews.identity AND open_items.closed_at IS NULL
        )
    """

    def put_previews(self, previews: Mapping[str, DeliveryPreview]) -> None:
        """Store what held deliveries would change, by the identity of their items. Forget those of closed items."""
        if not previews:
            return
        with self._locked():
            self._run(self._FORGET_PREVIEWS)
            for identity, preview in previews.items():
                self._run(self._PUT_PREVIEW, identity=identity, preview=json.encode(preview).decode())

    _CHANGE_ITEM = """
        UPDATE open_items SET kind = :kind, load = CAST(:load AS bigint), path = :path, reason = :reason,
            decision = :decision, closed_at = :closed_at, closed_by = :closed_by, digest = :digest
        WHERE number = :number AND closed_at IS NULL RETURNING number
    """

    def change_items(self, items: Iterable[OpenItem]) -> list[OpenItem]:
        """Store what has changed about items, and whether they are closed. Return those that were still open."""
        with self._unlocked() as now:
            changed = []
            for item in items:
                closed_at = now if item.closed_by else None
                stored = replace(item, closed_at=closed_at)
                was_open = self._run(self._CHANGE_ITEM, **stored.values()).fetchall()
                if was_open:
                    changed.append(stored)
            return changed

    _CLOSE_LOADED = """
        UPDATE open_items SET closed_at = :now, closed_by = 'loaded' WHERE identity = :identity AND closed_at IS NULL
    """

    def close_loaded(self, lines: Mapping[str, int]) -> None:
        if not any(map(KEPT_NAME.match, lines)):
            return
        with self._unlocked() as now:
            for name, count in lines.items():
                item = self._of_kept_file(name)
                # Lines that somebody took out of a rejects file were not loaded.
                if item and count >= (item.lines or 0):
                    self._run(self._CLOSE_LOADED, identity=name, now=now)

    # --- intake and watched folders --------------------------------------------------

    _PUT_INTAKE = (
        "INSERT INTO intake (one, state) VALUES (1, :state) ON CONFLICT (one) DO UPDATE SET state = excluded.state"
    )

    def change_intake(self, change: Callable[[Intake, int], Intake]) -> Intake:
        with self._locked() as now:
            rows: Sequence[Any] = self._run("SELECT state FROM intake").fetchall()
            intake = change(json.decode(rows[0][0], type=Intake) if rows else Intake(), now)
            self._run(self._PUT_INTAKE, state=json.encode(intake))
        return intake

    _REPORT_WATCHED_FOLDER = """
        INSERT INTO watched_folders (name, seen_at, delivered_at, files, quarantined, stopped, problem)
        VALUES (:name, :now, :now, :files, :quarantined, :stopped, :problem)
        ON CONFLICT (name) DO UPDATE SET
            seen_at = excluded.seen_at,
            delivered_at = CASE
                WHEN excluded.files + excluded.quarantined > 0 THEN excluded.delivered_at
                ELSE watched_folders.delivered_at
            END,
            files = watched_folders.files + excluded.files,
            quarantined = watched_folders.quarantined + excluded.quarantined,
            stopped = excluded.stopped,
            problem = excluded.problem
    """

    def report_watched_folder(
        self, name: str, files: int, quarantined: int, *, is_stopped: bool = False, problem: str = ""
    ) -> None:
        """Record whether a folder's watcher runs or why it cannot, and how many files it took since the last call."""
        counts = {"files": files, "quarantined": quarantined, "problem": problem}
        with self._locked() as now:
            self._run(self._REPORT_WATCHED_FOLDER, name=name, now=now, stopped=is_stopped, **counts)
