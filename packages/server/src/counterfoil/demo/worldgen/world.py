"""Generates the source records of a restaurant group, either all at once or as one delivery per evening."""

from collections.abc import Iterator
from datetime import date
from itertools import takewhile
from random import Random
from typing import NamedTuple

import msgspec

from counterfoil.demo.worldgen.bills import Sale, all_sales, some_member, void_note
from counterfoil.demo.worldgen.group import DemoShop, Group, plan_group
from counterfoil.demo.worldgen.members import members
from counterfoil.demo.worldgen.plan import WorldPlan, stream
from counterfoil.domain.source_bills import SourceBill
from counterfoil.model.calendar import DAY_MS, THAI_TIME, thai_day, thai_midnight

LATE_VOID_CHANCE = 0.005
LATE_LINK_CHANCE = 0.008
OFFLINE_CHANCE = 0.03
# One shop has had no bills for this many whole days, and none today. It counts as silent at any time of the day: it
# usually has more than MISSING_BILLS bills in two days (see domain/activity.py).
SILENT_DAYS = 2
_encode = msgspec.json.Encoder().encode


class Delivery(NamedTuple):
    """The lines that are delivered at one point in time."""

    moment_ms: int
    lines: list[bytes]


def world(plan: WorldPlan) -> Iterator[bytes]:
    """Yield every record once, without a newline: bases, shops, members, then bills by closing time."""
    group = plan_group(plan)
    yield from _standing_records(plan, group, plan.until)
    for sale in all_sales(plan, group.shops):
        yield _encode(sale.bill)


def demo_world(plan: WorldPlan, now_ms: int) -> Iterator[Delivery]:
    """Yield the records of a world as deliveries in chronological order, up to `now_ms` or the end of the plan.

    The first delivery has the bases, shops, members and history. Then there is one delivery each evening, with the
    day's bills, late changes (voids, and members linked afterwards), and bills of shops that were offline the day
    before. If the plan's last day is today, the last delivery is now, and one shop has had no bills today or on the two
    days before, so that the console shows a silent shop.
    """
    horizon = min(now_ms, plan.end_ms - 1)
    group = plan_group(plan)
    sales: Iterator[Sale] = takewhile(lambda sale: sale.closed_ms <= horizon, all_sales(plan, group.shops))
    if thai_day(now_ms) == plan.until:
        quiet, quiet_from_ms = silent_shop(group).number, thai_midnight(plan.until) - SILENT_DAYS * DAY_MS
        sales = (sale for sale in sales if sale.shop_number != quiet or sale.closed_ms < quiet_from_ms)
    # The last delivery is at `horizon`, so that it includes all earlier sales.
    moments = (moment for moment in (plan.tracked_from_ms, *plan.evenings_ms) if moment < horizon)
    evenings = _sold_by([*moments, horizon], sales)
    first_ms, history = next(evenings)
    standing = _standing_records(plan, group, thai_day(horizon))
    yield Delivery(first_ms, [*standing, *(_encode(sale.bill) for sale in history)])
    draw, for_tomorrow = stream(plan.seed, "afterthoughts"), list[bytes]()
    for moment_ms, sold in evenings:
        lines, for_tomorrow = for_tomorrow, []
        offline = set()
        if moment_ms != horizon:
            offline = {shop.number for shop in group.shops if draw.random() < OFFLINE_CHANCE}
        for sale in sold:
            line = _encode(sale.bill)
            if sale.shop_number in offline:
                for_tomorrow.append(line)
                continue
            lines.append(line)
            late_change = _late_change(sale, group.shops[sale.shop_number], draw)
            if late_change is not None:
                for_tomorrow.append(_encode(late_change))
        if lines:
            yield Delivery(moment_ms, lines)


def silent_shop(group: Group) -> DemoShop:
    """Return the shop whose till has stopped: the busiest franchise shop in Thailand or, without one, of all shops."""
    # The demo's examples read the first shop of each franchise, so it must have bills.
    first = {franchise.shop_ids[0] for franchise in group.franchises}
    others = []
    for shop in group.shops:
        is_in_thailand = shop.zone is THAI_TIME
        if is_in_thailand and shop.franchise_id and shop.id not in first:
            others.append(shop)
    return max(others or group.shops, key=lambda shop: shop.popularity)


def _late_change(sale: Sale, shop: DemoShop, draw: Random) -> SourceBill | None:
    """Return the bill as it is changed a day later, or None for most bills."""
    bill, chance = sale.bill, draw.random()
    if bill.void is not None:
        return None
    if chance < LATE_VOID_CHANCE:
        return msgspec.structs.replace(bill, rev=2, void=void_note(draw))
    if chance < LATE_VOID_CHANCE + LATE_LINK_CHANCE and bill.member_id is None:
        member = some_member(shop, draw)
        return msgspec.structs.replace(bill, rev=2, member_id=member) if member else None
    return None


def _standing_records(plan: WorldPlan, group: Group, as_of: date) -> Iterator[bytes]:
    """Yield the records that do not belong to a particular day: bases, shops and members."""
    for base in group.bases:
        yield _encode(base.record())
    for shop in group.shops:
        yield _encode(shop.record())
    for member in members(plan, group, as_of):
        yield _encode(member)


def _sold_by(moments: list[int], sales: Iterator[Sale]) -> Iterator[tuple[int, list[Sale]]]:
    upcoming = next(sales, None)
    for moment in moments:
        sold = []
        while upcoming is not None and upcoming.closed_ms <= moment:
            sold.append(upcoming)
            upcoming = next(sales, None)
        yield moment, sold
