"""Reconciling finds and repairs exactly the differences that a pull cannot notice."""

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import records as r
from client.pulled_copy import PLENTY, Copy, assert_equal
from client.targets import Target, duckdb_target
from counterfoil.client import calls
from counterfoil.client.conversation import Call
from counterfoil.client.day_digests import consecutive
from counterfoil.client.errors import CopyMismatch
from running_service import RunningService


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return duckdb_target(tmp_path)


@pytest.fixture(params=["digests", pytest.param("windows", marks=pytest.mark.long)], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run each test with digests, and as if the service had no digests."""
    if request.param == "windows":
        monkeypatch.setattr(calls, "digests", lambda **_: Call("no-such-endpoint"))
    return str(request.param)


def test_a_copy_that_was_just_pulled_has_no_differences(copy: Copy) -> None:
    copy.pull()
    assert copy.reconcile() == []


def test_a_change_since_the_pull_is_not_a_difference(copy: Copy, branch: r.Record, service: RunningService) -> None:
    moving = r.bill(branch, closedAt="2025-12-24T12:00:00+07:00")
    service.load(moving)
    copy.pull()
    service.load(
        r.bill(branch),
        r.bill(branch, closedAt=None),
        moving | {"closedAt": "2025-06-01T12:00:00+07:00"},
        branch | {"timezone": "America/New_York"},
    )
    assert copy.reconcile() == []
    copy.pull()
    assert_equal(copy)


@pytest.mark.parametrize("closed_at", ["2025-12-24T12:00:00+07:00", "2025-01-05T12:00:00+07:00", None])
def test_a_removed_bill_is_found_and_dropped(
    copy: Copy, branch: r.Record, service: RunningService, closed_at: str | None
) -> None:
    gone = r.bill(branch, closedAt=closed_at, lines=[r.line(options=[{"id": "o"}])])
    service.load(gone)
    copy.pull()
    service.load(r.removal(gone))
    copy.pull()
    [found] = copy.reconcile()
    assert (found.day, found.removed, found.missing, found.different) == (closed_at and closed_at[:10], 1, 0, 0)
    assert not found.is_fixed
    [is_fixed] = copy.reconcile(fix=True)
    assert is_fixed.is_fixed
    assert copy.reconcile() == []
    if closed_at:
        assert_equal(copy)


def test_a_swap_that_leaves_all_totals_equal_is_found(copy: Copy, branch: r.Record, service: RunningService) -> None:
    gone = r.bill(branch)
    service.load(gone)
    copy.pull()
    service.load(r.removal(gone), r.bill(branch))
    copy.pull()
    [found] = copy.reconcile(fix=True)
    assert found.removed == 1
    assert_equal(copy)


def test_history_that_was_imported_after_the_first_pull_is_found(
    copy: Copy, branch: r.Record, service: RunningService
) -> None:
    copy.pull()
    service.load(r.bill(branch, history=True, closedAt="2025-08-08T12:00:00+07:00", amounts={"net": 7}))
    copy.pull()
    [found] = copy.reconcile(fix=True)
    assert (found.day, found.missing, found.service.net - found.copy.net) == ("2025-08-08", 1, Decimal(7))
    assert_equal(copy)


def test_damaged_rows_are_repaired(copy: Copy) -> None:
    copy.pull()
    for spoil in (
        "UPDATE bills SET net = 1 WHERE bill_date = '2025-02-14'",
        "UPDATE bills SET status = 'completed' WHERE bill_date = '2025-02-14'",
        "UPDATE bills SET bill_date = '2025-07-07' WHERE bill_date = '2025-11-30'",
        "DELETE FROM bills WHERE bill_date = '2026-01-01'",
    ):
        copy.rows(spoil)
        assert copy.reconcile(fix=True), spoil
        assert_equal(copy)


def test_a_bill_that_came_back_on_an_earlier_day_is_moved_and_not_lost(
    copy: Copy, branch: r.Record, service: RunningService
) -> None:
    moved = r.bill(branch, history=True, closedAt="2025-12-24T12:00:00+07:00")
    service.load(moved)
    copy.pull()
    service.load(r.removal(moved))
    service.load(moved | {"closedAt": "2025-12-20T12:00:00+07:00"})
    assert [found.day for found in copy.reconcile(fix=True)] == ["2025-12-20", "2025-12-24"]
    assert_equal(copy)
    assert copy.reconcile() == []


def test_a_bill_from_a_till_with_a_reset_clock_does_not_cost_a_request_per_month(
    copy: Copy, branch: r.Record, service: RunningService
) -> None:
    ancient = r.bill(branch, closedAt="1970-01-02T12:00:00+07:00")
    service.load(ancient)
    copy.pull()
    service.load(r.removal(ancient))
    before = service.data("usage", copy.key)["today"]["count"]
    assert [found.day for found in copy.reconcile(fix=True)] == ["1970-01-02"]
    assert service.data("usage", copy.key)["today"]["count"] - before < 60
    assert_equal(copy)


def test_since_limits_how_far_back_bills_are_compared(copy: Copy, branch: r.Record, service: RunningService) -> None:
    old, new = r.bill(branch, closedAt="2025-03-03T12:00:00+07:00"), r.bill(branch)
    service.load(old, new)
    copy.pull()
    service.load(r.removal(old), r.removal(new))
    assert [found.day for found in copy.reconcile(since=date(2025, 12, 15), fix=True)] == ["2026-01-01"]
    assert [found.day for found in copy.reconcile()] == ["2025-03-03"]


def test_days_before_a_limited_pull_are_added_by_a_longer_reconcile(copy: Copy) -> None:
    copy.pull(since=date(2026, 1, 1))
    copy.reconcile(fix=True)
    assert_equal(copy)


def test_every_day_is_compared_whatever_the_page_size(copy: Copy, branch: r.Record, service: RunningService) -> None:
    copy.pull()
    for limit in (1, 2, 7):
        assert copy.reconcile(limit=limit) == []


def test_a_copy_of_another_key_is_not_compared(copy: Copy, branch: r.Record, service: RunningService) -> None:
    copy.pull()
    other = Copy(service, service.key(franchise=branch["franchiseId"], **PLENTY), copy.target)
    service.clock.advance(1)
    with pytest.raises(CopyMismatch):
        other.reconcile()


def spent(copy: Copy, service: RunningService) -> int:
    count: int = service.data("usage", copy.key)["today"]["count"]
    return count


def test_only_days_whose_digests_differ_are_read(
    copy: Copy, branch: r.Record, service: RunningService, way: str
) -> None:
    if way == "windows":
        return
    days = [r.bill(branch, closedAt=f"2025-{month:02}-15T12:00:00+07:00", history=True) for month in range(1, 13)]
    service.load(*days)
    copy.pull()
    before = spent(copy, service)
    assert copy.reconcile() == []
    # Only the key's usage, the shops, the digests and the undated bills are requested.
    assert spent(copy, service) - before <= 6
    service.load(r.removal(days[3]))
    before = spent(copy, service)
    assert [found.day for found in copy.reconcile()] == ["2025-04-15"]
    assert spent(copy, service) - before <= 8


def test_a_wrong_tip_is_found_and_repaired(copy: Copy) -> None:
    copy.pull()
    copy.rows("UPDATE bills SET tip = 77 WHERE bill_date = '2025-02-14'")
    assert [found.different for found in copy.reconcile(fix=True)] == [1]
    assert_equal(copy)


def test_consecutive_days_are_read_in_one_window_of_at_most_31_days() -> None:
    days = [date(2025, 12, 1) + timedelta(days=offset) for offset in (0, 1, 2, 5, *range(10, 50))]
    assert [(first.isoformat(), last.isoformat()) for first, last in consecutive(map(str, reversed(days)))] == [
        ("2025-12-01", "2025-12-03"),
        ("2025-12-06", "2025-12-06"),
        ("2025-12-11", "2026-01-10"),
        ("2026-01-11", "2026-01-19"),
    ]
    assert list(consecutive([])) == []
