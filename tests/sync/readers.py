"""Small readers that follow the procedure in docs/own-client.md one request at a time; anything may happen in between.

They keep in memory the bills they have read, and do only what the procedure says. A
reader's stored state is one value, so a test can take any earlier value and let the
reader continue from it, as it would after a crash or a restore
from a backup.
"""

from collections.abc import Callable
from copy import copy
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field, json

from sync.in_process import InProcessService, Json

# All dated bills in the tests fall within these windows.
WINDOWS = (("20251101", "20251201"), ("20251202", "20260101"), ("20260102", "20260201"))
EVER = "1970-01-01T00:00:00Z"
# The number of recent states that a reader can go back to.
MOST_STATES = 60
# No list in the tests ever has more rows than this.
MOST_ROWS = 9

# What happens to a response: it is stored, it is lost, or its rows are stored but not its cursor.
Fate = Literal["stored", "lost", "half stored"]
Lists = list[tuple[str, Json]]


class ReaderState(Struct):
    """A copy of the bills, and its marks. Two readers may share one state."""

    bills: dict[tuple[str, str], Json] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)

    def __copy__(self) -> "ReaderState":
        return ReaderState(dict(self.bills), dict(self.marks), dict(self.begun))


class Pass(Struct):
    """A reader's progress in one list. `first_time` is the serverTime of the first page."""

    cursor: str | None = None
    first_time: str = ""
    last_time: str = ""
    seen: frozenset[bytes] = frozenset()


class Progress(Struct):
    """A reader's progress in its run: the lists that remain to be read, and the pass through the first of them."""

    mark: str = ""
    lists: Lists = field(default_factory=list)
    current: Pass = field(default_factory=Pass)
    times: dict[str, list[str]] = field(default_factory=dict)
    restarts: int = 0
    refusals: int = 0

    def __copy__(self) -> "Progress":
        times = {shop_id: list(told) for shop_id, told in self.times.items()}
        return Progress(self.mark, list(self.lists), copy(self.current), times, self.restarts, self.refusals)


