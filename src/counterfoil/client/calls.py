"""Builds calls and parses responses for both clients."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypedDict, TypeVar
from urllib.parse import quote

import msgspec

from counterfoil.client.conversation import Call, HttpResponse
from counterfoil.client.errors import NotThisService
from counterfoil.client.models import Page

MAX_LIMIT = 200
MAX_FEED_LIMIT = 1_000
Row = TypeVar("Row")
Body = TypeVar("Body")

# Numbers with a fraction are parsed as Decimal, so nothing is rounded.
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class Paging(TypedDict, total=False):
    """The number of rows per page, and the cursor of the page to start from."""

    limit: int
    cursor: str | None


class FeedPaging(Paging, total=False):
    """The position to start from in the change feed. `since` is the mark of the last pass."""

    since: str | None


class DigestSelection(Paging, total=False):
    """The digests to read: those of one shop or of all shops, for the days `first` to `last` or for all days."""

    shop_id: str | None
    first: date | None
    last: date | None


class Selection(Paging, total=False):
    """The bills to read: those dated `first` to `last`, or those that changed at or after `updated_since`."""

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
    """Return the call for a list of bills: by day with `first` and `last`, or by change with `updated_since`."""
    query = [("shopId", shop_id), ("limit", str(limit))]
    if first is not None:
        query.append(("from", _format_day(first)))
    if last is not None:
        query.append(("to", _format_day(last)))
    if updated_since is not None:
        query.append(("updatedSince", _format_instant(updated_since)))
    if cursor is not None:
        query.append(("cursor", cursor))
    return Call("transactions", tuple(query))


def changes(*, since: str | None = None, limit: int = MAX_FEED_LIMIT, cursor: str | None = None) -> Call:
    query = [("limit", str(limit))]
    if since is not None:
        query.append(("since", since))
    if cursor is not None:
        query.append(("cursor", cursor))
    return Call("changes", tuple(query))


def digests(
    *,
    shop_id: str | None = None,
    first: date | None = None,
    last: date | None = None,
    limit: int = MAX_FEED_LIMIT,
    cursor: str | None = None,
) -> Call:
    query = [("limit", str(limit))]
    if shop_id is not None:
        query.append(("shopId", shop_id))
    if first is not None:
        query.append(("from", _format_day(first)))
    if last is not None:
        query.append(("to", _format_day(last)))
    if cursor is not None:
        query.append(("cursor", cursor))
    return Call("digests", tuple(query))


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


def parse_page(response: HttpResponse, convert: Callable[[dict[str, Any]], Row]) -> Page[Row]:
    body = decode_body(response, _decode)
    try:
        rows = [convert(row) for row in body["data"]]
        return Page(rows, body.get("nextCursor"), body["serverTime"], remaining(response), body.get("mark"))
    except (KeyError, TypeError, AttributeError) as error:
        raise _not_this_service(response) from error


def parse_object(response: HttpResponse, convert: Callable[[dict[str, Any]], Row]) -> Row:
    try:
        return convert(decode_body(response, _decode)["data"])
    except (KeyError, TypeError, AttributeError) as error:
        raise _not_this_service(response) from error


def decode_body(response: HttpResponse, decode: Callable[[bytes], Body]) -> Body:
    """Decode the body of a response. Raise `NotThisService` if the response is not from this API."""
    try:
        return decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_this_service(response) from error


def remaining(response: HttpResponse) -> int | None:
    """Return the number of requests left in the day's quota, or None if the response does not say."""
    left = response.headers.get("x-ratelimit-remaining", "")
    return int(left) if left.isdecimal() else None


def _not_this_service(response: HttpResponse) -> NotThisService:
    return NotThisService(
        "the response had HTTP status 200, but it is not from the Counterfoil API. Check the base URL.",
        response.headers.get("x-request-id"),
    )


def next_page(call: Call, cursor: str) -> Call:
    """Return the call for the next page: the same call with this cursor."""
    return Call(call.path, (*(pair for pair in call.query if pair[0] != "cursor"), ("cursor", cursor)))


def _format_day(day: date) -> str:
    """Return a day as eight digits. `strftime` is not used, because it does not always pad years before 1000."""
    return day.isoformat().replace("-", "")


def _format_instant(moment: datetime | str) -> str:
    if isinstance(moment, str):
        return moment
    if moment.tzinfo is None:
        raise ValueError(
            "updated_since has no time zone, so its instant is ambiguous. Use a datetime with a time zone."
        )
    return moment.isoformat()
