"""Tests for `counterfoil keys`."""

import re
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from actors import OPERATOR
from cli.command import SHOPS, Command, run_sql
from counterfoil import key_issuing
from counterfoil.backends.sqlite.keys import SqliteKeyStore
from counterfoil.domain.credentials import PATTERN, matches, parse_authorization
from counterfoil.program.clock import SystemClock
from counterfoil.views.welcome import FIRST_CALL, KEEPING_A_COPY


def issue(counterfoil: Command, *arguments: str) -> dict[str, Any]:
    return dict(counterfoil.json("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", *arguments))


def test_an_issued_key_is_printed_once_and_its_secret_is_not_stored(counterfoil: Command, store: Path) -> None:
    text = counterfoil("keys", "issue", "--not-loaded-yet", "--franchise", "fr_a", "--label", "ERP").stdout
    (key,) = re.findall(PATTERN, text)
    secret = key.rpartition("_")[2]
    assert "shown only once" in text
    assert secret not in counterfoil("keys", "list").stdout + counterfoil("keys", "list", "--json").stdout
    assert all(secret.encode() not in file.read_bytes() for file in store.rglob("*") if file.is_file())


def test_the_printed_key_is_the_one_that_the_store_accepts(counterfoil: Command, store: Path) -> None:
    issued = issue(counterfoil)
    credential = parse_authorization(f"Bearer {issued['key']}")
    assert credential
    assert credential.key_id == issued["keyId"]
    assert matches(credential.secret, run_sql(store, "keys", "SELECT secret_digest FROM keys"))


def test_a_key_has_the_contracts_limits_and_no_permission_by_default(counterfoil: Command) -> None:
    plain = issue(counterfoil)
    assert (plain["perMin"], plain["perDay"], plain["permissions"]) == (60, 10_000, [])
    granted = issue(
        counterfoil, "--label", "CRM", "--per-min", "5", "--per-day", "9", "--personal-data", "--messaging-lookup"
    )
    assert (granted["perMin"], granted["perDay"], granted["label"]) == (5, 9, "CRM")
    assert granted["permissions"] == ["personal-data", "messaging-lookup"]
    assert granted["scope"] == {"kind": "shop", "id": "sh_1"}


def test_a_scope_that_the_store_does_not_know_is_refused_and_a_known_one_is_not(counterfoil: Command) -> None:
    refused = counterfoil("keys", "issue", "--shop", "sh_1", status=1)
    assert "no shop sh_1 is loaded, so no key was issued" in refused.output
    assert not counterfoil.store.exists()
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    assert counterfoil("keys", "issue", "--franchise", "fr_a").stderr == ""
    refused = counterfoil("keys", "issue", "--franchise", "nosuch", status=1)
    assert "no shop of franchise nosuch is loaded" in refused.output
    assert len(counterfoil.json("keys", "list")) == 1


def test_a_key_for_a_scope_that_is_not_loaded_yet_causes_a_note(counterfoil: Command) -> None:
    assert "shop sh_1 is not loaded yet" in counterfoil("keys", "issue", "--not-loaded-yet", "--shop", "sh_1").stderr
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    assert counterfoil("keys", "issue", "--not-loaded-yet", "--shop", "sh_1").stderr == ""
    assert counterfoil("keys", "issue", "--not-loaded-yet", "--franchise", "fr_a").stderr == ""
    assert (
        "franchise fr_b is not loaded yet"
        in counterfoil("keys", "issue", "--not-loaded-yet", "--franchise", "fr_b").stderr
    )


@pytest.mark.parametrize(
    "options",
    ["", "--franchise b --shop a", "--shop a --per-min 0", "--shop a --per-day -1", "--shop a --per-day many"],
)
def test_invalid_options_for_a_new_key_are_misuse(counterfoil: Command, options: str) -> None:
    counterfoil("keys", "issue", "--not-loaded-yet", *options.split(), status=2)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--shop", " "), "a shop ID must not be blank"),
        (("--shop", "\udcff"), "a shop ID must not contain line breaks, control characters or invalid UTF-8"),
        (("--shop", "a", "--label", "two\nlines"), "a label must not contain line breaks, control characters"),
        (("--shop", "a", "--label", "a" * 201), "a label must not be longer than 200 characters"),
    ],
)
def test_an_id_or_label_that_is_not_a_line_of_text_is_refused_with_the_reason(
    counterfoil: Command, arguments: tuple[str, ...], reason: str
) -> None:
    told = counterfoil("keys", "issue", "--not-loaded-yet", *arguments, status=1).stderr
    assert reason in " ".join(told.split())


