"""Readers that use the same key share cursors, but each cursor stands for exactly one position.

The service cannot tell apart two jobs that read the same list with the same key.
Whatever one of them does, the other must neither miss a row nor receive a
`serverTime` that is too late.
"""

from collections.abc import Iterator
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


# --- a cursor that is no longer valid -----------------------------------------------------


@every_list
@every_limit
def test_an_expired_cursor_is_a_bad_cursor(listing: Listing, limit: int) -> None:
    cursor = listing.cursor(limit)
    listing.move(limit)
    listing.service.clock.advance(7 * DAY_SEC + 1)
    assert listing.error(cursor) == "bad_cursor"
    listing.service.prune_cursors()
    assert listing.error(cursor) == "bad_cursor"


@every_list
@every_limit
def test_a_cursor_of_another_key_is_a_bad_cursor(listing: Listing, limit: int) -> None:
    other_key = listing.new_key()
    cursor = listing.cursor(limit)
    assert listing.error(cursor, key=other_key) == "bad_cursor"
    listing.move(limit)
    assert listing.error(cursor, key=other_key) == "bad_cursor"
    assert listing.error(cursor) is None


@pytest.mark.parametrize("kind", [ChangeList, DayList])
def test_a_cursor_is_a_bad_cursor_with_any_other_parameters(listing: Listing) -> None:
    """The member list is not tested here, because its only parameter that selects rows is the base."""
    cursor = listing.cursor(2)
    assert {listing.error(cursor, **query) for query in listing.other_queries} == {"bad_cursor"}
    assert listing.error(cursor) is None


@every_list
def test_a_cursor_of_another_shop_or_base_is_a_bad_cursor(shared_service: RunningService, kind: type[Listing]) -> None:
    listing, other = kind(shared_service, 10), kind(shared_service, 10)
    # Move the other branch to the same franchise. The bills of the two branches have the same IDs.
    shared_service.load(other.branch | {"franchiseId": listing.branch["franchiseId"]})
    cursor = listing.cursor(2)
    assert listing.error(cursor, **other.query) == "bad_cursor"
    assert listing.error(cursor) is None


@every_list
def test_a_cursor_whose_row_was_removed_is_a_bad_cursor(listing: Listing) -> None:
    bare = listing.cursor(2)
    listing.move(2)
    *_, last = [page.cursor for page in listing.pages(2) if page.cursor]
    assert (listing.error(bare), listing.error(last)) == (None, None)
    listing.remove(2)
    assert (listing.error(bare), listing.error(last)) == ("bad_cursor", "bad_cursor")


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


def test_a_short_id_has_cursors_for_more_positions_than_ids_of_its_length_exist(shared_service: RunningService) -> None:
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
