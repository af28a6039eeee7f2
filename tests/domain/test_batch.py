"""Tests for the effect of a change: its outcome, and the rows that a ledger then writes. No store is needed."""

from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace

from counterfoil.domain.batch import Batch, known_facts, needed_rows, rewritten
from counterfoil.domain.bills import bill_from
from counterfoil.domain.changes import (
    NEVER,
    Change,
    EncodedBill,
    KnownFacts,
    Outcome,
    OutdatedBill,
    PutBase,
    PutMember,
    PutShop,
    Removal,
    account_values,
    digest_of,
    put_base,
    put_bill,
    put_member,
    put_shop,
)
from counterfoil.domain.members import base_from, member_from
from counterfoil.domain.shops import shop_from

ADDED, CHANGED, UNCHANGED = Outcome.ADDED, Outcome.CHANGED, Outcome.UNCHANGED
LATE, REMOVED, UNKNOWN_SHOP, FACTS_MOVED = Outcome.LATE, Outcome.REMOVED, Outcome.UNKNOWN_SHOP, Outcome.FACTS_MOVED

STAMP = 1_769_857_509_120
STAMPED = '"updatedAt":"2026-01-31T18:05:09.120+07:00"'
SHOP: dict[str, Any] = {"kind": "shop", "id": "sh_1", "timezone": "Asia/Bangkok", "closingTime": "02:00"}
FACTS = KnownFacts(1, shop_from(SHOP)[1])
TOKYO = KnownFacts(2, shop_from({**SHOP, "timezone": "Asia/Tokyo"})[1])


def a_shop(rev: float | None = None, **fields: Any) -> PutShop:
    return put_shop(*shop_from({**SHOP, **fields}), rev)


def a_bill(bill_id: str = "b_1", rev: float | None = None, known: KnownFacts = FACTS, **fields: Any) -> EncodedBill:
    day = {"closedAt": "2025-12-31T18:05:00+07:00", "tradingDay": "2025-12-31"}
    return put_bill(bill_from({"id": bill_id, "shopId": "sh_1", **day, **fields}, known.facts, str.upper), known, rev)


def a_member(rev: float | None = None, base: str = "mb_a", **fields: Any) -> PutMember:
    return put_member(member_from({"id": "4711", "providerId": base, **fields}, str.upper, str.lower), rev)


def a_base(rev: float | None = None, **fields: Any) -> PutBase:
    return put_base(base_from({"id": "mb_a", **fields}), rev)


def without_bill(rev: float | None = None, shop_id: str = "sh_1") -> Removal:
    return Removal((shop_id, "bill", "b_1"), rev)


def without_shop(shop_id: str, rev: float) -> Removal:
    return Removal(("", "shop", shop_id), rev)


def applied(*changes: Change, to: Batch | None = None, stamp: int = STAMP) -> tuple[list[Outcome], Batch]:
    """Apply changes to the rows of an earlier batch, as if those rows had been stored and read back."""
    before = to or Batch(0, 0, [], [], [], [], {})
    batch = Batch(
        stamp,
        max((row.number for row in before.shops.values()), default=0),
        [replace(row, dirty=False, relisted=False) for row in before.shops.values()],
        [replace(row, body=None, settled=False) for row in before.bills.values()],
        [replace(row, dirty=False) for row in before.bases.values()],
        [replace(row, record=None) for row in before.members.values()],
        before.remembered,
    )
    return batch.apply(changes), batch


def written(batch: Batch) -> dict[str, int]:
    """Count the rows that a ledger would write."""
    found: dict[str, Any] = {
        "shops": batch.written_shops(),
        "added": batch.added_bills(),
        "changed": batch.changed_bills(),
        "settled": batch.settled_bills(),
        "removed": batch.removed_bills(),
        "bases": batch.written_bases(),
        "members": batch.written_members(),
        "removed members": batch.removed_members(),
        "removals": batch.remembered,
    }
    return {name: len(rows) for name, rows in found.items() if rows}


