"""A cursor continues from the position that it was issued for, even if its row has changed since."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from actors import OPERATOR
from counterfoil import key_issuing
from running_service import RunningService

SINCE = "2020-01-01T00:00:00Z"
CHANGES = {"shopId": "s", "updatedSince": SINCE}
DAYS = {"shopId": "s", "from": "20260101", "to": "20260131"}


def bill(number: int, **fields: Any) -> dict[str, Any]:
    closed_at = f"2026-01-{number:02}T12:00:00+07:00"
    return {"kind": "bill", "id": f"b{number}", "shopId": "s", "closedAt": closed_at, **fields}


@pytest.fixture
def key(service: RunningService) -> str:
    """A key for a shop with six bills, each of which changed at a different instant."""
    service.load({"kind": "shop", "id": "s"})
    for number in range(1, 7):
        service.clock.advance(1)
        service.load(bill(number))
    return service.key(shop="s", per_min=10_000)


def page(
    service: RunningService, key: str, cursor: str | None = None, **query: Any
) -> tuple[list[str], str | None, str]:
    if cursor is not None:
        query["cursor"] = cursor
    body = service.get("transactions", key, **query).json()
    assert body["ok"], body
    return [row["id"] for row in body["data"]], body["nextCursor"], body["serverTime"]


def rest(service: RunningService, key: str, cursor: str | None, **query: Any) -> Iterator[str]:
    """Yield the row IDs on the remaining pages of a pass."""
    for _ in range(100):
        if cursor is None:
            return
        ids, cursor, _ = page(service, key, cursor, **query)
        yield from ids
    raise AssertionError("the pass does not end")


def test_a_full_page_returns_the_id_of_its_last_row_as_cursor(service: RunningService, key: str) -> None:
    ids, cursor, _ = page(service, key, limit=2, **CHANGES)
    assert (ids, cursor) == (["b1", "b2"], "b2")


def test_a_last_page_that_is_exactly_full_is_followed_by_an_empty_one(service: RunningService, key: str) -> None:
    _, cursor, _ = page(service, key, limit=6, **CHANGES)
    assert page(service, key, cursor, limit=6, **CHANGES)[:2] == ([], None)


@pytest.mark.parametrize("query", [CHANGES, DAYS])
@pytest.mark.parametrize("limit", range(1, 8))
def test_an_undisturbed_pass_reads_every_row_once(
    service: RunningService, key: str, query: dict[str, str], limit: int
) -> None:
    ids, cursor, _ = page(service, key, limit=limit, **query)
    assert [*ids, *rest(service, key, cursor, limit=limit, **query)] == ["b1", "b2", "b3", "b4", "b5", "b6"]


def test_a_pass_continues_at_its_position_when_the_cursors_row_has_changed(service: RunningService, key: str) -> None:
    _, cursor, _ = page(service, key, limit=2, **CHANGES)
    service.clock.advance(1)
    service.load(bill(2, void=True))
    assert list(rest(service, key, cursor, limit=2, **CHANGES)) == ["b3", "b4", "b5", "b6"]


def test_a_row_that_changed_during_a_pass_is_in_the_next_one(service: RunningService, key: str) -> None:
    _, cursor, server_time = page(service, key, limit=2, **CHANGES)
    service.clock.advance(1)
    service.load(bill(2, void=True))
    list(rest(service, key, cursor, limit=2, **CHANGES))
    assert page(service, key, shopId="s", updatedSince=server_time)[0] == ["b2"]


def test_all_pages_of_a_pass_have_the_server_time_of_the_first(service: RunningService, key: str) -> None:
    _, cursor, first = page(service, key, limit=2, **CHANGES)
    service.clock.advance(60)
    service.load(bill(9))
    assert page(service, key, cursor, limit=2, **CHANGES)[2] == first


def test_a_pass_by_day_continues_at_its_position_when_the_cursors_row_has_moved(
    service: RunningService, key: str
) -> None:
    _, cursor, _ = page(service, key, limit=2, **DAYS)
    service.load(bill(2) | {"closedAt": "2026-01-20T12:00:00+07:00"})
    assert list(rest(service, key, cursor, limit=2, **DAYS)) == ["b3", "b4", "b5", "b6", "b2"]


def test_a_pass_by_day_continues_when_the_cursors_row_has_left_the_range(service: RunningService, key: str) -> None:
    _, cursor, _ = page(service, key, limit=2, **DAYS)
    service.load(bill(2) | {"closedAt": "2026-03-20T12:00:00+07:00"})
    assert list(rest(service, key, cursor, limit=2, **DAYS)) == ["b3", "b4", "b5", "b6"]


def test_a_pass_ends_although_every_page_is_followed_by_a_change(service: RunningService, key: str) -> None:
    ids, cursor, _ = page(service, key, limit=1, **CHANGES)
    for change in range(20):
        if cursor is None:
            break
        service.clock.advance(1)
        service.load(bill(1 + change % 6, receiptNumber=str(change)))
        more, cursor, _ = page(service, key, cursor, limit=1, **CHANGES)
        ids += more
    assert cursor is None


def test_a_pass_ends_although_others_begin_after_every_page_and_every_page_is_followed_by_a_change(
    service: RunningService, key: str
) -> None:
    """Readers at the same position share a horizon only if their passes began within a day of each other."""
    _, cursor, _ = page(service, key, limit=1, **CHANGES)
    for change in range(200):
        if cursor is None:
            break
        service.clock.advance(3600)
        service.load(bill(1 + change % 6, receiptNumber=str(change)))
        _, other, _ = page(service, key, limit=1, **CHANGES)
        list(rest(service, key, other, limit=1, **CHANGES))
        _, cursor, _ = page(service, key, cursor, limit=1, **CHANGES)
    assert cursor is None


def test_a_retried_page_is_the_same_page(service: RunningService, key: str) -> None:
    _, cursor, _ = page(service, key, limit=2, **CHANGES)
    first = page(service, key, cursor, limit=2, **CHANGES)
    service.clock.advance(1)
    service.load(bill(2, void=True))
    assert page(service, key, cursor, limit=2, **CHANGES) == first


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_two_concurrent_passes_of_one_key_do_not_affect_each_other(
    service: RunningService, key: str, limit: int
) -> None:
    ids, cursor, _ = page(service, key, limit=limit, **CHANGES)
    service.clock.advance(1)
    service.load(*(bill(int(read[1:]), receiptNumber="changed") for read in ids))
    others, other, _ = page(service, key, limit=limit, **CHANGES)
    others += rest(service, key, other, limit=limit, **CHANGES)
    ids += rest(service, key, cursor, limit=limit, **CHANGES)
    everything = {"b1", "b2", "b3", "b4", "b5", "b6"}
    assert (set(ids), set(others)) == (everything, everything)


def test_the_slower_of_two_passes_at_one_position_keeps_its_position_when_a_third_joins(
    service: RunningService, key: str
) -> None:
    starts = [page(service, key, limit=2, **CHANGES)[1] for _ in range(2)]
    faster, slower = (page(service, key, cursor, limit=2, **CHANGES)[1] for cursor in starts)
    assert faster == slower == "b4"
    assert list(rest(service, key, faster, limit=2, **CHANGES)) == ["b5", "b6"]
    service.clock.advance(1)
    service.load(bill(4, receiptNumber="changed"))
    third, cursor, _ = page(service, key, limit=2, **CHANGES)
    while len(third) < 6:
        more, cursor, _ = page(service, key, cursor, limit=2, **CHANGES)
        third += more
    assert list(rest(service, key, slower, limit=2, **CHANGES))[:2] == ["b5", "b6"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_second_full_pass_after_changes_gets_full_pages_and_ends(
    service: RunningService, key: str, limit: int
) -> None:
    _, cursor, _ = page(service, key, limit=limit, **CHANGES)
    list(rest(service, key, cursor, limit=limit, **CHANGES))
    service.clock.advance(1)
    service.load(bill(2, void=True), bill(3, void=True))
    ids, cursor, _ = page(service, key, limit=limit, **CHANGES)
    assert len(ids) == limit
    assert [*ids, *rest(service, key, cursor, limit=limit, **CHANGES)] == ["b1", "b4", "b5", "b6", "b2", "b3"]


def test_a_plain_id_that_was_never_handed_out_is_a_bad_cursor(service: RunningService, key: str) -> None:
    assert service.error("transactions", key, cursor="b4", **CHANGES) == "bad_cursor"
    assert service.error("transactions", key, cursor="b4", **DAYS) == "bad_cursor"


def test_a_cursor_whose_row_no_longer_exists_is_a_bad_cursor(service: RunningService, key: str) -> None:
    _, cursor, _ = page(service, key, limit=2, **CHANGES)
    service.load({"kind": "bill", "id": "b2", "shopId": "s", "removed": True})
    assert service.error("transactions", key, cursor=cursor, **CHANGES) == "bad_cursor"


@pytest.mark.parametrize("cursor", ["", "nonsense", "b2 ", "B2", "b2\x00", "%", "ก" * 300])
def test_a_value_that_is_not_a_row_id_is_a_bad_cursor(service: RunningService, key: str, cursor: str) -> None:
    assert service.error("transactions", key, cursor=cursor, **CHANGES) == "bad_cursor"


def test_a_cursor_of_the_other_mode_is_a_bad_cursor(service: RunningService, key: str) -> None:
    _, cursor, _ = page(service, key, limit=2, **DAYS)
    assert service.error("transactions", key, cursor=cursor, **CHANGES) == "bad_cursor"


def test_a_cursor_of_another_shop_is_a_bad_cursor(service: RunningService, key: str) -> None:
    service.load({"kind": "shop", "id": "t"}, bill(8, shopId="t"))
    assert service.error("transactions", key, cursor="b8", **CHANGES) == "bad_cursor"


def test_a_bill_from_before_change_tracking_is_not_a_cursor_by_change(service: RunningService, key: str) -> None:
    service.load(bill(8, history=True))
    assert service.error("transactions", key, cursor="b8", **CHANGES) == "bad_cursor"


def test_rows_that_share_an_instant_are_paged_without_loss(service: RunningService, key: str) -> None:
    service.clock.advance(1)
    service.load(*(bill(number, receiptNumber="x") for number in range(1, 7)))
    ids, cursor, _ = page(service, key, limit=4, **CHANGES)
    assert [*ids, *rest(service, key, cursor, limit=4, **CHANGES)] == ["b1", "b2", "b3", "b4", "b5", "b6"]


def test_the_lower_bound_includes_its_instant(service: RunningService, key: str) -> None:
    changed_at = service.data("transactions/b4", key)["updatedAt"]
    assert page(service, key, shopId="s", updatedSince=changed_at)[0] == ["b4", "b5", "b6"]


@pytest.mark.parametrize("seconds", [-3600, -1, 0, 3600])
def test_a_stamp_is_above_every_reported_server_time_whatever_the_clock_does(
    service: RunningService, key: str, seconds: int
) -> None:
    server_time = page(service, key, **CHANGES)[2]
    service.clock.step(seconds)
    service.load(bill(2, void=True))
    assert page(service, key, shopId="s", updatedSince=server_time)[0][-1] == "b2"


def test_a_pass_through_members_continues_at_its_position_when_the_sign_up_of_the_cursors_member_changed(
    service: RunningService,
) -> None:
    def member(number: int, day: int) -> dict[str, Any]:
        return {"kind": "member", "id": str(number), "providerId": "p", "createdAt": f"2025-01-{day:02}T00:00:00Z"}

    service.load({"kind": "shop", "id": "s", "providerId": "p"}, *(member(number, number) for number in range(1, 6)))
    key = service.key(shop="s")
    cursor = service.get("members", key, providerId="p", limit=2).json()["nextCursor"]
    service.load(member(2, 28))
    ids = [row["memberId"] for row in service.data("members", key, providerId="p", cursor=cursor)]
    assert ids == [service.token(member_id) for member_id in ("3", "4", "5", "2")]


def test_a_pass_by_day_keeps_its_server_time_despite_a_later_pass(service: RunningService, key: str) -> None:
    """Otherwise the first reader would miss the change to a bill that it has already read: its mark would be newer."""
    _, cursor, first = page(service, key, limit=2, **DAYS)
    service.clock.advance(1)
    service.load(bill(1, void=True))
    page(service, key, limit=2, **DAYS)
    assert page(service, key, cursor, limit=2, **DAYS)[2] == first


def test_a_pass_by_day_keeps_its_server_time_when_a_later_pass_ends_before_it(
    service: RunningService, key: str
) -> None:
    _, cursor, first = page(service, key, limit=2, **DAYS)
    service.clock.advance(1)
    service.load(bill(1, void=True))
    _, other, _ = page(service, key, limit=2, **DAYS)
    list(rest(service, key, other, limit=2, **DAYS))
    assert page(service, key, cursor, limit=2, **DAYS)[2] == first


def test_a_pass_by_change_during_a_later_one_misses_nothing_whichever_mark_is_kept(
    service: RunningService, key: str
) -> None:
    _, cursor, first = page(service, key, limit=2, **CHANGES)
    service.clock.advance(1)
    service.load(bill(1, void=True), bill(6, void=True))
    page(service, key, limit=3, **CHANGES)
    page(service, key, limit=2, **CHANGES)
    read: set[str] = set()
    last = first
    while cursor is not None:
        ids, cursor, last = page(service, key, cursor, limit=2, **CHANGES)
        read |= set(ids)
    later = {mark: page(service, key, shopId="s", updatedSince=mark)[0] for mark in (first, last)}
    assert all({"b1", "b6"} <= read | set(ids) for ids in later.values())


def test_a_successor_by_rotation_continues_its_predecessors_pass(service: RunningService, key: str) -> None:
    _, cursor, _ = page(service, key, limit=2, **CHANGES)
    service.clock.advance(1)
    service.load(bill(2, void=True))
    key_id = key.split("_")[2]
    successor = key_issuing.rotate(
        service.key_store, key_id, secrets.token_bytes, service.clock.now_ms(), OPERATOR
    ).text
    assert page(service, successor, cursor, limit=2, **CHANGES)[0] == ["b3", "b4"]


def test_a_key_works_as_soon_as_it_is_issued(service: RunningService, key: str) -> None:
    service.get("usage", key)
    assert service.get("usage", service.key(shop="s")).status_code == 200


@pytest.mark.parametrize("query", [CHANGES, DAYS])
def test_a_first_page_requested_a_hundred_times_allows_each_pass_to_continue(
    service: RunningService, key: str, query: dict[str, str]
) -> None:
    _, cursor, first = page(service, key, limit=2, **query)
    for _ in range(100):
        service.clock.advance(0.01)
        service.ledger.advance_horizon()
        assert page(service, key, limit=2, **query)[1] == cursor
    last = page(service, key, limit=2, **query)[2]
    # The cursor's row moves to the end. New readers do not get the row's ID as a cursor while an earlier reader may
    # still use it.
    service.clock.advance(1)
    service.load(bill(2, closedAt="2026-01-30T12:00:00+07:00"))
    for _ in range(15):
        ids, after, _ = page(service, key, limit=5, **query)
        assert [*ids, *rest(service, key, after, limit=5, **query)] == ["b1", "b3", "b4", "b5", "b6", "b2"]
        read = list(rest(service, key, cursor, limit=2, **query))
        assert read[:4] == ["b3", "b4", "b5", "b6"]
        assert page(service, key, cursor, limit=2, **query)[2] == (last if query is CHANGES else first)


def test_a_pass_by_change_reports_its_own_server_time_however_often_the_list_is_read(
    service: RunningService, key: str
) -> None:
    for _ in range(100):
        service.clock.advance(1)
        service.ledger.advance_horizon()
        ids, cursor, first = page(service, key, limit=3, **CHANGES)
        more, cursor, second = page(service, key, cursor, limit=3, **CHANGES)
        assert (ids, more) == (["b1", "b2", "b3"], ["b4", "b5", "b6"])
        assert page(service, key, cursor, limit=3, **CHANGES) == ([], None, first)
        assert first == second


def test_a_pass_by_day_reports_the_earliest_server_time_of_the_last_day(service: RunningService, key: str) -> None:
    """Readers of a list share its cursors, and the service cannot tell the readers apart."""
    earliest = page(service, key, limit=3, **DAYS)[2]
    for hour in range(1, 60):
        service.clock.advance(3600)
        service.ledger.advance_horizon()
        _, cursor, first = page(service, key, limit=3, **DAYS)
        if hour % 25 == 0:
            earliest = first
        assert page(service, key, cursor, limit=3, **DAYS)[2] == earliest
