"""The progress of a pull or a comparison, and pages whose rows are kept as raw JSON bytes."""

import time
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from counterfoil.client import calls
from counterfoil.client.api import Client
from counterfoil.client.conversation import Call
from counterfoil.client.sinks import Written

# Give up on a list or the feed after this many attempts, so that a pull or a comparison cannot go on forever.
MAX_ATTEMPTS = 100


class RawPage(Struct, frozen=True):
    """A page whose rows are raw JSON bytes."""

    data: list[Raw]
    server_time: str = msgspec.field(name="serverTime")
    next_cursor: str | None = msgspec.field(name="nextCursor", default=None)


class Tally(Struct):
    """The progress of a pull or of a comparison: counts, times, and the list that is being read.

    While the client waits, `waiting_for` says why, and `waiting_until` when it continues (on the monotonic clock).
    """

    shops: int = 0
    shops_done: int = 0
    bases: int = 0
    bases_done: int = 0
    out_of_scope: int = 0
    requests: int = 0
    bills_read: int = 0
    bills_added: int = 0
    bills_changed: int = 0
    bills_unchanged: int = 0
    bills_removed: int = 0
    members_read: int = 0
    members_added: int = 0
    members_changed: int = 0
    members_unchanged: int = 0
    members_removed: int = 0
    shops_changed: int = 0
    missing_shops: list[str] = msgspec.field(default_factory=list)
    remaining: int | None = None
    reading: str = ""
    writing_sec: float = 0.0
    waiting_sec: float = 0.0
    waiting_for: str = ""
    waiting_until: float = 0.0

    def count_bills(self, written: Written) -> None:
        self.bills_added += written.added
        self.bills_changed += written.changed
        self.bills_unchanged += written.unchanged

    def count_members(self, written: Written) -> None:
        self.members_added += written.added
        self.members_changed += written.changed
        self.members_unchanged += written.unchanged

    @property
    def bills_written(self) -> int:
        return self.bills_added + self.bills_changed

    @property
    def members_written(self) -> int:
        return self.members_added + self.members_changed

    @property
    def has_read(self) -> bool:
        """Whether the run has received any bills, members or changes."""
        return bool(self.bills_read or self.members_read or self.has_changes)

    @property
    def has_changes(self) -> bool:
        """Whether the run has changed the copy."""
        return self.changes > 0

    @property
    def changes(self) -> int:
        """The number of bills, members and shops that the run has added, changed or removed."""
        bills = self.bills_written + self.bills_removed
        return bills + self.members_written + self.members_removed + self.shops_changed


_decode = msgspec.json.Decoder(RawPage).decode


class Pages:
    """Fetches pages, updates the tally and reports progress."""

    def __init__(self, client: Client, tally: Tally, on_progress: Callable[[Tally], None]) -> None:
        self._client = client
        self._tally = tally
        self._on_progress = on_progress

    def fetch(self, call: Call) -> RawPage:
        began = time.monotonic()
        try:
            response = self._client.send(call)
        finally:
            self._tally.waiting_sec += time.monotonic() - began
            self._tally.requests += 1
        self._tally.remaining = calls.remaining(response)
        self._on_progress(self._tally)
        return calls.decode_body(response, _decode)
