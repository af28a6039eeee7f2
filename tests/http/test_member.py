"""GET /v1/members/{memberToken}: one member."""

from urllib.parse import quote

import pytest

from house import House
from records import base, branch, fresh, member, removal, shop

FIELDS_WITHOUT_PERMISSION = 16


def test_the_answer_is_one_member_without_a_cursor(town: House) -> None:
    of = branch()
    record = member(of)
    town.load(of, base(of), record)
    body = town.get(f"members/{town.token(record['id'])}", town.key(shop=of["id"])).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert body["data"]["memberId"] == town.token(record["id"])


@pytest.mark.parametrize("personal_data", [False, True])
def test_a_member_is_the_same_in_the_list_and_on_its_own(town: House, personal_data: bool) -> None:
    of = branch()
    record = member(of, coupons=[{"code": "C1"}], visits=["2025-01-01"])
    town.load(of, base(of), record)
    key = town.key(shop=of["id"], personal_data=personal_data)
    (listed,) = town.data("members", key, providerId=of["providerId"])
    assert town.data(f"members/{town.token(record['id'])}", key) == listed


def test_phone_and_email_are_shown_with_the_permission_only(town: House) -> None:
    of = branch()
    record = member(of, tel="0812345678", email=None)
    town.load(of, record)
    path = f"members/{town.token(record['id'])}"
    plain = town.data(path, town.key(shop=of["id"]))
    full = town.data(path, town.key(shop=of["id"], personal_data=True))
    assert len(plain) == FIELDS_WITHOUT_PERMISSION
    assert full == plain | {"tel": "0812345678", "email": None}


def test_a_token_is_good_for_every_key_that_covers_the_base(town: House) -> None:
    one, other = branch(), branch()
    other["providerId"] = one["providerId"]
    record = member(one)
    town.load(one, other, record)
    keys = [town.key(shop=one["id"]), town.key(franchise=other["franchiseId"])]
    found = [town.data(f"members/{town.token(record['id'])}", key) for key in keys]
    assert found[0] == found[1]


def test_every_way_of_not_finding_a_member_is_answered_alike(town: House) -> None:
    of, theirs = branch(), branch()
    gone, outside, present = member(of), member(theirs), member(of)
    town.load(of, theirs, gone, outside, present, removal(gone))
    key = town.key(shop=of["id"])
    asked = [
        "m1_",
        "m1_unknown",
        "m1_" + "0" * 32,
        "m1_" + "x" * 3000,
        "m2_" + town.token(present["id"])[3:],
        town.token(present["id"])[3:],
        town.token(present["id"]).swapcase(),
        town.token(present["id"]) + "0",
        present["id"],
        town.token(gone["id"]),
        town.token(outside["id"]),
        "สมาชิก",
        "../shops",
        "%00",
    ]
    answers = [town.get(f"members/{quote(token, safe='')}", key) for token in asked]
    assert {(answer.status_code, answer.content) for answer in answers} == {(404, answers[0].content)}
    assert answers[0].json()["error"] == "not_found"


def test_a_member_of_another_franchises_base_is_not_found(town: House) -> None:
    mine, theirs = branch(), branch()
    record = member(theirs)
    town.load(mine, theirs, record)
    assert town.error(f"members/{town.token(record['id'])}", town.key(franchise=mine["franchiseId"])) == "not_found"


def test_a_shop_without_a_membership_programme_finds_nobody(town: House) -> None:
    of, theirs = shop(), branch()
    record = member(theirs)
    town.load(of, theirs, record)
    assert town.error(f"members/{town.token(record['id'])}", town.key(shop=of["id"])) == "not_found"


def test_a_member_removed_and_loaded_again_has_the_same_token(town: House) -> None:
    of = branch()
    record = member(of)
    town.load(of, record, removal(record))
    key, path = town.key(shop=of["id"]), f"members/{town.token(record['id'])}"
    assert town.error(path, key) == "not_found"
    town.load(record)
    assert town.data(path, key)["memberId"] == town.token(record["id"])


def test_a_branch_that_changes_its_base_changes_what_its_key_covers(town: House) -> None:
    of = branch()
    record = member(of)
    town.load(of, record)
    key, path = town.key(shop=of["id"]), f"members/{town.token(record['id'])}"
    assert town.get(path, key).status_code == 200
    town.load(of | {"providerId": fresh("base")})
    assert town.error(path, key) == "not_found"
