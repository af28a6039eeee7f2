"""Tests for writing the books: what counts as a change, and how stamps ensure that no reader misses a change."""

import threading
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from counterfoil.domain.access import Scope
from counterfoil.domain.changes import EncodedBill, Outcome, Removal
from counterfoil.domain.loads import STALLED_MS, LoadProgress, load_state
from counterfoil.domain.replacements import ReplacementGuard
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ports import Slice, StoreMismatch, StoreUnavailable
from new_processes import new_processes
from ports import other_processes
from ports.open_store import (
    AFTER_MIDNIGHT,
    PSEUDONYMS,
    OpenStore,
    base,
    bill,
    bills_of,
    gone,
    in_ms,
    member,
    open_ledger,
    shop,
)

ADDED, CHANGED, UNCHANGED = Outcome.ADDED, Outcome.CHANGED, Outcome.UNCHANGED
LATE, REMOVED = Outcome.LATE, Outcome.REMOVED
PATIENCE_SEC = 20
# A base cannot be removed, so a ledger fails when it has taken the lock and applies this change.
NO_CHANGE = Removal(("", "base", "mb_a"), None)


def of_kinds(*kinds: str) -> pytest.MarkDecorator:
    """Run a test with functions that return a record of each of these kinds, which `shop_store` does not have yet."""
    makers = {"shop": partial(shop, "sh_2"), "base": base, "member": member, "bill": bill}
    return pytest.mark.parametrize("record", [makers[kind] for kind in kinds], ids=kinds)


# --- what is a change --------------------------------------------------------


@of_kinds("shop", "base", "member", "bill")
def test_a_record_loaded_twice_changes_nothing(shop_store: OpenStore, record: Any) -> None:
    loaded = record(creditEnabled=True, tel="0812345678", cashier="Noi")
    assert shop_store.put(loaded) == [ADDED]
    written = shop_store.by_change()
    assert shop_store.put(loaded) == [UNCHANGED]
    assert shop_store.put(loaded, loaded) == [UNCHANGED, UNCHANGED]
    assert shop_store.by_change() == written


