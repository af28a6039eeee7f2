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
from counterfoil.ports import StoreUnavailable
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
    assert entries(store) == [
        AuditEntry(
            at=1_000,
            act=Act.KEY_ISSUED,
            actor=OPERATOR,
            key_id=key_id,
            changes={
                "scope": FieldChange(None, "franchise fr_a"),
                "label": FieldChange(None, "เครื่องหลังร้าน"),
                "perMin": FieldChange(None, 60),
                "perDay": FieldChange(None, 10_000),
                "permissions": FieldChange(None, ["personal-data"]),
            },
        )
    ]


def test_an_update_is_recorded_with_the_values_before_and_after(store: Store) -> None:
    key_id = issued(store)
    changes = KeyChanges(per_min=120, personal_data=False, per_day=10_000)
    key_issuing.update(store.key_store(), key_id, changes, 2_000, Actor("bob", "console", "office"))
    latest = entries(store)[0]
    assert (latest.at, latest.act, latest.actor) == (2_000, Act.KEY_CHANGED, Actor("bob", "console", "office"))
    assert latest.changes == {"perMin": FieldChange(60, 120), "permissions": FieldChange(["personal-data"], None)}


def test_an_update_that_changes_nothing_is_not_recorded(store: Store) -> None:
    key_id = issued(store)
    key_issuing.update(store.key_store(), key_id, KeyChanges(per_min=60), 2_000, OPERATOR)
    assert len(entries(store)) == 1


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
    nobody: Any = None
    with pytest.raises(AttributeError):
        store.key_store().change(key_id, lambda key: replace(key, label="lost"), Act.KEY_CHANGED, 2_000, nobody)
    found = store.key_store().find(key_id)
    assert found
    assert found.label == GRANT.label
    with pytest.raises(key_issuing.KeyIssuingError):
        key_issuing.update(store.key_store(), key_id, KeyChanges(label="two\nlines"), 2_000, OPERATOR)
    assert len(entries(store)) == 1


def test_entries_come_newest_first_and_can_be_limited_in_number_and_time(store: Store) -> None:
    audit = store.key_store()
    for at in (1, 2, 3, 3):
        audit.record(AuditEntry(at=at, act=Act.RECORDS_PRUNED, actor=OPERATOR, detail=f"{at}"))
    audit.record(AuditEntry(at=3, act=Act.RECORDS_PRUNED, actor=OPERATOR, detail="last"))
    assert [entry.detail for entry in entries(store)] == ["last", "3", "3", "2", "1"]
    assert [entry.detail for entry in entries(store, most=2)] == ["last", "3"]
    assert [entry.detail for entry in entries(store, since=2)] == ["last", "3", "3", "2"]


def test_an_act_of_a_newer_version_is_still_listed(store: Store) -> None:
    store.key_store().record(AuditEntry(at=1, act="sandwich_eaten", actor=OPERATOR))
    assert [entry.act for entry in entries(store)] == ["sandwich_eaten"]


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit SET actor = 'nobody'", "DELETE FROM audit", "DELETE FROM audit WHERE act = 'key_issued'"],
)
def test_entries_cannot_be_changed_or_deleted_even_by_the_owner(store: Store, statement: str) -> None:
    issued(store)
    before = entries(store)
    with pytest.raises(Exception, match="audit entries cannot be"):
        store.run_on_keys(statement)
    assert entries(store) == before


def test_a_key_whose_change_cannot_be_stored_leaves_no_entry(store: Store) -> None:
    key_id = issued(store)
    with store.out_of_space(), pytest.raises(StoreUnavailable):
        key_issuing.revoke(store.key_store(), key_id, 2_000, OPERATOR)
    assert [entry.act for entry in entries(store)] == [Act.KEY_ISSUED]


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
