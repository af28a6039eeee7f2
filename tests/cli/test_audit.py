"""Tests for `counterfoil audit`, which shows who changed keys or the store, and when."""

import re
from pathlib import Path

import pytest

from cli.command import Command
from counterfoil.machine.operator import operator


def issue(counterfoil: Command, *arguments: str) -> str:
    return str(counterfoil.json("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", *arguments)["keyId"])


def acts(counterfoil: Command, *arguments: object) -> list[str]:
    return [entry["act"] for entry in counterfoil.json("audit", *arguments)]


def test_every_command_that_changes_a_key_is_recorded_with_the_user_and_the_host(
    counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_id = issue(counterfoil, "--label", "ERP")
    counterfoil("keys", "update", key_id, "--per-min", "120")
    counterfoil("keys", "revoke", key_id, "--at", "2099-01-01T00:00Z", "--yes")
    counterfoil("keys", "revoke", key_id, "--yes")
    entries = counterfoil.json("audit", key_id)
    assert [entry["act"] for entry in entries] == ["key_revoked", "revocation_scheduled", "key_changed", "key_issued"]
    me = operator()
    assert {(entry["actor"], entry["via"], entry["host"]) for entry in entries} == {(me.name, "cli", me.host)}
    assert entries[2]["changes"] == {"perMin": {"before": 60, "after": 120}}
    monkeypatch.setenv("SUDO_USER", "alice")
    issue(counterfoil)
    assert counterfoil.json("audit")[0]["actor"].startswith("alice as ")


def test_no_secret_of_a_key_reaches_the_audit(counterfoil: Command) -> None:
    key = counterfoil.json("keys", "issue", "--not-loaded-yet", "--shop", "sh_1")["key"]
    successor = counterfoil.json("keys", "rotate", key.split("_")[2])["key"]
    said = counterfoil("audit", "--json").stdout + counterfoil("audit").stdout
    for text in (key, successor):
        assert text.split("_")[2] in said
        assert text.split("_")[3] not in said


def test_a_pipe_gets_one_line_per_entry(counterfoil: Command) -> None:
    key_id = issue(counterfoil, "--label", "ERP")
    counterfoil("keys", "update", key_id, "--per-day", "20000", "--messaging-lookup")
    heading, latest, first, created = counterfoil("audit").stdout.splitlines()
    assert heading.split() == ["time", "act", "key", "ID", "label", "actor", "via", "host", "changes"]
    assert latest.endswith("perDay 10,000 -> 20,000; permissions none -> messaging-lookup")
    assert re.search(
        rf"\+07  key issued +{key_id}  ERP .* scope shop sh_1; label ERP; perMin 60; perDay 10,000$", first
    )
    assert "store created" in created


def test_the_time_of_a_scheduled_revocation_is_shown_in_the_zone_of_all_other_times(counterfoil: Command) -> None:
    key_id = issue(counterfoil)
    counterfoil("keys", "revoke", key_id, "--at", "2099-01-01", "--yes")
    latest = counterfoil("audit").stdout.splitlines()[1]
    assert latest.endswith("revokesAt 2099-01-01 00:00 +07")
    assert counterfoil("audit", "--utc").stdout.splitlines()[1].endswith("revokesAt 2098-12-31 17:00 UTC")
    assert counterfoil.json("audit")[0]["changes"]["revokesAt"]["after"] == "2098-12-31T17:00:00.000Z"


def test_a_note_says_that_there_are_more_entries(counterfoil: Command) -> None:
    for _ in range(3):
        issue(counterfoil)
    limited = counterfoil("audit", "--limit", "2", "--json")
    assert "there are more entries; only the latest 2 are shown" in limited.stderr
    assert "more entries" not in counterfoil("audit", "--limit", "4").stderr


def test_older_entries_can_be_excluded(counterfoil: Command) -> None:
    issue(counterfoil)
    assert acts(counterfoil, "--since", "1h") == ["key_issued", "store_created"]
    assert acts(counterfoil, "--since", "2099-01-01T00:00+07:00") == []
    assert "no entries since the given time" in counterfoil("audit", "--since", "2099-01-01T00:00+07:00").stderr
    # A time without a zone is in the zone in which times are shown, and may have the form in which they are.
    for since in ("2099-01-01", "2099-01-01T00:00", "2099-01-01 00:00:00 +07", "2099-01-01 00:00:00 UTC"):
        assert acts(counterfoil, "--since", since) == []
    for wrong in ("yesterday", "", "7 days"):
        assert "Use a duration such as 12h or 7d, or a time" in counterfoil("audit", "--since", wrong, status=2).stderr


def test_acts_on_the_whole_store_are_recorded(counterfoil: Command, store: Path, tmp_path: Path) -> None:
    counterfoil("init")
    counterfoil("init")
    counterfoil("prune")
    (store / "usage.sqlite3").unlink()
    counterfoil("init", "--recreate", "usage")
    entries = counterfoil.json("audit")
    assert [entry["act"] for entry in entries] == ["file_recreated", "records_pruned", "store_created"]
    assert entries[0]["detail"] == "usage.sqlite3"
    assert entries[1]["detail"] == "0 request records, 0 daily totals, 0 expired cursors, 0 removals"


def test_a_restore_is_recorded_and_keeps_the_entries_written_after_the_backup(
    counterfoil: Command, tmp_path: Path
) -> None:
    key_id = issue(counterfoil)
    counterfoil("backup", tmp_path / "backup")
    counterfoil("keys", "update", key_id, "--label", "later")
    counterfoil("keys", "revoke", key_id, "--yes")
    counterfoil("restore", tmp_path / "backup", "--replace", "--yes")
    entries = counterfoil.json("audit")
    assert {entry["act"] for entry in entries[:2]} == {"store_restored", "revocation_restored"}
    earlier = ["key_revoked", "key_changed", "store_backed_up", "key_issued", "store_created"]
    assert [entry["act"] for entry in entries[2:]] == earlier
    (restored,) = (entry for entry in entries if entry["act"] == "store_restored")
    assert restored["detail"].startswith("the backup taken at 20")
    # A second restore of the same backup also keeps the entries.
    counterfoil("restore", tmp_path / "backup", "--replace", "--yes")
    assert len(acts(counterfoil)) == 9


def test_a_restore_of_another_store_does_not_mix_the_two_audits(tmp_path: Path) -> None:
    one, other = Command(tmp_path / "one"), Command(tmp_path / "other")
    issue(one)
    one("backup", tmp_path / "backup")
    for _ in range(3):
        issue(other)
    other("restore", tmp_path / "backup", "--replace", "--yes")
    assert acts(other) == ["store_restored", "key_issued", "store_created"]