class Reader:
    """One client with one key. Each step is one request."""

    def __init__(self, service: InProcessService, key: str, limit: int, store: ReaderState | None = None) -> None:
        self.service = service
        self.key = key
        self.limit = limit
        self.number = 0
        self.at: tuple[str, str] | None = None
        self.shares_store = store is not None
        self.store = ReaderState() if store is None else store
        self.progress = Progress()
        self._history: list[tuple[Progress, ReaderState | None]] = []

    @property
    def running(self) -> bool:
        return bool(self.progress.lists)

    @property
    def bills(self) -> dict[tuple[str, str], Json]:
        return self.store.bills

    @property
    def begun(self) -> dict[str, int]:
        return self.store.begun

    # --- one request ------------------------------------------------------------------

    def step(self, fate: Fate = "stored") -> None:
        """Send the next request of the run. A new run begins when the previous one has ended."""
        self._history.append((copy(self.progress), None if self.shares_store else copy(self.store)))
        del self._history[:-MOST_STATES]
        self.at = None
        if self.running:
            self._read_page(fate)
        else:
            self._begin(fate)

    def go_back(self, choice: int) -> None:
        """Continue from an earlier state. If the bills and marks are shared with another reader, they are not reset."""
        if self._history:
            progress, store = self._history[choice % len(self._history)]
            self.progress = copy(progress)
            if store is not None:
                self.store = copy(store)

    def take_earlier_marks(self, other: "Reader") -> None:
        """Adopt the other reader's marks if they are earlier, so that both read the same lists."""
        for shop_id, mark in other.store.marks.items():
            if shop_id in self.store.marks and _instant(mark) <= _instant(self.store.marks[shop_id]):
                self.store.marks[shop_id] = mark

    def start_from_a_copy_of(self, other: "Reader") -> None:
        """Continue as a second job that was given the other reader's stored state. It restarts the current list."""
        if not self.shares_store:
            self.store, self.progress = copy(other.store), copy(other.progress)
            self.progress.current = Pass()
            self._history.clear()

    def step_to_a_cursor(self) -> None:
        """Step until a page returns a cursor or the run ends."""
        self.step()
        while self.running and self.at is None:
            self.step()

    def finish(self) -> None:
        """Finish the current run, and then run once more. Nothing else happens in the meantime."""
        self._run_to_the_end()
        self.step()
        self._run_to_the_end()

    def _run_to_the_end(self) -> None:
        # A list is read again if its cursor has expired, and up to three times until replicas have caught up.
        most = 5 * (len(self.progress.lists) + 1) * (MOST_ROWS // self.limit + 3)
        for _ in range(most):
            if not self.running:
                return
            self.step()
        raise AssertionError(f"the run does not end within {most} pages")

    # --- the procedure -----------------------------------------------------------------

    def _begin(self, fate: Fate) -> None:
        shops = self.ask("shops")
        if fate != "stored":
            return
        lists: Lists = []
        for shop in shops["data"]:
            shop_id = shop["shopId"]
            self.store.begun.setdefault(shop_id, self.number)
            lists += [(shop_id, selection) for selection in self.selections(shop_id)]
        self.progress = Progress(shops["serverTime"], lists)

    def selections(self, shop_id: str) -> list[Json]:
        if shop_id in self.store.marks:
            return [{"updatedSince": self.store.marks[shop_id]}]
        return [*({"from": first, "to": last} for first, last in WINDOWS), {"updatedSince": EVER}]

    def _read_page(self, fate: Fate) -> None:
        progress = self.progress
        shop_id, selection = progress.lists[0]
        cursor = {"cursor": progress.current.cursor} if progress.current.cursor else {}
        page = self.ask("transactions", shopId=shop_id, limit=self.limit, **selection, **cursor)
        if fate == "lost":
            return
        if page.get("error") == "bad_cursor":
            assert cursor, "a request without a cursor was refused with bad_cursor"
            progress.current = Pass()
            # A replica that does not know the removal of a bill hands out its cursor, which the others refuse.
            self.pause(progress.refusals)
            progress.refusals += 1
            return
        if page.get("error") == "shop_not_in_scope":
            progress.lists = [each for each in progress.lists if each[0] != shop_id]
            progress.current = Pass()
            return
        for bill in page["data"]:
            self.keep(bill)
        if fate == "stored":
            check_page(progress.current, page, self.limit, by_change="updatedSince" in selection)
            self._store_cursor(shop_id, page)

    def pause(self, refusals: int) -> None:
        """Pause before a list is started again, as docs/own-client.md says."""
        self.service.pause(min(60, 2**refusals))

    def _store_cursor(self, shop_id: str, page: Json) -> None:
        if page["nextCursor"] is not None:
            self.at = (shop_id, page["data"][-1]["id"])
            self.progress.current.cursor = page["nextCursor"]
            self.after_full_page(shop_id)
            return
        progress = self.progress
        progress.times.setdefault(shop_id, []).append(progress.current.last_time)
        progress.lists.pop(0)
        progress.current = Pass()
        progress.restarts = progress.refusals = 0
        if not any(other == shop_id for other, _ in progress.lists):
            self.store.marks[shop_id] = self.next_mark(progress.mark)

    def after_full_page(self, shop_id: str) -> None:
        """A hook for actions between two pages of a list."""

    def next_mark(self, mark: str) -> str:
        """Return the next mark: the serverTime of the list of shops, which was read before the first page."""
        return mark

    def keep(self, bill: Json) -> None:
        """Store a bill unless a newer version of it is already stored."""
        known = self.bills.get((bill["shopId"], bill["id"]))
        if known is None or known["updatedAt"] is None or _later(bill, known):
            self.bills[bill["shopId"], bill["id"]] = bill

    def ask(self, path: str, **query: Any) -> Json:
        body = self.service.ask(self.key, path, **query)
        assert body["ok"] or body["error"] in ("bad_cursor", "shop_not_in_scope", "provider_not_in_scope"), body
        return body


class FinalTimeReader(Reader):
    """A reader whose mark is the earliest `serverTime` on the last pages of a shop's lists."""

    def next_mark(self, mark: str) -> str:  # noqa: ARG002 - this reader ignores the usual mark
        shop_id = next(reversed(self.progress.times))
        return min(self.progress.times[shop_id], key=_instant)


class StatelessReader(Reader):
    """A reader that, instead of a mark, uses the time of the latest change that it has seen in a shop."""

    def selections(self, shop_id: str) -> list[Json]:
        if shop_id in self.store.marks:
            return [{"updatedSince": self._latest(shop_id)}]
        return super().selections(shop_id)

    def after_full_page(self, shop_id: str) -> None:
        """Drop the cursor after each of the first two full pages. Read the rest by cursor, so that the run ends."""
        progress = self.progress
        if shop_id in self.store.marks and progress.restarts < 2:
            progress.restarts += 1
            progress.lists[0] = (shop_id, {"updatedSince": self._latest(shop_id)})
            progress.current = Pass()

    def _latest(self, shop_id: str) -> str:
        seen = [bill["updatedAt"] for (shop, _), bill in self.bills.items() if shop == shop_id and bill["updatedAt"]]
        return max(seen, key=_instant, default=EVER)


class MemberPass(Struct):
    """A pass through a base: the members read so far, and the number of the latest load when the pass began."""

    base: str
    number: int
    current: Pass = field(default_factory=Pass)
    members: dict[str, Json] = field(default_factory=dict)

    def __copy__(self) -> "MemberPass":
        return MemberPass(self.base, self.number, copy(self.current), dict(self.members))


class MemberReader:
    """A client that reads every base in full by cursor, one base at a time."""

    def __init__(self, service: InProcessService, key: str, limit: int, bases: tuple[str, ...]) -> None:
        self.service = service
        self.key = key
        self.limit = limit
        self.number = 0
        self.at: str | None = None
        self._bases = bases
        self._turn = 0
        self._pass: MemberPass | None = None
        self._history: list[MemberPass] = []

    def step(self, finished: Callable[[MemberPass], None], fate: Fate = "stored") -> None:
        """Read the next page. `finished` is called with every completed pass."""
        if self._pass is None:
            self._turn += 1
            self._pass = MemberPass(self._bases[self._turn % len(self._bases)], self.number)
        here = self._pass
        self._history.append(copy(here))
        del self._history[:-MOST_STATES]
        cursor = {"cursor": here.current.cursor} if here.current.cursor else {}
        page = self.service.ask(self.key, "members", providerId=here.base, limit=self.limit, **cursor)
        assert page["ok"] or page["error"] in ("bad_cursor", "provider_not_in_scope"), page
        self.at = None
        if not page["ok"]:
            self._pass = None
            return
        if fate == "lost":
            return
        here.members |= {member["memberId"]: member for member in page["data"]}
        if fate == "half stored":
            return
        check_page(here.current, page, self.limit, by_change=False)
        here.current.cursor = page["nextCursor"]
        if page["nextCursor"] is None:
            self._pass = None
            finished(here)
        else:
            self.at = page["data"][-1]["memberId"]

    def go_back(self, choice: int) -> None:
        if self._history:
            self._pass = copy(self._history[choice % len(self._history)])

    @property
    def base(self) -> str | None:
        """Return the base of the current pass, or None between passes."""
        return self._pass.base if self._pass else None

    def read_base(self, base: str, finished: Callable[[MemberPass], None]) -> None:
        """Read a base from its start to its end. Nothing else happens in the meantime."""
        self._pass = MemberPass(base, self.number)
        for _ in range(MOST_ROWS // self.limit + 2):
            if self._pass is None:
                return
            self.step(finished)
        raise AssertionError("the pass through a base does not end")


def check_page(current: Pass, page: Json, limit: int, *, by_change: bool) -> None:
    """Check a page against the earlier pages of its pass, and record it."""
    told = page["serverTime"]
    if not current.first_time:
        current.first_time = told
    if not by_change:
        assert _instant(told) <= _instant(current.first_time), "a later page has a later serverTime than the first"
    current.last_time = told
    if page["nextCursor"] is not None:
        assert len(page["data"]) == limit, "a page that is followed by another one is not full"
    rows = [json.encode(row) for row in page["data"]]
    twice = current.seen.intersection(rows)
    assert not twice and len(set(rows)) == len(rows), f"a row came twice within one pass: {twice}"  # noqa: PT018 - one message for both
    current.seen = current.seen.union(rows)


def _later(bill: Json, known: Json) -> bool:
    return bill["updatedAt"] is not None and _instant(bill["updatedAt"]) > _instant(known["updatedAt"])


def _instant(written: str) -> datetime:
    return datetime.fromisoformat(written)
