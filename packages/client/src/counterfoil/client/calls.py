"""Builds calls and parses responses for both clients."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import msgspec
from msgspec import Raw

from counterfoil.client.connection import Call, HttpResponse, Position, request_id_of
from counterfoil.client.errors import NotThisService
from counterfoil.client.models import Bill, Change, DayDigest, Member, Page, Shop, Usage
from counterfoil.model import resources

MAX_LIMIT = 200
MAX_FEED_LIMIT = 1_000
# The longest range of days that the list of bills accepts.
WINDOW_DAYS = 31
# Give up on a list or the feed after this many attempts, so that a pull or a comparison cannot go on forever.
MAX_ATTEMPTS = 100
# Amounts and totals of the service have fewer digits than this, before and after the decimal point.
MAX_DIGITS = 40
Row = TypeVar("Row")
Body = TypeVar("Body")

# Numbers with a fraction are parsed as Decimal, so nothing is rounded.
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_decode_page = msgspec.json.Decoder(Page[Any], float_hook=Decimal).decode
decode_raw_page = msgspec.json.Decoder(Page[Raw]).decode


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


# The names of parameters in a query, in the order in which they are sent.
_PARAMETERS = {
    "shop_id": "shopId",
    "provider_id": "providerId",
    "first": "from",
    "last": "to",
    "updated_since": "updatedSince",
    "since": "since",
    "limit": "limit",
    "cursor": "cursor",
}


def bills(shop_id: str, **selection: Unpack[Selection]) -> Call:
    """Return the call for a list of bills: by day with `first` and `last`, or by change with `updated_since`."""
    return _list("transactions", {"limit": MAX_LIMIT, "shop_id": shop_id, **selection})


def bill_windows(shop_id: str, **selection: Unpack[Selection]) -> Iterator[Call]:
    """Yield the calls for a list of bills, one per window of WINDOW_DAYS. A cursor belongs to a single window."""
    whole = bills(shop_id, **selection)
    first, last = selection.get("first"), selection.get("last")
    if not first or not last or first > last or selection.get("cursor"):
        yield whole
        return
    for start in range(first.toordinal(), last.toordinal() + 1, WINDOW_DAYS):
        end = min(last.toordinal(), start + WINDOW_DAYS - 1)
        selection["first"], selection["last"] = date.fromordinal(start), date.fromordinal(end)
        yield bills(shop_id, **selection)


def changes(**paging: Unpack[FeedPaging]) -> Call:
    return _list("changes", {"limit": MAX_FEED_LIMIT, **paging})


def digests(**selection: Unpack[DigestSelection]) -> Call:
    return _list("digests", {"limit": MAX_FEED_LIMIT, **selection})


def members(provider_id: str, **paging: Unpack[Paging]) -> Call:
    return _list("members", {"limit": MAX_LIMIT, "provider_id": provider_id, **paging})


def _list(path: str, parameters: Mapping[str, object]) -> Call:
    """Return the call for a page of a list. A parameter that is None is left out."""
    for name in ("first", "last"):
        day = parameters.get(name)
        if day is not None and (isinstance(day, datetime) or not isinstance(day, date)):
            raise ValueError(f"{name} must be a date, such as date(2026, 7, 1), not {day!r}.")
    query = []
    for name, published in _PARAMETERS.items():
        value = parameters.get(name)
        if value is not None:
            query.append((published, _format(value)))
    return Call(path, tuple(query))


def lookup(provider_id: str, messaging_user_id: str) -> Call:
    return Call("members/lookup", (("providerId", provider_id), ("messagingUserId", messaging_user_id)))


def bill(bill_id: str) -> Call:
    return Call(f"transactions/{quote(bill_id, safe='')}")


def member(token: str) -> Call:
    return Call(f"members/{quote(token, safe='')}")


SHOPS = Call("shops")
USAGE = Call("usage")


# What decoding or converting a body raises that has another form than the API's.
_FOREIGN = (msgspec.DecodeError, RecursionError, KeyError, TypeError, AttributeError, ValueError, ArithmeticError)


def page_parser(convert: Callable[[dict[str, Any]], Row]) -> Callable[[HttpResponse], Page[Row]]:
    """Return a function that parses a page and converts its rows."""

    def decode(body: bytes) -> Page[Row]:
        page = _decode_page(body)
        return msgspec.structs.replace(page, data=[convert(row) for row in page.data])

    return partial(parse_page, decode=decode)


def parse_page(response: HttpResponse, decode: Callable[[bytes], Page[Row]]) -> Page[Row]:
    return msgspec.structs.replace(decode_body(response, decode), remaining=remaining(response))


def parse_object(response: HttpResponse, convert: Callable[[dict[str, Any]], Row]) -> Row:
    return decode_body(response, lambda body: convert(_decode(body)["data"]))


# The fields of the usage that the client itself needs.
class _Rate(TypedDict):
    perMin: int


class _NeededUsage(TypedDict):
    keyId: Position
    scope: Position
    rate: _Rate


def to_usage(record: dict[str, Any]) -> Usage:
    msgspec.convert(record, _NeededUsage)
    return record  # type: ignore[return-value]  # a plain dictionary with the right keys


def decode_body(response: HttpResponse, decode: Callable[[bytes], Body]) -> Body:
    """Decode the body of a response. Raise `NotThisService` if the response is not from this API."""
    try:
        return decode(response.body)
    except _FOREIGN as error:
        raise NotThisService(
            "the response had HTTP status 200, but it is not from the Counterfoil API. Check the base URL.",
            request_id_of(response),
        ) from error


def decode_row(row: bytes | Raw, decode: Callable[[bytes | Raw], Row]) -> Row:
    """Decode a row of a page. Raise `NotThisService` if it does not have the fields that the client needs."""
    try:
        return decode(row)
    except _FOREIGN as error:
        raise NotThisService(
            "the service returned a record without the fields of the Counterfoil API. Check the base URL."
        ) from error


def check_progress(cursor: str | None, next_cursor: str | None) -> None:
    """Raise `NotThisService` if a page refers to itself as the next one, because the list would never end."""
    if next_cursor is not None and next_cursor == (cursor or ""):
        raise NotThisService("the service returned a page that refers to itself as the next one. Check the base URL.")


def checked_amount(amount: Decimal) -> Decimal:
    """Return an amount. Raise `ValueError` if it is not a number, or has more digits than an amount may have."""
    if not amount.is_finite() or max(abs(amount.adjusted()), -int(amount.as_tuple().exponent)) > MAX_DIGITS:
        raise ValueError("an amount is not a number, or too large")
    return amount


def remaining(response: HttpResponse) -> int | None:
    """Return the number of requests left in the day's quota, or None if the response does not say."""
    left = response.headers.get("x-ratelimit-remaining", "")
    return int(left) if left.isdecimal() and len(left) <= MAX_DIGITS else None


