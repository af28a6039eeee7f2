"""GET /v1/members/lookup: returns a member's token for a messaging user ID that the caller already knows."""

from typing import Any

import pytest

from records import Record, base, branch, fresh, member
from running_service import RunningService

USER = "U" + "0123456789abcdef" * 2
STRANGER = "U" + "f" * 32


def account(user: str = USER, **fields: Any) -> list[Record]:
    return [{"userId": user, **fields}]


def open_base(service: RunningService, *records: Record, of: Record, **terms: Any) -> str:
    """Load a branch and these records; return a key for it, with the lookup permission unless `terms` denies it."""
    service.load(of, *records)
    return service.key(shop=of["id"], **({"messaging_lookup": True} | terms))


def ask(service: RunningService, key: str, of: Record, user: str = USER) -> Any:
    return service.get("members/lookup", key, providerId=of["providerId"], messagingUserId=user)


# --- the answer --------------------------------------------------------------------


def test_the_answer_is_the_token_and_nothing_else(shared_service: RunningService) -> None:
    of = branch()
    record = member(of, messaging=account())
    body = ask(shared_service, open_base(shared_service, base(of), record, of=of, personal_data=True), of).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert body["data"] == {"memberId": shared_service.token(record["id"])}


# --- the permission ------------------------------------------------------------------


def test_without_the_permission_every_call_is_refused(shared_service: RunningService) -> None:
    of = branch()
    answer = ask(shared_service, open_base(shared_service, of=of, messaging_lookup=False), of)
    assert (answer.status_code, answer.json()["error"]) == (403, "lookup_not_enabled")


def test_personal_data_access_does_not_grant_the_lookup(shared_service: RunningService) -> None:
    of = branch()
    key = open_base(shared_service, of=of, messaging_lookup=False, personal_data=True)
    assert ask(shared_service, key, of).json()["error"] == "lookup_not_enabled"


# --- parameters ----------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["", "U" + "0" * 31, "m1_abc"])
def test_a_user_id_of_another_form_is_a_bad_query(shared_service: RunningService, user: str) -> None:
    of = branch()
    answer = ask(shared_service, open_base(shared_service, of=of), of, user)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_query")


@pytest.mark.parametrize("missing", ["providerId", "messagingUserId"])
@pytest.mark.parametrize("how", ["absent", "empty"])
def test_both_parameters_are_required(shared_service: RunningService, missing: str, how: str) -> None:
    of = branch()
    query = {"providerId": of["providerId"], "messagingUserId": USER}
    query = query | {missing: ""} if how == "empty" else {name: query[name] for name in query if name != missing}
    assert shared_service.error("members/lookup", open_base(shared_service, of=of), **query) == "bad_query"


def test_a_base_outside_the_scope_is_refused(shared_service: RunningService) -> None:
    of, theirs = branch(), branch()
    shared_service.load(theirs, member(theirs, messaging=account()))
    answer = ask(shared_service, open_base(shared_service, of=of), theirs)
    assert (answer.status_code, answer.json()["error"]) == (403, "provider_not_in_scope")


def test_a_franchises_key_looks_up_in_every_base_under_it(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    branches = [branch(franchiseId=franchise) for _ in range(2)]
    people = [member(of, messaging=account()) for of in branches]
    shared_service.load(*branches, *people)
    key = shared_service.key(franchise=franchise, messaging_lookup=True)
    found = [ask(shared_service, key, of).json()["data"]["memberId"] for of in branches]
    assert found == [shared_service.token(person["id"]) for person in people]


# --- who is found ---------------------------------------------------------------------------


def test_no_match_is_answered_like_a_missing_member(shared_service: RunningService) -> None:
    of = branch()
    key = open_base(shared_service, member(of, messaging=account()), of=of)
    unknown, missing = ask(shared_service, key, of, STRANGER), shared_service.get("members/m1_missing", key)
    assert (unknown.status_code, unknown.content) == (missing.status_code, missing.content)
    assert (unknown.status_code, unknown.json()["error"]) == (404, "not_found")


def test_a_person_who_is_a_member_of_another_base_is_not_found(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    one, other = branch(franchiseId=franchise), branch(franchiseId=franchise)
    shared_service.load(one, other, member(other, messaging=account()))
    key = shared_service.key(franchise=franchise, messaging_lookup=True)
    assert ask(shared_service, key, one).json()["error"] == "not_found"


def test_the_most_recently_created_of_several_records_is_returned(shared_service: RunningService) -> None:
    of = branch()
    signed_up = ("2024-01-01T00:00:00Z", "2025-06-01T00:00:00Z", "2023-01-01T00:00:00Z")
    records = [member(of, createdAt=at, messaging=account()) for at in signed_up]
    key = open_base(shared_service, *records, of=of)
    assert ask(shared_service, key, of).json()["data"]["memberId"] == shared_service.token(records[1]["id"])


@pytest.mark.parametrize(
    ("channel", "found"), [("bot-now", True), ("bot-before", True), (None, True), ("another-bot", False)]
)
def test_an_account_is_found_under_the_current_and_older_channels_only(
    shared_service: RunningService, channel: str | None, found: bool
) -> None:
    of = branch()
    channels = base(of, messagingChannel="bot-now", olderMessagingChannels=["bot-before"])
    key = open_base(shared_service, channels, member(of, messaging=account(channel=channel)), of=of)
    assert ask(shared_service, key, of).status_code == (200 if found else 404)


def test_a_member_with_several_accounts_is_found_by_each(shared_service: RunningService) -> None:
    of = branch()
    key = open_base(shared_service, member(of, messaging=account() + account(STRANGER)), of=of)
    assert ask(shared_service, key, of).json()["data"] == ask(shared_service, key, of, STRANGER).json()["data"]
