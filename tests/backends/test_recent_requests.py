"""Records of requests reach the indexed table soon, and requests hardly wait for that."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.backends.sqlite.files import path_of
from counterfoil.backends.sqlite.reads import SqliteReads
from counterfoil.backends.sqlite.usage import MOVED_AT_ONCE, SqliteUsage
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.request_records import RequestRecord
from counterfoil.request_reads import RequestFilter
from running_service import ManualClock

KEY = Key(key_id="k_1", scope=Scope("shop", "s"), per_min=100_000)
MANY = 2 * MOVED_AT_ONCE + 1


@pytest.fixture
def usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteUsage]:
    # The tests say when pending records are written. On a busy machine, they take longer than the timer.
    monkeypatch.setattr("counterfoil.backends.pending_usage.RECORDS_SEC", 3600)
    usage = SqliteUsage(tmp_path, ManualClock())
    yield usage
    usage.close()


def served(usage: SqliteUsage, requests: int) -> None:
    """Serve requests one after the other. The record of the last one is then still pending."""

    async def serve() -> None:
        for number in range(requests):
            await usage.admit(KEY)
            usage.note(record(number))

    asyncio.run(serve())


def record(number: int) -> RequestRecord:
    return RequestRecord(
        at=number, key_id=KEY.key_id, route="/v1/usage", status=200, error=None, took_us=1, request_id=f"r{number}"
    )


def listed(folder: Path) -> list[str | None]:
    """Return the IDs of the requests that the operator sees, the oldest first."""
    found = SqliteReads(folder).requests(RequestFilter(key_id=KEY.key_id), 10_000).requests
    return [each.request_id for each in reversed(found)]


def ids(count: int) -> list[str]:
    return [f"r{number}" for number in range(count)]


def count(folder: Path, table: str) -> int:
    with closing(sqlite3.connect(path_of(folder, "usage"))) as connection:
        found: tuple[int] = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
        return found[0]


def test_a_worker_with_few_requests_lists_them_without_the_supervisor(usage: SqliteUsage, tmp_path: Path) -> None:
    served(usage, 3)
    usage._flush_in_time()
    assert listed(tmp_path) == ids(3)
    assert count(tmp_path, "recent_requests") == 0


def test_a_busy_worker_leaves_its_records_to_the_supervisor(usage: SqliteUsage, tmp_path: Path) -> None:
    served(usage, MANY)
    usage._flush_in_time()
    # The pending record was written directly.
    assert listed(tmp_path) == ids(MANY)[-1:]
    with closing(SqliteUsage(tmp_path, ManualClock())) as supervisor:
        supervisor.move_recent()
    assert listed(tmp_path) == ids(MANY)
    assert count(tmp_path, "recent_requests") == 0


def test_the_supervisor_moves_few_records_per_transaction(
    usage: SqliteUsage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served(usage, MANY)
    moved: list[int] = []
    monkeypatch.setattr("time.sleep", lambda _: moved.append(count(tmp_path, "requests")))
    usage.move_recent()
    assert moved == [MOVED_AT_ONCE, 2 * MOVED_AT_ONCE]


def test_old_records_are_deleted_a_few_per_transaction(
    usage: SqliteUsage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.backends.sqlite.usage.PRUNE_ROWS", 100)
    served(usage, 250)
    usage.flush()
    left: list[int] = []
    monkeypatch.setattr("time.sleep", lambda _: left.append(count(tmp_path, "requests")))
    assert usage.prune() == (250, 0)
    assert left == [150, 50]


def test_a_disclosure_is_listed_at_once_and_moves_no_other_records(usage: SqliteUsage, tmp_path: Path) -> None:
    async def disclose() -> None:
        await usage.admit(KEY)
        usage.note(record(0))
        await usage.admit(KEY)
        await usage.disclose(record(1))

    asyncio.run(disclose())
    assert listed(tmp_path) == ["r1"]
    assert count(tmp_path, "recent_requests") == 1
