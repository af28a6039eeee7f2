"""Tests for cursors: a cursor stands for one position in its listing for as long as a client may hold it."""

import pytest

from counterfoil.domain.paging import Listing, Position, StoredCursor
from counterfoil.ports import StoreUnavailable
from ports.backends import Store
from ports.conftest import Run
from ports.open_store import Synchronous
from running_service import ManualClock

BY_CHANGE = Listing("k_1", "bills sh_1", "changes 0")
BY_DAY = Listing("k_1", "bills sh_1", "days 20260101-20260131")
MEMBERS = Listing("k_1", "members mb_a", "members")
HERE, MOVED, MOVED_AGAIN = Position(900, 0, "b_1"), Position(1500, 0, "b_1"), Position(1600, 0, "b_1")
DAY = 24 * 3600


def held(position: Position, earliest: int, latest: int | None = None) -> StoredCursor:
    return StoredCursor(position, earliest, earliest if latest is None else latest)


@pytest.fixture
def cursors(store: Store, clock: ManualClock, run: Run) -> Synchronous:
    return Synchronous(store.cursors(clock), run)


@pytest.fixture
def holding(cursors: Synchronous) -> Synchronous:
    """The cursors of a store of which a reader holds `b_1`, at its position HERE."""
    assert cursors.hand_out(BY_CHANGE, held(HERE, 1000), "f_1") == "b_1"
    return cursors


def test_another_worker_finds_the_cursor_too(store: Store, clock: ManualClock, cursors: Synchronous, run: Run) -> None:
    cursors.hand_out(BY_CHANGE, held(HERE, 1000), "f_1")
    assert Synchronous(store.cursors(clock), run).find(BY_CHANGE, "b_1") == held(HERE, 1000)


def test_a_cursor_that_was_not_handed_out_is_not_found(holding: Synchronous) -> None:
    for cursor in ("b_2", "B_1", "f_1", "", "b_1\0"):
        assert holding.find(BY_CHANGE, cursor) is None, cursor


def test_a_cursor_is_valid_in_its_own_listing_only(holding: Synchronous) -> None:
    for other in (
        Listing("k_2", "bills sh_1", "changes 0"),
        Listing("k_1", "bills sh_2", "changes 0"),
        Listing("k_1", "bills sh_1", "changes 1"),
        BY_DAY,
    ):
        assert holding.find(other, "b_1") is None
        assert holding.hand_out(other, held(MOVED, 1000), "f_1") == "b_1"
        assert holding.find(BY_CHANGE, "b_1") == held(HERE, 1000)


def test_an_id_that_is_held_for_another_position_is_not_handed_out_again(holding: Synchronous) -> None:
    assert holding.hand_out(BY_CHANGE, held(MOVED, 2000), "f_2") == "f_2"
    assert holding.hand_out(BY_CHANGE, held(MOVED_AGAIN, 3000), "f_3") == "f_3"
    assert holding.find(BY_CHANGE, "b_1") == held(HERE, 1000)
    assert holding.find(BY_CHANGE, "f_2") == held(MOVED, 2000)
    assert holding.find(BY_CHANGE, "f_3") == held(MOVED_AGAIN, 3000)


def test_readers_at_one_position_share_its_cursor(cursors: Synchronous) -> None:
    assert cursors.hand_out(BY_CHANGE, held(HERE, 1000), "f_1") == cursors.hand_out(BY_CHANGE, held(HERE, 1100), "f_2")
    first = cursors.hand_out(BY_CHANGE, held(MOVED, 2000), "f_3")
    assert first == cursors.hand_out(BY_CHANGE, held(MOVED, 2100), "f_4") == "f_3"


def test_a_fresh_id_that_equals_another_rows_id_is_reserved_for_that_row(holding: Synchronous) -> None:
    holding.hand_out(BY_CHANGE, held(MOVED, 2000), "b_2")
    assert holding.hand_out(BY_CHANGE, held(Position(2500, 0, "b_2"), 3000), "f_2") == "f_2"
    assert holding.find(BY_CHANGE, "b_2") == held(MOVED, 2000)


def test_a_fresh_id_that_is_held_already_is_refused(holding: Synchronous) -> None:
    holding.hand_out(BY_CHANGE, held(MOVED, 2000), "f_2")
    assert holding.hand_out(BY_CHANGE, held(MOVED_AGAIN, 3000), "f_2") is None
    assert holding.find(BY_CHANGE, "f_2") == held(MOVED, 2000)


@pytest.mark.parametrize("pruned", [True, False])
def test_a_fresh_id_that_has_expired_is_refused_for_its_own_position_too(
    cursors: Synchronous, clock: ManualClock, pruned: bool
) -> None:
    """A reader that got this cursor would get bad_cursor, start again, and get the same cursor again."""
    cursors.hand_out(BY_CHANGE, held(HERE, 1000), None)
    cursors.hand_out(BY_CHANGE, held(MOVED, 2000), "f_2")
    clock.advance(8 * DAY)
    if pruned:
        cursors.prune()
    assert cursors.hand_out(BY_CHANGE, held(MOVED, 3000), "f_2") is None
    assert cursors.hand_out(BY_CHANGE, held(MOVED, 3000), "f_3") == "f_3"


