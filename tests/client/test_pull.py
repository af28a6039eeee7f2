"""Tests for pulls into every kind of target. After a pull, the copy must equal the data that the service returns."""

from contextlib import closing
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

import records as r
from client.pulled_copy import PLENTY, Copy, assert_equal
from client.scripted_service import newer_service
from client.targets import TARGETS, Target
from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.sql import Written
from running_service import RunningService


@pytest.mark.parametrize("limit", [3, pytest.param(200, marks=pytest.mark.long)])
def test_a_first_pull_copies_everything_and_a_second_one_writes_nothing(copy: Copy, limit: int) -> None:
    tally = copy.pull(limit=limit)
    assert_equal(copy)
    assert (tally.bills_written, tally.members_written) == (19, 6)
    tally = copy.pull(limit=limit)
    assert (tally.bills_written, tally.members_written, tally.members_removed, tally.changes) == (0, 0, 0, 0)
    assert_equal(copy)


def test_the_next_pull_copies_and_counts_changes_of_every_kind(copy: Copy) -> None:
    edited, voided = r.bill(copy.branch), r.bill(copy.branch)
    gone = r.bill(copy.branch, id="%s ? %(x)s '", lines=[r.line(options=[{"id": "o"}])])
    moved = r.bill(copy.branch, closedAt="2025-06-01T12:00:00+07:00")
    undated = r.bill(copy.branch, closedAt=None)
    copy.pull_after(edited, voided, moved, gone, undated)
    tally = copy.pull_after(
        edited | {"lines": [], "payments": [], "cashier": "Ying"},
        voided | {"void": {"reason": "wrong table"}},
        moved | {"closedAt": "2025-12-31T12:00:00+07:00"},
        r.removal(gone),
        r.removal(undated),
        r.bill(copy.branch, closedAt="2025-04-01T12:00:00+07:00"),
        r.bill(copy.branch, closedAt=None),
        r.member(copy.branch),
    )
    assert (tally.bills_added, tally.bills_changed, tally.bills_removed, tally.bills_unchanged) == (2, 3, 2, 0)
    assert (tally.members_added, tally.members_changed, tally.members_unchanged) == (1, 0, 6)
    assert_equal(copy)
    tally = copy.pull_after(copy.branch | {"timezone": "Asia/Tokyo", "name": "Renamed", "categories": []})
    assert tally.bills_changed > 5
    assert_equal(copy)


def test_members_that_a_full_pass_no_longer_shows_are_deleted_and_listed_as_removed(copy: Copy) -> None:
    leaving = r.member(copy.branch)
    copy.pull_after(leaving)
    assert copy.pull_after(r.removal(leaving)).members_removed == 1
    assert_equal(copy)
    assert copy.rows("SELECT count(*) FROM members WHERE removed_at IS NOT NULL") == [(0,)]
    assert copy.rows("SELECT provider_id FROM removed_members") == [(copy.branch["providerId"],)]
    copy.pull_after(leaving)
    assert_equal(copy)
    assert copy.rows("SELECT count(*) FROM removed_members") == [(0,)]


def test_members_that_moved_to_another_base_are_in_that_base_only(service: RunningService, target: Target) -> None:
    one = r.branch()
    other = r.branch(franchiseId=one["franchiseId"])
    there, back = r.member(one), r.member(other)
    service.load(one, other, there, back)
    copy = Copy(service, service.key(franchise=one["franchiseId"], **PLENTY), target)
    copy.pull()
    service.load(there | {"providerId": other["providerId"]}, back | {"providerId": one["providerId"]})
    copy.pull()
    assert_equal(copy)


def test_fields_and_values_that_this_release_does_not_know_break_nothing(copy: Copy) -> None:
    with newer_service(copy.service) as url:

        class Newer(Copy):
            @property
            def url(self) -> str:
                return url

        newer = Newer(copy.service, copy.key, copy.target)
        newer.pull(limit=5)
    held, served = newer.held(), newer.served()
    for bill in served["bills"].values():
        bill["status"] = "disputed" if bill["status"] == "completed" else bill["status"]
    assert held == served


