"""Keys or counts out of reach: 503 at once, nobody let through, and back again by itself."""

import signal

import pytest

from counterfoil.backends.postgres.connections import GATE_SEC
from counterfoil.http.gate import SEAT_SEC
from e2e.running import until
from faults.callers import Seen, at_once
from faults.estate import BY_DAY, Estate

# What a busy machine may add to a bound.
SLACK_SEC = 1.0
# Of a crowd the last ones wait for a seat first.
BOUND_SEC = SEAT_SEC + GATE_SEC + SLACK_SEC
# While a node remembers its keys, this is all that a dead meter leaves to be said.
AT_ONCE_SEC = 0.5


def assert_refused(calls: list[Seen], within_sec: float) -> None:
    assert {(call.status, call.error) for call in calls} == {(503, "auth_unavailable")}
    assert not any(call.metered or call.data for call in calls)
    assert max(call.took for call in calls) < within_sec


def test_a_dead_meter_is_told_at_once_and_a_new_one_is_found_by_itself(estate: Estate) -> None:
    node = estate.node()
    desk = node.desk()
    assert desk.ask(BY_DAY).status == 200
    estate.valkey.kill()
    assert_refused([desk.ask(BY_DAY) for _ in range(20)], AT_ONCE_SEC)
    estate.valkey.start()
    until(lambda: desk.ask(BY_DAY).status == 200, "the meter was found again")


@pytest.mark.long
@pytest.mark.parametrize("befalls", ["freezes", "is silent", "trickles"])
def test_a_meter_that_does_not_answer_costs_everyone_the_same_short_time(estate: Estate, befalls: str) -> None:
    node = estate.node()
    desk = node.desk()
    assert desk.ask(BY_DAY).status == 200
    match befalls:
        case "freezes":
            estate.valkey.signal(signal.SIGSTOP)
        case "is silent":
            node.to_meter.silence()
        case "trickles":
            node.to_meter.trickle = 1
    for _ in range(2):
        assert_refused(at_once(node.port, estate.key(), BY_DAY, 100), BOUND_SEC)
    estate.valkey.signal(signal.SIGCONT)
    node.to_meter.mend()
    until(lambda: desk.ask(BY_DAY).status == 200, "the meter was found again")
    assert {call.status for call in at_once(node.port, estate.key(), BY_DAY, 20)} == {200}


@pytest.mark.long
@pytest.mark.parametrize("befalls", ["is killed", "is cut off", "freezes", "is silent"])
def test_a_node_that_knows_no_keys_yet_lets_nobody_through_while_the_store_is_away(
    estate: Estate, befalls: str
) -> None:
    node = estate.node()
    match befalls:
        case "is killed":
            estate.postgres.kill()
        case "is cut off":
            node.to_store.cut()
        case "freezes":
            for pid in estate.postgres.pids():
                estate.postgres.freeze(pid, signal.SIGSTOP)
        case "is silent":
            node.to_store.silence()
    for _ in range(2):
        assert_refused(at_once(node.port, estate.key(), BY_DAY, 50), BOUND_SEC)
    if befalls == "is killed":
        estate.postgres.start()
    for pid in estate.postgres.pids():
        estate.postgres.freeze(pid, signal.SIGCONT)
    node.to_store.mend()
    desk = node.desk()
    until(lambda: desk.ask(BY_DAY).status == 200, "the store was found again")


@pytest.mark.long
@pytest.mark.parametrize("befalls", ["is killed", "is cut off", "is silent"])
def test_where_the_store_counts_a_dead_store_is_a_gate_that_stays_shut(estate: Estate, befalls: str) -> None:
    node = estate.node(meter=False)
    desk = node.desk()
    assert desk.ask(BY_DAY).status == 200
    match befalls:
        case "is killed":
            estate.postgres.kill()
        case "is cut off":
            node.to_store.cut()
        case "is silent":
            node.to_store.silence()
    for _ in range(2):
        # The key is asked for first and the count after it.
        assert_refused(at_once(node.port, estate.key(), BY_DAY, 50), BOUND_SEC + GATE_SEC)
    if befalls == "is killed":
        estate.postgres.start()
    node.to_store.mend()
    until(lambda: desk.ask(BY_DAY).status == 200, "the store was found again")