@pytest.mark.parametrize(
    ("first", "second", "removal"),
    [
        (a_shop(3), a_shop(4, name="New"), without_shop("sh_1", 5)),
        (a_bill(rev=3), a_bill(rev=4, cashier="Noi"), without_bill(5)),
        (a_member(3), a_member(4, tel="0812345678"), Removal(("", "member", "4711"), 5)),
        (a_base(3), a_base(4, creditEnabled=True), None),
    ],
    ids=["shop", "bill", "member", "base"],
)
def test_a_record_can_be_added_repeated_changed_late_and_removed(
    first: Any, second: Any, removal: Change | None
) -> None:
    _, batch = applied(a_shop())
    if isinstance(first, PutShop):
        batch = Batch(0, 0, [], [], [], [], {})
    for change, outcome in [(first, ADDED), (first, UNCHANGED), (second, CHANGED), (first, LATE), (second, UNCHANGED)]:
        outcomes, batch = applied(change, to=batch)
        assert outcomes == [outcome]
        assert bool(written(batch)) == (outcome in (ADDED, CHANGED))
    if removal:
        early: Any = replace(removal, rev=2)
        assert applied(early, to=batch)[0] == [LATE]
        outcomes, batch = applied(removal, first, removal, to=batch)
        assert outcomes == [REMOVED, LATE, UNCHANGED]


def test_only_changed_facts_raise_the_version_of_the_facts() -> None:
    _, batch = applied(a_shop())
    tokyo = a_shop(timezone="Asia/Tokyo")
    for change, version in [(a_shop(name="New"), 1), (tokyo, 2), (tokyo, 2)]:
        _, batch = applied(change, to=batch)
        assert batch.shops["sh_1"].facts_version == version
        assert batch.shops["sh_1"].applied_version == 1


def test_a_removed_shop_keeps_its_row_and_number() -> None:
    _, batch = applied(a_shop(), a_shop(id="sh_2"))
    assert [row.number for row in batch.written_shops()] == [1, 2]
    assert applied(without_shop("sh_1", 1), a_shop(2), to=batch)[0] == [REMOVED, CHANGED]
    assert batch.shops["sh_1"].number == 1


def test_a_new_bill_is_stamped_and_sealed_and_its_digest_ignores_the_stamp() -> None:
    _, batch = applied(a_shop(), a_bill(rev=7))
    (row,) = batch.added_bills()
    change = a_bill(rev=7)
    assert row.body is not None
    assert STAMPED in row.body.decode()
    assert row.digest == digest_of(change.body)
    assert row.values("rev") == (
        1,
        "b_1",
        20251231,
        change.closed_at,
        STAMP,
        "2025-12-31",
        "rev",
        1,
        row.digest,
        row.seal,
        None,
        row.body,
        0,
    )


def test_the_seal_of_a_bill_changes_with_its_content_and_with_its_stamp() -> None:
    _, batch = applied(a_shop(), a_bill())
    (row,) = batch.added_bills()
    _, other = applied(a_shop(), a_bill(closedAt="2025-12-31T20:00:00+07:00"))
    (changed,) = other.added_bills()
    seals = {row.seal, changed.seal, replace(row, updated_at=STAMP + 1).seal, replace(row, updated_at=None).seal}
    assert len(seals) == 4
    assert row.seal == replace(row, trading_day=None, rev=9).seal


def test_a_bill_from_before_change_tracking_is_stamped_in_secret() -> None:
    _, batch = applied(a_shop(), a_bill(history=True))
    (row,) = batch.added_bills()
    assert (row.updated_at, row.loaded_at) == (None, STAMP)


def test_the_feed_is_told_of_shops_that_move_and_of_entries_that_change() -> None:
    _, batch = applied(a_shop(franchiseId="fr_a"), a_shop(id="sh_2"))
    assert [row.shop_id for row in batch.relisted_shops()] == ["sh_1", "sh_2"]
    assert batch.departures() == []
    _, batch = applied(a_shop(franchiseId="fr_b"), a_shop(id="sh_2", closingTime="05:00"), to=batch)
    assert [row.shop_id for row in batch.relisted_shops()] == ["sh_1"]
    assert batch.departures() == [("fr_a", 1)]
    _, batch = applied(a_shop(franchiseId="fr_a"), a_shop(franchiseId="fr_b"), without_shop("sh_2", 1), to=batch)
    assert [row.shop_id for row in batch.relisted_shops()] == ["sh_1", "sh_2"]
    assert batch.departures() == []


