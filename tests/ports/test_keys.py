"""Tests for keys: the key store for the operator, and the key lookup for requests."""

import threading

import pytest
from msgspec.structs import replace

from actors import unrecorded
from counterfoil.domain.access import Key, Scope
from counterfoil.ports import StoredKey, StoreUnavailable
from ports.backends import Store
from ports.conftest import Run
from running_service import ManualClock

KEY = Key(
    key_id="k_1",
    scope=Scope("franchise", "fr_a"),
    label="เครื่องหลังร้าน",
    per_min=7,
    per_day=70,
    personal_data=True,
    messaging_lookup=True,
    created_at=1,
    successor_of="k_0",
)
DIGEST = b"\x00\xff" * 16
WITHIN_SEC = 1.0


def with_keys(store: Store, *keys: Key) -> None:
    key_store = store.key_store()
    for key in keys:
        key_store.add(StoredKey(key, DIGEST), [])
    key_store.close()


def test_a_key_is_read_back_unchanged(store: Store, clock: ManualClock, run: Run) -> None:
    with_keys(store, KEY)
    assert run(store.key_lookup(clock).find("k_1")) == StoredKey(KEY, DIGEST)
    assert store.key_store().find("k_1") == KEY


def test_an_unknown_key_is_not_found(store: Store, clock: ManualClock, run: Run) -> None:
    with_keys(store, KEY)
    ring = store.key_lookup(clock)
    for key_id in ("", "k_2", "K_1", "k_1 ", "\ud800"):
        assert run(ring.find(key_id)) is None
    key_store = store.key_store()
    assert key_store.find("k_2") is None
    assert key_store.change("k_2", lambda key: key, unrecorded) is None


def test_keys_are_listed_in_the_order_of_issue(store: Store) -> None:
    with_keys(store, replace(KEY, key_id="c", created_at=1), replace(KEY, key_id="a", created_at=3))
    with_keys(store, replace(KEY, key_id="b", created_at=2), replace(KEY, key_id="d", created_at=3))
    assert [key.key_id for key in store.key_store().all()] == ["c", "b", "a", "d"]


def test_an_id_is_issued_only_once(store: Store) -> None:
    with_keys(store, KEY)
    key_store = store.key_store()
    with pytest.raises(StoreUnavailable):
        key_store.add(StoredKey(replace(KEY, label="an impostor"), b"other"), [])
    assert key_store.all() == [KEY]


def test_a_revocation_takes_effect_within_a_second_for_a_busy_key(store: Store, clock: ManualClock, run: Run) -> None:
    with_keys(store, KEY)
    ring = store.key_lookup(clock)
    for _ in range(100):
        assert run(ring.find("k_1")).key.revoked_at is None
    store.key_store().change("k_1", lambda key: replace(key, revoked_at=5), unrecorded)
    clock.advance(WITHIN_SEC)
    kept = run(ring.find("k_1"))
    assert kept.key.revoked_at == 5
    assert kept.secret_digest == DIGEST


def test_new_limits_and_new_keys_take_effect_within_a_second(store: Store, clock: ManualClock, run: Run) -> None:
    with_keys(store, KEY)
    ring = store.key_lookup(clock)
    run(ring.find("k_1"))
    changed = store.key_store().change("k_1", lambda key: replace(key, per_min=1), unrecorded)
    with_keys(store, replace(KEY, key_id="k_2"))
    clock.advance(WITHIN_SEC)
    assert run(ring.find("k_1")).key == changed == replace(KEY, per_min=1)
    assert run(ring.find("k_2")) is not None


def test_a_wall_clock_that_steps_back_does_not_delay_a_revocation(store: Store, clock: ManualClock, run: Run) -> None:
    with_keys(store, KEY)
    ring = store.key_lookup(clock)
    run(ring.find("k_1"))
    store.key_store().change("k_1", lambda key: replace(key, revoked_at=5), unrecorded)
    clock.step(-86_400)
    clock.advance(WITHIN_SEC)
    assert run(ring.find("k_1")).key.revoked_at == 5


def test_a_change_that_fails_changes_nothing(store: Store) -> None:
    with_keys(store, KEY)
    key_store = store.key_store()

    def refuse(_: Key) -> Key:
        raise ValueError("no such limit")

    with pytest.raises(ValueError, match="no such limit"):
        key_store.change("k_1", refuse, unrecorded)
    assert key_store.all() == [KEY]
    assert key_store.change("k_1", lambda key: replace(key, label=""), unrecorded) == replace(KEY, label="")


def test_unreadable_keys_are_an_error_and_not_an_empty_key_list(store: Store, clock: ManualClock, run: Run) -> None:
    with_keys(store, KEY)
    ring = store.key_lookup(clock)
    run(ring.find("k_1"))
    store.lose_keys()
    clock.advance(WITHIN_SEC)
    for key_id in ("k_1", "k_2"):
        with pytest.raises(StoreUnavailable):
            run(ring.find(key_id))
    store.find_keys_again()
    assert run(ring.find("k_1")) == StoredKey(KEY, DIGEST)


def test_changing_keys_never_makes_them_unavailable(store: Store, clock: ManualClock, run: Run) -> None:
    """Like a command, each change opens and closes the key store."""
    with_keys(store, replace(KEY, label=""))
    ring = store.key_lookup(clock)

    def work() -> None:
        for _ in range(60):
            key_store = store.key_store()
            key_store.change("k_1", lambda key: replace(key, label=f"{int(key.label or 0) + 1}"), unrecorded)
            key_store.close()

    operator = threading.Thread(target=work)
    operator.start()
    while operator.is_alive():
        clock.advance(WITHIN_SEC)
        assert run(ring.find("k_1")) is not None
    operator.join()
    clock.advance(WITHIN_SEC)
    assert run(ring.find("k_1")).key.label == "60"


def test_keys_of_another_schema_cannot_be_read(store: Store, clock: ManualClock, run: Run) -> None:
    """This happens when another version migrates the store while the service is running."""
    with_keys(store, KEY)
    ring = store.key_lookup(clock)
    run(ring.find("k_1"))
    store.outdate_keys()
    clock.advance(WITHIN_SEC)
    with pytest.raises(StoreUnavailable):
        run(ring.find("k_1"))


def test_a_full_disk_fails_the_change_and_loses_no_key(store: Store, clock: ManualClock, run: Run) -> None:
    with_keys(store, KEY)
    key_store = store.key_store()
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        key_store.change("k_1", lambda key: replace(key, label="lost"), unrecorded)
    assert key_store.all() == [KEY]
    assert run(store.key_lookup(clock).find("k_1")).key == KEY
