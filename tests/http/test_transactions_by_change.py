"""GET /v1/transactions with `updatedSince`: bills by last change. No change may ever be missed."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from records import EVER, Record, bill, bills, branch, line, member, shop
from running_service import RunningService


def open_shop(service: RunningService, *records: Record, of: Record | None = None) -> tuple[Record, str]:
    """Load a shop with these bills; return the shop and a key for it."""
    of = of or shop()
    service.load(of, *[record | {"shopId": of["id"]} for record in records])
    return of, service.key(shop=of["id"], per_min=1_000_000, per_day=1_000_000)


def open_shop_with_bill(service: RunningService, **fields: Any) -> tuple[Record, str, Record]:
    of = shop()
    record = bill(of, **fields)
    return *open_shop(service, record, of=of), record


def page(service: RunningService, of: Record, key: str, since: str, **query: Any) -> Record:
    body: Record = service.get("transactions", key, shopId=of["id"], updatedSince=since, **query).json()
    assert body["ok"], body
    return body


def ids(service: RunningService, of: Record, key: str, since: str, **query: Any) -> list[str]:
    return [row["id"] for row in page(service, of, key, since, **query)["data"]]


def updated_at(service: RunningService, key: str, record: Record) -> str:
    return str(service.data(f"transactions/{record['id']}", key)["updatedAt"])


def server_time(service: RunningService, key: str) -> str:
    return str(service.get("shops", key).json()["serverTime"])


def moved(instant: str, milliseconds: int) -> str:
    """Return the instant this many milliseconds later, in the format that the parameter expects."""
    return (datetime.fromisoformat(instant) + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")


# --- which bills ------------------------------------------------------------------


@pytest.mark.parametrize(("milliseconds", "found"), [(-1, True), (0, True), (1, False)])
def test_a_bill_is_returned_when_it_changed_at_or_after_the_instant(
    shared_service: RunningService, milliseconds: int, found: bool
) -> None:
    of, key, record = open_shop_with_bill(shared_service)
    since = moved(updated_at(shared_service, key, record), milliseconds)
    assert ids(shared_service, of, key, since) == ([record["id"]] if found else [])


def test_bills_are_listed_in_the_order_of_their_last_change(shared_service: RunningService) -> None:
    of = shop()
    one, two, three = bills(of, 3)
    of, key = open_shop(shared_service, of=of)
    for record in (three, one, two, one | {"cashier": "Somebody else"}):
        shared_service.load(record)
    assert ids(shared_service, of, key, EVER) == [record["id"] for record in (three, two, one)]


def test_a_voided_bill_appears_again_in_an_incremental_read(shared_service: RunningService) -> None:
    of, key, record = open_shop_with_bill(shared_service)
    mark = page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(record | {"void": {"reason": "Wrong table"}})
    (row,) = page(shared_service, of, key, mark)["data"]
    assert (row["id"], row["status"], row["voidReason"]) == (record["id"], "void", "Wrong table")


def test_a_bill_from_before_change_tracking_appears_once_it_changes(shared_service: RunningService) -> None:
    of, key, record = open_shop_with_bill(shared_service, history=True)
    shared_service.load(record | {"void": True})
    (row,) = page(shared_service, of, key, EVER)["data"]
    assert (row["id"], row["status"]) == (record["id"], "void")
    assert row["updatedAt"] is not None


def test_a_till_whose_clock_is_ahead_does_not_stamp_the_change(shared_service: RunningService) -> None:
    _, key, record = open_shop_with_bill(
        shared_service, closedAt="2031-01-01T12:00:00+07:00", updatedAt="2031-01-01T12:00:00+07:00"
    )
    assert updated_at(shared_service, key, record).startswith("2026-01-01")


def test_an_instant_in_the_future_gives_an_empty_page(shared_service: RunningService) -> None:
    of, key, _ = open_shop_with_bill(shared_service)
    body = page(shared_service, of, key, "2099-01-01T00:00:00Z")
    assert (body["data"], body["nextCursor"]) == ([], None)


# --- what is a change --------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [{"lines": [line(qty=2)]}, {"payments": []}, {"memberId": "4711"}, {"cashier": "Somebody else"}], ids=str
)
def test_a_visible_change_moves_updated_at(shared_service: RunningService, change: Record) -> None:
    of, key, record = open_shop_with_bill(shared_service)
    before, mark = updated_at(shared_service, key, record), page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(record | change)
    assert updated_at(shared_service, key, record) > before
    assert ids(shared_service, of, key, mark) == [record["id"]]


@pytest.mark.parametrize("change", [{}, {"accountingStatus": "sent"}, {"customer": {"name": "Somchai"}}], ids=str)
def test_an_invisible_change_does_not_move_updated_at(shared_service: RunningService, change: Record) -> None:
    _, key, record = open_shop_with_bill(shared_service)
    before = updated_at(shared_service, key, record)
    shared_service.load(record | change)
    assert updated_at(shared_service, key, record) == before


@pytest.mark.parametrize(
    ("change", "is_shown"),
    [({"timezone": "Asia/Tokyo"}, True), ({"franchiseId": None}, True), ({"name": "Renamed"}, False)],
)
def test_a_shop_setting_is_a_change_of_its_bills_if_it_shows_on_them(
    shared_service: RunningService, change: Record, is_shown: bool
) -> None:
    of = branch()
    record = bill(of)
    of, key = open_shop(shared_service, record, of=of)
    mark = page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(of | change)
    assert ids(shared_service, of, key, mark) == ([record["id"]] if is_shown else [])


def test_loading_the_member_of_a_bill_does_not_change_the_bill(shared_service: RunningService) -> None:
    of = branch()
    someone = member(of)
    of, key = open_shop(shared_service, bill(of, memberId=someone["id"]), of=of)
    mark = page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(someone)
    assert ids(shared_service, of, key, mark) == []


# --- the instant ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def stamped(shared_service: RunningService) -> tuple[Record, str, str]:
    """A shop with one bill, its key, and the bill's updatedAt in UTC, without the zone suffix."""
    of = shop(timezone="UTC")
    record = bill(of)
    of, key = open_shop(shared_service, record, of=of)
    return of, key, updated_at(shared_service, key, record).removesuffix("+00:00")


