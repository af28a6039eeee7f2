"""The questions that the benchmark asks, and the path of each question for each kind of contestant.

The kinds are our API, which the contestants built on web frameworks implement too,
Datasette, PostgREST, and servers of stored responses.
"""

from urllib.parse import urlencode

from msgspec import Struct

LIMIT = 200


class Position(Struct, frozen=True):
    """The position of a bill. The page starts after this bill."""

    day: int
    closed_ms: int
    id: str


class Poll(Struct, frozen=True):
    """A poll that finds no change since `since`."""

    shop: int
    shop_id: str
    since: str
    since_ms: int


class Backfill(Struct, frozen=True):
    """A full page of a shop's bills by day."""

    number: int
    shop: int
    shop_id: str
    first: int
    last: int
    after: Position | None


class OneBill(Struct, frozen=True):
    id: str


class OneMember(Struct, frozen=True):
    token: str


class LookUp(Struct, frozen=True):
    provider_id: str
    user_id: str


class MemberPage(Struct, frozen=True):
    provider_id: str
    cursor: str | None


class ShopList(Struct, frozen=True):
    franchise: str


class Hello(Struct, frozen=True):
    """The smallest possible request."""


Question = Poll | Backfill | OneBill | OneMember | LookUp | MemberPage | ShopList | Hello


def api(question: Question) -> str | None:
    """Return the path in our API. `franchiseId` is for contestants without keys; our service ignores it."""
    match question:
        case Poll(shop_id=shop, since=since):
            return _path("transactions", shopId=shop, updatedSince=since, limit=LIMIT)
        case Backfill(shop_id=shop, first=first, last=last, after=after):
            cursor = {"cursor": after.id} if after else {}
            return _path("transactions", **{"shopId": shop, "from": first, "to": last, "limit": LIMIT, **cursor})
        case OneBill(bill_id):
            return _path(f"transactions/{bill_id}")
        case OneMember(token):
            return _path(f"members/{token}")
        case LookUp(provider, user):
            return _path("members/lookup", providerId=provider, messagingUserId=user)
        case MemberPage(provider, cursor):
            return _path("members", providerId=provider, limit=LIMIT, **({"cursor": cursor} if cursor else {}))
        case ShopList(franchise):
            return _path("shops", franchiseId=franchise)
        case Hello():
            return None


_BY_DAY = """
    select cast(body as text) as body from bills
    where shop = :shop and (bill_day, closed_at, id) > (:day, :closed, :id) and bill_day <= :last
    order by bill_day, closed_at, id limit 200
"""
_BY_CHANGE = """
    select cast(body as text) as body from bills
    where shop = :shop and (updated_at, id) > (:since, '') order by updated_at, id limit 200
"""
_ONE = """
    select cast(bills.body as text) as body from shops cross join bills on bills.shop = shops.number and bills.id = :id
"""
_SHOPS = "select cast(body as text) as body from shops where franchise_id = :franchise and not removed order by number"


def datasette(question: Question) -> str | None:
    """Return the path of a query on our database file. It has finished JSON of bills and shops, but not of members."""
    match question:
        case Poll(shop=shop, since_ms=since):
            return _sql(_BY_CHANGE, shop=shop, since=since)
        case Backfill(shop=shop, first=first, last=last, after=after):
            position = after or Position(first, -1, "")
            return _sql(_BY_DAY, shop=shop, day=position.day, closed=position.closed_ms, id=position.id, last=last)
        case OneBill(bill_id):
            return _sql(_ONE, id=bill_id)
        case ShopList(franchise):
            return _sql(_SHOPS, franchise=franchise)
        case _:
            return None


def file(question: Question) -> str | None:
    """Return the path of a stored response, for the contestants that measure the upper limit."""
    match question:
        case Backfill(number=number):
            return f"/page-{number}.json"
        case Hello():
            return "/hello"
        case _:
            return None


def api_without_members(question: Question) -> str | None:
    """Return the path in our API, except for members: a server of stored JSON has none of them."""
    return None if isinstance(question, OneMember | LookUp | MemberPage) else api(question)


def _path(path: str, **query: object) -> str:
    return f"/ext/v1/{path}?{urlencode(query)}" if query else f"/ext/v1/{path}"


def _sql(statement: str, **values: object) -> str:
    query = {"sql": " ".join(statement.split()), **values, "_shape": "arrayfirst", "_json": "body"}
    return f"/books.json?{urlencode(query)}"


_BILL_COLUMNS = (
    "id,orderIds:order_ids,receiptNumber:receipt_number,taxNumber:tax_number,timestamp,businessDate:business_date,"
    "billDate:bill_date,updatedAt:updated_at,franchiseId:franchise_id,shopId:shop_id,deviceId:device_id,"
    "stationId:station_id,channel,serviceType:service_type,tableName:table_name,memberId:member_id,items,amounts,"
    "payments,status,voidReason:void_reason,cashier"
)


def postgrest(question: Question) -> str | None:
    """Return the path for a poll or a first page. PostgREST lacks the row comparison that later pages need."""
    match question:
        case Poll(shop_id=shop, since_ms=since):
            chosen = {"updated_ms": f"gte.{since}", "order": "updated_ms,id"}
        case Backfill(shop_id=shop, first=first, last=last, after=None):
            days = f"(bill_day.gte.{first},bill_day.lte.{last})"
            chosen = {"and": days, "order": "bill_day,closed_ms,id"}
        case _:
            return None
    return "/bills?" + urlencode({"shop_id": f"eq.{shop}", **chosen, "select": _BILL_COLUMNS, "limit": LIMIT})
