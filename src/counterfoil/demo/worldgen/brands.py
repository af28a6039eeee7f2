"""The brands of the group, their sites and membership bases. All of them are fictitious."""

from typing import NamedTuple


class Site(NamedTuple):
    """A branch of a brand, with its own settings."""

    name: str
    base: str | None = None
    closing_time: str | None = "22:30"
    timezone: str | None = "Asia/Bangkok"


class Brand(NamedTuple):
    """A brand and its sites. An independent brand is not a franchise."""

    name: str
    cuisine: str
    sites: tuple[Site, ...]
    independent: bool = False


class BaseStyle(NamedTuple):
    """The relative size and the settings of a membership base."""

    weight: float
    tiers: tuple[tuple[str, str], ...] = ()
    auto_tiers: bool = False
    credit_enabled: bool = False
    older_channels: int = 0
    numbered_members: bool = False


METALS = (("member", "สมาชิก Member"), ("silver", "Silver เงิน"), ("gold", "Gold ทอง"), ("black", "Black Lotus"))

BASES = {
    "lotus": BaseStyle(5, METALS, auto_tiers=True, credit_enabled=True, older_channels=2),
    "charcoal": BaseStyle(2, METALS[:2]),
    "kafae": BaseStyle(
        4, (("bean", "เมล็ด Bean"), ("roast", "คั่ว Roast")), auto_tiers=True, credit_enabled=True, older_channels=1
    ),
    "heron": BaseStyle(1, numbered_members=True),
}

BRANDS = (
    Brand(
        "ครัวลำดวน Lamduan Kitchen",
        "kitchen",
        (
            Site("อารีย์ Ari", "lotus"),
            Site("ท่าเตียน Tha Tien", "lotus", "24:00"),
            Site("เชียงใหม่ Old Town", "lotus"),
            Site("London Soho", "lotus", "01:00", "Europe/London"),
            Site("หัวหิน Hua Hin", "lotus", "01:00"),
        ),
    ),
    Brand(
        "หมูกระทะถ่านเกลือ Charcoal & Salt",
        "grill",
        (
            Site("ลาดพร้าว Lat Phrao", "lotus", "02:00"),
            Site("รังสิต Rangsit", "lotus", "02:00"),
            Site("ขอนแก่น Khon Kaen", "charcoal", "03:00"),
            Site("อุดร Udon", "charcoal", "03:00"),
            Site("ศรีราชา Si Racha", "lotus", "02:00"),
            Site("หาดใหญ่ Hat Yai", "lotus", "24:00"),
        ),
    ),
    Brand(
        "บ้านกาแฟฟ้า Blue House Coffee",
        "cafe",
        (
            Site("เอกมัย Ekkamai", "kafae", "20:00"),
            Site("ศาลายา Salaya", "kafae", None),
            Site("สถานีกลาง Central Station", "kafae", "20:00"),
            Site("สนามบิน Airside Kiosk", None, "24:00"),
        ),
    ),
    Brand(
        "เจ๊พลอย ราดหน้า Jae Ploy Noodles", "kitchen", (Site("เยาวราช Yaowarat", None, "02:00", None),), independent=True
    ),
    Brand("The Night Heron นกแขวก", "bar", (Site("ตลาดน้อย Talat Noi", "heron", "02:00"),), independent=True),
    Brand("ข้าวแกงป้าสมมุติ Auntie's Curry", "kitchen", (Site("นนทบุรี Nonthaburi"),), independent=True),
)

SITES = tuple((brand, site) for brand in BRANDS for site in brand.sites)
