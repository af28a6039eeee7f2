"""The limits of a key under many callers: no minute holds more than the limit, and the day is counted exactly.

The checkers know only when callers sent requests and received answers.
"""

import json
import os
import signal
from bisect import bisect_left, bisect_right

from msgspec import Struct

from hostile.callers import NO_ANSWER, Call, Caller, Crowd, pause
from hostile.checker import Checker
from hostile.raw_http import ask
from hostile.targets import Attacked, Site

MINUTE_SEC = 60.0
PER_DAY = 100_000_000
# Enough to fill the minute at once, without spending the whole machine on refusals.
EVERY_SEC = 0.01


class Report(Struct):
    admitted: int
    refused: int
    unanswered: int
    killed: int
    faults: list[str]


def crowded(calls: list[Call], per_min: int) -> list[str]:
    """Return the minutes that surely held more than the limit, wherever between its ends each call was counted.

    Among admitted calls, take those that both began and ended within 60 seconds.
    """
    admitted = sorted((call for call in calls if call.remaining is not None), key=lambda call: call.ended)
    ends = [call.ended for call in admitted]
    worst: list[str] = []
    for last in admitted:
        earliest = last.ended - MINUTE_SEC
        within = admitted[bisect_left(ends, earliest) : bisect_right(ends, last.ended)]
        held = sum(call.began > earliest for call in within)
        if held > per_min:
            worst.append(f"{held} requests were admitted in a minute, and {per_min} are allowed")
    return worst[:3]


def wronged(calls: list[Call], per_min: int) -> list[str]:
    """Return the calls that were refused although the window cannot have been full, even with every unanswered call."""
    spent = [call for call in calls if call.remaining is not None or call.status == NO_ANSWER]
    begins = sorted(call.began for call in spent)
    ends = sorted(call.ended for call in spent)
    found = []
    for call in calls:
        if call.error == "rate_limited":
            # Those that may have been counted by now, without those that surely were more than a minute ago.
            held = bisect_left(begins, call.ended) - bisect_right(ends, call.began - MINUTE_SEC)
            if held < per_min:
                found.append("a request was refused although the minute was not full")
    return found[:3]


def miscounted(calls: list[Call], told: int) -> list[str]:
    """Return what is wrong with the day's count: every admitted call once, and every unanswered one at most once."""
    answered = sum(call.remaining is not None for call in calls)
    lost = sum(call.status == NO_ANSWER and call.error != "ConnectionRefusedError" for call in calls)
    # The question for the count is itself counted.
    if not answered + 1 <= told <= answered + lost + 1:
        return [f"the day's count is {told}, and {answered} requests were admitted ({lost} without an answer)"]
    shown = [call.remaining for call in calls if call.remaining is not None]
    return [] if len(set(shown)) == len(shown) else ["two answers showed the same number of remaining requests"]


def play(
    site: Attacked,
    checker: Checker,
    *,
    clients: int,
    seconds: float,
    per_min: int,
    kills: int = 0,
    ask_day: bool = True,
) -> Report:
    """Let many clients use one key on all nodes, and kill workers on the way.

    `ask_day` reads the day's count at the end, for which a full minute has to pass.
    """
    key = site.issue("shop", "sh-0-1", per_min=per_min, per_day=PER_DAY)
    pause(0.6)  # a key is known to every worker half a second after its issue
    callers = [Caller(site.ports[number % len(site.ports)], key, "shops", checker=checker) for number in range(clients)]
    crowd = Crowd(callers, EVERY_SEC)
    killed = 0
    with crowd:
        for _ in range(kills):
            pause(seconds / (kills + 1))
            assert isinstance(site, Site)
            node = site.nodes[killed % len(site.nodes)]
            os.kill(min(node.pids()), signal.SIGKILL)
            killed += 1
        pause(seconds / (kills + 1))
    calls = crowd.calls
    faults = [*crowd.faults, *crowded(calls, per_min), *wronged(calls, per_min)]
    faults += _day(site, key, calls) if ask_day else _remaining(calls)
    return Report(
        admitted=sum(call.remaining is not None for call in calls),
        refused=sum(call.error == "rate_limited" for call in calls),
        unanswered=sum(call.status == NO_ANSWER for call in calls),
        killed=killed,
        faults=faults,
    )


def _remaining(calls: list[Call]) -> list[str]:
    """Check the count that the last admitted request was told."""
    left = min((call.remaining for call in calls if call.remaining is not None), default=PER_DAY)
    return miscounted(calls, PER_DAY - left + 1)


def _day(site: Attacked, key: str, calls: list[Call]) -> list[str]:
    """Ask for the day's count; if the minute is full, wait until one request fits."""
    for _ in range(70):
        answer = ask(site.ports[0], "/ext/v1/usage", key)
        if answer is not None and answer.status == 200:
            return miscounted(calls, int(json.loads(answer.body)["data"]["today"]["count"]))
        pause(1.0)
    return ["the day's count could not be read"]
