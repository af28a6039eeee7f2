"""Tests for situations that every connector must handle.

All tests of a connector share one service and one copy. At the end of each test,
the copy equals the service's data, so the order of the tests does not matter.
"""

import json
import subprocess
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import records as r
from client import expected
from client.copy_contents import PERSONAL, Json, assert_same, plain
from client.scripted_service import Answer
from connectors.tests.connector import PAGE_SIZE, Connector, cpu_seconds, kill, proxy
from feed_copy import FeedCopy
from running_service import RunningService
from waiting import until

FRANCHISE = "franchise-of-the-copy"
PLENTY = 1_000_000
# Enough bills for at least three pages of the feed.
BILLS = 3 * PAGE_SIZE
DAY_SEC = 86_400
QUOTA = 100
TEL, EMAIL = "0899999999", "nobody.in.a.log@example.com"


class World:
    """A service, and a connector that keeps a copy of one franchise."""

    def __init__(self, folder: Path, connector: type[Connector]) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.service = RunningService(folder)
        self.branches = [r.branch(franchiseId=FRANCHISE, providerId="base-1") for _ in range(3)]
        self.sold = [bill for branch in self.branches for bill in r.bills(branch, BILLS // 3)]
        self.members = r.members("base-1", 5)
        self.load(*self.branches, r.base("base-1"), *self.members, *self.sold, *self.odd_bills())
        self.key = self.service.key(franchise=FRANCHISE, per_min=PLENTY, per_day=PLENTY)
        self.copy = connector(folder / "copy", self.url, self.key)

    @property
    def url(self) -> str:
        return f"{self.service.url}/ext/v1"

    def odd_bills(self) -> list[r.Record]:
        """Return bills that lists by day do not return, or whose values are easily corrupted."""
        of = self.branches[0]
        return [
            r.bill(of, closedAt=None, history=True),
            r.bill(of, closedAt=None),
            r.bill(of, cashier='ไก่ "the, rooster"\\', amounts={"subtotal": 0.1, "net": 1234567.89, "tip": 0.2}),
            r.bill(of, lines=[r.line(qty=0.333, categoryIds=[]), r.line(name="2026-01-01T00:00:00Z")]),
            r.bill(of, lines=[], payments=[], cashier=None),
        ]

    def load(self, *records: r.Record) -> None:
        self.service.clock.advance(1)
        self.service.load(*records)
        self.service.ledger.advance_horizon()

    def next_day(self) -> None:
        self.service.clock.advance(DAY_SEC)
        self.service.ledger.advance_horizon()

    def assert_equal(self) -> None:
        """Compare the whole copy with the data that the service returns to another key."""
        other = self.service.key(franchise=FRANCHISE, per_min=PLENTY, per_day=PLENTY)

        def ask(path: str, **query: Any) -> Json:
            body: Json = self.service.get_unchecked(path, other, **query).json()
            assert body["ok"], body
            return body

        feed = FeedCopy()
        cursor: dict[str, str] = {}
        while True:
            page = ask("changes", limit=1000, **cursor)
            feed.apply(page["data"])
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
        shops = expected.shops(ask)
        bases = {shop["providerId"] for shop in shops.values()} - {None}
        # A copy has the columns for personal data even if the key may not read them.
        hidden = dict.fromkeys(PERSONAL)
        members = {token: hidden | member for base in bases for token, member in expected.members(ask, base).items()}
        assert_same(self.copy.shops(), shops)
        bills = {identity: plain(bill) for identity, bill in feed.bills.items()}
        assert_same(self.copy.bills(), bills | self.copy.bills_of_shops_that_left)
        assert_same(self.copy.members(), members)

    def leave(self, shop: r.Record) -> None:
        """Move a shop to another franchise. Its bills stay in the copy."""
        own = {identity: bill for identity, bill in self.copy.bills().items() if identity[0] == shop["id"]}
        self.copy.bills_of_shops_that_left |= own
        self.load(shop | {"franchiseId": "another-franchise"})

    def come_back(self, shop: r.Record) -> None:
        kept = self.copy.bills_of_shops_that_left
        self.copy.bills_of_shops_that_left = {key: bill for key, bill in kept.items() if key[0] != shop["id"]}
        self.load(shop)

    def sell(self, number: int = BILLS) -> list[r.Record]:
        """Load new bills for all branches; return them."""
        sold = [bill for branch in self.branches for bill in r.bills(branch, number // 3)]
        self.load(*sold)
        return sold


def feed_requests(paths: list[str]) -> list[str]:
    return [path for path in paths if "/changes" in path]


def at_feed_page(number: int, action: Callable[[], Answer | None]) -> Callable[[str], Answer | None]:
    """Return a hook for `proxy` that calls `action` once, before the feed request with this number."""
    seen = 0

    def happens(path: str) -> Answer | None:
        nonlocal seen
        seen += "/changes" in path
        return action() if "/changes" in path and seen == number else None

    return happens


def has_worked(process: "subprocess.Popen[str]", seconds: float) -> bool:
    """Return whether a process has ended, or has used this much CPU time together with its children."""
    return process.poll() is not None or cpu_seconds(process.pid) >= seconds


def refusal(error: str, **headers: str) -> Answer:
    body = {"ok": False, "error": error, "message": "Wait.", "retryAfterSec": 1, "limit": PLENTY, "windowSec": 60}
    return 429, {"content-type": "application/json", **headers}, json.dumps(body).encode()


class ConnectorTests:
    """The tests that all connectors share. A subclass names the connector."""

    connector: ClassVar[type[Connector]]

    def test_the_first_pass_copies_everything(self, world: World) -> None:
        world.assert_equal()

    def test_every_bill_has_its_revenue(self, world: World) -> None:
        sold = [
            r.bill(world.branches[0], amounts={"net": 10.5}),
            r.bill(world.branches[0], amounts={"net": 20, "tip": 5}),
            r.bill(world.branches[0], amounts={"net": 20}, void={"reason": "mistake"}),
        ]
        world.load(*sold)
        world.copy.run()
        assert [world.copy.revenue(bill["id"]) for bill in sold] == [Decimal("10.5"), 15, 0]

    def test_a_pass_without_changes_reads_one_page_of_the_feed(self, world: World) -> None:
        world.copy.run()
        paths: list[str] = []
        with proxy(world.service, paths.append) as url:
            world.copy.run(url)
        assert len(feed_requests(paths)) == 1
        world.assert_equal()

    def test_additions_changes_voids_and_removals_are_copied(self, world: World) -> None:
        of = world.branches[1]
        kept, voided, removed, revived = world.sell(12)[:4]
        late = r.bill(of, closedAt=None, history=True)
        world.load(r.removal(revived))
        world.load(
            kept | {"cashier": "Ying"},
            voided | {"void": {"reason": "wrong table"}},
            r.removal(removed),
            revived | {"cashier": "Lek"},
            late,
            of | {"name": "Riverside, upstairs"},
            r.member("base-1"),
            r.removal(world.members.pop()),
        )
        world.copy.run()
        world.assert_equal()
        world.load(r.removal(kept), r.removal(late))
        world.copy.run()
        world.assert_equal()

    def test_a_change_during_a_pass_is_copied_in_this_pass_or_the_next(self, world: World) -> None:
        sold = world.sell()
        changed = [bill | {"cashier": "Som"} for bill in (sold[0], sold[-1])]

        def change() -> None:
            world.load(*changed, r.removal(sold[1]), r.removal(sold[-2]))

        with proxy(world.service, at_feed_page(2, change)) as url:
            world.copy.run(url)
        world.copy.run()
        world.assert_equal()

    def test_a_connector_that_is_killed_between_two_pages_loses_nothing(self, world: World) -> None:
        sold = world.sell()
        world.load(r.removal(sold[0]))
        running: list[subprocess.Popen[str]] = []

        def strike() -> Answer:
            kill(running[0])
            return refusal("rate_limited")

        with proxy(world.service, at_feed_page(2, strike)) as url:
            running.append(world.copy.start(url))
            until(lambda: running[0].poll() is not None, "the connector was killed", 120)
        world.copy.run()
        world.assert_equal()

    def test_a_connector_that_is_killed_at_any_moment_loses_nothing(self, world: World) -> None:
        world.sell()
        whole = world.copy.cpu_seconds_of_a_pass()
        for share in (0.6, 0.8, 0.9):
            sold = world.sell()
            world.load(r.removal(sold[0]), sold[1] | {"cashier": f"Nok {share}"})
            process = world.copy.start()
            until(partial(has_worked, process, share * whole), "the connector has worked", 120)
            kill(process)
        world.copy.run()
        world.assert_equal()

    def test_a_shop_that_joins_leaves_and_returns_is_copied_exactly(self, world: World) -> None:
        joining = r.branch(franchiseId=FRANCHISE, providerId="base-2")
        sold = r.bills(joining, 5)
        world.load(joining, r.base("base-2"), r.member("base-2"), *sold)
        world.copy.run()
        world.assert_equal()
        assert world.copy.scope(joining["id"]) == (True, None)
        world.leave(joining)
        world.copy.run()
        world.assert_equal()
        in_scope, complete_until = world.copy.scope(joining["id"])
        assert not in_scope
        assert complete_until
        # While the shop is not in the franchise, changes to its bills are not in the feed of the franchise.
        world.load(r.removal(sold[0]), sold[1] | {"cashier": "Fah"}, r.bill(joining))
        world.copy.run()
        assert world.copy.scope(joining["id"]) == (False, complete_until), "its time does not stand still"
        world.assert_equal()
        world.come_back(joining)
        world.copy.run()
        world.assert_equal()
        assert world.copy.scope(joining["id"]) == (True, None)
        # A closed shop is no longer listed, but its bills can still be read.
        world.load(r.removal(joining))
        world.copy.run()
        world.assert_equal()

    def test_a_connector_waits_as_long_as_retry_after_says(self, world: World) -> None:
        world.sell()
        with proxy(world.service, at_feed_page(2, lambda: refusal("rate_limited", **{"retry-after": "1"}))) as url:
            world.copy.run(url)
        world.assert_equal()

    def test_a_connector_stops_when_the_quota_is_used_up_and_continues_the_next_day(self, world: World) -> None:
        key = world.service.key(franchise=FRANCHISE, per_min=PLENTY, per_day=QUOTA)
        copy = self.connector(world.folder / "short-of-quota", world.url, key)
        for _ in range(QUOTA - 4):
            world.service.get_unchecked("shops", key)
        paths: list[str] = []
        with proxy(world.service, paths.append) as url:
            status, printed = copy.attempt(url)
        assert status != 0
        assert "quota_exceeded" in printed
        assert len(paths) < 10, "the connector keeps sending requests after quota_exceeded"
        world.next_day()
        copy.run()
        self.assert_copy_equal(world, copy)

    def test_a_rotated_key_continues_the_copy(self, world: World) -> None:
        world.sell(6)
        world.copy.key = world.key = world.service.rotated(world.key)
        paths: list[str] = []
        with proxy(world.service, paths.append) as url:
            world.copy.run(url)
        assert len(feed_requests(paths)) == 1, "the copy started from the beginning"
        world.assert_equal()

    def test_a_copy_whose_mark_has_expired_is_read_again_in_full(self, world: World) -> None:
        leaving = r.branch(franchiseId=FRANCHISE, providerId="base-1")
        sold = world.sell(6)
        world.load(leaving, *r.bills(leaving, 2))
        world.copy.run()
        world.leave(leaving)
        world.load(r.removal(sold[0]))
        world.service.clock.advance(401 * DAY_SEC)
        world.service.ledger.advance_horizon()
        world.service.ledger.prune_removals()
        world.copy.run()
        world.assert_equal()

    def test_a_copy_whose_database_was_replaced_by_an_empty_one_is_read_again_in_full(self, world: World) -> None:
        world.copy.replace_target()
        world.copy.bills_of_shops_that_left = {}
        world.copy.run()
        world.assert_equal()

    def test_a_copy_that_has_lost_bills_is_read_again_in_full(self, world: World) -> None:
        leaving = r.branch(franchiseId=FRANCHISE, providerId="base-1")
        world.load(leaving, *r.bills(leaving, 2))
        world.copy.run()
        world.leave(leaving)
        world.copy.run()
        world.copy.lose_bills([leaving["id"]])
        world.copy.bills_of_shops_that_left = {
            key: bill for key, bill in world.copy.bills_of_shops_that_left.items() if key[0] == leaving["id"]
        }
        assert "starts from the beginning" in world.copy.run()
        world.assert_equal()

    def test_a_key_of_another_company_is_refused_and_changes_nothing(self, world: World) -> None:
        other = r.branch(franchiseId="another-company", providerId="base-of-another-company")
        world.load(other, r.bill(other), r.base("base-of-another-company"), r.member("base-of-another-company"))
        world.copy.run()
        world.copy.key = world.service.key(franchise="another-company", per_min=PLENTY)
        status, printed = world.copy.attempt()
        assert status != 0
        assert "made with another key" in printed
        assert world.copy.if_the_key_is_another in printed
        assert "Traceback" not in printed, printed
        # The key belongs to the same company, but the copy was not made with it.
        world.copy.key = world.key = world.service.key(franchise=FRANCHISE, per_min=PLENTY, per_day=PLENTY)
        assert world.copy.attempt()[0] != 0
        world.assert_equal()
        world.copy.run("", "--adopt")
        world.assert_equal()

    def test_a_franchise_without_bills_can_be_copied(self, world: World) -> None:
        world.load(r.branch(franchiseId="new-franchise"))
        key = world.service.key(franchise="new-franchise", per_min=PLENTY)
        copy = self.connector(world.folder / "without-bills", world.url, key)
        copy.run()
        assert len(copy.shops()) == 1

    def test_the_copy_has_no_members_after_all_are_removed(self, world: World) -> None:
        world.load(*(r.removal(member) for member in world.members))
        world.members = [r.member("base-1")]
        world.load(*world.members)
        world.copy.run()
        world.assert_equal()

    def test_personal_data_is_copied_but_not_logged(self, world: World) -> None:
        world.load(r.member("base-1", tel=TEL, email=EMAIL))
        key = world.service.key(franchise=FRANCHISE, per_min=PLENTY, per_day=PLENTY, personal_data=True)
        copy = self.connector(world.folder / "personal", world.url, key)
        printed = copy.run()
        assert TEL in {member["tel"] for member in copy.members().values()}
        assert TEL not in printed
        assert EMAIL not in printed
        assert key not in printed
        world.copy.run()

    def assert_copy_equal(self, world: World, copy: Connector) -> None:
        kept, world.copy = world.copy, copy
        try:
            world.assert_equal()
        finally:
            world.copy = kept
