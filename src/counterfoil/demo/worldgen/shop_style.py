"""How a shop operates: its hours, tables, tills, sales channels, and rules for charges and discounts."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from msgspec import Struct

from counterfoil.demo.worldgen.group import BasePlan, Group, ShopPlan
from counterfoil.demo.worldgen.menu import Menu, Package, menu_of
from counterfoil.demo.worldgen.plan import WorldPlan, opaque, stream
from counterfoil.demo.worldgen.records import RawRecord, without_none
from counterfoil.domain.calendar import NOON, THAI_TIME, compact, iso, iso_utc, to_ms, zone_named
from counterfoil.domain.source_bills import SourceLabel

CASHIERS = ("น้องแนน", "พี่ต้น", "Ploy", "Beam", "ฝ้าย", "Golf", "มิ้นท์", "Auntie Noi", "เจมส์", "Kratai")
ROOMS = ("โต๊ะ", "Table ", "สวน Garden ", "ชั้นบน Upstairs ")
DELIVERY_APPS = ("หิวช้าง HungryElephant", "MotoMeal ส่งไว", "ปิ่นโต Pinto Express", "โทรสั่ง Call-in")

OPENING = {"kitchen": time(10, 30), "grill": time(15), "cafe": time(7), "bar": time(17)}
USUAL_CLOSING = "20:00"


class Occasion(NamedTuple):
    """The circumstances of a sale: its channel, table, delivery and buffet package."""

    channel: str | SourceLabel | None = None
    at_table: bool = False
    delivered_by: str | None = None
    package: Package | None = None


class ShopStyle(Struct, frozen=True, kw_only=True):
    """Everything about a shop that is needed to generate its bills."""

    shop: ShopPlan
    base: BasePlan | None
    menu: Menu
    zone: tzinfo
    written_time: Callable[[int], str | int]
    written_day: Callable[[date], str | None]
    channels: list[SourceLabel]
    occasions: tuple[Occasion, ...]
    tables: tuple[SourceLabel, ...]
    tills: tuple[tuple[str, str], ...]
    cashiers: tuple[str, ...]
    popularity: float
    # The rules for charges and discounts. A feature that the shop does not use is None, False or empty.
    vat_type: str
    service_percent: int | None
    rounding_step: int | None
    surcharge_percent: int | None
    keyed_discounts: bool
    delivers: bool
    takes_tips: bool
    store_credit: bool

    def hours(self, day: date) -> tuple[int, int]:
        """Return the opening and closing times of a trading day, in milliseconds since 1970."""
        hour, minute = map(int, (self.shop.closing_time or USUAL_CLOSING).split(":"))
        closing = time(hour % 24, minute)
        last_day = day + timedelta(days=1) if closing < NOON else day
        opens = datetime.combine(day, OPENING[self.shop.cuisine], self.zone)
        return to_ms(opens), to_ms(datetime.combine(last_day, closing, self.zone))


def shop_style(plan: WorldPlan, group: Group, shop: ShopPlan) -> ShopStyle:
    habits = stream(plan.seed, "habits", shop.number)
    base = group.base(shop.provider_id)
    menu = menu_of(shop)
    number = shop.number
    zone = (zone_named(shop.timezone) if shop.timezone != "Asia/Bangkok" else None) or THAI_TIME
    apps = DELIVERY_APPS[: 2 + number % 3]
    channels = [SourceLabel(id=opaque(shop.id, "channel", app), name=app) for app in apps]
    return ShopStyle(
        shop=shop,
        base=base,
        menu=menu,
        zone=zone,
        written_time=_time_style(shop, zone),
        written_day=_day_style(shop),
        channels=channels,
        occasions=_occasions(shop, menu, channels),
        tables=tuple(_table(shop, table) for table in range(habits.randrange(8, 25))),
        tills=tuple(
            (opaque(shop.id, "device", till), opaque(shop.id, "station", till)) for till in range(1 + number % 3)
        ),
        cashiers=tuple(habits.sample(CASHIERS, 4)),
        popularity=habits.uniform(0.6, 1.5) * (1.4 if shop.cuisine == "cafe" else 1.0),
        vat_type=("Include", "Exclude", "Include", "")[number % 4],
        service_percent=(10, None, 5)[number % 3] if shop.cuisine != "cafe" else None,
        rounding_step=(25, None, 100, None)[number % 4],
        surcharge_percent=3 if number % 5 in (1, 3) else None,
        keyed_discounts=bool(number % 4),
        delivers=shop.cuisine in ("kitchen", "grill"),
        takes_tips=shop.cuisine != "cafe",
        store_credit=base is not None and base.style.credit_enabled,
    )


def shop_record(style: ShopStyle) -> RawRecord:
    shop = style.shop
    return without_none(
        kind="shop",
        id=shop.id,
        name=shop.name,
        franchiseId=shop.franchise_id,
        providerId=shop.provider_id,
        timezone=shop.timezone,
        closingTime=shop.closing_time,
        channels=style.channels,
        categories=style.menu.categories,
    )


def base_record(base: BasePlan) -> RawRecord:
    return {
        "kind": "base",
        "id": base.id,
        "tiers": [{"code": code, "name": name} for code, name in base.style.tiers],
        "autoTiers": base.style.auto_tiers,
        "creditEnabled": base.style.credit_enabled,
        "messagingChannel": base.channel,
        "olderMessagingChannels": base.older_channels,
    }


def _occasions(shop: ShopPlan, menu: Menu, channels: list[SourceLabel]) -> tuple[Occasion, ...]:
    """Return the shop's kinds of sale, each repeated in proportion to how common it is."""
    table = Occasion(at_table=True)
    counter, take_away, pickup = Occasion("counter"), Occasion("take_away"), Occasion("pickup")
    labelled = [Occasion(channel, delivered_by=channel.name) for channel in channels]
    bare = [Occasion(channel.id, delivered_by=channel.name) for channel in channels]
    usual = {
        "kitchen": [table] * 24 + [counter] * 2 + [take_away] * 5 + [pickup] * 2,
        "grill": [table] * 6 + [Occasion(at_table=True, package=package) for package in menu.packages] * 10,
        "cafe": [table] * 8 + [counter] * 14 + [take_away] * 16 + [pickup] * 3,
        "bar": [table] * 30 + [counter] * 8,
    }
    return (*usual[shop.cuisine], *labelled, *bare[:2], Occasion())


def _table(shop: ShopPlan, number: int) -> SourceLabel:
    room = ROOMS[(shop.number + number // 10) % len(ROOMS)]
    return SourceLabel(id=opaque(shop.id, "table", number), name=f"{room}{number + 1}")


def _time_style(shop: ShopPlan, zone: tzinfo) -> Callable[[int], str | int]:
    """Return a function that formats times as the shop's tills write them. The format differs between shops."""
    styles: tuple[Callable[[int], str | int], ...] = (
        lambda instant: iso(instant, zone),
        iso_utc,
        lambda instant: instant,
        lambda instant: iso(instant, zone),
        lambda instant: instant // 1000,
    )
    if shop.timezone is None:
        return lambda instant: iso(instant, THAI_TIME)[:-6]
    return styles[shop.number % len(styles)]


def _day_style(shop: ShopPlan) -> Callable[[date], str | None]:
    """Return a function that formats the trading day as the shop's tills write it. Some tills leave the day out."""
    if shop.closing_time is None:
        return lambda _: None
    styles: tuple[Callable[[date], str | None], ...] = (date.isoformat, compact, lambda _: None)
    return styles[shop.number % len(styles)]