def test_the_feed_is_told_of_shops_whose_bills_change() -> None:
    _, batch = applied(a_shop(), a_bill("b_1"), a_bill("b_2"))
    assert batch.touched_shops() == [1]
    assert applied(a_bill("b_1"), to=batch)[1].touched_shops() == []
    assert applied(without_bill(), to=batch)[1].touched_shops() == [1]


def test_an_invisible_change_is_stored_without_a_new_stamp() -> None:
    _, batch = applied(a_shop(), a_bill(rev=1))
    outcomes, batch = applied(a_bill(rev=2), to=batch)
    assert outcomes == [UNCHANGED]
    assert written(batch) == {"settled": 1}
    assert batch.settled_bills()[0].settled_values("rev") == (1, "b_1", "2025-12-31", "rev", None)


def test_a_batch_writes_only_the_final_state_of_a_bill() -> None:
    outcomes, batch = applied(a_shop(), a_bill(), a_bill(cashier="Noi"), without_bill())
    assert outcomes == [ADDED, ADDED, CHANGED, REMOVED]
    assert written(batch) == {"shops": 1}
    _, batch = applied(a_bill(), to=applied(a_shop())[1])
    outcomes, batch = applied(without_bill(), a_bill(), to=batch)
    assert outcomes == [REMOVED, ADDED]
    assert written(batch) == {"changed": 1}


def test_a_member_that_moves_leaves_its_old_base_and_takes_its_accounts_along() -> None:
    user = "U" + "0af1" * 8
    accounts = [{"channel": "bot_1", "userId": user}, {"channel": "bot_2", "userId": user}]
    _, batch = applied(a_member(messaging=accounts))
    outcomes, batch = applied(a_member(base="mb_b", messaging=accounts), to=batch)
    assert outcomes == [CHANGED]
    assert batch.removed_members() == [("mb_a", "4711")]
    (row,) = batch.written_members()
    assert row.values("rev")[:4] == ("mb_b", "4711", NEVER, "rev")
    # Without a sign-up time, the record is the last in the list of members and the oldest among a person's records.
    assert account_values([row]) == [
        ("mb_b", "4711", 0, user.lower(), -1, "bot_1"),
        ("mb_b", "4711", 1, user.lower(), -1, "bot_2"),
    ]


def test_a_member_with_another_template_gets_the_current_one_and_stays_unchanged() -> None:
    _, batch = applied(a_member())
    template, batch.members["4711"].template = batch.members["4711"].template, b"another"
    outcomes, batch = applied(a_member(), to=batch)
    assert outcomes == [UNCHANGED]
    assert [row.template for row in batch.written_members()] == [template]


def test_new_facts_rewrite_a_bill_and_stamp_it_only_if_its_body_changes() -> None:
    _, batch = applied(a_shop(), a_bill(rev=7))
    (row,) = batch.added_bills()
    stored = OutdatedBill(row.closed_at, row.updated_at, row.trading_day, row.rev, row.withheld, row.body or b"")
    same = rewritten(stored, 1, replace(FACTS, version=2), STAMP + 1)
    assert same.body is None
    assert same.facts_values() == (1, "b_1", 2, "2025-12-31", None)
    moved = rewritten(stored, 1, TOKYO, STAMP + 1)
    assert b'"updatedAt":"2026-01-31T20:05:09.121+09:00"' in (moved.body or b"")
    assert (moved.rev, moved.updated_at, moved.facts_version) == (7, STAMP + 1, 2)
    assert moved.digest != row.digest


def test_the_rows_that_a_batch_needs_are_each_named_once() -> None:
    changes: list[Change] = [
        a_shop(1),
        a_bill(),
        a_bill(),
        without_bill(3, "sh_2"),
        a_member(),
        a_base(),
    ]
    needed = needed_rows(changes)
    assert needed.shops == ["sh_1", "sh_2"]
    assert needed.bills == [("sh_1", "b_1"), ("sh_2", "b_1")]
    assert (needed.bases, needed.tokens, needed.new_shops) == (["mb_a"], ["4711"], True)
    assert needed.removals == [("", "shop", "sh_1"), ("sh_2", "bill", "b_1")]
    assert not needed_rows([a_bill()]).new_shops


def test_stored_facts_are_read_back() -> None:
    assert known_facts(1, json.encode(FACTS.facts)) == FACTS
