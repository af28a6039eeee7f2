"""Reconciling finds and repairs damage to the copy, and changes nothing else."""

from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

import pytest

import records as r
from client.conftest import new_copy
from client.pulled_copy import PLENTY, Copy, assert_equal
from client.targets import EVERY_KIND, TARGETS
from counterfoil.client import Client
from counterfoil.client.errors import CopyMismatch
from counterfoil.client.reconcile import Reconciler, consecutive
from counterfoil.client.row_comparison import LeftOut
from running_service import RunningService


@pytest.fixture
def copy(pulled_copy: Copy) -> Copy:
    return pulled_copy


def test_changes_removals_and_other_shops_since_the_pull_are_not_differences(copy: Copy) -> None:
    moving, dated, undated = r.bill(copy.branch), r.bill(copy.branch), r.bill(copy.branch, closedAt=None)
    joining = r.branch(franchiseId="elsewhere")
    leaving = r.branch(franchiseId=copy.branch["franchiseId"])
    copy.pull_after(moving, dated, undated, joining, leaving, r.bill(joining), r.bill(leaving))
    copy.load(
        r.bill(copy.branch),
        r.bill(copy.branch, closedAt=None),
        r.bill(copy.branch, history=True, closedAt="2025-08-08T12:00:00+07:00"),
        r.bill(copy.branch, history=True, closedAt=None),
        moving | {"closedAt": "2025-06-01T12:00:00+07:00"},
        r.removal(dated),
        r.removal(undated),
        copy.branch | {"timezone": "America/New_York"},
        joining | {"franchiseId": copy.branch["franchiseId"]},
        leaving | {"franchiseId": "elsewhere"},
    )
    for limit in (1, 7):
        assert copy.reconcile(limit=limit) == []
    before = copy.held()
    assert copy.reconcile(fix=True) == []
    assert copy.held() == before
    copy.pull()
    assert copy.reconcile() == []
    other = new_copy(copy.service, copy.branch, copy.target)
    with pytest.raises(CopyMismatch):
        other.reconcile()


@pytest.mark.parametrize("day", ["2025-12-24", "2025-01-05", None])
def test_a_bill_that_the_service_does_not_have_is_found_and_dropped(copy: Copy, day: str | None) -> None:
    with closing(copy.target()) as sink:
        for table, key in (("bills", "id"), ("payments", "bill_id")):
            sink.run(f"CREATE TEMPORARY TABLE extra_{table} AS SELECT * FROM {table} LIMIT 1")  # noqa: S608 - as below
            sink.run(f"UPDATE extra_{table} SET {key} = 'extra'")  # noqa: S608 - names of our own tables
        sink.run("UPDATE extra_bills SET bill_date = ?", [day])
        sink.run("INSERT INTO bills SELECT * FROM extra_bills")
        sink.run("INSERT INTO payments SELECT * FROM extra_payments")
    [found] = copy.reconcile()
    assert (found.day, found.removed, found.missing, found.different) == (day, 1, 0, 0)
    assert not found.is_fixed
    [fixed] = copy.reconcile(fix=True)
    assert fixed.is_fixed
    assert copy.reconcile() == []
    assert_equal(copy)


def test_undated_bills_that_are_in_no_list_are_compared_too(copy: Copy) -> None:
    copy.pull_after(r.bill(copy.branch, id="in no list", closedAt=None, history=True))
    copy.rows("DELETE FROM bills WHERE id = 'in no list'")
    [found] = copy.reconcile(fix=True)
    assert (found.day, found.missing) == (None, 1)
    assert copy.reconcile() == []
    assert (copy.branch["id"], "in no list") in copy.held()["bills"]


def test_a_swap_that_leaves_all_totals_equal_is_found(copy: Copy) -> None:
    copy.rows("UPDATE bills SET id = 'other' WHERE bill_date = '2025-02-14'")
    [found] = copy.reconcile(fix=True)
    assert (found.missing, found.removed) == (1, 1)
    copy.rows("DELETE FROM bill_items WHERE bill_id = 'other'")
    copy.rows("DELETE FROM payments WHERE bill_id = 'other'")
    assert_equal(copy)


