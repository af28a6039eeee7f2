"""Small readers that follow the procedure of docs/sync.md one page at a time, so that anything may happen in between.

They keep what they read in memory, and do nothing that the procedure does not say.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sync.premises import Json, Premises

# Every bill of the tests that has a date lies within these windows.
WINDOWS = (("20251101", "20251201"), ("20251202", "20260101"), ("20260102", "20260201"))
EVER = "1970-01-01T00:00:00Z"
# A reader that pauses longer than this does not trust its cursor, as docs/sync.md says.
TRUST_MS = 36 * 3_600_000


class Stopped(Exception):
    """The reader has read to the end of its run."""


class Reader:
    """One client with one key: runs, each a generator that is advanced page by page."""

    def __init__(self, premises: Premises, key: str, limit: int) -> None:
        self.premises = premises
        self.key = key
        self.limit = limit
        self.bills: dict[tuple[str, str], Json] = {}
        self.marks: dict[str, str] = {}
        self.begun: dict[str, int] = {}
        self.number = 0
        self.at: tuple[str, str] | None = None
        self._run: Iterator[None] | None = None
        self._lose_next = False

    def step(self) -> None:
        """One page more; a new run begins when the last one is over."""
        self._run = self._run or self.run()
        if next(self._run, Stopped) is Stopped:
            self._run = None

    def step_to_a_cursor(self) -> None:
        """Until a page has offered a cursor, or to the end of the run."""
        self.at = None
        self.step()
        while self._run is not None and self.at is None:
            self.step()

    def lose_the_next_answer(self) -> None:
        """The next page is answered, but the answer does not arrive: the reader asks once more."""
        self._lose_next = True

    def finish(self) -> None:
        """To the end of the run under way, and then a whole one."""
        while self._run is not None:
            self.step()
        for _ in self.run():
            pass

    def run(self) -> Iterator[None]:
        shops = self.ask("shops")
        mark = shops["serverTime"]
        yield
        for shop in shops["data"]:
            shop_id = shop["shopId"]
            self.begun.setdefault(shop_id, self.number)
            for selection in self.selections(shop_id):
                yield from self.walk(shop_id, selection)
            self.marks[shop_id] = self.next_mark(mark)

    def next_mark(self, mark: str) -> str:
        """The time that was told before the first page."""
        return mark

    def selections(self, shop_id: str) -> list[Json]:
        if shop_id in self.marks:
            return [{"updatedSince": self.marks[shop_id]}]
        return [*({"from": first, "to": last} for first, last in WINDOWS), {"updatedSince": EVER}]

    def walk(self, shop_id: str, selection: Json) -> Iterator[None]:
        query = {"shopId": shop_id, "limit": self.limit, **selection}
        while True:
            asked_at = self.premises.clock.now_ms()
            page = self.ask("transactions", **query)
            if page.get("error") == "shop_not_in_scope":
                return
            if page.get("error") == "bad_cursor":
                query.pop("cursor")
                continue
            for bill in page["data"]:
                self.keep(bill)
            if page["nextCursor"] is None:
                return
            query["cursor"] = page["nextCursor"]
            self.at = (shop_id, page["nextCursor"])
            yield
            if self.premises.clock.now_ms() - asked_at > TRUST_MS:
                query.pop("cursor")

    def keep(self, bill: Json) -> None:
        """An older row never overwrites a newer one."""
        known = self.bills.get((bill["shopId"], bill["id"]))
        if known is None or known["updatedAt"] is None or _later(bill, known):
            self.bills[bill["shopId"], bill["id"]] = bill

    def ask(self, path: str, **query: Any) -> Json:
        if self._lose_next:
            self._lose_next = False
            self.premises.ask(self.key, path, **query)
        body = self.premises.ask(self.key, path, **query)
        assert body["ok"] or body["error"] in ("bad_cursor", "shop_not_in_scope"), body
        return body


class Forgetter(Reader):
    """A reader that keeps no cursors and no marks: it asks from the latest change it has seen in a shop on."""

    def selections(self, shop_id: str) -> list[Json]:
        if shop_id in self.marks:
            return [{"updatedSince": self._latest(shop_id)}]
        return super().selections(shop_id)

    def walk(self, shop_id: str, selection: Json) -> Iterator[None]:
        """Two pages at most, and the rest from the latest change seen."""
        if "updatedSince" not in selection or shop_id not in self.marks:
            yield from super().walk(shop_id, selection)
            return
        for _ in range(2):
            page = self.ask("transactions", shopId=shop_id, limit=self.limit, updatedSince=self._latest(shop_id))
            if page.get("error"):
                return
            for bill in page["data"]:
                self.keep(bill)
            if page["nextCursor"] is None:
                return
            yield
        yield from super().walk(shop_id, {"updatedSince": self._latest(shop_id)})

    def _latest(self, shop_id: str) -> str:
        seen = [bill["updatedAt"] for (shop, _), bill in self.bills.items() if shop == shop_id and bill["updatedAt"]]
        return max(seen, key=_instant, default=EVER)


def _later(bill: Json, known: Json) -> bool:
    return bill["updatedAt"] is not None and _instant(bill["updatedAt"]) > _instant(known["updatedAt"])


def _instant(written: str) -> datetime:
    return datetime.fromisoformat(written)