def test_keys_are_listed_and_shown(counterfoil: Command) -> None:
    first, second = issue(counterfoil, "--label", "one"), issue(counterfoil, "--label", "two")
    listed = counterfoil.json("keys", "list")
    assert {key["keyId"] for key in listed} == {first["keyId"], second["keyId"]}
    assert all("key" not in key for key in listed)
    key = first.pop("key")
    assert counterfoil.json("keys", "show", first["keyId"]).items() >= first.items()
    assert key not in counterfoil("keys", "show", first["keyId"]).stdout
    assert "one" in counterfoil("keys", "show", first["keyId"]).stdout


def test_an_update_changes_only_the_given_options(counterfoil: Command) -> None:
    issued = issue(counterfoil, "--label", "before", "--personal-data", "--per-min", "5")
    updated = counterfoil.json("keys", "update", issued["keyId"], "--label", "after", "--messaging-lookup")
    del issued["key"]
    assert updated == issued | {"label": "after", "permissions": ["personal-data", "messaging-lookup"]}
    withdrawn = counterfoil.json("keys", "update", issued["keyId"], "--no-personal-data", "--per-day", "7")
    assert (withdrawn["permissions"], withdrawn["perDay"], withdrawn["perMin"]) == (["messaging-lookup"], 7, 5)
    counterfoil("keys", "update", issued["keyId"], status=2)


def test_a_successor_has_the_same_permissions_while_the_old_key_still_works(counterfoil: Command) -> None:
    old = issue(counterfoil, "--label", "ERP", "--per-min", "5", "--personal-data")
    new = counterfoil.json("keys", "rotate", old["keyId"])
    same = ("label", "scope", "permissions", "perMin", "perDay")
    assert [new[name] for name in same] == [old[name] for name in same]
    assert new["successorOf"] == old["keyId"]
    assert new["key"] != old["key"]
    assert not counterfoil.json("keys", "show", old["keyId"])["revoked"]


def test_a_revocation_is_permanent_and_idempotent(counterfoil: Command) -> None:
    key_id = issue(counterfoil)["keyId"]
    first = counterfoil.json("keys", "revoke", key_id, "--yes")
    assert first["revoked"]
    assert counterfoil.json("keys", "revoke", key_id)["revokedAt"] == first["revokedAt"]
    assert "was already revoked" in counterfoil("keys", "revoke", key_id).stdout
    assert "issue a new key" in counterfoil("keys", "rotate", key_id, status=1).stderr
    assert counterfoil.json("keys", "list", "--active") == []
    before = counterfoil.json("keys", "show", key_id)
    refused = counterfoil("keys", "update", key_id, "--per-min", "7", status=1)
    assert refused.stderr == (
        f"counterfoil: key {key_id} is revoked, so it cannot be changed. Issue a new key instead.\n"
    )
    assert counterfoil.json("keys", "show", key_id) == before


@pytest.mark.parametrize("command", ["keys show", "keys rotate", "keys revoke", "keys update --label x", "usage"])
def test_an_unknown_key_is_reported_in_one_sentence(counterfoil: Command, command: str) -> None:
    issue(counterfoil)
    result = counterfoil(*command.split(), "A" * 12, status=1)
    assert result.stderr == (
        "counterfoil: there is no key AAAAAAAAAAAA in this store. Run `counterfoil keys list` to see all keys.\n"
    )


def test_a_key_or_its_secret_in_place_of_an_id_is_refused_and_not_repeated(counterfoil: Command) -> None:
    issued = issue(counterfoil)
    secret = issued["key"].rpartition("_")[2]
    refused = [counterfoil("keys", "show", given, status=2).stderr for given in (issued["key"], secret)]
    assert f"Use only the key ID, {issued['keyId']}." in refused[0]
    assert secret not in "".join(refused)


