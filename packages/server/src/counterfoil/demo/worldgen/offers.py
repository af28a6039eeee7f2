"""What the shops of generated worlds sell, by cuisine. The order matters: changing it changes the world."""

from collections.abc import Mapping

from msgspec import Struct


class Shelf(Struct, frozen=True):
    """A category of dishes. A deleted category is not listed, but subcategories and bills still refer to it."""

    key: str
    name: str
    parent: str | None = None
    level: int | str | None = None
    hidden: bool | None = None
    visible_in: tuple[str, ...] | None = None
    grouping: bool | None = None
    deleted: bool = False


class Dish(Struct, frozen=True):
    """A product. Without a `shelf` it has no category. If it is sold by weight, the price is per kilogram."""

    name: str
    price: int
    shelf: str | None = None
    choices: str | None = None
    by_weight: bool = False
    vat: bool = True


# What every shop has in addition.
EVERYWHERE = "everywhere"
SHELVES: Mapping[str, tuple[Shelf, ...]] = {
    "kitchen": (
        Shelf("food", "อาหาร Food", level=1),
        Shelf("curry", "แกง Curries", parent="food", level=2),
        Shelf("southern", "แกงใต้ Southern curries", parent="curry", level=3),
        Shelf("wok", "ผัด From the wok", parent="food"),
    ),
    "grill": (
        Shelf("buffet", "บุฟเฟต์ Buffet", level=1),
        Shelf("meat", "เนื้อสัตว์ Meat", parent="buffet"),
        Shelf("seafood", "ทะเล Seafood", parent="buffet"),
        Shelf("shell", "หอย Shellfish", parent="seafood", level=3),
    ),
    "cafe": (
        Shelf("coffee", "กาแฟ Coffee", level=1),
        Shelf("hot", "ร้อน Hot", parent="coffee"),
        Shelf("iced", "เย็น Iced", parent="coffee"),
        Shelf("bakery", "เบเกอรี Bakery", level=1),
    ),
    "bar": (
        Shelf("bar", "บาร์ Bar", level=1),
        Shelf("cocktail", "ค็อกเทล Cocktails", parent="bar"),
        Shelf("beer", "เบียร์ Beer", parent="bar"),
        Shelf("craft", "คราฟต์เบียร์ Craft beer", parent="beer", level=3),
        Shelf("snack", "กับแกล้ม Snacks", level=1),
    ),
    EVERYWHERE: (
        Shelf("drinks", "เครื่องดื่ม Drinks", level=1),
        Shelf("soft", "น้ำอัดลม Soft drinks", parent="drinks", level="2"),
        Shelf("staff", "เมนูพนักงาน Staff meals", hidden=True),
        Shelf("online", "เฉพาะเดลิเวอรี Delivery only", visible_in=("pickup",)),
        Shelf("retired", "เลิกขาย Retired", visible_in=()),
        Shelf("season", "เมนูสงกรานต์ Songkran specials", deleted=True),
        Shelf("sweets", "ของหวานสงกรานต์ Songkran sweets", parent="season"),
        Shelf("fruit", "ผลไม้ Fruit", parent="season", level=2),
        Shelf("blank", ""),
        Shelf("best", "ขายดี Best sellers", grouping=True),
        Shelf("promo", "โปรโมชัน Promotions", grouping=True),
    ),
}
# Lists of choices, each with what it adds to the price.
CHOICES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "spice": (("เผ็ดน้อย Mild", 0), ("เผ็ดมาก Thai hot", 0), ("ไข่ดาว Fried egg", 15)),
    "hotness": (("เผ็ดน้อย Mild", 0), ("เผ็ดมาก Thai hot", 0)),
    "coffee": (("นมโอ๊ต Oat milk", 25), ("หวานน้อย Less sweet", 0), ("ช็อตพิเศษ Extra shot", 30)),
    "sweetness_and_shot": (("หวานน้อย Less sweet", 0), ("ช็อตพิเศษ Extra shot", 30)),
    "sweetness": (("หวานน้อย Less sweet", 0),),
    "shot": (("ช็อตพิเศษ Extra shot", 30),),
}
# Prices are in baht, per kilogram if a dish is sold by weight.
DISHES: Mapping[str, tuple[Dish, ...]] = {
    "kitchen": (
        Dish("แกงเขียวหวานไก่ Green curry chicken", 145, shelf="curry", choices="spice"),
        Dish("มัสมั่นเนื้อ Massaman beef", 189, shelf="curry", choices="spice"),
        Dish("แกงเหลืองปลา Sour yellow curry", 165, shelf="southern", choices="spice"),
        Dish("ผัดกะเพราหมูสับ Pad kra pao", 85, shelf="wok", choices="spice"),
        Dish("ราดหน้าทะเล Rad na seafood", 95, shelf="wok", choices="spice"),
        Dish("ผัดไทยกุ้งสด Pad thai with prawns", 129, shelf="wok", choices="spice"),
        Dish("ปลากะพงทอดน้ำปลา Sea bass by weight", 420, shelf="food", by_weight=True),
        Dish("ข้าวสวย Steamed rice", 15, shelf="food"),
    ),
    "grill": (
        Dish("สามชั้นสไลซ์ Pork belly", 119, shelf="meat"),
        Dish("เนื้อวากิวสมมุติ Imaginary wagyu", 359, shelf="meat"),
        Dish("กุ้งแม่น้ำ River prawns by weight", 690, shelf="seafood", by_weight=True),
        Dish("หอยเชลล์เนย Butter scallops", 159, shelf="shell"),
        Dish("ชุดผัก Vegetable set", 59, shelf="buffet", choices="hotness"),
        Dish("น้ำจิ้มซีฟู้ด Seafood dip", 10, shelf="seafood", choices="hotness"),
    ),
    "cafe": (
        Dish("เอสเปรสโซ Espresso", 60, shelf="hot", choices="shot"),
        Dish("ลาเต้ร้อน Hot latte", 80, shelf="hot", choices="coffee"),
        Dish("ลาเต้เย็น Iced latte", 90, shelf="iced", choices="coffee"),
        Dish("กาแฟมะพร้าว Coconut coffee", 110, shelf="iced", choices="sweetness_and_shot"),
        Dish("ครัวซองต์ Croissant", 85, shelf="bakery"),
        Dish("เค้กใบเตย Pandan cake", 95, shelf="bakery"),
    ),
    "bar": (
        Dish("Night Heron Sour", 290, shelf="cocktail"),
        Dish("ตลาดน้อย Negroni", 310, shelf="cocktail"),
        Dish("คราฟต์ไอพีเอ Craft IPA", 220, shelf="craft"),
        Dish("เบียร์สด Draught beer", 150, shelf="beer"),
        Dish("เอ็นไก่ทอด Fried chicken tendons", 120, shelf="snack", choices="hotness"),
        Dish("ถั่วทอด Fried peanuts", 69, shelf="snack", choices="hotness"),
    ),
    EVERYWHERE: (
        Dish("น้ำเปล่า Water", 20, shelf="soft"),
        Dish("ชาดำเย็น Iced black tea", 45, shelf="drinks", choices="sweetness"),
        Dish("โคล่าสมมุติ Imaginary Cola", 35, shelf="soft"),
        Dish("ลอดช่อง Lot chong", 55, shelf="sweets"),
        Dish("มะม่วงสุก Ripe mango", 90, shelf="fruit", vat=False),
        Dish("ข้าวพนักงาน Staff rice", 25, shelf="staff"),
        Dish("ถุงผ้า Tote bag", 129),
    ),
}
# Buffet packages.
BUFFETS: Mapping[str, tuple[Dish, ...]] = {
    "grill": (
        Dish("บุฟเฟต์ถ่านเกลือ Charcoal 299", 299, shelf="buffet"),
        Dish("บุฟเฟต์ทะเล Seafood 599", 599, shelf="buffet"),
    )
}
