"""Plans the franchises, shops and membership bases of a world."""

from typing import NamedTuple

from msgspec import Struct

from counterfoil.demo.worldgen.plan import WorldPlan, apportion, messaging_user_id, opaque

# --- brands, their sites and membership bases, all fictitious ---------------


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


FIRST_DOUBLE = 5
DOUBLE_EVERY = 29


class ShopPlan(Struct, frozen=True, kw_only=True):
    """A shop, with its franchise and membership base."""

    number: int
    id: str
    name: str
    franchise_id: str | None
    provider_id: str | None
    timezone: str | None
    closing_time: str | None
    cuisine: str


class BasePlan(Struct, frozen=True, kw_only=True):
    """A membership base. Members are numbered from 0 in the order of sign-up."""

    number: int
    id: str
    style: BaseStyle
    members: int
    channel: str
    older_channels: tuple[str, ...]
    franchise_ids: tuple[str, ...]


class Franchise(Struct, frozen=True, kw_only=True):
    """A franchise, with its shops and all bases that they use."""

    id: str
    name: str
    shop_ids: tuple[str, ...]
    provider_ids: tuple[str, ...]


class Sample(Struct, frozen=True, kw_only=True):
    """A messaging account that a lookup in the base finds, and the member that the lookup must return."""

    provider_id: str
    messaging_user_id: str
    member_id: str


class Group(Struct, frozen=True, kw_only=True):
    """All franchises, shops and bases, in the order in which they are generated.

    A property is None if the world has no such object.
    """

    franchises: tuple[Franchise, ...]
    shops: tuple[ShopPlan, ...]
    bases: tuple[BasePlan, ...]
    sample: Sample | None

    @property
    def shared_base(self) -> BasePlan | None:
        """A base that two franchises share."""
        return next((base for base in self.bases if len(base.franchise_ids) > 1), None)

    @property
    def franchise_sharing_a_base(self) -> Franchise | None:
        shared = self.shared_base
        return next(
            (franchise for franchise in self.franchises if shared and shared.id in franchise.provider_ids), None
        )

    @property
    def franchise_with_two_bases(self) -> Franchise | None:
        return next((franchise for franchise in self.franchises if len(franchise.provider_ids) > 1), None)

    @property
    def independent_shop(self) -> ShopPlan | None:
        return next((shop for shop in self.shops if shop.franchise_id is None), None)

    @property
    def shop_without_base(self) -> ShopPlan | None:
        return next((shop for shop in self.shops if shop.provider_id is None), None)

    @property
    def shop_abroad(self) -> ShopPlan | None:
        return next((shop for shop in self.shops if shop.timezone not in (None, "Asia/Bangkok")), None)

    def base(self, provider_id: str | None) -> BasePlan | None:
        return next((base for base in self.bases if base.id == provider_id), None)


def plan_group(plan: WorldPlan) -> Group:
    shops = tuple(_shop(plan, number) for number in range(plan.shops))
    bases = _bases(plan, shops)
    return Group(franchises=_franchises(shops), shops=shops, bases=bases, sample=_sample(plan, bases))


def member_id(base: BasePlan, number: int) -> str:
    """Return a member's internal ID in the POS. It is computed from the number, so it need not be stored."""
    if base.style.numbered_members:
        return f"{base.number + 1}{number:08}"
    return opaque(base.id, "member", number)


def person(number: int) -> int:
    """Return the number of the person behind a member record. Some people have two consecutive records."""
    return number - 1 if is_double(number) else number


def is_double(number: int) -> bool:
    return number % DOUBLE_EVERY == FIRST_DOUBLE


def _shop(plan: WorldPlan, number: int) -> ShopPlan:
    brand, site, repetition = _site_of(number)
    return ShopPlan(
        number=number,
        id=opaque(plan.seed, "shop", number),
        name=f"{_brand_name(brand, repetition)} · {site.name}",
        franchise_id=None if brand.independent else _franchise_id(plan, brand, repetition),
        provider_id=site.base and _provider_id(plan, site.base, repetition),
        timezone=site.timezone,
        closing_time=site.closing_time,
        cuisine=brand.cuisine,
    )


def _site_of(number: int) -> tuple[Brand, Site, int]:
    """Return the brand and the site of a shop, and the number of the repetition, starting at 0.

    A large world repeats the group, with new franchises and bases each time.
    """
    repetition, index = divmod(number, len(SITES))
    return *SITES[index], repetition


def _brand_name(brand: Brand, repetition: int) -> str:
    return brand.name if repetition == 0 else f"{brand.name} {repetition + 1}"


def _franchise_id(plan: WorldPlan, brand: Brand, repetition: int) -> str:
    return opaque(plan.seed, "franchise", brand.name, repetition)


def _provider_id(plan: WorldPlan, key: str, repetition: int) -> str:
    return opaque(plan.seed, "base", key, repetition)


def _franchises(shops: tuple[ShopPlan, ...]) -> tuple[Franchise, ...]:
    branches: dict[str, list[ShopPlan]] = {}
    names: dict[str, str] = {}
    for shop in shops:
        if shop.franchise_id is not None:
            brand, _, repetition = _site_of(shop.number)
            names[shop.franchise_id] = _brand_name(brand, repetition)
            branches.setdefault(shop.franchise_id, []).append(shop)
    return tuple(
        Franchise(
            id=id_,
            name=names[id_],
            shop_ids=tuple(shop.id for shop in own),
            provider_ids=tuple(dict.fromkeys(shop.provider_id for shop in own if shop.provider_id)),
        )
        for id_, own in branches.items()
    )


def _bases(plan: WorldPlan, shops: tuple[ShopPlan, ...]) -> tuple[BasePlan, ...]:
    styles: dict[str, BaseStyle] = {}
    users: dict[str, dict[str, None]] = {}
    for shop in shops:
        _, site, _ = _site_of(shop.number)
        if site.base and shop.provider_id:
            styles[shop.provider_id] = BASES[site.base]
            franchises = users.setdefault(shop.provider_id, {})
            if shop.franchise_id:
                franchises[shop.franchise_id] = None
    if not styles:
        return ()
    sizes = apportion(plan.members, [style.weight for style in styles.values()])
    return tuple(
        _base(number, id_, size, styles[id_], tuple(users[id_]))
        for number, (id_, size) in enumerate(zip(styles, sizes, strict=True))
    )


def _base(number: int, id_: str, size: int, style: BaseStyle, franchise_ids: tuple[str, ...]) -> BasePlan:
    return BasePlan(
        number=number,
        id=id_,
        style=style,
        members=size,
        channel=opaque(id_, "bot"),
        older_channels=tuple(opaque(id_, "bot", age) for age in range(style.older_channels)),
        franchise_ids=franchise_ids,
    )


def _sample(plan: WorldPlan, bases: tuple[BasePlan, ...]) -> Sample | None:
    """Return a member to look up, preferably a person's second record, which is the one that a lookup must return."""
    base = max(bases, key=lambda base: base.members, default=None)
    if base is None or base.members == 0:
        return None
    number = FIRST_DOUBLE if base.members > FIRST_DOUBLE else 0
    return Sample(
        provider_id=base.id,
        messaging_user_id=messaging_user_id(plan.seed, base.channel, person(number)),
        member_id=member_id(base, number),
    )
