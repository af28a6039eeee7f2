"""Reads everything that the service's lists return, for comparison with a copy."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

from client.copy_contents import Json, plain

EVER = "1970-01-01T00:00:00Z"
# All dated bills in the tests fall between these dates.
FIRST, LAST = date(2024, 12, 1), date(2026, 12, 31)


# Takes a path and the parameters of a query, and returns the body of a successful response.
Ask = Callable[..., Json]


def shops(ask: Ask) -> dict[str, Json]:
    return {shop["shopId"]: plain(shop) for shop in ask("shops")["data"]}


def bills(ask: Ask, shop_id: str, first: date = FIRST, last: date = LAST) -> dict[tuple[str, str], Json]:
    """Return every bill that appears in a list, keyed by shop and ID."""
    found: dict[tuple[str, str], Json] = {}
    while first <= last:
        end = min(last, first + timedelta(days=30))
        window = {"from": f"{first:%Y%m%d}", "to": f"{end:%Y%m%d}"}
        found |= {(shop_id, bill["id"]): plain(bill) for bill in pages(ask, "transactions", shopId=shop_id, **window)}
        first = end + timedelta(days=1)
    changed = pages(ask, "transactions", shopId=shop_id, updatedSince=EVER)
    return found | {(shop_id, bill["id"]): plain(bill) for bill in changed}


def members(ask: Ask, provider_id: str) -> dict[tuple[str, str], Json]:
    listed = pages(ask, "members", providerId=provider_id)
    return {(provider_id, member["memberId"]): plain(member) for member in listed}


def pages(ask: Ask, path: str, **query: Any) -> Iterator[Json]:
    while True:
        body = ask(path, limit=200, **query)
        yield from body["data"]
        if body["nextCursor"] is None:
            return
        query["cursor"] = body["nextCursor"]
