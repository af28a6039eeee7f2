"""One shop: its days beside what is usual, why it is silent, its loads, the keys that read it, and its facts."""

import shlex
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Literal
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import asdict

from counterfoil.business_reads import MOST_BILLS, LoadOfShop
from counterfoil.console.addresses import day_address
from counterfoil.console.key_parts import ScopeNames, scope_names
from counterfoil.console.visit import ConsolePage, NotFound, Visit
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.business_days import ComparedDay, DayOfShop, ListedBill, day_named, day_text
from counterfoil.domain.open_items import OpenItem, joined
from counterfoil.domain.shops import SHOP_FIELDS, ShopFacts, ShopSettings, with_base
from counterfoil.model.messages import Message
from counterfoil.program.columns import RowList, console_json
from counterfoil.shop_settings import ShopChanges, ShopSettingsError, plan
from counterfoil.views import copies
from counterfoil.views.business import (
    BILLS,
    DAYS,
    DAYS_SHOWN,
    LOADS,
    ONE_DAY,
    KeyOfShop,
    days_of_shop,
    key_columns,
    keys_of_shop,
    local_day,
)
from counterfoil.views.loads import items
from counterfoil.views.shops import columns

# The page lists at most so many loads of the shop. JSON has all.
MOST_LOADS = 10
# No bill is older than this day, and no day before it has a page.
EARLIEST = date(1900, 1, 1)
# The chart of a shop's days, in units of its drawing.
CHART_WIDTH, CHART_HEIGHT, CHART_BOTTOM = 720, 130, 140


class DayBar(Struct, frozen=True, kw_only=True):
    """A day in the chart. `is_open` if it goes on."""

    day: date
    net: Decimal
    usual: Decimal | None
    x: int
    width: int
    height: int
    usual_y: int | None
    is_open: bool


class ShopView(Struct, frozen=True, kw_only=True):
    """The data of the page. `newer` and `older` are the last days of other pages of days, if there are any."""

    shop: ShopActivity
    names: ScopeNames
    today: ComparedDay
    yesterday: ComparedDay
    days: RowList[ComparedDay]
    newer: date | None
    older: date | None
    undated: DayOfShop | None
    has_bills: bool
    has_sales: bool
    """Whether it has bills that are not void."""
    can_write: bool
    loads: RowList[LoadOfShop]
    items: list[OpenItem]
    keys: RowList[KeyOfShop]
    is_being_rewritten: bool
    now: int

    @property
    def latest_loads(self) -> RowList[LoadOfShop]:
        return RowList(self.loads.columns, self.loads.rows[:MOST_LOADS])

    @property
    def ends_after_midnight(self) -> bool:
        """Whether bills after midnight belong to the business day before."""
        return self.shop.closing is not None and "00:00" < self.shop.closing < "12:00"

    def day_address(self, day: date | None) -> str:
        return day_address(self.shop.shop_id, day)

    def copy_state(self, found: KeyOfShop) -> Message:
        return copies.state(found.copy, self.now)

    @property
    def chart_top(self) -> Decimal:
        """The net at the top of the chart."""
        nets = [day.net for day in self.days.rows if day.net is not None]
        nets += [day.usual.net for day in self.days.rows if day.usual and day.usual.net is not None]
        return max(nets, default=Decimal(0))

    @property
    def chart(self) -> list[DayBar]:
        """The days as bars, oldest first, or none if no day has a net."""
        top = self.chart_top
        if top <= 0:
            return []
        width = CHART_WIDTH // len(self.days.rows)
        bars = []
        for place, day in enumerate(reversed(self.days.rows)):
            net = day.net or Decimal(0)
            usual = day.usual.net if day.usual else None
            bars.append(
                DayBar(
                    day=day.day,
                    net=net,
                    usual=usual,
                    x=place * width,
                    width=width,
                    height=max(0, round(CHART_HEIGHT * net / top)),
                    usual_y=None if usual is None or usual <= 0 else CHART_BOTTOM - round(CHART_HEIGHT * usual / top),
                    is_open=day.is_open,
                )
            )
        return bars


def _shop(visit: Visit) -> ShopActivity:
    shop_id = unquote(visit.values["shop_id"])
    shop = visit.store.reads.shop(shop_id, visit.now)
    if shop is None:
        raise NotFound(visit.t.gettext("There is no shop with the ID %(id)s, or it was removed.", id=shop_id))
    return shop


