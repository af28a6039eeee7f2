"""On every back end, the stored totals per shop and day equal those computed from the bills."""

import json
import random
from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal
from hashlib import md5
from typing import Any

import pytest

from counterfoil.domain.access import Scope
from counterfoil.domain.day_totals import MAX_COMPUTED_DAYS, ShopDay
from counterfoil.model.calendar import iso_utc
from counterfoil.ports import Slice
from ports.open_store import OpenStore, bill, gone, in_ms, shop

FRANCHISE = Scope("franchise", "fr_a")
ALL_DAYS = (0, 99_999_999)
SHOPS = ("sh_1", "sh_2", "sh_3")
TIMES = (None, "2025-12-30T12:00:00+07:00", "2025-12-31T23:30:00+07:00", "2026-01-01T00:30:00+07:00")

Json = dict[str, Any]


def digests(
    open_store: OpenStore,
    scope: Scope = FRANCHISE,
    limit: int = 1000,
    shop_id: str | None = None,
    days: tuple[int, int] = ALL_DAYS,
) -> list[Json]:
    found: list[Json] = []
    after: ShopDay | None = None
    for _ in range(100):
        page = open_store.books.digests(scope, shop_id, days, Slice(limit, after))
        found += [json.loads(element, parse_float=Decimal) for element in page.elements]
        after = page.last
        if after is None:
            return found
    raise AssertionError("the list does not end")


def computed(open_store: OpenStore, known: set[tuple[str, str]]) -> list[Json]:
    """Return the digests that a client would compute from its copy."""
    by_day: dict[tuple[str, str | None], list[Json]] = defaultdict(list)
    for shop_id, bill_id in known:
        held = open_store.bill(bill_id, shop_id)
        by_day[shop_id, held["billDate"]].append(held)
    return [
        digest_of(*key, bills) for key, bills in sorted(by_day.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]


def digest_of(shop_id: str, day: str | None, bills: list[Json]) -> Json:
    stamps = [held["updatedAt"] and in_ms(held["updatedAt"]) for held in bills]
    texts = [f"{held['id']}|{'' if ms is None else ms}" for held, ms in zip(bills, stamps, strict=True)]
    latest = max((ms for ms in stamps if ms is not None), default=None)
    return {
        "shopId": shop_id,
        "day": day,
        "bills": len(bills),
        "voids": sum(held["status"] == "void" for held in bills),
        "net": sum(Decimal(str(held["amounts"]["net"] or 0)) for held in bills),
        "tip": sum(Decimal(str(held["amounts"]["tip"] or 0)) for held in bills),
        "latestUpdatedAt": latest and iso_utc(latest),
        "hash": str(sum(int(md5(text.encode(), usedforsecurity=False).hexdigest()[:15], 16) for text in texts)),
    }


@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.long)])
def test_digests_are_those_of_the_bills_after_any_loads(open_store: OpenStore, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the test must be reproducible
    open_store.put(*map(shop, SHOPS))
    known: set[tuple[str, str]] = set()
    for step in range(14):
        records = []
        for _ in range(chance.randint(1, 6)):
            identity = chance.choice(SHOPS), f"b_{chance.randint(0, 9)}"
            record = bill(
                identity[1],
                identity[0],
                closedAt=chance.choice(TIMES),
                history=chance.random() < 0.3,
                void=chance.random() < 0.2,
                amounts={"net": chance.choice([None, 0.1, 0.2, 120, 99.999999]), "tip": chance.choice([None, 7.5])},
            )
            removed = chance.random() < 0.2
            records.append(gone(record) if removed else record)
            known.discard(identity) if removed else known.add(identity)
        open_store.put(*records)
        if step == 7:
            open_store.put(shop("sh_1", timezone="Asia/Tokyo"))
            open_store.rewrite(3)
        if chance.random() < 0.5:
            open_store.ledger.compute_totals(chance.randint(1, 5))
        assert digests(open_store, limit=chance.choice([1, 2, 1000])) == computed(open_store, known)


def test_digests_stay_the_same_when_they_are_computed_in_advance(open_store: OpenStore) -> None:
    open_store.put(*map(shop, SHOPS))
    open_store.put(*(bill(f"b_{number}", of, closedAt=TIMES[number % 4]) for of in SHOPS for number in range(8)))
    before = digests(open_store)
    assert len(before) == 12
    assert open_store.ledger.compute_totals(100) == 12
    assert open_store.ledger.compute_totals(100) == 0
    assert digests(open_store) == before
    open_store.put(*(gone(bill(f"b_{number}")) for number in range(8)))
    assert digests(open_store) == before[4:]
    assert open_store.ledger.compute_totals(100) == 4
    assert digests(open_store) == before[4:]


def test_one_shop_and_a_range_of_days_can_be_selected(open_store: OpenStore) -> None:
    open_store.put(*map(shop, SHOPS), shop("sh_x", franchiseId="fr_x"))
    open_store.put(
        *(bill(f"b_{number}", of, closedAt=at) for of in (*SHOPS, "sh_x") for number, at in enumerate(TIMES))
    )

    def found(**selection: Any) -> list[tuple[str, str | None]]:
        return [(digest["shopId"], digest["day"]) for digest in digests(open_store, **selection)]

    assert found(shop_id="sh_2") == [("sh_2", day) for day in (None, "2025-12-30", "2025-12-31", "2026-01-01")]
    assert found(days=(20251231, 20251231)) == [(of, "2025-12-31") for of in SHOPS]
    assert found(shop_id="sh_x") == []
    assert found(scope=Scope("shop", "sh_3"), days=(20260101, 99_999_999)) == [("sh_3", "2026-01-01")]


def test_a_page_computes_a_bounded_number_of_days(open_store: OpenStore) -> None:
    days = [date(2025, 11, 20) + timedelta(days=number) for number in range(MAX_COMPUTED_DAYS + 5)]
    open_store.put(shop("sh_1"))
    open_store.put(*(bill(f"b_{day}", closedAt=f"{day}T12:00:00+07:00") for day in days))
    page = open_store.books.digests(FRANCHISE, None, ALL_DAYS, Slice(1000))
    assert len(page.elements) == MAX_COMPUTED_DAYS
    assert len(digests(open_store)) == len(days)
    open_store.ledger.compute_totals(100)
    assert len(open_store.books.digests(FRANCHISE, None, ALL_DAYS, Slice(1000)).elements) == len(days)
