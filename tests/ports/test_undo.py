"""Tests for the undo of a load on every back end: what it takes back, what stays, and what readers learn of it."""

from decimal import Decimal
from typing import Any

import pytest

from counterfoil.checks.undoing import bills_of_load, take_back
from counterfoil.domain.changes import Outcome
from counterfoil.domain.replacements import ReplacementGuard
from counterfoil.domain.undo import UndoPreview, preview
from ports.open_store import OpenStore, bill, gone, shop
from ports.test_change_feed import Feed
from ports.test_digests import computed, digests

REASON = "Loaded by mistake"
BOTH_WAYS = pytest.mark.parametrize("reason", [None, REASON], ids=["removed", "void"])


class Loads:
    """Loads records with the number of a load, and takes loads back."""

    def __init__(self, open_store: OpenStore) -> None:
        self.open_store = open_store
        self._horizons: dict[int, int] = {}

    def load(self, *records: dict[str, Any], guard: ReplacementGuard | None = None) -> int:
        progress = self.open_store.ledger.begin_load("a file")
        self._horizons[progress.number] = self.open_store.horizon()
        self.outcomes = self.open_store.ledger.apply(
            [self.open_store.change(record) for record in records], progress, guard
        )
        return progress.number

    def preview(self, load: int) -> UndoPreview:
        reads, horizon = self.open_store.reads, self._horizons[load]
        bills = bills_of_load(reads, load, horizon)
        return preview(load, bills, reads.undone_loads(), reads.removed_by_load(load, horizon))

    def undo(self, load: int, reason: str | None) -> int:
        return take_back(self.open_store.reads, self.open_store.ledger, load, self._horizons[load], reason)


@pytest.fixture
def loads(shop_store: OpenStore) -> Loads:
    return Loads(shop_store)


def net(amount: float) -> dict[str, Any]:
    return {"amounts": {"net": amount}}


def nets(open_store: OpenStore, *bill_ids: str) -> list[float | None]:
    """Return the net of each bill that counts, and None for one that is void or does not exist."""
    found = [open_store.bill(bill_id) for bill_id in bill_ids]
    return [held["amounts"]["net"] if held and held["status"] != "void" else None for held in found]


@BOTH_WAYS
def test_the_bills_that_a_load_added_are_taken_back_and_every_reader_learns_what_it_can(
    shop_store: OpenStore, loads: Loads, reason: str | None
) -> None:
    loads.load(bill("b_1", **net(100)))
    feed = Feed(shop_store)
    wrong = loads.load(bill("b_2", **net(7)), bill("b_3", history=True, **net(8)))
    feed.read()
    told = shop_store.horizon()
    assert loads.undo(wrong, reason) == 2
    assert nets(shop_store, "b_1", "b_2", "b_3") == [100, None, None]
    feed.read()
    known = {"b_1"} if reason is None else {"b_1", "b_2", "b_3"}
    assert feed.copy.bills == {("sh_1", bill_id): shop_store.bill(bill_id) for bill_id in known}
    changed = [found["id"] for found in shop_store.by_change(since=told + 1)]
    assert sorted(changed) == ([] if reason is None else ["b_2", "b_3"])
    assert digests(shop_store) == computed(shop_store, {("sh_1", bill_id) for bill_id in known})
    if reason:
        assert shop_store.bill("b_2")["voidReason"] == REASON


@BOTH_WAYS
def test_a_bill_that_an_undone_load_had_changed_is_not_taken_back_with_the_load_that_corrected_it(
    shop_store: OpenStore, loads: Loads, reason: str | None
) -> None:
    first = loads.load(bill("b_1", **net(100)))
    wrong = loads.load(bill("b_1", **net(7)), bill("b_2", **net(7)))
    loads.undo(wrong, reason)
    right = loads.load(bill("b_1", **net(101)), bill("b_2", **net(102)))
    found = loads.preview(right)
    assert (found.taken_back, found.kept) == (1, {"changed": 1})
    assert [(kept.bill_id, kept.other_load) for kept in found.named] == [("b_1", first)]
    assert loads.undo(right, reason) == 1
    assert nets(shop_store, "b_1", "b_2") == [101, None]


def test_the_preview_says_what_is_taken_back_and_what_stays_and_why(shop_store: OpenStore, loads: Loads) -> None:
    first = loads.load(*(bill(bill_id, **net(100)) for bill_id in ("was", "gone", "same")))
    wrong = loads.load(
        bill("was", **net(1)),
        gone(bill("gone")),
        bill("same", **net(100)),
        bill("new", **net(2)),
        bill("void", void="Kitchen closed", **net(3)),
        bill("later", **net(4)),
        bill("again", **net(5)),
    )
    last = loads.load(bill("later", **net(44)), bill("again", **net(5)))
    found = loads.preview(wrong)
    assert (found.taken_back, found.removed) == (2, 1)
    assert [(day.shop_id, day.day, day.bills, day.net) for day in found.days] == [("sh_1", "2025-12-31", 2, Decimal(2))]
    named = {kept.bill_id: (kept.verdict, kept.other_load) for kept in found.named}
    assert named == {"was": ("changed", first), "later": ("changed_later", last), "again": ("delivered_again", last)}
    assert found.kept == {"changed": 1, "changed_later": 1, "delivered_again": 1}
    assert loads.undo(wrong, None) == 2
    assert nets(shop_store, "was", "same", "later", "again") == [1, 100, 44, 5]


