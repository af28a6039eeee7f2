"""Menu data: shelves (categories), dishes and buffet packages of each cuisine."""

from typing import NamedTuple


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
