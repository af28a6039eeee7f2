"""A member's answer as it is stored: finished but for what it hangs on besides the record.

A form is seven pieces. The first and the fifth are finished JSON; between and
behind them stands what the rest of the answer is made from when it is read:
the tier, the points and the credit, the channels of the messaging accounts,
the personal data. In a page that is cut into pieces each kind stands at every
seventh place, so a page is filled in kind by kind and not member by member.
"""

from collections.abc import Callable

from msgspec import Raw, json
from msgspec.structs import replace

from counterfoil.domain.members import Base, Lot, MemberRecord, answering, published, rank_name, usable

# JSON escapes control characters, so these stand nowhere but between two pieces, and between two members of a page.
CUT = b"\x1f"
NEXT = b"\x1e"

# Of an instant: as many as the last one of the year 9999 has.
_DIGITS = 15

PIECES = 7
_HEAD, _TIER, _POINTS, _CREDIT, _, _CHANNELS, _PERSONAL = range(PIECES)

_encode = json.Encoder().encode
_record = json.Decoder(MemberRecord).decode
_tier = json.Decoder(tuple[str | None, int | None]).decode
_channels = json.Decoder(list[str | None]).decode


# --- written ---------------------------------------------------------------


def form(record: MemberRecord) -> bytes:
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
    """What is usable as time goes by: an amount, the instant it ends, the next amount, …, what is left for good.

    Instants have the same number of digits, so that they compare as they are.
    """
    ends = sorted({lot.expire_at for lot in lots if lot.expire_at is not None and lot.expire_at > 0})
    steps = [b"%b %015d " % (_encode(usable(lots, end - 1)), end) for end in ends]
    return b"".join(steps) + _encode(usable(lots, ends[-1] if ends else 0))


# --- read ------------------------------------------------------------------


def filled(forms: bytes, base: Base | None, now_ms: int, personal_data: bool) -> bytes:
    """The members as of now, with a comma between them. One that was stored before there were forms is a record."""
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
    """From a form, or else from a record; a form with a piece too few or too many is not read as either."""
    if kept.count(CUT) == PIECES - 1:
        return filled(kept, base, now_ms, personal_data)
    return _encode(published(_record(kept), base, now_ms, personal_data))


def _fill(pieces: list[bytes], place: int, meaning: Callable[[bytes], bytes]) -> None:
    """Members have these in common with many others, so each is looked into once."""
    kept = pieces[place::PIECES]
    meanings = {one: meaning(one) for one in set(kept)}
    pieces[place::PIECES] = [meanings[one] for one in kept]


def _left(course: bytes, now: bytes) -> bytes:
    amount, _, rest = course.partition(b" ")
    while rest and rest[:_DIGITS] <= now:
        amount, _, rest = rest[_DIGITS + 1 :].partition(b" ")
    return amount
