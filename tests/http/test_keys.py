"""Tests for keys: refusals, how soon a revocation takes effect, and responses while keys cannot be read."""

import re
import secrets
from collections.abc import Callable
from typing import Any

import pytest

from actors import OPERATOR
from broken_store import KEY_FILE_PROBLEMS, keys_unreadable, table_missing
from counterfoil import key_issuing
from counterfoil.domain import credentials
from running_service import RunningService


def key_id(key: str) -> str:
    return key.split("_")[2]


def mistyped(key: str, place: int) -> str:
    return key[:place] + ("A" if key[place] != "A" else "B") + key[place + 1 :]


def refusal(service: RunningService, authorization: str | None, path: str = "shops") -> Any:
    return service.get(path, headers={"authorization": authorization} if authorization is not None else {})


def seen(answer: Any) -> tuple[Any, ...]:
    """Return everything that a caller can see in a response except the request ID and the time."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date")}
    return answer.status_code, answer.content, tuple(sorted(headers.items()))


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


@pytest.mark.parametrize("header", BAD_HEADERS)
def test_every_invalid_key_is_refused_with_the_same_bytes(shared_service: RunningService, header: str) -> None:
    answer = refusal(shared_service, BAD_HEADERS[header](shared_service.key(shop="s")))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_key")
    assert seen(answer) == seen(refusal(shared_service, None))


def test_a_wrong_secret_is_refused_like_an_unknown_id(shared_service: RunningService) -> None:
    # The forged key is well-formed and has a correct checksum, but its secret does not belong to the ID.
    genuine = shared_service.key(shop="s")
    forged = _with_id(key_id(genuine))
    assert credentials.parse_authorization(f"Bearer {forged}") is not None
    assert seen(refusal(shared_service, f"Bearer {forged}")) == seen(refusal(shared_service, None))


def test_a_revoked_key_with_a_wrong_secret_is_refused_like_an_unknown_id(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s")
    key_issuing.revoke(shared_service.key_store, key_id(key), shared_service.clock.now_ms(), OPERATOR)
    shared_service.clock.advance(1)
    assert seen(refusal(shared_service, f"Bearer {_with_id(key_id(key))}")) == seen(refusal(shared_service, None))


def _with_id(known: str) -> str:
    """Return a well-formed key with this ID and a made-up secret."""
    body = credentials.generate(secrets.token_bytes).secret[: credentials.RANDOM_LENGTH]
    checksum = credentials._checksum_of(f"cf_live_{known}_{body}")
    return credentials.format_key(credentials.Credential(known, body + checksum))


@pytest.mark.parametrize("name", ["key", "api_key", "apiKey", "access_token", "token", "authorization"])
def test_a_key_in_the_query_string_is_ignored(shared_service: RunningService, name: str) -> None:
    assert shared_service.get(f"shops?{name}={shared_service.key(shop='s')}").status_code == 401


def test_a_key_in_the_body_is_ignored(shared_service: RunningService) -> None:
    content = f'{{"authorization":"Bearer {shared_service.key(shop="s")}"}}'
    answer = shared_service.server.client.request("GET", f"{shared_service.url}/ext/v1/shops", content=content)
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "path", ["changes", "digests", "transactions", "transactions/x", "members", "members/lookup", "members/x"]
)
def test_every_endpoint_needs_a_key(shared_service: RunningService, path: str) -> None:
    assert seen(refusal(shared_service, None, path)) == seen(refusal(shared_service, None))


# --- 401 key_revoked -----------------------------------------------------------------------


def test_a_revoked_key_gets_key_revoked(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s")
    key_issuing.revoke(shared_service.key_store, key_id(key), shared_service.clock.now_ms(), OPERATOR)
    shared_service.clock.advance(1)
    answer = shared_service.get("shops", key)
    assert (answer.status_code, answer.json()["error"]) == (401, "key_revoked")


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
        assert seen(service.get("shops", key)) == seen(refusal(service, None)) == seen(refusal(service, "Bearer x"))


def test_nobody_is_admitted_while_counts_cannot_be_stored(service: RunningService) -> None:
    key = service.key(shop="s")
    service.get("shops", key)
    with table_missing(service, "usage", "admissions"):
        answer = service.get("shops", key)
    assert (answer.status_code, answer.json()["error"]) == (503, "auth_unavailable")
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
    assert service.data("usage", key)["today"]["count"] == 2
