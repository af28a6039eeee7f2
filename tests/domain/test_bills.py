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


# --- the complete bill -----------------------------------------------------


def test_a_bill_is_published_in_the_contracts_form() -> None:
    full = bill(
        orderIds=["o1"],
        receiptNumber="R-1",
        taxNumber="T-1",
        closedAt=EVENING,
        deviceId="d1",
        stationId="s1",
        table={"id": "t1", "name": "A1"},
        serviceType="alacarte",
        memberId="4711",
        lines=[
            {
                "productId": "p1",
                "rootId": "r1",
                "name": "Pad Thai",
                "qty": 2,
                "unitPrice": 60,
                "total": 120,
                "options": [{"id": "x1", "name": "Egg", "qty": 2}],
                "categoryIds": ["c1"],
                "vat": True,
            }
        ],
        amounts={"subtotal": 120, "net": 120, "campaigns": [{"id": "k1", "name": "Lunch", "amount": 5}]},
        payments=[{"name": "Cash", "amount": 200, "change": 80}],
        cashier="Ploy",
    )
    assert msgspec.to_builtins(full) == {
        "id": "b_900",
        "orderIds": ["o1"],
        "receiptNumber": "R-1",
        "taxNumber": "T-1",
        "timestamp": EVENING,
        "businessDate": "2026-01-31",
        "billDate": "2026-01-31",
        "updatedAt": None,
        "franchiseId": "fr_a",
        "shopId": "sh_01",
        "deviceId": "d1",
        "stationId": "s1",
        "channel": {"code": "dine_in", "name": None},
        "serviceType": "alacarte",
        "tableName": "A1",
        "memberId": "m1_1174",
        "items": [
            {
                "id": "p1",
                "rootId": "r1",
                "name": "Pad Thai",
                "qty": 2,
                "unitPrice": 60,
                "lineTotal": 120,
                "options": [{"choiceId": "x1", "choiceName": "Egg", "qty": 2}],
                "category": ["c1"],
                "cancelled": False,
                "vat": True,
                "isTip": False,
            }
        ],
        "amounts": {
            "subtotal": 120,
            "discount": None,
            "campaign": [{"id": "k1", "name": "Lunch", "amount": 5}],
            "coupon": [],
            "discountTotal": None,
            "serviceCharge": None,
            "deliveryFee": None,
            "cardSurcharge": None,
            "credit": None,
            "vat": None,
            "vatType": None,
            "rounding": None,
            "tip": None,
            "net": 120,
        },
        "payments": [{"name": "Cash", "amount": 200, "change": 80}],
        "status": "completed",
        "voidReason": None,
        "cashier": "Ploy",
    }


def test_a_bill_with_only_an_id_still_has_every_field() -> None:
    bare = msgspec.to_builtins(bill())
    assert {name for name, value in bare.items() if value is not None} == {
        *("id", "orderIds", "franchiseId", "shopId", "channel", "items", "amounts", "payments", "status")
    }


def test_a_bill_without_a_usable_id_is_refused() -> None:
    with pytest.raises(Unreadable):
        bill_from({"id": None}, RIVERSIDE, token_of)


def test_a_numeric_id_is_read_as_its_digits() -> None:
    assert bill(id=900, receiptNumber=17, deviceId=3, orderIds=[1, "2", "", None]).order_ids == ["1", "2"]


def test_customer_data_from_the_till_is_not_stored() -> None:
    assert bill(customerName="Somchai", phone="0812345678", note="no peanuts", slip={"ref": 1}) == bill()


def test_a_bill_from_before_change_tracking_is_marked_as_such() -> None:
    assert closed(history="1").history
    assert not closed().history


def test_the_member_of_a_bill_is_identified_by_token_only() -> None:
    assert bill(memberId=4711).member_id == "m1_1174"


@pytest.mark.parametrize("member", [None, "", " ", {}, True])
def test_a_bill_linked_to_nobody_has_no_token(member: object) -> None:
    assert bill(memberId=member).member_id is None


