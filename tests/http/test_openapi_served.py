"""GET /v1/openapi.json is public and is not counted."""

from typing import Any

import pytest

from broken_store import keys_unreadable
from counterfoil.http.openapi import document
from records import shop
from running_service import RunningService


def described(service: RunningService) -> dict[str, Any]:
    found: dict[str, Any] = service.get("openapi.json").json()
    return found


@pytest.mark.parametrize("key", [None, "nonsense", "cf_live_abcdefghijkl_" + "0" * 49])
def test_the_document_needs_no_key_and_ignores_one(shared_service: RunningService, key: str | None) -> None:
    assert shared_service.get("openapi.json", key).status_code == 200


def test_the_document_is_served_even_to_a_key_whose_minute_is_full(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=1)
    shared_service.get("shops", key)
    assert shared_service.error("shops", key) == "rate_limited"
    assert shared_service.get("openapi.json", key).status_code == 200


def test_the_document_is_served_while_keys_cannot_be_read(service: RunningService) -> None:
    key = service.key(shop="s")
    service.get("shops", key)
    with keys_unreadable(service):
        assert service.get("shops", key).status_code == 503
        assert service.get("openapi.json").status_code == 200


def test_every_documented_path_answers_a_valid_key(shared_service: RunningService) -> None:
    of = shop()
    shared_service.load(of)
    key = shared_service.key(shop=of["id"])
    for path in described(shared_service)["paths"]:
        asked = path.removeprefix("/v1/").replace("{id}", "x").replace("{memberToken}", "m1_x")
        message = shared_service.get(asked, key).json().get("message")
        assert message != "There is no such path."


@pytest.mark.parametrize("query", [{}, {"version": "2"}, {"key": "cf_live_x"}])
def test_the_served_document_is_the_generated_one_whatever_the_parameters(
    shared_service: RunningService, query: dict[str, Any]
) -> None:
    assert shared_service.get("openapi.json", **query).content == document(shared_service.settings.prefix)


def test_the_document_supports_head_and_if_none_match(shared_service: RunningService) -> None:
    tag = shared_service.get("openapi.json").headers["etag"]
    assert shared_service.get("openapi.json", method="HEAD").headers["etag"] == tag
    assert shared_service.get("openapi.json", headers={"if-none-match": tag}).status_code == 304
