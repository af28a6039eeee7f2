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
    return Menu(
        categories=builder.categories(),
        servings=tuple(serving for dish in builder.dishes for serving in builder.servings_of(dish)),
        legacy_servings=tuple(serving for dish in builder.dishes for serving in builder.legacy_servings_of(dish)),
        packages=tuple(builder.packages()),
        included=tuple(builder.included(dish) for dish in builder.dishes[:3]),
        cancelled=tuple(builder.cancelled(dish) for dish in builder.dishes),
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
        self.dishes = DATA.dishes[shop.cuisine] + DATA.dishes["everywhere"]

    def categories(self) -> list[RawRecord]:
        return [self._category(shelf) for shelf in self.shelves.values() if not shelf.deleted]

    def servings_of(self, dish: Dish) -> Iterator[Serving]:
        if dish.by_weight:
            yield from (self._sold(dish, weight) for weight in WEIGHTS)
            return
        portions = {qty: self._sold(dish, qty) for qty in sorted(set(PORTIONS))}
        yield from (portions[qty] for qty in PORTIONS)
        if dish.choices:
            yield from (self._with_choice(dish, *choice) for choice in DATA.choices[dish.choices])
        # A line whose categories include a grouping, because some tills record groupings as categories.
        shelf_ids = [*self._path(dish.shelf), self._category_id("best")]
        yield _serving(dish.price * 100, self._line(dish, 1, dish.price * 100, category_ids=shelf_ids))
        if dish.choices:
            yield _serving(dish.price * 200, self._line(dish, 2, dish.price * 200, unit_price=None))

    def legacy_servings_of(self, dish: Dish) -> Iterator[Serving]:
        """Yield lines as the previous POS wrote them: no master products, no unit prices, some deleted categories."""
        name, price = dish.name, dish.price
        yield _serving(
            price * 100, SourceItem(name=name, qty=1, total=price, category_ids=[self._category_id("season")])
        )
        yield _serving(price * 200, SourceItem(product_id=self._product_id(dish), name=name, qty=2, total=price * 2))
        yield _serving(price * 100, self._line(dish, 1, price * 100, root_id=None, unit_price=None))

    def packages(self) -> Iterator[Package]:
        for buffet in DATA.buffets.get(self.shop.cuisine, ()):
            yield Package(self._id("package", buffet.name), tuple(self._sold(buffet, guests) for guests in GUESTS))

    def included(self, dish: Dish) -> Serving:
        """Return the line of a dish that is included in a buffet package."""
        return _serving(0, self._line(dish, 1, 0, unit_price=0))

    def cancelled(self, dish: Dish) -> Serving:
        """Return the line of a dish that was ordered and then cancelled."""
        return _serving(0, self._line(dish, 1, dish.price * 100, cancelled=True))

    def _sold(self, dish: Dish, qty: Number) -> Serving:
        satang = round(dish.price * 100 * qty)
        return _serving(satang, self._line(dish, qty, satang))

    def _with_choice(self, dish: Dish, name: str, extra: int) -> Serving:
        choice = SourceOption(id=self._id("choice", name), name=name, qty=None if extra == 0 else 1)
        price = dish.price + extra
        return _serving(price * 100, self._line(dish, 1, price * 100, unit_price=price, options=[choice]))

    def _line(self, dish: Dish, qty: Number, satang: int, **differences: object) -> SourceItem:
        line = SourceItem(
            product_id=self._product_id(dish),
            root_id=self.shop.franchise_id and opaque(self.shop.franchise_id, "master", dish.name),
            name=dish.name,
            qty=qty,
            unit_price=dish.price,
            total=baht(satang),
            category_ids=self._path(dish.shelf),
            vat=dish.vat,
        )
        return msgspec.structs.replace(line, **differences)

    def _category(self, shelf: Shelf) -> RawRecord:
        return without_none(
            id=self._category_id(shelf.key),
            name=shelf.name,
            parentId=shelf.parent and self._category_id(shelf.parent),
            level=shelf.level,
            hidden=shelf.hidden,
            visibleIn=shelf.visible_in,
            grouping=shelf.grouping,
        )

    def _path(self, key: str | None) -> list[str]:
        """Return the category IDs of a shelf and its parents, top level first."""
        if key is None:
            return []
        return [*self._path(self.shelves[key].parent), self._category_id(key)]

    def _product_id(self, dish: Dish) -> str:
        return self._id("product", dish.name)

    def _category_id(self, key: str) -> str:
        return self._id("category", key)

    def _id(self, *path: object) -> str:
        return opaque(self.shop.id, *path)


def _serving(satang: int, line: SourceItem) -> Serving:
    return Serving(satang, Raw(msgspec.json.encode(line)))
