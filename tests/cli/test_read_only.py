"""A command that only reads never opens a store for writing, and shows what the files say."""

import sqlite3
import sys
from contextlib import closing
from typing import Any

import pytest

from cli.command import SHOPS, Command

OPENED: list[str] = []
BILL = b'{"kind":"bill","id":"b_1","shopId":"sh_1","closedAt":1760000000,"amounts":{"net":5}}'


def note_opened(event: str, values: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect":
        OPENED.append(str(values[0]))


# A hook cannot be removed, so it is added once per process.
sys.addaudithook(note_opened)


@pytest.fixture
def key_id(counterfoil: Command) -> str:
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    return str(counterfoil.json("keys", "issue", "--shop", "sh_1", "--label", "till")["keyId"])


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("doctor",),
        ("keys", "list"),
        ("keys", "show", "KEY"),
        ("usage",),
        ("usage", "KEY", "--disclosures"),
        ("audit",),
        ("requests",),
        ("loads",),
        ("shops",),
        ("load", "-", "--check"),
    ],
    ids=" ".join,
)
def test_reading_commands_open_the_store_read_only(counterfoil: Command, key_id: str, words: tuple[str, ...]) -> None:
    given = {"KEY": key_id}
    OPENED.clear()
    # No service is running, which is an error for `status`.
    status = 1 if words == ("status",) else 0
    counterfoil(*(given.get(word, word) for word in words), stdin=BILL, status=status)
    opened = [address for address in OPENED if str(counterfoil.store) in address]
    assert opened
    assert [address for address in opened if not address.endswith("?mode=ro")] == []


def test_a_key_whose_revocation_only_the_usage_file_has_is_listed_as_revoked(counterfoil: Command, key_id: str) -> None:
    """This happens if an older key file was restored, until the service or a command that writes is started."""
    older = (counterfoil.store / "keys.sqlite3").read_bytes()
    counterfoil("keys", "revoke", key_id, "--yes")
    (counterfoil.store / "keys.sqlite3").write_bytes(older)
    (listed,) = counterfoil.json("keys", "list")
    assert listed["revokedAt"]
    assert counterfoil.json("keys", "list", "--active") == []
    assert counterfoil.json("keys", "show", key_id)["revokedAt"] == listed["revokedAt"]
    with closing(sqlite3.connect(counterfoil.store / "keys.sqlite3")) as keys:
        assert b'"revoked_at":null' in keys.execute("SELECT body FROM keys").fetchone()[0]
