"""Tests for keys: refusals, how soon a revocation takes effect, and responses while keys cannot be read."""

import re
import secrets
from collections.abc import Callable
from typing import Any

import pytest

from actors import OPERATOR
from broken_store import KEY_FILE_PROBLEMS, keys_unreadable
from counterfoil import key_issuing
from counterfoil.domain import credentials
from counterfoil.http.app import ROUTES
from raw_http import visible
from running_service import RunningService


def key_id(key: str) -> str:
    return key.split("_")[2]


def mistyped(key: str, place: int) -> str:
    return key[:place] + ("A" if key[place] != "A" else "B") + key[place + 1 :]


def refusal(service: RunningService, authorization: str | None, path: str = "shops") -> Any:
    return service.get(path, headers={"authorization": authorization} if authorization is not None else {})


# --- the form of a key ------------------------------------------------------------------


def test_a_key_is_prefix_live_id_and_secret_joined_by_underscores(shared_service: RunningService) -> None:
    assert re.fullmatch(credentials.PATTERN, shared_service.key(shop="s"))
    assert re.fullmatch(r"cf_live_[0-9A-Za-z]+_[0-9A-Za-z]+", shared_service.key(shop="s"))


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "BeArEr"])
def test_the_name_of_the_scheme_may_be_written_in_any_case(shared_service: RunningService, scheme: str) -> None:
    assert refusal(shared_service, f"{scheme} {shared_service.key(shop='s')}").status_code == 200


# --- 401 invalid_key ----------------------------------------------------------------------

BAD_HEADERS: dict[str, Callable[[str], str | None]] = {
    "absent": lambda _: None,
    "empty": lambda _: "",
    "no scheme": lambda key: key,
    "another scheme": lambda key: f"Basic {key}",
    "no key": lambda _: "Bearer",
    "nonsense": lambda _: "Bearer nonsense",
    "another prefix": lambda key: "Bearer sk" + key[2:],
    "not live": lambda key: "Bearer " + key.replace("live", "test"),
    "id only": lambda key: "Bearer " + key.rpartition("_")[0],
    "too short": lambda key: "Bearer " + key[:-1],
    "too long": lambda key: "Bearer " + key + "0",
    "two keys": lambda key: f"Bearer {key} {key}",
    "a comma": lambda key: f"Bearer {key},",
    "quotes": lambda key: f'Bearer "{key}"',
    "a typo in the secret": lambda key: "Bearer " + mistyped(key, 30),
    "a typo in the checksum": lambda key: "Bearer " + mistyped(key, len(key) - 1),
    "a typo in the id": lambda key: "Bearer " + mistyped(key, 10),
    "upper case": lambda key: "Bearer " + key.upper(),
    "an unknown id": lambda _: "Bearer " + credentials.format_key(credentials.generate(secrets.token_bytes)),
    "very long": lambda _: "Bearer " + "x" * 20_000,
}


def test_every_invalid_key_is_refused_with_the_same_bytes(shared_service: RunningService) -> None:
    expected = refusal(shared_service, None)
    assert (expected.status_code, expected.json()["error"]) == (401, "invalid_key")
    for name, header in BAD_HEADERS.items():
        answer = refusal(shared_service, header(shared_service.key(shop="s")))
        assert visible(answer) == visible(expected), name


def test_a_wrong_secret_is_refused_like_an_unknown_id_and_not_counted(shared_service: RunningService) -> None:
    # The forged key is well-formed and has a correct checksum, but its secret does not belong to the ID.
    genuine = shared_service.key(shop="s", per_min=1)
    forged = _with_id(key_id(genuine))
    assert credentials.parse_authorization(f"Bearer {forged}") is not None
    for _ in range(3):
        assert visible(refusal(shared_service, f"Bearer {forged}")) == visible(refusal(shared_service, None))
    assert shared_service.data("usage", genuine)["today"]["count"] == 1
    # Nor does it reveal that the minute of the key is full, or that it is revoked.
    assert visible(refusal(shared_service, f"Bearer {forged}")) == visible(refusal(shared_service, None))
    key_issuing.revoke(shared_service.key_store, key_id(genuine), shared_service.clock.now_ms(), OPERATOR)
    shared_service.clock.advance(1)
    assert visible(refusal(shared_service, f"Bearer {forged}")) == visible(refusal(shared_service, None))


def _with_id(known: str) -> str:
    """Return a well-formed key with this ID and a made-up secret."""
    body = credentials.generate(secrets.token_bytes).secret[: credentials.RANDOM_LENGTH]
    checksum = credentials._checksum_of(f"cf_live_{known}_{body}")
    return credentials.format_key(credentials.Credential(known, body + checksum))


def test_a_key_in_the_query_string_is_ignored(shared_service: RunningService) -> None:
    for name in ("key", "api_key", "apiKey", "access_token", "token", "authorization"):
        assert shared_service.get(f"shops?{name}={shared_service.key(shop='s')}").status_code == 401, name


def test_every_endpoint_needs_a_key(shared_service: RunningService) -> None:
    for path in set(ROUTES) - {"openapi.json"}:
        assert visible(refusal(shared_service, None, path)) == visible(refusal(shared_service, None)), path


def test_a_key_in_the_body_is_ignored(shared_service: RunningService) -> None:
    content = f'{{"authorization":"Bearer {shared_service.key(shop="s")}"}}'
    answer = shared_service.server.client.request("GET", f"{shared_service.url}/ext/v1/shops", content=content)
    assert answer.status_code == 401


# --- 401 key_revoked -----------------------------------------------------------------------


def test_a_scheduled_revocation_takes_effect_at_its_time(service: RunningService) -> None:
    key, now = service.key(shop="any"), service.clock.now_ms()
    key_issuing.schedule_revocation(service.key_store, key_id(key), now + 10_000, now, OPERATOR)
    service.clock.advance(9.999)
    assert service.get("shops", key).status_code == 200
    service.clock.advance(0.001)
    assert service.error("shops", key) == "key_revoked"


# --- the life of a key -------------------------------------------------------------------------


def test_a_key_does_not_expire_on_its_own(service: RunningService) -> None:
    key = service.key(shop="s")
    service.clock.advance(10 * 365 * 86_400)
    assert service.get("shops", key).status_code == 200


# --- 503 auth_unavailable ------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", KEY_FILE_PROBLEMS)
def test_nobody_is_admitted_or_counted_while_keys_cannot_be_read(service: RunningService, trouble: str) -> None:
    key = service.key(shop="s")
    service.get("shops", key)
    with keys_unreadable(service, trouble):
        answer = service.get("shops", key)
    assert (answer.status_code, answer.json()["error"]) == (503, "auth_unavailable")
    assert not [name for name in answer.headers if name.startswith("x-ratelimit") or name == "retry-after"]
    assert service.data("usage", key)["today"]["count"] == 2


def test_while_keys_cannot_be_read_a_bad_key_is_answered_like_a_good_one(service: RunningService) -> None:
    key = service.key(shop="s")
    with keys_unreadable(service):
        good, none, bad = (refusal(service, header) for header in (f"Bearer {key}", None, "Bearer x"))
    assert visible(good) == visible(none) == visible(bad)
