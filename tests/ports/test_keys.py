"""Tests for keys: the key store for the operator, the key lookup for requests, and the audit log of changes."""

import secrets
import threading
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from actors import CHANGED, OPERATOR
from counterfoil import key_issuing
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.audit import Act, Actor, AuditEntry, Backups, FieldChange
from counterfoil.key_issuing import AlreadyRotated, Grant, KeyChanges, KeyConflict, KeyStore
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
    with closing(store.key_store()) as key_store:
        for key in keys:
            key_store.add(StoredKey(key, DIGEST), [])


@pytest.fixture
def key_store(store: Store) -> KeyStore:
    """The keys of a store that has the key KEY."""
    with_keys(store, KEY)
    return store.key_store()


class Ring:
    """The key lookup of a service, and the operator's key store."""

    def __init__(self, store: Store, clock: ManualClock, run: Run, key_store: KeyStore) -> None:
        self.store, self.clock, self.key_store = store, clock, key_store
        self._lookup, self._run = store.key_lookup(clock), run

    def find(self, key_id: str = "k_1") -> Any:
        return self._run(self._lookup.find(key_id))

    def change(self, **fields: Any) -> Key:
        """Change the key, and let the time pass after which services use the change."""
        changed = self.key_store.change("k_1", lambda key: replace(key, **fields), *CHANGED)
        self.clock.advance(WITHIN_SEC)
        return changed


@pytest.fixture
def ring(store: Store, clock: ManualClock, run: Run, key_store: KeyStore) -> Ring:
    """A service that has read the keys of that store."""
    ring = Ring(store, clock, run, key_store)
    ring.find()
    return ring


def test_a_key_is_read_back_unchanged(ring: Ring) -> None:
    assert ring.find() == StoredKey(KEY, DIGEST)
    assert ring.key_store.all() == [KEY]


def test_an_unknown_key_is_not_found(ring: Ring) -> None:
    for key_id in ("", "k_2", "K_1", "k_1 ", "\ud800"):
        assert ring.find(key_id) is None
    assert "k_2" not in [key.key_id for key in ring.key_store.all()]
    with pytest.raises(key_issuing.KeyIssuingError, match="k_2"):
        ring.key_store.change("k_2", lambda key: key, *CHANGED)


def test_keys_are_listed_in_the_order_of_issue(store: Store) -> None:
    with_keys(store, replace(KEY, key_id="c", created_at=1), replace(KEY, key_id="a", created_at=3))
    with_keys(store, replace(KEY, key_id="b", created_at=2), replace(KEY, key_id="d", created_at=3))
    for listed in (store.key_store().all(), store.operator_reads().keys()):
        assert [key.key_id for key in listed] == ["c", "b", "a", "d"]


def test_an_id_is_issued_only_once(key_store: KeyStore) -> None:
    with pytest.raises(StoreUnavailable):
        key_store.add(StoredKey(replace(KEY, label="an impostor"), b"other"), [])
    assert key_store.all() == [KEY]


def test_a_revocation_takes_effect_within_a_second_for_a_busy_key(ring: Ring) -> None:
    for _ in range(100):
        assert ring.find().key.revoked_at is None
    ring.change(revoked_at=5)
    kept = ring.find()
    assert kept.key.revoked_at == 5
    assert kept.secret_digest == DIGEST


def test_new_limits_and_new_keys_take_effect_within_a_second(ring: Ring) -> None:
    with_keys(ring.store, replace(KEY, key_id="k_2"))
    changed = ring.change(per_min=1)
    assert ring.find().key == changed == replace(KEY, per_min=1)
    assert ring.find("k_2") is not None


def test_a_wall_clock_that_steps_back_does_not_delay_a_revocation(ring: Ring) -> None:
    ring.clock.step(-86_400)
    ring.change(revoked_at=5)
    assert ring.find().key.revoked_at == 5


