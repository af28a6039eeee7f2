"""The shared meter on Redis or Valkey. It is exact across all nodes and usually takes one round trip per request.

The daily counts are normally written to the store within a second. If Redis or Valkey loses its data, the meter
continues with the counts in the store, so usually no more than one second of counts is lost. The event
`counts_reseeded` reports that this has happened.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.postgres.usage import Instant, PostgresUsage
from counterfoil.backends.redis.client import DISCONNECT_SEC, GATE_SEC, RedisClient, Script, translated
from counterfoil.domain.access import Admitted, Key, TooFast, retry_after
from counterfoil.model.calendar import compact
from counterfoil.model.messages import Message
from counterfoil.observe import CountsReseeded, Event
from counterfoil.ports import STOP_SAVE_SEC, StoreUnavailable

# An admission is repeated at most this many times. A repeat finds other data missing if, in the meantime, a new day has
# begun, a floor has expired or the meter has lost its data.
MAX_REPEATS = 3
# Delay before changed counts are written to the store.
SAVE_SEC = 0.5
EPOCH_DAY = date(1970, 1, 1).toordinal()

_ADMIT = Script("admit.lua")
_RAISE = Script("raise.lua")


class RedisMeter:
    """The minute window and daily count of each key across all nodes, and the floor of each lineage."""

    def __init__(
        self,
        url: str,
        prefix: str,
        totals: PostgresUsage,
        observe: Callable[[Event], None],
        horizons: Servers,
        instant: Instant | None = None,
    ) -> None:
        self._client = RedisClient(url)
        self._horizons = horizons
        self._prefix = prefix
        self._totals = totals
        self._observe = observe
        self._instant = instant
        self._unsaved: dict[tuple[str, date], int] = {}
        self._lineages: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self, within: float = STOP_SAVE_SEC) -> None:
        """Close the connections and write the remaining counts; raise StoreUnavailable after `within` seconds."""
        give_up = time.monotonic() + within
        if self._timer is not None:
            self._timer.cancel()
        self._client.close(min(within / 2, DISCONNECT_SEC))
        self.flush(give_up - time.monotonic())

    async def admit(self, key: Key) -> Admitted | TooFast:
        verdict = await self._ask(key)
        for _ in range(MAX_REPEATS):
            if verdict[0] >= 0:
                break
            verdict = await self._ask_with_seeds(key, *verdict[1:])
        if verdict[0] < 0:
            raise StoreUnavailable(
                Message("still_missing", "meter: other data was missing each time the admission was repeated.")
            )
        if verdict[0] > 0:
            return TooFast(retry_after(verdict[0]))
        _, day, count, horizon = verdict
        self._horizons.was_reported(horizon)
        admitted = Admitted(_date(day), count, horizon or None)
        self._lineages[key.key_id] = key.lineage
        self._unsaved[key.key_id, admitted.day] = max(admitted.count, self._unsaved.get((key.key_id, admitted.day), 0))
        self._save_soon()
        return admitted

    async def counts(self, key: Key, days: Sequence[date]) -> dict[date, int]:
        found = await self._totals.counts(key, days)
        with translated():
            async with asyncio.timeout(GATE_SEC):
                names = [_number(day) for day in days]
                here = await self._client.opened().hmget(f"{self._tag(key.key_id, key.lineage)}:days", names)
        for day, count in zip(days, here, strict=True):
            if count is not None:
                found[day] = max(int(count), found.get(day, 0))
        return found

    async def _ask_with_seeds(self, key: Key, number: int, total_missing: int, horizon_missing: int) -> list[int]:
        """Repeat the admission with the data that the meter lacks: the daily total, the primary's horizon, or both."""
        day, total, newest = _date(number), 0, None
        if total_missing:
            total = (await self._totals.counts(key, [day])).get(day, 0)
        if horizon_missing:
            newest = await self._horizons.newest()
        verdict = await self._ask(key, (total, number) if total_missing else None, newest)
        if total and verdict[:3] == [0, number, total + 1]:
            self._observe(CountsReseeded(key_id=key.key_id, day=compact(day), count=total))
        return verdict

    async def _ask(self, key: Key, seed: tuple[int, int] | None = None, newest: int | None = None) -> list[int]:
        """Run the script once. `seed` is a stored daily total and its day; `newest` is the primary's horizon."""
        now, day = self._instant() if self._instant else (None, None)
        offered = await self._horizons.offered()
        number = None if day is None else _number(day)
        total, total_day = seed or (None, None)
        values = (key.per_min, now, number, total, total_day, offered, newest)
        asked = ["" if value is None else value for value in values]
        tag = self._tag(key.key_id, key.lineage)
        names = (f"{tag}:log", f"{tag}:state", f"{tag}:days", f"{self._prefix}:{{{key.lineage}}}:horizon")
        verdict: list[int] = await _ADMIT.run(self._client.opened(), names, asked)
        return verdict

    def _tag(self, key_id: str, lineage: str) -> str:
        """Return the prefix of a key's names. A lineage has one hash tag, so that a cluster keeps it in one slot."""
        tag = f"{self._prefix}:{{{lineage}}}"
        return tag if key_id == lineage else f"{tag}:{key_id}"

    # --- transfer to the store -----------------------------------------------------

    def _save_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SAVE_SEC, lambda: self._start(self._save()))

    async def _save(self) -> None:
        self._timer = None
        counts = dict(self._unsaved)
        try:
            higher = await self._totals.raise_totals(counts)
        except StoreUnavailable:
            # The meter still holds these counts, and later counts include them, so nothing is lost.
            self._save_soon()
        else:
            for key_and_day, count in counts.items():
                if self._unsaved.get(key_and_day) == count:
                    del self._unsaved[key_and_day]
            # A stored count that is higher was usually written by another worker in the meantime. It may also show that
            # the meter has lost counts, for example because it was restored from an old snapshot.
            for (key_id, day), count in higher.items():
                with suppress(StoreUnavailable):
                    await self._raise(key_id, day, count)

    async def _raise(self, key_id: str, day: date, count: int) -> None:
        name = f"{self._tag(key_id, self._lineages.get(key_id, key_id))}:days"
        if await _RAISE.run(self._client.opened(), [name], (_number(day), count)):
            self._observe(CountsReseeded(key_id=key_id, day=compact(day), count=count))

    def flush(self, within: float = STOP_SAVE_SEC) -> None:
        """Write all counts that are not stored yet. Call this outside the event loop."""
        if self._unsaved:
            try:
                self._totals.raise_totals_now(self._unsaved, within)
            except StoreUnavailable as error:
                raise StoreUnavailable(
                    Message(
                        "not_stored",
                        "{count:daily count} not stored: {reason}",
                        count=len(self._unsaved),
                        reason=error.message,
                    )
                ) from error
            self._unsaved = {}

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _number(day: date) -> int:
    return day.toordinal() - EPOCH_DAY


def _date(number: int) -> date:
    return date.fromordinal(number + EPOCH_DAY)
