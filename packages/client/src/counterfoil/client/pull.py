"""Keeps a copy of the shops and bills in the change feed, and of all members of each base.

Elements are applied in the order of the feed, and rows are committed together with the position in the feed, so no
change is lost (docs/own-client.md). A pass without a mark delivers everything. If it does not deliver a bill of one of
its shops, the bill is deleted, but only when the pass ends, so the copy does not become empty in the meantime.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial

import msgspec
from msgspec import Raw, Struct

from counterfoil.client import calls, errors, pull_state
from counterfoil.client.api import Client
from counterfoil.client.calls import MAX_ATTEMPTS
from counterfoil.client.connection import Call
from counterfoil.client.errors import CounterfoilError, Refusal
from counterfoil.client.feed import PAGES_PER_BATCH, BatchReader, ChangePage, FeedBatch, FeedGroup, change_pages
from counterfoil.client.lost_rows import accept_losses, count_rows_of_shops_that_left, note_lost_rows
from counterfoil.client.models import Page
from counterfoil.client.pull_state import BaseState, Origin, State, Tally, seconds_between
from counterfoil.client.sinks.sql import Sink
from counterfoil.client.tables import TABLES

# --- the members of a base: every pass reads all of them, because the API lists no changes --
#
# A pass may take several runs. When it ends, members of the base that it has not seen are deleted.


class _MemberId(Struct):
    member_id: str | None = msgspec.field(name="memberId", default=None)


_decode_member_id = msgspec.json.Decoder(_MemberId).decode
MEMBER_PAGES_PER_BATCH = 25
# The service accepts a cursor for 7 days after it was last handed out or used. The client begins again much earlier, so
# that it does not depend on how long cursors are valid.
CURSOR_LIFE_SEC = 36 * 3600


class MemberPass(Struct):
    """Reads all members of a base. Each batch of pages is committed together with the progress of the pass."""

    client: Client
    sink: Sink
    tally: Tally
    limit: int = calls.MAX_LIMIT
    pages_per_batch: int = MEMBER_PAGES_PER_BATCH

    def _fetch(self, call: Call) -> Page[Raw]:
        began = time.monotonic()
        try:
            response = self.client.send(call)
        finally:
            self.tally.waiting_sec += time.monotonic() - began
        page = calls.parse_page(response, calls.decode_raw_page)
        self.tally.count_response(page.remaining)
        return page

    def read(self, state: State, provider_id: str, mark: str, every_sec: float) -> None:
        """Finish an interrupted pass. Then start a new one, unless the last began less than `every_sec` seconds ago."""
        base = state.bases.setdefault(provider_id, BaseState())
        self.tally.reading = f"members of {provider_id}"
        if base.cursor is not None and seconds_between(base.asked, mark) <= CURSOR_LIFE_SEC:
            self._finish(state, base, provider_id, mark)
        is_due = base.passed is None or seconds_between(base.passed, mark) >= every_sec
        if base.began is not None or is_due:
            base.began, base.cursor = mark, None
            self._finish(state, base, provider_id, mark)

    def _finish(self, state: State, base: BaseState, provider_id: str, mark: str) -> None:
        attempts = 1
        while base.began is not None:
            batch = self.read_batch(base, provider_id, mark)
            if batch.error is not None and errors.is_bad_cursor(batch.error) and attempts < MAX_ATTEMPTS:
                # The cursor is no longer valid, so the pass starts again, with an empty list of seen members.
                attempts += 1
                base.cursor = None
                continue
            self._write(state, base, provider_id, mark, batch)
            if batch.error is not None:
                raise batch.error

    def read_batch(self, base: BaseState, provider_id: str, mark: str) -> "_MemberBatch":
        """Read some pages, starting at the base's cursor. If a page fails, the pages before it are kept."""
        batch = _MemberBatch(is_first=base.cursor is None)
        for _ in range(min(self.pages_per_batch, MEMBER_PAGES_PER_BATCH)):
            try:
                page = self._fetch(
                    calls.members(provider_id, limit=min(self.limit, calls.MAX_LIMIT), cursor=base.cursor)
                )
                calls.check_progress(base.cursor, page.next_cursor)
            except CounterfoilError as error:
                batch.error = error
                break
            self.tally.members_read += len(page.data)
            for row in page.data:
                member_id = calls.decode_row(row, _decode_member_id).member_id
                # Of a member that is returned twice, the later row is used. One without a token is skipped.
                if member_id is not None:
                    batch.latest[member_id] = row
            base.cursor, base.asked = page.next_cursor, mark
            batch.pages += 1
            if base.cursor is None:
                batch.is_last = True
                break
        return batch

    def _write(self, state: State, base: BaseState, provider_id: str, mark: str, batch: "_MemberBatch") -> None:
        if not batch.pages:
            return
        if batch.is_last:
            base.passed, base.began = base.began, None
        began, before = time.monotonic(), self.tally.changes
        pull_state.set_write_time(self.sink, state, mark)
        with self.sink.transaction():
            if batch.is_first:
                self.sink.open_pass(provider_id)
            rows = [bytes(row) for row in batch.latest.values()]
            self.tally.count_members(self.sink.put_members(provider_id, rows))
            if batch.is_last:
                self.tally.members_removed += self.sink.close_pass(provider_id)
            state.changes += self.tally.changes - before
            pull_state.save(self.sink, state)
        self.tally.writing_sec += time.monotonic() - began


