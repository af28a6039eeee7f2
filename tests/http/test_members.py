"""GET /v1/members: the members of one base, by sign-up, oldest first."""

from itertools import chain
from typing import Any

import pytest

from breakage import kept, scribble
from house import START_MS, House
from records import EVER, Record, base, bill, branch, fresh, member, members, removal, shop

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


def open_base(house: House, *records: Record, of: Record | None = None, **terms: Any) -> tuple[Record, str]:
    """A branch whose base has these members, and a key for it."""
    of = of or branch()
    house.load(of, base(of), *records)
    return of, house.key(shop=of["id"], per_min=100_000, **terms)


def rows(house: House, of: Record, key: str, **query: Any) -> list[Record]:
    found: list[Record] = house.data("members", key, providerId=of["providerId"], **query)
    return found


def tokens(house: House, of: Record, key: str, **query: Any) -> list[str]:
    return [row["memberId"] for row in rows(house, of, key, **query)]


def read(house: House, **fields: Any) -> Record:
    """The member with these fields, as a key without permissions reads it."""
    of = branch()
    of, key = open_base(house, member(of, **fields), of=of)
    (row,) = rows(house, of, key)
    return row


# --- the answer ---------------------------------------------------------------------


def test_the_answer_has_a_cursor_even_when_it_is_null(town: House) -> None:
    of, key = open_base(town)
    body = town.get("members", key, providerId=of["providerId"]).json()
    assert list(body) == ["ok", "data", "nextCursor", "serverTime"]
    assert (body["data"], body["nextCursor"]) == ([], None)


def test_a_member_has_exactly_the_contracts_fields(town: House) -> None:
    assert list(read(town)) == FIELDS


