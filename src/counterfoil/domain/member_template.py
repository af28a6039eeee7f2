"""A member's form: the answer as it is stored, finished except for what depends on more than the record.

A form has seven pieces. The first and the fifth are finished JSON. The others
hold what the rest of the answer is made from when it is read: the tier, the
points, the credit, the channels of the messaging accounts, and the personal
data. When a page is split into pieces, each kind of piece is found at every
seventh position, so a page is filled in kind by kind and not member by member.
"""

from collections.abc import Callable

from msgspec import Raw, json
from msgspec.structs import replace

from counterfoil.domain.members import Base, Lot, StoredMember, answering, published, rank_name, usable

# JSON escapes control characters, so these bytes occur only between two pieces and between two members of a page.
CUT = b"\x1f"
NEXT = b"\x1e"

# The number of digits of the last instant of the year 9999; instants are padded to it.
_DIGITS = 15

PIECES = 7
_HEAD, _TIER, _POINTS, _CREDIT, _, _CHANNELS, _PERSONAL = range(PIECES)

_encode = json.Encoder().encode
_record = json.Decoder(StoredMember).decode
_tier = json.Decoder(tuple[str | None, int | None]).decode
_channels = json.Decoder(list[str | None]).decode


# --- writing ---------------------------------------------------------------


def template_of(record: StoredMember) -> bytes:
    gap = Raw(CUT)
    member = published(record, None, 0, personal_data=False)
    gapped = _encode(replace(member, rank_name=gap, credit_enabled=gap, has_messaging=gap))
    head, _, middle, _ = gapped.split(CUT)
    return CUT.join(
        (
            b"," + head,
            _encode((record.rank, record.rank_level)),
            _course(record.points),
            _course(record.credit),
            middle,
            _encode(list(dict.fromkeys(account.channel for account in record.accounts))),
            b',"tel":%b,"email":%b}' % (_encode(record.tel), _encode(record.email)),
        )
    )


def _course(lots: list[Lot]) -> bytes:
    """Return the usable amount over time: an amount, the instant it ends, the next amount, …, the final amount.

    All instants have the same number of digits, so that they can be compared as bytes.
    """
    ends = sorted({lot.expire_at for lot in lots if lot.expire_at is not None and lot.expire_at > 0})
    steps = [b"%b %015d " % (_encode(usable(lots, end - 1)), end) for end in ends]
    return b"".join(steps) + _encode(usable(lots, ends[-1] if ends else 0))


# --- reading ---------------------------------------------------------------


def fill_in(forms: bytes, base: Base | None, now_ms: int, personal_data: bool) -> bytes:
    """Return the members as of now, separated by commas. A member stored before forms existed is a record."""
    if not forms:
        return b""
    count = forms.count(NEXT) + 1
    pieces = forms.replace(NEXT, CUT).split(CUT)
    if len(pieces) != PIECES * count:
        return b",".join([_filled_alone(one, base, now_ms, personal_data) for one in forms.split(NEXT)])
    now = b"%015d" % now_ms
    _fill(pieces, _TIER, lambda tier: _encode(rank_name(*_tier(tier), base)))
    pieces[_POINTS::PIECES] = [b',"points":' + _left(course, now) for course in pieces[_POINTS::PIECES]]
    pieces[_CREDIT::PIECES] = (
        [b',"credit":' + _left(course, now) + b',"creditEnabled":true' for course in pieces[_CREDIT::PIECES]]
        if base and base.credit_enabled
        else [b',"credit":0,"creditEnabled":false'] * count
    )
    _fill(pieces, _CHANNELS, lambda channels: _encode(any(answering(base, one) for one in _channels(channels))))
    if not personal_data:
        pieces[_PERSONAL::PIECES] = [b"}"] * count
    pieces[_HEAD] = pieces[_HEAD][1:]
    return b"".join(pieces)


def _filled_alone(kept: bytes, base: Base | None, now_ms: int, personal_data: bool) -> bytes:
    """Fill in one member from a form or a record. A form with the wrong number of pieces raises an error."""
    if kept.count(CUT) == PIECES - 1:
        return fill_in(kept, base, now_ms, personal_data)
    return _encode(published(_record(kept), base, now_ms, personal_data))


def _fill(pieces: list[bytes], place: int, meaning: Callable[[bytes], bytes]) -> None:
    """Fill in one kind of piece. Many members share the same value, so each distinct value is computed once."""
    kept = pieces[place::PIECES]
    meanings = {one: meaning(one) for one in set(kept)}
    pieces[place::PIECES] = [meanings[one] for one in kept]


def _left(course: bytes, now: bytes) -> bytes:
    amount, _, rest = course.partition(b" ")
    while rest and rest[:_DIGITS] <= now:
        amount, _, rest = rest[_DIGITS + 1 :].partition(b" ")
    return amount
