"""Invented example data. The functions that write responses turn it into complete bodies."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from msgspec import UNSET, json, structs, to_builtins

from counterfoil import API_VERSION
from counterfoil.domain.access import USAGE_DAYS, WINDOW_SEC
from counterfoil.domain.calendar import compact, days_until
from counterfoil.domain.problems import RATE_LIMITED, Problem, Refused, TooManyRequests
from counterfoil.domain.resources import (
    Amounts,
    Bill,
    Category,
    ChangedBill,
    ChangedShop,
    Channel,
    Coupon,
    DayCount,
    DayDigest,
    Item,
    Member,
    MemberReference,
    Option,
    Payment,
    Promotion,
    Rate,
    RemovedBill,
    RemovedShop,
    Resource,
    Shop,
    Today,
    Usage,
)
from counterfoil.http import wire
from counterfoil.http.openapi.operations import Operation
from counterfoil.reads import Answer

REQUEST_ID = "9f2c41d07ab35e68"
TOKEN = "m1_4tQzR8mWc1YpK0sVb7NfXe2LhJd6GuAi"  # noqa: S105 - an invented member token, not a secret
ENTITY_TAG = 'W/"5a0c9be1d2f34876a1b2c3d4"'
_SERVER_TIME = 1_790_856_000_123  # 2026-10-01T12:00:00.123Z

NOODLES = Category(id="cat-noodles", name="Noodles", level=1, parent_id=None, hidden=False)
SOUPS = Category(id="cat-soups", name="Noodle soups", level=2, parent_id="cat-noodles", hidden=True)
SHOP = Shop(
    shop_id="shp-riverside",
    shop_name="Baan Rim Nam, Riverside",
    franchise_id="fr-baan-rim-nam",
    provider_id="base-rim-nam",
    timezone="Asia/Bangkok",
    categories=[NOODLES, SOUPS],
)
LONE_SHOP = Shop(
    shop_id="shp-corner", shop_name=None, franchise_id=None, provider_id=None, timezone=None, categories=[]
)

CHANNEL = Channel(code="dine_in", name="Dine-in")
OPTION = Option(choice_id="opt-egg", choice_name="Boiled egg", qty=1)
NOODLE_LINE = Item(
    id="prd-khao-soi",
    root_id="hq-khao-soi",
    name="Khao soi with chicken",
    qty=2,
    unit_price=95,
    line_total=190,
    options=[OPTION],
    category=["cat-noodles", "cat-soups"],
    cancelled=False,
    vat=True,
    is_tip=False,
)
TEA_LINE = structs.replace(
    NOODLE_LINE,
    id="prd-tea",
    root_id=None,
    name="Iced tea",
    qty=1,
    unit_price=55,
    line_total=55,
    options=[],
    category=[],
)
TIP_LINE = structs.replace(
    TEA_LINE, id=None, name="Tip", unit_price=20, line_total=20, category=None, vat=False, is_tip=True
)
PROMOTION = Promotion(id="pro-weekday", name="Weekday lunch", amount=24.5)
AMOUNTS = Amounts(
    subtotal=245,
    discount=0,
    campaign=[PROMOTION],
    coupon=[],
    discount_total=24.5,
    service_charge=22.05,
    delivery_fee=None,
    card_surcharge=None,
    credit=None,
    vat=15.87,
    vat_type="Include",
    rounding=-0.05,
    tip=20,
    net=262.5,
)
BY_QR = Payment(name="QR payment", amount=162.5, change=0)
IN_CASH = Payment(name="Cash", amount=120, change=20)
BILL = Bill(
    id="txn-7KQ2M9",
    order_ids=["ord-1182"],
    receipt_number="RV-000482",
    tax_number=None,
    timestamp="2026-10-01T00:20:11.000+07:00",
    business_date="2026-09-30",
    bill_date="2026-10-01",
    updated_at="2026-10-01T00:20:13.418+07:00",
    franchise_id="fr-baan-rim-nam",
    shop_id="shp-riverside",
    device_id="dev-03",
    station_id="till-1",
    channel=CHANNEL,
    service_type="alacarte",
    table_name="A4",
    member_id=TOKEN,
    items=[NOODLE_LINE, TEA_LINE, TIP_LINE],
    amounts=AMOUNTS,
    payments=[BY_QR, IN_CASH],
    status="completed",
    void_reason=None,
    cashier="Nok",
)
VOIDED_BILL = structs.replace(
    BILL, status="void", void_reason="Rung up at the wrong table", updated_at="2026-10-01T09:05:40.902+07:00"
)

COUPON = Coupon(
    code="KS7-41",
    status="available",
    template_id="cpn-free-tea",
    name="A free iced tea",
    expire_at="2026-12-31T23:59:59.000+07:00",
)
USED_COUPON = structs.replace(COUPON, code="KS7-12", status="used", expire_at=None)
MEMBER = Member(
    member_id=TOKEN,
    rank="silver",
    rank_level=1,
    rank_name="Silver",
    points=340,
    credit=150.5,
    credit_enabled=True,
    coupons=[COUPON, USED_COUPON],
    labels=["regular"],
    persona=[],
    created_date="2025-03-14T18:42:07.000+07:00",
    visit_count=23,
    last_visit="2026-10-01",
    has_tel=True,
    has_email=False,
    has_messaging=True,
)
MEMBER_IN_FULL = structs.replace(MEMBER, tel="0200000000", email=None)
MEMBER_REFERENCE = MemberReference(member_id=TOKEN)

CHANGED_BILL = ChangedBill(type="bill", shop_id=SHOP.shop_id, bill=VOIDED_BILL)
REMOVED_BILL = RemovedBill(type="billRemoved", shop_id=SHOP.shop_id, id="txn-3PX8B1")
CHANGED_SHOP = ChangedShop(type="shop", shop_id=SHOP.shop_id, full=True, shop=SHOP)
REMOVED_SHOP = RemovedShop(type="shopRemoved", shop_id="shp-old-town", full=False, in_scope=False)
DIGEST = DayDigest(
    shop_id=SHOP.shop_id,
    day="2026-10-01",
    bills=212,
    voids=3,
    net=55_650.5,
    tip=420,
    latest_updated_at="2026-10-01T02:05:40.902Z",
    hash="122268340117418934823",
)
UNDATED_DIGEST = structs.replace(
    DIGEST, day=None, bills=1, voids=0, net=0, tip=0, latest_updated_at=None, hash="98427116540903218"
)
MARK = "2ziXUIduYvtjaZz2aYe1F5Khbc8AAAGbdtqr6A"
FEED_CURSOR = "uB90RDnPTEiDDM7C1POSHpehY__PAAABm3baq-iqc2hwLXJpdmVyA88AAAGbdtqoAapieG4tM1BYOEIx"

_DAYS = [compact(day) for day in days_until(date(2026, 10, 1), USAGE_DAYS)]
_COUNTS = (310, 298, 0, 305, 322, 317, 41)
RATE = Rate(per_min=60, per_day=10_000)
TODAY = Today(date=_DAYS[-1], count=41, remaining=9_959)
DAYS = [DayCount(date=day, count=count) for day, count in zip(_DAYS, _COUNTS, strict=True)]
USAGE = Usage(key_id="4nT0cXq81ZbL", label="Warehouse", scope="franchise", rate=RATE, today=TODAY, days=DAYS)

DESCRIPTION = {"openapi": "3.1.0", "info": {"title": "Counterfoil", "version": API_VERSION}, "paths": {}}

ALL: tuple[Resource, ...] = (
    SHOP,
    LONE_SHOP,
    NOODLES,
    SOUPS,
    BILL,
    CHANNEL,
    NOODLE_LINE,
    TIP_LINE,
    OPTION,
    AMOUNTS,
    PROMOTION,
    BY_QR,
    IN_CASH,
    MEMBER,
    MEMBER_IN_FULL,
    COUPON,
    USED_COUPON,
    MEMBER_REFERENCE,
    USAGE,
    RATE,
    TODAY,
    DAYS[-1],
    CHANGED_BILL,
    REMOVED_BILL,
    CHANGED_SHOP,
    REMOVED_SHOP,
    DIGEST,
    UNDATED_DIGEST,
)

# Example data for each operation, keyed by example name.
_DATA: dict[str, dict[str, Resource | Sequence[Resource]]] = {
    "listShops": {"franchiseKey": [SHOP], "shopKey": [LONE_SHOP]},
    "listTransactions": {"fullPage": [BILL], "voided": [VOIDED_BILL], "nothing": []},
    "getTransaction": {"bill": BILL},
    "listDigests": {"fullPage": [UNDATED_DIGEST, DIGEST], "nothing": []},
    "listChanges": {"fullPage": [CHANGED_SHOP], "lastPage": [REMOVED_SHOP, REMOVED_BILL, CHANGED_BILL], "nothing": []},
    "listMembers": {"fullPage": [MEMBER], "personalData": [MEMBER_IN_FULL]},
    "getMember": {"member": MEMBER, "personalData": MEMBER_IN_FULL},
    "lookupMember": {"found": MEMBER_REFERENCE},
    "getUsage": {"usage": USAGE},
}
_CURSORS = {"listTransactions": BILL.id, "listMembers": TOKEN, "listChanges": FEED_CURSOR, "listDigests": FEED_CURSOR}


def example_bodies(operation: Operation) -> dict[str, Any]:
    """Return example bodies of the operation, by name."""
    if operation.public:
        return {"description": DESCRIPTION}
    return {name: _example_body(operation, name, data) for name, data in _DATA[operation.id].items()}


def _example_body(operation: Operation, name: str, data: Resource | Sequence[Resource]) -> Any:
    last_page = None if operation.paged else UNSET
    cursor = _CURSORS[operation.id] if name == "fullPage" else last_page
    mark = (None if cursor else MARK) if operation.marked else UNSET
    encoded = json.encode(to_builtins(data))
    answer = Answer(data=encoded, horizon=_SERVER_TIME, seal=b"", next_cursor=cursor, mark=mark)
    return json.decode(wire.success_body(answer))


def example_error_body(problem: Problem) -> Any:
    """Return the body of an error response."""
    return json.decode(wire.problem_body(example_refusal(problem)))


def example_refusal(problem: Problem) -> Refused:
    if problem is RATE_LIMITED:
        return TooManyRequests(key_id="", retry_after_sec=17, limit=RATE.per_min, window_sec=WINDOW_SEC)
    return Refused(problem)