# --- dates -----------------------------------------------------------------


def test_the_time_of_a_bill_has_the_offset_of_its_shop() -> None:
    tokyo = replace(RIVERSIDE, timezone="Asia/Tokyo")
    assert bill(tokyo, closedAt=EVENING).timestamp == "2026-01-31T20:05:09.120+09:00"


def test_the_offset_follows_summer_time() -> None:
    new_york = replace(RIVERSIDE, timezone="America/New_York")
    assert bill(new_york, closedAt="2026-07-01T12:00:00Z").timestamp == "2026-07-01T08:00:00.000-04:00"


def test_a_shop_without_a_time_zone_is_on_thai_time() -> None:
    assert bill(replace(RIVERSIDE, timezone=None), closedAt=1769857509120).timestamp == EVENING


def test_a_time_without_an_offset_is_in_the_shops_time_zone() -> None:
    tokyo = replace(RIVERSIDE, timezone="Asia/Tokyo")
    assert bill(tokyo, closedAt="2026-01-31T18:05:09").timestamp == "2026-01-31T18:05:09.000+09:00"


def test_the_bill_date_is_the_calendar_day_even_before_closing_time() -> None:
    assert bill(closedAt=AFTER_MIDNIGHT).bill_date == "2026-02-01"


def test_a_bill_closed_before_closing_time_is_accounted_to_the_day_before() -> None:
    assert bill(closedAt=AFTER_MIDNIGHT).business_date == "2026-01-31"


def test_the_tills_trading_day_takes_precedence_over_the_closing_time() -> None:
    assert bill(closedAt=AFTER_MIDNIGHT, tradingDay="20260203").business_date == "2026-02-03"


def test_with_an_unreadable_trading_day_the_closing_time_decides() -> None:
    assert bill(closedAt=AFTER_MIDNIGHT, tradingDay="soon").business_date == "2026-01-31"


def test_without_a_closing_time_and_a_stamp_there_is_no_business_date() -> None:
    assert bill(replace(RIVERSIDE, closing=None), closedAt=EVENING).business_date is None


def test_a_shop_open_until_midnight_accounts_to_the_calendar_day() -> None:
    assert bill(replace(RIVERSIDE, closing="24:00"), closedAt=AFTER_MIDNIGHT).business_date == "2026-02-01"


@pytest.mark.parametrize(
    "time", [None, "", "noon", True, {}, "0001-01-01T00:00:00Z", "2026-01-31", "20260131", 20260131]
)
def test_a_bill_without_a_readable_time_has_no_dates(time: object) -> None:
    undated = bill(closedAt=time)
    assert (undated.timestamp, undated.bill_date, undated.business_date) == (None, None, None)


def test_a_bill_without_a_readable_time_keeps_its_trading_day() -> None:
    assert bill(tradingDay="2026-01-31").business_date == "2026-01-31"


def test_the_instant_and_the_stamp_are_available_to_the_store() -> None:
    found = closed(closedAt=EVENING, tradingDay="2026-01-31")
    assert (found.closed_at, found.trading_day) == (1769857509120, date(2026, 1, 31))


# --- channel, table, service -----------------------------------------------


@pytest.mark.parametrize("code", ["take_away", "pickup", "ch_9"])
def test_the_channel_of_a_bill_is_what_the_till_recorded(code: str) -> None:
    assert channel(channel=code, table={"id": "t1"}) == Channel(code=code, name=None)


def test_a_channel_has_the_label_that_the_bill_contains() -> None:
    assert channel(channel={"id": "ch_1", "name": "Elephant"}) == Channel(code="ch_1", name="Elephant")


def test_a_channel_without_a_label_gets_the_one_of_its_shop() -> None:
    assert channel(channel="ch_1") == Channel(code="ch_1", name="HungryElephant")


@pytest.mark.parametrize("counter", ["counter", {"id": "counter"}])
def test_a_sale_at_the_counter_without_a_table_is_dine_in(counter: object) -> None:
    assert channel(channel=counter).code == "dine_in"