@pytest.mark.parametrize(("listing", "serves"), [(BY_CHANGE, 1200), (BY_DAY, 900), (MEMBERS, 900)])
def test_holders_of_one_cursor_continue_with_a_horizon_that_is_safe_for_all_of_them(
    cursors: Synchronous, listing: Listing, serves: int
) -> None:
    for horizon in (1000, 1200, 900, 1100):
        cursors.hand_out(listing, held(HERE, horizon), "f_1")
    found = cursors.find(listing, "b_1")
    assert found == held(HERE, 900, 1200)
    assert found.horizon_in(listing) == serves


def test_a_cursor_is_valid_for_seven_days(holding: Synchronous, clock: ManualClock) -> None:
    clock.advance(7 * DAY - 1)
    assert holding.prune() == 0
    clock.advance(1)
    assert holding.find(BY_CHANGE, "b_1") is None


@pytest.mark.parametrize("listing", [BY_CHANGE, BY_DAY])
def test_using_a_cursor_extends_its_validity_by_seven_days(
    cursors: Synchronous, clock: ManualClock, listing: Listing
) -> None:
    cursors.hand_out(listing, held(HERE, 1000), "f_1")
    for _ in range(5):
        clock.advance(6 * DAY)
        cursors.prune()
        assert cursors.find(listing, "b_1") == held(HERE, 1000)


def test_handing_out_a_cursor_again_extends_its_validity(holding: Synchronous, clock: ManualClock) -> None:
    clock.advance(6 * DAY)
    holding.hand_out(BY_CHANGE, held(HERE, 1100), "f_1")
    clock.advance(6 * DAY)
    assert holding.find(BY_CHANGE, "b_1") == held(HERE, 1000, 1100)


@pytest.mark.parametrize("listing", [BY_CHANGE, BY_DAY, MEMBERS])
@pytest.mark.parametrize("later", [2 * DAY * 1000, -2 * DAY * 1000])
def test_readers_whose_horizons_are_more_than_a_day_apart_do_not_share_a_cursor(
    cursors: Synchronous, listing: Listing, later: int
) -> None:
    """Otherwise a pass by change might never end, and a pass by day might report an ever older serverTime."""
    horizon = 10**12
    cursors.hand_out(listing, held(HERE, horizon), "f_1")
    assert cursors.hand_out(listing, held(HERE, horizon + later), "f_2") == "f_2"
    assert cursors.hand_out(listing, held(HERE, horizon + later + 5), "f_3") == "f_2"
    assert cursors.find(listing, "b_1") == held(HERE, horizon)
    assert cursors.find(listing, "f_2") == held(HERE, horizon + later, horizon + later + 5)


# --- expired cursors -----------------------------------------------------------


def test_a_fresh_id_that_a_reader_of_another_day_holds_is_refused(cursors: Synchronous) -> None:
    """A fresh ID is as long as the row's ID, so for a short row ID the same fresh ID may be generated twice."""
    later = 1000 + 3 * DAY * 1000
    cursors.hand_out(BY_CHANGE, held(HERE, 1000), None)
    assert cursors.hand_out(BY_CHANGE, held(HERE, later), "f_1") == "f_1"
    assert cursors.hand_out(BY_CHANGE, held(HERE, later + 2 * DAY * 1000), "f_1") is None
    assert cursors.find(BY_CHANGE, "f_1") == held(HERE, later)


@pytest.mark.parametrize("ahead", [8 * DAY, 400 * DAY])
def test_an_id_does_not_get_another_position_while_the_clock_is_ahead(
    holding: Synchronous, clock: ManualClock, ahead: int
) -> None:
    """The reader may still send the ID after the clock is corrected. It must not continue elsewhere in the list."""
    clock.step(ahead)
    for _ in range(3):
        holding.prune()
    assert holding.hand_out(BY_CHANGE, held(MOVED, 2000), "f_2") == "f_2"
    clock.step(-ahead)
    assert holding.find(BY_CHANGE, "b_1") is None


def test_a_cursor_that_expired_on_a_wrong_clock_is_valid_again_unless_it_was_pruned(
    holding: Synchronous, clock: ManualClock
) -> None:
    clock.step(8 * DAY)
    assert holding.find(BY_CHANGE, "b_1") is None
    assert holding.hand_out(BY_CHANGE, held(MOVED, 2000), "f_2") == "f_2"
    clock.step(-8 * DAY)
    assert holding.find(BY_CHANGE, "b_1") == held(HERE, 1000)


def test_an_id_is_free_again_90_days_after_it_expired(holding: Synchronous, clock: ManualClock) -> None:
    clock.advance(7 * DAY)
    assert holding.prune() == 1
    clock.advance(90 * DAY - 1)
    holding.prune()
    assert holding.hand_out(BY_CHANGE, held(MOVED, 2000), None) is None
    clock.advance(1)
    assert holding.prune() == 0
    assert holding.hand_out(BY_CHANGE, held(MOVED, 2000), "f_2") == "b_1"


def test_a_full_disk_is_reported(store: Store, cursors: Synchronous) -> None:
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        cursors.hand_out(BY_CHANGE, held(HERE, 1000), "f_1")
    cursors.hand_out(BY_CHANGE, held(HERE, 1000), "f_1")
    assert cursors.find(BY_CHANGE, "b_1") == held(HERE, 1000)