@pytest.mark.parametrize("written", ["{}Z", "{}+00:00", "{} 00:00", "{}999Z"])
def test_an_instant_is_read_in_any_iso_form_with_an_offset(
    shared_service: RunningService, stamped: tuple[Record, str, str], written: str
) -> None:
    of, key, instant = stamped
    assert len(ids(shared_service, of, key, written.format(instant))) == 1


def test_a_plus_that_was_decoded_as_a_space_is_a_plus(
    shared_service: RunningService, stamped: tuple[Record, str, str]
) -> None:
    of, key, instant = stamped
    answer = shared_service.get(f"transactions?shopId={of['id']}&updatedSince={instant}+00:00", key)
    assert len(answer.json()["data"]) == 1


@pytest.mark.parametrize("since", ["", "2026-01-01", "2026-01-01T00:00:00", "1767225600", "2026-01-01T00:00:00Z\x00"])
def test_an_invalid_instant_is_a_bad_query(shared_service: RunningService, since: str) -> None:
    of, key = open_shop(shared_service)
    answer = shared_service.get("transactions", key, shopId=of["id"], updatedSince=since)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_query")


# --- serverTime ----------------------------------------------------------------------


def test_no_later_change_is_stamped_at_or_before_a_reported_server_time(shared_service: RunningService) -> None:
    of, key = open_shop(shared_service)
    for record in bills(of, 5):
        mark = page(shared_service, of, key, EVER)["serverTime"]
        shared_service.load(record)
        assert datetime.fromisoformat(updated_at(shared_service, key, record)) > datetime.fromisoformat(mark)


@pytest.mark.parametrize("endpoint", ["shops", "usage", "list", "one"])
def test_the_server_time_of_any_answer_can_be_used_as_updated_since(
    shared_service: RunningService, endpoint: str
) -> None:
    of = shop()
    old, new = bills(of, 2)
    of, key = open_shop(shared_service, old, of=of)
    if endpoint == "list":
        mark = page(shared_service, of, key, EVER)["serverTime"]
    else:
        path = f"transactions/{old['id']}" if endpoint == "one" else endpoint
        mark = shared_service.get(path, key).json()["serverTime"]
    shared_service.load(new)
    assert new["id"] in ids(shared_service, of, key, mark)


def test_a_clock_that_steps_back_loses_no_change(service: RunningService) -> None:
    of = shop()
    old, new = bills(of, 2)
    of, key = open_shop(service, old, of=of)
    mark = page(service, of, key, EVER)["serverTime"]
    service.clock.step(-3600)
    service.load(new)
    assert new["id"] in ids(service, of, key, mark)
    assert updated_at(service, key, new) > updated_at(service, key, old)


def test_the_server_time_follows_the_clock_while_nothing_changes(service: RunningService) -> None:
    _, key = open_shop(service)
    before = server_time(service, key)
    service.clock.advance(90)
    service.ledger.advance_horizon()
    passed = datetime.fromisoformat(server_time(service, key)) - datetime.fromisoformat(before)
    assert passed.total_seconds() == pytest.approx(90, abs=0.1)


def test_without_the_horizon_updates_server_time_becomes_old_but_never_wrong(service: RunningService) -> None:
    _, key = open_shop(service)
    before = server_time(service, key)
    service.clock.advance(3600)
    assert server_time(service, key) == before


# --- paging ------------------------------------------------------------------------


def test_every_page_of_a_pass_has_the_server_time_of_the_first(shared_service: RunningService) -> None:
    of = shop()
    of, key = open_shop(shared_service, *bills(of, 6), of=of)
    first = page(shared_service, of, key, EVER, limit=2)
    shared_service.load(bill(of))
    last = page(shared_service, of, key, EVER, limit=10, cursor=first["nextCursor"])
    assert (last["serverTime"], last["nextCursor"]) == (first["serverTime"], None)


@pytest.mark.parametrize("cursor", ["", "no-such-bill", "m1_abc", "\x00"])
def test_a_cursor_that_is_not_a_bill_of_the_list_is_a_bad_cursor(shared_service: RunningService, cursor: str) -> None:
    of, key, _ = open_shop_with_bill(shared_service)
    assert shared_service.error("transactions", key, shopId=of["id"], updatedSince=EVER, cursor=cursor) == "bad_cursor"


def test_a_bill_without_updated_at_is_not_a_cursor_by_change(shared_service: RunningService) -> None:
    of, key, record = open_shop_with_bill(shared_service, history=True)
    assert (
        shared_service.error("transactions", key, shopId=of["id"], updatedSince=EVER, cursor=record["id"])
        == "bad_cursor"
    )
