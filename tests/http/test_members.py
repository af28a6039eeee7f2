"""GET /v1/members: the members of one base, in order of sign-up."""

from typing import Any

import pytest

from records import EVER, Record, base, bill, branch, fresh, member, members
from running_service import START_MS, RunningService

FIELDS = [
    "memberId",
    "rank",
    "rankLevel",
    "rankName",
    "points",
    "credit",
    "creditEnabled",
    "coupons",
    "labels",
    "persona",
    "createdDate",
    "visitCount",
    "lastVisit",
    "hasTel",
    "hasEmail",
    "hasMessaging",
]
NOW = START_MS // 1000


def open_base(service: RunningService, *records: Record, of: Record | None = None, **terms: Any) -> tuple[Record, str]:
    """Load a branch whose base has these members; return the branch and a key for it."""
    of = of or branch()
    service.load(of, base(of), *records)
    return of, service.key(shop=of["id"], per_min=100_000, **terms)


def rows(service: RunningService, of: Record, key: str, **query: Any) -> list[Record]:
    found: list[Record] = service.data("members", key, providerId=of["providerId"], **query)
    return found


def tokens(service: RunningService, of: Record, key: str, **query: Any) -> list[str]:
    return [row["memberId"] for row in rows(service, of, key, **query)]


def read(service: RunningService, **fields: Any) -> Record:
    """Load a member with these fields; return it as read with a key without permissions."""
    of = branch()
    of, key = open_base(service, member(of, **fields), of=of)
    (row,) = rows(service, of, key)
    return row


# --- the answer ---------------------------------------------------------------------


def test_the_answer_always_has_a_cursor_field_even_if_it_is_null(shared_service: RunningService) -> None:
    of, key = open_base(shared_service)
    body = shared_service.get("members", key, providerId=of["providerId"]).json()
    assert list(body) == ["ok", "data", "nextCursor", "serverTime"]
    assert (body["data"], body["nextCursor"]) == ([], None)


