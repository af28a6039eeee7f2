"""Turns a raw shop record into the published Shop and the facts that apply to its bills."""

from collections.abc import Collection
from datetime import tzinfo
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.model.calendar import THAI_TIME, zone_named
from counterfoil.model.pos_values import Record, closing_time, flag, ident, identifier, idents, number, objects, text
from counterfoil.model.resources import Category, Shop

# --- categories --------------------------------------------------------------
#
# Tills record groupings, such as best sellers, among the categories. They are neither listed nor shown on lines.


def categories_from(value: object) -> tuple[list[Category], frozenset[str]]:
    """Return the categories, sorted by level and then in the shop's order, and the IDs of the groupings."""
    recorded: dict[str, Record] = {}
    for record in objects(value):
        category_id = ident(record.get("id"))
        if category_id:
            # If an ID occurs twice, the dictionary keeps its first position and its last content.
            recorded[category_id] = record
    groupings = frozenset(category_id for category_id, record in recorded.items() if flag(record.get("grouping")))
    listed = {category_id: record for category_id, record in recorded.items() if category_id not in groupings}
    levels = _levels(listed)
    categories = [_category(category_id, record, levels[category_id]) for category_id, record in listed.items()]
    categories.sort(key=lambda category: (category.level is None, category.level))
    return categories, groupings


def _category(category_id: str, record: Record, level: int | None) -> Category:
    return Category(
        id=category_id,
        name=text(record.get("name")),
        level=level,
        parent_id=None if level == 1 else ident(record.get("parentId")),
        hidden=_hidden(record),
    )


def _hidden(record: Record) -> bool:
    visible_in = record.get("visibleIn")
    return flag(record.get("hidden")) or (isinstance(visible_in, list) and not idents(visible_in))


def _levels(recorded: dict[str, Record]) -> dict[str, int | None]:
    """Return the level of each category: the recorded one, or one more than its parent's. None if it is unknown."""
    levels: dict[str, int | None] = {}
    for category_id, record in recorded.items():
        level = _recorded_level(record)
        if level:
            levels[category_id] = level
    for start in recorded:
        path: list[str] = []
        current: str | None = start
        while current is not None and current in recorded and current not in levels:
            levels[current] = None  # This ends the loop if the parents form a cycle.
            path.append(current)
            current = ident(recorded[current].get("parentId"))
        level = 0 if current is None else levels.get(current)
        for below in reversed(path):
            level = None if level is None else level + 1
            levels[below] = level
    return levels


def _recorded_level(record: Record) -> int | None:
    level = number(record.get("level"))
    return level if isinstance(level, int) and level >= 1 else None


class ShopFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a shop that affect how its bills are read. They are stored for later loads of bills.

    `delivered` has the fields of `ShopSettings` that the operator has set, with what the shop's record says instead. A
    later record of the shop changes only the values in it.
    """

    shop_id: str
    franchise_id: str | None
    timezone: str | None
    closing: str | None
    channels: dict[str, str]
    groupings: tuple[str, ...]
    provider_id: str | None = None
    """The membership base. Facts are stored with it only if an operator has set it: the published shop has it, too."""
    delivered: dict[str, str | None] = {}

    def zone(self) -> tzinfo:
        return zone_of(self.timezone)


def zone_of(timezone: str | None) -> tzinfo:
    """Return the zone with this name. A shop that has none is in Thailand."""
    return zone_named(timezone) or THAI_TIME


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
        closing=closing_time(record.get("closingTime")),
        channels=_channel_names(record.get("channels")),
        groupings=tuple(sorted(groupings)),
    )
    return shop, facts


def _channel_names(value: object) -> dict[str, str]:
    names: dict[str, str] = {}
    for channel in objects(value):
        channel_id = ident(channel.get("id"))
        name = text(channel.get("name"))
        if channel_id and name:
            names[channel_id] = name
    return names


# --- what the operator sets ------------------------------------------------------
#
# Hardly any till exports the franchise of a shop, the end of its business day or whose members its customers are, so an
# operator can set them.


class ShopSettings(Struct, frozen=True, kw_only=True):
    """Facts of shops that an operator sets, for the new shops of an import or for loaded ones. None sets nothing."""

    franchise_id: str | None = None
    closing: str | None = None
    timezone: str | None = None
    provider_id: str | None = None

    def given(self) -> dict[str, str]:
        """Return the values that are set, by field."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not None}

    def in_record(self, record: Record) -> dict[str, Any]:
        """Return a record of a new shop with these settings. What the record says itself stays."""
        completed = dict(record)
        for name, value in self.given().items():
            field = SHOP_FIELDS[name]
            if not record.get(field):
                completed[field] = value
        return completed


NOTHING_SET = ShopSettings()
# The fields of `ShopSettings`, and their names in source records, in the audit log and in `--json`.
SHOP_FIELDS = {
    "franchise_id": "franchiseId",
    "closing": "closingTime",
    "timezone": "timezone",
    "provider_id": "providerId",
}


def with_base(facts: ShopFacts, base: str | None) -> ShopFacts:
    """Return the facts with the membership base of the published shop, if no operator has set one."""
    if "provider_id" in facts.delivered:
        return facts
    return replace(facts, provider_id=base)


def as_stored(facts: ShopFacts) -> ShopFacts:
    """Return the facts as they are stored: without the base if only the shop's record says which one it is."""
    if "provider_id" in facts.delivered:
        return facts
    return replace(facts, provider_id=None)


def with_settings(facts: ShopFacts, settings: ShopSettings) -> ShopFacts:
    """Return the facts with what the operator sets from now on."""
    given = settings.given()
    delivered = dict(facts.delivered)
    for name in given:
        # What the record says stays known, however often the operator sets the field.
        delivered.setdefault(name, getattr(facts, name))
    return replace(facts, **given, delivered=delivered)


def without_settings(facts: ShopFacts, names: Collection[str]) -> ShopFacts:
    """Return the facts in which the shop's record counts again for these fields of `ShopSettings`."""
    restored: dict[str, str | None] = {}
    still_set: dict[str, str | None] = {}
    for name, delivered in facts.delivered.items():
        if name in names:
            restored[name] = delivered
        else:
            still_set[name] = delivered
    return replace(facts, **restored, delivered=still_set)


def settings_kept(delivered: ShopFacts, known: ShopFacts) -> ShopFacts:
    """Return the facts in a record that was delivered, with what the operator has set for the known shop."""
    set_by_operator: dict[str, str | None] = {}
    in_record: dict[str, str | None] = {}
    for name in known.delivered:
        set_by_operator[name] = getattr(known, name)
        in_record[name] = getattr(delivered, name)
    return replace(delivered, **set_by_operator, delivered=in_record)


def shop_under(facts: ShopFacts, shop: Shop) -> Shop:
    """Return the published shop under these facts, which say its base, too."""
    return replace(shop, franchise_id=facts.franchise_id, timezone=facts.timezone, provider_id=facts.provider_id)
