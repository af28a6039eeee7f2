"""Tests for pulls of which the target does not matter: shops that come and go, interruptions, keys, and selections.

The copies are in SQLite, because a pull into it takes half as long as one into DuckDB.
"""

from collections.abc import Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import records as r
from client.conftest import new_copy
from client.pulled_copy import Copy, assert_equal
from client.scripted_service import Answer, proxy
from client.targets import Target, duckdb_target, held_open_by_a_writer, sqlite_target
from counterfoil.client import Client, NotThisService, QuotaSpent, pull_state
from counterfoil.client.errors import CopyMismatch, Stopped
from counterfoil.client.pull import Options, Puller
from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.sqlite import SQLiteSink
from running_service import RunningService

pulled_before = pytest.mark.usefixtures("pulled_copy")


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return sqlite_target(tmp_path)


@pytest.fixture
def copy(request: pytest.FixtureRequest, service: RunningService, branch: r.Record, target: Target) -> Copy:
    """The `pulled_copy` if the test is marked with `pulled_before`, otherwise a copy that has not been pulled yet."""
    if "pulled_copy" in request.fixturenames:
        pulled: Copy = request.getfixturevalue("pulled_copy")
        return pulled
    return new_copy(service, branch, target)


@pulled_before
def test_a_shop_that_appears_later_is_read_in_full(copy: Copy) -> None:
    late = r.branch(franchiseId=copy.branch["franchiseId"])
    copy.pull_after(late, r.bill(late, closedAt="2025-09-01T12:00:00+07:00", history=True), r.member(late))
    assert_equal(copy)


@pulled_before
def test_a_removed_shop_is_marked_and_its_bills_are_still_kept_up_to_date(copy: Copy) -> None:
    copy.pull_after(r.removal(copy.branch))
    assert copy.held()["shops"] == {}
    assert copy.rows("SELECT count(*) FROM shops WHERE removed_at IS NOT NULL") == [(1,)]
    assert copy.pull_after(r.bill(copy.branch, id="while away"), copy.branch).bills_written == 1
    assert_equal(copy)


def test_a_shop_that_was_removed_before_the_first_pull_has_a_row_without_a_name(copy: Copy) -> None:
    copy.pull_after(r.removal(copy.branch))
    assert copy.rows("SELECT shop_id, shop_name, removed_at IS NULL FROM shops") == [(copy.branch["id"], None, False)]
    assert copy.rows("SELECT count(*) FROM bills") == [(19,)]


def test_a_shop_that_leaves_the_scope_keeps_its_bills_and_is_read_in_full_when_it_returns(copy: Copy) -> None:
    gone = r.bill(copy.branch)
    copy.pull_after(gone)
    copy.load(copy.branch | {"franchiseId": "elsewhere"})
    tally = copy.pull_after(r.removal(gone), r.bill(copy.branch, id="while away"))
    assert copy.rows("SELECT count(*) FROM bills") == [(20,)]
    assert (tally.bills_removed, tally.bills_added) == (0, 0)
    assert copy.reconcile() == []
    tally = copy.pull_after(copy.branch)
    assert (tally.bills_removed, tally.bills_added) == (1, 1)
    assert_equal(copy)


def test_a_pull_that_spends_its_quota_saves_its_progress_and_continues_the_next_day(
    service: RunningService, branch: r.Record, target: Target
) -> None:
    copy = Copy(service, service.key(franchise=branch["franchiseId"], per_min=100_000, per_day=6), target)
    with pytest.raises(QuotaSpent):
        copy.pull(limit=2)
    read = copy.rows("SELECT count(*) FROM bills")[0][0]
    assert read > 0
    for _ in range(8):
        service.clock.advance(86_400)
        service.ledger.advance_horizon()
        try:
            copy.pull(limit=2)
            break
        except QuotaSpent:
            assert copy.rows("SELECT count(*) FROM bills")[0][0] >= read
    assert copy.held() == new_copy(service, branch, target).served()