def test_damaged_rows_are_repaired(copy: Copy) -> None:
    for spoil in (
        "UPDATE bills SET net = 1 WHERE bill_date = '2025-02-14'",
        "UPDATE bills SET status = 'completed' WHERE bill_date = '2025-02-14'",
        "UPDATE bills SET tip = 77 WHERE bill_date = '2025-02-14'",
        "UPDATE bills SET bill_date = '2025-11-28' WHERE bill_date = '2025-11-30'",
        "DELETE FROM bills WHERE bill_date = '2026-01-01'",
    ):
        copy.rows(spoil)
        assert copy.reconcile(fix=True), spoil
        assert_equal(copy)


def test_since_limits_how_far_back_bills_are_compared(copy: Copy) -> None:
    copy.rows("UPDATE bills SET net = 1 WHERE bill_date < '2025-12-01' OR bill_date = '2026-05-05'")
    copy.rows("UPDATE bills SET net = 1 WHERE bill_date IS NULL")
    assert [found.day for found in copy.reconcile(since=date(2025, 12, 15), fix=True)] == ["2026-05-05"]
    assert {found.day for found in copy.reconcile(fix=True)} == {None, "2025-02-14", "2025-11-30"}
    assert_equal(copy)


def spent(copy: Copy, service: RunningService) -> int:
    count: int = service.data("usage", copy.key)["today"]["count"]
    return count


def test_only_days_whose_digests_differ_are_read(copy: Copy) -> None:
    copy.pull_after(*(r.bill(copy.branch, closedAt=f"2025-{month:02}-15T12:00:00+07:00") for month in range(1, 13)))
    before = spent(copy, copy.service)
    assert copy.reconcile() == []
    # The run requests only the feed, the digests and the rate limit, and `spent` itself makes one request.
    assert spent(copy, copy.service) - before <= 4
    copy.rows("DELETE FROM bills WHERE bill_date = '2025-04-15'")
    before = spent(copy, copy.service)
    assert [found.day for found in copy.reconcile()] == ["2025-04-15"]
    assert spent(copy, copy.service) - before <= 6


def test_consecutive_days_are_read_in_one_window_of_at_most_31_days() -> None:
    days = [date(2025, 12, 1) + timedelta(days=offset) for offset in (0, 1, 2, 5, *range(10, 50))]
    assert [(first.isoformat(), last.isoformat()) for first, last in consecutive(map(str, reversed(days)))] == [
        ("2025-12-01", "2025-12-03"),
        ("2025-12-06", "2025-12-06"),
        ("2025-12-11", "2026-01-10"),
        ("2026-01-11", "2026-01-19"),
    ]
    assert list(consecutive([])) == []


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_comparison_says_what_it_leaves_out_and_compares_closed_shops(
    kind: str, service: RunningService, tmp_path: Path
) -> None:
    staying, leaving, closing_down = (r.branch(franchiseId="franchise-to-compare") for _ in range(3))
    copy = Copy(service, service.key(franchise="franchise-to-compare", **PLENTY), TARGETS[kind](tmp_path))
    service.load(staying, leaving, closing_down, *(r.bill(of) for of in (staying, closing_down)), *r.bills(leaving, 4))
    copy.pull()
    service.load(r.removal(closing_down))
    copy.pull()

    def compared() -> tuple[int, int, LeftOut]:
        with closing(copy.target()) as sink, Client(copy.url, copy.key) as client:
            reconciler = Reconciler(client, sink)
            return len(list(reconciler.run())), reconciler.result.days, reconciler.result.left_out

    assert compared() == (0, 3, LeftOut())
    service.load(leaving | {"franchiseId": "elsewhere"})
    assert compared() == (0, 2, LeftOut(shops=1, bills=4)), "a shop that left since the pull"
    copy.pull()
    assert compared() == (0, 2, LeftOut(shops=1, bills=4))
    with closing(copy.target()) as sink, sink.transaction():
        sink.run("UPDATE bills SET bill_date = '2020-01-01' WHERE shop_id = ?", [closing_down["id"]])
    assert compared()[0] == 2, "a change to a bill of a closed shop is not found"
