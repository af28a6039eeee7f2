"""Tests for the feed on every back end: which elements a pass returns, and which it leaves for the next pass."""

import json
from collections.abc import Iterator

import pytest

from counterfoil.domain import change_feed
from counterfoil.domain.access import Scope
from counterfoil.domain.change_feed import BEGINNING, REMOVALS_KEPT_MS, FeedPosition, Window
from counterfoil.ports import Slice
from feed_copy import FeedCopy, Json
from ports.open_store import OpenStore, bill, gone, shop
from running_service import ManualClock

FRANCHISE = Scope("franchise", "fr_a")
ONE_SHOP = Scope("shop", "sh_1")
BOTH = pytest.mark.parametrize("scope", [FRANCHISE, ONE_SHOP], ids=["franchise", "shop"])


class Feed:
    """A client that makes one pass after another through the feed and keeps a copy."""

    def __init__(self, open_store: OpenStore, scope: Scope = FRANCHISE, limit: int = 1000) -> None:
        self.open_store, self.scope, self.limit = open_store, scope, limit
        self.copy = FeedCopy()
        self.mark = BEGINNING
        self.after: FeedPosition | None = None
        self.window: Window | None = None

    def page(self) -> list[Json]:
        """Read and store the next page. The mark advances only at the end of a pass."""
        if self.window is None:
            self.window = Window(self.mark, self.open_store.horizon())
        found = self.open_store.books.changes(self.scope, self.window, Slice(self.limit, self.after))
        elements = [json.loads(element) for element in found.elements]
        self.copy.apply(elements)
        self.after = found.last
        if found.last is None:
            self.mark, self.window = self.window.until, None
        return elements

    def pages(self) -> Iterator[list[Json]]:
        yield self.page()
        while self.window is not None:
            yield self.page()

    def read(self) -> list[str]:
        """Make one pass; return a short description of each element."""
        return [short(element) for page in self.pages() for element in page]


def short(element: Json) -> str:
    row = element.get("id") or element.get("bill", {}).get("id")
    full = " in full" if element.get("full") else ""
    away = " left" if element.get("inScope") is False else ""
    return f"{element['type']} {element['shopId']}" + (f" {row}" if row else "") + full + away


@BOTH
def test_the_first_pass_returns_every_shop_and_bill(open_store: OpenStore, scope: Scope) -> None:
    open_store.put(shop("sh_1"), shop("sh_x", franchiseId="fr_x"))
    open_store.put(bill("b_1"), bill("b_2", closedAt=None), bill("b_x", "sh_x"))
    open_store.put(bill("b_3", history=True), bill("b_4", closedAt=None, history=True))
    assert Feed(open_store, scope).read() == [
        "shop sh_1 in full",
        "bill sh_1 b_3",
        "bill sh_1 b_4",
        "bill sh_1 b_1",
        "bill sh_1 b_2",
    ]


def test_an_element_has_the_same_object_as_the_lists(shop_store: OpenStore) -> None:
    shop_store.put(bill("b_1", amounts={"net": 0.3}))
    feed = Feed(shop_store)
    feed.read()
    assert feed.copy.bills == {("sh_1", "b_1"): shop_store.bill("b_1")}
    assert list(feed.copy.shops.values()) == [json.loads(body) for body in shop_store.books.shops(FRANCHISE).bodies]


@BOTH
def test_a_later_pass_returns_what_changed(shop_store: OpenStore, scope: Scope) -> None:
    shop_store.put(bill("b_1"), bill("b_2"), bill("b_3"))
    feed = Feed(shop_store, scope)
    feed.read()
    assert feed.read() == []
    shop_store.put(bill("b_2", void=True))
    shop_store.put(bill("b_4", history=True), gone(bill("b_3")), bill("b_1"))
    assert feed.read() == ["billRemoved sh_1 b_3", "bill sh_1 b_4", "bill sh_1 b_2"]
    assert feed.read() == []


