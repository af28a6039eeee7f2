"""GET /v1/transactions with `from` and `to`: bills by calendar day in the shop's time zone, oldest first."""

from itertools import chain
from typing import Any

import pytest

from records import EVER, NEW_YEAR, Record, bill, bills, branch, days, shop
from running_service import RunningService


def open_shop(service: RunningService, *records: Record, of: Record | None = None) -> tuple[Record, str]:
    """Load a shop with these bills; return the shop and a key for it."""
    of = of or shop()
    service.load(of, *[record | {"shopId": of["id"]} for record in records])
    return of, service.key(shop=of["id"], per_min=100_000)


def ids(service: RunningService, of: Record, key: str, **query: Any) -> list[str]:
    return [row["id"] for row in service.data("transactions", key, shopId=of["id"], **query)]


def read_all(service: RunningService, of: Record, key: str, **query: Any) -> list[list[str]]:
    """Follow nextCursor to the end; return the IDs on every page."""
    pages: list[list[str]] = []
    cursor: Record = {}
    while True:
        body = service.get("transactions", key, shopId=of["id"], **query, **cursor).json()
        pages.append([row["id"] for row in body["data"]])
        if body["nextCursor"] is None:
            return pages
        cursor = {"cursor": body["nextCursor"]}


# --- the answer ----------------------------------------------------------------


def test_the_answer_always_has_a_cursor_field_even_if_it_is_null(shared_service: RunningService) -> None:
    of, key = open_shop(shared_service)
    body = shared_service.get("transactions", key, shopId=of["id"], **NEW_YEAR).json()
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
    of, key = open_shop(shared_service, record, of=of)
    found = {day: ids(shared_service, of, key, **days(day)) for day in ("20260101", "20260102")}
    other = "20260102" if day == "20260101" else "20260101"
    assert found == {day: [record["id"]], other: []}


def test_the_day_is_the_calendar_day_and_not_the_accounting_day(shared_service: RunningService) -> None:
    of = shop(closingTime="04:00")
    record = bill(of, closedAt="2026-01-02T03:00:00+07:00", tradingDay="2026-01-01")
    of, key = open_shop(shared_service, record, of=of)
    assert ids(shared_service, of, key, **days("20260101")) == []
    assert ids(shared_service, of, key, **days("20260102")) == [record["id"]]


def test_both_ends_of_the_range_are_included(shared_service: RunningService) -> None:
    of = shop()
    records = [bill(of, closedAt=f"2026-01-{day:02}T12:00:00+07:00") for day in (4, 5, 6, 7, 8)]
    of, key = open_shop(shared_service, *records, of=of)
    assert ids(shared_service, of, key, **days("20260105", "20260107")) == [record["id"] for record in records[1:4]]


def test_bills_are_listed_oldest_first_whatever_the_order_of_loading(shared_service: RunningService) -> None:
    of = shop()
    records = bills(of, 6)
    of, key = open_shop(shared_service, *[records[place] for place in (3, 0, 5, 1, 4, 2)], of=of)
    assert ids(shared_service, of, key, **NEW_YEAR) == [record["id"] for record in records]


def test_voided_bills_are_returned(shared_service: RunningService) -> None:
    of = shop()
    of, key = open_shop(shared_service, bill(of, void={"reason": "x"}), of=of)
    assert [row["status"] for row in shared_service.data("transactions", key, shopId=of["id"], **NEW_YEAR)] == ["void"]


def test_bills_from_before_change_tracking_are_returned_without_updated_at(shared_service: RunningService) -> None:
    of = shop()
    of, key = open_shop(shared_service, bill(of, history=True), of=of)
    assert [row["updatedAt"] for row in shared_service.data("transactions", key, shopId=of["id"], **NEW_YEAR)] == [None]


# --- the range ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "last"), [("20260101", "20260131"), ("20240229", "20240229"), ("20240201", "20240302")]
)
def test_a_range_of_up_to_31_days_is_read(shared_service: RunningService, first: str, last: str) -> None:
    of, key = open_shop(shared_service)
    assert shared_service.get("transactions", key, shopId=of["id"], **days(first, last)).status_code == 200


@pytest.mark.parametrize(
    ("first", "last"), [("20260101", "20260201"), ("00010101", "99991231"), ("20260102", "20260101")]
)
def test_a_range_over_31_days_or_in_reverse_is_a_bad_query(
    shared_service: RunningService, first: str, last: str
) -> None:
    of, key = open_shop(shared_service)
    assert shared_service.error("transactions", key, shopId=of["id"], **days(first, last)) == "bad_query"


@pytest.mark.parametrize("end", ["from", "to"])
@pytest.mark.parametrize("day", ["2026-01-01", "20250229", "", "today"])
def test_a_day_that_is_not_a_valid_yyyymmdd_date_is_a_bad_query(
    shared_service: RunningService, end: str, day: str
) -> None:
    of, key = open_shop(shared_service)
    assert shared_service.error("transactions", key, shopId=of["id"], **(NEW_YEAR | {end: day})) == "bad_query"


