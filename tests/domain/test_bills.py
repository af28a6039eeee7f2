"""Tests for converting a raw POS bill to the published Bill, and for converting it again after the facts changed."""

from datetime import date, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from counterfoil.domain.bills import ClosedBill, Withheld, bill_from, under_facts
from counterfoil.domain.pos_values import Unreadable
from counterfoil.domain.resources import Amounts, Bill, Channel, Item, Payment
from counterfoil.domain.shops import ShopFacts

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


def line(facts: ShopFacts = RIVERSIDE, **fields: object) -> Item:
    return bill(facts, lines=[fields]).items[0]


def amounts(**fields: object) -> Amounts:
    return bill(amounts=fields).amounts


def payment(**fields: object) -> Payment:
    return bill(payments=[fields]).payments[0]


def channel(**fields: object) -> Channel:
    return bill(RIVERSIDE, **fields).channel


def at(found: Any, path: str) -> Any:
    """Return the value at a path in a published bill, such as `items.0.qty`."""
    for step in path.split("."):
        found = found[int(step)] if step.isdigit() else found[step]
    return found


# --- rules for fields ------------------------------------------------------

# Each rule has a name, the fields of the record, the path of the result, and the expected value.
RULES: list[tuple[str, dict[str, Any], str, Any]] = [
    ("numeric ids are read as their digits", {"orderIds": [1, "2", "", None]}, "orderIds", ["1", "2"]),
    ("orders that cannot be read", {"orderIds": "o1"}, "orderIds", []),
    ("a receipt number in figures", {"receiptNumber": 42}, "receiptNumber", "42"),
    ("no tax invoice", {"taxNumber": ""}, "taxNumber", None),
    ("the member is identified by token only", {"memberId": 4711}, "memberId", "m1_1174"),
    (
        "the bill date is the calendar day even before closing time",
        {"closedAt": AFTER_MIDNIGHT},
        "billDate",
        "2026-02-01",
    ),
    ("a closing time ends the accounting day", {"closedAt": "2026-02-01T02:00:00+07:00"}, "businessDate", "2026-02-01"),
    (
        "the till's trading day takes precedence over the closing time",
        {"closedAt": AFTER_MIDNIGHT, "tradingDay": "20260203"},
        "businessDate",
        "2026-02-03",
    ),
    (
        "with an unreadable trading day the closing time decides",
        {"closedAt": AFTER_MIDNIGHT, "tradingDay": "soon"},
        "businessDate",
        "2026-01-31",
    ),
    ("a bill without a time keeps its trading day", {"tradingDay": "2026-01-31"}, "businessDate", "2026-01-31"),
    ("the channel is what the till recorded", {"channel": "pickup", "table": {"id": "t1"}}, "channel.code", "pickup"),
    ("a label of the bill", {"channel": {"id": "ch_1", "name": "Elephant"}}, "channel.name", "Elephant"),
    ("a label of the shop", {"channel": "ch_1"}, "channel.name", "HungryElephant"),
    ("a channel without any label", {"channel": "ch_9"}, "channel", {"code": "ch_9", "name": None}),
    ("a sale at the counter is dine-in", {"channel": "counter"}, "channel.code", "dine_in"),
    ("a sale at a labelled counter is dine-in", {"channel": {"id": "counter"}}, "channel.code", "dine_in"),
    ("a table makes a bill dine-in", {"table": {"id": "t1"}}, "channel.code", "dine_in"),
    ("the table is named on a dine-in bill", {"table": {"id": "t1", "name": 12}}, "tableName", "12"),
    ("and on no other bill", {"channel": "take_away", "table": {"id": "t1", "name": "A1"}}, "tableName", None),
    ("a buffet is its package", {"buffetPackageId": "bf_1", "serviceType": "alacarte"}, "serviceType", "bf_1"),
    ("a normal sale", {"buffetPackageId": "", "serviceType": "alacarte"}, "serviceType", "alacarte"),
    ("the reason of a void", {"void": {"reason": "wrong table"}}, "voidReason", "wrong table"),
    ("a payment without a change field gave no change", {"payments": [{"amount": 100}]}, "payments.0.change", 0),
]
LINE_RULES: list[tuple[str, dict[str, Any], str, Any]] = [
    ("a recorded price is kept whatever the total", {"qty": 2, "unitPrice": "45.00", "total": 120}, "unitPrice", 45),
    ("a price of zero is recorded", {"qty": 2, "unitPrice": 0, "total": 120}, "unitPrice", 0),
    ("a very small quantity does not cause an infinite price", {"qty": 5e-324, "total": 100}, "unitPrice", None),
    ("a quantity in quotes", {"qty": "2"}, "qty", 2),
    ("a part of a whole", {"qty": 0.5}, "qty", 0.5),
    ("a quantity that cannot be read", {"qty": "a few"}, "qty", None),
    ("a returned line keeps its sign", {"qty": -1, "total": -60}, "qty", -1),
    ("the price of a returned line is positive", {"qty": -1, "total": -60}, "unitPrice", 60),
    ("no readable total", {"total": "NaN"}, "lineTotal", None),
    ("an option with quantity zero keeps it", {"options": [{"id": "x", "qty": 0}]}, "options.0.qty", 0),
    ("nothing recorded about categories", {"categoryIds": None}, "category", None),
    ("no field for categories", {}, "category", None),
    ("categories stay in their order", {"categoryIds": ["c9", 3, "c1"]}, "category", ["c9", "3", "c1"]),
    ("a promotional grouping is no category", {"categoryIds": ["best", "c1"]}, "category", ["c1"]),
    ("a tip line", {"tip": "yes"}, "isTip", True),
    ("any other line", {}, "isTip", False),
    ("a cancelled line stays on the bill", {"cancelled": 1}, "cancelled", True),
    ("a line that was not cancelled", {}, "cancelled", False),
    ("a line without VAT", {}, "vat", False),
    ("no product", {"productId": None}, "id", None),
    ("no name", {"name": ""}, "name", None),
]