@BOTH
def test_a_bill_loaded_as_history_after_the_mark_is_returned_without_a_date_too(
    shop_store: OpenStore, scope: Scope
) -> None:
    feed = Feed(shop_store, scope)
    feed.read()
    shop_store.put(bill("b_1", closedAt=None, history=True))
    assert feed.read() == ["bill sh_1 b_1"]
    assert feed.copy.bills["sh_1", "b_1"]["updatedAt"] is None


@BOTH
def test_a_removed_bill_that_is_loaded_again_is_returned(shop_store: OpenStore, scope: Scope) -> None:
    shop_store.put(bill("b_1"), bill("b_2"))
    feed = Feed(shop_store, scope)
    feed.read()
    shop_store.put(gone(bill("b_1")), gone(bill("b_2")))
    shop_store.put(bill("b_1", history=True))
    assert feed.read() == ["billRemoved sh_1 b_2", "bill sh_1 b_1"]
    shop_store.put(gone(bill("b_1")))
    assert feed.read() == ["billRemoved sh_1 b_1"]
    shop_store.put(bill("b_2"))
    assert feed.read() == ["bill sh_1 b_2"]


def test_one_id_in_two_shops_is_two_bills(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"))
    open_store.put(bill("b_1"), bill("b_1", "sh_2"))
    feed = Feed(open_store)
    feed.read()
    open_store.put(gone(bill("b_1", "sh_2")))
    assert feed.read() == ["billRemoved sh_2 b_1"]
    assert set(feed.copy.bills) == {("sh_1", "b_1")}


def test_a_shop_that_joins_is_returned_in_full_whatever_the_stamps_of_its_bills(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2", franchiseId="fr_b"))
    open_store.put(bill("b_1", "sh_2"), bill("b_2", "sh_2", history=True))
    feed = Feed(open_store)
    feed.read()
    open_store.put(shop("sh_2"))
    assert feed.read() == ["shop sh_2 in full", "bill sh_2 b_2", "bill sh_2 b_1"]
    # Each bill contains its franchise, so the bills of this shop are rewritten.
    open_store.rewrite()
    assert feed.read() == ["bill sh_2 b_1", "bill sh_2 b_2"]


def test_a_shop_that_leaves_is_reported_once_and_no_longer_read(shop_store: OpenStore) -> None:
    shop_store.put(bill("b_1"))
    feed, other = Feed(shop_store), Feed(shop_store, Scope("franchise", "fr_b"))
    feed.read(), other.read()
    shop_store.put(shop("sh_1", franchiseId="fr_b"))
    shop_store.put(bill("b_2"))
    assert feed.read() == ["shopRemoved sh_1 left"]
    assert feed.read() == []
    assert other.read() == ["shop sh_1 in full", "bill sh_1 b_1", "bill sh_1 b_2"]


def test_a_shop_that_left_and_returned_between_two_passes_is_returned_in_full(shop_store: OpenStore) -> None:
    shop_store.put(bill("b_1"), bill("b_2"))
    feed, other = Feed(shop_store), Feed(shop_store, Scope("franchise", "fr_b"))
    feed.read(), other.read()
    shop_store.put(shop("sh_1", franchiseId="fr_b"))
    shop_store.put(gone(bill("b_1")))
    shop_store.put(shop("sh_1"))
    assert feed.read() == ["shop sh_1 in full", "bill sh_1 b_2"]
    assert set(feed.copy.bills) == {("sh_1", "b_2")}
    assert other.read() == ["shopRemoved sh_1 left"]


@BOTH
def test_a_closed_shop_is_reported_and_its_bills_are_still_followed(shop_store: OpenStore, scope: Scope) -> None:
    shop_store.put(bill("b_1"))
    feed = Feed(shop_store, scope)
    feed.read()
    shop_store.put(gone(shop("sh_1")))
    shop_store.put(bill("b_1", void=True))
    assert feed.read() == ["shopRemoved sh_1", "bill sh_1 b_1"]
    assert Feed(shop_store, scope).read() == ["shopRemoved sh_1 in full", "bill sh_1 b_1"]
    shop_store.put(shop("sh_1"))
    assert feed.read() == ["shop sh_1"]


def test_a_shop_loaded_after_the_first_pass_of_its_key_is_returned_in_full(open_store: OpenStore) -> None:
    feed = Feed(open_store, ONE_SHOP)
    assert feed.read() == []
    open_store.put(shop("sh_1"))
    open_store.put(bill("b_1", history=True))
    assert feed.read() == ["shop sh_1 in full", "bill sh_1 b_1"]


@BOTH
def test_a_shop_whose_entry_changes_is_returned(shop_store: OpenStore, scope: Scope) -> None:
    feed = Feed(shop_store, scope)
    feed.read()
    shop_store.put(shop("sh_1", rev=2))
    assert feed.read() == []
    shop_store.put(shop("sh_1", name="Riverside 2", rev=3))
    assert feed.read() == ["shop sh_1"]


def test_all_bills_that_are_rewritten_in_small_batches_are_returned(shop_store: OpenStore) -> None:
    shop_store.put(*(bill(f"b_{number}", history=number % 2 == 0) for number in range(7)))
    feed = Feed(shop_store, limit=2)
    feed.read()
    shop_store.put(shop("sh_1", timezone="Asia/Tokyo"))
    returned: list[str] = []
    while shop_store.ledger.rewrite_bills(2):
        returned += feed.read()
    assert returned == ["shop sh_1", *(f"bill sh_1 b_{number}" for number in range(7))]
    assert feed.copy.bills == {("sh_1", f"b_{number}"): shop_store.bill(f"b_{number}") for number in range(7)}


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_pages_of_any_size_return_each_element_once(open_store: OpenStore, limit: int) -> None:
    shops = [shop(f"sh_{number:02}") for number in range(9)]
    open_store.put(*shops)
    every = [bill(f"b_{number}", of["id"], history=number == 2) for of in shops[::2] for number in range(4)]
    open_store.put(*every)
    feed = Feed(open_store, limit=limit)
    pages = list(feed.pages())
    assert all(len(page) == limit for page in pages[:-1])
    elements = [short(element) for page in pages for element in page]
    assert len(elements) == len(set(elements)) == len(shops) + len(every)
    open_store.put(gone(every[0]), bill("b_1", "sh_02", void=True), bill("b_9", "sh_08"))
    assert feed.read() == ["billRemoved sh_00 b_0", "bill sh_02 b_1", "bill sh_08 b_9"]


@pytest.mark.parametrize("limit", [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)])
def test_a_change_between_two_pages_is_in_this_pass_or_the_next(open_store: OpenStore, limit: int) -> None:
    happenings: list[list[Json]] = [
        [bill("b_0", void=True)],
        [gone(bill("b_1"))],
        [bill("b_8", history=True)],
        [shop("sh_3"), shop("sh_2", name="Old Town")],
        [shop("sh_1", franchiseId="fr_b")],
        [gone(bill("b_3")), bill("b_1", "sh_2", cashier="Nok")],
        [shop("sh_1")],
        [bill("b_3", history=True), bill("b_3", "sh_3")],
        [gone(shop("sh_2"))],
    ]
    for start in range(len(happenings)):
        store_shop = [shop("sh_1"), shop("sh_2"), gone(shop("sh_3"))]
        open_store.put(*store_shop)
        open_store.put(*(bill(f"b_{number}", of) for of in ("sh_1", "sh_2") for number in range(5)))
        feed = Feed(open_store, limit=limit)
        for happening in happenings[start:]:
            feed.page()
            open_store.put(*happening)
        for _ in feed.pages():
            pass
        feed.read()
        fresh = Feed(open_store)
        fresh.read()
        assert feed.copy.bills == fresh.copy.bills
        assert feed.copy.shops == fresh.copy.shops
        open_store.rewrite()


def test_requesting_a_page_again_loses_nothing(shop_store: OpenStore) -> None:
    shop_store.put(*(bill(f"b_{number}") for number in range(6)))
    feed = Feed(shop_store, limit=2)
    feed.page()
    window, after = feed.window, feed.after
    feed.page()
    shop_store.put(bill("b_2", void=True), gone(bill("b_4")))
    feed.window, feed.after = window, after
    for _ in feed.pages():
        pass
    feed.read()
    assert {bill_id for _, bill_id in feed.copy.bills} == {"b_0", "b_1", "b_2", "b_3", "b_5"}
    assert feed.copy.bills["sh_1", "b_2"]["status"] == "void"


def test_a_pass_ends_however_much_changes(shop_store: OpenStore) -> None:
    shop_store.put(*(bill(f"b_{number}") for number in range(5)))
    feed = Feed(shop_store, limit=1)
    for number in range(20):
        feed.page()
        if feed.window is None:
            break
        shop_store.put(bill(f"b_{number % 5}", cashier=f"Nok {number}"))
    assert feed.window is None


def test_a_page_ends_early_when_it_has_too_many_bytes(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "MAX_PAGE_BYTES", 2_000)
    open_store.put(shop("sh_1"))
    open_store.put(*(bill(f"b_{number}", cashier="x" * 1_000) for number in range(5)))
    feed = Feed(open_store)
    pages = list(feed.pages())
    assert all(0 < len(page) <= 3 for page in pages[:-1])
    assert set(feed.copy.bills) == {("sh_1", f"b_{number}") for number in range(5)}


def test_old_removals_are_deleted_and_marks_from_before_them_are_known_to_be_too_old(
    shop_store: OpenStore, clock: ManualClock
) -> None:
    shop_store.put(bill("b_1"), bill("b_2"))
    shop_store.put(gone(bill("b_1")))
    removed_at = shop_store.horizon()
    clock.advance(86_400)
    shop_store.put(gone(bill("b_2")))
    clock.advance(REMOVALS_KEPT_MS / 1000 - 86_400 + 1)
    shop_store.ledger.advance_horizon()
    assert oldest(shop_store) == 0
    assert shop_store.ledger.prune_removals() == 1
    assert removed_at <= oldest(shop_store) == shop_store.horizon() - REMOVALS_KEPT_MS
    assert shop_store.ledger.prune_removals() == 0
    feed = Feed(shop_store)
    feed.mark = oldest(shop_store)
    assert feed.read() == ["billRemoved sh_1 b_2"]


def oldest(open_store: OpenStore) -> int:
    return int(open_store.books.changes(FRANCHISE, Window(BEGINNING, open_store.horizon()), Slice(5)).oldest)


def test_many_shops_with_few_changes_each_are_read(open_store: OpenStore) -> None:
    shops = [shop(f"sh_{number:03}") for number in range(150)]
    open_store.put(*shops)
    open_store.put(*(bill("b_1", of["id"]) for of in shops))
    feed = Feed(open_store, limit=40)
    assert len(feed.read()) == 300
    open_store.put(*(bill("b_1", of["id"], void=True) for of in shops[::3]))
    assert feed.read() == [f"bill {of['id']} b_1" for of in shops[::3]]


def test_a_shop_with_more_changes_than_one_statement_reads_comes_in_order(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"))
    for start in range(0, 450, 150):
        open_store.put(*(bill(f"b_{number:03}") for number in range(start, start + 150)), bill(f"b_{start}", "sh_2"))
    feed = Feed(open_store, limit=400)
    returned = feed.read()
    assert returned[1:451] == [f"bill sh_1 b_{number:03}" for number in range(450)]
    assert len(returned) == len(set(returned)) == 455


def test_a_scope_that_cannot_be_stored_is_empty(open_store: OpenStore) -> None:
    assert Feed(open_store, Scope("franchise", "fr\0a")).read() == []
