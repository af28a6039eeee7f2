"""Tests for the keys of the embedded store: restored files, locks, and the cost of requests without a valid key."""

import asyncio
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actors import CHANGED
from broken_store import locked
from cost.counting_worker import statements_run
from counterfoil.backends.moved_tables import TABLES
from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.files import WAIT_SEC, path_of
from counterfoil.backends.sqlite.keys import REREAD_SEC, SqliteKeyLookup, SqliteKeyStore
from counterfoil.backends.sqlite.move_source import SqliteMoveSource
from counterfoil.domain import credentials
from counterfoil.domain.access import KEYS_TRUSTED_SEC, Key, Scope
from counterfoil.ports import StoredKey, StoreUnavailable
from counterfoil.program.clock import SystemClock
from running_service import ManualClock, RunningService
from second_migration import add_second_migration

KEY = Key(key_id="k_1", scope=Scope("shop", "sh_1"), created_at=1)
DIGEST = b"\x01" * 32
FIVE_MINUTES = 300


class Ring:
    """A key lookup as a worker uses it, on its own event loop."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.folder = folder
        self._runner = asyncio.Runner()
        self._lookup = SqliteKeyLookup(folder, self.clock)

    def find(self, key_id: str = "k_1", *, again: bool = False) -> StoredKey | None:
        return self._runner.run((self._lookup.find_again if again else self._lookup.find)(key_id))

    def revoked(self) -> bool:
        found = self.find()
        assert found
        return found.key.revoked_at is not None

    def close(self) -> None:
        self._lookup.close()
        self._runner.close()


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    with operator(tmp_path) as key_store:
        key_store.add(StoredKey(KEY, DIGEST), [])
    with closing(Ring(tmp_path)) as ring:
        ring.find()
        yield ring


def operator(folder: Path) -> "closing[SqliteKeyStore]":
    return closing(SqliteKeyStore(folder, SystemClock().now_ms))


def change(folder: Path, **fields: Any) -> None:
    with operator(folder) as key_store:
        key_store.change("k_1", lambda key: replace(key, **fields), *CHANGED)


def revoke(folder: Path) -> None:
    change(folder, revoked_at=5)


def backup(folder: Path) -> bytes:
    with closing(sqlite3.connect(path_of(folder, "keys"))) as source:
        return source.serialize()


def restore(folder: Path, contents: bytes) -> None:
    """Overwrite the current file in place with an older file."""
    for log in folder.glob("keys.sqlite3-*"):
        log.unlink()
    path_of(folder, "keys").write_bytes(contents)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a request wait for a locked file less long than in a service, where the limit is a second."""
    assert files.REQUEST_SEC <= 1
    monkeypatch.setattr(files, "REQUEST_SEC", 0.1)


# --- restored files --------------------------------------------------------------------


def test_a_revocation_after_a_restore_works_although_the_generation_number_repeats(ring: Ring) -> None:
    older = backup(ring.folder)
    change(ring.folder, label="changed once")
    ring.clock.advance(1)
    assert not ring.revoked()
    restore(ring.folder, older)
    revoke(ring.folder)
    ring.clock.advance(1)
    assert ring.revoked()


def test_a_key_revoked_before_an_older_file_is_restored_stays_revoked(ring: Ring) -> None:
    older = backup(ring.folder)
    revoke(ring.folder)
    restore(ring.folder, older)
    with closing(Ring(ring.folder)) as started_later:
        assert started_later.revoked()
    ring.clock.advance(1)
    assert ring.revoked()
    with operator(ring.folder) as key_store:
        assert [key.revoked_at for key in key_store.all()] == [5]


def test_a_copy_takes_over_the_revocation_after_the_restore(ring: Ring) -> None:
    older = backup(ring.folder)
    revoke(ring.folder)
    restore(ring.folder, older)
    (keys,) = [table for table in TABLES if table.name == "keys"]
    with closing(SqliteMoveSource(ring.folder, ring.clock)) as source, source.snapshot():
        assert [b'"revoked_at":5' in row[-1] for row in source.rows(keys, None)] == [True]


