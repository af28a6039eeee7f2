"""The operator can list keys, audit entries and shops, and see the number of bills per shop and day."""

import json
import secrets
from contextlib import closing
from datetime import date

from actors import OPERATOR
from counterfoil import key_issuing
from counterfoil.domain.access import Scope
from counterfoil.domain.audit import Act
from counterfoil.domain.changes import EncodedBill
from counterfoil.key_issuing import Grant, Issued
from counterfoil.operator_reads import BILLS_PER_READ, BillsOfDay
from ports.backends import Store
from ports.open_store import AFTER_MIDNIGHT, OpenStore, bill, gone, shop

LAST_DAY, NEXT_DAY = date(2025, 12, 31), date(2026, 1, 1)


def issue(store: Store, label: str, now_ms: int) -> Issued:
    grant = Grant(scope=Scope("shop", "sh_1"), label=label)
    with closing(store.key_store()) as key_store:
        return key_issuing.issue(key_store, grant, secrets.token_bytes, now_ms, OPERATOR)


def test_keys_are_listed_oldest_first(store: Store) -> None:
    newer, older = issue(store, "newer", 2_000), issue(store, "older", 1_000)
    reads = store.operator_reads()
    assert reads.keys() == [older.key, newer.key]


def test_the_audit_is_listed_newest_first_for_all_keys_or_one(store: Store) -> None:
    first, second = issue(store, "first", 1_000).key, issue(store, "second", 2_000).key
    reads = store.operator_reads()
    assert [entry.key_id for entry in reads.audit(10)] == [second.key_id, first.key_id]
    assert [(entry.act, entry.at) for entry in reads.audit(10, first.key_id)] == [(Act.KEY_ISSUED, 1_000)]
    assert [entry.key_id for entry in reads.audit(1)] == [second.key_id]
    assert [entry.key_id for entry in reads.audit(10, since=1_500)] == [second.key_id]


def test_loaded_shops_are_listed_by_name_with_their_franchise(open_store: OpenStore) -> None:
    open_store.put(shop("sh_2", name="Riverside", franchiseId="f_1"), shop("sh_1", name="Ari"), shop("sh_3"))
    open_store.put({"kind": "shop", "id": "sh_3", "removed": True})
    reads = open_store.store.operator_reads()
    assert [(one.shop_id, one.shop_name, one.franchise_id) for one in reads.shop_names()] == [
        ("sh_1", "Ari", "fr_a"),
        ("sh_2", "Riverside", "f_1"),
    ]


def test_bills_are_counted_per_shop_and_day(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"))
    open_store.put(bill("b_1"), bill("b_2"), bill("b_3", closedAt=AFTER_MIDNIGHT), bill("b_4", "sh_2"))
    reads = open_store.store.operator_reads()
    assert reads.bills(LAST_DAY, NEXT_DAY) == [
        BillsOfDay("sh_1", LAST_DAY, 2),
        BillsOfDay("sh_1", NEXT_DAY, 1),
        BillsOfDay("sh_2", LAST_DAY, 1),
    ]
    assert reads.bills(NEXT_DAY, NEXT_DAY) == [BillsOfDay("sh_1", NEXT_DAY, 1)]


def test_a_day_whose_bills_were_removed_is_left_out(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"))
    open_store.put(bill("b_1"))
    open_store.put(gone(bill("b_1")))
    reads = open_store.store.operator_reads()
    assert reads.bills(LAST_DAY, NEXT_DAY) == []


def test_stored_bills_are_read_with_their_revision_to_compare_a_delivery_with_them(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"))
    open_store.put(bill("b_1", rev=2), bill("b_2"), bill("b_3", "sh_2"))
    wanted = ["b_1", "b_3", *(f"unknown {number}" for number in range(BILLS_PER_READ)), "b_2"]
    found = open_store.store.operator_reads().stored_bills("sh_1", wanted)
    assert {bill_id: stored.rev for bill_id, stored in found.items()} == {"b_1": 2, "b_2": None}
    change = open_store.change(bill("b_2"))
    assert isinstance(change, EncodedBill)
    assert found["b_2"].digest == change.digest
    assert json.loads(found["b_2"].body) == open_store.bill("b_2")