@pytest.mark.parametrize(("fields", "path", "expected"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_a_field_of_a_bill_follows_its_rule(fields: dict[str, Any], path: str, expected: Any) -> None:
    assert at(msgspec.to_builtins(bill(RIVERSIDE, **fields)), path) == expected


@pytest.mark.parametrize(
    ("fields", "name", "expected"), [rule[1:] for rule in LINE_RULES], ids=[rule[0] for rule in LINE_RULES]
)
def test_a_field_of_a_line_follows_its_rule(fields: dict[str, Any], name: str, expected: Any) -> None:
    assert at(msgspec.to_builtins(line(RIVERSIDE, **fields)), name) == expected


# --- the whole bill --------------------------------------------------------


def test_a_bill_without_a_usable_id_is_refused() -> None:
    with pytest.raises(Unreadable):
        bill_from({"id": None}, RIVERSIDE, token_of)


def test_customer_data_from_the_till_is_not_stored() -> None:
    assert bill(customerName="Somchai", phone="0812345678", note="no peanuts", slip={"ref": 1}) == bill()


def test_a_bill_from_before_change_tracking_is_marked_as_such() -> None:
    assert closed(history="1").history
    assert not closed().history


@pytest.mark.parametrize("member", [None, "", " ", {}, True])
def test_a_bill_linked_to_nobody_has_no_token(member: object) -> None:
    assert bill(memberId=member).member_id is None


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


@pytest.mark.parametrize(
    "time", [None, "", "noon", True, {}, "0001-01-01T00:00:00Z", "2026-01-31", "20260131", 20260131]
)
def test_a_bill_without_a_readable_time_has_no_dates(time: object) -> None:
    undated = bill(closedAt=time)
    assert (undated.timestamp, undated.bill_date, undated.business_date) == (None, None, None)


def test_the_instant_and_the_stamp_are_available_to_the_store() -> None:
    found = closed(closedAt=EVENING, tradingDay="2026-01-31")
    assert (found.closed_at, found.trading_day) == (1769857509120, date(2026, 1, 31))


# --- channel, table, service -----------------------------------------------


@pytest.mark.parametrize("nothing", [None, "", " ", {}, {"name": "Elephant"}, {"id": ""}, [], True])
def test_with_an_unreadable_channel_the_table_decides(nothing: object) -> None:
    assert channel(channel=nothing, table={"name": "A1"}) == Channel(code="dine_in", name=None)


@pytest.mark.parametrize("nothing", [None, {}, {"id": "", "name": None}, "A1", 5])
def test_with_neither_channel_nor_table_there_is_no_code(nothing: object) -> None:
    assert channel(table=nothing) == Channel(code=None, name=None)


# --- lines -----------------------------------------------------------------


@pytest.mark.parametrize("price", [None, "", "free", True, float("nan")])
def test_an_unreadable_price_is_the_total_divided_by_the_quantity(price: object) -> None:
    assert line(qty="3", unitPrice=price, total="100.00").unit_price == 33.333333


@pytest.mark.parametrize(("qty", "total"), [(None, 100), ("some", 100), (0, 100), ("0.0", 100), (2, None), (2, "")])
def test_a_price_that_cannot_be_calculated_is_null(qty: object, total: object) -> None:
    assert line(qty=qty, total=total).unit_price is None


@pytest.mark.parametrize("qty", [None, "", "lots", False, [], float("inf")])
def test_an_option_without_a_readable_quantity_has_quantity_one(qty: object) -> None:
    assert line(options=[{"id": "x", "qty": qty}]).options[0].qty == 1


@pytest.mark.parametrize("options", [None, "", {}, "egg", [None, "egg", 5]])
def test_unreadable_options_are_an_empty_list(options: object) -> None:
    assert line(options=options).options == []


@pytest.mark.parametrize("none", [[], [""], "", "c1", {}, 5])
def test_category_is_empty_if_the_product_had_none(none: object) -> None:
    assert line(categoryIds=none).category == []


@pytest.mark.parametrize("lines", [None, "", {}, 5, [None, 5, "x", []]])
def test_lines_that_cannot_be_read_are_left_out(lines: object) -> None:
    assert bill(lines=lines).items == []


# --- money -----------------------------------------------------------------

AMOUNTS = {
    "subtotal": "subtotal",
    "discount": "discount",
    "discountTotal": "discount_total",
    "serviceCharge": "service_charge",
    "deliveryFee": "delivery_fee",
    "cardSurcharge": "card_surcharge",
    "credit": "credit",
    "vat": "vat",
    "rounding": "rounding",
    "tip": "tip",
    "net": "net",
}


@pytest.mark.parametrize(("written", "published"), AMOUNTS.items())
def test_an_amount_has_its_published_name(written: str, published: str) -> None:
    assert getattr(amounts(**{written: "1,250.50"}), published) == 1250.5


@pytest.mark.parametrize(("written", "published"), AMOUNTS.items())
def test_an_amount_of_zero_is_not_treated_as_absent(written: str, published: str) -> None:
    assert (getattr(amounts(**{written: 0}), published), getattr(amounts(), published)) == (0, None)


@pytest.mark.parametrize("value", ["", "-", True, [], {}, float("nan"), float("inf"), "Infinity"])
def test_an_amount_that_cannot_be_read_is_null(value: object) -> None:
    assert amounts(net=value).net is None


@pytest.mark.parametrize("value", [None, "", [], 5, "100"])
def test_amounts_that_cannot_be_read_are_all_null(value: object) -> None:
    assert bill(amounts=value).amounts == amounts()


@pytest.mark.parametrize("vat_type", ["Include", "Exclude", "", "something new"])
def test_the_vat_type_is_an_open_string_and_may_be_empty(vat_type: str) -> None:
    assert amounts(vatType=vat_type).vat_type == vat_type


@pytest.mark.parametrize("vat_type", [None, 7, True, {}])
def test_a_vat_type_that_is_not_a_string_is_null(vat_type: object) -> None:
    assert amounts(vatType=vat_type).vat_type is None


@pytest.mark.parametrize("amount", [None, "", "half", True, float("nan")])
def test_a_promotion_without_a_readable_amount_takes_nothing_off(amount: object) -> None:
    assert amounts(campaigns=[{"id": "k", "amount": amount}]).campaign[0].amount == 0


def test_coupons_are_distinguished_from_campaigns() -> None:
    found = amounts(coupons=[{"id": 5, "name": "Free tea", "amount": "35"}])
    assert (found.campaign, [coupon.amount for coupon in found.coupon]) == ([], [35])


@pytest.mark.parametrize("change", [None, "", " "])
def test_a_payment_without_recorded_change_has_a_change_of_zero(change: object) -> None:
    assert payment(name="Cash", amount=100, change=change).change == 0


@pytest.mark.parametrize("change", ["some", True, [], {}, float("nan"), "1_0", "๕"])
def test_change_that_cannot_be_read_is_null(change: object) -> None:
    assert payment(amount=100, change=change).change is None


def test_a_bill_may_be_split_over_several_payments() -> None:
    split = bill(payments=[{"name": "Cash", "amount": 50}, None, {"name": "Card", "amount": "70.00"}])
    assert [(part.name, part.amount) for part in split.payments] == [("Cash", 50), ("Card", 70)]


# --- status ----------------------------------------------------------------


@pytest.mark.parametrize("void", [True, 1, "yes", " Yes ", "TRUE", "1", {}, {"reason": ""}])
def test_a_cancelled_bill_is_void(void: object) -> None:
    assert (bill(void=void).status, bill(void=void).void_reason) == ("void", None)


@pytest.mark.parametrize("void", ["wrong table", " maybe ", "ลูกค้ายกเลิก", "2"])
def test_text_instead_of_a_flag_is_the_reason_of_a_void(void: str) -> None:
    assert (bill(void=void).status, bill(void=void).void_reason) == ("void", void)


@pytest.mark.parametrize("void", [None, False, 0, 2, "", " ", "no", " FALSE ", "0", "\0", []])
def test_any_other_bill_is_completed(void: object) -> None:
    assert (bill(void=void).status, bill(void=void).void_reason) == ("completed", None)


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
@settings(max_examples=100, deadline=None)
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
