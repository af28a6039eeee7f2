"""Reads the members of a base. Every pass reads all of them, because the API has no list of changed members.

A pass may take several runs. The copy stores which members the pass has seen;
when the pass ends, all other members of the base are marked as removed.
"""

import time
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from counterfoil.client import calls, pull_state
from counterfoil.client.api import Client
from counterfoil.client.calls import MAX_ATTEMPTS
from counterfoil.client.conversation import Call
from counterfoil.client.errors import CounterfoilError, is_bad_cursor
from counterfoil.client.pull_state import BaseState, State, Tally
from counterfoil.client.sinks import Sink


class _MemberId(Struct):
    member_id: str | None = msgspec.field(name="memberId", default=None)


_decode_member_id = msgspec.json.Decoder(_MemberId).decode


class Pages:
    """Fetches pages, updates the tally and reports progress."""

    def __init__(self, client: Client, tally: Tally, on_progress: Callable[[Tally], None]) -> None:
        self._client = client
        self._tally = tally
        self._on_progress = on_progress

    def fetch(self, call: Call) -> calls.RawPage:
        began = time.monotonic()
        try:
            response = self._client.send(call)
        finally:
            self._tally.waiting_sec += time.monotonic() - began
            self._tally.requests += 1
        self._tally.remaining = calls.remaining(response)
        self._on_progress(self._tally)
        return calls.decode_body(response, calls.decode_raw_page)


class MemberPass:
    """Reads all members of a base. Each batch of pages is committed together with the progress of the pass."""

    def __init__(self, pages: Pages, sink: Sink, tally: Tally, limit: int, pages_per_batch: int) -> None:
        self._pages = pages
        self._sink = sink
        self._tally = tally
        self._limit = limit
        self._pages_per_batch = pages_per_batch

    def read(self, state: State, provider_id: str, mark: str, every_sec: float) -> None:
        """Finish an interrupted pass. Then start a new one, unless the last began less than `every_sec` seconds ago."""
        base = state.bases.setdefault(provider_id, BaseState())
        self._tally.reading = f"members of {provider_id}"
        if base.began is not None:
            if pull_state.is_stale(base.asked, mark):
                base.cursor = None
            self._finish(state, base, provider_id, mark)
        if pull_state.is_due(base, mark, every_sec):
            base.began, base.cursor = mark, None
            self._finish(state, base, provider_id, mark)

    def _finish(self, state: State, base: BaseState, provider_id: str, mark: str) -> None:
        attempts = 1
        while base.began is not None:
            batch = self._read_batch(base, provider_id, mark)
            if batch.error is not None and is_bad_cursor(batch.error) and attempts < MAX_ATTEMPTS:
                # The cursor is no longer valid, so the pass starts again, with an empty list of seen members.
                attempts += 1
                base.cursor = None
                continue
            self._write(state, base, provider_id, mark, batch)
            if batch.error is not None:
                raise batch.error

    def _read_batch(self, base: BaseState, provider_id: str, mark: str) -> "_MemberBatch":
        """Read some pages, starting at the base's cursor. If a page fails, the pages before it are kept."""
        batch = _MemberBatch(is_first=base.cursor is None)
        for _ in range(self._pages_per_batch):
            try:
                page = self._pages.fetch(calls.members(provider_id, limit=self._limit, cursor=base.cursor))
                calls.check_progress(base.cursor, page.next_cursor)
            except CounterfoilError as error:
                batch.error = error
                break
            self._tally.members_read += len(page.data)
            for row in page.data:
                member_id = calls.decode_row(row, _decode_member_id).member_id
                # If a member is returned twice, the later row is used. Rows without a token cannot be identified and
                # are skipped.
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
        began, before = time.monotonic(), self._tally.changes
        with self._sink.transaction():
            if batch.is_first:
                self._sink.open_pass(provider_id)
            rows = [bytes(row) for row in batch.latest.values()]
            self._tally.count_members(self._sink.put_members(provider_id, rows))
            if batch.is_last:
                self._tally.members_removed += self._sink.close_pass(provider_id, mark)
            state.changes += self._tally.changes - before
            self._sink.save_state(pull_state.encode(state))
        self._tally.writing_sec += time.monotonic() - began


class _MemberBatch(Struct):
    """A batch of members: the newest row of each member, by token. A pass consists of one or more batches."""

    is_first: bool
    is_last: bool = False
    pages: int = 0
    latest: dict[str, Raw] = msgspec.field(default_factory=dict)
    error: CounterfoilError | None = None
