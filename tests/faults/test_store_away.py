"""The books out of reach or too slow, while keys and counts are not: 500 with the day's figures, and back again."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from counterfoil.backends.postgres.connections import COMMAND_SEC, QUEUE_SEC
from counterfoil.backends.postgres.keys import BRIDGE_SEC
from e2e.running import until
from faults.callers import Seen, at_once
from faults.estate import BY_DAY, Estate
from house import House
from records import NEW_YEAR, bill, shop
from servers import Postgres, Valkey

SLACK_SEC = 1.0


def assert_failed(calls: list[Seen], within_sec: float) -> None:
    assert {(call.status, call.error, call.metered) for call in calls} == {(500, "internal", True)}
    assert max(call.took for call in calls) < within_sec


@contextmanager
def locked(estate: Estate, table: str) -> Iterator[None]:
    """A session that keeps everybody else from a table."""
    with psycopg.connect(estate.address) as session:
        session.execute(f"LOCK TABLE counterfoil.{table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def test_a_dead_store_is_a_failure_that_still_tells_the_days_figures(estate: Estate) -> None:
    estate.issue("counted", per_min=1000, per_day=50)
    node = estate.node()
    desk = node.desk("counted")
    assert desk.ask(BY_DAY).status == 200
    estate.postgres.kill()
    assert_failed([desk.ask(BY_DAY) for _ in range(10)], SLACK_SEC)
    estate.postgres.start()
    until(lambda: desk.ask(BY_DAY).status == 200, "the store was found again")
    usage = desk.ask("usage").data
    assert usage["today"]["count"] >= 13


@pytest.mark.long
@pytest.mark.parametrize("befalls", ["freezes", "is silent", "is cut off", "is reset"])
def test_a_store_that_does_not_answer_is_a_failure_in_its_time(estate: Estate, befalls: str) -> None:
    node = estate.node()
    desk = node.desk()
    assert desk.ask(BY_DAY).status == 200
    match befalls:
        case "freezes":
            for pid in estate.postgres.pids():
                estate.postgres.freeze(pid, signal.SIGSTOP)
        case "is silent":
            node.to_store.silence()
        case "is cut off":
            node.to_store.cut()
        case "is reset":
            node.to_store.reset()
            # One broken connection is no broken store.
            assert until(lambda: desk.ask(BY_DAY).status == 200, "a new connection was made")
            return
    assert_failed([desk.ask(BY_DAY)], QUEUE_SEC + COMMAND_SEC + SLACK_SEC)
    # Fewer than there are connections: what a crowd sees is in test_storm.py.
    assert_failed(at_once(node.port, estate.key(), BY_DAY, 4), QUEUE_SEC + COMMAND_SEC + 2 * SLACK_SEC)
    for pid in estate.postgres.pids():
        estate.postgres.freeze(pid, signal.SIGCONT)
    node.to_store.mend()
    until(lambda: desk.ask(BY_DAY).status == 200, "the store was found again")


@pytest.mark.long
def test_a_key_that_cannot_be_looked_up_is_not_called_wrong(estate: Estate) -> None:
    node = estate.node()
    assert node.desk().ask(BY_DAY).status == 200
    node.to_store.cut()
    estate.issue("new", per_min=10, per_day=10)
    assert node.desk("new").ask(BY_DAY).error == "auth_unavailable"
    node.to_store.mend()
    assert until(lambda: node.desk("new").ask(BY_DAY).status == 200, "the store was found again")


@pytest.mark.long
def test_a_query_past_its_time_limit_is_a_failure_and_the_next_one_is_not(estate: Estate) -> None:
    node = estate.node()
    desk = node.desk()
    with locked(estate, "bills"):
        assert_failed([desk.ask(BY_DAY)], COMMAND_SEC + SLACK_SEC)
        assert desk.ask("shops").status == 200
    assert desk.ask(BY_DAY).status == 200


@pytest.mark.long
def test_once_the_bound_on_revocation_has_run_out_nobody_is_let_through(
    tmp_path: Path, postgres: Postgres, valkey: Valkey
) -> None:
    house = House(tmp_path, store=postgres.fresh_database()[1], meter=valkey.url)
    of = shop()
    house.load(of, bill(of))
    key = house.key(shop=of["id"])
    question = {"shopId": of["id"], **NEW_YEAR}
    assert house.get("transactions", key, **question).status_code == 200
    postgres.kill()
    house.clock.advance(BRIDGE_SEC - 1)
    assert house.error("transactions", key, **question) == "internal"
    house.clock.advance(2)
    assert house.error("transactions", key, **question) == "auth_unavailable"
    postgres.start()
    assert house.get("transactions", key, **question).status_code == 200
    house.close()
