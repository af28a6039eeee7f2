"""What a worker holds before it is stored: requests that wait for admission, request records and counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from counterfoil.domain.request_records import ChangeList, RequestRecord, RequestTally
from counterfoil.ports import StoreUnavailable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Sequence

    from counterfoil.domain.access import Admitted, Key, TooFast

    # The key of a request that waits for admission, and the future that receives the decision.
    Waiting = tuple[Key, asyncio.Future[Admitted | TooFast]]

# Records and counts that are waiting are written after this time. An admission may write the records earlier.
RECORDS_SEC = 0.25
# Maximum number of records that wait for a store that cannot be written. If there are more, the oldest are dropped.
RECORDS_WAITING = 100_000


class PendingUsage(ABC):
    """Admits requests that arrive together at once, and collects what is noted about finished requests."""

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._records: list[RequestRecord] = []
        self._tally = RequestTally()
        self._flush_due = False
        self._timer: asyncio.TimerHandle | None = None

    @abstractmethod
    async def _admit_together(self, keys: Sequence[Key]) -> list[Admitted | TooFast]: ...

    @abstractmethod
    def _flush_in_time(self) -> None:
        """Write records and counts, and set `_flush_due` to False."""

    async def admit(self, key: Key) -> Admitted | TooFast:
        import asyncio  # noqa: PLC0415 - commands that admit no requests start faster without it

        verdict: asyncio.Future[Admitted | TooFast] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._admit_waiting)
        self._waiting.append((key, verdict))
        return await verdict

    def _admit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._start(self._admit_later(waiting))

    async def _admit_later(self, waiting: list[Waiting]) -> None:
        try:
            answer(waiting, await self._admit_together([key for key, _ in waiting]))
        except StoreUnavailable as error:
            for _, verdict in waiting:
                if not verdict.done():
                    verdict.set_exception(error)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        import asyncio  # noqa: PLC0415 - as above

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _flush_soon(self) -> None:
        import asyncio  # noqa: PLC0415 - as above

        self._flush_due = True
        self._timer = asyncio.get_running_loop().call_later(RECORDS_SEC, self._flush_in_time)

    def note(self, record: RequestRecord) -> None:
        self._records.append(record)
        if len(self._records) > RECORDS_WAITING:
            del self._records[: RECORDS_WAITING // 10]
        if record.error:
            self._tally.add_error(record.key_id, record.error, record.at)
        if not self._flush_due:
            self._flush_soon()

    def note_refusal(self, key_id: str, error: str, at: int) -> None:
        self._tally.add_error(key_id, error, at)
        if not self._flush_due:
            self._flush_soon()

    def note_page(self, read: ChangeList, since: int, horizon: int, is_last: bool, at: int) -> None:
        self._tally.add_page(read, since, horizon, is_last, at)
        if not self._flush_due:
            self._flush_soon()


def answer(waiting: Sequence[Waiting], verdicts: Sequence[Admitted | TooFast]) -> None:
    for (_, verdict), outcome in zip(waiting, verdicts, strict=True):
        if not verdict.done():
            verdict.set_result(outcome)
