"""What the operator reads about members: to find one who asks to be forgotten, and whoever has read him.

The statements are written like those of `operator_reads.py`, and run in the same way. No page shows what they return.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from msgspec import json

from counterfoil.business_reads import Ask, Part
from counterfoil.domain.forgetting import MEMBER_FIELD, ForgottenMember
from counterfoil.domain.members import StoredMember
from counterfoil.domain.tokens import BODY_LENGTH, PREFIX

MEMBERS_PER_READ = 5_000

_MEMBER = "SELECT provider_id, token, record FROM members WHERE token = :token"
_MEMBERS_AFTER = """
    SELECT provider_id, token, record FROM members
    WHERE (provider_id, token) > (:base, :token) ORDER BY provider_id, token LIMIT :most
"""
_FORGOTTEN = "SELECT mark, at, finished_at FROM forgotten_members ORDER BY at, mark"
_DISCLOSURES = """
    SELECT key_id, count(*), max(at) FROM requests
    WHERE personal_base = :base AND at >= :since GROUP BY key_id
"""
_LATEST_READ = """
    SELECT max(at) FROM requests
    WHERE key_id = :key_id AND at >= :since AND status = 200
        AND route IN ('members', 'members/{memberToken}', 'members/lookup')
"""


class MemberReads(ABC):
    """The part of the operator's reads that is about members. The other part opens the transactions."""

    # No index has the members of bills, so these read all bills, in the order in which they are stored. The first
    # returns the shop, the ID and the body of those that have one of three texts; the second returns the shop, the ID
    # and so many bytes of those that have one text, from so many bytes after its beginning on.
    BILLS_WITH: ClassVar[str]
    MEMBERS_OF_BILLS: ClassVar[str]

    @abstractmethod
    def _limited(self, part: Part) -> AbstractContextManager[Ask]:
        """Open a read-only transaction, whose queries are stopped at the time limit."""

    @abstractmethod
    def _opened(self, part: Part, query_sec: float | None = None) -> AbstractContextManager[Ask]:
        """Open a read-only transaction, whose queries are stopped at the time limit, if there is one."""

    def member(self, token: str) -> StoredMember | None:
        with self._opened("books") as ask:
            found = ask(_MEMBER, token=token)
        return json.decode(found[0][2], type=StoredMember) if found else None

    def all_members(self) -> Iterator[StoredMember]:
        """Yield the members of all bases."""
        last = "", ""
        while True:
            with self._opened("books") as ask:
                rows = ask(_MEMBERS_AFTER, base=last[0], token=last[1], most=MEMBERS_PER_READ)
            for _, _, record in rows:
                yield json.decode(record, type=StoredMember)
            if len(rows) < MEMBERS_PER_READ:
                return
            last = rows[-1][0], rows[-1][1]

    def forgotten_members(self) -> list[ForgottenMember]:
        """Return the marks of the forgotten members, oldest first."""
        with self._limited("books") as ask:
            rows = ask(_FORGOTTEN)
        return [ForgottenMember(mark=mark, at=at, finished_at=finished_at) for mark, at, finished_at in rows]

    def unfinished_forgettings(self) -> list[ForgottenMember]:
        """Return the marks of the members of whom something may still be in the store."""
        return [member for member in self.forgotten_members() if member.finished_at is None]

    def bills_with(self, texts: Sequence[bytes]) -> list[tuple[int, str, bytes]]:
        """Return the shop's number, the ID and the body of each bill whose body has one of up to three texts."""
        first, second, third = [*texts, *[texts[0]] * (3 - len(texts))]
        with self._opened("books") as ask:
            rows = ask(self.BILLS_WITH, first=first, second=second, third=third)
        return [(shop, bill_id, body) for shop, bill_id, body in rows]

    def members_of_bills(self) -> list[tuple[int, str, str]]:
        """Return the shop's number, the ID and the member's token of each bill that names a member."""
        values = {"text": MEMBER_FIELD, "after": len(MEMBER_FIELD), "length": len(PREFIX) + BODY_LENGTH}
        with self._opened("books") as ask:
            rows = ask(self.MEMBERS_OF_BILLS, **values)
        return [(shop, bill_id, token.decode()) for shop, bill_id, token in rows]

    def disclosures_of(self, base: str, since: int) -> dict[str, tuple[int, int]]:
        """Return how often and when last each key received personal data of a base since an instant."""
        with self._opened("usage") as ask:
            rows = ask(_DISCLOSURES, base=base, since=since)
        return {key_id: (count, latest_at) for key_id, count, latest_at in rows}

    def latest_read_of_members(self, key_id: str, since: int) -> int | None:
        """Return when a key last read members, with or without personal data."""
        with self._opened("usage") as ask:
            rows = ask(_LATEST_READ, key_id=key_id, since=since)
        latest_at: int | None = rows[0][0]
        return latest_at