def test_personal_data_is_copied_with_a_key_that_may_read_it(
    service: RunningService, branch: r.Record, target: Target
) -> None:
    key = service.key(franchise=branch["franchiseId"], personal_data=True, **PLENTY)
    copy = Copy(service, key, target, personal=True)
    copy.pull()
    assert_equal(copy)


def test_amounts_and_quantities_are_exact_also_of_a_bill_with_more_than_a_thousand_lines(copy: Copy) -> None:
    lines = [r.line(name="x" * 20, options=[{"id": str(number)}]) for number in range(1500)]
    weighed = [r.line(qty=qty) for qty in (0.3333333333333333, 9e15, 1e-9)]
    amounts = {"subtotal": 8935002455.22, "net": 0.1, "tip": 1e15, "rounding": -0.03}
    payments = [{"name": "Cash", "amount": 19.99, "change": 0.01}]
    copy.pull_after(
        r.bill(copy.branch, id="huge", lines=lines),
        r.bill(copy.branch, id="exact", lines=weighed, amounts=amounts, payments=payments),
    )
    assert copy.rows("SELECT count(*) FROM item_options WHERE bill_id = 'huge'") == [(1500,)]
    [copied] = copy.rows("SELECT subtotal, net, tip, rounding FROM bills WHERE id = 'exact'")
    expected = ("8935002455.22", "0.1", "1000000000000000", "-0.03")
    assert [Decimal(str(value)) for value in copied] == list(map(Decimal, expected))
    assert_equal(copy)


def test_a_table_that_no_pull_created_is_not_written_to(target: Target) -> None:
    with closing(target()) as sink:
        with sink.transaction():
            pass  # A copy in PostgreSQL creates its tables in its first transaction.
        for table in ("pull_state", "promotions"):
            sink.run(f"DROP TABLE {table}")
    with pytest.raises(SinkError, match="not created by a pull"):
        target()


@pytest.mark.parametrize(
    ("kind", "name", "content", "message"),
    [
        ("duckdb", "copy.duckdb", b"no database", "is not a DuckDB file"),
        ("duckdb", "copy.duckdb", b"SQLite format 3\0" + bytes(4080), "is not a DuckDB file"),
        ("sqlite", "copy.sqlite", b"no database at all", "is not an SQLite file"),
        ("parquet", "parquet", b"a file instead of a folder", "cannot open"),
    ],
    ids=["nothing in DuckDB", "SQLite in DuckDB", "nothing in SQLite", "a file as a folder"],
)
def test_a_target_of_another_format_is_recognised_whatever_its_name(
    kind: str, name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SinkError, match=message):
        TARGETS[kind](tmp_path)()
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize(("kind", "name"), [("duckdb", "copy.duckdb"), ("sqlite", "copy.sqlite")])
def test_a_damaged_copy_is_named_with_what_to_do(kind: str, name: str, tmp_path: Path) -> None:
    TARGETS[kind](tmp_path)().close()
    path = tmp_path / name
    content = path.read_bytes()
    half = len(content) // 2
    damaged = content[:half] if kind == "duckdb" else content[:4096] + b"\xff" * (len(content) - 4096)
    path.write_bytes(damaged)
    with pytest.raises(SinkError, match=r"damaged.*backup of your own, or delete it and run `counterfoil pull`"):
        TARGETS[kind](tmp_path)()
    assert path.read_bytes() == damaged


def test_a_bill_on_two_pages_of_a_batch_is_written_once(copy: Copy) -> None:
    bill = r.bill(copy.branch)
    copy.load(bill)
    shown = msgspec.json.encode(copy.service.data(f"transactions/{bill['id']}", copy.key))
    sink = copy.target()
    sink.now = "2026-01-01T00:00:00.000Z"
    with sink.transaction():
        assert sink.put_bills([shown, shown], None, [copy.branch["id"]]) == Written(added=1)
        assert sink.put_bills([shown, shown], None, [copy.branch["id"]]) == Written(unchanged=1)
    assert sink.run("SELECT count(*) FROM bills") == [(1,)]
    sink.close()
