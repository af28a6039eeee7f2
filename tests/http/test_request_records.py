"""Tests for what is recorded about each request. Personal data is never returned without a record."""

from contextlib import closing
from typing import Any

import msgspec
import pytest

from broken_store import stored_rows, table_missing
from counterfoil import bootstrap
from counterfoil.domain.request_records import UNKNOWN, RequestDetail
from records import EVER, Record, bills, branch, fresh, member, members
from running_service import START_MS, RunningService


def rows(service: RunningService, key: str) -> list[dict[str, Any]]:
    """Return the records of a key as they are stored."""
    order = "at" if service.settings.database else "number"
    query = f"SELECT * FROM requests WHERE key_id = '{key.split('_')[2]}' ORDER BY {order}"  # noqa: S608
    return stored_rows(service, "usage", query)


def settled(service: RunningService, key: str) -> list[dict[str, Any]]:
    """Send another request, which also writes buffered records; return the stored records of `key`."""
    other = service.key(shop=fresh("nobody"))
    assert service.get("shops", other).status_code == 200
    # In a running service, the supervisor or the worker does this soon afterwards.
    with closing(bootstrap.store(service.settings, service.clock).usage()) as usage:
        usage.move_recent()
    return rows(service, key)


def details(row: dict[str, Any]) -> RequestDetail:
    return msgspec.json.decode(row["detail"], type=RequestDetail)


def disclosed(service: RunningService, key: str) -> list[tuple[str, int]]:
    return [(row["personal_base"], row["personal_members"]) for row in settled(service, key) if row["personal_base"]]


def open_base(service: RunningService, number: int, **terms: Any) -> tuple[Record, list[Record], str]:
    of = branch()
    people = members(of, number)
    return of, people, service.key_for(of, *people, **({"personal_data": True} | terms))


# --- contents of a record -----------------------------------------------------------------


def test_a_record_says_which_key_requested_what_when_and_with_which_outcome(service: RunningService) -> None:
    key = service.key(shop="s")
    service.get("transactions/x", key)
    (row,) = settled(service, key)
    columns = "at key_id route status error took_us personal_base personal_members request_id detail"
    assert [name for name in row if name != "number"] == columns.split()
    assert (row["at"], row["key_id"], row["route"]) == (START_MS, key.split("_")[2], "transactions/{id}")
    assert (row["status"], row["error"]) == (404, "not_found")
    assert 0 < row["took_us"] < 60_000_000


def test_every_counted_request_leaves_a_record_with_its_route_status_and_request_id(
    shared_service: RunningService,
) -> None:
    key = shared_service.key(shop="s", per_day=9)
    tag = shared_service.get("shops", key).headers["etag"]
    asked: list[tuple[str, str, int, Record]] = [
        ("shops", "shops", 304, {"if-none-match": tag}),
        ("usage", "usage", 200, {"x-request-id": "from-the-caller:1"}),
        ("transactions", "transactions", 400, {}),
        ("transactions/x", "transactions/{id}", 404, {}),
        ("members", "members", 400, {}),
        ("members/lookup", "members/lookup", 403, {}),
        ("members/m1_x", "members/{memberToken}", 404, {}),
        ("shops", "shops", 200, {}),
        ("shops", "shops", 429, {}),
    ]
    answers = [shared_service.get(path, key, headers=headers) for path, _, _, headers in asked]
    found = [(row["route"], row["status"], row["request_id"]) for row in settled(shared_service, key)]
    assert found[1:] == [
        (route, status, answer.headers["x-request-id"])
        for (_, route, status, _), answer in zip(asked, answers, strict=True)
    ]


def test_a_request_refused_for_the_minute_leaves_no_record(shared_service: RunningService) -> None:
    key = shared_service.key(shop="s", per_min=1)
    shared_service.get("shops", key)
    assert shared_service.error("shops", key) == "rate_limited"
    assert len(settled(shared_service, key)) == 1


def test_a_record_says_what_was_asked_for_and_what_was_returned(service: RunningService) -> None:
    of = branch()
    key = service.key_for(of, *bills(of, 3))
    paths = [
        f"transactions?shopId={of['id']}&updatedSince=2020-01-01T00:00:00Z&limit=2&secret=U123&shopId=other",
        f"transactions?shopId={of['id']}&from=2026",
        "transactions?shopId=elsewhere&updatedSince=2020-01-01T00:00:00Z",
        "changes?limit=2",
        "shops",
    ]
    answers = [service.get(path, key).json() for path in paths]
    tag = service.get("shops", service.key(shop=of["id"])).headers["etag"]
    assert service.get("shops", key, headers={"if-none-match": tag}).status_code == 304
    sent = [answer.get("message", "") for answer in answers]
    assert [details(row) for row in settled(service, key)] == [
        RequestDetail("shopId,updatedSince,limit,=,shopId", of["id"], 2, is_last=False),
        RequestDetail("shopId,from", of["id"], message=sent[1]),
        RequestDetail("shopId,updatedSince", UNKNOWN, message=sent[2]),
        RequestDetail("limit", rows=2, is_last=False),
        RequestDetail(rows=1, is_last=True),
        RequestDetail(),
    ]
    assert sent[1]
    assert sent[2]


