"""GET /v1/members/lookup: returns a member's token for a messaging user ID that the caller already knows."""

from typing import Any

import pytest

from records import Record, base, branch, fresh, member
from running_service import RunningService

USER = "U" + "0123456789abcdef" * 2
STRANGER = "U" + "f" * 32


def account(user: str = USER, **fields: Any) -> list[Record]:
    return [{"userId": user, **fields}]


def ask(service: RunningService, key: str, of: Record, user: str = USER) -> Any:
    return service.get("members/lookup", key, providerId=of["providerId"], messagingUserId=user)


def test_the_answer_is_the_token_and_nothing_else(shared_service: RunningService) -> None:
    of = branch()
    record = member(of, messaging=account())
    key = shared_service.key_for(of, base(of), record, personal_data=True, messaging_lookup=True)
    body = ask(shared_service, key, of).json()
    assert list(body) == ["ok", "data", "serverTime"]
    assert body["data"] == {"memberId": shared_service.token(record["id"])}


def test_without_the_permission_every_call_is_refused(shared_service: RunningService) -> None:
    """Access to personal data does not grant it."""
    of = branch()
    for personal_data in (False, True):
        answer = ask(shared_service, shared_service.key_for(of, personal_data=personal_data), of)
        assert (answer.status_code, answer.json()["error"]) == (403, "lookup_not_enabled")


# --- parameters ----------------------------------------------------------------------------


def test_a_missing_parameter_is_a_bad_query(shared_service: RunningService) -> None:
    of = branch()
    key = shared_service.key_for(of, messaging_lookup=True)
    base_id, user = {"providerId": of["providerId"]}, {"messagingUserId": USER}
    for query in (base_id, user, base_id | {"messagingUserId": ""}, user | {"providerId": ""}):
        assert shared_service.error("members/lookup", key, **query) == "bad_query"


def test_a_base_outside_the_scope_is_refused(shared_service: RunningService) -> None:
    of, theirs = branch(), branch()
    shared_service.load(theirs, member(theirs, messaging=account()))
    key = shared_service.key_for(of, messaging_lookup=True)
    assert ask(shared_service, key, theirs).json()["error"] == "provider_not_in_scope"


def test_a_franchises_key_looks_up_in_one_of_the_bases_under_it(shared_service: RunningService) -> None:
    franchise = fresh("franchise")
    *branches, without_members = [branch(franchiseId=franchise) for _ in range(3)]
    people = [member(of, messaging=account()) for of in branches]
    shared_service.load(*branches, without_members, *people)
    key = shared_service.key(franchise=franchise, messaging_lookup=True)
    found = [ask(shared_service, key, of).json()["data"]["memberId"] for of in branches]
    assert found == [shared_service.token(person["id"]) for person in people]
    assert ask(shared_service, key, without_members).json()["error"] == "not_found"


# --- who is found ---------------------------------------------------------------------------


def test_no_match_is_answered_like_a_missing_member(shared_service: RunningService) -> None:
    of = branch()
    key = shared_service.key_for(of, member(of, messaging=account()), messaging_lookup=True)
    unknown, missing = ask(shared_service, key, of, STRANGER), shared_service.get("members/m1_missing", key)
    assert (unknown.status_code, unknown.content) == (missing.status_code, missing.content)
    assert (unknown.status_code, unknown.json()["error"]) == (404, "not_found")


def test_the_most_recently_created_of_several_records_is_returned(shared_service: RunningService) -> None:
    of = branch()
    signed_up = ("2024-01-01T00:00:00Z", "2025-06-01T00:00:00Z", "2023-01-01T00:00:00Z")
    records = [member(of, createdAt=at, messaging=account()) for at in signed_up]
    key = shared_service.key_for(of, *records, messaging_lookup=True)
    assert ask(shared_service, key, of).json()["data"]["memberId"] == shared_service.token(records[1]["id"])


@pytest.mark.parametrize(
    ("channel", "found"), [("bot-now", True), ("bot-before", True), (None, True), ("another-bot", False)]
)
def test_an_account_is_found_under_the_current_and_older_channels_only(
    shared_service: RunningService, channel: str | None, found: bool
) -> None:
    of = branch()
    channels = base(of, messagingChannel="bot-now", olderMessagingChannels=["bot-before"])
    key = shared_service.key_for(of, channels, member(of, messaging=account(channel=channel)), messaging_lookup=True)
    assert ask(shared_service, key, of).status_code == (200 if found else 404)


def test_a_member_with_several_accounts_is_found_by_each(shared_service: RunningService) -> None:
    of = branch()
    key = shared_service.key_for(of, member(of, messaging=account() + account(STRANGER)), messaging_lookup=True)
    assert ask(shared_service, key, of).json()["data"] == ask(shared_service, key, of, STRANGER).json()["data"]