def test_a_table_makes_a_bill_dine_in() -> None:
    assert channel(table={"id": "t1"}).code == "dine_in"


@pytest.mark.parametrize("nothing", [None, "", " ", {}, {"name": "Elephant"}, {"id": ""}, [], True])
def test_with_an_unreadable_channel_the_table_decides(nothing: object) -> None:
    assert channel(channel=nothing, table={"name": "A1"}) == Channel(code="dine_in", name=None)


@pytest.mark.parametrize("nothing", [None, {}, {"id": "", "name": None}, "A1", 5])
def test_with_neither_channel_nor_table_there_is_no_code(nothing: object) -> None:
    assert channel(table=nothing) == Channel(code=None, name=None)


def test_the_table_is_named_on_a_dine_in_bill() -> None:
    assert bill(table={"id": "t1", "name": 12}).table_name == "12"


def test_the_table_is_not_named_on_any_other_bill() -> None:
    assert bill(channel="take_away", table={"id": "t1", "name": "A1"}).table_name is None


def test_a_buffet_is_identified_by_the_id_of_its_package() -> None:
    assert bill(buffetPackageId="bf_1", serviceType="alacarte").service_type == "bf_1"


def test_the_name_of_a_normal_sale_is_the_tills() -> None:
    assert bill(buffetPackageId="", serviceType="alacarte").service_type == "alacarte"


# --- lines -----------------------------------------------------------------


def test_a_recorded_price_is_kept_whatever_the_total() -> None:
    assert line(qty=2, unitPrice="45.00", total=120).unit_price == 45


def test_a_price_of_zero_counts_as_recorded() -> None:
    assert line(qty=2, unitPrice=0, total=120).unit_price == 0


@pytest.mark.parametrize("price", [None, "", "free", True, float("nan")])
def test_an_unreadable_price_is_the_total_divided_by_the_quantity(price: object) -> None:
    assert line(qty="3", unitPrice=price, total="100.00").unit_price == 33.333333


@pytest.mark.parametrize(("qty", "total"), [(None, 100), ("some", 100), (0, 100), ("0.0", 100), (2, None), (2, "")])
def test_a_price_that_cannot_be_calculated_is_null(qty: object, total: object) -> None:
    assert line(qty=qty, total=total).unit_price is None


def test_a_very_small_quantity_does_not_cause_an_infinite_price() -> None:
    assert line(qty=5e-324, total=100).unit_price is None


def test_a_quantity_that_cannot_be_read_is_null() -> None:
    assert line(qty="a few").qty is None


def test_a_returned_line_keeps_its_sign() -> None:
    assert (line(qty=-1, total=-60).qty, line(qty=-1, total=-60).unit_price) == (-1, 60)


@pytest.mark.parametrize("qty", [None, "", "lots", False, [], float("inf")])
def test_an_option_without_a_readable_quantity_has_quantity_one(qty: object) -> None:
    assert line(options=[{"id": "x", "qty": qty}]).options[0].qty == 1


def test_an_option_with_quantity_zero_keeps_it() -> None:
    assert line(options=[{"id": "x", "qty": 0}]).options[0].qty == 0


@pytest.mark.parametrize("options", [None, "", {}, "egg", [None, "egg", 5]])
def test_unreadable_options_are_an_empty_list(options: object) -> None:
    assert line(options=options).options == []


def test_category_is_null_if_the_till_recorded_nothing_about_it() -> None:
    assert (line().category, line(categoryIds=None).category) == (None, None)


@pytest.mark.parametrize("none", [[], [""], "", "c1", {}, 5])
def test_category_is_empty_if_the_product_had_none(none: object) -> None:
    assert line(categoryIds=none).category == []


def test_categories_stay_in_their_order_top_level_first() -> None:
    assert line(categoryIds=["c9", 3, "c1"]).category == ["c9", "3", "c1"]


