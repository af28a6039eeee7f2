"""The shops of a table, and the facts that no export has: their group, the end of the business day, the time zone."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from unicodedata import combining, normalize

from msgspec import Struct

from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.bills.days import quiet_hour
from counterfoil.importer.columns import TableColumn
from counterfoil.importer.form import KnownShop, sentence
from counterfoil.importer.interview import Interview, Refuted
from counterfoil.importer.ranks import Ranks
from counterfoil.importer.shops.shop_questions import NO_GROUP, ask, closing_question, group_question
from counterfoil.importer.shops.shop_zones import DEFAULT_ZONE, ShopZones
from counterfoil.model.pos_values import closing_time

DEFAULT_SHOP = "my-shop"
MOST_CHOICES = 4


class ExportShop(Struct, frozen=True):
    id: str
    name: str
    column_value: str
    """What the column of shops has for it, or an empty text."""
    timezone: str
    is_known: bool = False
    franchise: str | None = None
    closing_time: str | None = None


class Shops(Struct, frozen=True):
    shops: tuple[ExportShop, ...]
    zone_column: str | None
    """The column with the time zone of each bill."""
    is_utc: bool
    """Whether times without an offset are in UTC."""
    no_shop: tuple[str, ...]
    """Values of the column that name no shop. Their bills are left out."""


class _NamedShop(NamedTuple):
    id: str
    name: str
    column_value: str


def find_shops(
    bills: Bills,
    times: Sequence[str],
    known: Sequence[KnownShop],
    zone: str | None,
    interview: Interview,
    usual_zone: str = DEFAULT_ZONE,
) -> Shops:
    """Return the shops. `usual_zone` is that of new ones, unless the export shows another zone."""
    known_zone = _only(shop.timezone for shop in known)
    zones = ShopZones(bills, zone or known_zone, times, interview, usual_zone)
    no_shop: tuple[str, ...] = ()
    if bills.shop is None:
        named = [_asked_shop(known, interview)]
        if bills.table.file.same:
            names = ", ".join(file.sheet.name for file in bills.table.files)
            interview.assume(sentence("{sheets} are of the same shop", sheets=names))
    else:
        named = _shops_in(bills.shop, bills.ranks, known)
        no_shop = _names_without_shop(bills.shop, bills.ranks)
    by_id = {shop.id: shop for shop in known}
    new = [shop for shop in named if shop.id not in by_id]
    timezone = zones.find([shop.column_value for shop in named], is_asked=bool(new) and zone is None)
    franchise = closing = None
    if new:
        franchise = _asked_franchise(len(new), known, interview)
        closing = _asked_closing(times, known, interview)
    shops = []
    for shop_id, name, value in named:
        old = by_id.get(shop_id)
        if old:
            zone, known_closing = old.timezone or timezone, closing_time(old.closing_time)
            shop = ExportShop(shop_id, old.name or name, value, zone, is_known=True, closing_time=known_closing)
        else:
            own_zone = zones.own.get(value, timezone)
            shop = ExportShop(shop_id, name, value, own_zone, franchise=franchise, closing_time=closing)
        shops.append(shop)
    zone_column = zones.column.name if zones.column else None
    return Shops(tuple(shops), zone_column, zones.is_written_utc, no_shop)


def _only(values: Iterable[str | None]) -> str | None:
    """Return the only value that is given, or None if there are several."""
    found = {value for value in values if value}
    return found.pop() if len(found) == 1 else None


def _shops_in(column: TableColumn, ranks: Ranks, known: Sequence[KnownShop]) -> list[_NamedShop]:
    names = [name for name in column.distinct if not ranks.names_no_shop(name)]
    return [_NamedShop(shop_id, name, name) for name, shop_id in shop_ids(names, known).items()]


def _names_without_shop(column: TableColumn, ranks: Ranks) -> tuple[str, ...]:
    """Return the values that name no shop, such as an empty cell."""
    names = [name for name in column.distinct if ranks.names_no_shop(name)]
    if not column.is_filled:
        names.append("")
    return tuple(names)


def _asked_shop(known: Sequence[KnownShop], interview: Interview) -> _NamedShop:
    """Return the only shop of a file: one that is known, or a new one."""
    default = known[0].id if len(known) == 1 else DEFAULT_SHOP
    choices = {shop.id: shop.name or shop.id for shop in known[: MOST_CHOICES - 1]}
    choices.setdefault(DEFAULT_SHOP, sentence("a new shop"))
    text = sentence("Which shop is this? Choose one, or type the ID of a new one.")
    shop_id = interview.choose("shop", "shop", text, choices, free=True, default=default)
    return _NamedShop(shop_id, "My shop" if shop_id == DEFAULT_SHOP else shop_id, "")


def _asked_franchise(new_shops: int, known: Sequence[KnownShop], interview: Interview) -> str | None:
    """Return the group of the new shops, so that one key can read them all."""
    groups = list(dict.fromkeys(shop.franchise_id for shop in known if shop.franchise_id))
    answer = ask(group_question(new_shops, groups), interview)
    return None if answer == NO_GROUP else answer


def _asked_closing(times: Sequence[str], known: Sequence[KnownShop], interview: Interview) -> str | None:
    known_time = _only(shop.closing_time for shop in known)
    answer = ask(closing_question(quiet_hour(times), known_time), interview)
    closing = closing_time(answer)
    if closing is None:
        raise Refuted("closing", answer, sentence("{answer} is not a time such as 02:00", answer=answer))
    return closing


def shop_ids(names: Sequence[str], known: Sequence[KnownShop] = ()) -> dict[str, str]:
    """Return an ID for each name of a shop: that of a known shop with this name, or one made of the name."""
    by_name = {shop.name: shop.id for shop in known if shop.name}
    known_ids = {shop.id for shop in known}
    found: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        if name in by_name:
            found[name] = by_name[name]
        elif name in known_ids:
            found[name] = name
        else:
            slug = _slug(name) or f"shop-{number}"
            found[name] = f"{slug}-{number}" if slug in found.values() else slug
    return found


def _slug(name: str) -> str:
    """Return the letters and digits of a name without their accents, as in `cafe-1` for `Café 1`."""
    plain = "".join(letter for letter in normalize("NFKD", name.casefold()) if not combining(letter))
    return re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")