class _MemberBatch(Struct):
    """A batch of members: the newest row of each member, by token. A pass consists of one or more batches."""

    is_first: bool
    is_last: bool = False
    pages: int = 0
    latest: dict[str, Raw] = msgspec.field(default_factory=dict)
    error: CounterfoilError | None = None


# A transaction may contain several batches, because a commit takes as long as writing thousands of rows. Its size is
# limited, because parsed batches stay in memory until the commit. If the next batch takes longer than NEXT_BATCH_SEC,
# the transaction is committed, so that other programs are not blocked during the wait.
COMMIT_SEC = 5.0
COMMIT_BYTES = 64 * 1024 * 1024
NEXT_BATCH_SEC = 0.25
# Asking for one day is the cheapest way to find out whether the key covers a shop.
ANY_DAY = date(2000, 1, 1)


class Options(Struct, frozen=True, kw_only=True):
    since: date | None = None
    shops: Sequence[str] | None = None
    members_every_sec: float = 0.0
    limit: int = calls.MAX_FEED_LIMIT
    pages_per_batch: int = PAGES_PER_BATCH
    commit_sec: float = COMMIT_SEC
    adopt: bool = False
    # Read everything again, and repair every row that differs.
    full: bool = False
    # Do without the rows that shops have lost which have left the key's scope.
    accept_loss: bool = False