def test_a_member_has_exactly_the_contracts_fields(shared_service: RunningService) -> None:
    assert list(read(shared_service)) == FIELDS


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
        ],
        labels=["regular"],
        persona=["foodie"],
        visits=["2025-12-30T20:00:00Z", "2025-06-01"],
        messaging=[{"userId": "U" + "0" * 32}],
    )
    of, key = open_base(shared_service, record, of=of)
    assert rows(shared_service, of, key) == [
        {
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
    ]


def test_a_member_with_only_ids_has_nulls_zeros_and_empty_lists(shared_service: RunningService) -> None:
    of = branch()
    record = {"kind": "member", "id": fresh("member"), "providerId": of["providerId"]}
    shared_service.load(of, record)
    empty: Record = dict.fromkeys(FIELDS) | dict.fromkeys(("points", "credit", "visitCount"), 0)
    empty |= {"coupons": [], "labels": [], "persona": []}
    empty |= dict.fromkeys(("creditEnabled", "hasTel", "hasEmail", "hasMessaging"), False)
    (found,) = rows(shared_service, of, shared_service.key(shop=of["id"]))
    assert found == empty | {"memberId": shared_service.token(record["id"])}


# --- rules for fields --------------------------------------------------------------------


def test_coupons_of_another_brand_never_appear(shared_service: RunningService) -> None:
    coupons = [{"code": "mine"}, {"code": "theirs", "providerId": "another-base"}]
    assert [coupon["code"] for coupon in read(shared_service, coupons=coupons)["coupons"]] == ["mine"]


def test_credit_is_0_if_the_base_has_no_credit(shared_service: RunningService) -> None:
    of = branch()
    of, key = open_base(shared_service, member(of, credit=50), base(of, creditEnabled=False), of=of)
    (row,) = rows(shared_service, of, key)
    assert (row["credit"], row["creditEnabled"]) == (0, False)


def test_the_tier_is_named_as_the_tier_list_names_it_now(shared_service: RunningService) -> None:
    of = branch()
    of, key = open_base(shared_service, member(of, rank="gold"), of=of)
    shared_service.load(base(of, tiers=[{"code": "gold", "name": "Platinum"}]))
    assert rows(shared_service, of, key)[0]["rankName"] == "Platinum"


def test_a_tier_that_was_abolished_has_no_name(shared_service: RunningService) -> None:
    of = branch()
    of, key = open_base(shared_service, member(of, rank="gold", rankLevel=None), of=of)
    shared_service.load(base(of, tiers=[]))
    row = rows(shared_service, of, key)[0]
    assert (row["rank"], row["rankName"]) == ("gold", None)


def test_points_and_credit_exclude_lots_that_have_expired_at_the_time_of_the_answer(service: RunningService) -> None:
    of = branch()
    lots = [{"amount": 10, "expireAt": NOW + 60}, {"amount": 1, "expireAt": NOW + 120}]
    of, key = open_base(service, member(of, points=lots, credit=lots), of=of)
    seen = []
    for _ in range(4):
        (row,) = rows(service, of, key)
        seen.append((row["points"], row["credit"]))
        service.clock.advance(59.999 if len(seen) == 1 else 60 if len(seen) == 3 else 0.001)
    assert seen == [(11, 11), (11, 11), (1, 1), (0, 0)]


# --- personal data --------------------------------------------------------------------------


def test_the_permission_adds_only_phone_and_email(shared_service: RunningService) -> None:
    of = branch()
    of, key = open_base(shared_service, member(of, tel="0812345678", email="a@example.com"), of=of, personal_data=True)
    (row,) = rows(shared_service, of, key)
    assert list(row) == [*FIELDS, "tel", "email"]
    assert (row["tel"], row["email"]) == ("0812345678", "a@example.com")


def test_phone_and_email_are_null_with_the_permission_if_there_are_none(shared_service: RunningService) -> None:
    of = branch()
    of, key = open_base(shared_service, member(of, tel=None, email=""), of=of, personal_data=True)
    (row,) = rows(shared_service, of, key)
    assert (row["tel"], row["email"], row["hasTel"], row["hasEmail"]) == (None, None, False, False)


def test_the_lookup_permission_adds_no_personal_data(shared_service: RunningService) -> None:
    of = branch()
    of, key = open_base(shared_service, member(of), of=of, messaging_lookup=True)
    assert list(rows(shared_service, of, key)[0]) == FIELDS


# --- tokens -------------------------------------------------------------------------------


def test_a_member_token_starts_with_m1_and_does_not_contain_the_internal_id(shared_service: RunningService) -> None:
    of = branch()
    record = member(of, id="internal-4711")
    of, key = open_base(shared_service, record, of=of)
    (token,) = tokens(shared_service, of, key)
    assert token.startswith("m1_")
    assert "4711" not in token


def test_the_token_is_the_same_for_every_key(shared_service: RunningService) -> None:
    one, other = branch(), branch()
    other["providerId"] = one["providerId"]
    shared_service.load(one, other, base(one), member(one))
    keys = [shared_service.key(shop=one["id"]), shared_service.key(franchise=other["franchiseId"], personal_data=True)]
    first, second = (tokens(shared_service, one, key) for key in keys)
    assert first == second


def test_the_token_on_a_bill_is_exactly_the_members_token(shared_service: RunningService) -> None:
    of = branch()
    record = member(of)
    of, key = open_base(shared_service, record, bill(of, memberId=record["id"]), of=of)
    (sold,) = shared_service.data("transactions", key, shopId=of["id"], updatedSince=EVER)
    assert [sold["memberId"]] == tokens(shared_service, of, key)


def test_the_token_stays_when_the_member_changes(shared_service: RunningService) -> None:
    of = branch()
    record = member(of)
    of, key = open_base(shared_service, record, of=of)
    before = tokens(shared_service, of, key)
    shared_service.load(record | {"tel": "0899999999", "rank": "silver"})
    assert tokens(shared_service, of, key) == before


def test_two_records_of_one_person_have_different_tokens(shared_service: RunningService) -> None:
    of = branch()
    of, key = open_base(shared_service, member(of), member(of), of=of)
    assert len(set(tokens(shared_service, of, key))) == 2


# --- order --------------------------------------------------------------------------------


def test_members_are_listed_in_the_order_of_their_sign_up(shared_service: RunningService) -> None:
    of = branch()
    records = members(of, 5)
    of, key = open_base(shared_service, *[records[place] for place in (3, 0, 4, 2, 1)], of=of)
    assert tokens(shared_service, of, key) == [shared_service.token(record["id"]) for record in records]


# --- scope --------------------------------------------------------------------------------


def test_a_shops_key_covers_the_base_of_its_shop_and_no_other(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    mine, neighbour = branch(franchiseId=franchise), branch(franchiseId=franchise)
    shared_service.load(mine, neighbour, member(mine), member(neighbour))
    key = shared_service.key(shop=mine["id"])
    assert len(rows(shared_service, mine, key)) == 1
    answer = shared_service.get("members", key, providerId=neighbour["providerId"])
    assert (answer.status_code, answer.json()["error"]) == (403, "provider_not_in_scope")


def test_a_franchises_key_covers_every_base_under_it(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise) for _ in range(3)]
    shared_service.load(*branches, *[member(of) for of in branches])
    key = shared_service.key(franchise=franchise)
    assert [len(rows(shared_service, of, key)) for of in branches] == [1, 1, 1]


def test_a_base_shared_by_two_franchises_is_read_by_both(shared_service: RunningService) -> None:
    one, other = branch(), branch()
    other["providerId"] = one["providerId"]
    shared_service.load(one, other, member(one))
    keys = [shared_service.key(franchise=of["franchiseId"]) for of in (one, other)]
    assert [len(rows(shared_service, one, key)) for key in keys] == [1, 1]


def test_a_franchise_id_is_not_a_provider_id(shared_service: RunningService) -> None:
    of, key = open_base(shared_service)
    assert shared_service.error("members", key, providerId=of["franchiseId"]) == "provider_not_in_scope"


def test_a_base_that_does_not_exist_is_answered_like_one_outside_the_scope(shared_service: RunningService) -> None:
    theirs, key = branch(), open_base(shared_service)[1]
    shared_service.load(theirs, base(theirs), member(theirs))
    unknown, outside = (
        shared_service.get("members", key, providerId=provider) for provider in ("no-such-base", theirs["providerId"])
    )
    assert (unknown.status_code, unknown.content) == (outside.status_code, outside.content)


def test_members_of_a_base_that_was_never_loaded_are_listed(shared_service: RunningService) -> None:
    of = branch()
    shared_service.load(of, member(of))
    assert len(rows(shared_service, of, shared_service.key(shop=of["id"]))) == 1


# --- parameters ------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [{}, {"providerId": ""}, {"providerid": "x"}, {"shopId": "x"}])
def test_a_request_without_a_provider_id_is_a_bad_query(shared_service: RunningService, query: Record) -> None:
    answer = shared_service.get("members", open_base(shared_service)[1], **query)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_query")


@pytest.mark.parametrize("since", ["2026-01-01T00:00:00Z", "", "nonsense"])
def test_updated_since_is_not_supported(shared_service: RunningService, since: str) -> None:
    of, key = open_base(shared_service)
    answer = shared_service.get("members", key, providerId=of["providerId"], updatedSince=since)
    assert (answer.status_code, answer.json()["error"]) == (400, "not_supported")


@pytest.fixture(scope="module")
def large_base(shared_service: RunningService) -> tuple[Record, str]:
    """A base with 205 members."""
    of = branch()
    return open_base(shared_service, *[member(of, points=None) for _ in range(205)], of=of)


@pytest.mark.parametrize(("limit", "number"), [("1", 1), ("201", 200), ("0", 100), ("many", 100)])
def test_a_limit_is_never_refused(
    shared_service: RunningService, large_base: tuple[Record, str], limit: str, number: int
) -> None:
    of, key = large_base
    assert len(rows(shared_service, of, key, limit=limit)) == number


# --- paging -----------------------------------------------------------------------------------


def test_a_raw_internal_id_is_a_bad_cursor(shared_service: RunningService) -> None:
    of = branch()
    record = member(of)
    of, key = open_base(shared_service, record, of=of)
    assert shared_service.error("members", key, providerId=of["providerId"], cursor=record["id"]) == "bad_cursor"


@pytest.mark.parametrize("cursor", ["", "m1_", "m1_unknown", "m2_abc", "null", "\x00", "x" * 3000])
def test_a_cursor_that_is_not_a_token_of_the_base_is_a_bad_cursor(shared_service: RunningService, cursor: str) -> None:
    of = branch()
    of, key = open_base(shared_service, member(of), of=of)
    assert shared_service.error("members", key, providerId=of["providerId"], cursor=cursor) == "bad_cursor"
