"""GET /v1/transactions with `updatedSince`: bills by last change. No change may ever be missed.

tests/ports/test_ledger.py covers what is a change, and tests/domain/test_questions.py how an instant may be written.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from records import EVER, NEW_YEAR, Record, bill, bills, branch, member, shop
from running_service import RunningService


def open_shop_with_bill(service: RunningService, **fields: Any) -> tuple[Record, str, Record]:
    of = shop()
    record = bill(of, **fields)
    return of, service.key_for(of, record), record


def page(service: RunningService, of: Record, key: str, since: str, **query: Any) -> Record:
    body: Record = service.get("transactions", key, shopId=of["id"], updatedSince=since, **query).json()
    assert body["ok"], body
    return body


def ids(service: RunningService, of: Record, key: str, since: str) -> list[str]:
    return [row["id"] for row in page(service, of, key, since)["data"]]


def updated_at(service: RunningService, key: str, record: Record) -> datetime:
    return datetime.fromisoformat(service.data(f"transactions/{record['id']}", key)["updatedAt"])


def server_time(service: RunningService, key: str) -> datetime:
    return datetime.fromisoformat(service.get("shops", key).json()["serverTime"])


# --- which bills ------------------------------------------------------------------


@pytest.mark.parametrize(("milliseconds", "found"), [(-1, True), (0, True), (1, False)])
def test_a_bill_is_returned_when_it_changed_at_or_after_the_instant(
    shared_service: RunningService, milliseconds: int, found: bool
) -> None:
    of, key, record = open_shop_with_bill(shared_service)
    since = updated_at(shared_service, key, record) + timedelta(milliseconds=milliseconds)
    assert ids(shared_service, of, key, since.isoformat()) == ([record["id"]] if found else [])


def test_bills_are_listed_in_the_order_of_their_last_change(shared_service: RunningService) -> None:
    of = shop()
    one, two, three = bills(of, 3)
    key = shared_service.key_for(of)
    for record in (three, one, two, one | {"cashier": "Somebody else"}):
        shared_service.load(record)
    assert ids(shared_service, of, key, EVER) == [record["id"] for record in (three, two, one)]


def test_a_voided_bill_appears_again_in_an_incremental_read(shared_service: RunningService) -> None:
    of, key, record = open_shop_with_bill(shared_service)
    mark = page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(record)
    assert ids(shared_service, of, key, mark) == [], "loading the same record again is not a change"
    shared_service.load(record | {"void": {"reason": "Wrong table"}})
    (row,) = page(shared_service, of, key, mark)["data"]
    assert (row["id"], row["status"], row["voidReason"]) == (record["id"], "void", "Wrong table")


def test_a_bill_from_before_change_tracking_appears_once_it_changes(shared_service: RunningService) -> None:
    of, key, record = open_shop_with_bill(shared_service, history=True)
    query = {"shopId": of["id"], "updatedSince": EVER}
    assert shared_service.data("transactions", key, **query) == []
    assert shared_service.error("transactions", key, **query, cursor=record["id"]) == "bad_cursor"
    shared_service.load(record | {"void": True})
    (row,) = shared_service.data("transactions", key, **query)
    assert (row["id"], row["status"]) == (record["id"], "void")
    assert row["updatedAt"] is not None


def test_a_till_whose_clock_is_ahead_does_not_stamp_the_change(shared_service: RunningService) -> None:
    ahead = "2031-01-01T12:00:00+07:00"
    _, key, record = open_shop_with_bill(shared_service, closedAt=ahead, updatedAt=ahead)
    assert updated_at(shared_service, key, record).year == 2026


def test_loading_the_member_of_a_bill_does_not_change_the_bill(shared_service: RunningService) -> None:
    of = branch()
    someone = member(of)
    key = shared_service.key_for(of, bill(of, memberId=someone["id"]))
    mark = page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(someone)
    assert ids(shared_service, of, key, mark) == []


def test_a_plus_that_was_decoded_as_a_space_is_a_plus(shared_service: RunningService) -> None:
    of, key, record = open_shop_with_bill(shared_service)
    stamp = updated_at(shared_service, key, record).isoformat()
    for written, number in ((stamp, 1), (stamp.replace("+07:00", "+06:59"), 0)):
        assert "+" in written
        answer = shared_service.get(f"transactions?shopId={of['id']}&updatedSince={written}", key)
        assert len(answer.json()["data"]) == number


# --- serverTime ----------------------------------------------------------------------


def test_no_later_change_is_stamped_at_or_before_a_reported_server_time(shared_service: RunningService) -> None:
    of = shop()
    key = shared_service.key_for(of)
    for record in bills(of, 5):
        mark = page(shared_service, of, key, EVER)["serverTime"]
        shared_service.load(record)
        assert updated_at(shared_service, key, record) > datetime.fromisoformat(mark)


def test_the_server_time_of_any_answer_can_be_used_as_updated_since(shared_service: RunningService) -> None:
    of, key, old = open_shop_with_bill(shared_service)
    paths = ["shops", "usage", f"transactions?shopId={of['id']}&updatedSince={EVER}", f"transactions/{old['id']}"]
    for path, new in zip(paths, bills(of, 4), strict=True):
        mark = shared_service.get(path, key).json()["serverTime"]
        shared_service.load(new)
        assert ids(shared_service, of, key, mark) == [new["id"]], path


def test_a_clock_that_steps_back_loses_no_change(service: RunningService) -> None:
    of, key, old = open_shop_with_bill(service)
    mark = page(service, of, key, EVER)["serverTime"]
    service.clock.step(-3600)
    new = bill(of)
    service.load(new)
    assert new["id"] in ids(service, of, key, mark)
    assert updated_at(service, key, new) > updated_at(service, key, old)


def test_the_server_time_follows_the_horizon_updates_and_without_them_becomes_old_but_never_wrong(
    service: RunningService,
) -> None:
    key = service.key_for(shop())
    before = server_time(service, key)
    service.clock.advance(90)
    assert server_time(service, key) == before
    service.ledger.advance_horizon()
    assert (server_time(service, key) - before).total_seconds() == pytest.approx(90, abs=0.1)


# --- paging ------------------------------------------------------------------------


def test_every_page_of_a_pass_has_the_server_time_of_the_first(shared_service: RunningService) -> None:
    of = shop()
    key = shared_service.key_for(of, *bills(of, 6))
    first = page(shared_service, of, key, EVER, limit=2)
    shared_service.load(bill(of))
    last = page(shared_service, of, key, EVER, limit=10, cursor=first["nextCursor"])
    assert (last["serverTime"], last["nextCursor"]) == (first["serverTime"], None)


@pytest.mark.parametrize("mode", [{"updatedSince": EVER}, NEW_YEAR], ids=["by change", "by day"])
def test_a_cursor_that_is_not_a_bill_of_the_list_is_a_bad_cursor(shared_service: RunningService, mode: Record) -> None:
    of, key, _ = open_shop_with_bill(shared_service)
    for cursor in ("", "no-such-bill", "m1_abc", "0", "null", "\x00", "%00", "' OR 1=1 --", "x" * 5000):
        assert shared_service.error("transactions", key, shopId=of["id"], cursor=cursor, **mode) == "bad_cursor", cursor
    key = shared_service.key(shop="never-loaded")
    assert shared_service.error("transactions", key, shopId="never-loaded", cursor="x", **mode) == "bad_cursor"