def test_a_promotional_grouping_is_not_kept_as_a_category() -> None:
    assert line(categoryIds=["best", "c1"]).category == ["c1"]


def test_a_tip_line_is_marked_as_a_tip() -> None:
    assert line(name="Tip", total=20, tip="yes").is_tip


def test_a_cancelled_line_stays_on_the_bill() -> None:
    assert line(cancelled=1).cancelled


def test_the_flags_of_a_line_are_false_unless_the_till_set_them() -> None:
    assert (line().cancelled, line().vat, line().is_tip) == (False, False, False)


def test_the_head_offices_product_is_kept_for_a_branch() -> None:
    assert line(rootId="r1").root_id == "r1"


def test_an_independent_shop_has_no_head_office_products() -> None:
    assert line(INDEPENDENT, rootId="r1").root_id is None


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


def test_money_has_no_floating_point_noise() -> None:
    assert b'"net":0.3}' in msgspec.json.encode(amounts(net=0.1 + 0.2))


def test_whole_money_is_written_without_a_fraction() -> None:
    assert b'"net":100}' in msgspec.json.encode(amounts(net=100.0))


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


def test_a_payment_without_a_change_field_gave_no_change() -> None:
    assert payment(amount=100).change == 0


def test_a_bill_may_be_split_over_several_payments() -> None:
    split = bill(payments=[{"name": "Cash", "amount": 50}, None, {"name": "Card", "amount": "70.00"}])
    assert [(part.name, part.amount) for part in split.payments] == [("Cash", 50), ("Card", 70)]


# --- status ----------------------------------------------------------------


@pytest.mark.parametrize("void", [True, 1, "yes", {}, {"reason": ""}])
def test_a_cancelled_bill_is_void(void: object) -> None:
    assert (bill(void=void).status, bill(void=void).void_reason) == ("void", None)


def test_the_reason_of_a_void_is_kept() -> None:
    assert bill(void={"reason": "wrong table"}).void_reason == "wrong table"


@pytest.mark.parametrize("void", ["wrong table", " maybe ", "ลูกค้ายกเลิก", "2"])
def test_text_instead_of_a_flag_is_the_reason_of_a_void(void: str) -> None:
    assert (bill(void=void).status, bill(void=void).void_reason) == ("void", void)


@pytest.mark.parametrize("void", [" Yes ", "TRUE", "1"])
def test_words_that_only_state_the_flag_are_not_a_reason(void: str) -> None:
    assert (bill(void=void).status, bill(void=void).void_reason) == ("void", None)


@pytest.mark.parametrize("void", [None, False, 0, 2, "", " ", "no", " FALSE ", "0", "\0", []])
def test_any_other_bill_is_completed(void: object) -> None:
    assert (bill(void=void).status, bill(void=void).void_reason) == ("completed", None)


# --- under changed facts ---------------------------------------------------

TOKYO = replace(RIVERSIDE, timezone="Asia/Tokyo", closing=None, franchise_id="fr_b", groupings=("best", "c1"))


def reread(found: ClosedBill, facts: ShopFacts) -> Bill:
    return under_facts(found, facts).bill


def test_under_the_same_facts_a_bill_stays_as_it_is() -> None:
    found = closed(closedAt=EVENING, lines=[{"categoryIds": ["c1"], "rootId": "r1"}, {}])
    assert reread(found, RIVERSIDE) == found.bill


def test_a_changed_time_zone_moves_the_offset_and_the_dates() -> None:
    moved = reread(closed(closedAt="2026-01-31T23:30:00+07:00"), TOKYO)
    assert (moved.timestamp, moved.bill_date) == ("2026-02-01T01:30:00.000+09:00", "2026-02-01")


def test_a_changed_closing_time_moves_the_business_date() -> None:
    found = closed(closedAt=AFTER_MIDNIGHT)
    assert reread(found, replace(RIVERSIDE, closing="01:00")).business_date == "2026-02-01"


