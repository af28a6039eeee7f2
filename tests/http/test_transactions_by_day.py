"""GET /v1/transactions with `from` and `to`: bills by calendar day in the shop's time zone, oldest first."""

from itertools import chain
from typing import Any

import pytest

from records import NEW_YEAR, Record, bill, bills, branch, days, shop
from running_service import RunningService


def ids(service: RunningService, of: Record, key: str, **query: Any) -> list[str]:
    return [row["id"] for row in service.data("transactions", key, shopId=of["id"], **query)]


def test_the_answer_always_has_a_cursor_field_even_if_it_is_null(shared_service: RunningService) -> None:
    of = shop()
    body = shared_service.get("transactions", shared_service.key_for(of), shopId=of["id"], **NEW_YEAR).json()
    assert list(body) == ["ok", "data", "nextCursor", "serverTime"]
    assert (body["ok"], body["data"], body["nextCursor"]) == (True, [], None)


# --- which bills ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "closed_at", "day"),
    [
        ("Asia/Bangkok", "2026-01-01T16:59:59.999Z", "20260101"),
        ("Asia/Bangkok", "2026-01-01T17:00:00Z", "20260102"),
        ("Asia/Tokyo", "2026-01-01T14:59:59Z", "20260101"),
        ("Asia/Tokyo", "2026-01-01T15:00:00Z", "20260102"),
        ("America/New_York", "2026-01-02T04:59:59Z", "20260101"),
        (None, "2026-01-01T17:00:00Z", "20260102"),
        ("Mars/Olympus", "2026-01-01T17:00:00Z", "20260102"),
    ],
)
def test_a_bill_is_found_on_its_calendar_day_in_the_shops_time_zone(
    shared_service: RunningService, zone: str | None, closed_at: str, day: str
) -> None:
    of = shop(timezone=zone)
    record = bill(of, closedAt=closed_at)
    key = shared_service.key_for(of, record)
    found = {day: ids(shared_service, of, key, **days(day)) for day in ("20260101", "20260102")}
    other = "20260102" if day == "20260101" else "20260101"
    assert found == {day: [record["id"]], other: []}


def test_the_day_is_the_calendar_day_and_not_the_accounting_day(shared_service: RunningService) -> None:
    of = shop(closingTime="04:00")
    record = bill(of, closedAt="2026-01-02T03:00:00+07:00", tradingDay="2026-01-01")
    key = shared_service.key_for(of, record)
    assert ids(shared_service, of, key, **days("20260101")) == []
    assert ids(shared_service, of, key, **days("20260102")) == [record["id"]]


def test_both_ends_of_the_range_are_included(shared_service: RunningService) -> None:
    of = shop()
    records = [bill(of, closedAt=f"2026-01-{day:02}T12:00:00+07:00") for day in (4, 5, 6, 7, 8)]
    key = shared_service.key_for(of, *records)
    assert ids(shared_service, of, key, **days("20260105", "20260107")) == [record["id"] for record in records[1:4]]


def test_bills_are_listed_oldest_first_whatever_the_order_of_loading(shared_service: RunningService) -> None:
    of = shop()
    records = bills(of, 6)
    key = shared_service.key_for(of, *[records[place] for place in (3, 0, 5, 1, 4, 2)])
    assert ids(shared_service, of, key, **NEW_YEAR) == [record["id"] for record in records]


def test_voided_bills_and_those_from_before_change_tracking_are_returned(shared_service: RunningService) -> None:
    of = shop()
    key = shared_service.key_for(of, bill(of, void={"reason": "x"}), bill(of, history=True))
    voided, old = shared_service.data("transactions", key, shopId=of["id"], **NEW_YEAR)
    assert (voided["status"], old["status"], old["updatedAt"]) == ("void", "completed", None)


# --- parameters: tests/domain/test_questions.py covers those that are refused -------------------


@pytest.mark.parametrize(
    ("first", "last"), [("20260101", "20260131"), ("20240229", "20240229"), ("20240201", "20240302")]
)
def test_a_range_of_up_to_31_days_is_read(shared_service: RunningService, first: str, last: str) -> None:
    of = shop()
    assert ids(shared_service, of, shared_service.key_for(of), **days(first, last)) == []


def test_unknown_parameters_are_ignored(shared_service: RunningService) -> None:
    of = shop()
    unknown = {"page": 3, "offset": "x", "providerId": "y"}
    assert ids(shared_service, of, shared_service.key_for(of), **unknown, **NEW_YEAR) == []


def test_a_limit_is_never_refused(shared_service: RunningService) -> None:
    of = shop()
    key = shared_service.key_for(of, *[bill(of, lines=[], payments=[], amounts={}) for _ in range(205)])
    sizes = {"1": 1, "200": 200, "201": 200, "7.9": 7, "0": 100, "-1": 100, "": 100, "ten": 100}
    assert {limit: len(ids(shared_service, of, key, limit=limit, **NEW_YEAR)) for limit in sizes} == sizes
    assert len(ids(shared_service, of, key, **NEW_YEAR)) == 100


# --- scope ----------------------------------------------------------------------------


def test_a_shop_outside_the_scope_is_refused_like_one_that_does_not_exist(shared_service: RunningService) -> None:
    theirs, neighbour = branch(), branch()
    shared_service.load(theirs, neighbour)
    for key in (shared_service.key(shop=neighbour["id"]), shared_service.key(franchise=neighbour["franchiseId"])):
        answers = [
            shared_service.get("transactions", key, shopId=asked, **NEW_YEAR)
            for asked in (theirs["id"], "no-such-shop", "%", "*", "' OR 1=1 --", "\x00")
        ]
        assert {(answer.status_code, answer.content) for answer in answers} == {(403, answers[0].content)}
        assert answers[0].json()["error"] == "shop_not_in_scope"


def test_the_key_of_a_shop_that_was_never_loaded_reads_an_empty_list(shared_service: RunningService) -> None:
    key = shared_service.key(shop="never-loaded")
    assert shared_service.data("transactions", key, shopId="never-loaded", **NEW_YEAR) == []


# --- paging -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "limit", "sizes"),
    [
        (0, 2, [0]),
        (1, 2, [1]),
        (2, 2, [2, 0]),
        (3, 2, [2, 1]),
        (4, 2, [2, 2, 0]),
        (5, 1, [1] * 5 + [0]),
        (5, 5, [5, 0]),
    ],
)
def test_a_full_page_has_a_cursor_and_a_shorter_one_ends_the_list(
    shared_service: RunningService, number: int, limit: int, sizes: list[int]
) -> None:
    of = shop()
    records = bills(of, number)
    key = shared_service.key_for(of, *records)
    pages = [
        body["data"] for body in shared_service.pages("transactions", key, shopId=of["id"], limit=limit, **NEW_YEAR)
    ]
    assert [len(page) for page in pages] == sizes
    assert [row["id"] for row in chain(*pages)] == [record["id"] for record in records]
