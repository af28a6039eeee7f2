"""The parameters. A schema excludes only values that the service really refuses."""

from counterfoil.domain.requests import DEFAULT_LIMIT, MAX_LIMIT, MAX_SPAN_DAYS
from counterfoil.http.openapi import examples
from counterfoil.http.openapi.schemas import Json

_A_DAY = "^[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"

PARAMETERS: dict[str, Json] = {
    "shopId": {
        "name": "shopId",
        "in": "query",
        "required": True,
        "description": "A branch in the key's scope, as `GET /v1/shops` gives it.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.SHOP.shop_id,
    },
    "from": {
        "name": "from",
        "in": "query",
        "description": "First calendar day on the shop's clock, YYYYMMDD. Goes together with `to`.",
        "schema": {"type": "string", "pattern": _A_DAY},
        "example": "20261001",
    },
    "to": {
        "name": "to",
        "in": "query",
        "description": f"Last calendar day, itself included, YYYYMMDD. Both ends counted, at most {MAX_SPAN_DAYS} days "
        "from `from`.",
        "schema": {"type": "string", "pattern": _A_DAY},
        "example": "20261031",
    },
    "updatedSince": {
        "name": "updatedSince",
        "in": "query",
        "description": "Bills changed at or after this instant: the shop's mark, which is the `serverTime` of an "
        "earlier `GET /v1/shops`, or any ISO-8601 date and time with `Z` or a UTC offset. Not together with `from` and "
        "`to`.",
        "schema": {"type": "string", "format": "date-time"},
        "example": "2026-09-30T17:00:00.000Z",
    },
    "limit": {
        "name": "limit",
        "in": "query",
        "description": f"Rows a page, 1 to {MAX_LIMIT}. It is never refused: a fraction is cut off, more than "
        f"{MAX_LIMIT} is read as {MAX_LIMIT}, and less than 1 or no number at all as {DEFAULT_LIMIT}.",
        # Text is accepted as well, so a schema that allows only integers would promise a refusal that never comes.
        "schema": {"type": ["integer", "string"], "default": DEFAULT_LIMIT},
        "example": MAX_LIMIT,
    },
    "billCursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `nextCursor` of the page before, with all other parameters as they were. It is valid for "
        "this list and key (and keys made from it by rotation), for 7 days after it was last handed out or used. Any "
        "other cursor is `bad_cursor`: start the list again without one.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.BILL.id,
    },
    "memberCursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `nextCursor` of the page before. It is valid for this base and key (and keys made from it "
        "by rotation), for 7 days after it was last handed out or used. Any other cursor, and one whose member was "
        "removed, is `bad_cursor`: start the list again without one.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.TOKEN,
    },
    "billId": {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "The bill's `id`.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.BILL.id,
    },
    "providerId": {
        "name": "providerId",
        "in": "query",
        "required": True,
        "description": "A membership base that the key covers, as `GET /v1/shops` gives it.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.SHOP.provider_id,
    },
    "messagingUserId": {
        "name": "messagingUserId",
        "in": "query",
        "required": True,
        "description": "The person's user id on the messaging platform: `U` and 32 lowercase hexadecimal digits.",
        "schema": {"type": "string", "pattern": "^U[0-9a-f]{32}$"},
        "example": "U0123456789abcdef0123456789abcdef",
    },
    "memberToken": {
        "name": "memberToken",
        "in": "path",
        "required": True,
        "description": "The member's `memberId`: today `m1_` and an opaque body of no fixed length.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.TOKEN,
    },
    "requestId": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "Your own id for the request, sent back and logged when it is 1 to 128 letters, digits and "
        "`._~:-`; otherwise one is made.",
        "schema": {"type": "string"},
        "example": "nightly-sync-0042",
    },
    "ifNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "The `ETag` of an answer you hold. While the data is still the same, the answer is 304.",
        "schema": {"type": "string"},
        "example": examples.ENTITY_TAG,
    },
}
