"""Plans the franchises, shops and membership bases of a world, and how each shop operates."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.demo.worldgen.brands import BASES, SITES, DemoBase
from counterfoil.demo.worldgen.menu import Menu, Package
from counterfoil.demo.worldgen.plan import WorldPlan, apportion, messaging_user_id, opaque, stream
from counterfoil.demo.worldgen.records import RawRecord, without_none
from counterfoil.domain.source_bills import SourceLabel
from counterfoil.model.calendar import NOON, THAI_TIME, compact, iso, iso_utc, to_ms, zone_named

CASHIERS = ("น้องแนน", "พี่ต้น", "Ploy", "Beam", "ฝ้าย", "Golf", "มิ้นท์", "Auntie Noi", "เจมส์", "Kratai")
ROOMS = ("โต๊ะ", "Table ", "สวน Garden ", "ชั้นบน Upstairs ")
DELIVERY_APPS = ("หิวช้าง HungryElephant", "MotoMeal ส่งไว", "ปิ่นโต Pinto Express", "โทรสั่ง Call-in")

OPENING = {"kitchen": time(10, 30), "grill": time(15), "cafe": time(7), "bar": time(17)}
FIRST_DOUBLE = 5
DOUBLE_EVERY = 29

# How tills write times and trading days. The formats differ between shops.
TIME_FORMATS: tuple[Callable[[int, tzinfo], str | int], ...] = (
    iso,
    lambda instant, _: iso_utc(instant),
    lambda instant, _: instant,
    iso,
    lambda instant, _: instant // 1000,
)
DAY_FORMATS: tuple[Callable[[date], str | None], ...] = (date.isoformat, compact, lambda _: None)


class Occasion(NamedTuple):
    """The circumstances of a sale: its channel, table, delivery and buffet package."""

    channel: str | SourceLabel | None = None
    at_table: bool = False
    delivered_by: str | None = None
    package: Package | None = None


class DemoShop(Struct, frozen=True, kw_only=True):
    """A shop, and everything that is needed to generate its bills."""

    number: int
    id: str
    name: str
    franchise_id: str | None
    base: DemoBase | None
    timezone: str | None
    closing_time: str
    cuisine: str
    menu: Menu
    zone: tzinfo
    channels: list[SourceLabel]
    occasions: list[Occasion]
    tables: list[SourceLabel]
    tills: list[tuple[str, str]]
    cashiers: list[str]
    popularity: float
    # The rules for charges and discounts. A feature that the shop does not use is None, False or empty.
    vat_type: str
    service_percent: int | None
    rounding_step: int | None
    surcharge_percent: int | None
    keyed_discounts: bool
    delivers: bool
    takes_tips: bool

    def hours(self, day: date) -> tuple[int, int]:
        """Return the opening and closing times of a trading day, in milliseconds since 1970."""
        hour, minute = map(int, self.closing_time.split(":"))
        closing = time(hour % 24, minute)
        last_day = day + timedelta(days=1) if closing < NOON else day
        opens = datetime.combine(day, OPENING[self.cuisine], self.zone)
        return to_ms(opens), to_ms(datetime.combine(last_day, closing, self.zone))

    def written_time(self, instant: int) -> str | int:
        """Return a time as the shop's tills write it."""
        if self.timezone is None:
            return iso(instant, THAI_TIME)[:-6]
        return TIME_FORMATS[self.number % len(TIME_FORMATS)](instant, self.zone)

    def written_day(self, day: date) -> str | None:
        """Return a trading day as the shop's tills write it. Some tills leave the day out."""
        return DAY_FORMATS[self.number % len(DAY_FORMATS)](day)

    def record(self) -> RawRecord:
        return without_none(
            kind="shop",
            id=self.id,
            name=self.name,
            franchiseId=self.franchise_id,
            providerId=self.base and self.base.id,
            timezone=self.timezone,
            closingTime=self.closing_time,
            channels=self.channels,
            categories=self.menu.categories,
        )


class Franchise(Struct, frozen=True, kw_only=True):
    """A franchise, with its shops and all bases that they use."""

    id: str
    shop_ids: tuple[str, ...]
    provider_ids: tuple[str, ...]


class Sample(Struct, frozen=True, kw_only=True):
    """A messaging account that a lookup in the base finds, and the member that the lookup must return."""

    base: DemoBase
    messaging_user_id: str
    member_id: str


class Group(Struct, frozen=True, kw_only=True):
    """All franchises, shops and bases, in the order in which they are generated."""

    franchises: list[Franchise]
    shops: list[DemoShop]
    bases: list[DemoBase]
    sample: Sample | None


