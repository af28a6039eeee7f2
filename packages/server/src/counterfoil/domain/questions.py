"""Parses a query string into one of a fixed set of questions, or refuses it.

Apart from cursors and marks, later code does not parse any text. For a list of bills, invalid combinations, such as
both modes at once or `from` without `to`, cannot be represented.
"""

import re
from datetime import UTC, date, datetime
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from counterfoil.domain.problems import BAD_QUERY, NOT_SUPPORTED, Refused
from counterfoil.model.calendar import to_ms

DEFAULT_LIMIT = 100
MAX_LIMIT = 200
MAX_FEED_LIMIT = 1_000
MAX_SPAN_DAYS = 31

# Numbers and days are matched with these patterns, because Python's own parsers also accept "１０", "1_0" and " 5 ".
_PLAIN_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.[0-9]+)?", re.ASCII)
_DAY = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})", re.ASCII)
_MESSAGING_USER_ID = re.compile(r"U[0-9a-f]{32}", re.ASCII)
# Matches `serverTime` as the service formats it. Most callers send that value back, and it is the fastest to parse.
_SERVER_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", re.ASCII)
_INSTANT = re.compile(
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})[Tt ]"
    r"([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]+))?)?)?"
    r"(?:(Z|z)|([+ -])([0-9]{2})(?::?([0-9]{2}))?)?",
    re.ASCII,
)
# Returns the names of the known parameters in a query string, without their values, and "=" for each other parameter.
_KNOWN = "(?:shopId|from|to|updatedSince|since|cursor|limit|providerId|messagingUserId)(?=[=&]|$)"
parameter_names = re.compile(rf"(?:^|&)(?:(?={_KNOWN})|[^=&]+)({_KNOWN}|=)").findall


class ByDay(Struct, frozen=True):
    """Mode A: bills whose calendar day lies in a range."""

    first: date
    last: date


class ByChange(Struct, frozen=True):
    """Mode B: bills changed at or after an instant."""

    since: int


class BillList(Struct, frozen=True):
    shop_id: str
    selection: ByDay | ByChange
    limit: int
    cursor: str | None


class MemberList(Struct, frozen=True):
    provider_id: str
    limit: int
    cursor: str | None


class ChangeFeed(Struct, frozen=True):
    """A page of the change feed. `since` is the mark of an earlier pass; a first pass has none."""

    since: str | None
    limit: int
    cursor: str | None


class DigestList(Struct, frozen=True):
    """A page of digests. Without `first` and `last`, bills without a date are included."""

    shop_id: str | None
    first: date | None
    last: date | None
    limit: int
    cursor: str | None


class Lookup(Struct, frozen=True):
    provider_id: str
    messaging_user_id: str


def parameters(query_string: str) -> dict[str, str]:
    """Return the parameters by name. If a parameter is given twice, the first value counts."""
    found: dict[str, str] = {}
    for pair in query_string.split("&"):
        name, _, value = pair.partition("=")
        if "%" in pair or "+" in pair:
            name, value = _percent_decoded(name), _percent_decoded(value)
        if name and name not in found:
            found[name] = value
    return found


def _percent_decoded(text: str) -> str:
    if "%" not in text and "+" not in text:
        return text
    return unquote_to_bytes(text.replace("+", " ")).decode(errors="replace")


def bill_list(query: dict[str, str]) -> BillList:
    shop_id = _required(query, "shopId")
    return BillList(shop_id, _parse_selection(query), limit(query.get("limit")), query.get("cursor"))


def member_list(query: dict[str, str]) -> MemberList:
    if "updatedSince" in query:
        raise Refused(
            NOT_SUPPORTED, "updatedSince is not available on members; read the base in full by following nextCursor."
        )
    return MemberList(_required(query, "providerId"), limit(query.get("limit")), query.get("cursor"))


def change_feed(query: dict[str, str]) -> ChangeFeed:
    return ChangeFeed(query.get("since"), limit(query.get("limit"), MAX_FEED_LIMIT), query.get("cursor"))


def digest_list(query: dict[str, str]) -> DigestList:
    first = _parse_day(query["from"], "from") if "from" in query else None
    last = _parse_day(query["to"], "to") if "to" in query else None
    if first and last and first > last:
        raise Refused(BAD_QUERY, "from must not be after to.")
    if query.get("shopId") == "":
        raise Refused(BAD_QUERY, "shopId must not be empty; leave it out for all shops.")
    return DigestList(query.get("shopId"), first, last, limit(query.get("limit"), MAX_FEED_LIMIT), query.get("cursor"))