def test_unreadable_keys_are_an_error_and_not_an_empty_key_list(ring: Ring) -> None:
    with ring.store.without_keys():
        ring.clock.advance(WITHIN_SEC)
        for key_id in ("k_1", "k_2"):
            with pytest.raises(StoreUnavailable):
                ring.find(key_id)
    assert ring.find() == StoredKey(KEY, DIGEST)


def test_changing_keys_never_makes_them_unavailable(store: Store, clock: ManualClock, run: Run) -> None:
    """Each change opens and closes the key store, as a command does."""
    with_keys(store, replace(KEY, label=""))
    ring = store.key_lookup(clock)

    def work() -> None:
        for _ in range(20):
            with closing(store.key_store()) as key_store:
                key_store.change("k_1", lambda key: replace(key, label=f"{int(key.label or 0) + 1}"), *CHANGED)

    operator = threading.Thread(target=work)
    operator.start()
    while operator.is_alive():
        clock.advance(WITHIN_SEC)
        assert run(ring.find("k_1")) is not None
    operator.join()
    clock.advance(WITHIN_SEC)
    assert run(ring.find("k_1")).key.label == "20"


def test_keys_of_another_schema_cannot_be_read(ring: Ring) -> None:
    """This happens when another version migrates the store while the service is running."""
    ring.store.outdate_keys()
    ring.clock.advance(WITHIN_SEC)
    with pytest.raises(StoreUnavailable):
        ring.find()


def test_a_full_disk_fails_the_change_and_loses_no_key(ring: Ring) -> None:
    with ring.store.out_of_space(), pytest.raises(StoreUnavailable):
        ring.change(label="lost")
    assert ring.key_store.all() == [KEY]
    assert entries(ring.store) == []
    ring.clock.advance(WITHIN_SEC)
    assert ring.find().key == KEY


def rotate(store: Store, random_bytes: key_issuing.Randomness = secrets.token_bytes, now_ms: int = 2) -> Key:
    with closing(store.key_store()) as key_store:
        return key_issuing.rotate(key_store, "k_1", random_bytes, now_ms, OPERATOR, revoke_old_at=now_ms + 1_000).key


def test_a_rotation_is_refused_if_another_one_finished_while_it_was_prepared(key_store: KeyStore, store: Store) -> None:
    finished: list[Key] = []

    def rotate_elsewhere(size: int) -> bytes:
        if not finished:
            finished.append(rotate(store))
        return secrets.token_bytes(size)

    with pytest.raises(AlreadyRotated) as refused:
        rotate(store, rotate_elsewhere)
    (successor,) = finished
    assert refused.value.successors == [successor.key_id]
    assert successor.key_id in str(refused.value)
    assert {key.key_id for key in key_store.all()} == {"k_1", successor.key_id}
    acts = [entry.act for entry in entries(store, "k_1")]
    assert acts == [Act.REVOCATION_SCHEDULED, Act.KEY_ROTATED]


def test_a_key_whose_successor_is_known_or_revoked_can_be_rotated_again(key_store: KeyStore) -> None:
    first = key_issuing.rotate(key_store, "k_1", secrets.token_bytes, 2, OPERATOR).key
    second = key_issuing.rotate(key_store, "k_1", secrets.token_bytes, 3, OPERATOR, known_successors=[first.key_id]).key
    with pytest.raises(AlreadyRotated) as refused:
        key_issuing.rotate(key_store, "k_1", secrets.token_bytes, 4, OPERATOR, known_successors=[first.key_id])
    assert refused.value.successors == [second.key_id]
    for successor in (first, second):
        key_issuing.revoke(key_store, successor.key_id, 5, OPERATOR)
    third = key_issuing.rotate(key_store, "k_1", secrets.token_bytes, 6, OPERATOR).key
    assert (third.successor_of, third.lineage) == ("k_1", KEY.lineage)


def test_a_rotation_that_fails_changes_neither_key(key_store: KeyStore, store: Store) -> None:
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        key_issuing.rotate(key_store, "k_1", secrets.token_bytes, 2, OPERATOR, revoke_old_at=1_000)
    with pytest.raises(key_issuing.KeyIssuingError, match="must be in the future"):
        key_issuing.rotate(key_store, "k_1", secrets.token_bytes, 2, OPERATOR, revoke_old_at=2)
    assert key_store.all() == [KEY]


