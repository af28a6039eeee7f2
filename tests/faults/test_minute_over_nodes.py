"""The minute window across two nodes, checked using only the times and responses that callers observed."""

from bisect import bisect_left
from contextlib import ExitStack

import pytest

from faults.http_clients import Call, RepeatingClient
from faults.multi_node import MultiNodeDeployment
from waiting import until

PER_MIN = 40
CALLERS = 3
WATCHED_SEC = 150
MINUTE = 60.0


@pytest.mark.long
@pytest.mark.parametrize("meter", [True, False], ids=["counted by the meter", "counted by the store"])
def test_no_minute_exceeds_the_limit_and_no_request_within_it_is_refused(
    multi_node: MultiNodeDeployment, meter: bool
) -> None:
    multi_node.issue("tight", per_min=PER_MIN, per_day=1_000_000)
    nodes = [multi_node.node(meter=meter), multi_node.node(meter=meter)]
    with ExitStack() as at_work:
        callers = [
            at_work.enter_context(RepeatingClient(node.port, multi_node.key("tight"), "shops", every_sec=0.03))
            for node in nodes
            for _ in range(CALLERS)
        ]
        until(
            lambda: callers[0].seen and callers[0].seen[-1].ended - callers[0].seen[0].began > WATCHED_SEC,
            f"a caller has sent requests for {WATCHED_SEC} seconds",
            300,
        )
    calls = [call for caller in callers for call in caller.seen]
    assert {call.status for call in calls} == {200, 429}
    admitted = [call for call in calls if call.status == 200]
    refused = [call for call in calls if call.status == 429]
    assert len(admitted) >= PER_MIN * int(WATCHED_SEC / MINUTE)
    assert over_the_limit(admitted) == []
    assert wrongly_refused(admitted, refused) == []


def over_the_limit(admitted: list[Call]) -> list[Call]:
    """Return the calls that certainly exceeded the limit.

    Each call was counted at an unknown time between its start and its end.
    """
    by_end = sorted(admitted, key=lambda call: call.ended)
    ends = [call.ended for call in by_end]
    found = []
    for call in admitted:
        # The calls that were definitely counted within the minute that ended when this call was answered.
        earliest = call.ended - MINUTE
        surely = [other for other in by_end[bisect_left(ends, earliest) :] if other.began > earliest]
        if sum(other.ended <= call.ended for other in surely) > PER_MIN:
            found.append(call)
    return found


def wrongly_refused(admitted: list[Call], refused: list[Call]) -> list[Call]:
    """Return the calls that were refused although the count for the preceding minute cannot have reached the limit."""
    return [
        call
        for call in refused
        if sum(other.ended > call.began - MINUTE and other.began < call.ended for other in admitted) < PER_MIN
    ]
