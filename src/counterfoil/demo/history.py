"""Writes invented requests of the demo's keys for the days before today, so that the console has data to show.

The requests go through the same meter and request log as real requests, with a clock that is set to the time of
each request. Nothing is written if the store already has requests.
"""

import asyncio
import random
from collections.abc import Iterator
from datetime import timedelta

from msgspec import Struct, json

from counterfoil import bootstrap
from counterfoil.demo.showcase import DemoKey, MovingClock, Showcase
from counterfoil.domain.access import Key, TooFast
from counterfoil.domain.calendar import DAY_MS, HOUR_MS, thai_day, thai_midnight
from counterfoil.domain.problems import BAD_CURSOR, BAD_QUERY, NOT_FOUND, RATE_LIMITED, SHOP_NOT_IN_SCOPE, Problem
from counterfoil.domain.request_records import CHANGES_OF_SHOP, ChangeList, RequestDetail, RequestRecord
from counterfoil.machine.clock import SystemClock
from counterfoil.settings import Settings

DAYS = 14
# Maps a key's purpose to its average number of requests per day and the routes from which they are drawn at random.
# Keys with other purposes are unused.
_PLANS: dict[str, tuple[int, tuple[str, ...]]] = {
    "franchise": (70, ("transactions", "transactions", "transactions", "shops", "transactions/{id}")),
    "shop": (24, ("transactions", "transactions", "usage")),
    "personal data": (12, ("members", "members/{memberToken}")),
    "lookup": (40, ("members/lookup",)),
    "default limits": (18, ("transactions", "digests")),
    "tiny limits": (6, ("shops",)),
}
# The errors that some requests in the invented history get, by route. Each route has only some of its possible errors.
# Requests to routes that are not listed fail only if they exceed the rate limit.
ERRORS_OF_ROUTES: dict[str, tuple[Problem, ...]] = {
    "transactions": (BAD_CURSOR, BAD_QUERY, SHOP_NOT_IN_SCOPE),
    "transactions/{id}": (NOT_FOUND,),
    "members": (BAD_CURSOR,),
    "members/{memberToken}": (NOT_FOUND,),
    "members/lookup": (NOT_FOUND,),
    "digests": (BAD_QUERY,),
}
ERROR_SHARE = 0.03
WITH_PERSONAL_DATA = ("members", "members/{memberToken}")


class HistoryClock(MovingClock):
    """Its boot ID differs from the real one, because its steady clock cannot be compared with the real one."""

    def steady_us(self) -> int:
        return self.moment_ms * 1000

    def boot_id(self) -> str:
        return "the demo's history"


class PastRequest(Struct, frozen=True):
    at: int
    demo_key: DemoKey
    route: str
    problem: Problem | None
    took_us: int


def write_history(settings: Settings, demo: Showcase, seed: int) -> int:
    """Write the history, unless the store already has requests. Return the number of requests that were written."""
    if bootstrap.store(settings).reads().last_used():
        return 0
    requests = sorted(_plan(demo, seed, SystemClock().now_ms()), key=lambda request: request.at)
    asyncio.run(_write(settings, requests, seed))
    return len(requests)


def _plan(demo: Showcase, seed: int, now_ms: int) -> Iterator[PastRequest]:
    chance = random.Random(seed)  # noqa: S311 - invented data
    today = thai_day(now_ms)
    for demo_key in demo.keys:
        per_day, routes = _PLANS.get(demo_key.purpose, (0, ()))
        for back in range(DAYS, 0, -1):
            midnight = thai_midnight(today - timedelta(days=back))
            for _ in range(chance.randint(per_day * 3 // 4, per_day * 5 // 4)):
                route = chance.choice(routes)
                problems = ERRORS_OF_ROUTES.get(route, ())
                fails = problems and chance.random() < ERROR_SHARE
                yield PastRequest(
                    midnight + min(DAY_MS - 1, int(abs(chance.gauss(14, 4)) * HOUR_MS)),
                    demo_key,
                    route,
                    chance.choice(problems) if fails else None,
                    int(chance.lognormvariate(7.3, 0.6)),
                )


async def _write(settings: Settings, requests: list[PastRequest], seed: int) -> None:
    clock = HistoryClock()
    chance = random.Random(seed + 1)  # noqa: S311 - invented data
    if not requests:
        return
    clock.moment_ms = requests[0].at
    # The end of the latest pass over each list, where the next pass begins. A first pass begins at 0.
    marks: dict[ChangeList, int] = {}
    ports = bootstrap.serving_ports(settings, lambda _: None, clock)
    try:
        for request in requests:
            clock.moment_ms = request.at
            key = request.demo_key.key
            if isinstance(await ports.meter.admit(key), TooFast):
                ports.request_log.note_refusal(key.key_id, RATE_LIMITED.code, request.at)
                continue
            ports.request_log.note(_record(request, chance))
            for read in _completed_lists(request, key, requests[-1].at):
                ports.request_log.note_page(read, marks.get(read, 0), request.at, is_last=True, at=request.at)
                marks[read] = request.at
    finally:
        ports.close()


PARAMETERS = {"transactions": "shopId,updatedSince", "changes": "since", "members": "providerId,limit"}


def _record(request: PastRequest, chance: random.Random) -> RequestRecord:
    key, bases = request.demo_key.key, request.demo_key.provider_ids
    route, problem = request.route, request.problem
    is_disclosure = key.personal_data and not problem and route in WITH_PERSONAL_DATA and bases
    members = chance.randint(20, 200) if route == "members" else 1
    rows = members if route == "members" else 1 if "{" in route else 0
    detail = (
        RequestDetail(message=problem.message)
        if problem
        else RequestDetail(PARAMETERS.get(route, ""), rows=rows, is_last=True)
    )
    return RequestRecord(
        at=request.at,
        key_id=key.key_id,
        route=route,
        status=problem.status if problem else 200,
        error=problem.code if problem else None,
        took_us=request.took_us,
        personal_base=bases[0] if is_disclosure else None,
        personal_members=members if is_disclosure else 0,
        request_id=f"{chance.getrandbits(80):020x}",
        detail=json.encode(detail).decode(),
    )


def _completed_lists(request: PastRequest, key: Key, newest: int) -> Iterator[ChangeList]:
    """Yield each list of changes that the request read to its end.

    These are the changes of the shops that the key reads. So that the console can show outdated copies, a key with
    several shops never reads the first one, and does not read the third one in the last four days.
    """
    if request.route != "transactions" or request.problem:
        return
    shops = request.demo_key.shop_ids
    for position, shop_id in enumerate(shops[1:] or shops):
        if position == 1 and request.at > newest - 4 * DAY_MS:
            continue
        yield (key.lineage, CHANGES_OF_SHOP, shop_id)
