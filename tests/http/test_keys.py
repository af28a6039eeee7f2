"""Tests for keys: refusals, how soon a revocation takes effect, and responses while keys cannot be read."""

import re
import secrets
from collections.abc import Callable
from typing import Any

import pytest

from actors import OPERATOR
from broken_store import KEY_FILE_PROBLEMS, keys_unreadable, table_missing
from counterfoil import key_issuing
from counterfoil.backends.sqlite.keys import REFRESH_SEC
from counterfoil.domain import credentials
from records import shop
from running_service import RunningService

FIVE_MINUTES = 300


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


def test_a_valid_key_in_the_header_is_accepted(shared_service: RunningService) -> None:
    assert refusal(shared_service, f"Bearer {shared_service.key(shop='s')}").status_code == 200


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
    checksum = credentials._checksum(known, body)
    return credentials.format_key(credentials.Credential(known, body + checksum))


@pytest.mark.parametrize("name", ["key", "api_key", "apiKey", "access_token", "token", "authorization"])
def test_a_key_in_the_query_string_is_ignored(shared_service: RunningService, name: str) -> None:
    assert shared_service.get(f"shops?{name}={shared_service.key(shop='s')}").status_code == 401


def test_a_key_in_the_body_is_ignored(shared_service: RunningService) -> None:
    content = f'{{"authorization":"Bearer {shared_service.key(shop="s")}"}}'
    answer = shared_service.server.client.request("GET", f"{shared_service.url}/ext/v1/shops", content=content)
    assert answer.status_code == 401


@pytest.mark.parametrize("path", ["shops", "transactions", "transactions/x", "members", "members/lookup", "members/x"])
def test_every_endpoint_needs_a_key(shared_service: RunningService, path: str) -> None:
    assert seen(refusal(shared_service, None, path)) == seen(refusal(shared_service, None))


def test_a_refusal_says_how_to_present_a_key(shared_service: RunningService) -> None:
    assert refusal(shared_service, None).headers["www-authenticate"].startswith("Bearer")


# --- 401 key_revoked -----------------------------------------------------------------------


