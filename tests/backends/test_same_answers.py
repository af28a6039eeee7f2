"""With the same source records, all back ends respond identically, byte for byte except for `serverTime`."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from actors import OPERATOR
from counterfoil import key_issuing
from counterfoil.domain import credentials
from counterfoil.domain.access import Scope
from ingest.loaders import lines_of_a_world, shops_of_a_world
from records import EVER, days
from running_service import RunningService, backend_settings

BUSY = {"per_min": 1_000_000, "per_day": 1_000_000, "personal_data": True, "messaging_lookup": True}
BACK_ENDS = ("sqlite", "postgres")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningService]]:
    """One service per back end, all with the same data. One shop changes its time zone after its bills were loaded."""
    with ExitStack() as open_services:
        services = [
            open_services.enter_context(closing(RunningService(tmp_path_factory.mktemp(kind), **place)))
            for kind in BACK_ENDS
            for place in [open_services.enter_context(backend_settings(kind))]
        ]
        load_a_world(*services)
        yield services


def load_a_world(*services: RunningService) -> None:
    """Load the same deliveries into each service. The last delivery changes a shop's time zone."""
    lines = lines_of_a_world()
    for service in services:
        service.load(*lines[: len(lines) // 2], batch=37)
        service.clock.advance(5)
        service.load(*lines, batch=200)
        service.load(shops_of_a_world()[0] | {"timezone": "Asia/Tokyo", "closingTime": "04:00"})


def same_key(services: list[RunningService], scope: Scope) -> str:
    credential = credentials.generate(secrets.token_bytes)
    for service in services:
        key_issuing.import_key(service.key_store, key_issuing.Grant(scope=scope, **BUSY), credential, 0, OPERATOR)  # type: ignore[arg-type]
        service.clock.advance(1)
    return credentials.format_key(credential)


def agreed(services: list[RunningService], key: str, path: str, **query: Any) -> dict[str, Any]:
    """Check that all services return the same response, byte for byte except for `serverTime`; return its body."""
    answers = [service.get(path, key, **query) for service in services]
    assert len({answer.status_code for answer in answers}) == 1
    assert len({_without_time(answer.content) for answer in answers}) == 1
    assert len({answer.headers.get("x-ratelimit-remaining") for answer in answers}) == 1
    body: dict[str, Any] = answers[0].json()
    return body


def _without_time(body: bytes) -> bytes:
    told = json.decode(body).get("serverTime")
    return body.replace(told.encode(), b"") if told else body


def read_all(services: list[RunningService], key: str, path: str, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = agreed(services, key, path, **query)
        found += page["data"]
        if page["nextCursor"] is None:
            return found
        query["cursor"] = page["nextCursor"]


def read_lists(services: list[RunningService], key: str, shop: dict[str, Any], limit: int) -> None:
    """Read every list of a shop, in which all services must agree."""
    for selection in ({"updatedSince": EVER}, days("20251215", "20260110")):
        assert read_all(services, key, "transactions", shopId=shop["shopId"], limit=limit, **selection)
    if shop["providerId"]:
        read_all(services, key, "members", providerId=shop["providerId"], limit=limit)


def franchise_keys(services: list[RunningService]) -> list[str]:
    """Issue a key to each franchise."""
    franchises = {str(shop["franchiseId"]) for shop in shops_of_a_world() if shop.get("franchiseId")}
    return [same_key(services, Scope("franchise", franchise)) for franchise in sorted(franchises)]


def shops_of(services: list[RunningService]) -> list[tuple[str, dict[str, Any]]]:
    """Return the shops of all franchises, each with a key that can read it."""
    return [(key, shop) for key in franchise_keys(services) for shop in agreed(services, key, "shops")["data"]]


def test_every_list_is_identical_on_every_back_end_at_any_page_size(services: list[RunningService]) -> None:
    shops = shops_of(services)
    assert shops
    for limit, (key, shop) in zip((3, 7, 50, 200, 200, 200), shops * 6, strict=False):
        read_lists(services, key, shop, limit)


def test_every_single_record_is_identical_on_every_back_end(services: list[RunningService]) -> None:
    for key, shop in shops_of(services):
        bills = agreed(services, key, "transactions", shopId=shop["shopId"], updatedSince=EVER)["data"]
        for bill in bills[:20]:
            agreed(services, key, f"transactions/{bill['id']}")
            if bill["memberId"]:
                agreed(services, key, f"members/{bill['memberId']}")


def test_every_refusal_is_identical_on_every_back_end(services: list[RunningService]) -> None:
    key, shop = shops_of(services)[0]
    for path, query in (
        ("transactions", {}),
        ("transactions", {"shopId": "nobody's", "updatedSince": EVER}),
        ("transactions", {"shopId": shop["shopId"], "updatedSince": EVER, "cursor": "nothing"}),
        ("transactions", {"shopId": shop["shopId"], "updatedSince": EVER, "cursor": "nul\0"}),
        ("transactions/none", {}),
        ("transactions/%00", {}),
        ("members", {"providerId": "none"}),
        ("members", {"providerId": "\0"}),
        ("members/m1_none", {}),
        ("members/lookup", {"providerId": shop["providerId"], "messagingUserId": "U" + "0" * 32}),
        ("nowhere", {}),
    ):
        assert agreed(services, key, path, **query)["ok"] is False


def test_usage_is_identical_on_every_back_end(services: list[RunningService]) -> None:
    key = same_key(services, Scope("shop", "anything"))
    for _ in range(3):
        agreed(services, key, "usage")


def test_the_folder_of_a_server_deployment_holds_no_database(services: list[RunningService]) -> None:
    on_server = services[BACK_ENDS.index("postgres")]
    assert not list(Path(on_server.folder).rglob("*.sqlite3"))