def lookup(query: dict[str, str]) -> Lookup:
    provider_id = _required(query, "providerId")
    user_id = query.get("messagingUserId", "")
    if not _MESSAGING_USER_ID.fullmatch(user_id):
        raise Refused(BAD_QUERY, "messagingUserId must be the letter U followed by 32 lowercase hexadecimal digits.")
    return Lookup(provider_id, user_id)


def limit(text: str | None, most: int = MAX_LIMIT) -> int:
    """Return the page size: at most `most`, and the default for a number below 1 or any other text."""
    number = _PLAIN_NUMBER.fullmatch(text or "")
    if not number or number[1] == "-":
        return DEFAULT_LIMIT
    # A number with ten digits or more is above the maximum anyway.
    digits = number[2].lstrip("0")
    asked = int(digits or 0) if len(digits) < 10 else most
    return min(asked, most) if asked >= 1 else DEFAULT_LIMIT


def _required(query: dict[str, str], name: str) -> str:
    value = query.get(name)
    if not value:
        raise Refused(BAD_QUERY, f"{name} is required.")
    return value


def _parse_selection(query: dict[str, str]) -> ByDay | ByChange:
    by_day = "from" in query or "to" in query
    by_change = "updatedSince" in query
    if by_day == by_change:
        raise Refused(BAD_QUERY, "Use either from and to, or updatedSince.")
    if by_change:
        return ByChange(instant(query["updatedSince"]))
    return _parse_span(query)


def _parse_span(query: dict[str, str]) -> ByDay:
    if "from" not in query or "to" not in query:
        raise Refused(BAD_QUERY, "from and to must be used together.")
    first, last = _parse_day(query["from"], "from"), _parse_day(query["to"], "to")
    if first > last:
        raise Refused(BAD_QUERY, "from must not be after to.")
    if (last - first).days >= MAX_SPAN_DAYS:
        raise Refused(BAD_QUERY, f"from and to may span at most {MAX_SPAN_DAYS} days, counting both dates.")
    return ByDay(first, last)


def _parse_day(text: str, name: str) -> date:
    digits = _DAY.fullmatch(text)
    try:
        if digits:
            return date(int(digits[1]), int(digits[2]), int(digits[3]))
    except ValueError:
        pass
    raise Refused(BAD_QUERY, f"{name} must be a calendar day in the form YYYYMMDD.")


def instant(text: str) -> int:
    """Return the instant in milliseconds since 1970 UTC, rounded down so that no change is missed."""
    if _SERVER_TIME.fullmatch(text):
        try:
            return to_ms(datetime.fromisoformat(text))
        except ValueError:
            pass  # The checks below find the error and report it.
    parts = _INSTANT.fullmatch(text)
    if not parts:
        raise Refused(BAD_QUERY, "updatedSince must be an ISO-8601 date and time such as 2026-01-31T18:00:00Z.")
    year, _, month, day, hour, minute, second, fraction, zulu, sign, offset_hours, offset_minutes = parts.groups()
    if not zulu and not sign:
        raise Refused(BAD_QUERY, "updatedSince needs Z or a UTC offset; without one, it is ambiguous.")
    try:
        midnight = to_ms(datetime(int(year), int(month), int(day), tzinfo=UTC))
    except ValueError:
        raise Refused(BAD_QUERY, "updatedSince contains a day that does not exist.") from None
    hours, minutes, seconds = int(hour), int(minute or 0), int(second or 0)
    ahead_hours, ahead_minutes = int(offset_hours or 0), int(offset_minutes or 0)
    if hours > 23 or minutes > 59 or seconds > 59 or ahead_hours > 23 or ahead_minutes > 59:
        raise Refused(BAD_QUERY, "updatedSince contains a time that does not exist.")
    # A "+" that was not percent-encoded arrives as a space.
    ahead = (ahead_hours * 60 + ahead_minutes) * (-1 if sign == "-" else 1)
    return midnight + ((hours * 60 + minutes - ahead) * 60 + seconds) * 1000 + int(((fraction or "") + "000")[:3])