def next_page(call: Call, cursor: str) -> Call:
    """Return the call for the next page: the same call with this cursor."""
    check_progress(dict(call.query).get("cursor"), cursor)
    return Call(call.path, (*(pair for pair in call.query if pair[0] != "cursor"), ("cursor", cursor)))


def _format(value: object) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(
                "updated_since has no time zone, so its instant is ambiguous. Use a datetime with a time zone."
            )
        return value.isoformat()
    # `strftime` is not used, because it does not always pad years before 1000.
    return value.isoformat().replace("-", "") if isinstance(value, date) else str(value)


# --- conversions ------------------------------------------------------------


# The names of an object's fields that are numbers, with None, and of its parts that contain numbers, with theirs.
_Numbers = dict[str, Any]


def _numbers(resource: type[resources.Resource]) -> _Numbers:
    numbers: _Numbers = {}
    for field in resources.fields_of(resource):
        if field.kind in (resources.Kind.DECIMAL, resources.Kind.QUANTITY):
            numbers[field.name] = None
        inner = _numbers(field.part) if field.part else {}
        if inner:
            numbers[field.name] = inner
    return numbers


def _convert_to_decimal(record: dict[str, Any], numbers: _Numbers) -> None:
    for name, inner in numbers.items():
        value: Any = record[name] if inner else record.get(name)
        if type(value) is int:
            record[name] = Decimal(value)
        elif inner:
            for part in value if isinstance(value, list) else (value,):
                _convert_to_decimal(part, inner)


def _converter(resource: type[resources.Resource]) -> Callable[[dict[str, Any]], Any]:
    """Return a function that converts the numbers of an object that are `int` to Decimal, in place, and returns it."""
    numbers = _numbers(resource)

    def convert(record: dict[str, Any]) -> Any:
        _convert_to_decimal(record, numbers)
        return record

    return convert


to_shop: Callable[[dict[str, Any]], Shop] = _converter(resources.Shop)
to_bill: Callable[[dict[str, Any]], Bill] = _converter(resources.Bill)
to_member: Callable[[dict[str, Any]], Member] = _converter(resources.Member)
to_digest: Callable[[dict[str, Any]], DayDigest] = _converter(resources.DayDigest)


def to_change(element: dict[str, Any]) -> Change:
    if element["type"] == "bill":
        to_bill(element["bill"])
    return element  # type: ignore[return-value]  # a plain dictionary with the right keys


def to_token(record: dict[str, Any]) -> str:
    return str(record["memberId"])
