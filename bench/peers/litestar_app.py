"""The API as a team that uses Litestar and cares about speed would write it: SQLAlchemy Core, msgspec structs.

    DATABASE_URL=sqlite:///peers.sqlite3 granian --interface asgi litestar_app:app

Like `fastapi_app.py`, it has no keys, limits or request records.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from litestar import Litestar, get
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException, NotFoundException
from litestar.params import FromPath, FromQuery, QueryParameter
from sqlalchemy import Connection, MetaData, Row, Table, create_engine, select, tuple_

engine = create_engine(os.environ["DATABASE_URL"], json_deserializer=msgspec.json.decode)
metadata = MetaData()
SHOPS, CATEGORIES, BILLS, MEMBERS, ACCOUNTS = (
    Table(name, metadata, autoload_with=engine) for name in ("shops", "categories", "bills", "members", "accounts")
)


# --- structs -----------------------------------------------------------------------


class Out(msgspec.Struct, rename="camel"):
    """Base class of the structs that are encoded as responses."""


class Category(Out):
    id: str
    name: str | None
    level: int | None
    parent_id: str | None
    hidden: bool


class Shop(Out):
    shop_id: str
    shop_name: str | None
    franchise_id: str | None
    provider_id: str | None
    timezone: str | None
    categories: list[Category]


class Channel(Out):
    code: str | None
    name: str | None


class Option(Out):
    choice_id: str | None
    choice_name: str | None
    qty: float


class Item(Out):
    id: str | None
    root_id: str | None
    name: str | None
    qty: float | None
    unit_price: float | None
    line_total: float | None
    options: list[Option]
    category: list[str] | None
    cancelled: bool
    vat: bool
    is_tip: bool


class Promotion(Out):
    id: str | None
    name: str | None
    amount: float


class Amounts(Out):
    subtotal: float | None
    discount: float | None
    campaign: list[Promotion]
    coupon: list[Promotion]
    discount_total: float | None
    service_charge: float | None
    delivery_fee: float | None
    card_surcharge: float | None
    credit: float | None
    vat: float | None
    vat_type: str | None
    rounding: float | None
    tip: float | None
    net: float | None


class Payment(Out):
    name: str | None
    amount: float | None
    change: float | None


class Bill(Out):
    id: str
    order_ids: list[str]
    receipt_number: str | None
    tax_number: str | None
    timestamp: str | None
    business_date: str | None
    bill_date: str | None
    updated_at: str | None
    franchise_id: str | None
    shop_id: str
    device_id: str | None
    station_id: str | None
    channel: Channel
    service_type: str | None
    table_name: str | None
    member_id: str | None
    items: list[Item]
    amounts: Amounts
    payments: list[Payment]
    status: str
    void_reason: str | None
    cashier: str | None


class Coupon(Out):
    code: str | None
    status: str | None
    template_id: str | None
    name: str | None
    expire_at: str | None


class Member(Out):
    member_id: str
    rank: str | None
    rank_level: int | None
    rank_name: str | None
    points: float
    credit: float
    credit_enabled: bool
    coupons: list[Coupon]
    labels: list[str]
    persona: list[str]
    created_date: str | None
    visit_count: int
    last_visit: str | None
    has_tel: bool
    has_email: bool
    has_messaging: bool


class MemberReference(Out):
    member_id: str


Data = TypeVar("Data")


class Answer(Out, Generic[Data], kw_only=True):
    ok: bool = True
    data: Data
    server_time: str


class Page(Out, Generic[Data], kw_only=True):
    ok: bool = True
    data: list[Data]
    next_cursor: str | None
    server_time: str


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- reading -----------------------------------------------------------------------


def open_connection() -> Iterator[Connection]:
    with engine.connect() as connection:
        yield connection


def columns(table: Table, struct: type[msgspec.Struct]) -> list[Any]:
    """Return the columns for a struct's fields, labelled with the JSON names, so that rows can be converted to it."""
    fields = msgspec.structs.fields(struct)
    return [table.c[field.name].label(field.encode_name) for field in fields if field.name in table.c]


SOME_SHOPS = select(*columns(SHOPS, Shop))
SOME_CATEGORIES = select(CATEGORIES.c.shop_id.label("shop_id"), *columns(CATEGORIES, Category))
SOME_BILLS = select(*columns(BILLS, Bill))
SOME_MEMBERS = select(*columns(MEMBERS, Member))
SOME_ACCOUNTS = select(*columns(ACCOUNTS, MemberReference))


def filled(struct: type[Data], row: Row[Any]) -> Data:
    return msgspec.convert(dict(row._mapping), struct)


def paged(struct: type[Data], rows: list[Row[Any]], limit: int, cursor: str) -> Page[Data]:
    return Page(
        data=[filled(struct, row) for row in rows],
        next_cursor=rows[-1]._mapping[cursor] if len(rows) == limit else None,
        server_time=now(),
    )


