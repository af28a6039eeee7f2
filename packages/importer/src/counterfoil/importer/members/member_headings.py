"""Ranks what the headings of a table of members may mean. Words order options, and decide no balance."""

import re
from collections.abc import Collection
from functools import lru_cache

from counterfoil.importer.ranks import LONGEST_READ, role_of_heading

# The headings of each role, in English, Thai and Spanish, the most certain first.
HEADINGS: dict[str, tuple[str, ...]] = {
    "id": (
        *(
            "customer id",
            "member id",
            "member no",
            "member number",
            "membership no",
            "membership number",
            "membership id",
        ),
        *("customer no", "customer number", "customer code", "member code", "card no", "card number", "loyalty id"),
        *("รหัสสมาชิก", "เลขสมาชิก", "เลขที่สมาชิก", "รหัสลูกค้า", "id cliente", "número de socio", "id", "code", "no"),
    ),
    "tel": (
        *("phone", "phone number", "mobile", "mobile number", "mobile phone", "telephone", "tel", "cell phone"),
        *("เบอร์โทร", "เบอร์โทรศัพท์", "โทรศัพท์", "เบอร์มือถือ", "teléfono", "telefono", "móvil"),
    ),
    "email": ("email", "e mail", "email address", "อีเมล", "อีเมล์", "correo", "correo electrónico"),
    "createdAt": (
        *("joined", "join date", "date joined", "joined date", "sign up", "signup", "sign up date", "signup date"),
        *("registered", "registration date", "register date", "member since", "enrolled", "enrolment date", "created"),
        *("created at", "created date", "date created", "วันที่สมัคร", "วันสมัคร", "สมัครเมื่อ", "fecha de alta"),
    ),
    "pointsExpireAt": ("points expiry", "points expire", "points expire at", "points expiry date", "แต้มหมดอายุ"),
    "creditExpireAt": ("credit expiry", "credit expires", "credit expiry date", "เครดิตหมดอายุ"),
    "rank": (
        *(
            "tier",
            "member tier",
            "membership tier",
            "member level",
            "membership level",
            "level",
            "rank",
            "loyalty tier",
        ),
        *("ระดับ", "ระดับสมาชิก", "nivel"),
    ),
    "coupons": ("coupons", "coupon", "coupon code", "coupon codes", "vouchers", "คูปอง", "cupones"),
    "state": ("status", "state", "member status", "active", "blocked", "สถานะ", "สถานะสมาชิก", "estado"),
    "visits": ("visits", "total visits", "visit count", "number of visits", "จำนวนครั้งที่มา", "visitas"),
    "lastVisit": ("last visit", "last visited", "last visit date", "มาล่าสุด", "เข้าล่าสุด", "última visita"),
    "person": (
        *("name", "first name", "last name", "full name", "customer name", "member name", "nickname", "surname"),
        *(
            "birthday",
            "birth date",
            "birthdate",
            "date of birth",
            "dob",
            "gender",
            "sex",
            "address",
            "city",
            "province",
        ),
        *("postal code", "postcode", "zip", "country", "note", "notes", "remark", "remarks", "comment", "line id"),
        *("ชื่อ", "ชื่อสมาชิก", "ชื่อลูกค้า", "นามสกุล", "ชื่อเล่น", "วันเกิด", "เพศ", "ที่อยู่", "หมายเหตุ", "nombre", "dirección"),
    ),
    "bill": (
        *("receipt", "receipt no", "receipt number", "bill no", "bill number", "bill id", "invoice", "invoice no"),
        *("invoice number", "order id", "order no", "order number", "transaction id", "check id", "item", "item name"),
        *("product", "quantity", "qty", "payment method", "payment type", "net sales", "gross sales", "subtotal"),
        *(
            "total",
            "grand total",
            "amount",
            "net",
            "เลขที่ใบเสร็จ",
            "เลขที่บิล",
            "รายการ",
            "ชื่อสินค้า",
            "จำนวน",
            "ยอดรวม",
            "total cobrado",
        ),
    ),
}
# A heading with one of these words may be a balance, which is always asked.
_POINTS = re.compile(r"\b(?:points|pts|puntos|point balance)\b|แต้ม|คะแนน")
_CREDIT = re.compile(r"\b(?:credit|wallet|balance|prepaid|stored value|saldo)\b|เครดิต|คงเหลือ|วอลเล็ท")
_NOT_NOW = re.compile(r"\b(?:earned|redeemed|used|spent|lifetime|total|expired?|expiry|limit|ganados)\b|สะสมทั้งหมด|ใช้ไป")
# What tables of members have and hardly any of bills. Orders have a time at which they were created, too.
_OF_MEMBERS = frozenset({"createdAt", "rank", "visits", "lastVisit"})
_ONLY_OF_MEMBERS = frozenset({"createdAt", "visits", "lastVisit"})
_OF_ANYTHING = frozenset({"created", "created at", "created date", "date created", "level", "rank"})
_PERSONAL = re.compile(r"\b(?:birthday|birth ?date|date of birth|gender|first visit)\b|วันเกิด|เพศ")
# What a till counts of a member is no amount of a bill.
_OF_A_PERSON = re.compile(r"\b(?:visits?|spent|spend|orders)\b")
# Roles of columns that only bills have.
_OF_BILLS = frozenset({"id", "item", "qty", "unitPrice", "amount", "total", "method"})

