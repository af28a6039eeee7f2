"""Turns a raw member record into a stored member, and a stored member into a published one.

The published member is computed at each read, because expiry depends on the time, the tier name and the store credit
depend on the base, and personal data depends on the caller. `published` defines the result; `fill_in` produces the same
result from prepared pieces. Data that the contract never returns is not stored: visits are reduced to a count and a
day, movements of points and credit to the remaining amounts, and messaging accounts to keyed hashes.
"""

from collections.abc import Callable
from functools import lru_cache

from msgspec import UNSET, Raw, Struct, json
from msgspec.structs import replace

from counterfoil.model import pos_values as pos
from counterfoil.model.calendar import THAI_TIME, iso
from counterfoil.model.pos_values import Record
from counterfoil.model.resources import Coupon, Member, Number


class Tier(Struct, frozen=True, array_like=True, gc=False):
    """A tier of a base. Its level is its position in the list."""

    code: str | None
    name: str | None


class Base(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A membership base, with the settings that its published members depend on."""

    provider_id: str
    tiers: list[Tier] = []
    auto_tiers: bool = False
    credit_enabled: bool = False
    messaging_channel: str | None = None
    older_messaging_channels: list[str] = []


@lru_cache(maxsize=256)
def base_of(stored: bytes | None) -> Base | None:
    """Return a stored base. There are few of them, and every read of members needs one, so they are cached."""
    return None if stored is None else json.decode(stored, type=Base)


class Lot(Struct, frozen=True, array_like=True, gc=False):
    """Points or credit that expire together. They are usable before `expire_at`, or always if it is None."""

    amount: Number
    expire_at: int | None


class Account(Struct, frozen=True, array_like=True, gc=False):
    """A messaging account: the channel it was recorded under, and a keyed hash of its user ID."""

    channel: str | None
    user: str


class StoredMember(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A member as it is stored."""

    token: str
    provider_id: str
    created_at: int | None = None
    created_date: str | None = None
    rank: str | None = None
    rank_level: int | None = None
    points: list[Lot] = []
    credit: list[Lot] = []
    coupons: list[Coupon] = []
    labels: list[str] = []
    persona: list[str] = []
    visit_count: int = 0
    last_visit: str | None = None
    tel: str | None = None
    email: str | None = None
    accounts: list[Account] = []


# --- reading POS records ---------------------------------------------------


def base_from(record: Record) -> Base:
    return Base(
        provider_id=pos.identifier(record, "id"),
        tiers=[
            Tier(pos.ident(tier.get("code")), pos.text(tier.get("name"))) for tier in pos.objects(record.get("tiers"))
        ],
        auto_tiers=pos.flag(record.get("autoTiers")),
        credit_enabled=pos.flag(record.get("creditEnabled")),
        messaging_channel=pos.ident(record.get("messagingChannel")),
        older_messaging_channels=pos.idents(record.get("olderMessagingChannels")),
    )


def member_from(record: Record, token_of: Callable[[str], str], hash_of: Callable[[str], str]) -> StoredMember:
    get = record.get
    provider_id = pos.identifier(record, "providerId")
    created_at = pos.beginning(get("createdAt"), THAI_TIME)
    visit_count, last_visit = _visits(get("visits"))
    return StoredMember(
        token=token_of(pos.identifier(record, "id")),
        provider_id=provider_id,
        created_at=created_at,
        created_date=_iso_thai(created_at),
        rank=pos.text(get("rank")),
        rank_level=read_rank_level(get("rankLevel")),
        points=_lots(get("points")),
        credit=_lots(get("credit")),
        coupons=_coupons(get("coupons"), provider_id),
        labels=pos.texts(get("labels")),
        persona=pos.texts(get("persona")),
        visit_count=visit_count,
        last_visit=last_visit,
        tel=pos.ident(get("tel")),
        email=pos.text(get("email")),
        accounts=_accounts(get("messaging"), hash_of),
    )


def read_rank_level(value: object) -> int | None:
    level = pos.number(value)
    return level if isinstance(level, int) and level >= 0 else None


def _lots(value: object) -> list[Lot]:
    """Return one lot per expiry time, soonest first. Movements are summed, because the API returns only totals."""
    amount = pos.money(value)
    if amount is not None:
        return [Lot(amount, None)] if amount else []
    amounts: dict[int | None, list[Number]] = {}
    for lot in pos.objects(value):
        amounts.setdefault(pos.expiry(lot.get("expireAt"), THAI_TIME), []).append(pos.money(lot.get("amount")) or 0)
    soonest_first = sorted(amounts, key=lambda at: (at is None, at or 0))
    lots = [Lot(pos.total(amounts[at]), at) for at in soonest_first]
    return [lot for lot in lots if lot.amount]


def _coupons(value: object, provider_id: str) -> list[Coupon]:
    """Return the coupons that are not of another base."""
    of_base = [record for record in pos.objects(value) if pos.ident(record.get("providerId")) in (None, provider_id)]
    return [_coupon(record) for record in of_base]


def _coupon(record: Record) -> Coupon:
    status = record.get("status")
    return Coupon(
        code=pos.ident(record.get("code")),
        status=status if status in ("available", "used") else None,
        template_id=pos.ident(record.get("templateId")),
        name=pos.text(record.get("name")),
        expire_at=_iso_thai(pos.expiry(record.get("expireAt"), THAI_TIME)),
    )


def _visits(value: object) -> tuple[int, str | None]:
    """Return the number of visits with a day, and the last of these days."""
    days = []
    for visit in pos.as_list(value):
        moment = visit.get("at") if isinstance(visit, dict) else visit
        day = pos.day(moment, THAI_TIME)
        if day:
            days.append(day)
    last = max(days, default=None)
    return len(days), last.isoformat() if last else None


def _accounts(value: object, hash_of: Callable[[str], str]) -> list[Account]:
    """Return the accounts in their order, each of them once."""
    accounts: dict[Account, None] = {}
    for record in pos.objects(value):
        user_id = pos.text(record.get("userId"))
        if user_id:
            accounts[Account(pos.ident(record.get("channel")), hash_of(user_id))] = None
    return list(accounts)


def _iso_thai(moment: int | None) -> str | None:
    return None if moment is None else iso(moment, THAI_TIME)


# --- publishing ------------------------------------------------------------


def published(record: StoredMember, base: Base | None, now_ms: int, personal_data: bool) -> Member:
    """Return the member as of now. A base that is not loaded yet is treated as having no tiers and no store credit."""
    credit_enabled = base is not None and base.credit_enabled
    return Member(
        member_id=record.token,
        rank=record.rank,
        rank_level=record.rank_level,
        rank_name=rank_name(record.rank, record.rank_level, base),
        points=usable_amount(record.points, now_ms),
        credit=usable_amount(record.credit, now_ms) if credit_enabled else 0,
        credit_enabled=credit_enabled,
        coupons=record.coupons,
        labels=record.labels,
        persona=record.persona,
        created_date=record.created_date,
        visit_count=record.visit_count,
        last_visit=record.last_visit,
        has_tel=record.tel is not None,
        has_email=record.email is not None,
        has_messaging=any(is_current_account(base, account.channel) for account in record.accounts),
        tel=record.tel if personal_data else UNSET,
        email=record.email if personal_data else UNSET,
    )


def is_current_account(base: Base | None, channel: str | None) -> bool:
    """Return whether an account in this channel counts as current.

    It does if the base declares the channel as its current or as an older one. An account without a channel counts as
    current too, and so does every account of a base that has not been loaded yet.
    """
    if channel is None or base is None:
        return True
    return channel == base.messaging_channel or channel in base.older_messaging_channels


def usable_amount(lots: list[Lot], now_ms: int) -> Number:
    usable = [lot.amount for lot in lots if lot.expire_at is None or now_ms < lot.expire_at]
    if not usable:
        return 0
    return max(0, pos.total(usable))


def rank_name(rank: str | None, level: int | None, base: Base | None) -> str | None:
    if base is None:
        return None
    if rank is not None:
        for tier in base.tiers:
            if tier.code == rank:
                return tier.name
    if base.auto_tiers and level is not None and level < len(base.tiers):
        return base.tiers[level].name
    return None


# --- the template of a member: the part of its published JSON that depends only on the record --
#
# A template has seven pieces. The first, the fifth and the seventh are finished JSON. The seventh is the personal
# data, which is left out unless the caller may read it. The others hold the input for values that are computed when
# the member is read: the tier name, the points, the credit, and whether a messaging account is linked. When a page is
# split into pieces, every seventh piece is of the same kind, so each kind is filled in for the whole page at once.


# JSON escapes control characters, so these bytes occur only between two pieces and between two members.
CUT = b"\x1f"
NEXT = b"\x1e"

# Instants are padded to this number of digits, which is enough until the end of the year 9999.
_INSTANT_DIGITS = 15

PIECES = 7
_HEAD, _TIER, _POINTS, _CREDIT, _, _CHANNELS, _PERSONAL = range(PIECES)

_encode = json.Encoder().encode
_tier = json.Decoder(tuple[str | None, int | None]).decode
_channels = json.Decoder(list[str | None]).decode


def template_of(record: StoredMember) -> bytes:
    separator = Raw(CUT)
    member = published(record, None, 0, personal_data=False)
    template = _encode(replace(member, rank_name=separator, credit_enabled=separator, has_messaging=separator))
    head, _, middle, _ = template.split(CUT)
    return CUT.join(
        (
            b"," + head,
            _encode((record.rank, record.rank_level)),
            _amounts_over_time(record.points),
            _amounts_over_time(record.credit),
            middle,
            _encode(list(dict.fromkeys(account.channel for account in record.accounts))),
            b',"tel":%b,"email":%b}' % (_encode(record.tel), _encode(record.email)),
        )
    )


def _amounts_over_time(lots: list[Lot]) -> bytes:
    """Return amounts, each with the instant until which it is valid, then the final one. Instants compare as bytes."""
    ends = sorted({lot.expire_at for lot in lots if lot.expire_at is not None and lot.expire_at > 0})
    steps = []
    for end in ends:
        amount = _encode(usable_amount(lots, end - 1))
        steps.append(b"%b %015d " % (amount, end))
    last_end = ends[-1] if ends else 0
    return b"".join(steps) + _encode(usable_amount(lots, last_end))


def fill_in(templates: bytes, base: Base | None, now_ms: int, personal_data: bool) -> bytes:
    """Return the JSON of the members as of `now_ms`, separated by commas, given their templates, separated by NEXT."""
    if not templates:
        return b""
    count = templates.count(NEXT) + 1
    pieces = templates.replace(NEXT, CUT).split(CUT)
    if len(pieces) != PIECES * count:
        raise ValueError("a member's template has the wrong number of pieces")
    now = b"%015d" % now_ms
    _fill_kind(pieces, _TIER, lambda tier: _encode(rank_name(*_tier(tier), base)))
    pieces[_POINTS::PIECES] = [b',"points":' + _amount_at(amounts, now) for amounts in pieces[_POINTS::PIECES]]
    pieces[_CREDIT::PIECES] = (
        [b',"credit":' + _amount_at(amounts, now) + b',"creditEnabled":true' for amounts in pieces[_CREDIT::PIECES]]
        if base and base.credit_enabled
        else [b',"credit":0,"creditEnabled":false'] * count
    )
    _fill_kind(
        pieces, _CHANNELS, lambda channels: _encode(any(is_current_account(base, name) for name in _channels(channels)))
    )
    if not personal_data:
        pieces[_PERSONAL::PIECES] = [b"}"] * count
    pieces[_HEAD] = pieces[_HEAD][1:]
    return b"".join(pieces)


def _fill_kind(pieces: list[bytes], index: int, render: Callable[[bytes], bytes]) -> None:
    """Fill in one kind of piece. Many members share the same value, so each distinct value is rendered once."""
    stored = pieces[index::PIECES]
    rendered = {value: render(value) for value in set(stored)}
    pieces[index::PIECES] = [rendered[value] for value in stored]


def _amount_at(amounts: bytes, now: bytes) -> bytes:
    amount, _, rest = amounts.partition(b" ")
    while rest and rest[:_INSTANT_DIGITS] <= now:
        amount, _, rest = rest[_INSTANT_DIGITS + 1 :].partition(b" ")
    return amount
