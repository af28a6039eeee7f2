"""Tests that no command prints control characters of names and messages that come from elsewhere."""

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import records as r
from client.scripted_service import Answer, scripted_service
from counterfoil.program.main import program

# An escape sequence, its C1 form, marks that change the direction, a line separator, and a line that looks like ours.
UNSAFE = "\x1b[2J\x9b31m\u202e\u2066\u2028\nforged"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def run(*words: object, stdin: bytes | None = None) -> Result:
    """Run a command, and check that what it prints contains no control characters and no forged line."""
    result = CliRunner().invoke(program, [str(word) for word in words], input=stdin)
    assert not CONTROL.search(result.output), repr(result.output)
    assert not any(line.startswith("forged") for line in result.output.split("\n")), repr(result.output)
    assert "unexpected error" not in result.output
    return result


@pytest.fixture
def attacked(store: Path, tmp_path: Path) -> Path:
    """A store whose shops, files and keys have unsafe text wherever somebody else may write it."""
    shop = r.shop(name=f"Riverside{UNSAFE}", id=f"sh{UNSAFE}", franchiseId=f"fr{UNSAFE}", providerId=f"mb{UNSAFE}")
    lines = [shop, r.shop(id="sh_plain"), r.bill(shop, **{UNSAFE: 1}), {"kind": "bill", UNSAFE: 1}, {"kind": UNSAFE}]
    delivery = tmp_path / f"delivery{UNSAFE}.ndjson"
    delivery.write_bytes(b"\n".join(json.dumps(line).encode() for line in lines) + b"\n\xff\x1b\n")
    assert "line 4: no_id" in run("load", "--check", delivery, "--store", store).output
    assert "1 record" in run("load", delivery, "--store", store).output
    return store


def test_text_of_the_store_is_printed_without_control_characters(attacked: Path) -> None:
    on_store = ("--store", attacked)
    issued = run("keys", "issue", "--not-loaded-yet", "--shop", "sh_plain", "--label", "ERP", *on_store).output
    key_id = issued.split("key ID")[1].split()[0]
    # An earlier version may have accepted a label that this one refuses.
    with closing(sqlite3.connect(attacked / "keys.sqlite3")) as database, database:
        [body] = database.execute("SELECT body FROM keys").fetchone()
        key = json.dumps(json.loads(body) | {"label": f"ERP{UNSAFE}"})
        database.execute("UPDATE keys SET body = ?", (key.encode(),))
    assert run("keys", "issue", "--not-loaded-yet", "--shop", f"none{UNSAFE}", *on_store).output
    keys, loads = ("keys list", f"keys show {key_id}"), ("loads", "loads 1")
    for command in (*keys, *loads, "shops", "usage", "audit", "requests", "settings", "status", "doctor"):
        assert run(*command.split(), *on_store).output


@pytest.mark.parametrize("command", ["pull", "reconcile"])
def test_messages_of_a_server_are_printed_without_control_characters(command: str, tmp_path: Path) -> None:
    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        body = {"error": f"invalid_key{UNSAFE}", "message": f"no{UNSAFE}"}
        return 401, {"x-request-id": "r\x9b31m"}, json.dumps(body).encode()

    key, target = tmp_path / "key", tmp_path / "copy.sqlite"
    key.write_text("cf_live_x")
    if command == "reconcile":
        target.touch()
    with scripted_service(answer) as url:
        result = run(command, "--url", url, "--key-file", key, "--to", target)
    assert result.exit_code == 1
    assert command == "reconcile" or "\\x1b[2J" in result.output


def test_text_of_an_export_is_printed_without_control_characters(tmp_path: Path) -> None:
    export = tmp_path / f"sales{UNSAFE}.csv"
    export.write_text(f'"Receipt{UNSAFE}","Total","Date"\n"1{UNSAFE}","x{UNSAFE}","2026-01-31"\n', encoding="utf-8")
    assert run("import", export).output
    mapping = tmp_path / "mapping.toml"
    content = {"id": f"Receipt{UNSAFE}", "net": "Total", "closedAt": "Date"}
    mapping.write_text("[bill]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in content.items()))
    assert run("import", "--format", "csv", "--mapping", mapping, export, "--shop", f"s{UNSAFE}").output


@pytest.mark.parametrize("words", [("keys", "show"), ("load",), ("shops",), ("pull", "--to"), ("mcp",)])
def test_text_of_the_command_line_is_printed_without_control_characters(words: tuple[str, ...], store: Path) -> None:
    assert run(*words, f"x{UNSAFE}").exit_code != 0