def plan_group(plan: WorldPlan) -> Group:
    bases = _bases(plan)
    shops = [_shop(plan, number, bases) for number in range(plan.shops)]
    franchises = []
    for franchise_id, branches in groupby(shops, lambda shop: shop.franchise_id):
        if franchise_id is not None:
            own = list(branches)
            provider_ids = tuple(dict.fromkeys(shop.base.id for shop in own if shop.base))
            shop_ids = tuple(shop.id for shop in own)
            franchises.append(Franchise(id=franchise_id, shop_ids=shop_ids, provider_ids=provider_ids))
    return Group(franchises=franchises, shops=shops, bases=list(bases.values()), sample=_sample(plan, bases))


def person(number: int) -> int:
    """Return the number of the person behind a member record. Some people have two consecutive records."""
    return number - 1 if is_double(number) else number


def is_double(number: int) -> bool:
    return number % DOUBLE_EVERY == FIRST_DOUBLE


def _bases(plan: WorldPlan) -> dict[str, DemoBase]:
    """Return the bases that the shops use, by ID. A large world repeats the group, with new franchises and bases."""
    bases = {}
    for number in range(plan.shops):
        repetition, index = divmod(number, len(SITES))
        if name := SITES[index][1].base:
            bases[opaque(plan.seed, "base", name, repetition)] = BASES[name]
    sizes = apportion(plan.members, [base.weight for base in bases.values()]) if bases else []
    return {
        id_: replace(base, number=number, id=id_, members=size)
        for number, ((id_, base), size) in enumerate(zip(bases.items(), sizes, strict=True))
    }


def _shop(plan: WorldPlan, number: int, bases: dict[str, DemoBase]) -> DemoShop:
    repetition, index = divmod(number, len(SITES))
    brand, site = SITES[index]
    id_, cuisine = opaque(plan.seed, "shop", number), brand.cuisine
    franchise_id = None if brand.independent else opaque(plan.seed, "franchise", brand.name, repetition)
    habits = stream(plan.seed, "habits", number)
    menu = Menu(id_, franchise_id, cuisine)
    apps = DELIVERY_APPS[: 2 + number % 3]
    channels = [SourceLabel(id=opaque(id_, "channel", app), name=app) for app in apps]
    return DemoShop(
        number=number,
        id=id_,
        name=f"{brand.name} {repetition + 1} · {site.name}" if repetition else f"{brand.name} · {site.name}",
        franchise_id=franchise_id,
        base=bases[opaque(plan.seed, "base", site.base, repetition)] if site.base else None,
        timezone=site.timezone or None,
        closing_time=site.closing_time,
        cuisine=cuisine,
        menu=menu,
        zone=(zone_named(site.timezone) if site.timezone != "Asia/Bangkok" else None) or THAI_TIME,
        channels=channels,
        occasions=_occasions(cuisine, menu, channels),
        tables=[_table(id_, number, table) for table in range(habits.randrange(8, 25))],
        tills=[(opaque(id_, "device", till), opaque(id_, "station", till)) for till in range(1 + number % 3)],
        cashiers=habits.sample(CASHIERS, 4),
        popularity=habits.uniform(0.6, 1.5) * (1.4 if cuisine == "cafe" else 1.0),
        vat_type=("Include", "Exclude", "Include", "")[number % 4],
        service_percent=(10, None, 5)[number % 3] if cuisine != "cafe" else None,
        rounding_step=(25, None, 100, None)[number % 4],
        surcharge_percent=3 if number % 5 in (1, 3) else None,
        keyed_discounts=bool(number % 4),
        delivers=cuisine in ("kitchen", "grill"),
        takes_tips=cuisine != "cafe",
    )


def _table(shop_id: str, shop_number: int, number: int) -> SourceLabel:
    room = ROOMS[(shop_number + number // 10) % len(ROOMS)]
    return SourceLabel(id=opaque(shop_id, "table", number), name=f"{room}{number + 1}")


def _occasions(cuisine: str, menu: Menu, channels: list[SourceLabel]) -> list[Occasion]:
    """Return a shop's kinds of sale, each repeated in proportion to how common it is."""
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
    return [*usual[cuisine], *labelled, *bare[:2], Occasion()]


def _sample(plan: WorldPlan, bases: dict[str, DemoBase]) -> Sample | None:
    """Return a member to look up, preferably a person's second record, which is the one that a lookup must return."""
    base = max(bases.values(), key=lambda base: base.members, default=None)
    if base is None or base.members == 0:
        return None
    number = FIRST_DOUBLE if base.members > FIRST_DOUBLE else 0
    user = messaging_user_id(plan.seed, base.channel(), person(number))
    return Sample(base=base, messaging_user_id=user, member_id=base.member_id(number))