def test_a_refused_request_records_the_shop_that_was_asked_for_if_it_is_in_the_store(service: RunningService) -> None:
    mine, theirs, phone = branch(), branch(), "0812345678"
    service.load(theirs)
    key = service.key_for(mine)
    asked = {theirs["id"]: theirs["id"], phone: "unknown", f"%2B66{phone[1:]}": "unknown", "": None}
    for shop_id in asked:
        for parameters in ("updatedSince=2020-01-01T00:00:00Z", "from=today"):
            assert service.error(f"transactions?shopId={shop_id}&{parameters}", key)
    assert [details(row).shop for row in settled(service, key)] == [shop for shop in asked.values() for _ in range(2)]
    assert phone[1:] not in str(rows(service, key))


def test_request_ids_of_the_service_sort_by_time(service: RunningService) -> None:
    key = service.key(shop="s")
    ids = []
    for _ in range(5):
        service.clock.advance(1)
        ids.append(service.get("shops", key).headers["x-request-id"])
    assert ids == sorted(set(ids))


# --- personal data ---------------------------------------------------------------------------


def test_a_page_and_a_member_with_personal_data_are_recorded_with_the_number_of_members(
    shared_service: RunningService,
) -> None:
    of, (person, *_), key = open_base(shared_service, 5)
    cursor = shared_service.get("members", key, providerId=of["providerId"], limit=3).json()["nextCursor"]
    shared_service.get("members", key, providerId=of["providerId"], limit=3, cursor=cursor)
    shared_service.get(f"members/{shared_service.token(person['id'])}", key)
    event: Any = shared_service.events_so_far()[-1]
    assert (event.personal_base, event.personal_members) == (of["providerId"], 1), "the log agrees with the record"
    assert disclosed(shared_service, key) == [(of["providerId"], number) for number in (3, 2, 1)]


def test_an_unchanged_answer_is_a_disclosure_because_it_confirms_personal_data(shared_service: RunningService) -> None:
    of, people, key = open_base(shared_service, 2)
    for path in (f"members?providerId={of['providerId']}", f"members/{shared_service.token(people[0]['id'])}"):
        tag = shared_service.get(path, key).headers["etag"]
        for condition in (tag, "*"):
            assert shared_service.get(path, key, headers={"if-none-match": condition}).status_code == 304
    assert disclosed(shared_service, key) == [(of["providerId"], 2)] * 3 + [(of["providerId"], 1)] * 3


@pytest.mark.parametrize("condition", [{}, {"if-none-match": "*"}], ids=["plain", "whatever it is"])
def test_head_is_a_disclosure_because_its_tag_and_length_depend_on_personal_data(
    shared_service: RunningService, condition: Record
) -> None:
    of, (person, *_), key = open_base(shared_service, 1)
    shared_service.get("members", key, method="HEAD", headers=condition, providerId=of["providerId"])
    shared_service.get(f"members/{shared_service.token(person['id'])}", key, method="HEAD", headers=condition)
    assert disclosed(shared_service, key) == [(of["providerId"], 1)] * 2


def test_an_answer_without_personal_data_is_not_a_disclosure(shared_service: RunningService) -> None:
    of, _, key = open_base(shared_service, 2, personal_data=False)
    shared_service.get("members", key, providerId=of["providerId"])
    shared_service.get("members", key, method="HEAD", providerId=of["providerId"])
    shared_service.get("members", key, headers={"if-none-match": "*"}, providerId=of["providerId"])
    assert disclosed(shared_service, key) == []
    empty, _, key = open_base(shared_service, 0)
    shared_service.get("members", key, providerId=empty["providerId"])
    assert disclosed(shared_service, key) == [], "an empty list discloses nothing"
    of, user = branch(), "U" + "a" * 32
    someone = member(of, messaging=[{"userId": user}])
    key = shared_service.key_for(of, someone, personal_data=True, messaging_lookup=True)
    shared_service.data("members/lookup", key, providerId=of["providerId"], messagingUserId=user)
    for path in ("shops", "usage", f"transactions?shopId={of['id']}&updatedSince={EVER}"):
        shared_service.data(path, key)
    for path in ("members/m1_x", "members?providerId=elsewhere"):
        shared_service.error(path, key)
    assert disclosed(shared_service, key) == [], "neither a lookup nor a refusal nor another list discloses anything"


def test_a_disclosure_is_recorded_before_the_answer_arrives(service: RunningService) -> None:
    of, _, key = open_base(service, 2)
    service.get("members", key, providerId=of["providerId"])
    # No other request has followed, so the record was written before the response.
    assert [(row["personal_base"], row["personal_members"]) for row in rows(service, key)] == [(of["providerId"], 2)]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_personal_data_is_not_returned_if_the_disclosure_cannot_be_recorded(
    service: RunningService, method: str
) -> None:
    of, (person, *_), key = open_base(service, 1)
    with table_missing(service, "usage", "requests"):
        answer = service.get("members", key, method=method, providerId=of["providerId"])
    assert (answer.status_code, "etag" in answer.headers, person["tel"] in answer.text) == (500, False, False)
    assert [(row["status"], row["personal_base"]) for row in settled(service, key)] == [(500, None)]