def read(visit: Visit) -> ShopView:
    reads, shop = visit.store.reads, _shop(visit)
    today = local_day(shop, visit.now)
    last = _last_day(visit.query.get("until", ""), today)
    recent = days_of_shop(reads, shop, today, visit.now, 2)
    days = days_of_shop(reads, shop, last, visit.now)
    loads = reads.loads_of_shop(shop.shop_id)
    granted = reads.permissions()
    has_sold_lately = any(day.voids is not None and day.bills > day.voids for day in days)
    newer = min(today, last + DAYS_SHOWN * ONE_DAY)
    return ShopView(
        shop=shop,
        names=scope_names(visit),
        today=recent[0],
        yesterday=recent[1],
        days=RowList(DAYS, days),
        newer=newer if newer > last else None,
        older=days[-1].day - ONE_DAY,
        undated=reads.undated_bills(shop.shop_id),
        has_bills=reads.has_bills(shop.shop_id),
        has_sales=has_sold_lately or reads.has_sales(shop.shop_id),
        # On PostgreSQL, a login of the console may be allowed to issue keys, but not to write books.
        can_write=granted is None or granted.loads,
        loads=RowList(LOADS, loads),
        items=_items(visit, shop.shop_id, loads),
        now=visit.now,
        keys=RowList(key_columns(visit.now), keys_of_shop(reads, shop, visit.now)),
        is_being_rewritten=reads.is_being_rewritten(shop.shop_id),
    )


def _last_day(text: str, today: date) -> date:
    try:
        return max(EARLIEST, min(date.fromisoformat(text), today))
    except ValueError:
        return today


def _items(visit: Visit, shop_id: str, loads: Sequence[LoadOfShop]) -> list[OpenItem]:
    """Return the open items of loads with bills of this shop, and of held deliveries that would change some."""
    numbers = {found.load.number for found in loads}
    found = []
    for item in joined(visit.store.reads.open_items()):
        preview = visit.store.reads.delivery_preview(item.identity) if item.kind == "held" else None
        if item.load in numbers or (preview and shop_id in preview.shops):
            found.append(item)
    return found


def as_json(visit: Visit, view: ShopView) -> dict[str, object]:
    return {
        **console_json(columns(), view.shop),
        "closingTime": view.shop.closing,
        "timezone": view.shop.timezone,
        "days": view.days,
        "withoutDate": view.undated,
        "loads": view.loads,
        "openItems": RowList(items(visit.now), view.items),
        "keys": view.keys,
        "rewriting": view.is_being_rewritten,
    }


PAGE = ConsolePage(
    name="shops",
    template="shop",
    read=read,
    as_json=as_json,
    csv=lambda _, view: (f"shop-{view.shop.shop_id}-days", view.days),
)


# --- the bills of a day ------------------------------------------------------------------------


class ShopDayView(Struct, frozen=True, kw_only=True):
    """The bills of a shop on one day. `day` and `compared` are None for the bills without a date."""

    shop: ShopActivity
    day: date | None
    compared: ComparedDay | None
    bills: RowList[ListedBill]
    is_partial: bool
    before: str | None
    after: str | None


def read_day(visit: Visit) -> ShopDayView:
    reads, shop = visit.store.reads, _shop(visit)
    try:
        day = day_named(visit.values["day"])
        if day is not None and day < EARLIEST:
            raise ValueError
    except ValueError as error:
        raise NotFound(
            visit.t.gettext("%(text)s is no day. Use a day such as 2026-11-18.", text=visit.values["day"])
        ) from error
    bills = reads.bills_of_day(shop.shop_id, day)
    before = after = None
    if day is not None:
        before = day_address(shop.shop_id, day - ONE_DAY) if day > EARLIEST else None
        after = day_address(shop.shop_id, day + ONE_DAY) if day < local_day(shop, visit.now) else None
    return ShopDayView(
        shop=shop,
        day=day,
        compared=None if day is None else days_of_shop(reads, shop, day, visit.now, 1)[0],
        bills=RowList(BILLS, bills),
        is_partial=len(bills) == MOST_BILLS,
        before=before,
        after=after,
    )


ONE_DAY_PAGE = ConsolePage(
    name="shops",
    template="shop_day",
    read=read_day,
    as_json=lambda _, view: {"shopId": view.shop.shop_id, "day": view.day, "total": view.compared, "bills": view.bills},
    csv=lambda _, view: (f"shop-{view.shop.shop_id}-{day_text(view.day)}", view.bills),
)


# --- its facts ---------------------------------------------------------------------------------

