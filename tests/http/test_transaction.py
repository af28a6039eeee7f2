"""GET /v1/transactions/{id}: one bill, field by field."""

from typing import Any
from urllib.parse import quote

import pytest

from records import at, bill, branch, fresh, line, shop
from running_service import RunningService

FIELDS = [
    "id",
    "orderIds",
    "receiptNumber",
    "taxNumber",
    "timestamp",
    "businessDate",
    "billDate",
    "updatedAt",
    "franchiseId",
    "shopId",
    "deviceId",
    "stationId",
    "channel",
    "serviceType",
    "tableName",
    "memberId",
    "items",
    "amounts",
    "payments",
    "status",
    "voidReason",
    "cashier",
]
ITEM_FIELDS = [
    "id",
    "rootId",
    "name",
    "qty",
    "unitPrice",
    "lineTotal",
    "options",
    "category",
    "cancelled",
    "vat",
    "isTip",
]
AMOUNT_FIELDS = [
    "subtotal",
    "discount",
    "campaign",
    "coupon",
    "discountTotal",
    "serviceCharge",
    "deliveryFee",
    "cardSurcharge",
    "credit",
    "vat",
    "vatType",
    "rounding",
    "tip",
    "net",
]


def read(service: RunningService, of: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Load a bill with these fields; return it as read with its shop's key."""
    record = bill(of, **fields)
    service.load(of, record)
    found: dict[str, Any] = service.data(f"transactions/{record['id']}", service.key(shop=of["id"]))
    return found


# --- the answer ------------------------------------------------------------------


def test_the_answer_is_one_bill_without_a_cursor(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of)
    shared_service.load(of, record)
    body = shared_service.get(f"transactions/{record['id']}", shared_service.key(shop=of["id"])).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert body["data"]["id"] == record["id"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("", FIELDS),
        ("channel", ["code", "name"]),
        ("items.0", ITEM_FIELDS),
        ("items.0.options.0", ["choiceId", "choiceName", "qty"]),
        ("amounts", AMOUNT_FIELDS),
        ("amounts.campaign.0", ["id", "name", "amount"]),
        ("amounts.coupon.0", ["id", "name", "amount"]),
        ("payments.0", ["name", "amount", "change"]),
    ],
)
def test_every_object_on_a_bill_has_exactly_the_contracts_fields(
    shared_service: RunningService, path: str, fields: list[str]
) -> None:
    found = read(
        shared_service,
        shop(),
        lines=[line(options=[{"id": "o1"}])],
        amounts={"campaigns": [{"id": "p1"}], "coupons": [{"id": "p2"}]},
    )
    assert list(at(found, path) if path else found) == fields


def test_a_full_bill_is_returned_field_by_field(shared_service: RunningService) -> None:
    amounts = {
        "subtotal": 120,
        "discount": 10,
        "discountTotal": 20,
        "serviceCharge": 10,
        "deliveryFee": 0,
        "cardSurcharge": 1.5,
        "credit": 3,
        "vat": 7.21,
        "vatType": "Exclude",
        "rounding": -0.21,
        "tip": 20,
        "net": 131.5,
    }
    campaigns = [{"id": "c1", "name": "Lunch", "amount": 5}]
    coupons = [{"id": "c2", "name": "Voucher", "amount": 5}]
    of = branch(channels=[{"id": "grab", "name": "Grab"}])
    record = bill(
        of,
        orderIds=["o1", "o2"],
        receiptNumber="R-77",
        taxNumber="TX-9",
        closedAt="2026-01-02T01:30:00+07:00",
        deviceId="d1",
        stationId="s1",
        table=None,
        channel="grab",
        buffetPackageId=None,
        memberId="4711",
        lines=[line(qty=2, unitPrice=60, total=120, options=[{"id": "o1", "name": "Egg", "qty": 2}])],
        amounts={**amounts, "campaigns": campaigns, "coupons": coupons},
        payments=[{"name": "Cash", "amount": 100, "change": 8.5}, {"name": "Card", "amount": 40}],
        cashier="Nok",
    )
    shared_service.load(of, record)
    found = shared_service.data(f"transactions/{record['id']}", shared_service.key(shop=of["id"]))
    assert found | {"updatedAt": "?"} == {
        "id": record["id"],
        "orderIds": ["o1", "o2"],
        "receiptNumber": "R-77",
        "taxNumber": "TX-9",
        "timestamp": "2026-01-02T01:30:00.000+07:00",
        "businessDate": "2026-01-01",
        "billDate": "2026-01-02",
        "updatedAt": "?",
        "franchiseId": of["franchiseId"],
        "shopId": of["id"],
        "deviceId": "d1",
        "stationId": "s1",
        "channel": {"code": "grab", "name": "Grab"},
        "serviceType": "alacarte",
        "tableName": None,
        "memberId": shared_service.token("4711"),
        "items": [
            {
                "id": "p-soup",
                "rootId": "hq-soup",
                "name": "Soup",
                "qty": 2,
                "unitPrice": 60,
                "lineTotal": 120,
                "options": [{"choiceId": "o1", "choiceName": "Egg", "qty": 2}],
                "category": ["c-soups"],
                "cancelled": False,
                "vat": True,
                "isTip": False,
            }
        ],
        "amounts": {**amounts, "campaign": campaigns, "coupon": coupons},
        "payments": [{"name": "Cash", "amount": 100, "change": 8.5}, {"name": "Card", "amount": 40, "change": 0}],
        "status": "completed",
        "voidReason": None,
        "cashier": "Nok",
    }


