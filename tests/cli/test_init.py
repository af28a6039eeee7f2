"""Tests for `counterfoil init`, and for commands that must not create a store."""

from pathlib import Path

import pytest

from cli.command import SHOPS, Command

DATABASES = {"books.sqlite3", "keys.sqlite3", "usage.sqlite3"}


def test_it_creates_an_empty_store_with_its_secret(counterfoil: Command, store: Path) -> None:
    assert "is ready" in counterfoil("init").stdout
    created = {file.name for file in store.iterdir() if not file.name.endswith(("-wal", "-shm"))}
    assert created == DATABASES | {"secret"}
    assert counterfoil.json("keys", "list") == []


def test_it_leaves_an_existing_store_as_it_is(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=SHOPS[0])
    counterfoil("init")
    assert counterfoil.json("load", "-", stdin=SHOPS[0])["unchanged"] == 1


@pytest.mark.parametrize("command", [["load", "-"], ["keys", "issue", "--shop", "sh_1"]], ids=" ".join)
def test_a_first_load_and_a_first_key_create_all_files(counterfoil: Command, store: Path, command: list[str]) -> None:
    counterfoil(*command, stdin=SHOPS[0])
    assert {file.name for file in store.glob("*.sqlite3")} == DATABASES


@pytest.mark.parametrize("command", [["serve"], ["keys", "list"], ["usage"], ["prune"]], ids=" ".join)
def test_other_commands_create_nothing(counterfoil: Command, store: Path, command: list[str]) -> None:
    assert f"there is no store at {store}" in counterfoil(*command, status=1).stderr
    store.mkdir()
    assert f"there is no store at {store}" in counterfoil(*command, status=1).stderr
    assert list(store.iterdir()) == []


def test_only_a_lost_file_is_created_again(counterfoil: Command, store: Path) -> None:
    counterfoil("init")
    assert "is not missing" in counterfoil("init", "--recreate", "usage", status=1).stderr
    (store / "usage.sqlite3").unlink()
    assert "counterfoil init --recreate usage" in counterfoil("usage", status=1).stderr
    counterfoil("init", "--recreate", "usage")
    counterfoil("usage")
