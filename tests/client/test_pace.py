"""Tests for the client's own rate limiter, and for the progress that shows when it waits."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

import records as r
from counterfoil.client import Client
from counterfoil.client.connection import WINDOW_SEC, Environment, Pace
from counterfoil.client.pull import Options, Puller
from counterfoil.client.pull_state import Tally
from counterfoil.client.sinks.sqlite import SQLiteSink
from counterfoil.copies.remote import progress_line
from running_service import RunningService

# The length of the service's minute window in seconds. No such window may contain more requests than the limit.
MINUTE = 60.0


def test_requests_sent_before_the_limit_was_known_count() -> None:
    pace = Pace()
    pace.reserve(0.0)
    pace.set_limit(2)
    assert [pace.reserve(1.0), pace.reserve(1.0)] == [0.0, WINDOW_SEC - 1.0]


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


def test_progress_says_what_is_read_and_what_is_left_if_that_is_known() -> None:
    tally = Tally(bills_read=123_456, remaining=999_680, reading="shop s-1")
    assert progress_line(tally) == "123,456 bills, quota left: 999,680, reading shop s-1"
    assert progress_line(Tally(members_read=1, reading="members of b-1")) == "1 member, reading members of b-1"


def test_the_client_reports_that_it_waits_for_the_rate_limit(service: RunningService) -> None:
    branch = r.branch()
    service.load(branch, *r.bills(branch, 12))
    waits: list[bool] = []

    def sleep(seconds: float) -> None:
        waits.append(progress_line(puller.tally).endswith(f"waiting for the rate limit: {seconds:.0f} s"))
        service.clock.advance(seconds)
        passed[0] += seconds

    passed = [0.0]
    environment = Environment(lambda: time.monotonic() + passed[0], time.time, lambda: 0.5)
    url, key = f"{service.url}/ext/v1", service.key(franchise=branch["franchiseId"], per_min=4)
    with (
        Client(url, key, sleep=sleep, environment=environment) as client,
        closing(SQLiteSink(service.folder / "waiting.sqlite")) as sink,
    ):
        puller = Puller(client, sink, Options(limit=3))
        assert puller.run().bills_added == 12
    assert waits
    assert all(waits)
    assert puller.tally.waiting_for == ""
