"""Turns a raw shop record into the published Shop and the facts that apply to its bills."""

import re
from datetime import tzinfo

from msgspec import Struct

from counterfoil.domain.calendar import THAI_TIME, zone_named
from counterfoil.domain.pos_values import Record, flag, ident, identifier, idents, number, objects, text
from counterfoil.domain.resources import Category, Shop

# --- categories --------------------------------------------------------------
#
# Tills record groupings, such as best sellers, among the categories. They are neither listed nor shown on lines.


def categories_from(value: object) -> tuple[list[Category], frozenset[str]]:
    """Return the categories, sorted by level and then in the shop's order, and the IDs of the groupings."""
    # If an ID occurs twice, a dict keeps its first position and its last content.
    recorded = {found: record for record in objects(value) if (found := ident(record.get("id")))}
    groupings = frozenset(found for found, record in recorded.items() if flag(record.get("grouping")))
    nodes = {found: record for found, record in recorded.items() if found not in groupings}
    depths = _depths(nodes)
    categories = [_category(found, record, depths[found]) for found, record in nodes.items()]
    categories.sort(key=lambda category: (category.level is None, category.level))
    return categories, groupings


def _category(found: str, record: Record, level: int | None) -> Category:
    return Category(
        id=found,
        name=text(record.get("name")),
        level=level,
        parent_id=None if level == 1 else ident(record.get("parentId")),
        hidden=_hidden(record),
    )


def _hidden(record: Record) -> bool:
    visible_in = record.get("visibleIn")
    return flag(record.get("hidden")) or (isinstance(visible_in, list) and not idents(visible_in))


def _depths(nodes: dict[str, Record]) -> dict[str, int | None]:
    """Return the level of each category: the recorded one, or one more than its parent's. None if it is unknown."""
    depths: dict[str, int | None] = {
        found: level for found, record in nodes.items() if (level := _recorded_level(record))
    }
    for start in nodes:
        path: list[str] = []
        current: str | None = start
        while current is not None and current in nodes and current not in depths:
            depths[current] = None  # This ends the loop if the parents form a cycle.
            path.append(current)
            current = ident(nodes[current].get("parentId"))
        depth = 0 if current is None else depths.get(current)
        for below in reversed(path):
            depth = None if depth is None else depth + 1
            depths[below] = depth
    return depths


def _recorded_level(record: Record) -> int | None:
    level = number(record.get("level"))
    return level if isinstance(level, int) and level >= 1 else None


MIDNIGHT_AT_THE_END = "24:00"
_CLOSING = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::00)?", re.ASCII)


class ShopFacts(Struct, frozen=True, kw_only=True):
    """The settings of a shop that affect how its bills are read. They are stored for later loads of bills."""

    shop_id: str
    franchise_id: str | None
    timezone: str | None
    closing: str | None
    channels: dict[str, str]
    groupings: tuple[str, ...]

    def zone(self) -> tzinfo:
        return zone_named(self.timezone) or THAI_TIME


def shop_from(record: Record) -> tuple[Shop, ShopFacts]:
    shop_id = identifier(record, "id")
    franchise_id = ident(record.get("franchiseId"))
    timezone = text(record.get("timezone"))
    if zone_named(timezone) is None:
        timezone = None
    categories, groupings = categories_from(record.get("categories"))
    shop = Shop(
        shop_id=shop_id,
        shop_name=text(record.get("name")),
        franchise_id=franchise_id,
        provider_id=ident(record.get("providerId")),
        timezone=timezone,
        categories=categories,
    )
    facts = ShopFacts(
        shop_id=shop_id,
        franchise_id=franchise_id,
        timezone=timezone,
        closing=_closing(record.get("closingTime")),
        channels=_channel_names(record.get("channels")),
        groupings=tuple(sorted(groupings)),
    )
    return shop, facts


def _closing(value: object) -> str | None:
    written = (text(value) or "").strip()
    if written == MIDNIGHT_AT_THE_END:
        return written
    clock = _CLOSING.fullmatch(written)
    return f"{clock[1]:0>2}:{clock[2]}" if clock else None


def _channel_names(value: object) -> dict[str, str]:
    return {
        channel_id: name
        for channel in objects(value)
        if (channel_id := ident(channel.get("id"))) and (name := text(channel.get("name")))
    }
