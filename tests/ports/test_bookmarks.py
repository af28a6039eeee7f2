"""Bookmarks: the places at which cursors were handed out, seen by all workers."""

import pytest
from msgspec.structs import replace

from counterfoil.domain.paging import COMPANY, Bookmark, Place, Trail, Walk, crowd, is_crowd, resume
from counterfoil.ports import StoreUnavailable
from house import MovableClock
from ports.backends import Store
from ports.conftest import Run

TRAIL = Trail("k_1", "bills sh_1", "changes 0")
MARK = Bookmark("changes 0", Walk("w_1", 1000), Place(900, 0, "b_1"))
HOUR = 3600


def test_a_bookmark_is_found_by_the_cursor_it_was_kept_for(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    run(marks.keep(TRAIL, MARK))
    assert run(marks.find(TRAIL, "b_1")) == [MARK]
    assert run(marks.find(TRAIL, "b_2")) == []
    assert run(marks.find(TRAIL, "B_1")) == []


def test_another_worker_finds_it_too(store: Store, clock: MovableClock, run: Run) -> None:
    run(store.bookmarks(clock).keep(TRAIL, MARK))
    assert run(store.bookmarks(clock).find(TRAIL, "b_1")) == [MARK]


def test_bookmarks_of_another_key_or_list_are_not_found(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    run(marks.keep(TRAIL, MARK))
    assert run(marks.find(Trail("k_2", "bills sh_1", "changes 0"), "b_1")) == []
    assert run(marks.find(Trail("k_1", "bills sh_2", "changes 0"), "b_1")) == []


def test_bookmarks_of_every_route_are_found_oldest_first(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    by_day = Bookmark("days 20260101-20260131", Walk("w_2", 1100), Place(20260101, 500, "b_1"))
    moved = Bookmark("changes 0", Walk("w_3", 1200), Place(1150, 0, "b_1"))
    for mark in (MARK, by_day, moved):
        run(marks.keep(TRAIL, mark))
        clock.advance(1)
    assert run(marks.find(TRAIL, "b_1")) == [MARK, by_day, moved]


def test_the_same_place_kept_again_by_the_same_walk_is_one_bookmark(
    store: Store, clock: MovableClock, run: Run
) -> None:
    marks = store.bookmarks(clock)
    run(marks.keep(TRAIL, MARK))
    run(marks.keep(TRAIL, MARK))
    assert run(marks.find(TRAIL, "b_1")) == [MARK]


def test_walks_that_meet_at_a_place_keep_a_bookmark_each(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    other = Bookmark("changes 0", Walk("w_2", 900), MARK.place)
    for mark in (MARK, other):
        run(marks.keep(TRAIL, mark))
        clock.advance(1)
    assert run(marks.find(TRAIL, "b_1")) == [MARK, other]


def test_a_finished_walk_is_marked_on_all_its_bookmarks_and_on_no_others(
    store: Store, clock: MovableClock, run: Run
) -> None:
    marks = store.bookmarks(clock)
    run(marks.keep(TRAIL, MARK))
    run(marks.keep(TRAIL, Bookmark("changes 0", MARK.walk, Place(950, 0, "b_2"))))
    run(marks.keep(TRAIL, Bookmark("changes 0", Walk("w_2", 1000), Place(960, 0, "b_3"))))
    run(marks.finish("w_1"))
    finished = {cursor: run(marks.find(TRAIL, cursor))[0].finished for cursor in ("b_1", "b_2", "b_3")}
    assert finished == {"b_1": True, "b_2": True, "b_3": False}


def test_a_place_kept_again_after_its_walk_finished_is_open_again(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    run(marks.keep(TRAIL, MARK))
    run(marks.finish("w_1"))
    run(marks.keep(TRAIL, MARK))
    assert run(marks.find(TRAIL, "b_1")) == [MARK]


def test_returns_are_counted_on_the_bookmark_returned_to(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    moved = Bookmark("changes 0", Walk("w_2", 1200), Place(1150, 0, "b_1"))
    run(marks.keep(TRAIL, MARK))
    run(marks.keep(TRAIL, moved))
    for _ in range(3):
        run(marks.wear(TRAIL, MARK))
    assert [mark.returns for mark in run(marks.find(TRAIL, "b_1"))] == [3, 0]


def test_a_cursor_is_held_elsewhere_when_its_row_stood_elsewhere_for_an_unfinished_walk(
    store: Store, clock: MovableClock, run: Run
) -> None:
    marks = store.bookmarks(clock)
    run(marks.keep(TRAIL, MARK))
    assert run(marks.held_elsewhere(TRAIL, Place(901, 0, "b_1")))
    assert run(marks.held_elsewhere(TRAIL, Place(899, 0, "b_1")))
    assert run(marks.held_elsewhere(TRAIL, Place(900, 1, "b_1")))
    assert run(marks.held_elsewhere(TRAIL, Place(900, -1, "b_1")))
    run(marks.finish("w_1"))
    assert not run(marks.held_elsewhere(TRAIL, Place(901, 0, "b_1")))


def test_a_cursor_is_not_held_elsewhere_by_walks_that_meet_at_its_place(
    store: Store, clock: MovableClock, run: Run
) -> None:
    marks = store.bookmarks(clock)
    for n in range(3):
        run(marks.keep(TRAIL, Bookmark("changes 0", Walk(f"w_{n}", 1000 + n), MARK.place)))
    assert not run(marks.held_elsewhere(TRAIL, MARK.place))


@pytest.mark.parametrize(
    "trail",
    [
        Trail("k_2", "bills sh_1", "changes 0"),
        Trail("k_1", "bills sh_2", "changes 0"),
        Trail("k_1", "bills sh_1", "changes 1"),
    ],
)
def test_a_cursor_of_another_key_list_or_route_holds_nothing_here(
    store: Store, clock: MovableClock, run: Run, trail: Trail
) -> None:
    marks = store.bookmarks(clock)
    run(marks.keep(TRAIL, MARK))
    assert not run(marks.held_elsewhere(trail, Place(901, 0, "b_1")))
    assert not run(marks.held_elsewhere(TRAIL, Place(901, 0, "b_2")))


def test_a_bookmark_lasts_a_week(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    run(marks.keep(TRAIL, MARK))
    clock.advance(7 * 24 * HOUR)
    assert marks.prune() == 0
    clock.advance(1)
    assert marks.prune() == 1
    assert run(marks.find(TRAIL, "b_1")) == []


def test_a_walk_that_goes_on_keeps_its_latest_bookmark(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    run(marks.keep(TRAIL, MARK))
    clock.advance(100 * HOUR)
    run(marks.keep(TRAIL, MARK))
    clock.advance(100 * HOUR)
    assert marks.prune() == 0
    assert run(marks.find(TRAIL, "b_1")) == [MARK]


def test_many_old_bookmarks_go_in_one_call(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    for n in range(50):
        run(marks.keep(TRAIL, Bookmark("changes 0", MARK.walk, Place(n, 0, f"b_{n}"))))
    clock.advance(200 * HOUR)
    run(marks.keep(TRAIL, MARK))
    assert marks.prune() == 50
    assert run(marks.find(TRAIL, "b_1")) == [MARK]


def test_a_full_disk_is_told(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        run(marks.keep(TRAIL, MARK))
    run(marks.keep(TRAIL, MARK))
    assert run(marks.find(TRAIL, "b_1")) == [MARK]


# --- many walks at one place ---------------------------------------------------

BY_DAY = Trail("k_1", "bills sh_1", "days 20260101-20260131")


def at_the_place(trail: Trail, walk: int) -> Bookmark:
    """A walk of its own; the later ones have the later horizons."""
    return Bookmark(trail.route, Walk(f"w_{walk}", 1000 + walk), MARK.place)


@pytest.mark.parametrize(("trail", "serves"), [(TRAIL, 1299), (BY_DAY, 1000)])
def test_hundreds_of_walks_at_a_place_leave_few_bookmarks_and_the_horizon_that_serves_all(
    store: Store, clock: MovableClock, run: Run, trail: Trail, serves: int
) -> None:
    marks = store.bookmarks(clock)
    for walk in range(300):
        run(marks.keep(trail, at_the_place(trail, walk)))
        clock.advance(1)
    found = run(marks.find(trail, "b_1"))
    assert len(found) == COMPANY + 1
    resumed = resume(trail.route, None, found)
    assert resumed
    assert resumed.after == MARK.place
    assert resumed.walk
    assert resumed.walk.horizon == serves


def test_a_crowd_has_the_horizon_that_serves_all_who_are_in_it(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    for trail in (TRAIL, BY_DAY):
        for walk in (*range(100, 100 + COMPANY), 7, 300, 8):
            run(marks.keep(trail, at_the_place(trail, walk)))
    by_route = {mark.route: mark.walk for mark in run(marks.find(TRAIL, "b_1")) if is_crowd(mark.walk.id)}
    assert {route: walk.horizon for route, walk in by_route.items()} == {TRAIL.route: 1300, BY_DAY.route: 1007}


def test_a_crowd_holds_its_cursor_although_every_walk_that_can_be_named_has_finished(
    store: Store, clock: MovableClock, run: Run
) -> None:
    """Of those in it, nobody knows how many are still on their way."""
    marks = store.bookmarks(clock)
    for walk in range(COMPANY + 5):
        run(marks.keep(TRAIL, at_the_place(TRAIL, walk)))
    for mark in run(marks.find(TRAIL, "b_1")):
        run(marks.finish(mark.walk.id))
    assert run(marks.held_elsewhere(TRAIL, Place(901, 0, "b_1")))
    assert [is_crowd(mark.walk.id) for mark in run(marks.find(TRAIL, "b_1")) if not mark.finished] == [True]


def test_a_walk_of_a_crowd_keeps_its_later_places_too(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    together = Walk(crowd(clock.now_ms()), 1000)
    further = Bookmark("changes 0", together, Place(950, 0, "b_2"))
    run(marks.keep(TRAIL, further))
    run(marks.keep(Trail("k_2", "bills sh_1", "changes 0"), further))
    run(marks.finish(together.id))
    assert run(marks.find(TRAIL, "b_2")) == [further]


def test_a_crowd_is_forgotten_a_week_after_its_day_however_many_come_later(
    store: Store, clock: MovableClock, run: Run
) -> None:
    marks = store.bookmarks(clock)
    for hour in range(20 * 24):
        run(marks.keep(BY_DAY, at_the_place(BY_DAY, hour)))
        clock.advance(HOUR)
        if hour % 24 == 0:
            marks.prune()
    found = run(marks.find(BY_DAY, "b_1"))
    assert len(found) <= COMPANY + 8
    assert min(mark.walk.horizon for mark in found) >= 1000 + 12 * 24 - 1


def test_a_walk_takes_the_place_of_one_that_has_finished(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    for walk in range(100):
        run(marks.keep(TRAIL, at_the_place(TRAIL, walk)))
        run(marks.wear(TRAIL, MARK))
        assert run(marks.find(TRAIL, "b_1")) == [replace(at_the_place(TRAIL, walk), returns=1)]
        run(marks.finish(f"w_{walk}"))
        clock.advance(1)
    assert run(marks.find(TRAIL, "b_1")) == [replace(at_the_place(TRAIL, 99), returns=1, finished=True)]


def test_a_walk_among_many_that_comes_again_is_still_itself(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    for walk in range(COMPANY + 1):
        run(marks.keep(TRAIL, at_the_place(TRAIL, walk)))
    before = run(marks.find(TRAIL, "b_1"))
    for walk in range(COMPANY):
        run(marks.keep(TRAIL, at_the_place(TRAIL, walk)))
    assert run(marks.find(TRAIL, "b_1")) == before


def test_walks_at_one_place_are_no_company_for_another(store: Store, clock: MovableClock, run: Run) -> None:
    marks = store.bookmarks(clock)
    for walk in range(COMPANY):
        run(marks.keep(TRAIL, at_the_place(TRAIL, walk)))
    clock.advance(1)
    moved = Bookmark("changes 0", Walk("w_moved", 2000), Place(1500, 0, "b_1"))
    by_day = Bookmark(BY_DAY.route, Walk("w_by_day", 2000), MARK.place)
    for mark in (moved, by_day):
        run(marks.keep(TRAIL, mark))
    assert run(marks.find(TRAIL, "b_1"))[-2:] == [moved, by_day]
