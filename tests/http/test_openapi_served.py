"""GET /v1/openapi.json: public, and counted for nobody."""

from typing import Any

import pytest

from breakage import keys_unreadable
from counterfoil import API_VERSION
from counterfoil.http.app import ROUTES
from counterfoil.http.openapi import document
from house import House
from records import shop


def described(house: House) -> dict[str, Any]:
    found: dict[str, Any] = house.get("openapi.json").json()
    return found


@pytest.mark.parametrize("key", [None, "nonsense", "cf_live_abcdefghijkl_" + "0" * 49])
def test_it_needs_no_key_and_looks_at_none(town: House, key: str | None) -> None:
    assert town.get("openapi.json", key).status_code == 200


def test_it_counts_for_nobody(town: House) -> None:
    key = town.key(shop="s")
    for _ in range(3):
        town.get("openapi.json", key)
    assert town.data("usage", key)["today"]["count"] == 1


def test_it_carries_no_allowance(town: House) -> None:
    answer = town.get("openapi.json", town.key(shop="s"))
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


def test_it_is_served_even_to_a_key_whose_minute_is_full(town: House) -> None:
    key = town.key(shop="s", per_min=1)
    town.get("shops", key)
    assert town.error("shops", key) == "rate_limited"
    assert town.get("openapi.json", key).status_code == 200


def test_it_is_served_while_the_keys_cannot_be_read(house: House) -> None:
    key = house.key(shop="s")
    house.get("shops", key)
    with keys_unreadable(house):
        assert house.get("shops", key).status_code == 503
        assert house.get("openapi.json").status_code == 200


def test_it_is_the_document_as_it_is_made(town: House) -> None:
    assert town.get("openapi.json").content == document(town.settings.prefix)


def test_it_is_openapi_3_1_and_says_its_version(town: House) -> None:
    found = described(town)
    assert found["openapi"].startswith("3.1.")
    assert found["info"]["version"] == API_VERSION


def test_what_is_served_is_described_and_what_is_described_is_served(town: House) -> None:
    assert set(described(town)["paths"]) == {f"/v1/{route.path}" for route in ROUTES}


def test_every_described_path_answers_a_good_key(town: House) -> None:
    of = shop()
    town.load(of)
    key = town.key(shop=of["id"])
    for path in described(town)["paths"]:
        asked = path.removeprefix("/v1/").replace("{id}", "x").replace("{memberToken}", "m1_x")
        message = town.get(asked, key).json().get("message")
        assert message != "There is no such path."


def test_its_server_address_holds_the_prefix(town: House) -> None:
    assert described(town)["servers"][0]["url"] == town.settings.prefix


@pytest.mark.parametrize("query", [{"version": "2"}, {"key": "cf_live_x"}])
def test_parameters_change_nothing(town: House, query: dict[str, Any]) -> None:
    assert town.get("openapi.json", **query).content == document(town.settings.prefix)


def test_it_answers_head_and_if_none_match_like_any_other(town: House) -> None:
    tag = town.get("openapi.json").headers["etag"]
    assert town.get("openapi.json", method="HEAD").headers["etag"] == tag
    assert town.get("openapi.json", headers={"if-none-match": tag}).status_code == 304


def test_a_web_page_is_refused_here_too(town: House) -> None:
    answer = town.get("openapi.json", headers={"origin": "https://x.example"})
    assert (answer.status_code, answer.json()["error"]) == (403, "cross_origin_refused")


def test_it_can_only_be_read(town: House) -> None:
    assert town.get("openapi.json", method="DELETE").status_code == 405
