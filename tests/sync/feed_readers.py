"""Readers that keep a copy up to date from the feed. Each step is one request; anything may happen between steps."""

from copy import copy
from typing import Any

from msgspec import Struct, field

from feed_copy import FeedCopy
from sync.in_process import InProcessService, Json
from sync.readers import MOST_STATES, Fate

# The most elements that a pass can have in these tests: every shop, every bill, and the removal of every bill.
MOST_ELEMENTS = 5 * (1 + 2 * 9)


class FeedState(Struct):
    """A reader's stored state: its copy, the mark of its last pass, and its position in the current pass."""

    copied: FeedCopy = field(default_factory=FeedCopy)
    mark: str | None = None
    cursor: str | None = None
    time: str = ""

    def __copy__(self) -> "FeedState":
        return FeedState(copy(self.copied), self.mark, self.cursor, self.time)


class FeedReader:
    """One client, whose key is bound to a shop or a franchise. Each step is one request."""

    def __init__(self, service: InProcessService, key: str, limit: int, *, shop: str = "", franchise: str = "") -> None:
        self.service = service
        self.key = key
        self.limit = limit
        self.shop, self.franchise = shop, franchise
        self.state = FeedState()
        self.expired_marks = 0
        self._history: list[FeedState] = []

    def covers(self, shop: Json) -> bool:
        return bool(shop["id"] == self.shop if self.shop else shop["franchiseId"] == self.franchise)

    def step(self, fate: Fate = "stored") -> None:
        """Read the next page. A new pass begins when the previous one has ended."""
        state = self.state
        self._history.append(copy(state))
        del self._history[:-MOST_STATES]
        query = {"since": state.mark, "cursor": state.cursor}
        page = self.ask(limit=self.limit, **{name: value for name, value in query.items() if value is not None})
        if page.get("error") == "mark_expired":
            self.state = FeedState()
            self.expired_marks += 1
            return
        assert page["ok"], page
        if fate == "lost":
            return
        state.copied.apply(page["data"])
        if fate == "half stored":
            return
        assert len(page["data"]) == self.limit or page["nextCursor"] is None, "a page before the last is not full"
        assert (page["mark"] is None) == (page["nextCursor"] is not None), (
            "the last page, and no other page, must have a mark"
        )
        assert not state.cursor or page["serverTime"] == state.time, "a later page has a different serverTime"
        state.cursor, state.time = page["nextCursor"], page["serverTime"]
        if state.cursor is None:
            state.mark = page["mark"]

    def go_back(self, choice: int) -> None:
        """Continue from an earlier state."""
        if self._history:
            self.state = copy(self._history[choice % len(self._history)])

    def finish(self) -> None:
        """Finish the current pass, then make another pass. Nothing else happens in the meantime."""
        self.make_pass()
        self.make_pass()

    def make_pass(self) -> None:
        """Read to the end of a pass. A reader whose mark has expired begins again without a mark."""
        self.step()
        for _ in range(2 * MOST_ELEMENTS // self.limit + 4):
            if self.state.cursor is None and self.state.mark is not None:
                return
            self.step()
        raise AssertionError("the pass through the feed does not end")

    def ask(self, **query: Any) -> Json:
        return self.service.ask(self.key, "changes", **query)
