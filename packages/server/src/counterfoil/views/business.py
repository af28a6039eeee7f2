"""The business: what the shops took on a day beside what is usual, the bills of a day, and one shop."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.business_reads import LoadOfShop
from counterfoil.domain.access import Key
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.business_days import (
    USUAL_FROM,
    ComparedDay,
    ListedBill,
    SumOfDay,
    TradingDays,
    by_shop,
    sum_of_day,
)
from counterfoil.model.calendar import THAI_TIME, from_ms, to_ms, zone_named
from counterfoil.model.text import translatable
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.columns import ListColumn
from counterfoil.views.copies import CopyRow, copy_rows, state
from counterfoil.views.loads import file_names

# The page of a shop shows so many days at once.
DAYS_SHOWN = 14
# A shop differs if its net of a day is less or more than these shares of the usual net.
FEW_SHARE, MANY_SHARE = 0.8, 1.25
# At most so many shops that differ are named.
MOST_DIFFERING = 6
ONE_DAY = timedelta(days=1)
NO_DAYS = TradingDays({})


class ShopToday(Struct, frozen=True, kw_only=True, rename="camel"):
    """A shop's day before today and its day so far. `usual_by_now` is the usual number of bills by this time."""

    shop_id: str
    shop_name: str | None
    yesterday: ComparedDay
    today: ComparedDay
    usual_by_now: float

    @property
    def differs(self) -> bool:
        share = self.yesterday.share
        return share is not None and not FEW_SHARE <= share <= MANY_SHARE


class BusinessToday(Struct, frozen=True, kw_only=True, rename="camel"):
    """What all shops took yesterday and today. `differing` are the shops whose net of yesterday differs most.

    `imported` shops had their bills brought in once, so nothing is missing of them, and they are not compared.
    """

    shops: int
    imported: int
    imported_until: int | None
    """When the latest bill of these shops was closed."""
    yesterday: SumOfDay
    today: SumOfDay
    usual_by_now: float
    differing: list[ShopToday]


def local_day(shop: ShopActivity, now: int) -> date:
    """Return the current calendar day in the shop's time zone."""
    return from_ms(now, zone_named(shop.timezone) or THAI_TIME).date()


def business_today(reads: OperatorReads, shops: Sequence[ShopActivity], now: int) -> BusinessToday:
    days = [local_day(shop, now) for shop in shops]
    found: Mapping[str, TradingDays] = {}
    if days:
        # The first day decides since when the weekdays of a shop count.
        found = by_shop(reads.days_of_shops(min(days) - ONE_DAY - USUAL_FROM - ONE_DAY, max(days)))
    of_shops = []
    imported = [shop for shop in shops if shop.state == "imported"]
    for shop, today in zip(shops, days, strict=True):
        trading = found.get(shop.shop_id, NO_DAYS)
        yesterday = trading.compared(today - ONE_DAY, today)
        of_shops.append(
            ShopToday(
                shop_id=shop.shop_id,
                shop_name=shop.name,
                yesterday=replace(yesterday, usual=None) if shop.state == "imported" else yesterday,
                today=trading.compared(today, today),
                usual_by_now=0.0 if shop.state == "imported" else shop.usual_by_now,
            )
        )
    return BusinessToday(
        shops=len(of_shops),
        imported=len(imported),
        imported_until=max((shop.last_bill_at for shop in imported if shop.last_bill_at), default=None),
        yesterday=sum_of_day([shop.yesterday for shop in of_shops]),
        today=sum_of_day([shop.today for shop in of_shops]),
        usual_by_now=sum(shop.usual_by_now for shop in of_shops),
        differing=sorted([shop for shop in of_shops if shop.differs], key=_difference, reverse=True)[:MOST_DIFFERING],
    )


def _difference(shop: ShopToday) -> Decimal:
    return abs(shop.yesterday.net_difference or Decimal(0))


DIFFERING: Sequence[ListColumn[ShopToday]] = (
    ListColumn("shopId", page=translatable("Shop")),
    ListColumn("shopName"),
    ListColumn("bills", lambda shop: shop.yesterday.bills, "number", page=translatable("Bills yesterday")),
    ListColumn("usualBills", lambda shop: _usual_bills(shop.yesterday), "number", page=translatable("Usual bills")),
    ListColumn("net", lambda shop: shop.yesterday.net, "number", page=translatable("Net yesterday")),
    ListColumn("usualNet", lambda shop: _usual_net(shop.yesterday), "number", page=translatable("Usual net")),
    ListColumn("difference", lambda shop: shop.yesterday.net_difference, "number", page=translatable("Difference")),
)