def test_revoking_without_a_terminal_needs_yes(counterfoil: Command) -> None:
    key_id = issue(counterfoil)["keyId"]
    for words in ((), ("--at", "2999-01-01T00:00Z")):
        assert "needs --yes" in counterfoil("keys", "revoke", key_id, *words, status=2, stdin=b"y\n").stderr
    shown = counterfoil.json("keys", "show", key_id)
    assert (shown["revoked"], shown["revokesAt"]) == (False, None)


def test_a_rotation_can_schedule_the_end_of_the_old_key(counterfoil: Command) -> None:
    old = issue(counterfoil)["keyId"]
    before = SystemClock().now_ms()
    new = counterfoil.json("keys", "rotate", old, "--revoke-old-in", "7d")
    shown = counterfoil.json("keys", "show", old)
    ends = datetime.fromisoformat(shown["revokesAt"]).timestamp() * 1000
    assert 0 <= round(ends) - before - 7 * 86_400_000 < 60_000
    assert (shown["revoked"], new["revokesAt"]) == (False, None)
    assert "active until" in counterfoil("keys", "list").stdout
    # The successor of a key with a scheduled revocation does not inherit the schedule.
    assert counterfoil.json("keys", "rotate", old, "--again")["revokesAt"] is None
    # Another rotation keeps the schedule and says so, and reminds of the first successor.
    again = counterfoil("keys", "rotate", old, "--again")
    assert f"The old key {old} works until " in again.stdout
    assert "Other active successors: " in again.stderr
    assert new["keyId"] in again.stderr


def test_a_key_with_a_successor_is_rotated_again_only_on_request(counterfoil: Command) -> None:
    old = issue(counterfoil)["keyId"]
    first = counterfoil.json("keys", "rotate", old)["keyId"]
    refused = counterfoil("keys", "rotate", old, status=1)
    assert refused.stdout == ""
    assert refused.stderr == (
        f"counterfoil: key {old} already has the successor {first}, so no further successor was issued. "
        "To issue another successor, run the command with --again.\n"
    )
    assert counterfoil.json("keys", "rotate", old, "--again")["successorOf"] == old
    for successor in counterfoil.json("keys", "list")[1:]:
        counterfoil("keys", "revoke", successor["keyId"], "--yes")
    # A key whose successors have all been revoked can be rotated without --again.
    assert counterfoil.json("keys", "rotate", old)["successorOf"] == old


def test_a_schedule_can_be_changed_and_the_key_still_revoked_at_once(counterfoil: Command) -> None:
    key_id = issue(counterfoil)["keyId"]
    for year in ("2999", "2998"):
        text = counterfoil("keys", "revoke", key_id, "--at", f"{year}-01-01T07:00+07:00", "--yes").stdout
        assert f"works until {year}-01-01 07:00 +07" in text
    assert counterfoil.json("keys", "revoke", key_id, "--yes")["revoked"]
    assert "was already revoked" in counterfoil("keys", "revoke", key_id, "--at", "2999-01-01T00:00Z").stdout


def test_a_key_is_revoked_everywhere_at_its_scheduled_time(counterfoil: Command, store: Path) -> None:
    key_id = issue(counterfoil)["keyId"]
    with closing(SqliteKeyStore(store, SystemClock().now_ms)) as key_store:
        key_issuing.schedule_revocation(key_store, key_id, 2_000, now_ms=1_000, by=OPERATOR)
    shown = counterfoil.json("keys", "show", key_id)
    assert (shown["revoked"], shown["revokedAt"], shown["revokesAt"]) == (True, "1970-01-01T00:00:02.000Z", None)
    assert counterfoil.json("keys", "list", "--active") == []
    assert counterfoil.json("usage", key_id)[0]["revoked"]
    assert "was already revoked" in counterfoil("keys", "revoke", key_id).stdout
    assert "issue a new key" in counterfoil("keys", "rotate", key_id, status=1).stderr