Database = NamedDependency[Connection]
Limit = Annotated[int, QueryParameter(ge=1, le=200)]


@get("/ext/v1/shops", sync_to_thread=True)
def shops(connection: Database, franchise_id: Annotated[str, QueryParameter(name="franchiseId")]) -> Answer[list[Shop]]:
    rows = connection.execute(SOME_SHOPS.where(SHOPS.c.franchise_id == franchise_id).order_by(SHOPS.c.place)).all()
    lists: dict[str, list[dict[str, Any]]] = {row.shopId: [] for row in rows}
    categories = connection.execute(
        SOME_CATEGORIES.join(SHOPS, SHOPS.c.shop_id == CATEGORIES.c.shop_id)
        .where(SHOPS.c.franchise_id == franchise_id)
        .order_by(CATEGORIES.c.shop_id, CATEGORIES.c.place)
    )
    for row in categories:
        lists[row.shop_id].append(dict(row._mapping))
    found = [msgspec.convert({**row._mapping, "categories": lists[row.shopId]}, Shop) for row in rows]
    return Answer(data=found, server_time=now())


@get("/ext/v1/transactions", sync_to_thread=True)
def transactions(
    connection: Database,
    shop_id: Annotated[str, QueryParameter(name="shopId")],
    first: Annotated[int | None, QueryParameter(name="from")] = None,
    last: Annotated[int | None, QueryParameter(name="to")] = None,
    updated_since: Annotated[datetime | None, QueryParameter(name="updatedSince")] = None,
    limit: Limit = 100,
    cursor: FromQuery[str | None] = None,
) -> Page[Bill]:
    bills = BILLS.c
    query = SOME_BILLS.where(bills.shop_id == shop_id).limit(limit)
    if updated_since:
        place = (bills.updated_ms, bills.id)
        query = query.where(bills.updated_ms >= int(updated_since.timestamp() * 1000)).order_by(*place)
    else:
        place = (bills.bill_day, bills.closed_ms, bills.id)
        query = query.where(bills.bill_day.between(first, last)).order_by(*place)
    if cursor:
        after = connection.execute(select(*place).where(bills.id == cursor, bills.shop_id == shop_id)).first()
        if after is None:
            raise HTTPException("bad_cursor", status_code=400)
        query = query.where(tuple_(*place) > tuple(after))
    return paged(Bill, list(connection.execute(query).all()), limit, "id")


@get("/ext/v1/transactions/{bill_id:str}", sync_to_thread=True)
def transaction(connection: Database, bill_id: FromPath[str]) -> Answer[Bill]:
    row = connection.execute(SOME_BILLS.where(BILLS.c.id == bill_id).limit(1)).first()
    if row is None:
        raise NotFoundException("not_found")
    return Answer(data=filled(Bill, row), server_time=now())


@get("/ext/v1/members", sync_to_thread=True)
def members(
    connection: Database,
    provider_id: Annotated[str, QueryParameter(name="providerId")],
    limit: Limit = 100,
    cursor: FromQuery[str | None] = None,
) -> Page[Member]:
    place = (MEMBERS.c.created_ms, MEMBERS.c.member_id)
    query = SOME_MEMBERS.where(MEMBERS.c.provider_id == provider_id)
    if cursor:
        after = connection.execute(select(*place).where(MEMBERS.c.member_id == cursor)).first()
        if after is None:
            raise HTTPException("bad_cursor", status_code=400)
        query = query.where(tuple_(*place) > tuple(after))
    return paged(Member, list(connection.execute(query.order_by(*place).limit(limit)).all()), limit, "memberId")


@get("/ext/v1/members/lookup", sync_to_thread=True)
def lookup(
    connection: Database,
    provider_id: Annotated[str, QueryParameter(name="providerId")],
    user_id: Annotated[str, QueryParameter(name="messagingUserId")],
) -> Answer[MemberReference]:
    row = connection.execute(
        SOME_ACCOUNTS.where(ACCOUNTS.c.provider_id == provider_id, ACCOUNTS.c.messaging_user_id == user_id)
        .order_by(ACCOUNTS.c.created_ms.desc(), ACCOUNTS.c.member_id.desc())
        .limit(1)
    ).first()
    if row is None:
        raise NotFoundException("not_found")
    return Answer(data=filled(MemberReference, row), server_time=now())


@get("/ext/v1/members/{token:str}", sync_to_thread=True)
def member(connection: Database, token: FromPath[str]) -> Answer[Member]:
    row = connection.execute(SOME_MEMBERS.where(MEMBERS.c.member_id == token)).first()
    if row is None:
        raise NotFoundException("not_found")
    return Answer(data=filled(Member, row), server_time=now())


app = Litestar(
    [shops, transactions, transaction, members, lookup, member], dependencies={"connection": open_connection}
)