def test_a_successor_has_the_limits_that_the_key_has_when_the_rotation_is_written(store: Store) -> None:
    with_keys(store, KEY)

    def change_elsewhere(size: int) -> bytes:
        key_issuing.update(store.key_store(), "k_1", KeyChanges(per_min=8), 2, OPERATOR)
        return secrets.token_bytes(size)

    assert rotate(store, change_elsewhere).per_min == 8


def test_a_key_that_is_not_as_the_operator_saw_it_is_neither_updated_nor_rotated(
    key_store: KeyStore, store: Store
) -> None:
    changed = key_issuing.update(store.key_store(), "k_1", KeyChanges(per_min=8), 2, OPERATOR, shown=KEY)
    with pytest.raises(KeyConflict, match="counterfoil keys show k_1"):
        key_issuing.update(key_store, "k_1", KeyChanges(per_min=9), 3, OPERATOR, shown=KEY)
    with pytest.raises(KeyConflict):
        key_issuing.rotate(key_store, "k_1", secrets.token_bytes, 3, OPERATOR, shown=KEY)
    assert key_store.all() == [changed]
    assert key_issuing.update(key_store, "k_1", KeyChanges(per_min=9), 3, OPERATOR, shown=changed).per_min == 9


def test_a_revoked_key_cannot_be_changed_even_if_it_was_revoked_in_the_meantime(key_store: KeyStore) -> None:
    revoked = key_issuing.revoke(key_store, "k_1", 2, OPERATOR)
    for seen in (None, KEY, revoked):
        with pytest.raises(key_issuing.KeyRevoked, match="Issue a new key"):
            key_issuing.update(key_store, "k_1", KeyChanges(per_min=8), 3, OPERATOR, shown=seen)
    assert key_store.all() == [revoked]


def test_a_key_can_be_changed_until_the_time_of_its_scheduled_revocation(key_store: KeyStore) -> None:
    key_issuing.schedule_revocation(key_store, "k_1", 10, 2, OPERATOR)
    assert key_issuing.update(key_store, "k_1", KeyChanges(per_min=8), 9, OPERATOR).per_min == 8
    with pytest.raises(key_issuing.KeyRevoked):
        key_issuing.update(key_store, "k_1", KeyChanges(per_min=9), 10, OPERATOR)


# --- the audit log: entries are written with the change, and never modified ------------


def entries(store: Store, key_id: str | None = None, most: int = 100, since: int = 0) -> list[AuditEntry]:
    return store.operator_reads().audit(most, key_id, since)


def test_an_issued_key_is_recorded_with_its_scope_limits_and_permissions(store: Store) -> None:
    grant = Grant(scope=KEY.scope, label=KEY.label, personal_data=True)
    key_id = key_issuing.issue(store.key_store(), grant, secrets.token_bytes, 1_000, OPERATOR).key.key_id
    terms: dict[str, Any] = {
        "scope": "franchise fr_a",
        "label": KEY.label,
        "perMin": 60,
        "perDay": 10_000,
        "permissions": ["personal-data"],
    }
    changes = {name: FieldChange(None, value) for name, value in terms.items()}
    assert entries(store) == [AuditEntry(at=1_000, act=Act.KEY_ISSUED, actor=OPERATOR, key_id=key_id, changes=changes)]


def test_an_update_is_recorded_with_the_values_before_and_after_unless_it_changes_nothing(
    key_store: KeyStore, store: Store
) -> None:
    bob = Actor("bob", "console", "office")
    for now in (2_000, 3_000):
        key_issuing.update(key_store, "k_1", KeyChanges(per_min=120, personal_data=False, per_day=70), now, bob)
    (entry,) = entries(store)
    assert (entry.at, entry.act, entry.actor) == (2_000, Act.KEY_CHANGED, bob)
    permissions = FieldChange(["personal-data", "messaging-lookup"], ["messaging-lookup"])
    assert entry.changes == {"perMin": FieldChange(7, 120), "permissions": permissions}


