"""Forgets a member: the mark that stays, who is meant, and his data in records: see docs/decisions/0024."""

import re
from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.domain.changes import EncodedBill, digest_of
from counterfoil.domain.members import StoredMember
from counterfoil.domain.tokens import BODY_LENGTH, PREFIX
from counterfoil.model import pos_values as pos

# The JSON of a bill that names a member. Quotes in values are escaped, so only the field itself matches.
MEMBER_FIELD = b'"memberId":"'
_NO_MEMBER = b'"memberId":null'
_TOKEN = re.compile(re.escape(PREFIX) + f"[0-9A-Za-z]{{{BODY_LENGTH}}}")
# A phone number with fewer digits may be part of anything, so it is not looked for in other texts.
SHORTEST_TEL = 8
# Between two digits of a phone number, people write at most one of these.
_SEPARATOR = r"[-\s.()/]{0,2}"
_COUNTRY_CODE = "66"


class ForgottenMember(Struct, frozen=True, kw_only=True, rename="camel"):
    """The mark of a forgotten member. `finished_at` is None while data of the member may still be in the store."""

    mark: str
    at: int
    finished_at: int | None = None


def mark_of(token: str) -> str:
    """Return the mark of a member, which is made from his token, and so with the deployment secret from his ID."""
    return sha256(f"forgotten member:{token}".encode()).hexdigest()[:32]


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


# --- bills ---------------------------------------------------------------------------


def member_on(body: bytes) -> str | None:
    """Return the token of the member on a published bill."""
    _, found, rest = body.partition(MEMBER_FIELD)
    return rest.partition(b'"')[0].decode() if found else None


def without_member(change: EncodedBill, marks: Collection[str]) -> EncodedBill:
    """Return the bill as it is stored: without its member if he was forgotten."""
    token = member_on(change.body)
    if token is None or mark_of(token) not in marks:
        return change
    body = change.body.replace(MEMBER_FIELD + token.encode() + b'"', _NO_MEMBER, 1)
    return replace(change, body=body, digest=digest_of(body))


# --- who is meant ------------------------------------------------------------------------


class Person(Struct, frozen=True, kw_only=True):
    """What identifies a member in records and texts. The ID is None if only the token is known."""

    token: str
    member_id: str | None = None
    tels: frozenset[str] = frozenset()
    emails: frozenset[str] = frozenset()

    def known_as(self, record: StoredMember) -> "Person":
        """Return the person with the phone number and the email address of his record."""
        tels = self.tels | ({record.tel} if record.tel else set())
        emails = self.emails | ({record.email} if record.email else set())
        return replace(self, tels=frozenset(tels), emails=frozenset(emails))


def same_tel(tel: str) -> str:
    """Return a phone number as it is compared: `+66 81 234 5678` and `081-234-5678` are the same."""
    digits = "".join(re.findall(r"[0-9]", tel))
    is_international = tel.lstrip().startswith(("+", "00"))
    digits = digits.removeprefix("00") if is_international else digits
    if digits.startswith(_COUNTRY_CODE) and len(digits) >= SHORTEST_TEL + len(_COUNTRY_CODE):
        return "0" + digits.removeprefix(_COUNTRY_CODE).lstrip("0")
    return digits


def same_email(email: str) -> str:
    return email.strip().casefold()


class Contacts:
    """Finds the phone numbers and email addresses of a person in texts, however they are written. None has none."""

    def __init__(self, person: Person | None) -> None:
        person = person or Person(token="")
        written = [_tel_pattern(tel) for tel in sorted(person.tels) if len(same_tel(tel)) >= SHORTEST_TEL]
        written += [re.escape(same_email(email)) for email in sorted(person.emails) if email.strip()]
        # `(?!)` matches nothing.
        self._pattern = re.compile("|".join(written) or "(?!)", re.IGNORECASE)
        self._bytes = re.compile(("|".join(written) or "(?!)").encode(), re.IGNORECASE)

    def are_in(self, text: str) -> bool:
        return self._pattern.search(text) is not None

    def are_in_bytes(self, text: bytes) -> bool:
        return self._bytes.search(text) is not None


def _tel_pattern(tel: str) -> str:
    """Return a pattern for a phone number with or without its separators, its first zero and a country code."""
    digits = same_tel(tel).removeprefix("0")
    return r"(?<![0-9])(?:\+?66|00\s?66)?" + _SEPARATOR + "0?" + _SEPARATOR + _SEPARATOR.join(digits) + "(?![0-9])"


# --- records as the POS delivers them -------------------------------------------------------

Record = dict[str, Any]


class RecordEraser:
    """Takes a member out of source records. `is_meant` says whether an ID is his."""

    def __init__(self, is_meant: Callable[[str], bool], contacts: Contacts) -> None:
        self._is_meant = is_meant
        self.contacts = contacts

    def erased(self, record: Record) -> Record | None:
        """Return the record without the member, or None if it is his own. Records of other members are kept."""
        if record.get("kind") == "member":
            return None if self._names(record.get("id")) else record
        return {name: self._without(name, value) for name, value in record.items()}

    def _names(self, value: object) -> bool:
        member_id = pos.ident(value)
        return member_id is not None and self._is_meant(member_id)

    def _without(self, name: str, value: object) -> object:
        if name == "memberId" and self._names(value):
            return None
        if isinstance(value, dict):
            return {inner: self._without(inner, held) for inner, held in value.items()}
        if isinstance(value, list):
            return [self._without("", held) for held in value]
        if isinstance(value, str):
            return None if self.contacts.are_in(value) else value
        if isinstance(value, int) and not isinstance(value, bool):
            return None if self.contacts.are_in(str(value)) else value
        return value