def test_a_full_member_is_returned_field_by_field(town: House) -> None:
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
    of, key = open_base(town, record, of=of)
    assert rows(town, of, key) == [
        {
            "memberId": town.token(record["id"]),
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


def test_a_member_of_which_only_the_ids_are_known_has_nulls_zeros_and_empty_lists(town: House) -> None:
    of = branch()
    record = {"kind": "member", "id": fresh("member"), "providerId": of["providerId"]}
    town.load(of, record)
    assert rows(town, of, town.key(shop=of["id"])) == [
        {
            "memberId": town.token(record["id"]),
            "rank": None,
            "rankLevel": None,
            "rankName": None,
            "points": 0,
            "credit": 0,
            "creditEnabled": False,
            "coupons": [],
            "labels": [],
            "persona": [],
            "createdDate": None,
            "visitCount": 0,
            "lastVisit": None,
            "hasTel": False,
            "hasEmail": False,
            "hasMessaging": False,
        }
    ]


def test_a_coupon_has_exactly_the_contracts_fields(town: House) -> None:
    (coupon,) = read(town, coupons=[{"code": "C1", "usedAt": "2025-01-01"}])["coupons"]
    assert list(coupon) == ["code", "status", "templateId", "name", "expireAt"]


# --- the fields' rules -------------------------------------------------------------------

RULES: list[tuple[str, dict[str, Any], str, Any]] = [
    ("a rank in figures is null", {"rank": 3}, "rank", None),
    ("an empty rank is null", {"rank": ""}, "rank", None),
    ("a rank no tier has keeps its code", {"rank": "bronze"}, "rank", "bronze"),
    ("a rank level in quotes", {"rankLevel": "1"}, "rankLevel", 1),
    ("an empty rank level", {"rankLevel": ""}, "rankLevel", None),
    ("an invalid rank level", {"rankLevel": "top"}, "rankLevel", None),
    ("a broken rank level", {"rankLevel": 1.5}, "rankLevel", None),
    ("a negative rank level", {"rankLevel": -1}, "rankLevel", None),
    ("the first position is 0", {"rankLevel": 0}, "rankLevel", 0),
    ("the tier's name", {"rank": "silver"}, "rankName", "Silver"),
    ("no tier has no name", {"rank": None, "rankLevel": None}, "rankName", None),
    ("points as a number", {"points": "1,250"}, "points", 1250),
    ("points that cannot be read", {"points": "many"}, "points", 0),
    ("no points", {"points": None}, "points", 0),
    ("expired points", {"points": [{"amount": 5, "expireAt": NOW - 60}]}, "points", 0),
    ("points without an expiry", {"points": [{"amount": 5}]}, "points", 5),
    ("points without binary noise", {"points": [{"amount": 0.1}, {"amount": 0.2}]}, "points", 0.3),
    ("credit", {"credit": 20}, "credit", 20),
    ("expired credit", {"credit": [{"amount": 5, "expireAt": NOW - 60}]}, "credit", 0),
    ("no coupons", {"coupons": None}, "coupons", []),
    ("labels", {"labels": ["vip", ""]}, "labels", ["vip"]),
    ("no labels", {"labels": None}, "labels", []),
    ("persona", {"persona": ["foodie"]}, "persona", ["foodie"]),
    ("no persona", {"persona": "foodie"}, "persona", []),
    ("sign-up on Thai time", {"createdAt": "2025-03-01T00:00:00Z"}, "createdDate", "2025-03-01T07:00:00.000+07:00"),
    ("sign-up elsewhere", {"createdAt": "2025-03-01T00:00:00-05:00"}, "createdDate", "2025-03-01T12:00:00.000+07:00"),
    ("sign-up that cannot be read", {"createdAt": "long ago"}, "createdDate", None),
    ("visits", {"visits": ["2025-01-01", {"at": "2025-02-01"}]}, "visitCount", 2),
    ("never visited", {"visits": []}, "visitCount", 0),
    ("the latest visit", {"visits": ["2025-02-01", "2025-01-01"]}, "lastVisit", "2025-02-01"),
    ("the latest visit's day on Thai time", {"visits": ["2025-02-01T18:00:00Z"]}, "lastVisit", "2025-02-02"),
    ("no latest visit", {"visits": None}, "lastVisit", None),
    ("no phone", {"tel": ""}, "hasTel", False),
    ("no email", {"email": None}, "hasEmail", False),
    ("a messaging account", {"messaging": [{"userId": "U" + "a" * 32}]}, "hasMessaging", True),
    ("no messaging account", {"messaging": []}, "hasMessaging", False),
]
COUPON_RULES: list[tuple[str, dict[str, Any], str, Any]] = [
    ("a used one stays", {"status": "used"}, "status", "used"),
    ("an available one", {"status": "available"}, "status", "available"),
    ("an unknown state is null", {"status": "expired"}, "status", None),
    ("expired but not used", {"status": "available", "expireAt": NOW - 60}, "status", "available"),
    ("never expires", {"expireAt": None}, "expireAt", None),
    ("expiry in Thai time", {"expireAt": "2026-05-01T00:00:00Z"}, "expireAt", "2026-05-01T07:00:00.000+07:00"),
    ("no code", {"code": ""}, "code", None),
    ("a code in figures", {"code": 1234}, "code", "1234"),
    ("no template", {}, "templateId", None),
    ("no name", {}, "name", None),
]


@pytest.mark.parametrize(("fields", "field", "shown"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_a_field_of_a_member_follows_its_rule(town: House, fields: dict[str, Any], field: str, shown: Any) -> None:
    assert read(town, **fields)[field] == shown


@pytest.mark.parametrize(
    ("fields", "field", "shown"), [rule[1:] for rule in COUPON_RULES], ids=[rule[0] for rule in COUPON_RULES]
)
def test_a_field_of_a_coupon_follows_its_rule(town: House, fields: dict[str, Any], field: str, shown: Any) -> None:
    (coupon,) = read(town, coupons=[{"code": "C1", **fields}])["coupons"]
    assert coupon[field] == shown


def test_another_brands_coupons_never_appear(town: House) -> None:
    coupons = [{"code": "mine"}, {"code": "theirs", "providerId": "another-base"}]
    assert [coupon["code"] for coupon in read(town, coupons=coupons)["coupons"]] == ["mine"]


def test_credit_is_0_where_the_base_runs_none(town: House) -> None:
    of = branch()
    of, key = open_base(town, member(of, credit=50), base(of, creditEnabled=False), of=of)
    (row,) = rows(town, of, key)
    assert (row["credit"], row["creditEnabled"]) == (0, False)


def test_the_tier_is_named_as_the_tier_list_names_it_now(town: House) -> None:
    of = branch()
    of, key = open_base(town, member(of, rank="gold"), of=of)
    town.load(base(of, tiers=[{"code": "gold", "name": "Platinum"}]))
    assert rows(town, of, key)[0]["rankName"] == "Platinum"


def test_a_tier_that_was_abolished_has_no_name(town: House) -> None:
    of = branch()
    of, key = open_base(town, member(of, rank="gold", rankLevel=None), of=of)
    town.load(base(of, tiers=[]))
    row = rows(town, of, key)[0]
    assert (row["rank"], row["rankName"]) == ("gold", None)


def test_points_and_credit_are_what_is_left_at_the_time_of_the_answer(house: House) -> None:
    of = branch()
    lots = [{"amount": 10, "expireAt": NOW + 60}, {"amount": 1, "expireAt": NOW + 120}]
    of, key = open_base(house, member(of, points=lots, credit=lots), of=of)
    seen = []
    for _ in range(4):
        (row,) = rows(house, of, key)
        seen.append((row["points"], row["credit"]))
        house.clock.advance(59.999 if len(seen) == 1 else 60 if len(seen) == 3 else 0.001)
    assert seen == [(11, 11), (11, 11), (1, 1), (0, 0)]


# --- personal data --------------------------------------------------------------------------


def test_phone_and_email_are_absent_without_the_permission(town: House) -> None:
    row = read(town)
    assert not {"tel", "email"} & set(row)


def test_phone_and_email_are_all_that_the_permission_adds(town: House) -> None:
    of = branch()
    of, key = open_base(town, member(of, tel="0812345678", email="a@example.com"), of=of, personal_data=True)
    (row,) = rows(town, of, key)
    assert list(row) == [*FIELDS, "tel", "email"]
    assert (row["tel"], row["email"]) == ("0812345678", "a@example.com")


def test_phone_and_email_are_null_with_the_permission_where_there_are_none(town: House) -> None:
    of = branch()
    of, key = open_base(town, member(of, tel=None, email=""), of=of, personal_data=True)
    (row,) = rows(town, of, key)
    assert (row["tel"], row["email"], row["hasTel"], row["hasEmail"]) == (None, None, False, False)


def test_the_lookup_permission_adds_no_personal_data(town: House) -> None:
    of = branch()
    of, key = open_base(town, member(of), of=of, messaging_lookup=True)
    assert list(rows(town, of, key)[0]) == FIELDS


# --- tokens -------------------------------------------------------------------------------


def test_a_member_token_starts_with_m1_and_holds_nothing_of_the_internal_id(town: House) -> None:
    of = branch()
    record = member(of, id="internal-4711")
    of, key = open_base(town, record, of=of)
    (token,) = tokens(town, of, key)
    assert token.startswith("m1_")
    assert "4711" not in token


def test_the_token_is_the_same_for_every_key(town: House) -> None:
    one, other = branch(), branch()
    other["providerId"] = one["providerId"]
    town.load(one, other, base(one), member(one))
    keys = [town.key(shop=one["id"]), town.key(franchise=other["franchiseId"], personal_data=True)]
    first, second = (tokens(town, one, key) for key in keys)
    assert first == second


def test_the_token_on_a_bill_is_exactly_the_members_token(town: House) -> None:
    of = branch()
    record = member(of)
    of, key = open_base(town, record, bill(of, memberId=record["id"]), of=of)
    (sold,) = town.data("transactions", key, shopId=of["id"], updatedSince=EVER)
    assert [sold["memberId"]] == tokens(town, of, key)


def test_the_token_stays_when_the_member_changes(town: House) -> None:
    of = branch()
    record = member(of)
    of, key = open_base(town, record, of=of)
    before = tokens(town, of, key)
    town.load(record | {"tel": "0899999999", "rank": "silver"})
    assert tokens(town, of, key) == before


def test_two_records_of_one_person_have_a_token_each(town: House) -> None:
    of = branch()
    of, key = open_base(town, member(of), member(of), of=of)
    assert len(set(tokens(town, of, key))) == 2


# --- order --------------------------------------------------------------------------------


def test_members_come_in_the_order_of_their_sign_up(town: House) -> None:
    of = branch()
    records = members(of, 5)
    of, key = open_base(town, *[records[place] for place in (3, 0, 4, 2, 1)], of=of)
    assert tokens(town, of, key) == [town.token(record["id"]) for record in records]


def test_members_whose_sign_up_cannot_be_read_come_last(town: House) -> None:
    of = branch()
    unknown, known = member(of, createdAt="?"), member(of)
    of, key = open_base(town, unknown, known, of=of)
    assert tokens(town, of, key) == [town.token(record["id"]) for record in (known, unknown)]


def test_members_who_signed_up_together_come_in_the_same_order_every_time(town: House) -> None:
    of = branch()
    records = [member(of) for _ in range(5)]
    of, key = open_base(town, *records, of=of)
    before = tokens(town, of, key)
    town.load(*[record | {"rank": "silver"} for record in records[::-1]])
    assert tokens(town, of, key) == before


# --- scope --------------------------------------------------------------------------------


def test_a_shops_key_covers_the_base_of_its_shop_and_no_other(town: House) -> None:
    franchise = fresh("franchise")
    mine, neighbour = branch(franchiseId=franchise), branch(franchiseId=franchise)
    town.load(mine, neighbour, member(mine), member(neighbour))
    key = town.key(shop=mine["id"])
    assert len(rows(town, mine, key)) == 1
    answer = town.get("members", key, providerId=neighbour["providerId"])
    assert (answer.status_code, answer.json()["error"]) == (403, "provider_not_in_scope")


def test_a_franchises_key_covers_every_base_under_it(town: House) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise) for _ in range(3)]
    town.load(*branches, *[member(of) for of in branches])
    key = town.key(franchise=franchise)
    assert [len(rows(town, of, key)) for of in branches] == [1, 1, 1]


def test_a_franchises_key_covers_no_base_of_another_franchise(town: House) -> None:
    mine, theirs = branch(), branch()
    town.load(mine, theirs)
    key = town.key(franchise=mine["franchiseId"])
    assert town.error("members", key, providerId=theirs["providerId"]) == "provider_not_in_scope"


def test_a_base_shared_by_two_franchises_is_read_by_both(town: House) -> None:
    one, other = branch(), branch()
    other["providerId"] = one["providerId"]
    town.load(one, other, member(one))
    keys = [town.key(franchise=of["franchiseId"]) for of in (one, other)]
    assert [len(rows(town, one, key)) for key in keys] == [1, 1]


def test_a_franchise_id_is_no_provider_id(town: House) -> None:
    of, key = open_base(town)
    assert town.error("members", key, providerId=of["franchiseId"]) == "provider_not_in_scope"


def test_a_shop_without_a_membership_programme_covers_no_base(town: House) -> None:
    of = shop()
    town.load(of)
    assert town.error("members", town.key(shop=of["id"]), providerId="None") == "provider_not_in_scope"


def test_a_base_that_does_not_exist_is_answered_like_one_outside_the_scope(town: House) -> None:
    theirs, key = branch(), open_base(town)[1]
    town.load(theirs, base(theirs), member(theirs))
    unknown, outside = (
        town.get("members", key, providerId=provider) for provider in ("no-such-base", theirs["providerId"])
    )
    assert (unknown.status_code, unknown.content) == (outside.status_code, outside.content)


def test_a_base_that_was_never_loaded_has_its_members_all_the_same(town: House) -> None:
    of = branch()
    town.load(of, member(of))
    assert len(rows(town, of, town.key(shop=of["id"]))) == 1


# --- parameters ------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [{}, {"providerId": ""}, {"providerid": "x"}, {"shopId": "x"}])
def test_without_a_provider_id_it_is_a_bad_query(town: House, query: Record) -> None:
    answer = town.get("members", open_base(town)[1], **query)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_query")


@pytest.mark.parametrize("since", ["2026-01-01T00:00:00Z", "", "nonsense"])
def test_updated_since_is_not_supported(town: House, since: str) -> None:
    of, key = open_base(town)
    answer = town.get("members", key, providerId=of["providerId"], updatedSince=since)
    assert (answer.status_code, answer.json()["error"]) == (400, "not_supported")


@pytest.fixture(scope="module")
def crowd(town: House) -> tuple[Record, str]:
    """A base with 205 members."""
    of = branch()
    return open_base(town, *[member(of, points=None) for _ in range(205)], of=of)


@pytest.mark.parametrize(
    ("limit", "number"),
    [
        (None, 100),
        ("1", 1),
        ("200", 200),
        ("201", 200),
        ("1000000", 200),
        ("1.9", 1),
        ("0.9", 100),
        ("0", 100),
        ("-3", 100),
        ("many", 100),
        ("", 100),
    ],
)
def test_a_limit_is_never_refused(town: House, crowd: tuple[Record, str], limit: str | None, number: int) -> None:
    of, key = crowd
    query = {} if limit is None else {"limit": limit}
    assert len(rows(town, of, key, **query)) == number


# --- paging -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "limit", "sizes"), [(5, 2, [2, 2, 1]), (4, 2, [2, 2, 0]), (3, 1, [1, 1, 1, 0])])
def test_a_full_pass_by_cursor_reads_every_member_once(town: House, number: int, limit: int, sizes: list[int]) -> None:
    of = branch()
    records = members(of, number)
    of, key = open_base(town, *records, of=of)
    pages: list[list[str]] = []
    cursor: Record = {}
    while True:
        body = town.get("members", key, providerId=of["providerId"], limit=limit, **cursor).json()
        pages.append([row["memberId"] for row in body["data"]])
        if body["nextCursor"] is None:
            break
        cursor = {"cursor": body["nextCursor"]}
    assert [len(page) for page in pages] == sizes
    assert list(chain(*pages)) == [town.token(record["id"]) for record in records]


def test_the_cursor_is_the_token_of_the_last_row(town: House) -> None:
    of = branch()
    of, key = open_base(town, *members(of, 3), of=of)
    body = town.get("members", key, providerId=of["providerId"], limit=2).json()
    assert body["nextCursor"] == body["data"][-1]["memberId"]


def test_a_pass_is_not_thrown_off_when_the_sign_up_of_its_cursors_member_is_mended(town: House) -> None:
    of = branch()
    records = members(of, 5)
    of, key = open_base(town, *records, of=of)
    cursor = tokens(town, of, key, limit=2)[-1]
    town.load(records[1] | {"createdAt": "2025-12-01T00:00:00+07:00"})
    assert set(tokens(town, of, key, cursor=cursor)) >= {town.token(record["id"]) for record in records[2:]}


def test_a_cursor_whose_member_was_removed_is_a_bad_cursor(town: House) -> None:
    of = branch()
    records = members(of, 3)
    of, key = open_base(town, *records, of=of)
    cursor = tokens(town, of, key, limit=2)[-1]
    town.load(removal(records[1]))
    answer = town.get("members", key, providerId=of["providerId"], cursor=cursor)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_cursor")


def test_a_raw_internal_id_is_a_bad_cursor(town: House) -> None:
    of = branch()
    record = member(of)
    of, key = open_base(town, record, of=of)
    assert town.error("members", key, providerId=of["providerId"], cursor=record["id"]) == "bad_cursor"


def test_a_token_of_another_base_is_a_bad_cursor(town: House) -> None:
    franchise = fresh("franchise")
    one, other = branch(franchiseId=franchise), branch(franchiseId=franchise)
    theirs = member(other)
    town.load(one, other, member(one), theirs)
    key = town.key(franchise=franchise)
    cursor = town.token(theirs["id"])
    assert town.error("members", key, providerId=one["providerId"], cursor=cursor) == "bad_cursor"


@pytest.mark.parametrize("cursor", ["", "m1_", "m1_unknown", "m2_abc", "null", "\x00", "x" * 3000])
def test_a_cursor_that_is_no_token_of_the_base_is_a_bad_cursor(town: House, cursor: str) -> None:
    of = branch()
    of, key = open_base(town, member(of), of=of)
    assert town.error("members", key, providerId=of["providerId"], cursor=cursor) == "bad_cursor"


def test_a_removed_member_is_no_longer_listed(town: House) -> None:
    of = branch()
    stays, goes = members(of, 2)
    of, key = open_base(town, stays, goes, removal(goes), of=of)
    assert tokens(town, of, key) == [town.token(stays["id"])]


# --- members stored before there were forms -------------------------------------------


@pytest.mark.parametrize("personal_data", [True, False])
def test_a_member_from_before_forms_is_answered_like_any_other_and_gets_its_form_by_the_next_load(
    house: House, personal_data: bool
) -> None:
    of = branch()
    people = members(of, 3)
    of, key = open_base(house, *people, of=of, personal_data=personal_data)
    before = rows(house, of, key)
    formed = kept(house, "books", "SELECT token, record, form FROM members ORDER BY token")
    scribble(house, "books", f"UPDATE members SET form = NULL WHERE token <> '{before[0]['memberId']}'")  # noqa: S608
    assert rows(house, of, key) == before
    assert house.data(f"members/{before[1]['memberId']}", key) == before[1]
    house.load(*people)
    assert kept(house, "books", "SELECT token, record, form FROM members ORDER BY token") == formed