@pytest.mark.parametrize("query", [{}, {"from": "20260101"}, NEW_YEAR | {"updatedSince": EVER}], ids="+".join)
def test_a_request_with_both_modes_or_neither_is_a_bad_query(shared_service: RunningService, query: Record) -> None:
    of, key = open_shop(shared_service)
    answer = shared_service.get("transactions", key, shopId=of["id"], **query)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_query")


@pytest.mark.parametrize("query", [{}, {"shopId": ""}, {"shopid": "x"}, {"shop": "x"}])
def test_a_request_without_a_shop_id_is_a_bad_query(shared_service: RunningService, query: Record) -> None:
    _, key = open_shop(shared_service)
    assert shared_service.error("transactions", key, **query, **NEW_YEAR) == "bad_query"


# --- scope ----------------------------------------------------------------------------


def test_a_shop_outside_the_scope_is_refused(shared_service: RunningService) -> None:
    theirs, neighbour = branch(), branch()
    shared_service.load(theirs, neighbour)
    for key in (shared_service.key(shop=neighbour["id"]), shared_service.key(franchise=neighbour["franchiseId"])):
        answer = shared_service.get("transactions", key, shopId=theirs["id"], **NEW_YEAR)
        assert (answer.status_code, answer.json()["error"]) == (403, "shop_not_in_scope")


@pytest.mark.parametrize("asked", ["no-such-shop", "%", "*", "' OR 1=1 --", "\x00"])
def test_a_shop_that_does_not_exist_is_answered_like_one_outside_the_scope(
    shared_service: RunningService, asked: str
) -> None:
    mine, theirs = branch(), branch()
    shared_service.load(mine, theirs)
    key = shared_service.key(franchise=mine["franchiseId"])
    unknown = shared_service.get("transactions", key, shopId=asked, **NEW_YEAR)
    outside = shared_service.get("transactions", key, shopId=theirs["id"], **NEW_YEAR)
    assert (unknown.status_code, unknown.content) == (outside.status_code, outside.content)


def test_the_key_of_a_shop_that_was_never_loaded_reads_an_empty_list(shared_service: RunningService) -> None:
    key = shared_service.key(shop="never-loaded")
    assert shared_service.data("transactions", key, shopId="never-loaded", **NEW_YEAR) == []


# --- parameters ----------------------------------------------------------------------------


def test_if_a_parameter_is_given_twice_the_first_one_counts(shared_service: RunningService) -> None:
    of, key = open_shop(shared_service)
    query = f"shopId={of['id']}&shopId=other&from=20260101&from=x&to=20260101&to=x"
    assert shared_service.get(f"transactions?{query}", key).status_code == 200


def test_unknown_parameters_are_ignored(shared_service: RunningService) -> None:
    of, key = open_shop(shared_service)
    assert (
        shared_service.data("transactions", key, shopId=of["id"], page=3, offset="x", providerId="y", **NEW_YEAR) == []
    )


def test_parameter_names_are_compared_exactly(shared_service: RunningService) -> None:
    of, key = open_shop(shared_service)
    assert shared_service.error("transactions", key, shopId=of["id"], From="20260101", To="20260101") == "bad_query"


# --- limit --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy(shared_service: RunningService) -> tuple[Record, str]:
    """A shop with 205 bills."""
    of = shop()
    return open_shop(shared_service, *[bill(of, lines=[], payments=[], amounts={}) for _ in range(205)], of=of)


@pytest.mark.parametrize(
    ("limit", "rows"),
    [("1", 1), ("200", 200), ("201", 200), ("7.9", 7), ("0", 100), ("-1", 100), ("", 100), ("ten", 100)],
)
def test_a_limit_is_never_refused(
    shared_service: RunningService, busy: tuple[Record, str], limit: str, rows: int
) -> None:
    of, key = busy
    assert len(ids(shared_service, of, key, limit=limit, **NEW_YEAR)) == rows


def test_without_a_limit_a_page_has_100_rows(shared_service: RunningService, busy: tuple[Record, str]) -> None:
    of, key = busy
    assert len(ids(shared_service, of, key, **NEW_YEAR)) == 100


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
    of, key = open_shop(shared_service, *records, of=of)
    pages = read_all(shared_service, of, key, limit=limit, **NEW_YEAR)
    assert [len(page) for page in pages] == sizes
    assert list(chain(*pages)) == [record["id"] for record in records]


# --- invalid cursors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cursor", ["", "no-such-bill", "m1_abc", "0", "null", "\x00", "%00", "' OR 1=1 --", "x" * 5000]
)
def test_a_cursor_that_is_not_a_bill_of_the_list_is_a_bad_cursor(shared_service: RunningService, cursor: str) -> None:
    of = shop()
    of, key = open_shop(shared_service, *bills(of, 3), of=of)
    answer = shared_service.get("transactions", key, shopId=of["id"], cursor=cursor, **NEW_YEAR)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_cursor")
