"""Tests for pulling into DuckDB: the order of requests, and resuming after an interruption."""

import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import records as r
from client.pulled_copy import PLENTY, Copy, assert_equal
from client.targets import Target, duckdb_target
from counterfoil.client import Client, QuotaSpent, calls, pull_state
from counterfoil.client.errors import CopyMismatch
from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.duckdb import DuckDBSink
from running_service import RunningService


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return duckdb_target(tmp_path)


def test_bills_without_a_date_and_bills_from_before_change_tracking_are_in_the_copy(copy: Copy) -> None:
    copy.pull()
    bills = copy.held()["bills"].values()
    assert [bill["billDate"] for bill in bills].count(None) == 1
    assert [bill["updatedAt"] for bill in bills].count(None) == 1


def test_a_shop_that_appears_later_is_read_in_full(copy: Copy, branch: r.Record, service: RunningService) -> None:
    copy.pull()
    late = r.branch(franchiseId=branch["franchiseId"])
    service.load(late, r.bill(late, closedAt="2025-09-01T12:00:00+07:00", history=True), r.member(late))
    copy.pull()
    assert_equal(copy)


def test_a_removed_shop_is_marked_and_continues_from_its_mark_when_it_returns(
    copy: Copy, branch: r.Record, service: RunningService
) -> None:
    copy.pull()
    service.load(r.removal(branch))
    copy.pull()
    assert copy.held()["shops"] == {}
    assert copy.rows("SELECT count(*) FROM shops WHERE removed_at IS NOT NULL") == [(1,)]
    service.load(r.bill(branch, id="while away"), branch)
    assert copy.pull().bills_written == 1
    assert_equal(copy)


def test_a_pull_that_spends_its_quota_saves_its_progress_and_continues_the_next_day(
    service: RunningService, branch: r.Record, target: Target
) -> None:
    copy = Copy(service, service.key(franchise=branch["franchiseId"], per_min=100_000, per_day=16), target)
    with pytest.raises(QuotaSpent):
        copy.pull(limit=2)
    read = copy.rows("SELECT count(*) FROM bills")[0][0]
    assert read > 0
    for _ in range(6):
        service.clock.advance(86_400)
        service.ledger.advance_horizon()
        try:
            copy.pull(limit=2)
            break
        except QuotaSpent:
            assert copy.rows("SELECT count(*) FROM bills")[0][0] >= read
    service.clock.advance(86_400)
    plenty = Copy(service, service.key(franchise=branch["franchiseId"], **PLENTY), target)
    service.clock.advance(1)
    assert copy.held() == plenty.served()


def test_a_copy_of_one_key_is_pulled_with_another_only_on_request(
    copy: Copy, branch: r.Record, service: RunningService
) -> None:
    copy.pull()
    service.load(r.bill(branch))
    successor = Copy(service, service.key(franchise=branch["franchiseId"], **PLENTY), copy.target)
    service.clock.advance(1)
    with pytest.raises(CopyMismatch, match=r"was made from http.* --adopt"):
        successor.pull()
    successor.pull(adopt=True)
    assert_equal(successor)
    with pytest.raises(CopyMismatch):
        copy.pull()


def test_a_copy_made_by_a_newer_program_is_not_changed(copy: Copy) -> None:
    sink = copy.target()
    with sink.transaction():
        sink.save_state(b'{"format":99,"shops":[]}')
    sink.close()
    with pytest.raises(CopyMismatch, match="Upgrade Counterfoil"):
        copy.pull()


def test_members_are_read_at_the_requested_interval(copy: Copy, branch: r.Record, service: RunningService) -> None:
    copy.pull(members_every_sec=3600)
    service.load(r.member(branch))
    service.clock.advance(1801)
    service.ledger.advance_horizon()
    assert copy.pull(members_every_sec=3600).members_read == 0
    service.clock.advance(1801)
    service.ledger.advance_horizon()
    assert copy.pull(members_every_sec=3600).members_written == 1
    assert_equal(copy)


def test_since_limits_how_far_back_bills_are_read(copy: Copy) -> None:
    tally = copy.pull(since=date(2025, 12, 1))
    assert tally.requests < 10
    days = {bill["billDate"] for bill in copy.held()["bills"].values()}
    assert {None, "2026-01-01"} <= days


def test_a_limited_pull_continues_with_all_changes(copy: Copy, branch: r.Record, service: RunningService) -> None:
    copy.pull(since=date(2025, 12, 31))
    service.load(r.bill(branch, id="old but new", closedAt="2025-02-02T12:00:00+07:00"))
    copy.pull(since=date(2025, 12, 31))
    assert (branch["id"], "old but new") in copy.held()["bills"]


def test_a_file_that_another_process_has_open_is_reported_in_one_sentence(copy: Copy, tmp_path: Path) -> None:
    copy.pull()
    holding = "import duckdb, sys; db = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", holding, tmp_path / "copy.duckdb"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout
    assert other.stdout.readline() == b"open\n"
    with pytest.raises(SinkError, match="open in another process"):
        copy.pull()
    other.communicate()
    copy.pull()


def test_no_other_files_are_left_next_to_the_database(copy: Copy, tmp_path: Path) -> None:
    copy.pull()
    scratch = tmp_path / "copy.duckdb.scratch"
    scratch.mkdir()
    (scratch / "rows.ndjson").write_text("left by a pull that was killed")
    copy.pull()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("copy")] == ["copy.duckdb"]


@pytest.mark.parametrize("content", [b"no database", b"x" * 5000])
def test_a_file_that_is_not_a_database_is_reported_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "copy.duckdb").write_bytes(content)
    with pytest.raises(SinkError, match="is not a DuckDB file"):
        duckdb_target(tmp_path)()


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + bytes(4080)])
def test_a_file_of_another_format_is_recognised_whatever_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clock.duckdb").write_bytes(content)
    with pytest.raises(SinkError, match="is not a DuckDB file"):
        DuckDBSink(tmp_path / "clock.duckdb")
    assert (tmp_path / "clock.duckdb").read_bytes() == content


def test_the_earliest_possible_since_is_the_first_day_of_the_calendar(copy: Copy) -> None:
    assert pull_state.window_start(date(1, 1, 20), date.min) == pull_state.window_start(date(1, 1, 20)) == date.min
    call = calls.bills(
        "s", first=date(1, 1, 1), last=date(999, 12, 31), updated_since=pull_state.start_of_day(date.min)
    )
    assert dict(call.query)["from"] == "00010101"
    assert dict(call.query)["to"] == "09991231"
    with Client(copy.url, copy.key) as client:
        [shop] = client.shops()
        assert list(client.bills(shop["shopId"], updated_since=pull_state.start_of_day(date.min)))


def test_bills_without_a_date_count_from_the_first_moment_of_a_day_anywhere(
    copy: Copy, branch: r.Record, service: RunningService
) -> None:
    service.clock.step((datetime(2026, 1, 4, 20, tzinfo=UTC).timestamp() * 1000 - service.clock.now_ms()) / 1000)
    service.load(r.bill(branch, closedAt=None, id="early"))  # in Bangkok it is already 5 January
    copy.pull(since=date(2026, 1, 5))
    assert "early" in {bill_id for _, bill_id in copy.held()["bills"]}
    assert copy.reconcile(since=date(2026, 1, 5)) == []
