"""The write side of membership bases and members, a part of the ledger."""

import sqlite3

from msgspec import json

from counterfoil.backends.sqlite.removals import Removals, is_late
from counterfoil.domain.member_template import template_of
from counterfoil.domain.members import StoredMember
from counterfoil.ports import Outcome, PutBase, PutMember, RemoveMember

# Members whose sign-up time cannot be read come last.
NEVER = 2**62

_BASE = "SELECT rev, body FROM bases WHERE id = ?"
_PUT_BASE = "INSERT OR REPLACE INTO bases (id, rev, body) VALUES (?, ?, ?)"
_MEMBER = "SELECT rev, record, form FROM members WHERE token = ?"
_PUT_MEMBER = """
    INSERT INTO members (token, provider_id, created_at, rev, record, form) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (token) DO UPDATE SET
        provider_id = excluded.provider_id, created_at = excluded.created_at, rev = excluded.rev,
        record = excluded.record, form = excluded.form
"""
_SET_FORM = "UPDATE members SET form = ? WHERE token = ?"
_REMOVE_MEMBER = "DELETE FROM members WHERE token = ?"
_ADD_ACCOUNT = "INSERT INTO accounts (provider_id, hash, created_at, token, channel) VALUES (?, ?, ?, ?, ?)"
_REMOVE_ACCOUNTS = "DELETE FROM accounts WHERE token = ?"

_encode = json.Encoder().encode


class Membership:
    """Writes bases and members inside the ledger's transactions."""

    def __init__(self, connection: sqlite3.Connection, removals: Removals) -> None:
        self._connection = connection
        self._removals = removals

    def put_base(self, change: PutBase) -> Outcome:
        body = _encode(change.base)
        known = self._connection.execute(_BASE, (change.base.provider_id,)).fetchone()
        if known and is_late(change.rev, known[0]):
            return Outcome.LATE
        if known and known == (change.rev, body):
            return Outcome.UNCHANGED
        self._connection.execute(_PUT_BASE, (change.base.provider_id, change.rev, body))
        return Outcome.CHANGED if known else Outcome.ADDED

    def put_member(self, change: PutMember) -> Outcome:
        record, kept, finished = change.record, _encode(change.record), template_of(change.record)
        known = self._connection.execute(_MEMBER, (record.token,)).fetchone()
        if known and is_late(change.rev, known[0]):
            return Outcome.LATE
        if known and known[:2] == (change.rev, kept):
            if known[2] != finished:
                self._connection.execute(_SET_FORM, (finished, record.token))
            return Outcome.UNCHANGED
        if not known and self._removals.since(change.rev, "member", "", record.token):
            return Outcome.LATE
        created_at = NEVER if record.created_at is None else record.created_at
        self._connection.execute(
            _PUT_MEMBER, (record.token, record.provider_id, created_at, change.rev, kept, finished)
        )
        self._put_accounts(record, known=bool(known))
        return Outcome.CHANGED if known else Outcome.ADDED

    def _put_accounts(self, record: StoredMember, *, known: bool) -> None:
        if known:
            self._connection.execute(_REMOVE_ACCOUNTS, (record.token,))
        # A person's most recent record comes first, so one without a creation time is sorted as the oldest.
        created_at = -1 if record.created_at is None else record.created_at
        for account in record.accounts:
            self._connection.execute(
                _ADD_ACCOUNT, (record.provider_id, account.user, created_at, record.token, account.channel)
            )

    def remove_member(self, change: RemoveMember) -> Outcome:
        known = self._connection.execute(_MEMBER, (change.token,)).fetchone()
        if known and is_late(change.rev, known[0]):
            return Outcome.LATE
        self._removals.remember(change.rev, "member", "", change.token)
        if not known:
            return Outcome.UNCHANGED
        self._connection.execute(_REMOVE_MEMBER, (change.token,))
        self._connection.execute(_REMOVE_ACCOUNTS, (change.token,))
        return Outcome.REMOVED
