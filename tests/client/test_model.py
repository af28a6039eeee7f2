"""A copy has what programs that read only changes need: the time of each row, removals, and both clocks."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import httpx
import msgspec
import pytest

import records as r
from client import plain_sql
from client.pulled_copy import PLENTY, Copy, assert_equal
from client.targets import EVERY_KIND, TARGETS, Target
from counterfoil.client.sinks import SinkError
from counterfoil.client.tables import TABLES
from running_service import RunningService

FRANCHISE = "franchise-of-the-model"
# DuckDB 1.1 reads only this format.
FORMAT_OF_DUCKDB_1_1 = 64
ALL_TARGETS = pytest.mark.parametrize("kind", EVERY_KIND)


@pytest.fixture
def branch() -> r.Record:
    return r.branch(franchiseId=FRANCHISE)


@pytest.fixture
def model_copy(kind: str, service: RunningService, branch: r.Record, tmp_path: Path) -> Copy:
    service.load(branch, r.base(branch), r.member(branch))
    return Copy(service, service.key(franchise=FRANCHISE, **PLENTY), TARGETS[kind](tmp_path))


def pull(copy: Copy, *records: r.Record) -> datetime:
    """Load these records a minute later, pull, and return the time of the pull."""
    copy.service.clock.advance(60)
    copy.service.load(*records)
    copy.service.ledger.advance_horizon()
    copy.pull()
    return as_of(copy)


def as_of(copy: Copy) -> datetime:
    [(state,)] = copy.rows("SELECT state FROM pull_state")
    return datetime.fromisoformat(state.split('"as_of":"')[1].split('"')[0])


def times(copy: Copy, statement: str) -> dict[str, datetime]:
    """Return instants by name. In SQLite, their text has no zone."""
    found = {name: datetime.fromisoformat(time) for name, time in copy.rows(statement)}
    return {name: time if time.tzinfo else time.replace(tzinfo=UTC) for name, time in found.items()}


def copied(copy: Copy) -> dict[str, datetime]:
    return times(copy, "SELECT id, CAST(copied_at AS VARCHAR) FROM bills")


def removed(copy: Copy) -> dict[str, datetime]:
    return times(copy, "SELECT id, CAST(removed_at AS VARCHAR) FROM removed_bills")


@ALL_TARGETS
def test_a_row_has_the_time_of_the_pull_that_wrote_it_and_keeps_it_until_it_changes(
    model_copy: Copy, branch: r.Record
) -> None:
    first = pull(model_copy, r.bill(branch, id="b1"), r.bill(branch, id="b2"))
    assert copied(model_copy) == {"b1": first, "b2": first}
    second = pull(model_copy, branch, r.bill(branch, id="b2", cashier="Ying", lines=[r.line(name="Tea")]))
    assert second > first
    assert copied(model_copy) == {"b1": first, "b2": second}
    parts = times(model_copy, "SELECT bill_id, CAST(copied_at AS VARCHAR) FROM bill_items")
    assert parts == {"b1": first, "b2": second}
    for table in ("shops", "members"):
        unchanged = times(model_copy, f"SELECT '{table}', CAST(copied_at AS VARCHAR) FROM {table}")  # noqa: S608
        assert unchanged == {table: first}
    assert model_copy.rows("SELECT count(*) FROM payments WHERE copied_at IS NULL") == [(0,)]


@ALL_TARGETS
def test_a_removed_bill_leaves_a_row_with_its_time_until_it_returns(model_copy: Copy, branch: r.Record) -> None:
    kept, gone = r.bill(branch, id="kept"), r.bill(branch, id="gone")
    pull(model_copy, kept, gone)
    assert removed(model_copy) == {}
    removal = pull(model_copy, r.removal(gone))
    assert removed(model_copy) == {"gone": removal}
    pull(model_copy)
    assert removed(model_copy) == {"gone": removal}
    pull(model_copy, gone)
    assert removed(model_copy) == {}
    assert_equal(model_copy)


@pytest.mark.parametrize("kind", ["duckdb"])
def test_bills_that_leave_the_copy_in_other_ways_leave_rows_too(model_copy: Copy, branch: r.Record) -> None:
    other = r.branch(franchiseId=FRANCHISE)
    pull(model_copy, other, r.bill(other, id="other"), r.bill(branch, id="old", closedAt="2025-01-01T12:00:00+07:00"))
    model_copy.pull(shops=[branch["id"]])
    assert set(removed(model_copy)) == {"other"}
    model_copy.pull(since=datetime(2026, 1, 1).date())  # noqa: DTZ001 - a day
    assert set(removed(model_copy)) == {"other", "old"}
    model_copy.pull(since=datetime(1, 1, 1).date(), shops=[])  # noqa: DTZ001 - a day
    assert removed(model_copy) == {}
    assert_equal(model_copy)


@pytest.mark.parametrize("kind", ["duckdb"])
def test_the_time_of_a_row_never_decreases_even_if_the_clock_of_the_service_does(
    model_copy: Copy, branch: r.Record
) -> None:
    pull(model_copy, r.bill(branch, id="b1"))
    model_copy.service.clock.step(-3600)
    pull(model_copy, r.bill(branch, id="b2"))
    found = copied(model_copy)
    assert found["b2"] >= found["b1"]


@ALL_TARGETS
def test_the_time_of_a_row_never_decreases_even_if_the_service_is_restored_to_an_earlier_time(
    model_copy: Copy, branch: r.Record
) -> None:
    model_copy.service.clock.advance(7200)
    pull(model_copy, r.bill(branch, id="b1"))
    model_copy.transport = StepsBack(timedelta(hours=1))
    pull(model_copy, r.bill(branch, id="b2"), r.member(branch, id="m2"))
    found = copied(model_copy)
    assert as_of(model_copy) < found["b1"]
    assert found["b2"] == found["b1"]
    assert set(times(model_copy, "SELECT member_id, CAST(copied_at AS VARCHAR) FROM members").values()) == {found["b1"]}


class StepsBack(httpx.HTTPTransport):
    """Makes the time of every page earlier, as that of a service that was restored from a backup is."""

    def __init__(self, span: timedelta) -> None:
        super().__init__()
        self._span = span

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        answer = super().handle_request(request)
        answer.read()
        body = msgspec.json.decode(answer.content)
        if "serverTime" in body:
            body["serverTime"] = (datetime.fromisoformat(body["serverTime"]) - self._span).isoformat()
        return httpx.Response(answer.status_code, content=msgspec.json.encode(body))


@ALL_TARGETS
def test_a_bill_has_the_time_on_the_clock_of_its_shop_beside_the_instant(
    kind: str, model_copy: Copy, branch: r.Record, tmp_path: Path
) -> None:
    tokyo = r.branch(franchiseId=FRANCHISE, timezone="Asia/Tokyo")
    closed = "2026-01-01T23:30:00.250Z"
    pull(
        model_copy,
        tokyo,
        r.bill(tokyo, id="tokyo", closedAt=closed),
        r.bill(branch, id="bangkok", closedAt=closed),
        r.bill(branch, id="undated", closedAt=None),
    )
    rows = plain_sql.rows(kind, model_copy.target, tmp_path, "SELECT id, local_time FROM bills")
    assert dict(rows) == {"tokyo": "2026-01-02 08:30:00.250", "bangkok": "2026-01-02 06:30:00.250", "undated": None}
    instants = times(model_copy, "SELECT id, CAST(timestamp AS VARCHAR) FROM bills WHERE timestamp IS NOT NULL")
    assert set(instants.values()) == {datetime.fromisoformat(closed)}


# --- what the engines know about the tables ------------------------------------------


def nullable(copy: Copy) -> dict[str, set[str]]:
    """Return the columns of each table that may be null, from the catalogue of DuckDB or PostgreSQL."""
    found: dict[str, set[str]] = {table.name: set() for table in TABLES}
    statement = "SELECT table_name, column_name FROM information_schema.columns WHERE is_nullable = 'YES'"
    for table, column in copy.rows(statement):
        if table in found:
            found[table].add(column)
    return found


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_columns_that_are_never_null_are_declared_so_and_all_have_comments(kind: str, model_copy: Copy) -> None:
    pull(model_copy)
    declared = {table.name: {column.name for column in table.columns if column.nullable} for table in TABLES}
    assert nullable(model_copy) == declared
    assert {"shop_id", "id", "revenue", "copied_at"}.isdisjoint(declared["bills"])
    assert {"tip", "net", "local_time", "business_date"} <= declared["bills"]
    statement = {
        "duckdb": "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'bills'",
        "postgres": "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute "
        "WHERE attrelid = 'bills'::regclass AND attnum > 0",
    }[kind]
    [bills] = [table for table in TABLES if table.name == "bills"]
    assert dict(model_copy.rows(statement)) == {column.name: column.description for column in bills.columns}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_second_row_with_the_same_identity_is_refused(model_copy: Copy, branch: r.Record) -> None:
    pull(model_copy, r.bill(branch))
    for table in TABLES:
        if model_copy.rows(f"SELECT 1 FROM {table.name} LIMIT 1"):  # noqa: S608 - names of our own tables
            with pytest.raises(SinkError, match=r"(?i)unique"):
                model_copy.rows(f"INSERT INTO {table.name} SELECT * FROM {table.name}")  # noqa: S608 - as above


def storage_format(path: Path) -> int:
    """Return the number after the checksum and the magic bytes of a DuckDB file."""
    return int.from_bytes(path.read_bytes()[12:20], "little")


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_duckdb_1_1_can_open_the_file(kind: str, model_copy: Copy, branch: r.Record, tmp_path: Path) -> None:
    pull(model_copy, r.bill(branch))
    file = {"duckdb": tmp_path / "copy.duckdb", "parquet": tmp_path / "parquet" / ".counterfoil.duckdb"}[kind]
    assert storage_format(file) == FORMAT_OF_DUCKDB_1_1
    newest = tmp_path / "newest.duckdb"
    duckdb.connect(str(newest)).close()
    assert storage_format(newest) != FORMAT_OF_DUCKDB_1_1, "this version of DuckDB needs no option"


def test_sqlite_sorts_both_times_as_text(service: RunningService, branch: r.Record, tmp_path: Path) -> None:
    target: Target = TARGETS["sqlite"](tmp_path)
    service.load(
        branch, *(r.bill(branch, id=f"b{hour}", closedAt=f"2026-01-01T0{hour}:00:00+07:00") for hour in (3, 1))
    )
    Copy(service, service.key(franchise=FRANCHISE, **PLENTY), target).pull()
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as database:
        found: list[Any] = database.execute("SELECT id, local_time FROM bills ORDER BY local_time").fetchall()
    assert found == [("b1", "2026-01-01 01:00:00"), ("b3", "2026-01-01 03:00:00")]