def test_a_stamped_trading_day_does_not_move() -> None:
    assert reread(closed(closedAt=AFTER_MIDNIGHT, tradingDay="2026-01-31"), TOKYO).business_date == "2026-01-31"


def test_a_changed_franchise_shows_on_the_bill() -> None:
    assert reread(closed(), TOKYO).franchise_id == "fr_b"


def test_a_shop_that_leaves_its_franchise_leaves_the_head_offices_products() -> None:
    assert reread(closed(lines=[{"rootId": "r1"}]), INDEPENDENT).items[0].root_id is None


def test_a_category_that_became_a_grouping_leaves_the_lines() -> None:
    found = closed(lines=[{"categoryIds": ["c1", "c2"]}, {"categoryIds": []}, {}])
    assert [item.category for item in reread(found, TOKYO).items] == [["c2"], [], None]


def test_the_store_sets_the_stamp_of_the_last_change() -> None:
    found = closed(closedAt=EVENING)
    stamped = replace(found.bill, updated_at="2026-02-01T00:00:00.000+07:00")
    assert reread(replace(found, bill=stamped), TOKYO).updated_at == stamped.updated_at


# --- values that the facts hide or supply ----------------------------------


def test_an_ordinary_bill_is_published_completely() -> None:
    ordinary = closed(
        closedAt=EVENING,
        tradingDay="2026-01-31",
        channel={"id": "ch_1", "name": "Elephant"},
        lines=[{"rootId": "r1", "categoryIds": ["c1", "c2"]}, {"categoryIds": ["", None]}],
    )
    assert ordinary.withheld is None


def test_values_that_the_facts_hid_or_supplied_are_stored_with_the_bill() -> None:
    found = closed(
        INDEPENDENT,
        closedAt="2026-01-31T18:05:09.5",
        tradingDay="2026-01-31T18:00:00Z",
        channel="ch_1",
        lines=[None, {}, {"rootId": "r1", "categoryIds": ["best", 5, ""]}, {"rootId": 7}],
    )
    assert found.withheld == Withheld(
        roots={1: "r1", 2: "7"},
        categories={1: ["best", "5"]},
        label=True,
        closed=datetime(2026, 1, 31, 18, 5, 9, 500_000),  # noqa: DTZ001 - a local time whose zone is not known yet
        trading=1769882400000,
    )
    assert msgspec.json.decode(msgspec.json.encode(found.withheld), type=Withheld) == found.withheld


def test_the_head_offices_products_return_with_the_franchise() -> None:
    found = closed(INDEPENDENT, lines=[{}, {"rootId": "r1"}])
    assert [item.root_id for item in reread(found, RIVERSIDE).items] == [None, "r1"]


def test_a_category_that_was_mistaken_for_a_grouping_returns_to_its_position() -> None:
    found = closed(lines=[{"categoryIds": ["c9", "best", "c1"]}])
    assert reread(found, replace(RIVERSIDE, groupings=())).items[0].category == ["c9", "best", "c1"]


def test_a_label_from_the_shop_changes_with_the_shop() -> None:
    renamed, without = replace(RIVERSIDE, channels={"ch_1": "Elephant"}), replace(RIVERSIDE, channels={})
    found = closed(channel="ch_1")
    assert [reread(found, facts).channel.name for facts in (renamed, without)] == ["Elephant", None]
    assert reread(under_facts(found, without), renamed).channel.name == "Elephant"


def test_a_label_from_the_bill_stays_whatever_the_shop_calls_the_channel() -> None:
    found = closed(channel={"id": "ch_1", "name": "HungryElephant"})
    assert reread(found, replace(RIVERSIDE, channels={"ch_1": "Elephant"})).channel.name == "HungryElephant"


def test_a_time_without_an_offset_keeps_the_local_time_of_the_till() -> None:
    found = under_facts(closed(closedAt="2026-01-31T18:05:09"), TOKYO)
    assert found.bill.timestamp == "2026-01-31T18:05:09.000+09:00"
    assert found.closed_at == 1769850309000


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