_MARKS = re.compile(r"[\s_\-.:?()#/]+")


def plain(heading: str) -> str:
    """Return a heading in small letters and without marks. Of a very long cell, its end is cut off."""
    return _MARKS.sub(" ", heading[:LONGEST_READ]).strip().casefold()


@lru_cache(maxsize=5000)
def role_of(heading: str) -> str | None:
    """Return the role whose headings include this one, or None. Balances have none, because they are asked."""
    found = plain(heading)
    return next((role for role, headings in HEADINGS.items() if found in headings), None)


def rank_of(heading: str, role: str) -> int:
    """Return how certain a role is by the heading: 0 is the most certain."""
    return HEADINGS[role].index(plain(heading))


def may_be_points(heading: str) -> bool:
    return bool(_POINTS.search(plain(heading))) and role_of(heading) is None


def may_be_credit(heading: str) -> bool:
    found = plain(heading)
    return bool(_CREDIT.search(found)) and not _POINTS.search(found) and role_of(heading) is None


def is_balance_of_now(heading: str) -> bool:
    """Return whether nothing in the heading says that it counts what was earned or spent."""
    return not _NOT_NOW.search(plain(heading))


def is_of_members(headings: Collection[str]) -> bool:
    """Return whether the headings may be those of a table of members: of people, with what only members have."""
    if is_of_bills(headings):
        return any(_is_typical(heading, _ONLY_OF_MEMBERS) for heading in headings)
    return any(_is_typical(heading, _OF_MEMBERS) or may_be_points(heading) for heading in headings)


def _is_typical(heading: str, roles: Collection[str]) -> bool:
    found = plain(heading)
    return bool(_PERSONAL.search(found)) or (found not in _OF_ANYTHING and role_of(heading) in roles)


def is_of_bills(headings: Collection[str]) -> bool:
    """Return whether a heading is one of bills, in any language that exports of bills are read in."""
    return any(_is_of_a_bill(heading) for heading in headings)


@lru_cache(maxsize=5000)
def _is_of_a_bill(heading: str) -> bool:
    role = role_of(heading)
    if role or may_be_points(heading) or may_be_credit(heading) or _OF_A_PERSON.search(plain(heading)):
        return role == "bill"
    return not _OF_BILLS.isdisjoint(role_of_heading(heading))


def names_people(headings: Collection[str]) -> bool:
    """Return whether a heading is that of an ID, a phone number or an email address of a person."""
    certain = [heading for heading in headings if role_of(heading) == "id" and len(plain(heading)) > len("code")]
    return bool(certain) or any(role_of(heading) in ("tel", "email") for heading in headings)