def test_a_rotation_is_recorded_for_both_keys_and_a_schedule_for_the_old_one(store: Store, key_store: KeyStore) -> None:
    later = 2_000_000_000_000
    new = key_issuing.rotate(key_store, "k_1", secrets.token_bytes, 2_000, OPERATOR, revoke_old_at=later)
    scheduled, rotated = entries(store, "k_1")
    assert (scheduled.act, rotated.act) == (Act.REVOCATION_SCHEDULED, Act.KEY_ROTATED)
    assert scheduled.changes == {"revokesAt": FieldChange(None, "2033-05-18T03:33:20.000Z")}
    assert rotated.changes == {"successor": FieldChange(None, new.key.key_id)}
    (about_new,) = entries(store, new.key.key_id)
    assert about_new.changes["successorOf"] == FieldChange(None, "k_1")


def test_a_revocation_is_recorded_once(store: Store, key_store: KeyStore) -> None:
    for now in (2_000, 3_000):
        key_issuing.revoke(key_store, "k_1", now, OPERATOR)
    assert [(entry.at, entry.act) for entry in entries(store)] == [(2_000, Act.KEY_REVOKED)]


def test_a_change_that_fails_leaves_no_entry_and_an_entry_that_fails_leaves_no_change(
    store: Store, key_store: KeyStore
) -> None:
    nobody: Any = None
    with pytest.raises(AttributeError):
        key_store.change("k_1", lambda key: replace(key, label="lost"), Act.KEY_CHANGED, 2_000, nobody)
    with pytest.raises(key_issuing.KeyIssuingError):
        key_issuing.update(key_store, "k_1", KeyChanges(label="two\nlines"), 2_000, OPERATOR)
    assert key_store.all() == [KEY]
    assert entries(store) == []
    assert key_issuing.update(key_store, "k_1", KeyChanges(label=""), 2_000, OPERATOR).label == ""


def test_entries_come_newest_first_and_can_be_limited_in_number_and_time(store: Store) -> None:
    audit = store.key_store()
    # Entries of acts that only a newer version knows are listed, too.
    for at, act in enumerate((Act.RECORDS_PRUNED, "of a newer version", Act.STORE_CREATED, "last"), 1):
        audit.record(AuditEntry(at=min(at, 3), act=act, actor=OPERATOR))
    acts = [entry.act for entry in entries(store)]
    assert acts == ["last", Act.STORE_CREATED, "of a newer version", Act.RECORDS_PRUNED]
    assert [entry.act for entry in entries(store, most=2)] == acts[:2]
    assert [entry.act for entry in entries(store, since=2)] == acts[:3]


def test_entries_cannot_be_changed_or_deleted_even_by_the_owner(store: Store) -> None:
    store.key_store().record(AuditEntry(at=1, act=Act.STORE_CREATED, actor=OPERATOR))
    before = entries(store)
    for statement in ("UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"):
        with pytest.raises(Exception, match="audit entries cannot be"):
            store.run_on_keys(statement)
    assert entries(store) == before


def test_the_latest_backup_of_a_store_is_known_and_one_of_the_store_it_was_moved_from_does_not_count(
    store: Store,
) -> None:
    def record(at: int, act: Act) -> Backups:
        with closing(store.key_store()) as audit:
            audit.record(AuditEntry(at=at, act=act, actor=OPERATOR))
        return store.operator_reads().backups()

    assert store.operator_reads().backups() == Backups(None, None)
    assert record(1, Act.KEY_ISSUED) == Backups(None, 1)
    assert record(2, Act.STORE_CREATED) == Backups(None, 2)
    record(5, Act.STORE_BACKED_UP)
    assert record(4, Act.STORE_BACKED_UP) == Backups(5, 2)
    assert record(7, Act.STORE_MOVED) == Backups(None, 7)
    assert record(9, Act.STORE_BACKED_UP) == Backups(9, 7)
