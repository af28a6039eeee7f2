"""The generated world is reproducible, plausible and as varied as real POS data, with no data about real people."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from itertools import combinations, islice, pairwise
from typing import Any

import pytest
from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.demo.history import UNUSED_MS, planned
from counterfoil.demo.showcase import DemoKey, delivery_of
from counterfoil.demo.worldgen.group import Group, plan_group
from counterfoil.demo.worldgen.plan import WorldPlan
from counterfoil.demo.worldgen.world import Delivery, demo_world, silent_shop, world
from counterfoil.domain.access import Key, Scope
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile
from counterfoil.model.calendar import DAY_MS, HOUR_MS, THAI_TIME, to_ms
from counterfoil.program.clock import SystemClock
from counterfoil.settings import Settings, load
from records import Record
from running_service import SECRET

UNTIL = date(2026, 9, 30)
DEMO = WorldPlan(until=UNTIL)
# The plan with the default seed of `counterfoil demo`.
DEFAULT_DEMO = WorldPlan(until=UNTIL, seed=7)
SMALL = WorldPlan(until=UNTIL, bills=2_000, members=200)
TODAY, SOON = "2026-09-30", "2026-10-14"
AFTERNOON = to_ms(datetime(2026, 8, 15, 15, 0, tzinfo=THAI_TIME))


class DeliveredWorld(Struct, frozen=True):
    """The deliveries of a generated world, with their decoded records."""

    group: Group
    deliveries: list[Delivery]
    records: list[list[Record]]

    def of(self, kind: str) -> list[Record]:
        return [record for records in self.records for record in records if record["kind"] == kind]


def read_back(plan: WorldPlan, now_ms: int) -> DeliveredWorld:
    came = list(demo_world(plan, now_ms))
    return DeliveredWorld(plan_group(plan), came, [[json.loads(line) for line in delivery.lines] for delivery in came])


@pytest.fixture(scope="module")
def delivered() -> DeliveredWorld:
    return read_back(DEMO, DEMO.end_ms)


@pytest.fixture(scope="module")
def delivered_in_august() -> DeliveredWorld:
    return read_back(SMALL, AFTERNOON)


@pytest.fixture(scope="module")
def clean() -> list[Record]:
    return [json.loads(line) for line in world(SMALL)]


def closed_ms(bill: Record) -> int:
    written = bill["closedAt"]
    if isinstance(written, int):
        return written if written >= 10**11 else written * 1000
    moment = datetime.fromisoformat(written)
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=THAI_TIME))


def test_the_same_plan_gives_the_same_bytes_in_every_process() -> None:
    script = (
        "import datetime, hashlib; from counterfoil.demo.worldgen.world import world, WorldPlan; "
        "plan = WorldPlan(until=datetime.date(2026, 9, 30), bills=300, members=100); "
        "print(hashlib.sha256(b'\\n'.join(world(plan))).hexdigest())"
    )
    here = hashlib.sha256(b"\n".join(world(WorldPlan(until=UNTIL, bills=300, members=100)))).hexdigest()
    there = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here


def test_a_world_has_exactly_the_planned_records_in_the_order_of_their_dependencies(clean: list[Record]) -> None:
    kinds = [record["kind"] for record in clean]
    assert [kind for kind, after in pairwise([*kinds, ""]) if kind != after] == ["base", "shop", "member", "bill"]
    assert kinds.count("bill") == SMALL.bills
    assert kinds.count("member") == SMALL.members
    assert kinds.count("shop") == SMALL.shops


def test_memory_does_not_grow_while_ten_million_bills_are_generated() -> None:
    lines = world(WorldPlan(until=UNTIL, bills=10_000_000, members=50))
    tracemalloc.start()
    try:
        peaks = []
        for _ in range(3):
            tracemalloc.reset_peak()
            assert sum(1 for _ in islice(lines, 400)) == 400
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert max(peaks) < 8_000_000
    assert peaks[2] < peaks[0] + 200_000


def money(value: Any) -> Decimal:
    return Decimal(str(value or 0))


def test_payments_lines_discounts_and_amounts_add_up_to_the_satang(clean: list[Record]) -> None:
    for bill in (record for record in clean if record["kind"] == "bill"):
        amounts = bill["amounts"]
        paid = {name: money(value) for name, value in amounts.items() if not isinstance(value, str | list)}
        assert sum(money(payment["amount"]) - money(payment["change"]) for payment in bill["payments"]) == paid["net"]
        counted = [line for line in bill["lines"] if not line.get("cancelled") and not line.get("tip")]
        assert sum(money(line["total"]) for line in counted) == paid["subtotal"]
        promotions = [*amounts.get("campaigns", []), *amounts.get("coupons", [])]
        given = sum((money(one.get("amount")) for one in promotions), money(amounts.get("discount")))
        assert given == paid.get("discountTotal", Decimal())
        charges = ("serviceCharge", "deliveryFee", "cardSurcharge", "rounding", "tip")
        due = max(paid["subtotal"] - given, Decimal()) + sum(paid.get(charge, Decimal()) for charge in charges)
        on_top = paid["vat"] if amounts.get("vatType") == "Exclude" else Decimal()
        assert due - paid.get("credit", Decimal()) + on_top == paid["net"]


Shows = dict[str, Callable[[Any], object]]

IN_THE_GROUP: Shows = {
    "a base that two franchises share": lambda group: any(
        set(one.provider_ids) & set(other.provider_ids) for one, other in combinations(group.franchises, 2)
    ),
    "a franchise with two bases": lambda group: any(len(one.provider_ids) > 1 for one in group.franchises),
    "an independent shop": lambda group: any(shop.franchise_id is None for shop in group.shops),
    "a shop without a base": lambda group: any(shop.base is None for shop in group.shops),
    "a shop abroad": lambda group: any(shop.timezone == "Europe/London" for shop in group.shops),
}

ON_A_SHOP: Shows = {
    "no time zone": lambda shop: "timezone" not in shop,
    "a closing time after midnight": lambda shop: shop.get("closingTime") == "02:00",
    "a category on the third level": lambda shop: any(len(path_to(shop, one)) == 3 for one in category_ids(shop)),
    "a category hidden by flag": lambda shop: any(one.get("hidden") for one in shop["categories"]),
    "a category hidden in all channels": lambda shop: any(one.get("visibleIn") == [] for one in shop["categories"]),
    "a category without a name": lambda shop: any(one["name"] == "" for one in shop["categories"]),
    "a category under a deleted parent": lambda shop: (
        {one["parentId"] for one in shop["categories"] if "parentId" in one} - category_ids(shop)
    ),
    "own channels": lambda shop: shop["channels"],
}

ON_A_BILL: Shows = {
    "a closing after midnight": lambda bill: re.search(r"T01:.*\+07:00", str(bill.get("closedAt"))),
    "take-away": lambda bill: bill.get("channel") == "take_away",
    "pick-up": lambda bill: bill.get("channel") == "pickup",
    "a counter sale": lambda bill: bill.get("channel") == "counter",
    "an own channel with its label": lambda bill: isinstance(bill.get("channel"), dict),
    "an own channel by its id alone": lambda bill: len(bill.get("channel", "")) == 20,
    "a table": lambda bill: bill.get("table", {}).get("name"),
    "neither table nor channel": lambda bill: "table" not in bill and "channel" not in bill,
    "a buffet": lambda bill: "buffetPackageId" in bill,
    "three payments": lambda bill: len(bill["payments"]) == 3,
    "cash with change": lambda bill: any(is_between(payment["change"], 1, 1000) for payment in bill["payments"]),
    "VAT included": lambda bill: bill["amounts"].get("vatType") == "Include",
    "VAT on top": lambda bill: bill["amounts"].get("vatType") == "Exclude",
    "VAT never configured": lambda bill: bill["amounts"].get("vatType") == "",
    "a service charge": lambda bill: bill["amounts"].get("serviceCharge"),
    "a rounding": lambda bill: bill["amounts"].get("rounding"),
    "a delivery fee": lambda bill: bill["amounts"].get("deliveryFee"),
    "a card surcharge": lambda bill: bill["amounts"].get("cardSurcharge"),
    "store credit": lambda bill: bill["amounts"].get("credit"),
    "a tip as a line": lambda bill: any(line.get("tip") for line in bill["lines"]),
    "a tip that is no line": lambda bill: (
        bill["amounts"].get("tip") and not any(line.get("tip") for line in bill["lines"])
    ),
    "a keyed discount": lambda bill: bill["amounts"].get("discount"),
    "a campaign": lambda bill: bill["amounts"].get("campaigns"),
    "a campaign without an amount": lambda bill: any(
        "amount" not in one for one in bill["amounts"].get("campaigns", [])
    ),
    "a coupon": lambda bill: bill["amounts"].get("coupons"),
    "a discount past the amount due": lambda bill: bill["amounts"].get("discountTotal", 0) >= 5_000,
    "a void with a reason": lambda bill: isinstance(bill.get("void"), dict),
    "a void without a reason": lambda bill: bill.get("void") is True,
    "history": lambda bill: bill.get("history"),
    "a tax invoice": lambda bill: bill.get("taxNumber"),
    "two orders": lambda bill: len(bill.get("orderIds", [])) == 2,
    "a trading day with dashes": lambda bill: len(bill.get("tradingDay", "")) == 10,
    "a trading day without dashes": lambda bill: len(bill.get("tradingDay", "")) == 8,
    "no trading day": lambda bill: "tradingDay" not in bill,
    "a closing in local time": lambda bill: re.fullmatch(r".*T[\d:.]{12}", str(bill.get("closedAt"))),
    "epoch seconds": lambda bill: is_between(bill.get("closedAt"), 10**9, 10**10),
    "epoch milliseconds": lambda bill: is_between(bill.get("closedAt"), 10**12, 10**13),
}

ON_A_LINE: Shows = {
    "no category": lambda line: line.get("categoryIds") == [],
    "nothing about categories": lambda line: "categoryIds" not in line,
    "options": lambda line: line.get("options"),
    "a cancellation": lambda line: line.get("cancelled") is True,
    "a weight": lambda line: line.get("qty") == 0.85,
    "no unit price": lambda line: "unitPrice" not in line,
    "a master product": lambda line: "rootId" in line,
    "no VAT": lambda line: line.get("vat") is False,
}

ON_A_MEMBER: Shows = {
    "tags": lambda member: member["labels"] and member["persona"],
    "visits": lambda member: member["visits"],
    "a used coupon": lambda member: any(one["status"] == "used" for one in member["coupons"]),
    "an expired coupon": lambda member: any(one.get("expireAt", "9") < TODAY for one in member["coupons"]),
    "a coupon that never expires": lambda member: any("expireAt" not in one for one in member["coupons"]),
    "a coupon of another base": lambda member: any(
        one.get("providerId", member["providerId"]) != member["providerId"] for one in member["coupons"]
    ),
    "points that have expired": lambda member: any(one < TODAY for one in expiries(member, "points")),
    "points that expire soon": lambda member: any(TODAY < one < SOON for one in expiries(member, "points")),
    "credit that has expired": lambda member: any(one < TODAY for one in expiries(member, "credit")),
    "credit that expires soon": lambda member: any(TODAY < one < SOON for one in expiries(member, "credit")),
    "points as a plain number": lambda member: isinstance(member["points"], int),
    "neither phone nor mail": lambda member: "tel" not in member and "email" not in member,
    "no account": lambda member: not member["messaging"],
    "an account without a channel": lambda member: any("channel" not in one for one in member["messaging"]),
}


def category_ids(shop: Record) -> set[str]:
    return {one["id"] for one in shop["categories"]}


def path_to(shop: Record, category_id: str) -> list[str]:
    parents = {one["id"]: one.get("parentId") for one in shop["categories"]}
    parent = parents.get(category_id)
    return [*(path_to(shop, parent) if parent else []), category_id]


def is_between(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and low <= value < high


def expiries(member: Record, holding: str) -> list[str]:
    lots = member.get(holding)
    return [lot["expireAt"] for lot in lots if lot.get("expireAt")] if isinstance(lots, list) else []


FEATURES = {"group": IN_THE_GROUP, "shop": ON_A_SHOP, "bill": ON_A_BILL, "line": ON_A_LINE, "member": ON_A_MEMBER}


@pytest.mark.parametrize(
    ("kind", "feature"), [(kind, feature) for kind, features in FEATURES.items() for feature in features]
)
def test_the_generated_data_has(delivered: DeliveredWorld, kind: str, feature: str) -> None:
    if kind == "group":
        found: list[Any] = [delivered.group]
    elif kind == "line":
        found = [line for bill in delivered.of("bill") for line in bill["lines"]]
    else:
        found = delivered.of(kind)
    assert any(map(FEATURES[kind][feature], found))


def test_the_demo_world_has_the_size_of_a_demo(delivered: DeliveredWorld) -> None:
    assert 12_000 <= len({bill["id"] for bill in delivered.of("bill")}) <= 15_000
    assert 1_400 <= len(delivered.of("member")) <= 1_600
    assert [3 <= len(franchise.shop_ids) <= 8 for franchise in delivered.group.franchises] == [True] * 3
    assert sum(shop.franchise_id is None for shop in delivered.group.shops) == 3


def test_the_sample_account_belongs_to_one_person_with_two_records_and_the_later_one_answers(
    delivered: DeliveredWorld,
) -> None:
    sample = delivered.group.sample
    assert sample is not None
    channel = sample.base.channel()
    holders = [
        member
        for member in delivered.of("member")
        for account in member["messaging"]
        if account["userId"] == sample.messaging_user_id and account.get("channel", channel) == channel
    ]
    assert [member["providerId"] for member in holders] == [sample.base.id] * 2
    assert max(holders, key=lambda member: str(member["createdAt"]))["id"] == sample.member_id
    assert re.fullmatch("U[0-9a-f]{32}", sample.messaging_user_id)


def test_no_personal_data_could_be_real(delivered: DeliveredWorld) -> None:
    text = "\n".join(line.decode() for delivery in delivered.deliveries for line in delivery.lines)
    assert set(re.findall(r"@([\w.]+)", text)) == {"example.com", "example.org"}
    phones = re.findall(r'"tel":"([^"]*)"', text)
    assert all(re.fullmatch(r"(000-\d{3}-\d{4})?", phone) for phone in phones)
    assert len(phones) > 1_000


def test_no_bill_is_delivered_before_it_was_closed(delivered: DeliveredWorld) -> None:
    for delivery, records in zip(delivered.deliveries, delivered.records, strict=True):
        bills = [record for record in records if record["kind"] == "bill"]
        assert all(closed_ms(bill) <= delivery.moment_ms for bill in bills)


def test_the_demo_has_bills_until_now_and_nothing_later(delivered_in_august: DeliveredWorld) -> None:
    assert delivered_in_august.deliveries[-1].moment_ms == AFTERNOON
    assert AFTERNOON - 2 * HOUR_MS < max(closed_ms(bill) for bill in delivered_in_august.of("bill")) <= AFTERNOON
    assert max(member["createdAt"] for member in delivered_in_august.of("member")) < "2026-08-15T15:00"


def test_deliveries_of_august_are_identical_in_a_demo_of_september(delivered_in_august: DeliveredWorld) -> None:
    evenings = len(delivered_in_august.deliveries) - 1
    assert delivered_in_august.deliveries[1:evenings] == list(demo_world(SMALL, SMALL.end_ms))[1:evenings]


@pytest.fixture(scope="module")
def demo_of_today(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The settings of a store with the demo's bills up to the last instant of the plan's last day."""
    settings = load({"store": str(tmp_path_factory.mktemp("demo")), "secret": SECRET}, {})
    lines = [line for delivery in demo_world(DEFAULT_DEMO, DEFAULT_DEMO.end_ms - 1) for line in delivery.lines]
    with closing(bootstrap.store(settings, SystemClock()).ledger()) as ledger:
        Pipeline(
            ledger, bootstrap.pseudonyms(settings), RejectsFile(settings.store / "rejects.ndjson"), LoadRules()
        ).load(delivery_of(lines))
    return settings


