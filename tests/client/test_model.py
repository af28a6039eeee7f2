"""A copy has what programs that read only changes need: the time of each row, removals, both clocks, and the scope."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

import records as r
from client import plain_sql
from client.pulled_copy import PLENTY, Copy, assert_equal
from client.targets import EVERY_KIND, TARGETS
from counterfoil.client.connection import Call, Connection, HttpResponse, Outcome
from counterfoil.client.copy_views import DUCKDB_VIEWS
from counterfoil.client.pull_state import Tally
from counterfoil.client.sinks import SinkError
from counterfoil.client.tables import TABLES
from running_service import RunningService

FRANCHISE = "franchise-of-the-model"
# DuckDB 1.1 reads only this format.
FORMAT_OF_DUCKDB_1_1 = 64
ALL_TARGETS = pytest.mark.parametrize("kind", EVERY_KIND)
IN_SQLITE = pytest.mark.parametrize("kind", ["sqlite"])


@pytest.fixture
def branch() -> r.Record:
    return r.branch(franchiseId=FRANCHISE)


@pytest.fixture
def model_copy(kind: str, service: RunningService, branch: r.Record, tmp_path: Path) -> Copy:
    service.load(branch, r.base(branch), r.member(branch))
    return Copy(service, service.key(franchise=FRANCHISE, **PLENTY), TARGETS[kind](tmp_path))


def pull(copy: Copy, *records: r.Record, **options: Any) -> Tally:
    """Load these records a minute later, and pull."""
    copy.service.clock.advance(60)
    copy.service.load(*records)
    copy.service.ledger.advance_horizon()
    return copy.pull(**options)


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
    pull(model_copy, r.bill(branch, id="b1"), r.bill(branch, id="b2"))
    first = as_of(model_copy)
    assert copied(model_copy) == {"b1": first, "b2": first}
    pull(model_copy, branch, r.bill(branch, id="b2", cashier="Ying", lines=[r.line(name="Tea")]))
    second = as_of(model_copy)
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
    pull(model_copy, r.removal(gone))
    removals = {"gone": as_of(model_copy)}
    assert removed(model_copy) == removals
    pull(model_copy)
    assert removed(model_copy) == removals
    pull(model_copy, gone)
    assert removed(model_copy) == {}
    assert_equal(model_copy)


@IN_SQLITE
def test_bills_that_leave_the_copy_in_other_ways_leave_rows_too(model_copy: Copy, branch: r.Record) -> None:
    other = r.branch(franchiseId=FRANCHISE)
    pull(model_copy, other, r.bill(other, id="other"), r.bill(branch, id="old", closedAt="2025-01-01T12:00:00+07:00"))
    model_copy.pull(shops=[branch["id"]])
    assert set(removed(model_copy)) == {"other"}
    model_copy.pull(since=date(2026, 1, 1))
    assert set(removed(model_copy)) == {"other", "old"}
    model_copy.pull(since=date(1, 1, 1), shops=[])
    assert removed(model_copy) == {}
    assert_equal(model_copy)


@ALL_TARGETS
def test_the_time_of_a_row_never_decreases_even_if_the_service_is_restored_to_an_earlier_time(
    model_copy: Copy, branch: r.Record
) -> None:
    model_copy.service.clock.advance(7200)
    pull(model_copy, r.bill(branch, id="b1"))
    model_copy.connect = steps_back(timedelta(hours=1))
    pull(model_copy, r.bill(branch, id="b2"), r.member(branch, id="m2"))
    found = copied(model_copy)
    assert as_of(model_copy) < found["b1"]
    assert found["b2"] == found["b1"]
    assert set(times(model_copy, "SELECT member_id, CAST(copied_at AS VARCHAR) FROM members").values()) == {found["b1"]}


def steps_back(span: timedelta) -> Callable[[str, str, float], Connection]:
    """Return connections that make each page earlier, as those of a service that was restored from a backup are."""

    class StepsBack(Connection):
        def get(self, call: Call) -> Outcome:
            outcome = super().get(call)
            assert isinstance(outcome, HttpResponse)
            body = msgspec.json.decode(outcome.body)
            if "serverTime" in body:
                body["serverTime"] = (datetime.fromisoformat(body["serverTime"]) - span).isoformat()
            return HttpResponse(outcome.status, outcome.headers, msgspec.json.encode(body))

    return StepsBack


@ALL_TARGETS
def test_a_bill_has_the_time_on_the_clock_of_its_shop_beside_the_instant(
    kind: str, model_copy: Copy, branch: r.Record, tmp_path: Path
) -> None:
    tokyo = r.branch(franchiseId=FRANCHISE, timezone="Asia/Tokyo")
    closed = "2026-01-01T23:30:00.250Z"
    model_copy.target = TARGETS[kind](tmp_path)
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


# The amounts of each bill, whether it is void, and its revenue.
AMOUNTS = {
    "no-tip": ({"net": 996.6}, False, "996.6"),
    "tip": ({"net": 1234.56, "tip": 34.56}, False, "1200"),
    "no-net": ({"tip": 5}, False, "-5"),
    "nothing": ({}, False, "0"),
    "void": ({"net": 500, "tip": 20}, True, "0"),
    "small": ({"net": 20.1, "tip": 0}, False, "20.1"),
}


@ALL_TARGETS
def test_every_bill_has_its_revenue(model_copy: Copy, branch: r.Record) -> None:
    bills = [r.bill(branch, id=name, amounts=amounts, void=void) for name, (amounts, void, _) in AMOUNTS.items()]
    pull(model_copy, *bills)
    found = {name: Decimal(str(revenue)) for name, revenue in model_copy.rows("SELECT id, revenue FROM bills")}
    assert found == {name: Decimal(revenue) for name, (_, _, revenue) in AMOUNTS.items()}
    [(total,)] = model_copy.rows("SELECT sum(revenue) FROM bills")
    assert Decimal(str(total)) == Decimal("2211.7")
    pull(model_copy, r.bill(branch, id="no-tip", amounts={"net": 10}))
    [(revenue,)] = model_copy.rows("SELECT revenue FROM bills WHERE id = 'no-tip'")
    assert Decimal(str(revenue)) == 10


# --- shops that leave ------------------------------------------------------------------


@ALL_TARGETS
def test_a_shop_that_leaves_has_the_time_up_to_which_it_was_copied(model_copy: Copy, branch: r.Record) -> None:
    leaving = r.branch(franchiseId=FRANCHISE)
    elsewhere = leaving | {"franchiseId": "another-franchise"}

    def scope(shop: r.Record) -> tuple[bool, str | None, bool]:
        columns = "shop_id, in_scope, CAST(complete_until AS VARCHAR), removed_at IS NOT NULL"
        rows = model_copy.rows(f"SELECT {columns} FROM shops")  # noqa: S608 - names of our own columns
        [(in_scope, until, is_removed)] = [row[1:] for row in rows if row[0] == shop["id"]]
        return bool(in_scope), until, bool(is_removed)

    pull(model_copy, leaving, r.bill(leaving))
    assert scope(leaving) == (True, None, False)
    pull(model_copy, elsewhere)
    in_scope, first_until, is_removed = scope(leaving)
    assert (in_scope, is_removed) == (False, True)
    assert first_until
    pull(model_copy, r.bill(branch))
    assert scope(leaving) == (False, first_until, True), "its time does not stand still"
    pull(model_copy, leaving)
    assert scope(leaving) == (True, None, False)
    pull(model_copy, r.removal(leaving))
    assert scope(leaving) == (True, None, True), "a closed shop is in scope"
    pull(model_copy, leaving)
    pull(model_copy, elsewhere)
    in_scope, second_until, is_removed = scope(leaving)
    assert (in_scope, is_removed) == (False, True)
    assert second_until
    assert second_until > first_until
    assert scope(branch) == (True, None, False)


@ALL_TARGETS
def test_members_are_marked_when_the_last_shop_of_their_base_leaves(model_copy: Copy, branch: r.Record) -> None:
    leaving = r.branch(franchiseId=FRANCHISE)
    seldom = {"members_every_sec": 86_400.0}

    def current_bases() -> list[tuple[str]]:
        return model_copy.rows("SELECT provider_id FROM members WHERE removed_at IS NULL ORDER BY provider_id")

    bases = sorted((shop["providerId"],) for shop in (branch, leaving))
    pull(model_copy, leaving, r.member(leaving))
    assert current_bases() == bases
    tally = pull(model_copy, leaving | {"franchiseId": "another-franchise"}, **seldom)
    assert (tally.members_removed, tally.shops_that_left) == (1, [leaving["id"]])
    assert current_bases() == [(branch["providerId"],)]
    assert not model_copy.pull(**seldom).changes
    pull(model_copy, leaving, **seldom)
    assert current_bases() == bases


@IN_SQLITE
def test_a_shop_that_left_before_everything_was_read_again_has_the_time_of_the_last_complete_pull(
    model_copy: Copy,
) -> None:
    leaving, service = r.branch(franchiseId=FRANCHISE), model_copy.service
    pull(model_copy, leaving, r.bill(leaving))
    before = as_of(model_copy)
    service.clock.advance(401 * 86_400)
    service.load(leaving | {"franchiseId": "another-franchise"})
    service.ledger.advance_horizon()
    service.ledger.prune_removals()
    pull(model_copy)
    left = times(model_copy, "SELECT shop_id, CAST(complete_until AS VARCHAR) FROM shops WHERE NOT in_scope")
    assert left == {leaving["id"]: before}


# --- what the engines know about the tables ------------------------------------------


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_columns_that_are_never_null_are_declared_so_and_all_have_comments(kind: str, model_copy: Copy) -> None:
    pull(model_copy)
    described = {f"{table.name}.{column.name}": column.nullable for table in TABLES for column in table.columns}
    catalogue = "SELECT table_name || '.' || column_name, is_nullable = 'YES' FROM information_schema.columns"
    assert {name: nullable for name, nullable in model_copy.rows(catalogue) if name in described} == described
    assert not any(described[f"bills.{name}"] for name in ("shop_id", "id", "revenue", "copied_at"))
    assert all(described[f"bills.{name}"] for name in ("tip", "net", "local_time", "business_date"))
    statement = {
        "duckdb": "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'bills'",
        "postgres": "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute "
        "WHERE attrelid = 'bills'::regclass AND attnum > 0",
    }[kind]
    [bills] = [table for table in TABLES if table.name == "bills"]
    assert dict(model_copy.rows(statement)) == {column.name: column.description for column in bills.columns}


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_every_column_of_a_view_has_a_comment(kind: str, model_copy: Copy) -> None:
    pull(model_copy)
    statement = {
        "duckdb": "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal",
        "postgres": "SELECT relname, attname, col_description(attrelid, attnum) FROM pg_attribute "
        "JOIN pg_class ON pg_class.oid = attrelid WHERE relkind = 'v' AND attnum > 0",
    }[kind]
    comments: dict[str, dict[str, str | None]] = {name: {} for name in DUCKDB_VIEWS}
    for view, column, comment in model_copy.rows(statement):
        if view in comments:
            comments[view][column] = comment
    assert comments == {name: view.columns for name, view in DUCKDB_VIEWS.items()}


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


@pytest.mark.parametrize(("kind", "name"), [("duckdb", "copy.duckdb"), ("parquet", "parquet/.counterfoil.duckdb")])
def test_duckdb_1_1_can_open_the_file(kind: str, name: str, tmp_path: Path) -> None:
    TARGETS[kind](tmp_path)().close()
    assert storage_format(tmp_path / name) == FORMAT_OF_DUCKDB_1_1
    newest = tmp_path / "newest.duckdb"
    duckdb.connect(str(newest)).close()
    assert storage_format(newest) != FORMAT_OF_DUCKDB_1_1, "this version of DuckDB needs no option"
