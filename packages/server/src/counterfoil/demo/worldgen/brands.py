"""The membership bases and brands of generated worlds. The order matters: changing it changes the world."""

from collections.abc import Mapping

from msgspec import Struct

from counterfoil.demo.worldgen.plan import opaque
from counterfoil.demo.worldgen.records import RawRecord


class Site(Struct, frozen=True):
    """A branch of a brand, with its own settings."""

    name: str
    base: str | None = None
    closing_time: str = "22:30"
    timezone: str = "Asia/Bangkok"


class Brand(Struct, frozen=True):
    """A brand and its sites. An independent brand is not a franchise."""

    name: str
    cuisine: str
    sites: tuple[Site, ...]
    independent: bool = False


class DemoBase(Struct, frozen=True, kw_only=True):
    """A membership base, with its relative size. Its members are numbered from 0 in the order of sign-up."""

    weight: float
    tiers: tuple[tuple[str, str], ...] = ()
    auto_tiers: bool = False
    credit_enabled: bool = False
    older_channels: int = 0
    numbered_members: bool = False
    # These depend on the plan.
    number: int = 0
    id: str = ""
    members: int = 0

    def channel(self, *age: int) -> str:
        """Return the ID of the messaging channel, or of an older one."""
        return opaque(self.id, "bot", *age)

    def member_id(self, number: int) -> str:
        """Return a member's internal ID in the POS. It is computed from the number, so it need not be stored."""
        return f"{self.number + 1}{number:08}" if self.numbered_members else opaque(self.id, "member", number)

    def record(self) -> RawRecord:
        return {
            "kind": "base",
            "id": self.id,
            "tiers": [{"code": code, "name": name} for code, name in self.tiers],
            "autoTiers": self.auto_tiers,
            "creditEnabled": self.credit_enabled,
            "messagingChannel": self.channel(),
            "olderMessagingChannels": [self.channel(age) for age in range(self.older_channels)],
        }


BASES: Mapping[str, DemoBase] = {
    "lotus": DemoBase(
        weight=5.0,
        tiers=(("member", "สมาชิก Member"), ("silver", "Silver เงิน"), ("gold", "Gold ทอง"), ("black", "Black Lotus")),
        auto_tiers=True,
        credit_enabled=True,
        older_channels=2,
    ),
    "charcoal": DemoBase(weight=2.0, tiers=(("member", "สมาชิก Member"), ("silver", "Silver เงิน"))),
    "kafae": DemoBase(
        weight=4.0,
        tiers=(("bean", "เมล็ด Bean"), ("roast", "คั่ว Roast")),
        auto_tiers=True,
        credit_enabled=True,
        older_channels=1,
    ),
    "heron": DemoBase(weight=1.0, numbered_members=True),
}
# A site without a time zone has none in its record.
BRANDS = (
    Brand(
        "ครัวลำดวน Lamduan Kitchen",
        "kitchen",
        (
            Site("อารีย์ Ari", base="lotus"),
            Site("ท่าเตียน Tha Tien", base="lotus", closing_time="24:00"),
            Site("เชียงใหม่ Old Town", base="lotus"),
            Site("London Soho", base="lotus", closing_time="01:00", timezone="Europe/London"),
            Site("หัวหิน Hua Hin", base="lotus", closing_time="01:00"),
        ),
    ),
    Brand(
        "หมูกระทะถ่านเกลือ Charcoal & Salt",
        "grill",
        (
            Site("ลาดพร้าว Lat Phrao", base="lotus", closing_time="02:00"),
            Site("รังสิต Rangsit", base="lotus", closing_time="02:00"),
            Site("ขอนแก่น Khon Kaen", base="charcoal", closing_time="03:00"),
            Site("อุดร Udon", base="charcoal", closing_time="03:00"),
            Site("ศรีราชา Si Racha", base="lotus", closing_time="02:00"),
            Site("หาดใหญ่ Hat Yai", base="lotus", closing_time="24:00"),
        ),
    ),
    Brand(
        "บ้านกาแฟฟ้า Blue House Coffee",
        "cafe",
        (
            Site("เอกมัย Ekkamai", base="kafae", closing_time="20:00"),
            Site("ศาลายา Salaya", base="kafae", closing_time="20:00"),
            Site("สถานีกลาง Central Station", base="kafae", closing_time="20:00"),
            Site("สนามบิน Airside Kiosk", closing_time="24:00"),
        ),
    ),
    Brand(
        "เจ๊พลอย ราดหน้า Jae Ploy Noodles",
        "kitchen",
        (Site("เยาวราช Yaowarat", closing_time="02:00", timezone=""),),
        independent=True,
    ),
    Brand(
        "The Night Heron นกแขวก",
        "bar",
        (Site("ตลาดน้อย Talat Noi", base="heron", closing_time="02:00"),),
        independent=True,
    ),
    Brand("ข้าวแกงป้าสมมุติ Auntie's Curry", "kitchen", (Site("นนทบุรี Nonthaburi"),), independent=True),
)
SITES = tuple((brand, site) for brand in BRANDS for site in brand.sites)
