"""Forgets a member: the mark that stays, who is meant, and his data in records: see docs/decisions/0024."""

import re
from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Any

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from counterfoil.domain.changes import EncodedBill, digest_of
from counterfoil.domain.members import StoredMember
from counterfoil.domain.tokens import BODY_LENGTH, PREFIX
from counterfoil.model import pos_values as pos

# The JSON of a bill that names a member. Quotes in values are escaped, so only the field itself matches.
MEMBER_FIELD = b'"memberId":"'
_NO_MEMBER = b'"memberId":null'
_TOKEN = re.compile(re.escape(PREFIX) + f"[0-9A-Za-z]{{{BODY_LENGTH}}}")
# A phone number with fewer digits may be part of anything, so it is not looked for in other texts. Nor is an ID with
# fewer characters.
SHORTEST_TEL = 8
SHORTEST_ID = 6
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
        tels, emails = set(self.tels), set(self.emails)
        if record.tel:
            tels.add(record.tel)
        if record.email:
            emails.add(record.email)
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
    """Finds the phone numbers, email addresses and ID of a person in texts, however they are written. None has none."""

    def __init__(self, person: Person | None) -> None:
        person = person or Person(token="")
        tels = [tel for tel in sorted(person.tels) if len(same_tel(tel)) >= SHORTEST_TEL]
        emails = [email for email in sorted(person.emails) if email.strip()]
        patterns = [_tel_pattern(tel) for tel in tels]
        patterns += [re.escape(same_email(email)) for email in emails]
        if person.member_id and len(person.member_id) >= SHORTEST_ID:
            patterns.append("(?<![0-9A-Za-z])" + re.escape(person.member_id) + "(?![0-9A-Za-z])")
        # `(?!)` matches nothing.
        pattern = "|".join(patterns) or "(?!)"
        self._pattern = re.compile(pattern, re.IGNORECASE)
        self._bytes = re.compile(pattern.encode(), re.IGNORECASE)

    def are_in(self, text: str) -> bool:
        return self._pattern.search(text) is not None

    def are_in_bytes(self, text: bytes) -> bool:
        if self._bytes.search(text):
            return True
        # In UTF-16, which programs for spreadsheets write, each of these characters has a NUL beside it.
        return b"\0" in text and self._bytes.search(text.replace(b"\0", b"")) is not None

    def replaced_in_bytes(self, text: bytes) -> bytes:
        return self._bytes.sub(b"*", text)


def _tel_pattern(tel: str) -> str:
    """Return a pattern for a phone number with or without its separators, its first zero and a country code."""
    digits = same_tel(tel).removeprefix("0")
    return r"(?<![0-9])(?:\+?66|00\s?66)?" + _SEPARATOR + "0?" + _SEPARATOR + _SEPARATOR.join(digits) + "(?![0-9])"


# --- records as the POS delivers them -------------------------------------------------------

Record = dict[str, Any]
# These fields of a record say which one it is.
_OWN_FIELDS = ("kind", "id", "shopId")
# What a line that is no JSON, such as one that was cut off, may still have.
_BILL = re.compile(rb'"kind"\s*:\s*"bill"')
_ID_FIELD = re.compile(rb'("(?:id|memberId)"\s*:\s*)("(?:[^"\\]|\\.)*"|[0-9]+)')


class RecordEraser:
    """Takes a member out of source records. `is_meant` says whether an ID is his."""

    def __init__(self, is_meant: Callable[[str], bool], contacts: Contacts) -> None:
        self._is_meant = is_meant
        self.contacts = contacts

    def erased(self, record: Record) -> Record | None:
        """Return the record without the member, or None if it is his own. Records of other members are kept."""
        if record.get("kind") == "member":
            return None if self._is_his(record) else record
        kept = {}
        for name, value in record.items():
            kept[name] = value if name in _OWN_FIELDS else self._without(name, value)
        return kept

    def _is_his(self, record: Record) -> bool:
        """Return whether a record of a member is his. Without a usable ID, his contacts say so."""
        if pos.ident(record.get("id")) is not None:
            return self._names(record.get("id"))
        return self._without("", record) != record

    def erased_text(self, line: bytes) -> bytes | None:
        """Return a line that is no JSON without the member, or None if it may be about him. Bills are kept."""
        without_ids = _ID_FIELD.sub(self._without_id, line)
        erased = self.contacts.replaced_in_bytes(without_ids)
        if erased == line:
            return None if self.contacts.are_in_bytes(line) else line
        return erased if _BILL.search(line) else None

    def _without_id(self, field: re.Match[bytes]) -> bytes:
        try:
            value = json.decode(field[2])
        except (DecodeError, UnicodeDecodeError):
            return field[0]
        return field[1] + b"null" if self._names(value) else field[0]

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
