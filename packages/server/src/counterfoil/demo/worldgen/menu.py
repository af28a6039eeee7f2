"""A shop's menu: bill lines for each way to sell a dish, encoded in advance, so that large worlds are made fast."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Raw

from counterfoil.demo.worldgen.offers import BUFFETS, CHOICES, DISHES, EVERYWHERE, SHELVES, Dish, Shelf
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


class Menu:
    """What a shop sells; common lines are repeated. IDs belong to the shop, master IDs to the franchise."""

    def __init__(self, shop_id: str, franchise_id: str | None, cuisine: str) -> None:
        self._shop_id = shop_id
        self._franchise_id = franchise_id
        shelves = SHELVES[cuisine] + SHELVES[EVERYWHERE]
        self._shelves = {shelf.key: shelf for shelf in shelves}
        self.categories = [self._category(shelf) for shelf in self._shelves.values() if not shelf.deleted]
        dishes = DISHES[cuisine] + DISHES[EVERYWHERE]
        self.servings: list[Serving] = []
        self.legacy_servings: list[Serving] = []
        for dish in dishes:
            self.servings += self._servings_of(dish)
            self.legacy_servings += self._legacy_servings_of(dish)
        self.packages = [self._package(buffet) for buffet in BUFFETS.get(cuisine, ())]
        # Dishes that are included in a buffet package, and dishes that were ordered and then cancelled.
        self.included = [self._sold(dish, 1, 0, unit_price=0) for dish in dishes[:3]]
        self.cancelled = [self._sold(dish, 1, dish.price * 100, cancelled=True) for dish in dishes]
        self.tips = [_serving(tip * 100, SourceItem(name="ทิป Tip", qty=1, total=tip, tip=True)) for tip in TIPS]

    def _servings_of(self, dish: Dish) -> Iterator[Serving]:
        if dish.by_weight:
            yield from (self._sold(dish, weight, round(dish.price * 100 * weight)) for weight in WEIGHTS)
            return
        price = dish.price * 100
        yield from (self._sold(dish, qty, price * qty) for qty in PORTIONS)
        choices = CHOICES[dish.choices] if dish.choices else ()
        for name, extra in choices:
            choice = SourceOption(id=self._id("choice", name), name=name, qty=None if extra == 0 else 1)
            unit_price = dish.price + extra
            yield self._sold(dish, 1, unit_price * 100, unit_price=unit_price, options=[choice])
        # A line whose categories include a grouping, because some tills record groupings as categories.
        yield self._sold(dish, 1, price, category_ids=[*self._path(dish.shelf), self._id("category", "best")])
        if choices:
            yield self._sold(dish, 2, price * 2, unit_price=None)

    def _legacy_servings_of(self, dish: Dish) -> Iterator[Serving]:
        """Yield lines as the previous POS wrote them: no master products, no unit prices, some deleted categories."""
        name, price = dish.name, dish.price
        season, product = self._id("category", "season"), self._id("product", name)
        yield _serving(price * 100, SourceItem(name=name, qty=1, total=price, category_ids=[season]))
        yield _serving(price * 200, SourceItem(product_id=product, name=name, qty=2, total=price * 2))
        yield self._sold(dish, 1, price * 100, root_id=None, unit_price=None)

    def _package(self, buffet: Dish) -> Package:
        lines = tuple(self._sold(buffet, guests, buffet.price * 100 * guests) for guests in GUESTS)
        return Package(self._id("package", buffet.name), lines)

    def _sold(self, dish: Dish, qty: Number, satang: int, **differences: object) -> Serving:
        """Return the line of a dish, with some fields replaced. A cancelled line adds nothing to the subtotal."""
        line = SourceItem(
            product_id=self._id("product", dish.name),
            root_id=self._franchise_id and opaque(self._franchise_id, "master", dish.name),
            name=dish.name,
            qty=qty,
            unit_price=dish.price,
            total=baht(satang),
            category_ids=self._path(dish.shelf),
            vat=dish.vat,
        )
        return _serving(0 if "cancelled" in differences else satang, msgspec.structs.replace(line, **differences))

    def _category(self, shelf: Shelf) -> RawRecord:
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
        return [*self._path(self._shelves[key].parent), self._id("category", key)] if key else []

    def _id(self, *path: object) -> str:
        return opaque(self._shop_id, *path)


def _serving(satang: int, line: SourceItem) -> Serving:
    return Serving(satang, Raw(msgspec.json.encode(line)))