def test_a_bill_with_only_ids_has_every_field(shared_service: RunningService) -> None:
    of = shop()
    record = {"kind": "bill", "id": fresh("bill"), "shopId": of["id"]}
    shared_service.load(of, record)
    found = shared_service.data(f"transactions/{record['id']}", shared_service.key(shop=of["id"]))
    empty: dict[str, Any] = dict.fromkeys(FIELDS) | {"orderIds": [], "items": [], "payments": []}
    assert found == empty | {
        "id": record["id"],
        "shopId": of["id"],
        "updatedAt": found["updatedAt"],
        "channel": {"code": None, "name": None},
        "amounts": dict.fromkeys(AMOUNT_FIELDS) | {"campaign": [], "coupon": []},
        "status": "completed",
    }


def test_a_bill_is_the_same_in_the_list_and_on_its_own(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of)
    shared_service.load(of, record)
    key = shared_service.key(shop=of["id"])
    (listed,) = shared_service.data("transactions", key, shopId=of["id"], updatedSince="2000-01-01T00:00:00Z")
    assert shared_service.data(f"transactions/{record['id']}", key) == listed


# --- rules for fields ------------------------------------------------------------------


def test_money_is_written_without_floating_point_noise(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of, amounts={"net": 0.1 + 0.2, "vat": 1.10})
    shared_service.load(of, record)
    text = shared_service.get(f"transactions/{record['id']}", shared_service.key(shop=of["id"])).text
    assert '"net":0.3}' in text
    assert '"vat":1.1,' in text


def test_a_bills_times_have_the_offset_of_its_shop(shared_service: RunningService) -> None:
    found = read(shared_service, shop(timezone="America/St_Johns"), closedAt="2026-01-01T12:00:00Z")
    assert found["timestamp"] == "2026-01-01T08:30:00.000-03:30"
    assert found["updatedAt"].endswith("-03:30")


def test_a_linked_bill_has_the_members_token_even_if_the_member_is_not_loaded(shared_service: RunningService) -> None:
    assert read(shared_service, shop(), memberId="never-loaded")["memberId"] == shared_service.token("never-loaded")


# --- which bills can be read ----------------------------------------------------------------


def test_a_missing_bill_and_one_out_of_scope_get_the_same_answer(shared_service: RunningService) -> None:
    mine, theirs = branch(), branch()
    record = bill(theirs)
    shared_service.load(mine, theirs, record)
    key = shared_service.key(franchise=mine["franchiseId"])
    outside, missing = (shared_service.get(f"transactions/{asked}", key) for asked in (record["id"], fresh("bill")))
    assert (outside.status_code, outside.content) == (missing.status_code, missing.content)
    assert (missing.status_code, missing.json()["error"]) == (404, "not_found")


@pytest.mark.parametrize(
    "odd", ["with space", "a/b", "a?b", "a#b", "100%", "a%2Fb", "ใบเสร็จ", "+", "..", ".", "x" * 512, "a\nb", "'; --"]
)
def test_a_bill_is_found_by_an_id_of_any_characters(shared_service: RunningService, odd: str) -> None:
    of = shop()
    shared_service.load(of, bill(of, id=odd))
    # In an ID of only dots, the dots are encoded, because the HTTP client would resolve a path segment `.` or `..`.
    path = quote(odd, safe="") if odd.strip(".") else odd.replace(".", "%2E")
    assert shared_service.data(f"transactions/{path}", shared_service.key(shop=of["id"]))["id"] == odd


@pytest.mark.parametrize(
    "change", [str.lower, str.upper, lambda known: known[:-1], lambda known: known + "x", lambda known: f" {known}"]
)
def test_ids_are_case_sensitive(shared_service: RunningService, change: Any) -> None:
    of = shop()
    record = bill(of, id=fresh("Bill"))
    shared_service.load(of, record)
    asked = quote(change(record["id"]), safe="")
    assert shared_service.error(f"transactions/{asked}", shared_service.key(shop=of["id"])) == "not_found"