# --- one shop --------------------------------------------------------------------------------


def days_of_shop(
    reads: OperatorReads, shop: ShopActivity, last: date, now: int, count: int = DAYS_SHOWN
) -> list[ComparedDay]:
    """Return consecutive days of a shop until `last`, latest first, each beside what is usual."""
    today = local_day(shop, now)
    first = last - timedelta(days=count - 1)
    # One week more tells a shop that was closed from one that did not exist yet.
    read_from = first - USUAL_FROM - timedelta(weeks=1)
    days = reads.days_of_shops(read_from, last, shop.shop_id)
    of_shop = by_shop(days).get(shop.shop_id, NO_DAYS)
    return [of_shop.compared(last - timedelta(days=back), today) for back in range(count)]


def _usual_bills(day: ComparedDay) -> float | None:
    return day.usual.bills if day.usual else None


def _usual_net(day: ComparedDay) -> Decimal | None:
    return day.usual.net if day.usual else None


DAYS: Sequence[ListColumn[ComparedDay]] = (
    ListColumn("day", lambda day: day.day.isoformat(), page=translatable("Calendar day")),
    ListColumn("bills", kind="number", page=translatable("Bills")),
    ListColumn("usualBills", _usual_bills, "number", page=translatable("Usual bills")),
    ListColumn("net", kind="number", page=translatable("Net")),
    ListColumn("usualNet", _usual_net, "number", page=translatable("Usual net")),
    ListColumn("difference", lambda day: day.net_difference, "number", page=translatable("Difference")),
    ListColumn("voids", kind="number", page=translatable("Voids")),
    ListColumn(
        "usualVoids", lambda day: day.usual.voids if day.usual else None, "number", page=translatable("Usual voids")
    ),
)
BILLS: Sequence[ListColumn[ListedBill]] = (
    ListColumn("closedAt", kind="time", page=translatable("Closed")),
    ListColumn("billId", kind="code", page=translatable("Bill")),
    ListColumn("receiptNumber", page=translatable("Receipt")),
    ListColumn("businessDate"),
    ListColumn("lines", kind="number", page=translatable("Items")),
    ListColumn("net", kind="number", page=translatable("Net")),
    ListColumn("paidBy", lambda bill: list(bill.paid_by), page=translatable("Paid by")),
    ListColumn("status", page=translatable("State")),
    ListColumn("changedAt", kind="time", page=translatable("Changed")),
)
LOADS: Sequence[ListColumn[LoadOfShop]] = (
    ListColumn("number", lambda found: found.load.number, "number", page=translatable("Load")),
    ListColumn("startedAt", lambda found: found.load.started_at, "time", page=translatable("Started")),
    ListColumn("files", lambda found: file_names(found.load), page=translatable("Files")),
    ListColumn("bills", kind="number", page=translatable("Bills of this shop")),
    ListColumn("rejected", lambda found: found.load.rejected, "number", page=translatable("Rejected lines")),
    ListColumn("onlyThisShop", lambda found: found.is_alone),
)


class KeyOfShop(Struct, frozen=True, kw_only=True):
    """A key that reads a shop, and how far its copy of the shop is."""

    key: Key
    copy: CopyRow


def keys_of_shop(reads: OperatorReads, shop: ShopActivity, now: int) -> list[KeyOfShop]:
    """Return the active keys that cover a shop, those of integrators only."""
    copies = reads.copies()
    found = []
    keys = reads.keys()
    for key in keys:
        if key.is_revoked(now) or key.is_for_trying:
            continue
        if key.scope.id != (shop.shop_id if key.scope.kind == "shop" else shop.franchise_id):
            continue
        rows = copy_rows(key, copies.get(key.lineage, []), [shop], now)
        current = [row for row in rows if not row.no_longer_read]
        if current:
            found.append(KeyOfShop(key=key, copy=current[0]))
    return found


def _ms(time: datetime | None) -> int | None:
    return None if time is None else to_ms(time)


def key_columns(now: int) -> Sequence[ListColumn[KeyOfShop]]:
    return (
        ListColumn("keyId", lambda found: found.key.key_id, "key", page=translatable("Key")),
        ListColumn("scope", lambda found: found.key.scope.kind),
        ListColumn("copy", lambda found: str(state(found.copy, now)), page=translatable("Copy")),
        ListColumn(
            "completeUntil", lambda found: _ms(found.copy.complete_until), "time", page=translatable("Complete until")
        ),
        ListColumn("lastReadAt", lambda found: _ms(found.copy.last_read_at), "time", page=translatable("Last read")),
    )