Field = Literal["franchise", "closing", "timezone", "base"]
# The fields of the form, and those of `ShopSettings`.
FIELDS: dict[str, str] = {
    "franchise": "franchise_id",
    "closing": "closing",
    "timezone": "timezone",
    "base": "provider_id",
}


class ShopSettingsView(Struct, frozen=True, kw_only=True):
    """The facts of a shop, and what a change of them would do, if the address asks for one.

    `entered` are the values in the form. `reset` are the fields in which the shop's record is to count again.
    """

    shop: ShopActivity
    facts: ShopFacts
    entered: dict[str, str]
    reset: list[str]
    planned: ShopChanges | None
    problem: str
    franchises: list[str]
    bases: list[str]
    can_write: bool
    command: str

    @property
    def delivered(self) -> dict[str, str | None]:
        """The fields that an operator has set, with what the shop's record says."""
        return {field: self.facts.delivered[name] for field, name in FIELDS.items() if name in self.facts.delivered}

    @property
    def version(self) -> str:
        """What the form was made from: it is refused if somebody else has changed the shop since."""
        return "|".join(str(getattr(self.facts, name)) for name in FIELDS.values()) + f"|{sorted(self.facts.delivered)}"


def read_settings(visit: Visit) -> ShopSettingsView:
    return settings_view(visit, visit.query)


def settings_view(visit: Visit, asked: dict[str, str]) -> ShopSettingsView:
    """Return the view with the change that the fields ask for, in an address or a form."""
    reads, shop = visit.store.reads, _shop(visit)
    known = reads.facts(shop.shop_id)
    if known is None:
        raise NotFound(visit.t.gettext("There is no shop with the ID %(id)s, or it was removed.", id=shop.shop_id))
    names = {named.shop_id: named for named in reads.shop_names()}
    facts = with_base(known.facts, names[shop.shop_id].provider_id)
    reset = [field for field, name in FIELDS.items() if asked.get(f"reset_{field}") and name in facts.delivered]
    entered = {field: asked.get(field, getattr(facts, name) or "").strip() for field, name in FIELDS.items()}
    changed = {
        name: entered[field]
        for field, name in FIELDS.items()
        if field not in reset and entered[field] and entered[field] != getattr(facts, name)
    }
    planned, problem = None, ""
    try:
        if changed or reset:
            wanted = ShopSettings(**changed)
            planned = plan(reads, [shop.shop_id], wanted, visit.now, reset=[FIELDS[field] for field in reset])
    except ShopSettingsError as error:
        problem = str(error)
    granted = reads.permissions()
    return ShopSettingsView(
        shop=shop,
        facts=facts,
        entered=entered,
        reset=reset,
        planned=planned,
        problem=problem,
        franchises=sorted({named.franchise_id for named in names.values() if named.franchise_id}),
        bases=sorted(base.provider_id for base in reads.bases()),
        # On PostgreSQL, a login of the console may be allowed to issue keys, but not to write books.
        can_write=granted is None or granted.loads,
        command=_command(shop.shop_id, changed, reset),
    )


def _command(shop_id: str, changed: dict[str, str], reset: Sequence[str]) -> str:
    flags = {"franchise": "--franchise", "closing": "--closing-time", "timezone": "--timezone", "base": "--base"}
    words = ["counterfoil shops set", shlex.quote(shop_id)]
    for field, name in FIELDS.items():
        if name in changed:
            words += [flags[field], shlex.quote(changed[name])]
        if field in reset:
            words += ["--reset", flags[field].removeprefix("--")]
    return " ".join(words)


def settings_json(_: Visit, view: ShopSettingsView) -> dict[str, object]:
    planned = view.planned
    return {
        "shopId": view.shop.shop_id,
        **{field: getattr(view.facts, name) for name, field in SHOP_FIELDS.items()},
        "delivered": view.delivered,
        "problem": view.problem or None,
        "change": None
        if planned is None
        else {
            "fields": [
                asdict(change) | {"field": name}
                for of_shop in planned.shops
                for name, change in of_shop.fields().items()
            ],
            "bills": planned.bills,
            "keys": [
                {
                    "keyId": effect.key.key_id,
                    "gains": effect.gains,
                    "loses": effect.loses,
                    "gainsBases": effect.gains_bases,
                    "losesBases": effect.loses_bases,
                }
                for effect in planned.keys
            ],
        },
    }


SETTINGS = ConsolePage(
    name="shops", role="operator", template="shop_settings", read=read_settings, as_json=settings_json
)
