"""A shop's menu, with a bill line for each way in which a dish can be sold.

The generator picks the lines of its bills from these. They are encoded as JSON in
advance, which makes it fast to generate a large world.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from counterfoil.demo.worldgen.group import DATA, Dish, Shelf, ShopPlan
from counterfoil.demo.worldgen.plan import opaque
from counterfoil.demo.worldgen.records import Number, RawRecord, baht, without_none
from counterfoil.domain.source_bills import SourceItem, SourceOption

PORTIONS = (1, 1, 1, 1, 1, 1, 2, 2, 3)
WEIGHTS = (0.35, 0.5, 0.85, 1.2)
GUESTS = (2, 2, 3, 4, 4, 6)
TIPS = (20, 40, 50, 100)


class Serving(NamedTuple):
    """An encoded bill line, and the amount that it adds to the subtotal, in satang."""

    satang: int
    line: Raw


class Package(NamedTuple):
    """A buffet package, with a line for each number of guests."""

    id: str
    for_guests: tuple[Serving, ...]


class Menu(Struct, frozen=True, kw_only=True):
    """Everything that a shop sells. Lines are repeated in proportion to how often they are sold."""

    categories: list[RawRecord]
    servings: tuple[Serving, ...]
    legacy_servings: tuple[Serving, ...]
    packages: tuple[Package, ...]
    included: tuple[Serving, ...]
    cancelled: tuple[Serving, ...]
    tips: tuple[Serving, ...]


def menu_of(shop: ShopPlan) -> Menu:
    builder = _MenuBuilder(shop)
    dishes = DATA.dishes[shop.cuisine] + DATA.dishes["everywhere"]
    return Menu(
        categories=[builder.category(shelf) for shelf in builder.shelves.values() if not shelf.deleted],
        servings=tuple(serving for dish in dishes for serving in builder.servings_of(dish)),
        legacy_servings=tuple(serving for dish in dishes for serving in builder.legacy_servings_of(dish)),
        packages=tuple(builder.package(buffet) for buffet in DATA.buffets.get(shop.cuisine, ())),
        # Dishes that are included in a buffet package, and dishes that were ordered and then cancelled.
        included=tuple(builder.sold(dish, 1, 0, unit_price=0) for dish in dishes[:3]),
        cancelled=tuple(builder.sold(dish, 1, dish.price * 100, cancelled=True) for dish in dishes),
        tips=tuple(_serving(tip * 100, SourceItem(name="ทิป Tip", qty=1, total=tip, tip=True)) for tip in TIPS),
    )


class _MenuBuilder:
    """Builds the categories, bill lines and packages of one shop.

    Product and category IDs belong to the shop, master IDs to the franchise.
    """

    def __init__(self, shop: ShopPlan) -> None:
        self.shop = shop
        shelves = DATA.shelves[shop.cuisine] + DATA.shelves["everywhere"]
        self.shelves = {shelf.key: shelf for shelf in shelves}

    def servings_of(self, dish: Dish) -> Iterator[Serving]:
        if dish.by_weight:
            yield from (self.sold(dish, weight, round(dish.price * 100 * weight)) for weight in WEIGHTS)
            return
        price = dish.price * 100
        portions = {qty: self.sold(dish, qty, price * qty) for qty in sorted(set(PORTIONS))}
        yield from (portions[qty] for qty in PORTIONS)
        choices = DATA.choices[dish.choices] if dish.choices else ()
        yield from (self._with_choice(dish, *choice) for choice in choices)
        # A line whose categories include a grouping, because some tills record groupings as categories.
        yield self.sold(dish, 1, price, category_ids=[*self._path(dish.shelf), self._id("category", "best")])
        if choices:
            yield self.sold(dish, 2, price * 2, unit_price=None)

    def legacy_servings_of(self, dish: Dish) -> Iterator[Serving]:
        """Yield lines as the previous POS wrote them: no master products, no unit prices, some deleted categories."""
        name, price = dish.name, dish.price
        season, product = self._id("category", "season"), self._id("product", name)
        yield _serving(price * 100, SourceItem(name=name, qty=1, total=price, category_ids=[season]))
        yield _serving(price * 200, SourceItem(product_id=product, name=name, qty=2, total=price * 2))
        yield self.sold(dish, 1, price * 100, root_id=None, unit_price=None)

    def package(self, buffet: Dish) -> Package:
        lines = tuple(self.sold(buffet, guests, buffet.price * 100 * guests) for guests in GUESTS)
        return Package(self._id("package", buffet.name), lines)

    def _with_choice(self, dish: Dish, name: str, extra: int) -> Serving:
        choice = SourceOption(id=self._id("choice", name), name=name, qty=None if extra == 0 else 1)
        price = dish.price + extra
        return self.sold(dish, 1, price * 100, unit_price=price, options=[choice])

    def sold(self, dish: Dish, qty: Number, satang: int, **differences: object) -> Serving:
        """Return the line of a dish, with some fields replaced. A cancelled line adds nothing to the subtotal."""
        line = SourceItem(
            product_id=self._id("product", dish.name),
            root_id=self.shop.franchise_id and opaque(self.shop.franchise_id, "master", dish.name),
            name=dish.name,
            qty=qty,
            unit_price=dish.price,
            total=baht(satang),
            category_ids=self._path(dish.shelf),
            vat=dish.vat,
        )
        return _serving(0 if "cancelled" in differences else satang, msgspec.structs.replace(line, **differences))

    def category(self, shelf: Shelf) -> RawRecord:
        return without_none(
            id=self._id("category", shelf.key),
            name=shelf.name,
            parentId=shelf.parent and self._id("category", shelf.parent),
            level=shelf.level,
            hidden=shelf.hidden,
            visibleIn=shelf.visible_in,
            grouping=shelf.grouping,
        )

    def _path(self, key: str | None) -> list[str]:
        """Return the category IDs of a shelf and its parents, top level first."""
        if key is None:
            return []
        return [*self._path(self.shelves[key].parent), self._id("category", key)]

    def _id(self, *path: object) -> str:
        return opaque(self.shop.id, *path)


def _serving(satang: int, line: SourceItem) -> Serving:
    return Serving(satang, Raw(msgspec.json.encode(line)))
