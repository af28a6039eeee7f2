"""The operator sees what shops took on each day, the bills of a day, one bill, and the loads of a shop."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from counterfoil import business_reads
from counterfoil.domain.business_days import by_shop
from counterfoil.domain.changes import EncodedBill
from counterfoil.domain.loads import LoadProgress
from counterfoil.model.control_totals import ControlTotals
from ports.open_store import OpenStore, bill, gone, shop

NEW_YEARS_EVE, NEW_YEAR = date(2025, 12, 31), date(2026, 1, 1)
WEEK = (date(2025, 12, 27), date(2026, 1, 2))


def sold(bill_id: str, net: float, shop_id: str = "sh_1", **fields: Any) -> dict[str, Any]:
    return bill(bill_id, shop_id, amounts={"net": net}, **fields)


def figures(open_store: OpenStore, shop_id: str | None = None) -> list[tuple[Any, ...]]:
    return [
        (found.shop_id, found.day, found.bills, found.voids, found.net)
        for found in open_store.reads.days_of_shops(*WEEK, shop_id)
    ]


def test_a_day_has_the_bills_and_the_net_of_its_shop_before_and_after_its_totals_are_computed(
    open_store: OpenStore,
) -> None:
    open_store.put(shop(), shop("sh_2"), shop("sh_gone"))
    open_store.put(
        sold("b_1", 120.25),
        sold("b_2", 80, void=True),
        sold("b_3", 10, closedAt="2026-01-01T12:00:00+07:00"),
        sold("b_4", 7.5, "sh_2"),
        sold("b_5", 1, "sh_gone"),
    )
    open_store.put(gone(shop("sh_gone")))
    expected = [
        ("sh_1", NEW_YEAR, 1, 0, Decimal(10)),
        ("sh_1", NEW_YEARS_EVE, 2, 1, Decimal("120.25")),
        ("sh_2", NEW_YEARS_EVE, 1, 0, Decimal("7.5")),
    ]
    assert figures(open_store) == expected
    while open_store.ledger.compute_totals(100):
        pass
    assert figures(open_store) == expected
    assert figures(open_store, "sh_2") == expected[2:]
    assert figures(open_store, "nobody") == []


def test_a_day_whose_bills_were_all_removed_is_not_listed(open_store: OpenStore) -> None:
    open_store.put(shop())
    open_store.put(sold("b_1", 120))
    open_store.put(gone(bill("b_1")))
    assert figures(open_store) == []


def test_days_that_are_too_many_to_add_up_have_bills_but_no_net(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store.put(shop())
    open_store.put(sold("b_1", 5), sold("b_2", 6), sold("b_3", 10, closedAt="2026-01-01T12:00:00+07:00"))
    monkeypatch.setattr(business_reads, "BILLS_ADDED_UP", 2)
    assert figures(open_store) == [("sh_1", NEW_YEAR, 1, 0, Decimal(10)), ("sh_1", NEW_YEARS_EVE, 2, None, None)]
    days = by_shop(open_store.reads.days_of_shops(*WEEK))["sh_1"]
    assert days.compared(NEW_YEARS_EVE, NEW_YEAR).net_difference is None


def test_bills_without_a_date_are_counted_apart(open_store: OpenStore) -> None:
    open_store.put(shop())
    assert open_store.reads.undated_bills("sh_1") is None
    open_store.put(sold("b_1", 5, closedAt=None), sold("b_2", 6))
    found = open_store.reads.undated_bills("sh_1")
    assert found
    assert (found.day, found.bills, found.net) == (None, 1, Decimal(5))
    assert [listed.bill_id for listed in open_store.reads.bills_of_day("sh_1", None)] == ["b_1"]


def test_the_bills_of_a_day_are_listed_in_order_and_name_nobody(open_store: OpenStore) -> None:
    open_store.put(shop())
    open_store.put(
        sold("late", 5, closedAt="2025-12-31T20:00:00+07:00", receiptNumber="R-2"),
        sold("early", 6, payments=[{"name": "Cash", "amount": 6}], cashier="Somebody", memberId="4711"),
    )
    early, late = open_store.reads.bills_of_day("sh_1", NEW_YEARS_EVE)
    assert (early.bill_id, early.net, early.paid_by, early.changed_at) == ("early", Decimal(6), ["Cash"], None)
    assert (late.bill_id, late.receipt_number, late.business_date) == ("late", "R-2", "2025-12-31")
    assert "Somebody" not in str(early)
    assert "m1_" not in str(early)
    assert open_store.reads.bills_of_day("sh_2", NEW_YEARS_EVE) == []


def test_a_bill_is_found_with_and_without_its_shop_and_says_which_load_changed_it(open_store: OpenStore) -> None:
    open_store.put(shop(), shop("sh_2"))
    load(open_store, sold("b_1", 5), sold("b_1", 7, "sh_2"))
    load(open_store, sold("b_1", 6))
    (found,) = open_store.reads.bill("b_1", "sh_1")
    assert (found.load, found.load_before, found.is_changed) == (2, 1, True)
    assert json.loads(found.body)["amounts"]["net"] == 6
    assert [(one.shop_id, one.load, one.is_changed) for one in open_store.reads.bill("b_1")] == [
        ("sh_1", 2, True),
        ("sh_2", 1, False),
    ]
    assert open_store.reads.bill("b_1", "elsewhere") == open_store.reads.bill("b_2") == []


def test_the_loads_of_a_shop_are_those_with_bills_of_it(open_store: OpenStore) -> None:
    open_store.put(shop(), shop("sh_2"))
    load(open_store, sold("b_1", 5), sold("b_2", 7, "sh_2"))
    load(open_store, sold("b_3", 5))
    found = [(each.load.number, each.bills, each.is_alone) for each in open_store.reads.loads_of_shop("sh_1")]
    assert found == [(2, 1, True), (1, 1, False)]
    assert [each.load.number for each in open_store.reads.loads_of_shop("sh_2")] == [1]


def test_a_shop_is_being_rewritten_until_its_bills_have_its_facts(open_store: OpenStore) -> None:
    open_store.put(shop())
    open_store.put(sold("b_1", 5))
    assert not open_store.reads.is_being_rewritten("sh_1")
    open_store.put(shop(closingTime="04:00"))
    assert open_store.reads.is_being_rewritten("sh_1")
    open_store.rewrite()
    assert not open_store.reads.is_being_rewritten("sh_1")


def load(open_store: OpenStore, *records: dict[str, Any]) -> LoadProgress:
    """Load these bills as one load that ends, with its totals."""
    progress = open_store.ledger.begin_load("bills.ndjson")
    changes = [open_store.change(record) for record in records]
    totals = ControlTotals()
    totals.add(change.counted for change in changes if isinstance(change, EncodedBill))
    progress.finished = True
    progress.totals = totals.report()
    open_store.ledger.apply(changes, progress)
    return progress
