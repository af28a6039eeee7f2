"""Audit entries are written in the same transaction as the key change, listed newest first, and never modified."""

import secrets
from typing import Any

import pytest
from msgspec.structs import replace

from actors import OPERATOR
from counterfoil import key_issuing
from counterfoil.domain.access import Scope
from counterfoil.domain.audit import Act, Actor, AuditEntry, Backups, FieldChange
from counterfoil.key_issuing import Grant, KeyChanges
from ports.backends import Store

GRANT = Grant(scope=Scope("franchise", "fr_a"), label="เครื่องหลังร้าน", personal_data=True)
LATER = 2_000_000_000_000


def issued(store: Store, now_ms: int = 1_000) -> str:
    key_store = store.key_store()
    key = key_issuing.issue(key_store, GRANT, secrets.token_bytes, now_ms, OPERATOR).key
    key_store.close()
    return key.key_id


def entries(store: Store, **wanted: Any) -> list[AuditEntry]:
    return store.operator_reads().audit(wanted.pop("most", 100), **wanted)


def test_an_issued_key_is_recorded_with_its_scope_limits_and_permissions(store: Store) -> None:
    key_id = issued(store)
    terms: dict[str, Any] = {
        "scope": "franchise fr_a",
        "label": "เครื่องหลังร้าน",
        "perMin": 60,
        "perDay": 10_000,
        "permissions": ["personal-data"],
    }
    changes = {name: FieldChange(None, value) for name, value in terms.items()}
    assert entries(store) == [AuditEntry(at=1_000, act=Act.KEY_ISSUED, actor=OPERATOR, key_id=key_id, changes=changes)]


def test_an_update_is_recorded_with_the_values_before_and_after(store: Store) -> None:
    key_id = issued(store)
    changes = KeyChanges(per_min=120, personal_data=False, per_day=10_000)
    key_issuing.update(store.key_store(), key_id, changes, 2_000, Actor("bob", "console", "office"))
    latest = entries(store)[0]
    assert (latest.at, latest.act, latest.actor) == (2_000, Act.KEY_CHANGED, Actor("bob", "console", "office"))
    assert latest.changes == {"perMin": FieldChange(60, 120), "permissions": FieldChange(["personal-data"], None)}
    # A change to the values that a key already has is none.
    key_issuing.update(store.key_store(), key_id, changes, 3_000, OPERATOR)
    assert entries(store)[0] == latest


def test_a_rotation_is_recorded_for_both_keys_and_a_schedule_for_the_old_one(store: Store) -> None:
    old = issued(store)
    new = key_issuing.rotate(store.key_store(), old, secrets.token_bytes, 2_000, OPERATOR, revoke_old_at=LATER)
    about_old = entries(store, key_id=old)
    assert [entry.act for entry in about_old] == [Act.REVOCATION_SCHEDULED, Act.KEY_ROTATED, Act.KEY_ISSUED]
    assert about_old[0].changes == {"revokesAt": FieldChange(None, "2033-05-18T03:33:20.000Z")}
    assert about_old[1].changes == {"successor": FieldChange(None, new.key.key_id)}
    (about_new,) = entries(store, key_id=new.key.key_id)
    assert about_new.changes["successorOf"] == FieldChange(None, old)


def test_a_revocation_is_recorded_once(store: Store) -> None:
    key_id = issued(store)
    for now in (2_000, 3_000):
        key_issuing.revoke(store.key_store(), key_id, now, OPERATOR)
    assert [(entry.at, entry.act) for entry in entries(store)] == [(2_000, Act.KEY_REVOKED), (1_000, Act.KEY_ISSUED)]


def test_a_change_that_fails_leaves_no_entry_and_an_entry_that_fails_leaves_no_change(store: Store) -> None:
    key_id = issued(store)
    key_store = store.key_store()
    nobody: Any = None
    with pytest.raises(AttributeError):
        key_store.change(key_id, lambda key: replace(key, label="lost"), Act.KEY_CHANGED, 2_000, nobody)
    with pytest.raises(key_issuing.KeyIssuingError):
        key_issuing.update(key_store, key_id, KeyChanges(label="two\nlines"), 2_000, OPERATOR)
    assert [key.label for key in key_store.all()] == [GRANT.label]
    assert len(entries(store)) == 1
    assert key_issuing.update(key_store, key_id, KeyChanges(label=""), 2_000, OPERATOR).label == ""


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
    issued(store)
    before = entries(store)
    for statement in ("UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"):
        with pytest.raises(Exception, match="audit entries cannot be"):
            store.run_on_keys(statement)
    assert entries(store) == before


def test_the_latest_backup_of_a_store_is_known_and_one_of_the_store_it_was_moved_from_does_not_count(
    store: Store,
) -> None:
    def record(at: int, act: Act) -> Backups:
        audit = store.key_store()
        audit.record(AuditEntry(at=at, act=act, actor=OPERATOR))
        audit.close()
        return store.operator_reads().backups()

    assert store.operator_reads().backups() == Backups(None, None)
    assert record(1, Act.KEY_ISSUED) == Backups(None, 1)
    assert record(2, Act.STORE_CREATED) == Backups(None, 2)
    record(5, Act.STORE_BACKED_UP)
    assert record(4, Act.STORE_BACKED_UP) == Backups(5, 2)
    assert record(7, Act.STORE_MOVED) == Backups(None, 7)
    assert record(9, Act.STORE_BACKED_UP) == Backups(9, 7)
