"""Turns a raw shop record into the published Shop and the facts that apply to its bills."""

import re
from datetime import time, tzinfo
from functools import lru_cache

from msgspec import Struct

from counterfoil.domain.calendar import THAI_TIME, zone_named
from counterfoil.domain.categories import categories_from
from counterfoil.domain.pos_values import Record, ident, identifier, objects, text
from counterfoil.domain.resources import Shop

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

    def closing_time(self) -> time | None:
        return _closing_time(self.closing)


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


@lru_cache(maxsize=256)
def _closing_time(closing: str | None) -> time | None:
    if closing is None:
        return None
    return time.max if closing == MIDNIGHT_AT_THE_END else time.fromisoformat(closing)


def _channel_names(value: object) -> dict[str, str]:
    return {
        channel_id: name
        for channel in objects(value)
        if (channel_id := ident(channel.get("id"))) and (name := text(channel.get("name")))
    }