class Puller(Struct):
    """Updates a copy of everything that one key can read. `origin` is that of the service, if it is known."""

    client: Client
    sink: Sink
    options: Options = Options()
    tally: Tally = msgspec.field(default_factory=Tally)
    origin: Origin | None = None
    state: State = msgspec.field(default_factory=State)

    def run(self) -> Tally:
        """Bring the copy up to date, or continue a run. If the client is closed, save and raise `Stopped`."""
        self.client.on_wait = self._report_wait
        state = self.state = pull_state.decode(self.sink.state())
        try:
            counts = {}
            if state.origin:
                counts = self.sink.row_counts()
                self.tally.lost_tables = state.lost_tables(counts)
                note_lost_rows(self.sink, state, self.tally.lost_tables)
            selection = pull_state.chosen(state.selection, self.options.since, self.options.shops)
            is_other = selection != state.selection
            self._check_origin(state, drops_position=self._is_full or is_other)
            if is_other:
                self._require_any(self.options.shops or (), "given with --shops")
                # The next pass returns everything.
                state.selection = selection
                pull_state.require_full_pass(state)
            if self._is_full:
                self._forget_progress(state)
            is_resumed = state.feed.cursor is not None
            self._read_feed(state)
            if is_resumed:
                # The resumed pass began in an earlier run, so a second pass must read the changes since then.
                self._read_feed(state)
            self.tally.shops = self.tally.shops_done = self.sink.count_shops()
            self._read_members(state)
            if self.options.accept_loss:
                with self._transaction(state):
                    accept_losses(self.sink, state)
            self.tally.incomplete_shops = state.incomplete
            counts = self.sink.row_counts() if self.tally.changes else counts
            if counts != state.rows:
                with self.sink.transaction():
                    pull_state.save(self.sink, state, counts)
            self.sink.publish()
            self.sink.erase_remains()
        except CounterfoilError as error:
            if self.client.is_closed:
                raise errors.Stopped from error
            raise
        finally:
            self.tally.requests = self.client.requests
        return self.tally

    @property
    def _is_full(self) -> bool:
        """Whether everything must be read again, on request or because the copy has lost something."""
        return self.options.full or bool(self.tally.lost_tables)

    # --- the origin of the copy ----------------------------------------------------

    def _check_origin(self, state: State, *, drops_position: bool) -> None:
        """Raise `CopyMismatch` if this copy belongs to another address or key, unless `adopt` is set.

        A mark or cursor is valid only for the lineage of the key that received it. So if the run continues from the
        position of the copy, the key is not checked here: the service refuses the position if the lineage is wrong.
        """
        known, feed = state.origin, state.feed
        if self.options.adopt or known is None:
            state.origin = self.origin or origin_of(self.client)
            if known is not None and known != state.origin:
                self._require_any(self.sink.shop_ids(), "of this copy")
                for base in state.bases.values():
                    base.cursor = None
            return
        if known.url != self.client.base_url or (feed.mark is None and feed.cursor is None):
            pull_state.require_origin(known, origin_of(self.client))
        elif drops_position:
            # This run drops the position, so no later request would show whether the lineage is right.
            try:
                self.client.send(calls.changes(since=feed.mark, cursor=feed.cursor, limit=1))
            except Refusal as refusal:
                if refusal.code not in ("bad_cursor", "mark_expired"):
                    raise
                if refusal.code == "bad_cursor":
                    pull_state.require_origin(known, origin_of(self.client))
            state.origin = origin_of(self.client)

    def _require_any(self, shop_ids: Collection[str], what: str) -> None:
        """Raise `CopyMismatch` if the key covers none of these shops. Otherwise, this run would empty the copy."""
        if shop_ids and not any(map(self._covers, shop_ids)):
            raise errors.CopyMismatch(
                f"the key covers none of the shops {what}, so nothing was changed. Check the "
                "IDs and the key, or pull into another target."
            )

    def _covers(self, shop_id: str) -> bool:
        """Return whether the key can read the bills of a shop. The list of shops does not contain closed shops."""
        try:
            self.client.send(calls.bills(shop_id, first=ANY_DAY, last=ANY_DAY, limit=1))
        except Refusal as refusal:
            if refusal.status in (403, 404):
                return False
            raise
        return True

    def _forget_progress(self, state: State) -> None:
        """Make this run, and later runs if it is interrupted, read everything. Rows stay until they are replaced."""
        pull_state.require_full_pass(state)
        for base in state.bases.values():
            base.began, base.cursor = "", None  # The next pass begins anew.
        state.feed.repairs = True
        state.feed.lost = sorted({*state.feed.lost, *self.tally.lost_tables})
        state.lost, state.dropped = [], []
        with self._transaction(state):
            self.sink.changed(*TABLES)
            self.sink.clear_undelivered()

    # --- the feed ------------------------------------------------------------------

    def _read_feed(self, state: State) -> None:
        for _ in range(MAX_ATTEMPTS):
            try:
                self._finish_pass(state)
            except Refusal as refusal:
                self._recover(state, refusal)
            else:
                return
        raise CounterfoilError(
            f"the service refused the cursor or the mark {MAX_ATTEMPTS} times. Run `counterfoil pull` again later."
        )

    def _recover(self, state: State, refusal: Refusal) -> None:
        """Update the state so that the pull can continue after a refusal. Raise an error if it cannot continue."""
        feed = state.feed
        if refusal.code == "not_found":
            raise missing_feed(self.client, refusal) from refusal
        if refusal.code not in ("bad_cursor", "mark_expired") or (feed.mark is None and feed.cursor is None):
            raise refusal
        origin = origin_of(self.client)
        if refusal.code == "bad_cursor" and not self.options.adopt:
            pull_state.require_origin(state.origin, origin)
        if refusal.code == "bad_cursor" and feed.cursor is not None:
            feed.cursor, feed.delivered = None, []
        else:
            pull_state.require_full_pass(state)
        # If a copy has no position, only the origin shows which key may continue it, so the origin is saved as well.
        state.origin = origin
        with self._transaction(state):
            self.sink.clear_undelivered()

    def _finish_pass(self, state: State) -> None:
        feed = state.feed
        # If a shop returns that had lost bills, the copy still has parts of them.
        self.sink.may_have_strays = feed.repairs or bool(state.left)
        self.tally.reading = "changes" if feed.mark else "all bills"
        reader = BatchReader(
            change_pages(self.client, feed.mark, feed.cursor, self.options.limit),
            self.sink,
            new_batch=partial(FeedBatch, state.selection, is_full_pass=feed.mark is None),
            on_page=self._count,
            pages_per_batch=self.options.pages_per_batch,
        )
        try:
            is_finished = False
            # This wait may be long, so no transaction is open during it.
            while not is_finished and (batch := self._next_batch(reader, None)):
                with self._transaction(state):
                    batch = self._write_batches(state, reader, batch)
                if batch.error is not None:
                    raise batch.error
                is_finished = batch.mark is not None
        finally:
            reader.close()

    def _next_batch(self, reader: BatchReader, timeout_sec: float | None) -> FeedBatch | None:
        began = time.monotonic()
        try:
            return reader.next_batch(timeout_sec)
        finally:
            self.tally.waiting_sec += time.monotonic() - began

    def _write_batches(self, state: State, reader: BatchReader, batch: FeedBatch) -> FeedBatch:
        """Write a batch, and further batches until it is time to commit. Return the last batch."""
        began, written = time.monotonic(), 0
        while True:
            if batch.pages:
                pull_state.set_write_time(self.sink, state, batch.time)
            for group in batch.groups:
                self._write(state, group)
            if batch.pages:
                state.feed.cursor = batch.cursor
            if batch.mark is not None:
                self._end_pass(state, batch.mark, batch.time)
            written += batch.bytes
            is_time = written >= COMMIT_BYTES or time.monotonic() - began >= self.options.commit_sec
            if batch.error is not None or batch.mark is not None or is_time:
                return batch
            following = self._next_batch(reader, NEXT_BATCH_SEC)
            if following is None:
                return batch
            batch = following

    def _count(self, page: ChangePage) -> None:
        """Update the tally when a page has arrived. Raise an error if the run was stopped."""
        if self.client.is_closed:
            raise CounterfoilError("the run was stopped")
        self.tally.count_response(page.remaining)

    def _write(self, state: State, group: FeedGroup) -> None:
        """Apply a group of elements to the copy."""
        began = time.monotonic()
        self.sink.mark_undelivered(group.full_shops)
        self.sink.put_shops(list(group.shops.values()))
        self._remove_shops(state, group.removed_shops)
        self.tally.bills_removed += self.sink.remove_bills(group.removed)
        self.tally.count_bills(self.sink.put_bills(group.bills, group.parsed, group.shops_with_bills))
        self.tally.bills_read += len(group.bills) + group.left_out
        self.tally.shops_changed += len(group.shops) + len(group.removed_shops)
        if state.feed.mark is None:
            state.feed.delivered += [*group.shops, *group.removed_shops]
        self.tally.writing_sec += time.monotonic() - began
        if group.shop_id:
            self.tally.reading = f"shop {group.shop_id}"
        self.tally.on_progress(self.tally)

    def _remove_shops(self, state: State, shops: Mapping[str, bool]) -> None:
        self.tally.shops_that_left += self.sink.remove_shops(shops, state.feed.last_complete)

    def _end_pass(self, state: State, mark: str, now: str) -> None:
        """Delete the bills still flagged as not delivered, update the shops after a full pass, and store the mark."""
        self.tally.bills_removed += self.sink.delete_undelivered()
        if state.feed.mark is None:
            selection = state.selection
            others = (self.sink.shops_with_rows() | state.left.keys()) - set(state.feed.delivered)
            self.tally.bills_removed += self.sink.forget_shops(
                sorted(shop_id for shop_id in others if not selection.has_shop(shop_id))
            )
            # The key no longer covers these shops. Their bills stay in the copy.
            self._remove_shops(state, dict.fromkeys(filter(selection.has_shop, others), False))
            self.tally.missing_shops = sorted(set(selection.shops or ()) - set(state.feed.delivered))
            if selection.shops is not None:
                self._forget_other_bases(state)
        returned = state.left.keys() - self.sink.shops_that_left()
        if state.feed.repairs or returned:
            self.tally.strays_removed += self.sink.delete_strays()
        count_rows_of_shops_that_left(self.sink, state)
        state.feed = pull_state.FeedState(mark=mark, as_of=now)

    # --- members -------------------------------------------------------------------

    def _forget_other_bases(self, state: State) -> None:
        """Delete the members of the bases that no selected shop has."""
        for provider_id in set(state.bases) - set(self.sink.bases(also_removed=True)):
            self.tally.members_removed += self.sink.forget_base(provider_id)
            # If the base is selected again, its members are read at once, even if they are not due.
            del state.bases[provider_id]

    def _read_members(self, state: State) -> None:
        options = self.options
        member_pass = MemberPass(self.client, self.sink, self.tally, options.limit, options.pages_per_batch)
        bases = self.sink.bases()
        self.tally.bases = len(bases)
        now = state.feed.as_of or ""  # `as_of` is set, because a pass has ended.
        for provider_id in self.sink.bases_that_left():
            # If the base returns, its members are read at once, even if they are not due.
            base = state.bases.setdefault(provider_id, BaseState())
            base.began, base.cursor = "", None
            with self._transaction(state):
                self.tally.members_removed += self.sink.mark_removed(provider_id)
        for provider_id in bases:
            try:
                member_pass.read(state, provider_id, now, options.members_every_sec)
            except Refusal as refusal:
                # The base has left the key's scope since the pass through the feed.
                if refusal.code != "provider_not_in_scope":
                    raise
                self.tally.out_of_scope += 1

    # --- writing and waiting ---------------------------------------------------------

    @contextmanager
    def _transaction(self, state: State) -> Iterator[None]:
        """Commit rows and progress in one transaction."""
        before = self.tally.changes
        with self.sink.transaction():
            yield
            changes = self.tally.changes - before
            state.changes += changes
            pull_state.save(self.sink, state, None if changes else state.rows)

    def _report_wait(self, reason: str, seconds: float) -> None:
        self.tally.waiting_for = reason and f"{reason}: {seconds:.0f} s"
        self.tally.on_progress(self.tally)


def missing_feed(client: Client, refusal: Refusal) -> CounterfoilError:
    """Return the error for a service without a feed. Raise another error if it is not a Counterfoil service."""
    origin_of(client)
    return errors.NotThisService(
        "the service has no change feed, which a copy needs. Ask its operator to upgrade it "
        "to API version 1.4.0 or later.",
        refusal.request_id,
    )


def origin_of(client: Client) -> Origin:
    """Return the origin of a copy made with this client."""
    try:
        usage = client.usage()
    except Refusal as refusal:
        if refusal.code == "not_found":  # The server responded, but it has no such path.
            raise errors.NotThisService(
                f"there is no Counterfoil API at {client.base_url}. The address usually ends in /ext/v1.",
                refusal.request_id,
            ) from refusal
        raise
    return Origin(client.base_url, usage["keyId"], usage["scope"])
