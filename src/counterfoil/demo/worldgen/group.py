"""Plans the franchises, shops and membership bases of a world."""

from pathlib import Path

from msgspec import Struct, toml

from counterfoil.demo.worldgen.plan import WorldPlan, apportion, messaging_user_id, opaque

# --- the contents of world.toml ---------------------------------------------


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


class BaseStyle(Struct, frozen=True):
    """The relative size and the settings of a membership base."""

    weight: float
    tiers: tuple[tuple[str, str], ...] = ()
    auto_tiers: bool = False
    credit_enabled: bool = False
    older_channels: int = 0
    numbered_members: bool = False


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


class GroupData(Struct, frozen=True):
    """The brands of the group, and what they sell: shelves, dishes and buffet packages by cuisine."""

    bases: dict[str, BaseStyle]
    brands: tuple[Brand, ...]
    shelves: dict[str, tuple[Shelf, ...]]
    choices: dict[str, tuple[tuple[str, int], ...]]
    dishes: dict[str, tuple[Dish, ...]]
    buffets: dict[str, tuple[Dish, ...]]


DATA = toml.decode((Path(__file__).parent / "world.toml").read_bytes(), type=GroupData)
SITES = tuple((brand, site) for brand in DATA.brands for site in brand.sites)


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


class Franchise(Struct, frozen=True, kw_only=True):
    """A franchise, with its shops and all bases that they use."""

    id: str
    shop_ids: tuple[str, ...]
    provider_ids: tuple[str, ...]


class Sample(Struct, frozen=True, kw_only=True):
    """A messaging account that a lookup in the base finds, and the member that the lookup must return."""

    provider_id: str
    messaging_user_id: str
    member_id: str


class Group(Struct, frozen=True, kw_only=True):
    """All franchises, shops and bases, in the order in which they are generated."""

    franchises: tuple[Franchise, ...]
    shops: tuple[ShopPlan, ...]
    bases: tuple[BasePlan, ...]
    sample: Sample | None

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
    # A large world repeats the group, with new franchises and bases.
    repetition, index = divmod(number, len(SITES))
    brand, site = SITES[index]
    brand_name = f"{brand.name} {repetition + 1}" if repetition else brand.name
    return ShopPlan(
        number=number,
        id=opaque(plan.seed, "shop", number),
        name=f"{brand_name} · {site.name}",
        franchise_id=None if brand.independent else opaque(plan.seed, "franchise", brand.name, repetition),
        provider_id=site.base and opaque(plan.seed, "base", site.base, repetition),
        timezone=site.timezone or None,
        closing_time=site.closing_time or None,
        cuisine=brand.cuisine,
    )


def _franchises(shops: tuple[ShopPlan, ...]) -> tuple[Franchise, ...]:
    branches: dict[str, list[ShopPlan]] = {}
    for shop in shops:
        if shop.franchise_id is not None:
            branches.setdefault(shop.franchise_id, []).append(shop)
    return tuple(
        Franchise(
            id=id_,
            shop_ids=tuple(shop.id for shop in own),
            provider_ids=tuple(dict.fromkeys(shop.provider_id for shop in own if shop.provider_id)),
        )
        for id_, own in branches.items()
    )


def _bases(plan: WorldPlan, shops: tuple[ShopPlan, ...]) -> tuple[BasePlan, ...]:
    styles: dict[str, BaseStyle] = {}
    for shop in shops:
        base = SITES[shop.number % len(SITES)][1].base
        if base and shop.provider_id:
            styles[shop.provider_id] = DATA.bases[base]
    sizes = apportion(plan.members, [style.weight for style in styles.values()]) if styles else []
    return tuple(
        BasePlan(
            number=number,
            id=id_,
            style=style,
            members=size,
            channel=opaque(id_, "bot"),
            older_channels=tuple(opaque(id_, "bot", age) for age in range(style.older_channels)),
        )
        for number, ((id_, style), size) in enumerate(zip(styles.items(), sizes, strict=True))
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
