"""The operator can look up requests that were served over HTTP, refusals per day, and how fresh each copy is."""

from datetime import date, datetime
from typing import Any

import pytest
from httpx import Response

from actors import OPERATOR
from counterfoil import bootstrap, key_issuing
from counterfoil.domain.request_records import CopyState, ReadGap
from counterfoil.model.calendar import iso_utc, to_ms
from counterfoil.operator_reads import OperatorReads
from counterfoil.request_reads import DayOfKey, RequestFilter
from records import Record, bills, shop
from running_service import RunningService

TODAY = date(2026, 1, 1)


def id_of(key: str) -> str:
    return key.split("_")[2]


def written(service: RunningService) -> OperatorReads:
    """Stop the server, so that it writes all pending records; return an `OperatorReads` on its store."""
    service.restart()
    return bootstrap.store(service.settings).reads()


@pytest.fixture
def of(service: RunningService) -> Record:
    """A shop with five bills."""
    of = shop()
    service.load(of, *bills(of, 5))
    service.tick()
    return of


@pytest.fixture
def key(service: RunningService, of: Record) -> str:
    return service.key(shop=of["id"])


def changes(service: RunningService, key: str, of: Record, **query: Any) -> dict[str, Any]:
    answer = service.get("transactions", key, shopId=of["id"], updatedSince="2025-01-01T00:00:00Z", **query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def states(service: RunningService, key: str) -> list[tuple[str, str | None, str | None, bool]]:
    def text(state: CopyState) -> str | None:
        return None if state.server_time is None else iso_utc(state.server_time)

    return [
        (one.list_name, one.shop_id, text(one), one.finished) for one in written(service).copies().get(id_of(key), [])
    ]


# --- requests and refusals --------------------------------------------------------


def test_a_response_is_found_by_its_request_id(service: RunningService) -> None:
    key = service.key(shop="s")
    request_id = service.get("transactions/none", key).headers["x-request-id"]
    (found,) = written(service).requests(RequestFilter(request_id=request_id), 10).requests
    assert (found.key_id, found.route, found.status, found.error) == (id_of(key), "transactions/{id}", 404, "not_found")


def test_requests_that_are_not_admitted_are_counted_for_their_key(service: RunningService) -> None:
    key = service.key(shop="s", per_min=2)
    for _ in range(5):
        service.get("shops", key)
    service.clock.advance(61)
    key_issuing.revoke(service.key_store, id_of(key), service.clock.now_ms(), OPERATOR)
    service.clock.advance(10)
    assert service.error("shops", key) == "key_revoked"
    days = written(service).days(TODAY, TODAY, id_of(key))
    assert days == [DayOfKey(key_id=id_of(key), day=TODAY, requests=2, rate_limited=3, refused=1)]


# --- copies ----------------------------------------------------------------------


def test_a_pass_counts_only_when_its_last_page_has_been_sent(service: RunningService, of: Record, key: str) -> None:
    first = changes(service, key, of, limit=3)
    assert states(service, key) == [("changes", of["id"], None, False)]
    service.clock.advance(1)
    last = changes(service, key, of, limit=3, cursor=first["nextCursor"])
    assert states(service, key) == [("changes", of["id"], last["serverTime"], True)]


def test_an_unchanged_list_confirms_the_copy(service: RunningService, of: Record, key: str) -> None:
    query: dict[str, Any] = {"shopId": of["id"], "updatedSince": "2025-01-01T00:00:00Z"}
    tag = service.get("transactions", key, **query).headers["etag"]
    horizon = service.tick(5)
    assert service.get("transactions", key, headers={"if-none-match": tag}, **query).status_code == 304
    assert states(service, key) == [("changes", of["id"], iso_utc(horizon), True)]


@pytest.mark.parametrize("query", [{"from": "20260101", "to": "20260101"}, {"updatedSince": "nonsense"}])
def test_other_requests_say_nothing_about_a_copy(
    service: RunningService, of: Record, key: str, query: dict[str, Any]
) -> None:
    service.get("transactions", key, shopId=of["id"], **query)
    service.get("transactions", key, method="HEAD", shopId=of["id"], updatedSince="2025-01-01T00:00:00Z")
    assert states(service, key) == []


def poll(service: RunningService, key: str, of: Record, since: int, **headers: str) -> Response:
    """Advance the clock and the horizon by a second, then request the changes since `since`."""
    service.tick()
    return service.get("transactions", key, shopId=of["id"], updatedSince=iso_utc(since), headers=headers)


def ranges(service: RunningService, key: str) -> tuple[int, list[ReadGap], int | None]:
    (state,) = written(service).copies().get(id_of(key), [])
    return state.read_from, list(state.gaps), state.server_time


def server_time(answer: Response) -> int:
    return to_ms(datetime.fromisoformat(answer.json()["serverTime"]))


def test_changes_that_a_poll_skips_are_a_gap_until_they_are_read(service: RunningService, of: Record, key: str) -> None:
    last_mark = server_time(poll(service, key, of, 0))
    service.clock.advance(5 * 86_400)
    an_hour_ago = service.clock.now_ms() - 3_600_000
    first = poll(service, key, of, an_hour_ago)
    latest = server_time(first)
    assert ranges(service, key) == (0, [ReadGap(last_mark, an_hour_ago)], latest)
    unchanged = poll(service, key, of, an_hour_ago, **{"if-none-match": first.headers["etag"]})
    assert unchanged.status_code == 304
    assert ranges(service, key) == (0, [ReadGap(last_mark, an_hour_ago)], service.clock.now_ms())
    latest = server_time(poll(service, key, of, latest))
    assert ranges(service, key) == (0, [ReadGap(last_mark, an_hour_ago)], latest)
    latest = server_time(poll(service, key, of, last_mark))
    assert ranges(service, key) == (0, [], latest)


def test_a_pass_from_a_mark_of_the_feed_continues_the_copy(service: RunningService, of: Record, key: str) -> None:
    mark = service.get("changes", key).json()["mark"]
    for _ in range(2):
        horizon = service.tick(5 * 86_400)
        mark = service.get("changes", key, since=mark).json()["mark"]
    assert ranges(service, key) == (0, [], horizon)


def test_a_rotated_key_continues_the_copy_of_its_predecessor(service: RunningService, of: Record, key: str) -> None:
    mark = server_time(poll(service, key, of, 0))
    latest = server_time(poll(service, service.rotated(key), of, mark))
    assert ranges(service, key) == (0, [], latest)
