"""GET /v1/members and /v1/members/{memberToken}: the members of one base, in order of sign-up, and one member."""

from typing import Any
from urllib.parse import quote

import pytest

from records import EVER, Record, base, bill, branch, fresh, member, members, removal
from running_service import START_MS, RunningService

FIELDS = (
    "memberId rank rankLevel rankName points credit creditEnabled coupons labels persona createdDate visitCount "
    "lastVisit hasTel hasEmail hasMessaging"
)
NOW = START_MS // 1000


def rows(service: RunningService, of: Record, key: str, **query: Any) -> list[Record]:
    found: list[Record] = service.data("members", key, providerId=of["providerId"], **query)
    return found


def tokens(service: RunningService, of: Record, key: str) -> list[str]:
    return [row["memberId"] for row in rows(service, of, key)]


# --- the answer ---------------------------------------------------------------------


def test_the_answer_always_has_a_cursor_field_even_if_it_is_null(shared_service: RunningService) -> None:
    of = branch()
    body = shared_service.get("members", shared_service.key_for(of), providerId=of["providerId"]).json()
    assert list(body) == ["ok", "data", "nextCursor", "serverTime"]
    assert (body["data"], body["nextCursor"]) == ([], None)


def test_a_full_member_is_returned_field_by_field(shared_service: RunningService) -> None:
    of = branch()
    record = member(
        of,
        createdAt="2025-03-01T03:00:00Z",
        rank="gold",
        rankLevel=1,
        points=[{"amount": 100, "expireAt": NOW + 9_000_000}, {"amount": 20.5}, {"amount": 7, "expireAt": NOW - 1}],
        credit=[{"amount": "50.25"}],
        coupons=[
            {"code": "C1", "status": "available", "templateId": "T1", "name": "Free tea", "expireAt": NOW},
            {"code": "C2", "status": "used", "templateId": "T1", "name": "Free tea"},
            {"code": "of another brand", "providerId": "another-base"},
        ],
        labels=["regular"],
        persona=["foodie"],
        visits=["2025-12-30T20:00:00Z", "2025-06-01"],
        messaging=[{"userId": "U" + "0" * 32}],
    )
    (found,) = rows(shared_service, of, shared_service.key_for(of, base(of), record))
    assert list(found) == FIELDS.split()
    assert found == {
        "memberId": shared_service.token(record["id"]),
        "rank": "gold",
        "rankLevel": 1,
        "rankName": "Gold",
        "points": 120.5,
        "credit": 50.25,
        "creditEnabled": True,
        "coupons": [
            {
                "code": "C1",
                "status": "available",
                "templateId": "T1",
                "name": "Free tea",
                "expireAt": "2026-01-01T07:00:00.000+07:00",
            },
            {"code": "C2", "status": "used", "templateId": "T1", "name": "Free tea", "expireAt": None},
        ],
        "labels": ["regular"],
        "persona": ["foodie"],
        "createdDate": "2025-03-01T10:00:00.000+07:00",
        "visitCount": 2,
        "lastVisit": "2025-12-31",
        "hasTel": True,
        "hasEmail": True,
        "hasMessaging": True,
    }


def test_a_member_with_only_ids_has_nulls_zeros_and_empty_lists(shared_service: RunningService) -> None:
    """The base was never loaded either."""
    of = branch()
    record = {"kind": "member", "id": fresh("member"), "providerId": of["providerId"]}
    empty: Record = dict.fromkeys(FIELDS.split()) | dict.fromkeys(("points", "credit", "visitCount"), 0)
    empty |= {"coupons": [], "labels": [], "persona": []}
    empty |= dict.fromkeys(("creditEnabled", "hasTel", "hasEmail", "hasMessaging"), False)
    (found,) = rows(shared_service, of, shared_service.key_for(of, record))
    assert found == empty | {"memberId": shared_service.token(record["id"])}


@pytest.mark.parametrize("personal_data", [False, True])
def test_a_member_is_the_same_in_the_list_and_on_its_own(shared_service: RunningService, personal_data: bool) -> None:
    of = branch()
    record = member(of, coupons=[{"code": "C1"}], visits=["2025-01-01"])
    key = shared_service.key_for(of, base(of), record, personal_data=personal_data)
    body = shared_service.get(f"members/{shared_service.token(record['id'])}", key).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert [body["data"]] == rows(shared_service, of, key)


