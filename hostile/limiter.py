"""The limits of a key used by many callers: no minute exceeds the limit, and the day count is exact.

The checks use only what callers can observe: the responses, and the times of
requests and responses.
"""

import json
import os
import signal
from bisect import bisect_left, bisect_right

from msgspec import Struct

from hostile.callers import NO_ANSWER, Call, Caller, ConcurrentCallers, pause
from hostile.checker import Checker
from hostile.raw_http import ask
from hostile.targets import Attacked, Site

MINUTE_SEC = 60.0
PER_DAY = 100_000_000
# This interval fills the minute window quickly without spending all processor time on refusals.
EVERY_SEC = 0.01


class Report(Struct):
    admitted: int
    refused: int
    unanswered: int
    killed: int
    faults: list[str]


def minutes_over_limit(calls: list[Call], per_min: int) -> list[str]:
    """Report minutes in which more calls than allowed were certainly admitted.

    A call was counted at an unknown time between its start and its end, so only admitted
    calls that both began and ended within the 60 seconds are counted here.
    """
    admitted = sorted((call for call in calls if call.remaining is not None), key=lambda call: call.ended)
    ends = [call.ended for call in admitted]
    worst: list[str] = []
    for last in admitted:
        earliest = last.ended - MINUTE_SEC
        within = admitted[bisect_left(ends, earliest) : bisect_right(ends, last.ended)]
        held = sum(call.began > earliest for call in within)
        if held > per_min:
            worst.append(f"{held} requests were admitted in a minute, but only {per_min} are allowed")
    return worst[:3]


def wrongly_refused(calls: list[Call], per_min: int) -> list[str]:
    """Report calls that were refused although the window had room, with unanswered calls counted as admitted."""
    spent = [call for call in calls if call.remaining is not None or call.status == NO_ANSWER]
    begins = sorted(call.began for call in spent)
    ends = sorted(call.ended for call in spent)
    found = []
    for call in calls:
        if call.error == "rate_limited":
            # The calls that may have been counted so far, excluding those that were definitely counted more than a
            # minute ago.
            held = bisect_left(begins, call.ended) - bisect_right(ends, call.began - MINUTE_SEC)
            if held < per_min:
                found.append("a request was refused although the minute was not full")
    return found[:3]


def miscounted(calls: list[Call], reported: int) -> list[str]:
    """Check the day's count: each admitted call counts once, and each unanswered call at most once.

    No two responses may show the same number of remaining requests.
    """
    answered = sum(call.remaining is not None for call in calls)
    lost = sum(call.status == NO_ANSWER and call.error != "ConnectionRefusedError" for call in calls)
    # The request for the count is itself counted.
    if not answered + 1 <= reported <= answered + lost + 1:
        return [f"the day's count is {reported}, but {answered} requests were admitted and {lost} were not answered"]
    shown = [call.remaining for call in calls if call.remaining is not None]
    return [] if len(set(shown)) == len(shown) else ["two answers showed the same number of remaining requests"]


def run(
    site: Attacked,
    checker: Checker,
    *,
    clients: int,
    seconds: float,
    per_min: int,
    kills: int = 0,
    ask_day: bool = True,
) -> Report:
    """Let many clients use one key on all nodes, and kill `kills` workers meanwhile.

    If `ask_day` is true, the day's count is read at the end, which may take a
    minute because the minute window is full.
    """
    key = site.issue("shop", "sh-0-1", per_min=per_min, per_day=PER_DAY)
    pause(0.6)  # Every worker accepts a new key within half a second.
    callers = [Caller(site.ports[number % len(site.ports)], key, "shops", checker=checker) for number in range(clients)]
    concurrent = ConcurrentCallers(callers, EVERY_SEC)
    killed = 0
    with concurrent:
        for _ in range(kills):
            pause(seconds / (kills + 1))
            assert isinstance(site, Site)
            node = site.nodes[killed % len(site.nodes)]
            os.kill(min(node.pids()), signal.SIGKILL)
            killed += 1
        pause(seconds / (kills + 1))
    calls = concurrent.calls
    faults = [*concurrent.faults, *minutes_over_limit(calls, per_min), *wrongly_refused(calls, per_min)]
    faults += _day(site, key, calls) if ask_day else _remaining(calls)
    return Report(
        admitted=sum(call.remaining is not None for call in calls),
        refused=sum(call.error == "rate_limited" for call in calls),
        unanswered=sum(call.status == NO_ANSWER for call in calls),
        killed=killed,
        faults=faults,
    )


def _remaining(calls: list[Call]) -> list[str]:
    """Check the day's count, computed from the lowest number of remaining requests in any response."""
    left = min((call.remaining for call in calls if call.remaining is not None), default=PER_DAY)
    return miscounted(calls, PER_DAY - left + 1)


def _day(site: Attacked, key: str, calls: list[Call]) -> list[str]:
    """Request the day's count when the minute window has room; return the faults in the count."""
    for _ in range(70):
        answer = ask(site.ports[0], "/ext/v1/usage", key)
        if answer is not None and answer.status == 200:
            return miscounted(calls, int(json.loads(answer.body)["data"]["today"]["count"]))
        pause(1.0)
    return ["the day's count could not be read"]
