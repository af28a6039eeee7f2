"""GET /v1/members/{memberToken}: one member."""

from urllib.parse import quote

import pytest

from records import base, branch, member, removal
from running_service import RunningService

FIELDS_WITHOUT_PERMISSION = 16


def test_the_answer_is_one_member_without_a_cursor(shared_service: RunningService) -> None:
    of = branch()
    record = member(of)
    shared_service.load(of, base(of), record)
    body = shared_service.get(f"members/{shared_service.token(record['id'])}", shared_service.key(shop=of["id"])).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert body["data"]["memberId"] == shared_service.token(record["id"])


@pytest.mark.parametrize("personal_data", [False, True])
def test_a_member_is_the_same_in_the_list_and_on_its_own(shared_service: RunningService, personal_data: bool) -> None:
    of = branch()
    record = member(of, coupons=[{"code": "C1"}], visits=["2025-01-01"])
    shared_service.load(of, base(of), record)
    key = shared_service.key(shop=of["id"], personal_data=personal_data)
    (listed,) = shared_service.data("members", key, providerId=of["providerId"])
    assert shared_service.data(f"members/{shared_service.token(record['id'])}", key) == listed


def test_phone_and_email_are_shown_only_with_the_permission(shared_service: RunningService) -> None:
    of = branch()
    record = member(of, tel="0812345678", email=None)
    shared_service.load(of, record)
    path = f"members/{shared_service.token(record['id'])}"
    plain = shared_service.data(path, shared_service.key(shop=of["id"]))
    full = shared_service.data(path, shared_service.key(shop=of["id"], personal_data=True))
    assert len(plain) == FIELDS_WITHOUT_PERMISSION
    assert full == plain | {"tel": "0812345678", "email": None}


def test_a_token_is_valid_for_every_key_that_covers_the_base(shared_service: RunningService) -> None:
    one, other = branch(), branch()
    other["providerId"] = one["providerId"]
    record = member(one)
    shared_service.load(one, other, record)
    keys = [shared_service.key(shop=one["id"]), shared_service.key(franchise=other["franchiseId"])]
    found = [shared_service.data(f"members/{shared_service.token(record['id'])}", key) for key in keys]
    assert found[0] == found[1]


def test_all_reasons_for_not_finding_a_member_get_the_same_answer(shared_service: RunningService) -> None:
    of, theirs = branch(), branch()
    gone, outside, present = member(of), member(theirs), member(of)
    shared_service.load(of, theirs, gone, outside, present, removal(gone))
    key = shared_service.key(shop=of["id"])
    asked = [
        "m1_",
        "m1_unknown",
        "m1_" + "0" * 32,
        "m1_" + "x" * 3000,
        "m2_" + shared_service.token(present["id"])[3:],
        shared_service.token(present["id"])[3:],
        shared_service.token(present["id"]).swapcase(),
        shared_service.token(present["id"]) + "0",
        present["id"],
        shared_service.token(gone["id"]),
        shared_service.token(outside["id"]),
        "สมาชิก",
        "../shops",
        "%00",
    ]
    answers = [shared_service.get(f"members/{quote(token, safe='')}", key) for token in asked]
    assert {(answer.status_code, answer.content) for answer in answers} == {(404, answers[0].content)}
    assert answers[0].json()["error"] == "not_found"


def test_a_member_removed_and_loaded_again_has_the_same_token(shared_service: RunningService) -> None:
    of = branch()
    record = member(of)
    shared_service.load(of, record, removal(record))
    key, path = shared_service.key(shop=of["id"]), f"members/{shared_service.token(record['id'])}"
    assert shared_service.error(path, key) == "not_found"
    shared_service.load(record)
    assert shared_service.data(path, key)["memberId"] == shared_service.token(record["id"])