# --- rules for fields --------------------------------------------------------------------


def test_credit_is_0_if_the_base_has_no_credit(shared_service: RunningService) -> None:
    of = branch()
    (row,) = rows(shared_service, of, shared_service.key_for(of, member(of, credit=50), base(of, creditEnabled=False)))
    assert (row["credit"], row["creditEnabled"]) == (0, False)


@pytest.mark.parametrize(
    ("tiers", "name"), [([{"code": "gold", "name": "Platinum"}], "Platinum"), ([], None)], ids=["renamed", "abolished"]
)
def test_the_tier_is_named_as_the_tier_list_names_it_now(
    shared_service: RunningService, tiers: list[Record], name: str | None
) -> None:
    of = branch()
    key = shared_service.key_for(of, base(of), member(of, rank="gold", rankLevel=None))
    shared_service.load(base(of, tiers=tiers))
    (row,) = rows(shared_service, of, key)
    assert (row["rank"], row["rankName"]) == ("gold", name)


def test_points_and_credit_exclude_lots_that_have_expired_at_the_time_of_the_answer(service: RunningService) -> None:
    of = branch()
    lots = [{"amount": 10, "expireAt": NOW + 60}, {"amount": 1, "expireAt": NOW + 120}]
    key = service.key_for(of, base(of), member(of, points=lots, credit=lots))
    seen = []
    for seconds in (59.999, 0.001, 60, 0):
        (row,) = rows(service, of, key)
        seen.append((row["points"], row["credit"]))
        service.clock.advance(seconds)
    assert seen == [(11, 11), (11, 11), (1, 1), (0, 0)]


# --- personal data --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "fields", "shown"),
    [
        ({}, {}, {}),
        ({"messaging_lookup": True}, {}, {}),
        ({"personal_data": True}, {}, {"tel": "0811111111", "email": "somebody@example.com"}),
        ({"personal_data": True}, {"tel": None, "email": ""}, {"tel": None, "email": None}),
    ],
    ids=["no permission", "the lookup permission", "the permission", "the permission, but there are none"],
)
def test_the_permission_adds_only_phone_and_email(
    shared_service: RunningService, terms: Record, fields: Record, shown: Record
) -> None:
    of = branch()
    (row,) = rows(shared_service, of, shared_service.key_for(of, member(of, **fields), **terms))
    assert list(row) == [*FIELDS.split(), *shown]
    assert {name: row[name] for name in shown} == shown
    assert row["hasTel"] is row["hasEmail"] is (not fields)


# --- tokens -------------------------------------------------------------------------------


def test_a_member_token_starts_with_m1_and_does_not_contain_the_internal_id(shared_service: RunningService) -> None:
    of = branch()
    (token,) = tokens(shared_service, of, shared_service.key_for(of, member(of, id="internal-4711")))
    assert token.startswith("m1_")
    assert "4711" not in token


def test_every_key_that_covers_the_base_reads_its_members_under_the_same_tokens(shared_service: RunningService) -> None:
    one, other = branch(), branch()
    other["providerId"] = one["providerId"]
    records = members(one, 2)
    shared_service.load(one, other, *records)
    keys = [shared_service.key(shop=one["id"]), shared_service.key(franchise=other["franchiseId"], personal_data=True)]
    expected = [shared_service.token(record["id"]) for record in records]
    for key in keys:
        assert tokens(shared_service, one, key) == expected
        assert [shared_service.data(f"members/{token}", key)["memberId"] for token in expected] == expected


def test_the_token_on_a_bill_is_exactly_the_members_token(shared_service: RunningService) -> None:
    of = branch()
    record = member(of)
    key = shared_service.key_for(of, record, bill(of, memberId=record["id"]))
    (sold,) = shared_service.data("transactions", key, shopId=of["id"], updatedSince=EVER)
    assert [sold["memberId"]] == tokens(shared_service, of, key)


