"""The minute window is exact: a request is refused if and only if it would exceed the limit for the last 60 seconds."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import OPERATOR
from counterfoil import bootstrap, key_issuing
from running_service import RunningService, ServerThread

MINUTE = 60_000_000
A_LOT = 1_000_000


def ask(service: RunningService, key: str) -> httpx.Response:
    return service.get("shops", key)


def statuses(service: RunningService, key: str, number: int) -> list[int]:
    return [ask(service, key).status_code for _ in range(number)]


class Model:
    """A simple model of an exact window. Times are in microseconds."""

    def __init__(self) -> None:
        self.now = 0
        self.admitted: list[int] = []

    def fits(self, per_min: int) -> bool:
        return sum(at > self.now - MINUTE for at in self.admitted) < per_min

    def seconds_to_wait(self, per_min: int) -> int:
        microseconds = sorted(self.admitted)[-per_min] + MINUTE - self.now
        return max(1, -(-microseconds // 1_000_000))


# --- exactness ---------------------------------------------------------------------------

GAPS = st.one_of(
    st.just(0),
    st.integers(0, 2_000_000),
    st.integers(0, 70_000_000),
    st.sampled_from([1, 999_999, 1_000_000, MINUTE - 1, MINUTE, MINUTE + 1, MINUTE // 2]),
)


@settings(max_examples=40, deadline=None)
@given(per_min=st.integers(1, 4), gaps=st.lists(GAPS, min_size=1, max_size=30))
def test_a_request_is_admitted_exactly_when_it_is_within_the_limit(
    shared_service: RunningService, per_min: int, gaps: list[int]
) -> None:
    key = shared_service.key(shop="s", per_min=per_min, per_day=A_LOT)
    model = Model()
    for gap in gaps:
        shared_service.clock.advance(gap / 1_000_000)
        model.now += gap
        answer = ask(shared_service, key)
        if model.fits(per_min):
            assert answer.status_code == 200
            model.admitted.append(model.now)
        else:
            assert answer.status_code == 429
            assert answer.json()["retryAfterSec"] == model.seconds_to_wait(per_min)


@settings(max_examples=20, deadline=None)
@given(moves=st.lists(st.tuples(st.integers(0, 30_000_000), st.sampled_from([0, -86_400, -61, -1, 1, 61, 86_400]))))
def test_steps_of_the_wall_clock_do_not_affect_the_window(
    shared_service: RunningService, moves: list[tuple[int, int]]
) -> None:
    key = shared_service.key(shop="s", per_min=2, per_day=A_LOT)
    model = Model()
    for gap, step in moves:
        shared_service.clock.step(step)
        shared_service.clock.advance(gap / 1_000_000)
        model.now += gap
        fits = model.fits(2)
        assert (ask(shared_service, key).status_code == 200) is fits
        if fits:
            model.admitted.append(model.now)
    # Undo the clock steps, which may have changed the day, so that they do not affect later tests.
    shared_service.clock.step(-sum(step for _, step in moves))


@settings(max_examples=20, deadline=None)
@given(moves=st.lists(st.tuples(st.integers(0, 30_000_000), st.integers(1, 5)), max_size=20))
def test_a_changed_limit_applies_from_the_next_request(
    shared_service: RunningService, moves: list[tuple[int, int]]
) -> None:
    key = shared_service.key(shop="s", per_min=3, per_day=A_LOT)
    model = Model()
    for gap, per_min in moves:
        key_issuing.update(
            shared_service.key_store,
            key.split("_")[2],
            key_issuing.KeyChanges(per_min=per_min),
            shared_service.clock.now_ms(),
            OPERATOR,
        )
        shared_service.clock.advance(1 + gap / 1_000_000)
        model.now += 1_000_000 + gap
        fits = model.fits(per_min)
        assert (ask(shared_service, key).status_code == 200) is fits
        if fits:
            model.admitted.append(model.now)


@pytest.mark.parametrize("per_min", [1, 2, 7])
def test_a_burst_is_admitted_up_to_the_limit_and_no_further(shared_service: RunningService, per_min: int) -> None:
    key = shared_service.key(shop="s", per_min=per_min)
    assert statuses(shared_service, key, per_min + 2) == [200] * per_min + [429] * 2


def test_a_slot_is_free_again_exactly_60_seconds_after_it_was_taken(service: RunningService) -> None:
    key = service.key(shop="s", per_min=1)
    ask(service, key)
    service.clock.advance(59.999_999)
    assert ask(service, key).status_code == 429
    service.clock.advance(0.000_001)
    assert ask(service, key).status_code == 200


def test_the_window_rolls_and_does_not_reset_at_the_full_minute(service: RunningService) -> None:
    key = service.key(shop="s", per_min=2)
    service.clock.advance(59)
    ask(service, key)
    ask(service, key)
    service.clock.advance(2)
    assert ask(service, key).status_code == 429


def test_the_default_limit_is_60_per_minute(shared_service: RunningService) -> None:
    assert statuses(shared_service, shared_service.key(shop="s"), 62) == [200] * 60 + [429] * 2


# --- retrying ---------------------------------------------------------------------------------


@pytest.mark.parametrize("passed", [0, 0.000_001, 0.5, 1, 29.25, 58.999, 59, 59.5, 59.999_999])
def test_after_retry_after_seconds_a_request_is_admitted(shared_service: RunningService, passed: float) -> None:
    key = shared_service.key(shop="s", per_min=1)
    ask(shared_service, key)
    shared_service.clock.advance(passed)
    seconds = int(ask(shared_service, key).headers["retry-after"])
    assert seconds >= 1
    shared_service.clock.advance(seconds)
    assert ask(shared_service, key).status_code == 200


@pytest.mark.parametrize("passed", [0, 0.5, 29.25, 57])
def test_one_second_before_that_the_slot_is_still_taken(shared_service: RunningService, passed: float) -> None:
    key = shared_service.key(shop="s", per_min=1)
    ask(shared_service, key)
    shared_service.clock.advance(passed)
    shared_service.clock.advance(int(ask(shared_service, key).headers["retry-after"]) - 1)
    assert ask(shared_service, key).status_code == 429


def test_the_refusal_says_when_to_retry_and_what_the_limit_is(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=2)
    ask(shared_service, key)
    shared_service.clock.advance(10)
    ask(shared_service, key)
    answer = shared_service.get("shops", key)
    assert answer.json() == {
        "ok": False,
        "error": "rate_limited",
        "message": answer.json()["message"],
        "retryAfterSec": 50,
        "limit": 2,
        "windowSec": 60,
    }
    assert answer.headers["retry-after"] == "50"


def test_the_refusal_has_no_allowance_headers(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=1)
    ask(shared_service, key)
    assert not [name for name in ask(shared_service, key).headers if name.startswith("x-ratelimit")]


def test_the_minute_limit_is_in_no_header(shared_service: RunningService) -> None:
    answer = ask(shared_service, shared_service.key(shop="s", per_min=4321))
    assert not [name for name, value in answer.headers.items() if "4321" in value]


# --- refused requests count nowhere -------------------------------------------------------------


def test_refused_requests_do_not_keep_the_window_full(service: RunningService) -> None:
    key = service.key(shop="s", per_min=1)
    ask(service, key)
    for _ in range(59):
        service.clock.advance(1)
        assert ask(service, key).status_code == 429
    service.clock.advance(1)
    assert ask(service, key).status_code == 200


def test_refused_requests_do_not_count_towards_the_day(service: RunningService) -> None:
    key = service.key(shop="s", per_min=2, per_day=10)
    statuses(service, key, 6)
    service.clock.advance(60)
    assert service.data("usage", key)["today"] == {"date": "20260101", "count": 3, "remaining": 7}


def test_requests_that_fail_take_a_slot(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=2)
    for _ in range(2):
        assert shared_service.error("transactions", key) == "bad_query"
    assert ask(shared_service, key).status_code == 429


# --- sharing a window ------------------------------------------------------------------------------


def test_every_key_has_its_own_window(shared_service: RunningService) -> None:
    full, other = shared_service.key(shop="s", per_min=1), shared_service.key(shop="s", per_min=1)
    assert statuses(shared_service, full, 2) == [200, 429]
    assert ask(shared_service, other).status_code == 200


def test_concurrent_requests_share_the_window_exactly(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=10)
    with ThreadPoolExecutor(16) as crowd:
        found = list(crowd.map(lambda _: ask(shared_service, key).status_code, range(60)))
    assert (found.count(200), found.count(429)) == (10, 50)


def test_two_servers_over_one_store_share_the_window_exactly(service: RunningService) -> None:
    key = service.key(shop="s", per_min=10)
    second = ServerThread(bootstrap.service(service.settings, service.events.append, service.clock))
    try:
        urls = [f"http://127.0.0.1:{port}/ext/v1/shops" for port in (service.server.port, second.port)]
        headers = {"authorization": f"Bearer {key}"}

        def knock(number: int) -> int:
            return second.client.get(urls[number % 2], headers=headers).status_code

        with ThreadPoolExecutor(8) as crowd:
            found = list(crowd.map(knock, range(40)))
    finally:
        second.stop()
    assert (found.count(200), found.count(429)) == (10, 30)


def test_a_full_window_is_still_full_after_a_restart(tmp_path: Path) -> None:
    before = RunningService(tmp_path)
    key = before.key(shop="s", per_min=2)
    statuses(before, key, 2)
    before.close()
    after = RunningService(tmp_path)
    after.clock.advance(1)
    refused: Any = ask(after, key)
    after.close()
    assert (refused.status_code, refused.json()["retryAfterSec"]) == (429, 59)
