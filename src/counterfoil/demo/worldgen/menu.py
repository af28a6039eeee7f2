"""A shop's menu, with a bill line for each way in which a dish can be sold.

The generator picks the lines of its bills from these. They are encoded as JSON in
advance, which makes it fast to generate a large world.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from counterfoil.demo.worldgen.group import ShopPlan
from counterfoil.demo.worldgen.plan import opaque
from counterfoil.demo.worldgen.records import CategoryEntry, Number, baht
from counterfoil.domain.clean_bills import SourceItem, SourceOption

# --- shelves (categories), dishes and buffet packages of each cuisine -------


class Shelf(NamedTuple):
    """A category of dishes. A deleted category is not listed, but subcategories and bills still refer to it."""

    key: str
    name: str
    parent: str | None = None
    level: int | str | None = None
    hidden: bool | None = None
    visible_in: tuple[str, ...] | None = None
    grouping: bool = False
    deleted: bool = False


class Dish(NamedTuple):
    """A product. Without a `shelf` it has no category. If it is sold by weight, the price is per kilogram."""

    name: str
    price: int
    shelf: str | None
    choices: tuple[tuple[str, int], ...] = ()
    by_weight: bool = False
    vat: bool = True


SPICE = (("เผ็ดน้อย Mild", 0), ("เผ็ดมาก Thai hot", 0), ("ไข่ดาว Fried egg", 15))
MILK = (("นมโอ๊ต Oat milk", 25), ("หวานน้อย Less sweet", 0), ("ช็อตพิเศษ Extra shot", 30))

EVERYWHERE = (
    Shelf("drinks", "เครื่องดื่ม Drinks", level=1),
    Shelf("soft", "น้ำอัดลม Soft drinks", "drinks", level="2"),
    Shelf("staff", "เมนูพนักงาน Staff meals", hidden=True),
    Shelf("online", "เฉพาะเดลิเวอรี Delivery only", visible_in=("pickup",)),
    Shelf("retired", "เลิกขาย Retired", visible_in=()),
    Shelf("season", "เมนูสงกรานต์ Songkran specials", deleted=True),
    Shelf("sweets", "ของหวานสงกรานต์ Songkran sweets", "season"),
    Shelf("fruit", "ผลไม้ Fruit", "season", level=2),
    Shelf("blank", ""),
    Shelf("best", "ขายดี Best sellers", grouping=True),
    Shelf("promo", "โปรโมชัน Promotions", grouping=True),
)

ALWAYS = (
    Dish("น้ำเปล่า Water", 20, "soft"),
    Dish("ชาดำเย็น Iced black tea", 45, "drinks", MILK[1:2]),
    Dish("โคล่าสมมุติ Imaginary Cola", 35, "soft"),
    Dish("ลอดช่อง Lot chong", 55, "sweets"),
    Dish("มะม่วงสุก Ripe mango", 90, "fruit", vat=False),
    Dish("ข้าวพนักงาน Staff rice", 25, "staff"),
    Dish("ถุงผ้า Tote bag", 129, None),
)

KITCHEN_SHELVES = (
    Shelf("food", "อาหาร Food", level=1),
    Shelf("curry", "แกง Curries", "food", level=2),
    Shelf("southern", "แกงใต้ Southern curries", "curry", level=3),
    Shelf("wok", "ผัด From the wok", "food"),
)
KITCHEN = (
    Dish("แกงเขียวหวานไก่ Green curry chicken", 145, "curry", SPICE),
    Dish("มัสมั่นเนื้อ Massaman beef", 189, "curry", SPICE),
    Dish("แกงเหลืองปลา Sour yellow curry", 165, "southern", SPICE),
    Dish("ผัดกะเพราหมูสับ Pad kra pao", 85, "wok", SPICE),
    Dish("ราดหน้าทะเล Rad na seafood", 95, "wok", SPICE),
    Dish("ผัดไทยกุ้งสด Pad thai with prawns", 129, "wok", SPICE),
    Dish("ปลากะพงทอดน้ำปลา Sea bass by weight", 420, "food", by_weight=True),
    Dish("ข้าวสวย Steamed rice", 15, "food"),
)

GRILL_SHELVES = (
    Shelf("buffet", "บุฟเฟต์ Buffet", level=1),
    Shelf("meat", "เนื้อสัตว์ Meat", "buffet"),
    Shelf("seafood", "ทะเล Seafood", "buffet"),
    Shelf("shell", "หอย Shellfish", "seafood", level=3),
)
GRILL = (
    Dish("สามชั้นสไลซ์ Pork belly", 119, "meat"),
    Dish("เนื้อวากิวสมมุติ Imaginary wagyu", 359, "meat"),
    Dish("กุ้งแม่น้ำ River prawns by weight", 690, "seafood", by_weight=True),
    Dish("หอยเชลล์เนย Butter scallops", 159, "shell"),
    Dish("ชุดผัก Vegetable set", 59, "buffet", SPICE[:2]),
    Dish("น้ำจิ้มซีฟู้ด Seafood dip", 10, "seafood", SPICE[:2]),
)

CAFE_SHELVES = (
    Shelf("coffee", "กาแฟ Coffee", level=1),
    Shelf("hot", "ร้อน Hot", "coffee"),
    Shelf("iced", "เย็น Iced", "coffee"),
    Shelf("bakery", "เบเกอรี Bakery", level=1),
)
CAFE = (
    Dish("เอสเปรสโซ Espresso", 60, "hot", MILK[2:]),
    Dish("ลาเต้ร้อน Hot latte", 80, "hot", MILK),
    Dish("ลาเต้เย็น Iced latte", 90, "iced", MILK),
    Dish("กาแฟมะพร้าว Coconut coffee", 110, "iced", MILK[1:]),
    Dish("ครัวซองต์ Croissant", 85, "bakery"),
    Dish("เค้กใบเตย Pandan cake", 95, "bakery"),
)

BAR_SHELVES = (
    Shelf("bar", "บาร์ Bar", level=1),
    Shelf("cocktail", "ค็อกเทล Cocktails", "bar"),
    Shelf("beer", "เบียร์ Beer", "bar"),
    Shelf("craft", "คราฟต์เบียร์ Craft beer", "beer", level=3),
    Shelf("snack", "กับแกล้ม Snacks", level=1),
)
BAR = (
    Dish("Night Heron Sour", 290, "cocktail"),
    Dish("ตลาดน้อย Negroni", 310, "cocktail"),
    Dish("คราฟต์ไอพีเอ Craft IPA", 220, "craft"),
    Dish("เบียร์สด Draught beer", 150, "beer"),
    Dish("เอ็นไก่ทอด Fried chicken tendons", 120, "snack", SPICE[:2]),
    Dish("ถั่วทอด Fried peanuts", 69, "snack", SPICE[:2]),
)

SHELVES = {
    "kitchen": KITCHEN_SHELVES + EVERYWHERE,
    "grill": GRILL_SHELVES + EVERYWHERE,
    "cafe": CAFE_SHELVES + EVERYWHERE,
    "bar": BAR_SHELVES + EVERYWHERE,
}
DISHES = {
    "kitchen": KITCHEN + ALWAYS,
    "grill": GRILL + ALWAYS,
    "cafe": CAFE + ALWAYS,
    "bar": BAR + ALWAYS,
}
BUFFETS = {"grill": (("บุฟเฟต์ถ่านเกลือ Charcoal 299", 299), ("บุฟเฟต์ทะเล Seafood 599", 599))}


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

    categories: list[CategoryEntry]
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
        self.shelves: dict[str, Shelf] = {shelf.key: shelf for shelf in SHELVES[shop.cuisine]}
        self.dishes: tuple[Dish, ...] = DISHES[shop.cuisine]

    def categories(self) -> list[CategoryEntry]:
        return [self._category(shelf) for shelf in self.shelves.values() if not shelf.deleted]

    def servings_of(self, dish: Dish) -> Iterator[Serving]:
        if dish.by_weight:
            yield from (self._sold(dish, weight) for weight in WEIGHTS)
            return
        portions = {qty: self._sold(dish, qty) for qty in sorted(set(PORTIONS))}
        yield from (portions[qty] for qty in PORTIONS)
        yield from (self._with_choice(dish, *choice) for choice in dish.choices)
        yield self._grouped(dish)
        if dish.choices:
            yield self._without_unit_price(dish)

    def legacy_servings_of(self, dish: Dish) -> Iterator[Serving]:
        """Yield lines as the previous POS wrote them: no master products, no unit prices, some deleted categories."""
        name, price = dish.name, dish.price
        yield _serving(
            price * 100, SourceItem(name=name, qty=1, total=price, category_ids=[self._category_id("season")])
        )
        yield _serving(price * 200, SourceItem(product_id=self._product_id(dish), name=name, qty=2, total=price * 2))
        yield _serving(price * 100, self._line(dish, 1, price * 100, root_id=None, unit_price=None))

    def packages(self) -> Iterator[Package]:
        for name, price in BUFFETS.get(self.shop.cuisine, ()):
            buffet = Dish(name, price, "buffet")
            yield Package(self._id("package", name), tuple(self._sold(buffet, guests) for guests in GUESTS))

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

    def _grouped(self, dish: Dish) -> Serving:
        """Return a line whose categories include a grouping, because some tills record groupings as categories."""
        shelf_ids = [*self._path(dish.shelf), self._category_id("best")]
        return _serving(dish.price * 100, self._line(dish, 1, dish.price * 100, category_ids=shelf_ids))

    def _without_unit_price(self, dish: Dish) -> Serving:
        return _serving(dish.price * 200, self._line(dish, 2, dish.price * 200, unit_price=None))

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

    def _category(self, shelf: Shelf) -> CategoryEntry:
        return CategoryEntry(
            id=self._category_id(shelf.key),
            name=shelf.name,
            parent_id=shelf.parent and self._category_id(shelf.parent),
            level=shelf.level,
            hidden=shelf.hidden,
            visible_in=None if shelf.visible_in is None else list(shelf.visible_in),
            grouping=shelf.grouping or None,
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
