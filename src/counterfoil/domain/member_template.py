"""A member's template: the part of a member's published JSON that depends only on the record.

A template has seven pieces. The first, the fifth and the seventh are finished
JSON. The seventh is the personal data, which is left out unless the caller may
read it. The others hold the input for values that are computed when the member
is read: the tier name, the points, the credit, and whether a messaging account
is linked. When a page is split into pieces, every seventh piece is of the same
kind, so each kind is filled in for the whole page at once.
"""

from collections.abc import Callable

from msgspec import Raw, json
from msgspec.structs import replace

from counterfoil.domain.members import Base, Lot, StoredMember, is_current_account, published, rank_name, usable_amount

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


# --- writing ---------------------------------------------------------------


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
    """Return the usable amount over time: an amount, the instant until which it is valid, the next amount, and so on.

    The last entry is the final amount. All instants have the same number of
    digits, so that they can be compared as bytes.
    """
    ends = sorted({lot.expire_at for lot in lots if lot.expire_at is not None and lot.expire_at > 0})
    steps = [b"%b %015d " % (_encode(usable_amount(lots, end - 1)), end) for end in ends]
    return b"".join(steps) + _encode(usable_amount(lots, ends[-1] if ends else 0))


# --- reading ---------------------------------------------------------------


def fill_in(forms: bytes, base: Base | None, now_ms: int, personal_data: bool) -> bytes:
    """Return the JSON of the members as of `now_ms`, separated by commas.

    `forms` has the templates of the members, separated by NEXT.
    """
    if not forms:
        return b""
    count = forms.count(NEXT) + 1
    pieces = forms.replace(NEXT, CUT).split(CUT)
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
        pieces, _CHANNELS, lambda channels: _encode(any(is_current_account(base, one) for one in _channels(channels)))
    )
    if not personal_data:
        pieces[_PERSONAL::PIECES] = [b"}"] * count
    pieces[_HEAD] = pieces[_HEAD][1:]
    return b"".join(pieces)


def _fill_kind(pieces: list[bytes], index: int, render: Callable[[bytes], bytes]) -> None:
    """Fill in one kind of piece. Many members share the same value, so each distinct value is rendered once."""
    stored = pieces[index::PIECES]
    rendered = {one: render(one) for one in set(stored)}
    pieces[index::PIECES] = [rendered[one] for one in stored]


def _amount_at(amounts: bytes, now: bytes) -> bytes:
    amount, _, rest = amounts.partition(b" ")
    while rest and rest[:_INSTANT_DIGITS] <= now:
        amount, _, rest = rest[_INSTANT_DIGITS + 1 :].partition(b" ")
    return amount
