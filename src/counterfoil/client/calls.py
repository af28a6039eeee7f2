"""Build calls and parse their answers; both clients use this."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypedDict, TypeVar
from urllib.parse import quote

import msgspec

from counterfoil.client.conversation import Call, Received
from counterfoil.client.errors import NotThisService
from counterfoil.client.models import Page

MAX_LIMIT = 200
Row = TypeVar("Row")
Body = TypeVar("Body")

# Numbers with a fraction are parsed as Decimal, so nothing is rounded.
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class Paging(TypedDict, total=False):
    """Where in a list to begin, and the number of rows per page."""

    limit: int
    cursor: str | None


class Selection(Paging, total=False):
    """Which bills of a shop: those dated `first` to `last`, or those that changed at or after `updated_since`."""

    first: date | None
    last: date | None
    updated_since: datetime | str | None


def bills(
    shop_id: str,
    *,
    first: date | None = None,
    last: date | None = None,
    updated_since: datetime | str | None = None,
    limit: int = MAX_LIMIT,
    cursor: str | None = None,
) -> Call:
    """Return the call for `first` and `last`, or for `updated_since`. The service refuses neither and both."""
    query = [("shopId", shop_id), ("limit", str(limit))]
    if first is not None:
        query.append(("from", _day(first)))
    if last is not None:
        query.append(("to", _day(last)))
    if updated_since is not None:
        query.append(("updatedSince", _instant(updated_since)))
    if cursor is not None:
        query.append(("cursor", cursor))
    return Call("transactions", tuple(query))


def members(provider_id: str, *, limit: int = MAX_LIMIT, cursor: str | None = None) -> Call:
    query = [("providerId", provider_id), ("limit", str(limit))]
    if cursor is not None:
        query.append(("cursor", cursor))
    return Call("members", tuple(query))


def lookup(provider_id: str, messaging_user_id: str) -> Call:
    return Call("members/lookup", (("providerId", provider_id), ("messagingUserId", messaging_user_id)))


def bill(bill_id: str) -> Call:
    return Call(f"transactions/{quote(bill_id, safe='')}")


def member(token: str) -> Call:
    return Call(f"members/{quote(token, safe='')}")


SHOPS = Call("shops")
USAGE = Call("usage")


def page(answer: Received, exact: Callable[[dict[str, Any]], Row]) -> Page[Row]:
    body = read(answer, _decode)
    try:
        rows = [exact(row) for row in body["data"]]
        return Page(rows, body.get("nextCursor"), body["serverTime"], remaining(answer))
    except (KeyError, TypeError, AttributeError) as error:
        raise _foreign(answer) from error


def one(answer: Received, exact: Callable[[dict[str, Any]], Row]) -> Row:
    try:
        return exact(read(answer, _decode)["data"])
    except (KeyError, TypeError, AttributeError) as error:
        raise _foreign(answer) from error


def read(answer: Received, decode: Callable[[bytes], Body]) -> Body:
    """Decode the body of an answer; raise `NotThisService` if it is not from this API, but from a proxy, say."""
    try:
        return decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _foreign(answer) from error


def remaining(answer: Received) -> int | None:
    """Return what is left of the day's quota, or None if the answer does not say."""
    left = answer.headers.get("x-ratelimit-remaining", "")
    return int(left) if left.isdecimal() else None


def _foreign(answer: Received) -> NotThisService:
    return NotThisService(
        "the answer was 200 but not one of this API; is the address right?", answer.headers.get("x-request-id")
    )


def following(call: Call, cursor: str) -> Call:
    """Return the same call with another cursor."""
    return Call(call.path, (*(pair for pair in call.query if pair[0] != "cursor"), ("cursor", cursor)))


def _day(day: date) -> str:
    """Return a day as eight digits. strftime does not always pad years before 1000."""
    return day.isoformat().replace("-", "")


def _instant(moment: datetime | str) -> str:
    if isinstance(moment, str):
        return moment
    if moment.tzinfo is None:
        raise ValueError("updated_since needs a time zone: without one the instant it means is ambiguous")
    return moment.isoformat()
