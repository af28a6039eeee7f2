"""The API as a team that uses FastAPI would write it: SQLAlchemy models, Pydantic schemas, one session per request.

    DATABASE_URL=sqlite:///peers.sqlite3 uvicorn fastapi_app:app

There are no keys, limits or request records. `franchiseId` replaces the scope of a key.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from fastapi import Depends, FastAPI, HTTPException, Query
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from sqlalchemy import JSON, BigInteger, ForeignKey, create_engine, select, tuple_
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

engine = create_engine(os.environ["DATABASE_URL"])
app = FastAPI()


def open_session() -> Iterator[Session]:
    with Session(engine) as session:
        yield session


Database = Annotated[Session, Depends(open_session)]


# --- models ------------------------------------------------------------------------


class Model(DeclarativeBase):
    type_annotation_map: ClassVar = {dict[str, Any]: JSON, list[Any]: JSON}


class ShopRow(Model):
    __tablename__ = "shops"
    place: Mapped[int]
    shop_id: Mapped[str] = mapped_column(primary_key=True)
    shop_name: Mapped[str | None]
    franchise_id: Mapped[str | None]
    provider_id: Mapped[str | None]
    timezone: Mapped[str | None]
    categories: Mapped[list["CategoryRow"]] = relationship(order_by="CategoryRow.place")


class CategoryRow(Model):
    __tablename__ = "categories"
    shop_id: Mapped[str] = mapped_column(ForeignKey("shops.shop_id"), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str]
    name: Mapped[str | None]
    level: Mapped[int | None]
    parent_id: Mapped[str | None]
    hidden: Mapped[bool]


class BillRow(Model):
    __tablename__ = "bills"
    id: Mapped[str] = mapped_column(primary_key=True)
    shop_id: Mapped[str] = mapped_column(primary_key=True)
    bill_day: Mapped[int]
    closed_ms: Mapped[int | None] = mapped_column(BigInteger)
    updated_ms: Mapped[int | None] = mapped_column(BigInteger)
    order_ids: Mapped[list[Any]]
    receipt_number: Mapped[str | None]
    tax_number: Mapped[str | None]
    timestamp: Mapped[str | None]
    business_date: Mapped[str | None]
    bill_date: Mapped[str | None]
    updated_at: Mapped[str | None]
    franchise_id: Mapped[str | None]
    device_id: Mapped[str | None]
    station_id: Mapped[str | None]
    channel: Mapped[dict[str, Any]]
    service_type: Mapped[str | None]
    table_name: Mapped[str | None]
    member_id: Mapped[str | None]
    items: Mapped[list[Any]]
    amounts: Mapped[dict[str, Any]]
    payments: Mapped[list[Any]]
    status: Mapped[str]
    void_reason: Mapped[str | None]
    cashier: Mapped[str | None]


class MemberRow(Model):
    __tablename__ = "members"
    member_id: Mapped[str] = mapped_column(primary_key=True)
    provider_id: Mapped[str]
    created_ms: Mapped[int] = mapped_column(BigInteger)
    rank: Mapped[str | None]
    rank_level: Mapped[int | None]
    rank_name: Mapped[str | None]
    points: Mapped[float]
    credit: Mapped[float]
    credit_enabled: Mapped[bool]
    coupons: Mapped[list[Any]]
    labels: Mapped[list[Any]]
    persona: Mapped[list[Any]]
    created_date: Mapped[str | None]
    visit_count: Mapped[int]
    last_visit: Mapped[str | None]
    has_tel: Mapped[bool]
    has_email: Mapped[bool]
    has_messaging: Mapped[bool]


class AccountRow(Model):
    __tablename__ = "accounts"
    provider_id: Mapped[str] = mapped_column(primary_key=True)
    messaging_user_id: Mapped[str] = mapped_column(primary_key=True)
    created_ms: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    member_id: Mapped[str] = mapped_column(primary_key=True)


# --- schemas -----------------------------------------------------------------------


class Schema(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class Category(Schema):
    id: str
    name: str | None
    level: int | None
    parent_id: str | None
    hidden: bool


class Shop(Schema):
    shop_id: str
    shop_name: str | None
    franchise_id: str | None
    provider_id: str | None
    timezone: str | None
    categories: list[Category]


class Channel(Schema):
    code: str | None
    name: str | None


class Option(Schema):
    choice_id: str | None
    choice_name: str | None
    qty: float


class Item(Schema):
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


class Promotion(Schema):
    id: str | None
    name: str | None
    amount: float


class Amounts(Schema):
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


class Payment(Schema):
    name: str | None
    amount: float | None
    change: float | None


class Bill(Schema):
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


class Coupon(Schema):
    code: str | None
    status: str | None
    template_id: str | None
    name: str | None
    expire_at: str | None


class Member(Schema):
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


class MemberReference(Schema):
    member_id: str


Data = TypeVar("Data")


class Answer(Schema, Generic[Data]):
    ok: bool = True
    data: Data
    server_time: str


class Page(Schema, Generic[Data]):
    ok: bool = True
    data: list[Data]
    next_cursor: str | None
    server_time: str


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- endpoints ---------------------------------------------------------------------


@app.get("/ext/v1/shops", response_model=Answer[list[Shop]])
def shops(database: Database, franchise_id: Annotated[str, Query(alias="franchiseId")]) -> Any:
    found = database.scalars(
        select(ShopRow)
        .where(ShopRow.franchise_id == franchise_id)
        .order_by(ShopRow.place)
        .options(selectinload(ShopRow.categories))
    ).all()
    return {"data": found, "server_time": now()}


@app.get("/ext/v1/transactions", response_model=Page[Bill])
def transactions(
    database: Database,
    shop_id: Annotated[str, Query(alias="shopId")],
    first: Annotated[int | None, Query(alias="from")] = None,
    last: Annotated[int | None, Query(alias="to")] = None,
    updated_since: Annotated[datetime | None, Query(alias="updatedSince")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
    cursor: str | None = None,
) -> Any:
    after = database.get(BillRow, (cursor, shop_id)) if cursor else None
    if cursor and after is None:
        raise HTTPException(400, "bad_cursor")
    query = select(BillRow).where(BillRow.shop_id == shop_id).limit(limit)
    if updated_since:
        place = (BillRow.updated_ms, BillRow.id)
        query = query.where(BillRow.updated_ms >= int(updated_since.timestamp() * 1000)).order_by(*place)
        if after:
            query = query.where(tuple_(*place) > (after.updated_ms, after.id))
    else:
        place = (BillRow.bill_day, BillRow.closed_ms, BillRow.id)
        query = query.where(BillRow.bill_day.between(first, last)).order_by(*place)
        if after:
            query = query.where(tuple_(*place) > (after.bill_day, after.closed_ms, after.id))
    found = database.scalars(query).all()
    return {"data": found, "next_cursor": found[-1].id if len(found) == limit else None, "server_time": now()}


@app.get("/ext/v1/transactions/{bill_id}", response_model=Answer[Bill])
def transaction(database: Database, bill_id: str) -> Any:
    found = database.scalars(select(BillRow).where(BillRow.id == bill_id).limit(1)).first()
    if found is None:
        raise HTTPException(404, "not_found")
    return {"data": found, "server_time": now()}


@app.get("/ext/v1/members", response_model=Page[Member])
def members(
    database: Database,
    provider_id: Annotated[str, Query(alias="providerId")],
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
    cursor: str | None = None,
) -> Any:
    after = database.get(MemberRow, cursor) if cursor else None
    if cursor and after is None:
        raise HTTPException(400, "bad_cursor")
    place = (MemberRow.created_ms, MemberRow.member_id)
    query = select(MemberRow).where(MemberRow.provider_id == provider_id).order_by(*place).limit(limit)
    if after:
        query = query.where(tuple_(*place) > (after.created_ms, after.member_id))
    found = database.scalars(query).all()
    return {"data": found, "next_cursor": found[-1].member_id if len(found) == limit else None, "server_time": now()}


@app.get("/ext/v1/members/lookup", response_model=Answer[MemberReference])
def lookup(
    database: Database,
    provider_id: Annotated[str, Query(alias="providerId")],
    user_id: Annotated[str, Query(alias="messagingUserId")],
) -> Any:
    found = database.scalars(
        select(AccountRow)
        .where(AccountRow.provider_id == provider_id, AccountRow.messaging_user_id == user_id)
        .order_by(AccountRow.created_ms.desc(), AccountRow.member_id.desc())
        .limit(1)
    ).first()
    if found is None:
        raise HTTPException(404, "not_found")
    return {"data": found, "server_time": now()}


@app.get("/ext/v1/members/{token}", response_model=Answer[Member])
def member(database: Database, token: str) -> Any:
    found = database.get(MemberRow, token)
    if found is None:
        raise HTTPException(404, "not_found")
    return {"data": found, "server_time": now()}
