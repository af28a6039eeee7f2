"""Tests for the client's own rate limiter."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from counterfoil.client.connection import WINDOW_SEC, Pace

# The length of the service's minute window in seconds. No such window may contain more requests than the limit.
MINUTE = 60.0


def test_requests_do_not_wait_while_the_limit_is_unknown() -> None:
    pace = Pace()
    assert [pace.reserve(0.0) for _ in range(1000)] == [0.0] * 1000


def test_requests_sent_before_the_limit_was_known_count() -> None:
    pace = Pace()
    pace.reserve(0.0)
    pace.set_limit(2)
    assert [pace.reserve(1.0), pace.reserve(1.0)] == [0.0, WINDOW_SEC - 1.0]


def test_a_request_over_the_limit_learns_when_to_retry() -> None:
    pace = Pace(3)
    for second in (0.0, 10.0, 20.0):
        assert pace.reserve(second) == 0.0
    assert pace.reserve(30.0) == WINDOW_SEC - 30.0
    assert pace.reserve(WINDOW_SEC) == 0.0
    assert pace.reserve(WINDOW_SEC) == 10.0


def test_a_lowered_limit_applies_from_then_on() -> None:
    pace = Pace(10)
    for _ in range(5):
        pace.reserve(0.0)
    pace.set_limit(2)
    assert pace.reserve(1.0) > 0
    assert pace.reserve(WINDOW_SEC) == 0.0


@given(st.integers(1, 5), st.lists(st.floats(0, 40), min_size=1, max_size=60))
def test_no_minute_ever_exceeds_the_limit(per_min: int, pauses: list[float]) -> None:
    pace, now, sent = Pace(per_min), 0.0, []
    for pause in pauses:
        now += pause
        while (wait := pace.reserve(now)) > 0:
            now += wait
        sent.append(now)
    for first in sent:
        assert sum(first <= other < first + MINUTE for other in sent) <= per_min


def test_threads_together_stay_within_the_limit() -> None:
    pace = Pace(50)
    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda _: pace.reserve(0.0), range(400)))
    assert waits.count(0.0) == 50