def test_a_key_is_revoked_even_while_the_usage_file_is_lost(ring: Ring) -> None:
    lost = path_of(ring.folder, "usage").rename(ring.folder / "lost")
    revoke(ring.folder)
    lost.rename(path_of(ring.folder, "usage"))
    ring.clock.advance(1)
    assert ring.revoked()


def test_listing_keys_does_not_migrate_the_usage_file_of_an_older_service(
    ring: Ring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_second_migration(tmp_path / "migrations", monkeypatch)
    with closing(sqlite3.connect(path_of(ring.folder, "usage"))) as usage:
        with operator(ring.folder) as key_store:
            assert key_store.all()
        assert usage.execute("PRAGMA user_version").fetchone() == (20,)


def test_revocations_that_the_usage_file_lacks_are_recorded_when_the_store_is_opened(ring: Ring) -> None:
    older = backup(ring.folder)
    revoke(ring.folder)
    with closing(sqlite3.connect(path_of(ring.folder, "usage"), isolation_level=None)) as usage:
        usage.execute("DELETE FROM revocations")
    SqliteKeyStore(ring.folder, SystemClock().now_ms).close()
    restore(ring.folder, older)
    with closing(Ring(ring.folder)) as fresh:
        assert fresh.revoked()


def test_all_keys_are_read_again_well_within_five_minutes_even_if_the_file_looks_unchanged(ring: Ring) -> None:
    ring.clock.advance(REREAD_SEC)
    with statements_run() as seen:
        ring.find()
    assert ("keys", "SELECT key_id, secret_digest, body FROM keys") in seen
    assert REREAD_SEC < FIVE_MINUTES
    assert KEYS_TRUSTED_SEC < FIVE_MINUTES


# --- locks ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
def test_a_locked_file_leaves_known_keys_in_use_for_less_than_five_minutes(ring: Ring) -> None:
    with locked(path_of(ring.folder, "keys")):
        ring.clock.advance(KEYS_TRUSTED_SEC - 1)
        assert ring.find()
        ring.clock.advance(1)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="locked"):
            ring.find()
        assert time.monotonic() - began < WAIT_SEC["keys"]
    assert ring.find()


@pytest.mark.usefixtures("impatient")
def test_a_key_that_may_be_new_is_refused_within_a_second_while_the_file_is_locked(ring: Ring) -> None:
    change(ring.folder, label="written since")
    with locked(path_of(ring.folder, "keys")):
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="locked"):
            ring.find("k_2", again=True)
        assert time.monotonic() - began < WAIT_SEC["keys"]


@pytest.mark.usefixtures("impatient")
def test_a_file_that_was_written_and_is_then_locked_admits_nobody(ring: Ring) -> None:
    revoke(ring.folder)
    with locked(path_of(ring.folder, "keys")):
        ring.clock.advance(1)
        with pytest.raises(StoreUnavailable, match="locked"):
            ring.find()
    assert ring.revoked()


# --- unknown keys ----------------------------------------------------------------------------


def test_unknown_keys_are_refused_from_memory(tmp_path: Path) -> None:
    with closing(RunningService(tmp_path)) as service:
        key = service.key(shop="s")
        assert service.get("shops", key).status_code == 200
        unknown = [credentials.format_key(credentials.generate(secrets.token_bytes)) for _ in range(20)]
        with statements_run() as seen:
            for stranger in (*unknown, f"{key[:-1]}{'A' if key[-1] != 'A' else 'B'}"):
                assert service.error("shops", stranger) == "invalid_key"
        assert not seen


def test_a_key_works_as_soon_as_it_is_issued(tmp_path: Path) -> None:
    with closing(RunningService(tmp_path)) as service:
        service.get("shops", service.key(shop="s"))
        for _ in range(20):
            assert service.get("shops", service.key(shop="s")).status_code == 200
