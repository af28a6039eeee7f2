"""Readers that use the same key share cursors, but each cursor stands for exactly one position.

The service cannot tell apart two jobs that read the same list with the same key.
Whatever one of them does, the other must neither miss a row nor receive a
`serverTime` that is too late.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import pytest

from listings import DAY_SEC, ChangeList, DayList, Listing, MemberList
from running_service import RunningService

every_list = pytest.mark.parametrize("kind", [ChangeList, DayList, MemberList])
# In these two lists, a row that changes after it was read is not read again, so no page may report a later serverTime
# than the first page. In the list by change, such a row moves ahead of every reader and is read again, so a later
# serverTime is safe.
lists_with_early_horizon = pytest.mark.parametrize("kind", [DayList, MemberList])
every_limit = pytest.mark.parametrize("limit", [1, 2, 200])


@pytest.fixture
def listing(shared_service: RunningService, kind: type[Listing], request: pytest.FixtureRequest) -> Listing:
    """Return a list with at least ten rows, which fill at least three pages."""
    return kind(shared_service, max(10, 3 * request.node.callspec.params.get("limit", 1)))


@contextmanager
def clock_ahead(service: RunningService, days: int) -> Iterator[None]:
    """Set the clock this many days ahead for the duration of the block."""
    service.clock.step(days * DAY_SEC)
    service.ledger.advance_horizon()
    yield
    service.clock.step(-days * DAY_SEC)


@pytest.fixture(autouse=True)
def clock_never_behind(shared_service: RunningService) -> Iterator[None]:
    """After a test, let the clock catch up with the horizon, which may be ahead of it."""
    yield
    behind_ms = shared_service.ledger.advance_horizon() - shared_service.clock.now_ms()
    if behind_ms:
        shared_service.clock.advance(behind_ms / 1000)


# --- a cursor whose row has moved ------------------------------------------------------


@every_list
@every_limit
def test_a_reader_continues_at_its_position_after_another_read_its_moved_row(listing: Listing, limit: int) -> None:
    everything = list(range(1, listing.size + 1))
    cursor = listing.page(limit).cursor
    listing.move(limit)
    assert sorted(listing.rows(limit)) == everything
    rows = listing.rows(limit, cursor)
    assert rows[: listing.size - limit] == everything[limit:]
    assert rows[listing.size - limit :] in ([], [limit])


@every_list
@every_limit
def test_a_lost_last_page_can_be_requested_again(
    shared_service: RunningService, kind: type[Listing], limit: int
) -> None:
    rest = max(1, limit // 2)
    listing = kind(shared_service, 2 * limit + rest)
    *_, saved = [page.cursor for page in listing.pages(limit) if page.rows[-1:] == [2 * limit]]
    # In the next pass, the row of the saved cursor is the last row of a full page.
    listing.add(limit - rest)
    listing.move(2 * limit)
    assert len(set(listing.rows(limit))) == listing.size
    assert listing.rows(limit, saved)[:rest] == list(range(2 * limit + 1, 2 * limit + rest + 1))


@lists_with_early_horizon
@every_limit
def test_a_retried_last_page_does_not_report_the_server_time_of_a_later_pass(
    shared_service: RunningService, kind: type[Listing], limit: int
) -> None:
    listing = kind(shared_service, 2 * limit + max(1, limit // 2))
    pages = list(listing.pages(limit))
    listing.edit(1)
    list(listing.pages(limit))
    for page in pages:
        if page.cursor:
            assert {retried.server_time for retried in listing.pages(limit, page.cursor)} == {pages[0].server_time}


@pytest.mark.parametrize("kind", [ChangeList, DayList])
@every_limit
def test_the_final_server_time_of_a_retried_pass_is_a_safe_mark(
    shared_service: RunningService, kind: type[Listing], limit: int
) -> None:
    listing = kind(shared_service, 2 * limit + max(1, limit // 2))
    first = listing.page(limit)
    list(listing.pages(limit, first.cursor))
    listing.edit(1)
    list(listing.pages(limit))
    retried = list(listing.pages(limit, first.cursor))
    # In the list by change, the retried pass may already contain the changed row, and its mark may then be later.
    met = [row for page in retried for row in page.rows if kind is ChangeList]
    assert 1 in {*met, *listing.changed_since(retried[-1].server_time)}


@every_list
@every_limit
def test_a_pass_after_every_row_moved_reads_each_row_once(
    shared_service: RunningService, kind: type[Listing], limit: int
) -> None:
    listing = kind(shared_service, max(40, 3 * limit))
    everything = list(range(1, listing.size + 1))
    # The first reader is given a cursor for the end of every full page.
    cursor = None
    for _ in range(listing.size // limit):
        cursor = listing.page(limit, cursor).cursor
    listing.move_all()
    pages = list(listing.pages(limit))
    assert [row for page in pages for row in page.rows] == everything
    assert len(pages) == listing.size // limit + 1


# --- a cursor that is no longer valid -----------------------------------------------------


@every_list
@every_limit
def test_an_expired_cursor_is_a_bad_cursor(listing: Listing, limit: int) -> None:
    cursor = listing.page(limit).cursor
    assert cursor
    listing.move(limit)
    listing.service.clock.advance(7 * DAY_SEC + 1)
    assert listing.error(cursor) == "bad_cursor"
    listing.service.prune_cursors()
    assert listing.error(cursor) == "bad_cursor"


@every_list
@every_limit
def test_an_expired_cursor_does_not_become_valid_at_another_position(listing: Listing, limit: int) -> None:
    cursor = listing.page(limit).cursor
    assert cursor
    listing.service.clock.advance(8 * DAY_SEC)
    listing.service.prune_cursors()
    listing.move(limit)
    assert len(set(listing.rows(limit))) == listing.size
    assert listing.error(cursor) == "bad_cursor"


@every_list
@every_limit
@pytest.mark.parametrize("other_reads", ["while ahead", "afterwards"])
def test_a_clock_that_was_days_ahead_expires_a_cursor_but_never_moves_it(
    listing: Listing, limit: int, other_reads: str
) -> None:
    cursor = listing.page(limit).cursor
    assert cursor
    with clock_ahead(listing.service, 8):
        listing.service.restart()
        listing.service.prune_cursors()
        listing.move(limit)
        if other_reads == "while ahead":
            assert len(set(listing.rows(limit))) == listing.size
    assert len(set(listing.rows(limit))) == listing.size
    if listing.error(cursor) != "bad_cursor":
        assert listing.rows(limit, cursor)[:limit] == list(range(limit + 1, 2 * limit + 1))


@every_list
@every_limit
def test_a_cursor_of_another_key_is_a_bad_cursor(listing: Listing, limit: int) -> None:
    other_key = listing.new_key()
    cursor = listing.page(limit).cursor
    assert cursor
    assert listing.error(cursor, key=other_key) == "bad_cursor"
    listing.move(limit)
    assert listing.error(cursor, key=other_key) == "bad_cursor"
    assert listing.error(cursor) is None


@every_list
def test_an_id_that_was_never_handed_out_is_a_bad_cursor(listing: Listing) -> None:
    assert listing.page(2).cursor == listing.row_id(2)
    assert listing.error(listing.row_id(3)) == "bad_cursor"
    assert listing.error(listing.row_id(10)) == "bad_cursor"


@pytest.mark.parametrize("kind", [ChangeList, DayList])
def test_a_cursor_is_a_bad_cursor_with_any_other_parameters(listing: Listing) -> None:
    """The member list is not tested here, because its only parameter that selects rows is the base."""
    cursor = listing.page(2).cursor
    assert cursor
    assert [listing.error(cursor, **query) for query in listing.other_queries] == ["bad_cursor"] * len(
        listing.other_queries
    )
    assert listing.error(cursor) is None


@every_list
def test_a_cursor_of_another_shop_or_base_is_a_bad_cursor(shared_service: RunningService, kind: type[Listing]) -> None:
    listing, other = kind(shared_service, 10), kind(shared_service, 10)
    # Move the other branch to the same franchise. The bills of the two branches have the same IDs.
    shared_service.load(other.branch | {"franchiseId": listing.branch["franchiseId"]})
    cursor = listing.page(2).cursor
    assert cursor
    assert listing.error(cursor, **other.query) == "bad_cursor"
    assert listing.error(cursor) is None


@every_list
def test_a_cursor_whose_row_was_removed_is_a_bad_cursor(listing: Listing) -> None:
    bare = listing.page(2).cursor
    listing.move(2)
    *_, last = [page.cursor for page in listing.pages(2) if page.cursor]
    assert bare
    assert last
    assert (listing.error(bare), listing.error(last)) == (None, None)
    listing.remove(2)
    assert (listing.error(bare), listing.error(last)) == ("bad_cursor", "bad_cursor")


# --- how long a cursor is valid --------------------------------------------------------


@every_list
def test_a_cursor_used_on_day_6_is_valid_until_day_13(listing: Listing) -> None:
    cursor = listing.page(2).cursor
    assert cursor
    listing.service.clock.advance(6 * DAY_SEC)
    assert listing.error(cursor) is None
    listing.service.clock.advance(7 * DAY_SEC - 60)
    listing.service.prune_cursors()
    assert listing.page(2, cursor).rows == [3, 4]
    listing.service.clock.advance(7 * DAY_SEC + 60)
    assert listing.error(cursor) == "bad_cursor"


def test_a_cursor_handed_out_again_on_day_6_is_valid_until_day_13(shared_service: RunningService) -> None:
    listing = ChangeList(shared_service, 10)
    cursor = listing.page(2).cursor
    assert cursor
    shared_service.clock.advance(6 * DAY_SEC)
    assert listing.page(2).cursor == cursor
    shared_service.clock.advance(7 * DAY_SEC - 60)
    assert listing.page(2, cursor).rows == [3, 4]


@every_list
def test_cursors_stay_valid_after_their_pass_has_finished(listing: Listing) -> None:
    cursors = [page.cursor for page in listing.pages(2) if page.cursor]
    listing.service.clock.advance(7 * DAY_SEC - 60)
    listing.service.prune_cursors()
    assert [listing.page(2, cursor).rows[:1] for cursor in cursors] == [[3], [5], [7], [9], []]


# --- keys that may use a cursor ---------------------------------------------------------


@every_list
def test_the_successor_of_a_rotated_key_can_use_the_cursors_of_its_lineage(listing: Listing) -> None:
    bare = listing.page(2).cursor
    successor = listing.service.rotated(listing.key)
    after_next = listing.service.rotated(successor)
    listing.move(2)
    assert listing.page(2, bare, key=successor).rows == [3, 4]
    assert listing.page(2, bare, key=after_next).rows == [3, 4]
    # The row's ID is already a cursor of this lineage for the row's old position, so it is not handed out for the new
    # position.
    *_, page = [page for page in listing.pages(2, key=after_next) if page.cursor]
    assert page.rows[-1] == 2
    assert page.cursor not in (None, bare)
    assert listing.page(2, page.cursor).rows == []


@every_list
def test_another_key_gets_the_plain_id_of_a_row_although_the_first_key_holds_it(listing: Listing) -> None:
    listing.page(2)
    listing.move(2)
    *_, last = [page.cursor for page in listing.pages(2, key=listing.new_key()) if page.cursor]
    assert last == listing.row_id(2)


@every_list
def test_a_cursor_works_with_any_limit(listing: Listing) -> None:
    cursor = listing.page(2).cursor
    assert [listing.page(limit, cursor).rows[0] for limit in (1, 3, 200)] == [3, 3, 3]


# --- cursors of full pages ----------------------------------------------------------------


@every_list
def test_the_cursor_of_a_full_page_is_the_id_of_its_last_row_unless_it_is_held_for_another_position(
    listing: Listing,
) -> None:
    assert [page.cursor for page in listing.pages(2)] == [*map(listing.row_id, (2, 4, 6, 8, 10)), None]
    assert [page.cursor for page in listing.pages(2)] == [*map(listing.row_id, (2, 4, 6, 8, 10)), None]


@every_list
@every_limit
def test_a_row_held_for_several_positions_has_a_cursor_for_each(listing: Listing, limit: int) -> None:
    held = [listing.page(limit).cursor]
    for _ in range(3):
        listing.move(limit)
        held += [page.cursor for page in listing.pages(limit) if page.rows[-1:] == [limit]]
    assert len(set(held)) == 4
    first, *later = [listing.page(limit, cursor).rows for cursor in held]
    assert first == list(range(limit + 1, 2 * limit + 1))
    # The row was moved to the end each time, so nothing follows its later positions, except perhaps the row itself.
    assert all(rows in ([], [limit]) for rows in later)


@pytest.mark.parametrize(
    "id_form",
    ["{:08}", "x{:06}", "ORD-{:06}-A", "3fa85f64-5717-4562-b3fc-{:012}", "Kq7{:017}", "บิล{:06}", "a/b c+{:05}%"],
)
def test_a_fresh_cursor_has_the_shape_of_the_id(shared_service: RunningService, id_form: str) -> None:
    listing = ChangeList(shared_service, 10, id_form=id_form)
    bare = listing.page(2).cursor
    listing.move(2)
    *_, fresh = [page.cursor for page in listing.pages(2) if page.cursor]
    assert bare == listing.row_id(2)
    assert fresh
    assert fresh != bare
    assert listing.page(2, bare).rows == [3, 4]
    assert listing.page(2, fresh).rows == []
    assert (len(fresh), _classes(fresh) - _classes(bare)) == (len(bare), set())
    assert _separators(fresh) == _separators(bare)


def test_a_fresh_member_cursor_looks_like_a_member_token(shared_service: RunningService) -> None:
    listing = MemberList(shared_service, 10)
    bare = listing.page(2).cursor
    listing.move(2)
    *_, fresh = [page.cursor for page in listing.pages(2) if page.cursor]
    assert fresh != bare
    assert re.fullmatch(r"m1_[0-9A-Za-z]{32}", fresh or "")


def test_a_short_id_has_cursors_for_more_positions_than_ids_of_its_length_exist(
    shared_service: RunningService,
) -> None:
    listing = ChangeList(shared_service, 4, id_form="{}")
    held = []
    for _ in range(12):
        listing.move(2)
        held += [page.cursor for page in listing.pages(2) if page.rows[-1:] == [2]]
    assert len(set(held)) == len(held) == 12
    assert all(listing.page(2, cursor).rows in ([], [2]) for cursor in held)


# --- the horizon ------------------------------------------------------------------------


@lists_with_early_horizon
@every_limit
def test_no_page_reports_a_later_server_time_than_the_first(listing: Listing, limit: int) -> None:
    first = listing.page(limit)
    cursor = first.cursor
    while cursor:
        listing.edit(1)
        list(listing.pages(200))
        page = listing.page(limit, cursor)
        assert page.server_time <= first.server_time
        cursor = page.cursor


@lists_with_early_horizon
def test_readers_at_one_position_continue_with_the_earliest_horizon(listing: Listing) -> None:
    first = listing.page(2)
    listing.edit(1)
    second = listing.page(2)
    assert second.server_time > first.server_time
    assert second.cursor == first.cursor
    assert listing.page(2, second.cursor).server_time == first.server_time


def test_readers_of_the_change_list_at_one_position_continue_with_the_latest_horizon(
    shared_service: RunningService,
) -> None:
    listing = ChangeList(shared_service, 10)
    first = listing.page(2)
    listing.edit(10)
    second = listing.page(2)
    assert second.cursor == first.cursor
    assert {page.server_time for page in listing.pages(2, first.cursor)} == {second.server_time}
    assert listing.rows(2, first.cursor) == [3, 4, 5, 6, 7, 8, 9, 10]


@lists_with_early_horizon
def test_a_new_reader_does_not_continue_with_a_horizon_of_more_than_a_day_ago(listing: Listing) -> None:
    old = listing.page(2)
    listing.service.clock.advance(DAY_SEC + 60)
    listing.edit(1)
    new = listing.page(2)
    assert new.cursor != old.cursor
    assert {page.server_time for page in listing.pages(2, new.cursor)} == {new.server_time}
    # The old reader keeps its cursor and therefore its horizon.
    again = listing.page(2, old.cursor)
    assert (again.rows, again.server_time) == ([3, 4], old.server_time)


@lists_with_early_horizon
def test_a_daily_pass_always_reports_a_server_time_of_the_last_day(listing: Listing) -> None:
    for _ in range(20):
        listing.service.clock.advance(0.4 * DAY_SEC)
        listing.edit(1)
        pages = list(listing.pages(2))
        assert [row for page in pages for row in page.rows] == list(range(1, 11))
        assert min(page.server_time for page in pages) >= pages[0].server_time - timedelta(days=1, minutes=1)


@lists_with_early_horizon
def test_a_slow_reader_does_not_make_the_server_time_of_a_new_one_days_old(listing: Listing) -> None:
    slow = listing.page(2)
    listing.service.clock.advance(3 * DAY_SEC)
    listing.edit(1)
    # The slow reader reads the second page before the new reader does, and keeps its own horizon.
    assert listing.page(2, slow.cursor).server_time == slow.server_time
    new = listing.page(2)
    oldest = min(page.server_time for page in listing.pages(2, new.cursor))
    assert oldest >= new.server_time - timedelta(days=1, minutes=1)


# --- retries -----------------------------------------------------------------------------


@every_list
@every_limit
def test_a_retry_of_any_earlier_page_continues_at_its_position(listing: Listing, limit: int) -> None:
    ends = {page.rows[-1]: page.cursor for page in listing.pages(limit) if page.cursor}
    for end in list(ends)[:3]:
        listing.move(end)
        assert len(set(listing.rows(limit))) == listing.size
    for end, cursor in ends.items():
        behind = set(range(1, end + 1))
        rows = listing.rows(limit, cursor)
        unmoved = [row for row in range(end + 1, listing.size + 1) if row not in list(ends)[:3]]
        assert [row for row in rows if row in unmoved] == unmoved
        assert len(rows) == len(set(rows))
        assert not set(rows) & behind - set(list(ends)[:3])


@every_list
def test_a_retry_in_a_quiet_list_returns_the_same_page(listing: Listing) -> None:
    pages = list(listing.pages(2))
    for before, after in pairwise(pages):
        assert listing.page(2, before.cursor) == after


@every_list
def test_a_pass_ends_although_a_row_moves_after_every_page(listing: Listing, kind: type[Listing]) -> None:
    """In the list by day and the list of members, a move adds a row to the pass, so the moves stop after ten pages."""
    page = listing.page(1)
    read = set(page.rows)
    for number in range(1, 31):
        if page.cursor is None:
            break
        if kind is ChangeList or number <= 10:
            listing.move(page.rows[0])
        page = listing.page(1, page.cursor)
        read |= set(page.rows)
    assert page.cursor is None
    assert read == set(range(1, 11))


def test_a_pass_by_change_ends_although_others_begin_and_a_row_moves_after_every_page(
    shared_service: RunningService,
) -> None:
    """Readers at the same position share a horizon only if their passes began within a day of each other."""
    listing = ChangeList(shared_service, 3)
    cursor = listing.page(1).cursor
    for number in range(100):
        if cursor is None:
            break
        shared_service.clock.advance(3600)
        listing.move(1 + number % listing.size)
        listing.rows(1)
        cursor = listing.page(1, cursor).cursor
    assert cursor is None


@every_list
@every_limit
def test_overlapping_readers_all_read_everything(listing: Listing, limit: int, kind: type[Listing]) -> None:
    readers: list[tuple[str | None, set[int]]] = []
    for _ in range(3):
        readers.append((None, set()))
        for which, (cursor, read) in enumerate(readers):
            page = listing.page(limit, cursor)
            readers[which] = (page.cursor, read | set(page.rows))
            listing.move(*page.rows[-1:])
    for cursor, read in readers:
        rest = list(listing.pages(limit, cursor))
        read.update(row for page in rest for row in page.rows)
        if kind is ChangeList:
            read.update(listing.changed_since(rest[-1].server_time))
        assert read == set(range(1, listing.size + 1))


def _classes(text: str) -> set[str]:
    return {"digit" if c.isdecimal() else "upper" if c.isupper() else "letter" for c in text if c.isalnum()}


def _separators(text: str) -> list[tuple[int, str]]:
    return [(at, c) for at, c in enumerate(text) if c.isascii() and not c.isalnum()]
