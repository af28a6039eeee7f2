"""Writes invented requests of the demo's keys for the last days until now, through the real meter and request log."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta

from msgspec import json

from counterfoil import bootstrap
from counterfoil.demo.showcase import DemoKey, MovingClock, Showcase
from counterfoil.domain.access import TooFast
from counterfoil.domain.problems import BAD_CURSOR, BAD_QUERY, NOT_FOUND, RATE_LIMITED, SHOP_NOT_IN_SCOPE, Problem
from counterfoil.domain.request_records import CHANGES_OF_SHOP, ChangeList, RequestDetail, RequestRecord
from counterfoil.model.calendar import DAY_MS, HOUR_MS, thai_day, thai_midnight
from counterfoil.program.clock import SystemClock
from counterfoil.settings import Settings

DAYS = 14
# The history ends this long ago, so that no key has used up a part of its limit per minute.
UNUSED_MS = 2 * 60_000
# By purpose of the key: its average number of requests per day, and the routes from which they are drawn.
_PLANS: dict[str, tuple[int, tuple[str, ...]]] = {
    "franchise": (70, ("transactions", "transactions", "transactions", "shops", "transactions/{id}")),
    "shop": (24, ("transactions", "transactions", "usage")),
    "personal data": (12, ("members", "members/{memberToken}")),
    "lookup": (40, ("members/lookup",)),
    "default limits": (18, ("transactions", "digests")),
    "tiny limits": (6, ("shops",)),
}
# The errors that some requests get, by route. Other requests fail only if they exceed the rate limit.
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
PARAMETERS = {"transactions": "shopId,updatedSince", "members": "providerId,limit"}


class HistoryClock(MovingClock):
    """Its boot ID differs from the real one, because its steady clock cannot be compared with the real one."""

    def steady_us(self) -> int:
        return self.moment_ms * 1000

    def boot_id(self) -> str:
        return "the demo's history"


def write_history(settings: Settings, demo: Showcase, seed: int) -> int:
    """Write the history, unless the store already has requests. Return the number of requests that were written."""
    if bootstrap.store(settings).reads().last_used():
        return 0
    requests = sorted(planned(demo.keys, seed, SystemClock().now_ms()), key=lambda request: request[1].at)
    asyncio.run(_write(settings, requests))
    return len(requests)


def planned(demo_keys: Sequence[DemoKey], seed: int, now_ms: int) -> Iterator[tuple[DemoKey, RequestRecord]]:
    chance = random.Random(seed)  # noqa: S311 - invented data
    today = thai_day(now_ms)
    for demo_key in demo_keys:
        per_day, routes = _PLANS.get(demo_key.purpose, (0, ()))
        for back in range(DAYS, -1, -1):
            midnight = thai_midnight(today - timedelta(days=back))
            for _ in range(chance.randint(per_day * 3 // 4, per_day * 5 // 4)):
                at = midnight + int(chance.gauss(14, 4) * HOUR_MS) % DAY_MS
                record = _record(demo_key, chance.choice(routes), at, chance)
                if at < now_ms - UNUSED_MS:
                    yield demo_key, record


def _record(demo_key: DemoKey, route: str, at: int, chance: random.Random) -> RequestRecord:
    key, bases, problems = demo_key.key, demo_key.provider_ids, ERRORS_OF_ROUTES.get(route, ())
    problem = chance.choice(problems) if problems and chance.random() < ERROR_SHARE else None
    is_disclosure = key.personal_data and not problem and route in WITH_PERSONAL_DATA and bases
    members, rows = 1, 0
    if route == "members":
        members = rows = chance.randint(20, 200)
    elif "{" in route:
        rows = 1
    detail = RequestDetail(PARAMETERS.get(route, ""), rows=rows, is_last=True)
    if problem:
        detail = RequestDetail(message=problem.message)
    return RequestRecord(
        at=at,
        key_id=key.key_id,
        route=route,
        status=problem.status if problem else 200,
        error=problem.code if problem else None,
        took_us=int(chance.lognormvariate(7.3, 0.6)),
        personal_base=bases[0] if is_disclosure else None,
        personal_members=members if is_disclosure else 0,
        request_id=f"{chance.getrandbits(80):020x}",
        detail=json.encode(detail).decode(),
    )


async def _write(settings: Settings, requests: list[tuple[DemoKey, RequestRecord]]) -> None:
    clock = HistoryClock()
    clock.moment_ms, newest = requests[0][1].at, requests[-1][1].at
    # The end of the latest pass over each list, where the next pass begins. A first pass begins at 0.
    marks: dict[ChangeList, int] = {}
    with closing(bootstrap.serving_ports(settings, lambda _: None, clock)) as ports:
        for demo_key, record in requests:
            clock.moment_ms = record.at
            if isinstance(await ports.meter.admit(demo_key.key), TooFast):
                ports.request_log.note_refusal(record.key_id, RATE_LIMITED.code, record.at)
                continue
            ports.request_log.note(record)
            for read in _completed_lists(demo_key, record, newest):
                ports.request_log.note_page(read, marks.get(read, 0), record.at, is_last=True, at=record.at)
                marks[read] = record.at


def _completed_lists(demo_key: DemoKey, record: RequestRecord, newest: int) -> Iterator[ChangeList]:
    """Yield each list of changes that the request read to its end, which are those of the key's shops."""
    if record.route != "transactions" or record.error:
        return
    # The console shows outdated copies: of several shops, the first is never read, nor the third in the last four days.
    for position, shop_id in enumerate(demo_key.shop_ids[1:] or demo_key.shop_ids):
        if position != 1 or record.at <= newest - 4 * DAY_MS:
            yield (demo_key.key.lineage, CHANGES_OF_SHOP, shop_id)