@pulled_before
def test_a_copy_of_one_key_is_pulled_with_another_only_on_request(copy: Copy) -> None:
    copy.load(r.bill(copy.branch))
    successor = new_copy(copy.service, copy.branch, copy.target)
    for options in ({}, {"since": date(2026, 1, 1)}):
        with pytest.raises(CopyMismatch, match=r"was made from http.* --adopt"):
            successor.pull(**options)
    successor.pull(adopt=True)
    assert_equal(successor)
    with pytest.raises(CopyMismatch):
        copy.pull()
    elsewhere = r.branch()
    copy.load(elsewhere)
    with pytest.raises(CopyMismatch, match="covers none of the shops"):
        new_copy(copy.service, elsewhere, copy.target).pull(adopt=True)
    assert not successor.pull().changes


def test_a_first_pull_that_was_interrupted_is_not_continued_with_another_key(copy: Copy) -> None:
    begin_first_pull(copy, pages=2)
    other = new_copy(copy.service, copy.branch, copy.target)
    with pytest.raises(CopyMismatch, match="--adopt"):
        other.pull()
    other.pull(adopt=True)
    assert_equal(other)


def test_a_key_made_by_rotation_continues_the_copy(copy: Copy) -> None:
    begin_first_pull(copy, pages=2)
    for _ in range(2):
        copy.key = copy.service.rotated(copy.key)
        copy.service.clock.advance(1)
        copy.pull_after(r.bill(copy.branch))
        assert copy.reconcile() == []
        assert_equal(copy)


def begin_first_pull(copy: Copy, pages: int) -> None:
    """Store the first pages of a pull, with one element each, as an interrupted run does."""
    with closing(copy.target()) as sink, Client(copy.url, copy.key) as client:

        class Stopping(Puller):
            written: int = 0

            def _write(self, *group: Any) -> None:
                super()._write(*group)
                self.written += 1
                if self.written == pages:
                    client.close()

        with pytest.raises(Stopped):
            Stopping(client, sink, Options(limit=1, pages_per_batch=1, commit_sec=0)).run()


def test_a_pull_that_is_stopped_saves_what_it_has_received(copy: Copy) -> None:
    begin_first_pull(copy, pages=4)
    # When the run is stopped, it also saves the batches that its reading thread has already received.
    [(saved,)] = copy.rows("SELECT count(*) FROM bills")
    assert 3 <= saved < 19
    assert copy.pull(limit=1).bills_added == 19 - saved
    assert_equal(copy)


