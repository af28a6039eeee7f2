"""GET /v1/digests over HTTP: parameters, pages and scope. tests/ports/test_digests.py covers the totals."""

from typing import Any

import pytest

from records import Record, bill, branch
from running_service import RunningService


@pytest.fixture
def of(shared_service: RunningService) -> Record:
    """A branch with one bill on each of four days, and one undated bill."""
    of = branch()
    dated = [bill(of, closedAt=f"2026-01-0{day}T12:00:00+07:00") for day in range(1, 5)]
    shared_service.load(of, *dated, bill(of, closedAt=None))
    shared_service.tick()
    return of


@pytest.fixture
def key(shared_service: RunningService, of: Record) -> str:
    return shared_service.key(franchise=of["franchiseId"], per_min=1000)


def days(service: RunningService, key: str, **query: Any) -> list[str | None]:
    return [digest["day"] for digest in service.data("digests", key, **query)]


def test_every_day_has_a_digest_and_bills_without_a_date_are_a_day_of_their_own(
    shared_service: RunningService, of: Record, key: str
) -> None:
    found = shared_service.data("digests", key)
    assert [digest["day"] for digest in found] == [None, "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    assert {(digest["shopId"], digest["bills"], digest["voids"], digest["net"]) for digest in found} == {
        (of["id"], 1, 0, 120)
    }


def test_days_can_be_selected_and_then_bills_without_a_date_are_left_out(
    shared_service: RunningService, key: str
) -> None:
    assert days(shared_service, key, **{"from": "20260102", "to": "20260103"}) == ["2026-01-02", "2026-01-03"]
    assert days(shared_service, key, **{"from": "20260104"}) == ["2026-01-04"]
    assert days(shared_service, key, to="20260101") == ["2026-01-01"]
    assert days(shared_service, key, **{"from": "19000101", "to": "20991231"})[0] == "2026-01-01"


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_digests_are_read_page_by_page(shared_service: RunningService, of: Record, key: str, limit: int) -> None:
    found: list[Record] = []
    times = set()
    for page in shared_service.pages("digests", key, limit=limit):
        found += page["data"]
        times.add(page["serverTime"])
        shared_service.tick()
    assert found == shared_service.data("digests", key)
    assert len(times) == 1


def test_a_parameter_that_cannot_be_read_is_refused(shared_service: RunningService, key: str) -> None:
    queries = [{"from": "2026-01-01"}, {"to": "20260230"}, {"from": "20260102", "to": "20260101"}, {"shopId": ""}]
    assert [shared_service.error("digests", key, **query) for query in queries] == ["bad_query"] * 4


def test_a_shop_outside_the_scope_is_refused(shared_service: RunningService, of: Record, key: str) -> None:
    other = branch()
    shared_service.load(other, bill(other))
    assert shared_service.error("digests", key, shopId=other["id"]) == "shop_not_in_scope"
    own = shared_service.key(shop=other["id"])
    assert shared_service.error("digests", own, shopId=of["id"]) == "shop_not_in_scope"
    assert days(shared_service, own, shopId=other["id"]) == ["2026-01-01"]
    assert len(days(shared_service, key)) == 5


def test_a_cursor_of_another_list_or_key_is_refused(shared_service: RunningService, of: Record, key: str) -> None:
    cursor = shared_service.get("digests", key, limit=2).json()["nextCursor"]
    assert days(shared_service, key, cursor=cursor) == ["2026-01-02", "2026-01-03", "2026-01-04"]
    other = shared_service.key(franchise=of["franchiseId"])
    assert shared_service.error("digests", other, cursor=cursor) == "bad_cursor"
    assert shared_service.error("digests", key, cursor=cursor, shopId=of["id"]) == "bad_cursor"
    assert shared_service.error("digests", key, cursor=cursor, to="20260104") == "bad_cursor"
    assert shared_service.error("digests", key, cursor=("B" if cursor[0] == "A" else "A") + cursor[1:]) == "bad_cursor"
    assert shared_service.error("digests", key, cursor="") == "bad_cursor"
    assert shared_service.error("changes", key, cursor=cursor) == "bad_cursor"