def test_an_invalid_time_is_misuse_and_changes_nothing(counterfoil: Command) -> None:
    key_id = issue(counterfoil)["keyId"]
    for time in ("tomorrow", "2020-01-01T00:00", "2020-01-01T00:00Z"):
        counterfoil("keys", "revoke", key_id, "--at", time, status=2)
    for duration in ("7", "0d", "-7d"):
        counterfoil("keys", "rotate", key_id, "--revoke-old-in", duration, status=2)
    (only,) = counterfoil.json("keys", "list")
    assert (only["revoked"], only["revokesAt"]) == (False, None)


def test_a_time_without_a_zone_is_in_the_zone_of_the_lists(counterfoil: Command) -> None:
    key_id = issue(counterfoil)["keyId"]
    revoked = counterfoil.json("keys", "revoke", key_id, "--at", "2999-12-01", "--yes")
    assert revoked["revokesAt"] == "2999-11-30T17:00:00.000Z"


@pytest.mark.parametrize("word", ["delete", "remove"])
def test_whoever_wants_to_delete_a_key_reads_that_it_is_revoked(counterfoil: Command, word: str) -> None:
    refused = counterfoil("keys", word, "AAAAAAAAAAAA", status=2)
    assert f"There is no command '{word}'. Use `counterfoil keys revoke`." in refused.output.replace(
        "program", "counterfoil"
    )


# --- the message for the holder ------------------------------------------------------

BASE_URL = "https://api.example.com/ext/v1"


@pytest.fixture
def loaded(counterfoil: Command) -> Command:
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    return counterfoil


def test_the_message_for_the_holder_has_the_url_the_limits_and_three_pages_and_never_the_key(
    loaded: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_API_URL", BASE_URL + "/")
    monkeypatch.setenv("COUNTERFOIL_REFERENCE", "on")
    issued = loaded.json("keys", "issue", "--franchise", "fr_a", "--per-day", "5000", "--welcome")
    message = issued["welcome"]
    assert issued["key"] not in message
    assert issued["key"].rpartition("_")[2] not in message
    for part in (
        f"Base URL  {BASE_URL}\n",
        f"Key ID    {issued['keyId']}\n",
        "franchise fr_a (2 shops today)",
        "60 requests in any 60 seconds, 5,000 per day",
        "members without contact details",
        "https://api.example.com/ext/reference#first-call",
        "https://api.example.com/ext/reference#guide-keeping-a-copy",
        f"{BASE_URL}/openapi.json",
    ):
        assert part in message
    shown = loaded("keys", "show", issued["keyId"], "--welcome")
    assert (shown.stdout, shown.stderr) == (message + "\n", "")


def test_the_pages_that_the_message_names_exist_in_the_reference(counterfoil: Command) -> None:
    page = counterfoil.bare("reference").stdout
    assert f'id="{FIRST_CALL}"' in page
    assert f'id="{KEEPING_A_COPY}"' in page


def test_the_message_names_an_attachment_if_the_reference_is_not_served(
    loaded: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_API_URL", BASE_URL)
    issued = loaded("keys", "issue", "--shop", "sh_1", "--personal-data", "--welcome")
    (key,) = re.findall(PATTERN, issued.stdout)
    _, message = issued.stdout.split("You can now read")
    assert key not in message
    assert "reference.html, attached" in message
    assert "with telephone numbers and email addresses" in message
    assert f"counterfoil reference --base-url {BASE_URL} --out reference.html" in issued.stderr


def test_without_a_base_url_no_message_is_printed_and_no_key_is_issued(loaded: Command) -> None:
    refused = loaded("keys", "issue", "--shop", "sh_1", "--welcome", status=1)
    assert "COUNTERFOIL_API_URL=https://api.example.com/ext/v1" in refused.output
    assert loaded.json("keys", "list") == []


def test_the_holder_of_a_revoked_key_gets_no_message(loaded: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_API_URL", BASE_URL)
    key_id = loaded.json("keys", "issue", "--shop", "sh_1")["keyId"]
    loaded("keys", "revoke", key_id, "--yes")
    assert "revoked" in loaded("keys", "show", key_id, "--welcome", status=1).output