def test_a_pull_without_changes_only_counts_the_bills_of_the_copy_once(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copy.pull().shops == 1
    statements: list[str] = []
    run = SQLiteSink.run

    def recorded(sink: SQLiteSink, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        statements.append(statement)
        return run(sink, statement, values)

    monkeypatch.setattr(SQLiteSink, "run", recorded)
    assert copy.pull(members_every_sec=86_400).shops == 1
    assert statements
    [counting] = [statement for statement in statements if "bills" in statement.split()]
    assert "SELECT 'bills', count(*) FROM bills UNION ALL" in counting


def test_a_copy_with_an_expired_mark_is_read_in_full_and_loses_removed_bills(copy: Copy) -> None:
    gone = r.bill(copy.branch)
    copy.pull_after(gone)
    copy.load(r.removal(gone), r.bill(copy.branch))
    copy.service.clock.advance(401 * 86_400)
    copy.service.ledger.advance_horizon()
    with pytest.raises(CopyMismatch, match="too old"):
        copy.reconcile()
    tally = copy.pull()
    assert (tally.bills_added, tally.bills_removed, tally.bills_unchanged) == (1, 1, 19)
    assert_equal(copy)


@pulled_before
@pytest.mark.parametrize("position", ["cursor", "mark"])
def test_a_position_that_the_service_does_not_know_is_replaced(copy: Copy, position: str) -> None:
    copy.rows("UPDATE bills SET id = 'no such bill' WHERE bill_date = '2025-02-14'")
    copy.rows("UPDATE bill_items SET bill_id = 'no such bill' WHERE bill_id NOT IN (SELECT id FROM bills)")
    copy.rows("DELETE FROM payments WHERE bill_id NOT IN (SELECT id FROM bills)")
    state = stored_state(copy)
    state.feed.cursor = "unknown"
    state.feed.mark = None if position == "cursor" else "unknown"
    with closing(copy.target()) as sink, sink.transaction():
        pull_state.save(sink, state)
    with pytest.raises(CopyMismatch, match="Run `counterfoil pull` first"):
        copy.reconcile()
    tally = copy.pull()
    assert (tally.bills_added, tally.bills_removed) == (1, 1)
    assert_equal(copy)


@pulled_before
@pytest.mark.parametrize("state", [b'{"shops":{}}', b'{"format":99,"shops":[]}'])
def test_a_copy_of_another_release_is_refused_and_not_changed(copy: Copy, state: bytes) -> None:
    with closing(copy.target()) as sink, sink.transaction():
        sink.save_state(state)
    for use in (copy.pull, copy.reconcile):
        with pytest.raises(CopyMismatch, match="reads only format"):
            use()
    assert copy.rows("SELECT state FROM pull_state") == [(state.decode(),)]


def test_a_service_without_the_feed_is_told_apart_from_a_wrong_address(copy: Copy) -> None:
    missing: Answer = (404, {}, b'{"ok":false,"error":"not_found","message":"There is no such path."}')
    with (
        proxy(copy.service, lambda path: missing if "/changes" in path else None) as url,
        closing(copy.target()) as sink,
        Client(url, copy.key) as client,
        pytest.raises(NotThisService, match=r"upgrade it to API version 1\.4\.0"),
    ):
        Puller(client, sink).run()


def test_members_are_read_at_the_requested_interval(copy: Copy) -> None:
    copy.pull(members_every_sec=3600)
    copy.load(r.member(copy.branch))
    copy.service.clock.advance(1801)
    copy.service.ledger.advance_horizon()
    assert copy.pull(members_every_sec=3600).members_read == 0
    copy.service.clock.advance(1801)
    copy.service.ledger.advance_horizon()
    assert copy.pull(members_every_sec=3600).members_written == 1
    assert_equal(copy)


def days(copy: Copy) -> set[str | None]:
    return {bill["billDate"] for bill in copy.held()["bills"].values()}


def test_since_leaves_out_bills_of_earlier_days(copy: Copy) -> None:
    moved = r.bill(copy.branch, id="moved", closedAt="2026-01-01T12:00:00+07:00")
    copy.load(moved)
    copy.pull(since=date(2025, 12, 1))
    assert days(copy) == {None, "2026-01-01", "2026-05-05"}
    assert copy.reconcile() == []
    tally = copy.pull_after(
        moved | {"closedAt": "2025-06-01T12:00:00+07:00"}, r.bill(copy.branch, closedAt="2025-02-02T12:00:00+07:00")
    )
    assert (tally.bills_added, tally.bills_removed) == (0, 1)
    assert days(copy) == {None, "2026-01-01", "2026-05-05"}
    assert copy.reconcile() == []


def test_another_since_changes_what_an_existing_copy_contains(copy: Copy) -> None:
    copy.pull(since=date(2026, 1, 1))
    tally = copy.pull(since=date(2025, 11, 1))
    assert (tally.bills_added, tally.bills_removed) == (1, 0)
    tally = copy.pull(since=date(2026, 5, 1))
    assert days(copy) == {None, "2026-05-05"}
    copy.pull(since=date(1, 1, 1))
    assert_equal(copy)


def test_shops_limits_the_copy_to_these_shops(copy: Copy) -> None:
    other = r.branch(franchiseId=copy.branch["franchiseId"])
    copy.load(other, r.bill(other), r.member(other))
    tally = copy.pull(shops=[other["id"], "unknown"])
    assert tally.missing_shops == ["unknown"]
    held = copy.held()
    assert {shop for shop, _ in held["bills"]} == set(held["shops"]) == {other["id"]}
    assert {base for base, _ in held["members"]} == {other["providerId"]}
    assert copy.pull_after(r.bill(copy.branch), r.bill(other)).bills_added == 1
    assert copy.reconcile() == []
    assert copy.pull(shops=[copy.branch["id"]]).bills_removed == 2
    assert {shop for shop, _ in copy.held()["bills"]} == {copy.branch["id"]}
    copy.pull(shops=[])
    assert_equal(copy)


def test_shops_that_the_key_does_not_cover_leave_the_copy_as_it_was_but_closed_shops_are_covered(copy: Copy) -> None:
    with pytest.raises(CopyMismatch, match="covers none of the shops"):
        copy.pull(shops=["mistyped"])
    with pytest.raises(CopyMismatch, match="no copy to compare"):
        copy.reconcile()
    copy.pull()
    with pytest.raises(CopyMismatch, match="covers none of the shops"):
        copy.pull(shops=["mistyped"])
    assert_equal(copy)
    copy.pull(shops=["mistyped", copy.branch["id"]])
    assert_equal(copy)
    closed = r.branch(franchiseId=copy.branch["franchiseId"])
    copy.load(closed, r.bill(closed), r.removal(closed))
    copy.pull(shops=[closed["id"]])
    assert copy.rows("SELECT DISTINCT shop_id FROM bills") == [(closed["id"],)]


def test_other_shops_replace_the_members_of_the_bases_that_are_no_longer_selected(copy: Copy) -> None:
    other = r.branch(franchiseId=copy.branch["franchiseId"])
    coupon = {"code": "c", "status": "available", "providerId": other["providerId"]}
    copy.pull_after(other, r.member(other, coupons=[coupon]), r.member(other))
    tally = copy.pull(shops=[copy.branch["id"]], members_every_sec=86400.0)
    assert tally.members_removed == 2
    assert {base for base, _ in copy.held()["members"]} == {copy.branch["providerId"]}
    assert copy.rows("SELECT count(*) FROM coupons WHERE member_id NOT IN (SELECT member_id FROM members)") == [(0,)]
    # The members of a base that is selected again are read at once, even if its last pass was recent.
    copy.pull(shops=[], members_every_sec=86400.0)
    assert_equal(copy)


def test_members_of_a_selected_shop_stay_if_the_shop_leaves_the_scope(copy: Copy) -> None:
    other = r.branch(franchiseId=copy.branch["franchiseId"])
    copy.load(other, r.member(other))
    copy.pull(shops=[copy.branch["id"], other["id"]])
    copy.load(other | {"franchiseId": "another"})
    copy.pull(since=date(2026, 1, 1))
    assert (other["providerId"],) in copy.rows("SELECT provider_id FROM members WHERE removed_at IS NOT NULL")


def test_a_file_in_use_is_reported_and_no_other_files_are_left_next_to_it(copy: Copy, tmp_path: Path) -> None:
    copy.target = duckdb_target(tmp_path)
    copy.pull()
    with held_open_by_a_writer(tmp_path / "copy.duckdb"), pytest.raises(SinkError, match="open in another process"):
        copy.pull()
    scratch = tmp_path / "copy.duckdb.scratch"
    scratch.mkdir()
    (scratch / "rows.ndjson").write_text("left by a pull that was killed")
    copy.pull()
    assert [path.name for path in tmp_path.glob("copy.duckdb*")] == ["copy.duckdb"]


def test_only_changes_that_were_stored_before_a_command_ran_count_as_handled(copy: Copy) -> None:
    copy.pull()
    handled = stored_state(copy).changes
    copy.pull_after(r.bill(copy.branch))
    # The last number was counted by a run whose transaction failed.
    for changes, is_due in ((handled, True), (handled + 1, False), (handled, False), (handled + 10, False)):
        with closing(copy.target()) as sink:
            pull_state.record_handled(sink, changes)
        assert stored_state(copy).has_unhandled_changes == is_due
    copy.pull_after(r.bill(copy.branch))
    assert stored_state(copy).has_unhandled_changes


def stored_state(copy: Copy) -> pull_state.State:
    with closing(copy.target()) as sink:
        return pull_state.decode(sink.state())
