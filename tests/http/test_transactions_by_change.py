"""GET /v1/transactions with `updatedSince`: bills by last change. No change may ever be missed."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records import EVER, NEW_YEAR, Record, bill, bills, branch, fresh, line, member, removal, shop
from running_service import RunningService


def open_shop(service: RunningService, *records: Record, of: Record | None = None) -> tuple[Record, str]:
    """Load a shop with these bills; return the shop and a key for it."""
    of = of or shop()
    service.load(of, *[record | {"shopId": of["id"]} for record in records])
    return of, service.key(shop=of["id"], per_min=1_000_000, per_day=1_000_000)


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
    of = shop()
    record = bill(of)
    of, key = open_shop(shared_service, record, of=of)
    since = moved(updated_at(shared_service, key, record), milliseconds)
    assert ids(shared_service, of, key, since) == ([record["id"]] if found else [])


def test_bills_are_listed_in_the_order_of_their_last_change(shared_service: RunningService) -> None:
    of = shop()
    one, two, three = bills(of, 3)
    of, key = open_shop(shared_service, of=of)
    for record in (three, one, two, one | {"cashier": "Somebody else"}):
        shared_service.load(record)
    assert ids(shared_service, of, key, EVER) == [record["id"] for record in (three, two, one)]


def test_a_bill_appears_once_however_often_it_changed(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of)
    of, key = open_shop(shared_service, record, of=of)
    for number in range(4):
        shared_service.load(record | {"cashier": f"Cashier {number}"})
    assert ids(shared_service, of, key, EVER) == [record["id"]]


def test_a_voided_bill_appears_again_in_an_incremental_read(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of)
    of, key = open_shop(shared_service, record, of=of)
    mark = page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(record | {"void": {"reason": "Wrong table"}})
    (row,) = page(shared_service, of, key, mark)["data"]
    assert (row["id"], row["status"], row["voidReason"]) == (record["id"], "void", "Wrong table")


def test_a_bill_from_before_change_tracking_never_appears(shared_service: RunningService) -> None:
    of = shop()
    of, key = open_shop(shared_service, bill(of, history=True), of=of)
    assert ids(shared_service, of, key, EVER) == []


def test_a_bill_from_before_change_tracking_appears_once_it_changes(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of, history=True)
    of, key = open_shop(shared_service, record, of=of)
    shared_service.load(record | {"void": True})
    (row,) = page(shared_service, of, key, EVER)["data"]
    assert (row["id"], row["status"]) == (record["id"], "void")
    assert row["updatedAt"] is not None


def test_a_known_bill_does_not_become_history(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of)
    of, key = open_shop(shared_service, record, of=of)
    shared_service.load(record | {"history": True, "cashier": "Somebody else"})
    assert ids(shared_service, of, key, EVER) == [record["id"]]


def test_a_bill_without_a_readable_time_appears(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of, closedAt="?")
    of, key = open_shop(shared_service, record, of=of)
    assert ids(shared_service, of, key, EVER) == [record["id"]]


def test_a_removed_bill_no_longer_appears(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of)
    of, key = open_shop(shared_service, record, removal(record), of=of)
    assert ids(shared_service, of, key, EVER) == []


def test_an_old_bill_from_a_till_that_was_offline_counts_as_a_change(shared_service: RunningService) -> None:
    of, key = open_shop(shared_service)
    mark = page(shared_service, of, key, EVER)["serverTime"]
    late = bill(of, closedAt="2025-12-30T12:00:00+07:00")
    shared_service.load(late)
    assert ids(shared_service, of, key, mark) == [late["id"]]


def test_a_till_whose_clock_is_ahead_does_not_stamp_the_change(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of, closedAt="2031-01-01T12:00:00+07:00", updatedAt="2031-01-01T12:00:00+07:00")
    of, key = open_shop(shared_service, record, of=of)
    assert updated_at(shared_service, key, record).startswith("2026-01-01")


def test_changes_of_other_shops_do_not_appear(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    mine, neighbour = branch(franchiseId=franchise), branch(franchiseId=franchise)
    record = bill(mine)
    shared_service.load(mine, neighbour, record, bill(neighbour))
    assert ids(shared_service, mine, shared_service.key(franchise=franchise), EVER) == [record["id"]]


def test_an_instant_in_the_future_gives_an_empty_page(shared_service: RunningService) -> None:
    of = shop()
    of, key = open_shop(shared_service, bill(of), of=of)
    body = page(shared_service, of, key, "2099-01-01T00:00:00Z")
    assert (body["data"], body["nextCursor"]) == ([], None)


# --- what is a change --------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"void": True},
        {"lines": [line(), line(productId="p-tea")]},
        {"lines": [line(qty=2)]},
        {"lines": [line(cancelled=True)]},
        {"lines": [line(options=[{"id": "egg"}])]},
        {"lines": [line(categoryIds=[])]},
        {"payments": [{"name": "Card", "amount": 120}]},
        {"payments": []},
        {"amounts": {"subtotal": 120, "net": 120, "tip": 0}},
        {"amounts": {"subtotal": 120, "net": 120, "coupons": [{"id": "c"}]}},
        {"memberId": "4711"},
        {"closedAt": "2026-01-01T12:00:01+07:00"},
        {"tradingDay": "2025-12-31"},
        {"taxNumber": "TX-1"},
        {"receiptNumber": "R-2"},
        {"orderIds": ["o1"]},
        {"deviceId": "d2"},
        {"stationId": "s2"},
        {"channel": "take_away"},
        {"table": {"id": "t1", "name": "A2"}},
        {"buffetPackageId": "pkg"},
        {"cashier": "Somebody else"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_visible_change_moves_updated_at(shared_service: RunningService, change: Record) -> None:
    of = shop()
    record = bill(of)
    of, key = open_shop(shared_service, record, of=of)
    before, mark = updated_at(shared_service, key, record), page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(record | change)
    assert updated_at(shared_service, key, record) > before
    assert ids(shared_service, of, key, mark) == [record["id"]]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"accountingStatus": "sent"},
        {"rev": 7},
        {"customer": {"name": "Somchai"}},
        {"amounts": {"subtotal": "120.00", "net": 120.0}},
        {"closedAt": "2026-01-01T05:00:00Z"},
        {"closedAt": 1767243600},
        {"history": True},
        {"editedBy": "manager-1", "editedAt": "2026-01-05T00:00:00Z"},
    ],
    ids=lambda change: next(iter(change), "nothing"),
)
def test_an_invisible_change_does_not_move_updated_at(shared_service: RunningService, change: Record) -> None:
    of = shop()
    record = bill(of)
    of, key = open_shop(shared_service, record, of=of)
    before = updated_at(shared_service, key, record)
    shared_service.load(record | change)
    assert updated_at(shared_service, key, record) == before


@pytest.mark.parametrize(
    "change",
    [
        {"timezone": "Asia/Tokyo"},
        {"closingTime": "00:30"},
        {"closingTime": None},
        {"franchiseId": "another"},
        {"franchiseId": None},
        {"categories": [{"id": "c-soups", "grouping": True}]},
    ],
    ids=str,
)
def test_a_shop_setting_that_shows_on_its_bills_is_a_change_of_them(
    shared_service: RunningService, change: Record
) -> None:
    of = branch()
    record = bill(of, closedAt="2026-01-01T01:00:00+07:00")
    of, key = open_shop(shared_service, record, of=of)
    mark = page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(of | change)
    assert ids(shared_service, of, key, mark) == [record["id"]]


@pytest.mark.parametrize("change", [{"name": "Renamed"}, {"providerId": "another"}, {"phone": "02-111-1111"}])
def test_a_shop_setting_that_does_not_show_on_its_bills_does_not_change_them(
    shared_service: RunningService, change: Record
) -> None:
    of = branch()
    of, key = open_shop(shared_service, bill(of), of=of)
    mark = page(shared_service, of, key, EVER)["serverTime"]
    shared_service.load(of | change)
    assert ids(shared_service, of, key, mark) == []


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


@pytest.mark.parametrize(
    "written",
    [
        "{date}T{time}.{ms}Z",
        "{date}T{time}.{ms}z",
        "{date}t{time}.{ms}Z",
        "{date} {time}.{ms}Z",
        "{date}T{time},{ms}Z",
        "{date}T{time}.{ms}+00:00",
        "{date}T{time}.{ms}-00:00",
        "{date}T{time}.{ms}+0000",
        "{date}T{time}.{ms}+00",
        "{date}T{time}.{ms} 00:00",
        "{date}T{time}.{ms}000Z",
        "{date}T{time}.{ms}999999Z",
        "{date}T{time}Z",
        "{date}T{hours}:{minutes}Z",
        "{date}T{hours}Z",
        "{plain}T{time}.{ms}Z",
    ],
)
def test_an_instant_is_read_in_any_iso_form_with_an_offset(
    shared_service: RunningService, stamped: tuple[Record, str, str], written: str
) -> None:
    of, key, instant = stamped
    date, _, rest = instant.partition("T")
    time, _, ms = rest.partition(".")
    hours, minutes, _ = time.split(":")
    since = written.format(date=date, plain=date.replace("-", ""), time=time, ms=ms, hours=hours, minutes=minutes)
    assert len(ids(shared_service, of, key, since)) == 1


@pytest.mark.parametrize("offset", ["+07:00", "-03:30", "+14:00"])
def test_the_offset_of_an_instant_counts(
    shared_service: RunningService, stamped: tuple[Record, str, str], offset: str
) -> None:
    of, key, instant = stamped
    moment = datetime.fromisoformat(instant + "+00:00")
    zone = datetime.fromisoformat(f"2026-01-01T00:00:00{offset}").tzinfo
    at = moment.astimezone(zone).isoformat(timespec="milliseconds")
    after = (moment + timedelta(milliseconds=1)).astimezone(zone).isoformat(timespec="milliseconds")
    assert [len(ids(shared_service, of, key, since)) for since in (at, after)] == [1, 0]


def test_a_plus_that_was_decoded_as_a_space_is_a_plus(
    shared_service: RunningService, stamped: tuple[Record, str, str]
) -> None:
    of, key, instant = stamped
    at = datetime.fromisoformat(instant + "+00:00").astimezone(
        datetime.fromisoformat("2026-01-01T00:00:00+07:00").tzinfo
    )
    written = at.isoformat(timespec="milliseconds")
    answer = shared_service.get(f"transactions?shopId={of['id']}&updatedSince={written}", key)
    assert len(answer.json()["data"]) == 1


@pytest.mark.parametrize(
    "since",
    [
        "",
        "2026-01-01",
        "20260101",
        "1767225600",
        "1767225600000",
        "yesterday",
        "2026-01-01T00:00:00",
        "2026-01-01T25:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T00:00:00+25:00",
        "2026-01-01T00:00:00 Asia/Bangkok",
        "2026-01-01T00:00:00ZZ",
        " 2026-01-01T00:00:00Z",
        "๒๐๒๖-01-01T00:00:00Z",
        "2026-W01-1T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "null",
        "2026-01-01T00:00:00Z\x00",
    ],
)
def test_an_invalid_instant_is_a_bad_query(shared_service: RunningService, since: str) -> None:
    of, key = open_shop(shared_service)
    answer = shared_service.get("transactions", key, shopId=of["id"], updatedSince=since)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_query")


def test_an_instant_without_an_offset_is_refused_with_the_reason(shared_service: RunningService) -> None:
    of, key = open_shop(shared_service)
    message = shared_service.get("transactions", key, shopId=of["id"], updatedSince="2026-01-01T00:00:00").json()[
        "message"
    ]
    assert "ambiguous" in message


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00+23:59"])
def test_the_first_and_last_day_of_the_calendar_can_be_requested(shared_service: RunningService, since: str) -> None:
    of, key = open_shop(shared_service)
    assert ids(shared_service, of, key, since) == []


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
    of = shop()
    of, key = open_shop(service, of=of)
    before = server_time(service, key)
    service.clock.advance(3600)
    assert server_time(service, key) == before


# --- paging ------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "limit"), [(5, 2), (4, 2), (3, 1), (6, 3), (6, 10)])
def test_a_page_may_end_among_bills_that_changed_together(
    shared_service: RunningService, number: int, limit: int
) -> None:
    of = shop()
    records = bills(of, number)
    of, key = open_shop(shared_service, *records, of=of)
    seen: list[str] = []
    cursor: Record = {}
    while True:
        body = page(shared_service, of, key, EVER, limit=limit, **cursor)
        seen += [row["id"] for row in body["data"]]
        if body["nextCursor"] is None:
            break
        cursor = {"cursor": body["nextCursor"]}
    assert sorted(seen) == sorted(record["id"] for record in records)


def test_the_cursor_is_the_id_of_the_last_row(shared_service: RunningService) -> None:
    of = shop()
    of, key = open_shop(shared_service, *bills(of, 3), of=of)
    body = page(shared_service, of, key, EVER, limit=2)
    assert body["nextCursor"] == body["data"][-1]["id"]


def test_an_exactly_full_last_page_is_followed_by_an_empty_one(shared_service: RunningService) -> None:
    of = shop()
    of, key = open_shop(shared_service, *bills(of, 2), of=of)
    cursor = page(shared_service, of, key, EVER, limit=2)["nextCursor"]
    body = page(shared_service, of, key, EVER, limit=2, cursor=cursor)
    assert (body["data"], body["nextCursor"]) == ([], None)


def test_nothing_is_skipped_when_the_row_of_the_cursor_changes(shared_service: RunningService) -> None:
    of = shop()
    records = bills(of, 6)
    of, key = open_shop(shared_service, *records, of=of)
    cursor = page(shared_service, of, key, EVER, limit=2)["nextCursor"]
    changed = next(record for record in records if record["id"] == cursor)
    shared_service.load(changed | {"void": True})
    rest = ids(shared_service, of, key, EVER, limit=10, cursor=cursor)
    assert set(rest) >= {record["id"] for record in records[2:]}


def test_a_bill_changed_during_a_pass_is_found_from_the_server_time_of_the_pass(shared_service: RunningService) -> None:
    of = shop()
    records = bills(of, 6)
    of, key = open_shop(shared_service, *records, of=of)
    first = page(shared_service, of, key, EVER, limit=2)
    shared_service.load(records[0] | {"void": True})
    last = page(shared_service, of, key, EVER, limit=10, cursor=first["nextCursor"])
    assert ids(shared_service, of, key, last["serverTime"]) == [records[0]["id"]]


def test_every_page_of_a_pass_has_the_server_time_of_the_first(shared_service: RunningService) -> None:
    of = shop()
    of, key = open_shop(shared_service, *bills(of, 6), of=of)
    first = page(shared_service, of, key, EVER, limit=2)
    shared_service.load(bill(of))
    last = page(shared_service, of, key, EVER, limit=10, cursor=first["nextCursor"])
    assert (last["serverTime"], last["nextCursor"]) == (first["serverTime"], None)


@pytest.mark.parametrize("cursor", ["", "no-such-bill", "m1_abc", "\x00"])
def test_a_cursor_that_is_not_a_bill_of_the_list_is_a_bad_cursor(shared_service: RunningService, cursor: str) -> None:
    of = shop()
    of, key = open_shop(shared_service, bill(of), of=of)
    assert shared_service.error("transactions", key, shopId=of["id"], updatedSince=EVER, cursor=cursor) == "bad_cursor"


def test_a_cursor_of_the_list_by_day_is_a_bad_cursor(shared_service: RunningService) -> None:
    of = shop()
    of, key = open_shop(shared_service, *bills(of, 3), of=of)
    cursor = shared_service.get("transactions", key, shopId=of["id"], limit=2, **NEW_YEAR).json()["nextCursor"]
    assert shared_service.error("transactions", key, shopId=of["id"], updatedSince=EVER, cursor=cursor) == "bad_cursor"


def test_a_bill_without_updated_at_is_not_a_cursor_by_change(shared_service: RunningService) -> None:
    of = shop()
    record = bill(of, history=True)
    of, key = open_shop(shared_service, record, of=of)
    assert (
        shared_service.error("transactions", key, shopId=of["id"], updatedSince=EVER, cursor=record["id"])
        == "bad_cursor"
    )


def test_a_cursor_whose_bill_was_removed_is_a_bad_cursor(shared_service: RunningService) -> None:
    of = shop()
    records = bills(of, 3)
    of, key = open_shop(shared_service, *records, of=of)
    cursor = page(shared_service, of, key, EVER, limit=2)["nextCursor"]
    shared_service.load(removal(next(record for record in records if record["id"] == cursor)))
    assert shared_service.error("transactions", key, shopId=of["id"], updatedSince=EVER, cursor=cursor) == "bad_cursor"


# --- the contract's procedure -------------------------------------------------------------


class Follower:
    """A client that keeps a copy by following the contract's procedure, one request at a time."""

    def __init__(self, service: RunningService, of: Record, key: str) -> None:
        self._service, self._of, self._key = service, of, key
        self.copy: dict[str, Record] = {}
        self._mark = EVER
        self._cursor: str | None = None

    def step(self, limit: int) -> bool:
        """Read one page; return whether the pass is complete."""
        query = {"cursor": self._cursor} if self._cursor else {}
        body = page(self._service, self._of, self._key, self._mark, limit=limit, **query)
        for row in body["data"]:
            known = self.copy.get(row["id"])
            if known is None or known["updatedAt"] <= row["updatedAt"]:
                self.copy[row["id"]] = row
        self._cursor = body["nextCursor"]
        if self._cursor is None:
            self._mark = body["serverTime"]
        return self._cursor is None

    def finish(self) -> None:
        """Finish the current pass, then complete another one."""
        for _ in range(2):
            while not self.step(3):
                pass


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 3)),
        st.tuples(st.just("change"), st.integers(0, 5)),
        st.tuples(st.just("read"), st.integers(1, 4)),
        st.tuples(st.just("clock"), st.sampled_from([-5.0, -0.001, 0.0, 0.001, 2.0])),
        st.tuples(st.just("tick"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(operations=OPERATIONS)
def test_a_client_that_follows_the_procedure_ends_with_the_data_of_the_service(
    shared_service: RunningService, operations: list[tuple[str, Any]]
) -> None:
    of, key = open_shop(shared_service)
    client = Follower(shared_service, of, key)
    held: list[Record] = []
    for what, argument in operations:
        match what:
            case "add":
                news = [bill(of, lines=[], cashier="0") for _ in range(argument)]
                shared_service.load(*news)
                held += news
            case "change" if held:
                place = argument % len(held)
                held[place] = held[place] | {"cashier": str(int(held[place]["cashier"]) + 1)}
                shared_service.load(held[place])
            case "read":
                client.step(argument)
            case "clock":
                shared_service.clock.step(argument)
            case "tick":
                shared_service.ledger.advance_horizon()
    client.finish()
    assert {number: row["cashier"] for number, row in client.copy.items()} == {
        record["id"]: record["cashier"] for record in held
    }