@pytest.mark.parametrize(
    "change",
    [
        {"lines": [{"name": "Tea", "qty": 1, "total": 40}]},
        {"payments": [{"name": "Cash", "amount": 100}]},
        {"void": {"reason": "wrong table"}},
        {"memberId": "4711"},
        {"closedAt": AFTER_MIDNIGHT},
        {"tradingDay": "2025-12-30"},
        {"amounts": {"net": 0}},
        {"amounts": {"coupons": [{"id": "c"}]}},
        {"orderIds": ["o1"], "taxNumber": "TX-1", "receiptNumber": "R-2"},
        {"deviceId": "d2", "stationId": "s2"},
        {"channel": "take_away"},
        {"buffetPackageId": "pkg"},
        {"cashier": "Noi"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_visible_change_moves_the_stamp(shop_store: OpenStore, change: dict[str, Any]) -> None:
    shop_store.put(bill())
    before = shop_store.stamp()
    shop_store.clock.advance(5)
    assert shop_store.put(bill(**change)) == [CHANGED]
    assert shop_store.stamp() == shop_store.clock.now_ms() != before


@pytest.mark.parametrize(
    "change",
    [
        {"accountingStatus": "sent"},
        {"amounts": {}},
        {"history": True},
        {"cashier": "  "},
        {"tradingDay": "2025-12-31"},
        {"closedAt": 1767179100},
        {"rev": 7},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_invisible_change_moves_no_stamp(shop_store: OpenStore, change: dict[str, Any]) -> None:
    shop_store.put(bill())
    before = shop_store.bill()
    shop_store.clock.advance(5)
    assert shop_store.put(bill(**change)) == [UNCHANGED]
    assert shop_store.bill() == before


def test_an_invisible_trading_day_is_still_stored(open_store: OpenStore) -> None:
    """The trading day equals the computed day, but would differ from it with another closing time."""
    open_store.put(shop(closingTime="02:00"))
    open_store.put(bill(closedAt=AFTER_MIDNIGHT))
    assert open_store.put(bill(closedAt=AFTER_MIDNIGHT, tradingDay="2025-12-31")) == [UNCHANGED]
    before = open_store.bill()
    open_store.put(shop(closingTime="24:00"))
    open_store.rewrite()
    assert open_store.bill() == before


def test_old_bills_from_a_till_that_was_offline_are_stamped_as_new(shop_store: OpenStore) -> None:
    since = shop_store.ledger.advance_horizon() + 1
    shop_store.clock.advance(60)
    shop_store.put(bill("b_late", closedAt="2025-11-01T12:00:00+07:00"))
    assert [found["id"] for found in shop_store.by_change(since=since)] == ["b_late"]


def soup(net: int, **fields: Any) -> dict[str, Any]:
    return bill(lines=[{"name": f"soup for {net}", "qty": 1, "total": net}], amounts={"net": net}, **fields)


def guarded(open_store: OpenStore, *records: dict[str, Any], bills: int) -> tuple[list[Outcome], ReplacementGuard]:
    """Write the records as a part of a load that has had this many other bills; return the outcomes and the guard."""
    guard = ReplacementGuard(is_export=True, bills=bills)
    return open_store.ledger.apply([open_store.change(record) for record in records], None, guard), guard


def test_another_bill_with_the_same_id_does_not_replace_the_stored_one(shop_store: OpenStore) -> None:
    shop_store.put(soup(100))
    outcomes, guard = guarded(shop_store, soup(300), bill("b_2"), bills=9)
    assert (outcomes, guard.others, guard.is_exceeded) == ([Outcome.OTHER_BILL, ADDED], 1, False)
    assert (shop_store.bill()["amounts"]["net"], shop_store.bill("b_2")["id"]) == (100, "b_2")


def test_an_export_without_payments_does_not_replace_a_stored_bill_with_payments(shop_store: OpenStore) -> None:
    paid = soup(100, payments=[{"name": "Card", "amount": 100}])
    shop_store.put(paid)
    outcomes, guard = guarded(shop_store, soup(100), soup(100, void=True), paid | {"cashier": "Noi"}, bills=20)
    assert (outcomes, guard.incomplete, guard.is_exceeded) == ([Outcome.OTHER_BILL, CHANGED, CHANGED], 1, False)
    assert len(shop_store.bill()["payments"]) == 1


def test_nothing_of_a_batch_is_written_if_too_many_bills_would_be_replaced(shop_store: OpenStore) -> None:
    shop_store.put(soup(100))
    _, guard = guarded(shop_store, soup(300), bill("b_2"), bills=0)
    assert guard.is_exceeded
    assert (shop_store.bill()["amounts"]["net"], shop_store.bill("b_2")) == (100, None)
    assert shop_store.put(bill("b_2")) == [ADDED]


def test_another_bill_in_the_same_batch_is_noticed(shop_store: OpenStore) -> None:
    outcomes, _ = guarded(shop_store, soup(100), soup(300), bills=20)
    assert outcomes == [ADDED, Outcome.OTHER_BILL]


def test_a_member_of_another_base_with_the_same_id_is_moved_by_a_record_but_not_by_an_export(
    shop_store: OpenStore,
) -> None:
    shop_store.put(member())
    outcomes, _ = guarded(shop_store, member(provider_id="mb_b"), member(points=5), bills=0)
    assert outcomes == [Outcome.OTHER_BASE, CHANGED]
    assert shop_store.put(member(provider_id="mb_b")) == [CHANGED]


def test_a_correction_and_a_higher_revision_replace_the_stored_bill(shop_store: OpenStore) -> None:
    shop_store.put(soup(100))
    outcomes, guard = guarded(shop_store, soup(100, cashier="Noi"), soup(300, rev=1), bills=0)
    assert (outcomes, guard.moved + guard.others) == ([CHANGED, CHANGED], 0)


# --- history -----------------------------------------------------------------


def test_a_bill_from_before_change_tracking_has_no_stamp_until_it_changes(shop_store: OpenStore) -> None:
    shop_store.put(bill(history=True))
    assert shop_store.stamp() is None
    assert shop_store.by_change() == []
    assert shop_store.put(bill(history=True)) == [UNCHANGED]
    assert shop_store.put(bill()) == [UNCHANGED]
    assert shop_store.stamp() is None
    assert shop_store.put(bill(history=True, cashier="Noi")) == [CHANGED]
    assert [found["id"] for found in shop_store.by_change()] == ["b_1"]


def test_a_bill_from_before_change_tracking_gets_a_stamp_when_its_shop_moves_its_dates(shop_store: OpenStore) -> None:
    shop_store.put(bill(history=True))
    shop_store.put(shop(name="Renamed"))
    shop_store.rewrite()
    assert shop_store.stamp() is None
    shop_store.put(shop(timezone="Asia/Tokyo"))
    shop_store.rewrite()
    assert shop_store.stamp() is not None


# --- revisions ---------------------------------------------------------------


@of_kinds("shop", "base", "member", "bill")
def test_a_record_that_arrived_late_is_skipped(shop_store: OpenStore, record: Any) -> None:
    changed = {"name": "Renamed", "creditEnabled": "true", "rank": "gold", "cashier": "Noi"}
    assert shop_store.put(record(rev=2)) == [ADDED]
    assert shop_store.put(record(rev=1, **changed)) == [LATE]
    assert shop_store.put(record(rev=2, **changed)) == [CHANGED]
    assert shop_store.put(record(rev=1)) == [LATE]
    assert shop_store.put(record(rev="3", **changed)) in ([UNCHANGED], [CHANGED])
    assert shop_store.put(record(rev=2.5)) == [LATE]
    assert shop_store.put(record()) == [CHANGED]


@of_kinds("shop", "member", "bill")
def test_neither_a_late_removal_nor_a_late_record_applies(shop_store: OpenStore, record: Any) -> None:
    shop_store.put(record(rev=3))
    assert shop_store.put(gone(record(), rev=2)) == [LATE]
    assert shop_store.put(gone(record(), rev=3)) == [REMOVED]
    # A later removal raises the revision that a record needs, and an earlier one does not lower it.
    assert shop_store.put(gone(record(), rev=5), gone(record(), rev=4), gone(record())) == [UNCHANGED] * 3
    assert shop_store.put(record(rev=4.5)) == [LATE]
    assert shop_store.put(record(rev=5)) in ([ADDED], [CHANGED])


@of_kinds("shop", "member", "bill")
def test_a_removal_that_arrives_before_its_record_is_remembered(shop_store: OpenStore, record: Any) -> None:
    assert shop_store.put(gone(record())) == [UNCHANGED]
    assert shop_store.put(gone(record(), rev=5), record(rev=4.5)) == [UNCHANGED, LATE]
    assert shop_store.put(record(rev=4)) == [LATE]
    assert shop_store.put(record(rev=6)) == [ADDED]
    assert shop_store.put(record(rev=4)) == [LATE]


@of_kinds("shop", "member", "bill")
def test_a_record_or_removal_without_a_revision_always_applies(shop_store: OpenStore, record: Any) -> None:
    shop_store.put(record(rev=5))
    assert shop_store.put(gone(record())) == [REMOVED]
    assert shop_store.put(record(rev=1)) in ([ADDED], [CHANGED])
    assert shop_store.put(gone(record(), rev=5)) == [REMOVED]
    assert shop_store.put(record()) in ([ADDED], [CHANGED])


def test_a_removal_applies_to_one_kind_and_one_shop(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"))
    open_store.put(gone(bill("x", "sh_1"), rev=5), gone(member("y"), rev=5), gone(shop("z"), rev=5))
    assert (
        open_store.put(bill("x", "sh_2", rev=1), bill("y", rev=1), member("x", rev=1), shop("x", rev=1)) == [ADDED] * 4
    )
    assert open_store.put(bill("x", "sh_1", rev=1), member("y", rev=1), shop("z", rev=1)) == [LATE] * 3


def test_a_bill_removed_before_its_shop_is_known_stays_removed(open_store: OpenStore) -> None:
    assert open_store.put(gone(bill(), rev=5)) == [UNCHANGED]
    open_store.put(shop())
    assert open_store.put(bill(rev=4)) == [LATE]


def test_a_removed_record_is_remembered_by_the_next_loader_too(shop_store: OpenStore) -> None:
    shop_store.put(gone(bill(), rev=5))
    with closing(shop_store.opened_again()) as other:
        assert other.put(bill(rev=4)) == [LATE]


# --- removal -----------------------------------------------------------------


def test_a_removed_bill_is_in_no_list(shop_store: OpenStore) -> None:
    shop_store.put(bill("b_1"), bill("b_2"))
    assert shop_store.put(gone(bill("b_1"))) == [REMOVED]
    assert shop_store.bill("b_1") is None
    assert (
        [found["id"] for found in shop_store.by_day()] == [found["id"] for found in shop_store.by_change()] == ["b_2"]
    )


def test_a_removed_member_is_not_found(open_store: OpenStore) -> None:
    token = PSEUDONYMS.member_token("4711")
    open_store.put(shop(), member())
    open_store.put(gone(member()))
    assert open_store.books.member(Scope("shop", "sh_1"), token) is None
    assert open_store.books.members("mb_a", Slice(5)).count == 0
    assert open_store.put(member()) == [ADDED]


def test_a_removed_shop_keeps_its_bills_gets_new_ones_and_can_come_back(shop_store: OpenStore) -> None:
    shop_store.put(bill("b_1"))
    shop_store.put(gone(shop()))
    assert shop_store.put(bill("b_2")) == [ADDED]
    assert [found["id"] for found in shop_store.by_day()] == ["b_1", "b_2"]
    assert shop_store.books.bill(Scope("franchise", "fr_a"), "b_1") is not None
    assert shop_store.put(shop()) == [CHANGED]
    assert len(shop_store.books.shops(Scope("shop", "sh_1")).bodies) == 1
    assert shop_store.put(bill("b_1")) == [UNCHANGED]


def test_a_member_that_moves_to_another_base_leaves_the_first(open_store: OpenStore) -> None:
    open_store.put(member(messaging=[{"userId": "U1"}]))
    assert open_store.put(member(provider_id="mb_b", messaging=[{"userId": "U1"}])) == [CHANGED]
    assert open_store.books.members("mb_a", Slice(5)).count == 0
    assert open_store.books.accounts("mb_a", PSEUDONYMS.messaging_hash("U1")).accounts == []
    assert len(open_store.books.accounts("mb_b", PSEUDONYMS.messaging_hash("U1")).accounts) == 1


# --- facts of a shop ---------------------------------------------------------


def test_a_bill_of_an_unknown_shop_is_refused(shop_store: OpenStore) -> None:
    """The loader reads the facts first, but a store without the shop must refuse the bill too."""
    change = shop_store.change(bill())
    assert isinstance(change, EncodedBill)
    stray = replace(change, shop_id="sh_2")
    assert shop_store.ledger.facts("sh_2") is None
    assert shop_store.ledger.apply([stray, change]) == [Outcome.UNKNOWN_SHOP, ADDED]


def test_a_bill_converted_with_outdated_facts_must_be_converted_again(shop_store: OpenStore) -> None:
    outdated = shop_store.change(bill())
    shop_store.put(shop(timezone="Asia/Tokyo"))
    assert shop_store.ledger.apply([outdated]) == [Outcome.FACTS_MOVED]
    assert shop_store.bill() is None
    assert shop_store.put(bill()) == [ADDED]
    assert shop_store.bill()["timestamp"].endswith("+09:00")


def test_a_shop_put_in_the_same_transaction_changes_the_facts_for_later_records(shop_store: OpenStore) -> None:
    put_bill = shop_store.change(bill())
    outcomes = shop_store.ledger.apply([shop_store.change(shop(timezone="Asia/Tokyo")), put_bill])
    assert outcomes == [CHANGED, Outcome.FACTS_MOVED]


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"timezone": "Asia/Tokyo"}, {"timestamp": "2026-01-01T02:30:00.000+09:00", "businessDate": "2026-01-01"}),
        ({"closingTime": "24:00"}, {"businessDate": "2026-01-01"}),
        ({"closingTime": None}, {"businessDate": None}),
        ({"franchiseId": "fr_b"}, {"franchiseId": "fr_b"}),
    ],
    ids=("time zone", "closing time", "no closing time", "franchise"),
)
def test_a_changed_fact_that_is_visible_on_bills_rewrites_them(
    open_store: OpenStore, change: dict[str, Any], shown: dict[str, Any]
) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"))
    open_store.put(bill(closedAt=AFTER_MIDNIGHT), bill("b_2", "sh_2", closedAt=AFTER_MIDNIGHT))
    elsewhere = open_store.bill("b_2", "sh_2")
    open_store.clock.advance(5)
    open_store.put(shop("sh_1", **change))
    open_store.rewrite()
    assert {name: open_store.bill()[name] for name in shown} == shown
    assert in_ms(open_store.bill()["updatedAt"]) >= open_store.clock.now_ms()
    assert open_store.bill("b_2", "sh_2") == elsewhere


@pytest.mark.parametrize(
    ("wrong", "right", "sold"),
    [
        ({"franchiseId": None}, {}, {"lines": [{}, {"rootId": "r_1", "name": "Tea"}, {"rootId": 7}]}),
        (
            {"categories": [{"id": "c_2", "grouping": True}]},
            {"categories": [{"id": "c_1", "grouping": True}]},
            {"lines": [{"categoryIds": ["c_1", "c_2", "c_3"]}, {"categoryIds": []}, {}]},
        ),
        (
            {"channels": [{"id": "ch_1", "name": "Rhino"}]},
            {"channels": [{"id": "ch_1", "name": "Elephant"}]},
            {"channel": "ch_1"},
        ),
        ({}, {"channels": [{"id": "ch_1", "name": "Elephant"}]}, {"channel": "ch_1"}),
        ({"channels": [{"id": "ch_1", "name": "Rhino"}]}, {}, {"channel": "ch_1"}),
        ({"timezone": "America/New_York"}, {}, {"closedAt": "2025-12-31T23:30:00.250"}),
        ({"timezone": "Asia/Tokyo"}, {}, {"tradingDay": "2025-12-31T23:30:00+07:00"}),
    ],
    ids=("franchise", "groupings", "label", "missing label", "extra label", "clock", "trading day"),
)
def test_a_shop_record_that_was_wrong_for_a_while_leaves_no_trace_on_bills(
    open_store: OpenStore, wrong: dict[str, Any], right: dict[str, Any], sold: dict[str, Any]
) -> None:
    """Bills loaded before or while the shop's record was wrong end up as if it had never been wrong."""

    def as_sold(shop_id: str) -> dict[str, Any]:
        found: dict[str, Any] = open_store.bill("b_1", shop_id)
        return found | {"shopId": None, "updatedAt": None}

    bills = [bill("b_1", shop_id, **sold) for shop_id in ("sh_1", "sh_2", "sh_3")]
    open_store.put(shop("sh_1", **wrong), shop("sh_2", **right), shop("sh_3", **right))
    open_store.put(*bills)
    open_store.put(shop("sh_2", **wrong))
    open_store.rewrite()
    assert as_sold("sh_1") == as_sold("sh_2") != as_sold("sh_3")
    open_store.put(shop("sh_1", **right), shop("sh_2", **right))
    open_store.rewrite()
    assert as_sold("sh_1") == as_sold("sh_2") == as_sold("sh_3")
    assert open_store.put(*bills) == [UNCHANGED] * 3


def test_a_new_time_zone_moves_a_timed_bill_in_the_list_too(open_store: OpenStore) -> None:
    open_store.put(shop(timezone="America/New_York"))
    open_store.put(bill("b_1", closedAt="2025-12-31T10:00:00"), bill("b_2", closedAt="2025-12-31T12:00:00+07:00"))
    assert [found["id"] for found in open_store.by_day()] == ["b_2", "b_1"]
    open_store.put(shop())
    open_store.rewrite()
    assert [found["id"] for found in open_store.by_day()] == ["b_1", "b_2"]


def test_hidden_fields_of_a_later_record_are_stored(open_store: OpenStore) -> None:
    """The stamp changes only when the shop's record makes the fields visible."""
    open_store.put(shop(franchiseId=None))
    open_store.put(bill(lines=[{"rootId": "r_1"}]))
    before = open_store.bill()
    assert open_store.put(bill(lines=[{"rootId": "r_2"}])) == [UNCHANGED]
    assert open_store.bill() == before
    open_store.put(shop())
    open_store.rewrite()
    assert open_store.bill()["items"][0]["rootId"] == "r_2"


def test_a_renamed_channel_rewrites_only_the_bills_that_show_its_label(open_store: OpenStore) -> None:
    channels = [{"id": "ch_1", "name": "Elephant"}, {"id": "ch_2", "name": "Rhino"}]
    open_store.put(shop(channels=channels))
    open_store.put(
        bill("b_1", channel="ch_1"),
        bill("b_2", channel="ch_2"),
        bill("b_3", channel={"id": "ch_1", "name": "Elephant"}),
        bill("b_4", table={"id": "t_1"}),
    )
    others = [open_store.bill(f"b_{n}") for n in (2, 3, 4)]
    open_store.clock.advance(5)
    open_store.put(shop(channels=[{"id": "ch_1", "name": "Mammoth"}, channels[1]]))
    open_store.rewrite()
    assert [found["id"] for found in open_store.by_change(since=open_store.clock.now_ms())] == ["b_1"]
    assert open_store.bill()["channel"] == {"code": "ch_1", "name": "Mammoth"}
    assert [open_store.bill(f"b_{n}") for n in (2, 3, 4)] == others


@pytest.mark.parametrize(
    "change",
    [{"name": "Renamed"}, {"timezone": "Asia/Jakarta"}, {"providerId": "mb_b"}, {"categories": [{"id": "c"}]}],
    ids=lambda change: next(iter(change)),
)
def test_a_setting_that_is_not_visible_on_bills_moves_no_stamp(shop_store: OpenStore, change: dict[str, Any]) -> None:
    shop_store.put(bill())
    before = shop_store.bill()
    assert shop_store.put(shop(**change)) == [CHANGED]
    shop_store.rewrite()
    assert shop_store.bill() == before
    assert shop_store.put(bill()) == [UNCHANGED]


def test_bills_are_rewritten_in_small_batches_with_increasing_stamps(shop_store: OpenStore) -> None:
    shop_store.put(*(bill(f"b_{n}") for n in range(7)))
    since = shop_store.horizon() + 1
    shop_store.put(shop(timezone="Asia/Tokyo"))
    seen = []
    while shop_store.ledger.rewrite_bills(3):
        seen.append(len(shop_store.by_change(since=since)))
    assert seen == [3, 6, 7]
    assert len({found["updatedAt"] for found in shop_store.by_change(since=since)}) == 3


def test_an_interrupted_rewrite_is_continued(shop_store: OpenStore) -> None:
    shop_store.put(*(bill(f"b_{n}") for n in range(7)))
    shop_store.put(shop(timezone="Asia/Tokyo"))
    assert shop_store.ledger.rewrite_bills(3)
    done = shop_store.by_change()[-3:]
    shop_store.ledger.close()
    shop_store.ledger = open_ledger(shop_store.store, shop_store.clock)
    shop_store.rewrite(2)
    changed = shop_store.by_change()
    assert [found["timestamp"][-6:] for found in changed] == ["+09:00"] * 7
    assert changed[:3] == done


def test_a_rewrite_that_could_not_be_written_is_done_again(shop_store: OpenStore) -> None:
    shop_store.put(*(bill(f"b_{n}") for n in range(7)))
    shop_store.put(shop(timezone="Asia/Tokyo"))
    with shop_store.store.out_of_space(), pytest.raises(StoreUnavailable):
        shop_store.ledger.rewrite_bills(3)
    shop_store.rewrite(3)
    assert {found["timestamp"][-6:] for found in shop_store.by_change()} == {"+09:00"}


def test_facts_that_change_during_a_rewrite_are_applied_to_all_bills(shop_store: OpenStore) -> None:
    shop_store.put(*(bill(f"b_{n}") for n in range(7)))
    shop_store.put(shop(timezone="Asia/Tokyo"))
    shop_store.ledger.rewrite_bills(3)
    shop_store.put(shop(timezone="Asia/Kolkata"))
    shop_store.put(bill("b_7"))
    shop_store.rewrite(3)
    assert {found["timestamp"][-6:] for found in shop_store.by_change()} == {"+05:30"}
    assert not shop_store.ledger.rewrite_bills(3)


def test_a_bill_loaded_while_its_shop_is_being_rewritten_changes_once(shop_store: OpenStore) -> None:
    shop_store.put(bill("b_1"), bill("b_2"))
    shop_store.put(shop(timezone="Asia/Tokyo"))
    assert shop_store.put(bill("b_2")) == [CHANGED]
    stamp = shop_store.stamp("b_2")
    shop_store.rewrite()
    assert shop_store.stamp("b_2") == stamp
    assert shop_store.bill("b_1")["timestamp"].endswith("+09:00")


# --- stamps and the horizon --------------------------------------------------


def test_every_transaction_gets_a_stamp_above_every_reported_horizon(shop_store: OpenStore) -> None:
    """The clock stands still, steps back and jumps ahead."""
    given_out = shop_store.horizon()
    for number, seconds in enumerate([0, 0, 0.001, -3600, 0, 86_400, 0, -90_000, 1]):
        shop_store.clock.step(seconds)
        shop_store.put(bill("b_1", cashier=f"{number}"))
        stamp = shop_store.stamp()
        assert stamp is not None
        assert stamp > given_out
        given_out = max(shop_store.horizon(), shop_store.ledger.advance_horizon())
        assert given_out >= stamp


def test_an_idle_horizon_follows_the_clock_forward_and_never_back(open_store: OpenStore) -> None:
    assert open_store.ledger.advance_horizon() == open_store.clock.now_ms() == open_store.horizon()
    open_store.clock.advance(0.25)
    assert open_store.ledger.advance_horizon() == open_store.clock.now_ms() == open_store.horizon()
    high = open_store.horizon()
    open_store.clock.step(-3600)
    assert open_store.ledger.advance_horizon() == high == open_store.horizon()


def test_a_transaction_that_fails_leaves_nothing_and_the_next_one_sees_what_others_wrote_meanwhile(
    shop_store: OpenStore,
) -> None:
    stale, before = shop_store.change(bill("b_1")), shop_store.horizon()
    shop_store.clock.advance(1)
    with pytest.raises(KeyError):
        shop_store.ledger.apply([stale, NO_CHANGE])
    assert (shop_store.bill("b_1"), shop_store.horizon()) == (None, before)
    with closing(shop_store.opened_again()) as other:
        other.put(bill("b_2"), bill("b_3"))
        other.put(shop(timezone="Asia/Tokyo"))
    assert shop_store.ledger.apply([stale]) == [Outcome.FACTS_MOVED]
    assert shop_store.put(bill("b_1")) == [ADDED]


def test_a_full_disk_fails_the_transaction_and_nothing_else(shop_store: OpenStore) -> None:
    before = shop_store.horizon()
    shop_store.clock.advance(1)
    change = shop_store.change(bill())
    with shop_store.store.out_of_space():
        with pytest.raises(StoreUnavailable):
            shop_store.ledger.apply([change])
        with pytest.raises(StoreUnavailable):
            shop_store.ledger.advance_horizon()
        assert shop_store.horizon() == before
        assert shop_store.bill() is None
    assert shop_store.ledger.apply([change]) == [ADDED]
    assert shop_store.stamp() == shop_store.horizon() == shop_store.clock.now_ms()


def test_nobody_sees_an_unfinished_transaction_or_a_horizon_that_covers_it(shop_store: OpenStore) -> None:
    """The writer stops between its stamp and its commit, while the clock and the ticker continue."""
    shop_store.put(bill("b_0"))
    changes = [shop_store.change(bill("b_1")), shop_store.change(bill("b_2"))]
    progress = Interrupted(shop_store.ledger.begin_load("bills.ndjson"))
    writer = threading.Thread(target=shop_store.ledger.apply, args=(changes, progress))
    writer.start()
    assert progress.stopped.wait(PATIENCE_SEC)
    shop_store.clock.advance(10)
    ticked: list[int] = []

    def tick() -> None:
        with closing(open_ledger(shop_store.store, shop_store.clock)) as ledger:
            ticked.append(ledger.advance_horizon())

    ticker = threading.Thread(target=tick)
    ticker.start()
    given_out = [shop_store.horizon() for _ in range(50)]
    assert [found["id"] for found in shop_store.by_change()] == ["b_0"]
    progress.go_on.set()
    writer.join(PATIENCE_SEC)
    ticker.join(PATIENCE_SEC)
    stamps = [in_ms(found["updatedAt"]) for found in shop_store.by_change() if found["id"] != "b_0"]
    assert len(stamps) == 2
    assert min(stamps) > max(given_out)
    assert ticked[0] >= max(stamps)


class Interrupted:
    """Wraps a load's progress. The writer stops inside its transaction, when it reads the progress to store it."""

    def __init__(self, progress: LoadProgress) -> None:
        self._progress = progress
        self.stopped, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        self.stopped.set()
        assert self.go_on.wait(PATIENCE_SEC)
        return getattr(self._progress, name)


def test_a_reader_alongside_three_writers_is_never_given_too_early_a_horizon(shop_store: OpenStore) -> None:
    """Two loaders and a ticker run in other processes. Everything up to a reported horizon must be complete."""
    context = new_processes()
    done = context.Event()
    store = shop_store.store
    loaders = [context.Process(target=other_processes.load_bills, args=(store, f"till {n}", 60)) for n in (1, 2)]
    ticker = context.Process(target=other_processes.advance_horizon_until, args=(store, done), daemon=True)
    for process in (*loaders, ticker):
        process.start()
    horizon, seen = 0, frozenset[tuple[str, int]]()
    reads = 0
    while any(loader.is_alive() for loader in loaders) or reads < 10:
        page = shop_store.books.bills_by_change(Scope("shop", "sh_1"), "sh_1", 0, None, Slice(1000))
        rows = {(one["id"], in_ms(one["updatedAt"])) for one in bills_of(page)}
        assert {row for row in rows if row[1] <= horizon} <= seen, "a row appeared at or below a reported horizon"
        assert page.horizon >= horizon
        horizon, seen = page.horizon, frozenset(rows)
        reads += 1
    done.set()
    for process in (*loaders, ticker):
        process.join(PATIENCE_SEC)
        assert process.exitcode == 0
    assert len(shop_store.by_change()) == 2 * other_processes.BILLS


# --- loads and the secret ----------------------------------------------------


def test_a_load_reports_its_progress(open_store: OpenStore) -> None:
    number = open_store.ledger.begin_load("bills.ndjson").number
    open_store.clock.advance(2)
    (listed,) = open_store.reads.loads(10)
    assert (listed.lines, listed.finished, listed.idle_ms(open_store.clock.now_ms())) == (0, False, 2000)
    for finished in (False, True):
        progress = LoadProgress(number, lines=3, changed=1, rejected=2, finished=finished)
        open_store.ledger.apply([open_store.change(shop())], progress)
        (listed,) = open_store.reads.loads(10)
        assert (listed.lines, listed.changed, listed.rejected, listed.finished) == (3, 1, 2, finished)
        assert listed.idle_ms(open_store.clock.now_ms()) == 0


def test_a_load_that_was_marked_as_stopped_has_its_counts_and_the_time_at_which_it_stopped(
    open_store: OpenStore,
) -> None:
    number = open_store.ledger.begin_load("bills.ndjson").number
    open_store.ledger.apply([], LoadProgress(number, lines=3, changed=1, rejected=2))
    open_store.clock.advance(2)
    open_store.ledger.stop_load(number, 2)
    stopped_at = open_store.clock.now_ms()
    open_store.clock.advance(5)
    (listed,) = open_store.reads.loads(10)
    assert open_store.reads.latest_load() == listed
    assert (listed.lines, listed.changed, listed.rejected, listed.finished) == (3, 2, 2, False)
    assert (listed.seen_at, listed.is_stopped) == (stopped_at, True)
    assert load_state(listed, open_store.clock.now_ms()) == "stopped"


def test_a_load_that_has_finished_cannot_be_marked_as_stopped(open_store: OpenStore) -> None:
    number = open_store.ledger.begin_load("bills.ndjson").number
    open_store.ledger.apply([], LoadProgress(number, finished=True))
    open_store.ledger.stop_load(number, 2)
    (listed,) = open_store.reads.loads(10)
    assert (listed.changed, listed.finished, listed.is_stopped) == (0, True, False)


def test_a_killed_load_is_shown_until_it_is_an_open_item_or_its_source_was_loaded_again(open_store: OpenStore) -> None:
    def load(source: str, *, is_finished: bool = True) -> None:
        number = open_store.ledger.begin_load(source).number
        open_store.ledger.apply([], LoadProgress(number, finished=is_finished))

    def shown() -> tuple[str | None, list[str]]:
        latest = open_store.reads.latest_load()
        return latest.source if latest else None, [item.source for item in open_store.reads.open_items()]

    assert shown() == (None, [])
    load("a", is_finished=False)
    load("b")
    assert shown() == ("a", [])
    open_store.clock.advance(STALLED_MS / 1000 + 1)
    load("c")
    assert shown() == ("c", ["a"])
    load("a")
    assert shown() == ("a", [])
    load("b")
    assert shown() == ("b", [])


def test_a_store_refuses_a_secret_it_was_not_built_with(open_store: OpenStore) -> None:
    other = Pseudonyms(b"another secret of more than thirty-two bytes")
    with pytest.raises(StoreMismatch, match="secret"):
        open_store.store.ledger(open_store.clock, other.fingerprint())
    open_ledger(open_store.store, open_store.clock).close()
