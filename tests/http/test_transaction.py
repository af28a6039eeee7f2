"""GET /v1/transactions/{id}: one bill, field by field."""

from typing import Any
from urllib.parse import quote

from msgspec import json

from records import EVER, Record, bill, branch, fresh, line, shop
from running_service import RunningService


def read(service: RunningService, of: Record, **fields: Any) -> Record:
    """Load a bill with these fields; return it as read with its shop's key."""
    record = bill(of, **fields)
    found: Record = service.data(f"transactions/{record['id']}", service.key_for(of, record))
    return found


def test_a_full_bill_is_returned_field_by_field(shared_service: RunningService) -> None:
    campaigns = [{"id": "c1", "name": "Lunch", "amount": 5}]
    coupons = [{"id": "c2", "name": "Voucher", "amount": 5}]
    amounts = {
        "subtotal": 120,
        "discount": 10,
        "campaign": campaigns,
        "coupon": coupons,
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
    body = shared_service.get(f"transactions/{record['id']}", shared_service.key_for(of, record)).json()
    assert list(body) == ["ok", "data", "serverTime"]
    expected = {
        "id": record["id"],
        "orderIds": ["o1", "o2"],
        "receiptNumber": "R-77",
        "taxNumber": "TX-9",
        "timestamp": "2026-01-02T01:30:00.000+07:00",
        "businessDate": "2026-01-01",
        "billDate": "2026-01-02",
        "updatedAt": body["data"]["updatedAt"],
        "franchiseId": of["franchiseId"],
        "shopId": of["id"],
        "deviceId": "d1",
        "stationId": "s1",
        "channel": {"code": "grab", "name": "Grab"},
        "serviceType": "alacarte",
        "tableName": None,
        "memberId": shared_service.token("4711"),  # although the member is not loaded
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
        "amounts": amounts,
        "payments": [{"name": "Cash", "amount": 100, "change": 8.5}, {"name": "Card", "amount": 40, "change": 0}],
        "status": "completed",
        "voidReason": None,
        "cashier": "Nok",
    }
    # As JSON, because the fields have the order of the contract.
    assert json.encode(body["data"]) == json.encode(expected)


def test_a_bill_with_only_ids_has_every_field(shared_service: RunningService) -> None:
    full = read(shared_service, shop())
    of = shop()
    record = {"kind": "bill", "id": fresh("bill"), "shopId": of["id"]}
    found = shared_service.data(f"transactions/{record['id']}", shared_service.key_for(of, record))
    empty: Record = dict.fromkeys(full) | {"orderIds": [], "items": [], "payments": []}
    assert found == empty | {
        "id": record["id"],
        "shopId": of["id"],
        "updatedAt": found["updatedAt"],
        "channel": {"code": None, "name": None},
        "amounts": dict.fromkeys(full["amounts"]) | {"campaign": [], "coupon": []},
        "status": "completed",
    }


def test_a_bill_is_the_same_in_the_list_and_on_its_own(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of)
    key = shared_service.key_for(of, record)
    (listed,) = shared_service.data("transactions", key, shopId=of["id"], updatedSince=EVER)
    assert shared_service.data(f"transactions/{record['id']}", key) == listed


def test_a_bills_times_have_the_offset_of_its_shop(shared_service: RunningService) -> None:
    found = read(shared_service, shop(timezone="America/St_Johns"), closedAt="2026-01-01T12:00:00Z")
    assert found["timestamp"] == "2026-01-01T08:30:00.000-03:30"
    assert found["updatedAt"].endswith("-03:30")


def test_money_is_written_without_floating_point_noise(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of, amounts={"net": 0.1 + 0.2, "vat": 1.10})
    text = shared_service.get(f"transactions/{record['id']}", shared_service.key_for(of, record)).text
    assert '"net":0.3}' in text
    assert '"vat":1.1,' in text


# --- which bills can be read ----------------------------------------------------------------


def test_a_missing_bill_and_one_out_of_scope_get_the_same_answer(shared_service: RunningService) -> None:
    mine, theirs = branch(), branch()
    record = bill(theirs)
    shared_service.load(mine, theirs, record)
    key = shared_service.key(franchise=mine["franchiseId"])
    outside, missing = (shared_service.get(f"transactions/{asked}", key) for asked in (record["id"], fresh("bill")))
    assert (outside.status_code, outside.content) == (missing.status_code, missing.content)
    assert (missing.status_code, missing.json()["error"]) == (404, "not_found")


def test_a_bill_is_found_by_an_id_of_any_characters(shared_service: RunningService) -> None:
    of = shop()
    odd = ["with space", "a/b", "a?b", "a#b", "100%", "a%2Fb", "ใบเสร็จ", "+", "..", ".", "x" * 512, "a\nb", "'; --"]
    key = shared_service.key_for(of, *[bill(of, id=each) for each in odd])
    for each in odd:
        # In an ID of only dots, the dots are encoded, because the HTTP client would resolve a path segment `.` or `..`.
        path = quote(each, safe="") if each.strip(".") else each.replace(".", "%2E")
        assert shared_service.data(f"transactions/{path}", key)["id"] == each


def test_ids_are_compared_exactly(shared_service: RunningService) -> None:
    of = shop()
    known = fresh("Bill")
    key = shared_service.key_for(of, bill(of, id=known))
    for asked in (known.lower(), known.upper(), known[:-1], known + "x", f" {known}"):
        assert shared_service.error(f"transactions/{quote(asked, safe='')}", key) == "not_found"
