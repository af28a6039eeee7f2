"""Tests for forgetting a member on every back end: what is erased, and that no later record brings him back."""

from typing import Any

import pytest

from counterfoil.domain.access import Scope
from counterfoil.domain.changes import Outcome
from counterfoil.domain.forgetting import ForgottenMember, mark_of
from counterfoil.domain.paging import Position
from counterfoil.ports import Slice
from ports.open_store import PSEUDONYMS, OpenStore, base, bill, gone, member
from ports.test_change_feed import Feed
from ports.test_digests import computed, digests

TOKEN = PSEUDONYMS.member_token("4711")
MARK = mark_of(TOKEN)
PERSON: dict[str, Any] = {
    "tel": "0891234567",
    "email": "somchai@example.test",
    "messaging": [{"channel": "bot", "userId": "U" + "0" * 32}],
    "coupons": [{"code": "SOMCHAI10"}],
}


def mark(open_store: OpenStore) -> None:
    open_store.ledger.mark_forgotten([ForgottenMember(mark=MARK, at=open_store.clock.now_ms())])


def forget(open_store: OpenStore) -> int:
    """Forget the member 4711 in the store; return the number of his bills."""
    mark(open_store)
    count = 0
    for shop, bill_id, _ in open_store.reads.bills_with([TOKEN.encode()]):
        count += open_store.ledger.unlink_bills(shop, [bill_id], {MARK})
    open_store.ledger.erase_member(TOKEN)
    open_store.ledger.finish_forgetting([MARK])
    return count


def members(open_store: OpenStore) -> int:
    after: Position | None = None
    return int(open_store.books.members("mb_a", Slice(100, after)).count)


def test_a_forgotten_member_is_erased_and_every_reader_learns_that_his_bills_have_changed(
    shop_store: OpenStore,
) -> None:
    shop_store.put(base(), member(**PERSON), member("4712", tel="0890000000"))
    shop_store.put(
        bill("b_1", memberId="4711"), bill("b_2", memberId="4711", history=True), bill("b_3", memberId="4712")
    )
    feed = Feed(shop_store)
    feed.read()
    before = shop_store.horizon()
    assert forget(shop_store) == 2
    assert [shop_store.bill(bill_id)["memberId"] for bill_id in ("b_1", "b_2")] == [None, None]
    assert shop_store.bill("b_3")["memberId"] == PSEUDONYMS.member_token("4712")
    assert sorted(found["id"] for found in shop_store.by_change(since=before + 1)) == ["b_1", "b_2"]
    feed.read()
    known = {("sh_1", bill_id) for bill_id in ("b_1", "b_2", "b_3")}
    assert feed.copy.bills == {(shop_id, bill_id): shop_store.bill(bill_id) for shop_id, bill_id in known}
    assert digests(shop_store) == computed(shop_store, known)
    assert members(shop_store) == 1
    assert shop_store.books.member(Scope("franchise", "fr_a"), TOKEN) is None
    user = PSEUDONYMS.messaging_hash(str(PERSON["messaging"][0]["userId"]))
    assert shop_store.books.accounts("mb_a", user).accounts == []
    (known_mark,) = shop_store.reads.forgotten_members()
    assert (known_mark.mark, known_mark.finished_at is not None) == (MARK, True)


def test_no_later_record_brings_a_forgotten_member_back(shop_store: OpenStore) -> None:
    shop_store.put(base(), member(rev=1, **PERSON))
    shop_store.put(bill("b_1", memberId="4711"))
    forget(shop_store)
    assert shop_store.put(member(rev=2, **PERSON), member("4712")) == [Outcome.FORGOTTEN, Outcome.ADDED]
    assert shop_store.put(gone(member(rev=3))) == [Outcome.UNCHANGED]
    # The bill's own record says nothing new, and a changed or a new one is stored without him.
    assert shop_store.put(bill("b_1", memberId="4711")) == [Outcome.UNCHANGED]
    changed = shop_store.put(bill("b_1", memberId="4711", cashier="Mali"), bill("b_2", memberId="4711"))
    assert changed == [Outcome.CHANGED, Outcome.ADDED]
    assert [shop_store.bill(bill_id)["memberId"] for bill_id in ("b_1", "b_2")] == [None, None]
    assert shop_store.reads.bills_with([TOKEN.encode()]) == []
    assert members(shop_store) == 1


def test_a_load_that_read_the_records_before_writes_them_without_the_member(shop_store: OpenStore) -> None:
    shop_store.put(base())
    changes = [shop_store.change(bill("b_1", memberId="4711")), shop_store.change(member(**PERSON))]
    mark(shop_store)
    assert shop_store.ledger.apply(changes) == [Outcome.ADDED, Outcome.FORGOTTEN]
    assert shop_store.bill("b_1")["memberId"] is None


def test_another_loader_that_has_marks_in_memory_learns_of_a_new_one(shop_store: OpenStore) -> None:
    shop_store.put(base(), member("4712"))
    shop_store.ledger.mark_forgotten([ForgottenMember(mark=mark_of(PSEUDONYMS.member_token("4712")), at=1)])
    shop_store.put(member("4713"))
    other = shop_store.opened_again()
    mark(other)
    other.close()
    assert shop_store.put(member(**PERSON)) == [Outcome.FORGOTTEN]


def test_forgetting_again_changes_nothing_and_stays_finished(shop_store: OpenStore) -> None:
    shop_store.put(base(), member(**PERSON))
    shop_store.put(bill("b_1", memberId="4711"))
    assert forget(shop_store) == 1
    before = shop_store.bill("b_1")
    assert forget(shop_store) == 0
    assert shop_store.bill("b_1") == before
    assert len(shop_store.reads.forgotten_members()) == 1


def test_a_bill_stays_the_bill_of_its_load(shop_store: OpenStore) -> None:
    progress = shop_store.ledger.begin_load("a file")
    shop_store.ledger.apply([shop_store.change(bill("b_1", memberId="4711"))], progress)
    forget(shop_store)
    (_, shop_id, _), *_ = shop_store.reads.shops_changed(-1)
    (found,) = shop_store.reads.bills_of_load(progress.number, 1, shop_id, -1)
    assert (found.bill_id, found.load, found.load_before) == ("b_1", progress.number, None)


def test_members_of_all_bases_and_of_all_bills_are_found(shop_store: OpenStore) -> None:
    shop_store.put(*(member(f"m_{number}") for number in range(3)), member("4711", "mb_b", **PERSON))
    shop_store.put(bill("b_1", memberId="4711"), bill("b_2"))
    assert {found.token for found in shop_store.reads.all_members()} >= {TOKEN}
    assert len(list(shop_store.reads.all_members())) == 4
    assert [(bill_id, token) for _, bill_id, token in shop_store.reads.members_of_bills()] == [("b_1", TOKEN)]
    found = shop_store.reads.member(TOKEN)
    assert found
    assert (found.tel, found.provider_id) == ("0891234567", "mb_b")
    assert shop_store.reads.member("m1_" + "0" * 32) is None


@pytest.mark.parametrize("text", ['"memberId":"m1_', "somchai"])
def test_a_text_on_a_bill_is_not_taken_for_its_member(shop_store: OpenStore, text: str) -> None:
    shop_store.put(bill("b_1", cashier=f"{text}{TOKEN}"))
    before = shop_store.bill("b_1")
    assert forget(shop_store) == 0
    assert shop_store.put(bill("b_1", cashier=f"{text}{TOKEN}")) == [Outcome.UNCHANGED]
    assert shop_store.bill("b_1") == before