def test_a_member_that_changes_or_is_removed_and_loaded_again_has_the_same_token(
    shared_service: RunningService,
) -> None:
    of = branch()
    record = member(of)
    key, token = shared_service.key_for(of, record), shared_service.token(record["id"])
    shared_service.load(record | {"tel": "0899999999", "rank": "silver"})
    assert tokens(shared_service, of, key) == [token]
    shared_service.load(removal(record))
    assert shared_service.error(f"members/{token}", key) == "not_found"
    shared_service.load(record)
    assert tokens(shared_service, of, key) == [token]


# --- order --------------------------------------------------------------------------------


def test_members_are_listed_in_the_order_of_their_sign_up(shared_service: RunningService) -> None:
    of = branch()
    records = members(of, 5)
    key = shared_service.key_for(of, *[records[place] for place in (3, 0, 4, 2, 1)])
    assert tokens(shared_service, of, key) == [shared_service.token(record["id"]) for record in records]


# --- scope --------------------------------------------------------------------------------


def test_a_shops_key_covers_the_base_of_its_shop_and_a_franchises_key_every_base_under_it(
    shared_service: RunningService,
) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise) for _ in range(3)]
    shared_service.load(*branches, *[member(of) for of in branches])
    key = shared_service.key(franchise=franchise)
    assert [len(rows(shared_service, of, key)) for of in branches] == [1, 1, 1]
    mine, neighbour, _ = branches
    key = shared_service.key(shop=mine["id"])
    assert len(rows(shared_service, mine, key)) == 1
    others = (neighbour["providerId"], franchise, "no-such-base")
    answers = [shared_service.get("members", key, providerId=provider) for provider in others]
    assert {(answer.status_code, answer.content) for answer in answers} == {(403, answers[0].content)}
    assert answers[0].json()["error"] == "provider_not_in_scope"


def test_all_reasons_for_not_finding_a_member_get_the_same_answer(shared_service: RunningService) -> None:
    of, theirs = branch(), branch()
    gone, outside, present = member(of), member(theirs), member(of)
    shared_service.load(of, theirs, gone, outside, present, removal(gone))
    key, known = shared_service.key(shop=of["id"]), shared_service.token(present["id"])
    asked = [
        *("m1_", "m1_unknown", "m1_" + "0" * 32, "m1_" + "x" * 3000, "m2_" + known[3:]),
        *(known[3:], known.swapcase(), known + "0", present["id"]),
        *(shared_service.token(gone["id"]), shared_service.token(outside["id"])),
        *("สมาชิก", "../shops", "%00"),
    ]
    answers = [shared_service.get(f"members/{quote(token, safe='')}", key) for token in asked]
    assert {(answer.status_code, answer.content) for answer in answers} == {(404, answers[0].content)}
    assert answers[0].json()["error"] == "not_found"


# --- parameters ------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [{}, {"providerId": ""}, {"providerid": "x"}, {"shopId": "x"}])
def test_a_request_without_a_provider_id_is_a_bad_query(shared_service: RunningService, query: Record) -> None:
    assert shared_service.error("members", shared_service.key(shop="s"), **query) == "bad_query"


@pytest.mark.parametrize("since", ["2026-01-01T00:00:00Z", "", "nonsense"])
def test_updated_since_is_not_supported(shared_service: RunningService, since: str) -> None:
    of = branch()
    query = {"providerId": of["providerId"], "updatedSince": since}
    assert shared_service.error("members", shared_service.key_for(of), **query) == "not_supported"


def test_a_limit_is_never_refused(shared_service: RunningService) -> None:
    of = branch()
    key = shared_service.key_for(of, *[member(of, points=None) for _ in range(205)])
    sizes = {limit: len(rows(shared_service, of, key, limit=limit)) for limit in ("1", "201", "0", "many")}
    assert sizes == {"1": 1, "201": 200, "0": 100, "many": 100}


def test_a_cursor_that_is_not_a_token_of_the_base_is_a_bad_cursor(shared_service: RunningService) -> None:
    of = branch()
    record = member(of)
    key = shared_service.key_for(of, record)
    for cursor in ("", "m1_", "m1_unknown", "m2_abc", "null", "\x00", "x" * 3000, record["id"]):
        assert shared_service.error("members", key, providerId=of["providerId"], cursor=cursor) == "bad_cursor", cursor
