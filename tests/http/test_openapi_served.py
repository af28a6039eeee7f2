"""GET /v1/openapi.json is public and is not counted."""

from typing import Any

import pytest

from broken_store import keys_unreadable
from counterfoil.http.openapi import document
from running_service import RunningService


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


@pytest.mark.parametrize("query", [{}, {"version": "2"}, {"key": "cf_live_x"}])
def test_the_served_document_is_the_generated_one_whatever_the_parameters(
    shared_service: RunningService, query: dict[str, Any]
) -> None:
    assert shared_service.get("openapi.json", **query).content == document(shared_service.settings.prefix)
