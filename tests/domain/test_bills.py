"""Tests for converting a raw POS bill to the published Bill, and for converting it again after the facts changed."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from counterfoil.domain.bills import ClosedBill, Withheld, bill_from, under_facts
from counterfoil.domain.shops import ShopFacts
from counterfoil.model.pos_values import Unreadable
from counterfoil.model.resources import Bill
from records import at

RIVERSIDE = ShopFacts(
    shop_id="sh_01",
    franchise_id="fr_a",
    timezone="Asia/Bangkok",
    closing="02:00",
    channels={"ch_1": "HungryElephant"},
    groupings=("best",),
)
INDEPENDENT = replace(RIVERSIDE, franchise_id=None)
EVENING = "2026-01-31T18:05:09.120+07:00"
AFTER_MIDNIGHT = "2026-02-01T01:30:00+07:00"


def token_of(member: str) -> str:
    return f"m1_{member[::-1]}"


def closed(facts: ShopFacts = RIVERSIDE, **fields: object) -> ClosedBill:
    return bill_from({"kind": "bill", "id": "b_900", "shopId": "sh_01", **fields}, facts, token_of)


def reread(found: ClosedBill, facts: ShopFacts) -> Bill:
    return under_facts(found, facts).bill


def bill(facts: ShopFacts = RIVERSIDE, **fields: object) -> Bill:
    return closed(facts, **fields).bill


# --- rules for fields ------------------------------------------------------

# Each rule has a name, the path of the result in a published bill, its value, and the fields of records.
RULES = json.loads(Path(__file__).with_name("bill_rules.json").read_text("utf-8"))


@pytest.mark.parametrize(("path", "expected", "records"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_a_field_of_a_bill_follows_its_rule(path: str, expected: Any, records: list[dict[str, Any]]) -> None:
    assert [at(msgspec.to_builtins(bill(RIVERSIDE, **fields)), path) for fields in records] == [expected] * len(records)


# --- the whole bill --------------------------------------------------------


def test_a_bill_without_a_usable_id_is_refused() -> None:
    with pytest.raises(Unreadable):
        bill_from({"id": None}, RIVERSIDE, token_of)


# --- dates -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "closed_at", "timestamp"),
    [
        ("Asia/Tokyo", EVENING, "2026-01-31T20:05:09.120+09:00"),
        ("Asia/Tokyo", "2026-01-31T18:05:09", "2026-01-31T18:05:09.000+09:00"),
        ("America/New_York", "2026-07-01T12:00:00Z", "2026-07-01T08:00:00.000-04:00"),
        (None, 1769857509120, EVENING),
    ],
    ids=["another offset", "no offset", "summer time", "a shop without a time zone"],
)
def test_the_time_of_a_bill_is_in_the_time_zone_of_its_shop(
    zone: str | None, closed_at: object, timestamp: str
) -> None:
    assert bill(replace(RIVERSIDE, timezone=zone), closedAt=closed_at).timestamp == timestamp


@pytest.mark.parametrize(("closing", "day"), [("02:00", "2026-01-31"), ("24:00", "2026-02-01"), (None, None)])
def test_the_closing_time_of_the_shop_decides_the_business_date(closing: str | None, day: str | None) -> None:
    assert bill(replace(RIVERSIDE, closing=closing), closedAt=AFTER_MIDNIGHT).business_date == day
    assert reread(closed(closedAt=AFTER_MIDNIGHT), replace(RIVERSIDE, closing=closing)).business_date == day
    stamped = closed(closedAt=AFTER_MIDNIGHT, tradingDay="2026-01-30")
    assert reread(stamped, replace(RIVERSIDE, closing=closing)).business_date == "2026-01-30"


def test_only_a_branch_has_its_franchise_and_the_head_offices_products() -> None:
    branch, independent = (closed(facts, lines=[{"rootId": "r1"}]) for facts in (RIVERSIDE, INDEPENDENT))
    assert (branch.bill.franchise_id, branch.bill.items[0].root_id) == ("fr_a", "r1")
    assert (independent.bill.franchise_id, independent.bill.items[0].root_id) == (None, None)
    assert reread(branch, INDEPENDENT) == independent.bill


# --- under changed facts ---------------------------------------------------

TOKYO = replace(RIVERSIDE, timezone="Asia/Tokyo", closing=None, franchise_id="fr_b", groupings=("best", "c1"))


def test_the_store_sets_the_stamp_of_the_last_change() -> None:
    found = closed(closedAt=EVENING)
    stamped = replace(found.bill, updated_at="2026-02-01T00:00:00.000+07:00")
    assert reread(replace(found, bill=stamped), TOKYO).updated_at == stamped.updated_at


def test_a_trading_day_recorded_as_a_time_is_its_day_in_the_shops_current_time_zone() -> None:
    found = closed(tradingDay="2026-01-31T16:30:00Z")
    assert (found.bill.business_date, reread(found, TOKYO).business_date) == ("2026-01-31", "2026-02-01")


# --- arbitrary input -------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=8)
    | st.sampled_from([10**4000, 5e-324, 1e308, "1,250.00", "1_0", "๕", "infinity", "2026-01-31", EVENING, 1769857509])
)
NAMES = "id name qty amount change total unitPrice options categoryIds vat tip net vatType campaigns coupons reason"
names = st.sampled_from(NAMES.split())
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5), max_leaves=10
)
FIELDS = (
    "closedAt tradingDay history orderIds receiptNumber taxNumber deviceId stationId cashier table channel "
    "buffetPackageId serviceType memberId lines amounts payments void"
)
bills = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS.split(), anything))


@given(bills)
def test_a_bill_with_any_field_values_can_be_published_and_stored(fields: dict[str, Any]) -> None:
    found = closed(**fields)
    written = msgspec.json.encode(found.bill)
    assert msgspec.json.decode(written, type=Bill) == found.bill
    assert b"\\u0000" not in written


codes = st.sampled_from(["ch_1", "ch_2", "counter", "dine_in", "take_away", "", None, 5])
labels = st.sampled_from(["Elephant", "HungryElephant", "", None])
categories = st.lists(st.sampled_from(["best", "c1", "c2", 7, "", None]), max_size=4) | st.none() | anything
lines = st.fixed_dictionaries(
    {}, optional={"rootId": st.sampled_from(["r1", 7, "", None]) | scalars, "categoryIds": categories}
)
times = (
    st.datetimes(datetime(1969, 12, 30), datetime(9999, 12, 31, 23, 59, 59)).map(datetime.isoformat)  # noqa: DTZ001
    | st.sampled_from(["2026-03-08T02:30:00", "2026-11-01 01:30", "2026-01-31T23:30:00Z", EVENING, "0001-01-01T00:00"])
    | st.integers(0, 2 * 10**12)
    | scalars
)
sold = st.builds(
    dict.__or__,
    bills,
    st.fixed_dictionaries(
        {},
        optional={
            "channel": codes | st.fixed_dictionaries({}, optional={"id": codes, "name": labels}),
            "table": st.sampled_from([None, {}, {"id": "t1"}, {"name": "A1"}]),
            "lines": st.lists(lines | st.none(), max_size=4),
            "closedAt": times,
            "tradingDay": times | st.sampled_from(["2026-01-31", 20260131, 20261399]),
        },
    ),
)
all_facts = st.builds(
    ShopFacts,
    shop_id=st.just("sh_01"),
    franchise_id=st.sampled_from([None, "fr_a", "fr_b"]),
    timezone=st.sampled_from([None, "Asia/Bangkok", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"]),
    closing=st.sampled_from([None, "02:00", "05:30", "22:00", "24:00"]),
    channels=st.dictionaries(st.sampled_from(["ch_1", "ch_2", "dine_in", "5"]), st.sampled_from(["Elephant", "Rhino"])),
    groupings=st.lists(st.sampled_from(["7", "best", "c1"]), unique=True).map(lambda ids: tuple(sorted(ids))),
)


@given(sold, all_facts, all_facts)
def test_a_bill_reread_under_new_facts_is_the_bill_read_under_them(
    fields: dict[str, Any], before: ShopFacts, after: ShopFacts
) -> None:
    """Withheld values are compared too. Because they are equal, further changes of the facts give equal bills too."""
    assert under_facts(stored(closed(before, **fields)), after) == closed(after, **fields)


def stored(found: ClosedBill) -> ClosedBill:
    """Return the bill as it is after being stored and read back."""
    return replace(
        found,
        bill=msgspec.json.decode(msgspec.json.encode(found.bill), type=Bill),
        withheld=msgspec.json.decode(msgspec.json.encode(found.withheld), type=Withheld | None),
    )
