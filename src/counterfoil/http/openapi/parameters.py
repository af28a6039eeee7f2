"""The parameters of all operations. Their schemas exclude only values that the service refuses."""

from counterfoil.domain.requests import DEFAULT_LIMIT, MAX_FEED_LIMIT, MAX_LIMIT, MAX_SPAN_DAYS
from counterfoil.http.openapi import examples
from counterfoil.http.openapi.schemas import Json

_DAY_PATTERN = "^[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"
# A source ID has at most 512 bytes, and a cursor is at most 16 characters longer than the ID of its row.
_CURSOR: Json = {"type": "string", "minLength": 1, "maxLength": 1024}

PARAMETERS: dict[str, Json] = {
    "shopId": {
        "name": "shopId",
        "in": "query",
        "required": True,
        "description": "The `shopId` of a branch in the key's scope, from `GET /v1/shops`.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.SHOP.shop_id,
    },
    "from": {
        "name": "from",
        "in": "query",
        "description": "First calendar day in the shop's time zone, as YYYYMMDD. Requires `to`, and cannot "
        "be used with `updatedSince`.",
        "schema": {"type": "string", "pattern": _DAY_PATTERN},
        "example": "20261001",
    },
    "to": {
        "name": "to",
        "in": "query",
        "description": "Last calendar day (inclusive), as YYYYMMDD. Requires `from`, and cannot be used with "
        f"`updatedSince`. `from` and `to` may span at most {MAX_SPAN_DAYS} days, counting both dates.",
        "schema": {"type": "string", "pattern": _DAY_PATTERN},
        "example": "20261031",
    },
    "updatedSince": {
        "name": "updatedSince",
        "in": "query",
        "description": "Selects bills changed at or after this instant: the shop's mark, which is the `serverTime` of "
        "an earlier `GET /v1/shops`, or any ISO-8601 date and time with `Z` or a UTC offset. It cannot be used with "
        "`from` and `to`.",
        "schema": {"type": "string", "format": "date-time"},
        "example": "2026-09-30T17:00:00.000Z",
    },
    "limit": {
        "name": "limit",
        "in": "query",
        "description": f"Rows per page, 1 to {MAX_LIMIT}. No value is refused: a fraction is truncated, a number above "
        f"{MAX_LIMIT} counts as {MAX_LIMIT}, and a number below 1 or any other text counts as {DEFAULT_LIMIT}.",
        # The service accepts any text, so a schema that allows only integers would be wrong.
        "schema": {"type": ["integer", "string"], "default": DEFAULT_LIMIT},
        "example": MAX_LIMIT,
    },
    "since": {
        "name": "since",
        "in": "query",
        "description": "The `mark` of your last pass. Leave it out on the first pass. A mark is valid for this key "
        "(and keys made from it by rotation), for 400 days. A mark of another key is refused with `bad_cursor`. A mark "
        "that is too old, or from before the operator restored a backup, is refused with `mark_expired`: start again "
        "without `since`, and replace your copy.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.MARK,
    },
    "feedLimit": {
        "name": "limit",
        "in": "query",
        "description": f"Elements per page, 1 to {MAX_FEED_LIMIT:,}. No value is refused: a fraction is truncated, a "
        f"number above {MAX_FEED_LIMIT:,} counts as {MAX_FEED_LIMIT:,}, and a number below 1 or any other text counts "
        f"as {DEFAULT_LIMIT}. A page also ends when its elements reach 8 MiB, so a page has at most 8.6 MiB before "
        "compression.",
        "schema": {"type": ["integer", "string"], "default": DEFAULT_LIMIT},
        "example": MAX_FEED_LIMIT,
    },
    "feedCursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `nextCursor` of the previous page, with the same `since`. It is valid for this key (and "
        "keys made from it by rotation), for as long as the mark of its pass. Any other cursor is refused with "
        "`bad_cursor`. In that case, start the pass again without a cursor.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.FEED_CURSOR,
    },
    "digestShopId": {
        "name": "shopId",
        "in": "query",
        "description": "The `shopId` of a branch in the key's scope. Leave it out to get all branches.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.SHOP.shop_id,
    },
    "digestFrom": {
        "name": "from",
        "in": "query",
        "description": "First calendar day, as YYYYMMDD. The number of days is not limited.",
        "schema": {"type": "string", "pattern": _DAY_PATTERN},
        "example": "20260101",
    },
    "digestTo": {
        "name": "to",
        "in": "query",
        "description": "Last calendar day (inclusive), as YYYYMMDD.",
        "schema": {"type": "string", "pattern": _DAY_PATTERN},
        "example": "20261231",
    },
    "digestCursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `nextCursor` of the previous page, with all other parameters unchanged. Any other cursor "
        "is refused with `bad_cursor`. In that case, start the list again without a cursor.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.FEED_CURSOR,
    },
    "billCursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `nextCursor` of the previous page, with all other parameters unchanged. It is valid for "
        "this list and key (and keys made from it by rotation), for 7 days after it was last handed out or used. Any "
        "other cursor is refused with `bad_cursor`. In that case, start the list again without a cursor.",
        "schema": _CURSOR,
        "example": examples.BILL.id,
    },
    "memberCursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `nextCursor` of the previous page. It is valid for this base and key (and keys made from "
        "it by rotation), for 7 days after it was last handed out or used. Any other cursor, or one whose member was "
        "removed, is refused with `bad_cursor`. In that case, start the list again without a cursor.",
        "schema": _CURSOR,
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
        "description": "The `providerId` of a membership base that the key covers, from `GET /v1/shops`.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.SHOP.provider_id,
    },
    "messagingUserId": {
        "name": "messagingUserId",
        "in": "query",
        "required": True,
        "description": "The person's user ID on the messaging platform: `U` followed by 32 lowercase hexadecimal "
        "digits.",
        "schema": {"type": "string", "pattern": "^U[0-9a-f]{32}$"},
        "example": "U0123456789abcdef0123456789abcdef",
    },
    "memberToken": {
        "name": "memberToken",
        "in": "path",
        "required": True,
        "description": "The member's `memberId`: currently `m1_` followed by an opaque body of no fixed length.",
        "schema": {"type": "string", "minLength": 1},
        "example": examples.TOKEN,
    },
    "requestId": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "Your own ID for the request: 1 to 128 letters, digits or any of `._~:-`. It is returned and "
        "logged. If it is missing or malformed, the service generates one.",
        "schema": {"type": "string"},
        "example": "nightly-sync-0042",
    },
    "ifNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "The `ETag` of an earlier response. If the data has not changed, the response is 304.",
        "schema": {"type": "string"},
        "example": examples.ENTITY_TAG,
    },
}