@pytest.mark.programs
def test_one_shop_of_the_demo_is_silent_at_any_time_of_the_day(demo_of_today: Settings) -> None:
    planted = silent_shop(plan_group(DEFAULT_DEMO)).id
    inspection = bootstrap.store(demo_of_today).reads()
    midnight = DEFAULT_DEMO.end_ms - DAY_MS
    for half_hour in range(48):
        shops = inspection.shops(midnight + half_hour * 1_800_000 + 1, count_all=False)
        assert (half_hour, [shop.shop_id for shop in shops if shop.is_silent]) == (half_hour, [planted])


def test_the_demo_has_requests_of_today_until_shortly_before_now() -> None:
    key = Key(key_id="k", scope=Scope("shop", "a"))
    demo_key = DemoKey(purpose="franchise", key=key, text="", shop_ids=("a",), provider_ids=())
    midnight = DEMO.end_ms
    requests = {
        hour: [record.at for _, record in planned([demo_key], 7, midnight + hour * HOUR_MS)] for hour in (0, 15)
    }
    assert max(requests[0]) < midnight
    assert sum(at >= midnight for at in requests[15]) > 10
    assert max(requests[15]) < midnight + 15 * HOUR_MS - UNUSED_MS
    assert [at for at in requests[15] if at < midnight - DAY_MS] == [at for at in requests[0] if at < midnight - DAY_MS]