def test_a_revoked_key_gets_key_revoked(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s")
    key_issuing.revoke(shared_service.key_store, key_id(key), shared_service.clock.now_ms(), OPERATOR)
    shared_service.clock.advance(1)
    answer = shared_service.get("shops", key)
    assert (answer.status_code, answer.json()["error"]) == (401, "key_revoked")


def test_a_revocation_takes_effect_within_the_refresh_interval_even_for_a_busy_key(service: RunningService) -> None:
    key = service.key(shop="s", per_min=1000)
    for _ in range(10):
        assert service.get("shops", key).status_code == 200
        service.clock.advance(0.1)
    service.get("shops", key)
    key_issuing.revoke(service.key_store, key_id(key), service.clock.now_ms(), OPERATOR)
    statuses = []
    for _ in range(6):
        service.clock.advance(REFRESH_SEC / 5)
        statuses.append(service.get("shops", key).status_code)
    assert statuses[-2:] == [401, 401]


def test_the_key_refresh_interval_is_within_the_five_minutes_promised() -> None:
    assert REFRESH_SEC < FIVE_MINUTES


def test_a_revocation_takes_effect_while_the_wall_clock_stands_still_or_steps_back(service: RunningService) -> None:
    key = service.key(shop="s")
    service.get("shops", key)
    key_issuing.revoke(service.key_store, key_id(key), service.clock.now_ms(), OPERATOR)
    service.clock.step(-86_400)
    service.clock.advance(REFRESH_SEC)
    assert service.error("shops", key) == "key_revoked"


def test_a_scheduled_revocation_takes_effect_at_its_time(service: RunningService) -> None:
    key, now = service.key(shop="any"), service.clock.now_ms()
    key_issuing.schedule_revocation(service.key_store, key_id(key), now + 10_000, now, OPERATOR)
    service.clock.advance(9.999)
    assert service.get("shops", key).status_code == 200
    service.clock.advance(0.001)
    assert service.error("shops", key) == "key_revoked"


def test_a_rotated_key_works_until_its_scheduled_end_and_its_successor_longer(service: RunningService) -> None:
    key, now = service.key(shop="any"), service.clock.now_ms()
    issued = key_issuing.rotate(
        service.key_store, key_id(key), secrets.token_bytes, now, OPERATOR, revoke_old_at=now + 60_000
    )
    service.clock.advance(59)
    assert service.get("shops", key).status_code == 200
    service.clock.advance(1)
    assert service.error("shops", key) == "key_revoked"
    assert service.get("shops", issued.text).status_code == 200


def test_a_revocation_is_not_undone_by_an_update(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s")
    key_issuing.revoke(shared_service.key_store, key_id(key), shared_service.clock.now_ms(), OPERATOR)
    changes = key_issuing.KeyChanges(per_min=5, personal_data=True)
    with pytest.raises(key_issuing.KeyRevoked):
        key_issuing.update(shared_service.key_store, key_id(key), changes, shared_service.clock.now_ms(), OPERATOR)
    shared_service.clock.advance(1)
    assert shared_service.error("shops", key) == "key_revoked"


def test_revoking_one_key_does_not_affect_the_others(shared_service: RunningService) -> None:
    key, other = shared_service.key(shop="s"), shared_service.key(shop="s")
    key_issuing.revoke(shared_service.key_store, key_id(key), shared_service.clock.now_ms(), OPERATOR)
    shared_service.clock.advance(1)
    assert shared_service.get("shops", other).status_code == 200


def test_a_revoked_key_is_refused_without_the_allowance_and_not_counted(service: RunningService) -> None:
    key = service.key(shop="s", per_min=1)
    key_issuing.revoke(service.key_store, key_id(key), service.clock.now_ms(), OPERATOR)
    answers = [service.get("shops", key) for _ in range(3)]
    assert {answer.json()["error"] for answer in answers} == {"key_revoked"}
    assert not [name for name in answers[0].headers if name.startswith("x-ratelimit")]


# --- the life of a key -------------------------------------------------------------------------


def test_a_key_does_not_expire_on_its_own(service: RunningService) -> None:
    key = service.key(shop="s")
    service.clock.advance(10 * 365 * 86_400)
    assert service.get("shops", key).status_code == 200


def test_a_key_issued_while_the_service_runs_is_known_within_the_refresh(service: RunningService) -> None:
    service.get("shops", service.key(shop="s"))
    key = service.key(shop="s")
    service.clock.advance(REFRESH_SEC)
    assert service.get("shops", key).status_code == 200


def test_a_successor_works_while_the_old_key_still_works(service: RunningService) -> None:
    old = service.key(shop="s", per_day=77)
    new = key_issuing.rotate(service.key_store, key_id(old), secrets.token_bytes, service.clock.now_ms(), OPERATOR).text
    answers = [service.get("shops", key) for key in (old, new)]
    assert [(answer.status_code, answer.headers["x-ratelimit-limit"]) for answer in answers] == [(200, "77")] * 2


def test_a_permission_granted_later_works_within_the_refresh(service: RunningService) -> None:
    of = shop()
    service.load(of)
    key = service.key(shop=of["id"])
    assert service.error("members/lookup", key) == "lookup_not_enabled"
    key_issuing.update(
        service.key_store, key_id(key), key_issuing.KeyChanges(messaging_lookup=True), service.clock.now_ms(), OPERATOR
    )
    service.clock.advance(REFRESH_SEC)
    assert service.error("members/lookup", key) == "bad_query"


# --- 503 auth_unavailable ------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", KEY_FILE_PROBLEMS)
def test_nobody_is_admitted_while_keys_cannot_be_read(service: RunningService, trouble: str) -> None:
    key = service.key(shop="s")
    service.get("shops", key)
    with keys_unreadable(service, trouble):
        answer = service.get("shops", key)
        assert (answer.status_code, answer.json()["error"]) == (503, "auth_unavailable")


@pytest.mark.parametrize("trouble", KEY_FILE_PROBLEMS)
def test_the_service_recovers_by_itself_once_keys_can_be_read(service: RunningService, trouble: str) -> None:
    key = service.key(shop="s")
    service.get("shops", key)
    with keys_unreadable(service, trouble):
        service.get("shops", key)
    assert service.get("shops", key).status_code == 200


def test_while_keys_cannot_be_read_a_bad_key_is_answered_like_a_good_one(service: RunningService) -> None:
    key = service.key(shop="s")
    with keys_unreadable(service):
        assert seen(service.get("shops", key)) == seen(refusal(service, None)) == seen(refusal(service, "Bearer x"))


def test_a_refusal_because_keys_are_unreadable_has_no_allowance_and_no_retry_after(service: RunningService) -> None:
    with keys_unreadable(service):
        headers = service.get("shops", "any").headers
    assert not [name for name in headers if name.startswith("x-ratelimit") or name == "retry-after"]


def test_while_keys_cannot_be_read_nothing_is_counted(service: RunningService) -> None:
    key = service.key(shop="s")
    with keys_unreadable(service):
        service.get("shops", key)
    assert service.data("usage", key)["today"]["count"] == 1


def test_nobody_is_admitted_while_counts_cannot_be_stored(service: RunningService) -> None:
    key = service.key(shop="s")
    service.get("shops", key)
    with table_missing(service, "usage", "admissions"):
        answer = service.get("shops", key)
        assert (answer.status_code, answer.json()["error"]) == (503, "auth_unavailable")
        assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


def test_counting_continues_once_counts_can_be_stored_again(service: RunningService) -> None:
    key = service.key(shop="s")
    service.get("shops", key)
    with table_missing(service, "usage", "admissions"):
        service.get("shops", key)
    assert service.data("usage", key)["today"]["count"] == 2