@BOTH_WAYS
@pytest.mark.parametrize("is_export", [False, True], ids=["records", "export"])
def test_the_right_file_ends_with_what_it_says_whatever_the_wrong_one_was(
    shop_store: OpenStore, loads: Loads, reason: str | None, is_export: bool
) -> None:
    """The wrong file has higher revisions, other bills under the same IDs, and some bills of the right one."""
    loads.load(*(bill(f"b_{number}", rev=1, **net(1)) for number in range(4)))
    other: dict[str, Any] = {"closedAt": "2024-02-02T12:00:00+07:00", "items": [{"name": "Other", "qty": 1}]}
    wrong = loads.load(*(bill(f"b_{number}", rev=9, **net(99), **other) for number in range(12)))
    loads.undo(wrong, reason)
    right = [bill(f"b_{number}", rev=1, **net(number), items=[{"name": "Soup", "qty": 2}]) for number in range(8)]
    loads.load(*right, bill("b_8", rev=9, **net(99), **other), guard=ReplacementGuard(is_export=is_export))
    assert nets(shop_store, *(f"b_{number}" for number in range(12))) == [*range(8), 99, None, None, None]


@BOTH_WAYS
def test_a_bill_that_the_wrong_file_removed_can_be_loaded_again_with_its_old_revision(
    shop_store: OpenStore, loads: Loads, reason: str | None
) -> None:
    loads.load(bill("b_1", rev=1, **net(1)), bill("b_2", rev=1, **net(2)))
    loads.load(gone(bill("b_2"), rev=9))
    wrong = loads.load(gone(bill("b_1"), rev=9))
    loads.undo(wrong, reason)
    loads.load(bill("b_1", rev=1, **net(1)), bill("b_2", rev=1, **net(2)))
    assert nets(shop_store, "b_1", "b_2") == [1, None]


@BOTH_WAYS
def test_the_wrong_file_can_be_loaded_again_and_taken_back_again(
    shop_store: OpenStore, loads: Loads, reason: str | None
) -> None:
    for _ in range(2):
        wrong = loads.load(bill("b_1", **net(7)))
        assert loads.outcomes[0] in (Outcome.ADDED, Outcome.CHANGED)
        assert nets(shop_store, "b_1") == [7]
        assert loads.undo(wrong, reason) == 1
        assert nets(shop_store, "b_1") == [None]
        assert loads.undo(wrong, reason) == 0


def test_a_load_that_was_undone_does_not_keep_the_bills_that_it_delivered_again(
    shop_store: OpenStore, loads: Loads
) -> None:
    wrong, again = loads.load(bill("b_1", **net(7))), loads.load(bill("b_1", **net(7)))
    assert loads.undo(again, None) == 0
    assert loads.undo(wrong, None) == 1


def test_a_bill_that_several_later_loads_delivered_again_stays_when_one_of_them_is_undone(
    shop_store: OpenStore, loads: Loads
) -> None:
    wrong, again = loads.load(bill("b_1", **net(7))), loads.load(bill("b_1", **net(7)))
    for _ in range(2):
        loads.load(bill("b_1", **net(7)))
    assert loads.undo(again, None) == 0
    found = loads.preview(wrong)
    assert (found.kept, found.named[0].other_load) == ({"delivered_again": 1}, None)
    assert loads.undo(wrong, None) == 0
    assert nets(shop_store, "b_1") == [7]


def test_a_bill_that_was_rewritten_under_new_facts_stays_the_bill_of_its_load(
    shop_store: OpenStore, loads: Loads
) -> None:
    wrong = loads.load(bill("b_1", **net(7)), bill("b_2", **net(8)))
    loads.load(bill("b_2", **net(8)))
    shop_store.put(shop(timezone="Asia/Tokyo"))
    shop_store.rewrite(1)
    assert loads.undo(wrong, None) == 1
    assert nets(shop_store, "b_1", "b_2") == [None, 8]


def test_a_void_is_made_under_the_current_facts_of_its_shop(shop_store: OpenStore, loads: Loads) -> None:
    wrong = loads.load(bill("b_1", **net(7)))
    shop_store.put(shop(timezone="Asia/Tokyo"))
    loads.undo(wrong, REASON)
    before = shop_store.bill("b_1")
    assert before["timestamp"].endswith("+09:00")
    shop_store.rewrite()
    assert shop_store.bill("b_1") == before


def test_a_bill_with_the_same_id_in_another_shop_is_not_touched(shop_store: OpenStore, loads: Loads) -> None:
    shop_store.put(shop("sh_2"))
    wrong = loads.load(bill("b_1", "sh_2", **net(7)))
    loads.load(bill("b_1", "sh_1", **net(8)))
    assert loads.undo(wrong, None) == 1
    assert shop_store.bill("b_1", "sh_2") is None
    assert nets(shop_store, "b_1") == [8]


def test_more_bills_than_one_batch_takes_are_taken_back(shop_store: OpenStore, loads: Loads) -> None:
    wrong = loads.load(*(bill(f"b_{number}", history=number % 2 == 0, **net(1)) for number in range(450)))
    assert loads.preview(wrong).taken_back == 450
    assert loads.undo(wrong, None) == 450
    assert digests(shop_store) == []
