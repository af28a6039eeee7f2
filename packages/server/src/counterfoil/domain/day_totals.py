"""The totals of a shop's bills on one day, which a client uses to check that its copy is complete.

The hash is the sum, over all bills, of the first 15 hexadecimal digits of the MD5 digest of `id|milliseconds`, where
`milliseconds` is `updatedAt` in milliseconds since 1970 UTC, or empty if it is null. It does not depend on the order of
the bills, and every warehouse can compute it in plain SQL. docs/own-client.md has the SQL.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from hashlib import md5
from typing import Any

from msgspec import Struct, json

from counterfoil.domain.changes import NO_DAY
from counterfoil.model.calendar import date_of, iso_utc

HASH_DIGITS = 15
# A page computes the totals of at most this many stale days, and then ends early.
MAX_COMPUTED_DAYS = 31


class _TotalledAmounts(Struct):
    net: Decimal | None = None
    tip: Decimal | None = None


class _TotalledFields(Struct):
    id: str
    status: str
    amounts: _TotalledAmounts


_decode = json.Decoder(_TotalledFields).decode


class DayTotal(Struct, frozen=True):
    """The totals of one day, with decimal strings. `latest` is the latest `updatedAt` in milliseconds since 1970.

    `net` and `tip` include voided bills, as digests do. `void_net` is the part of the net that is theirs.
    """

    bills: int
    voids: int
    net: str
    tip: str
    latest: int | None
    hash: str
    void_net: str = "0"


class ShopDay(Struct, frozen=True, order=True):
    """A position in the list of digests. The day is 0 for bills without a date; -1 comes before all days of a shop."""

    shop_id: str
    day: int = -1


class DigestPage(Struct, frozen=True):
    """A page of digests, encoded as JSON. `last` is the position of the last digest, or None on the last page."""

    elements: list[bytes]
    last: ShopDay | None


def day_total(bills: Iterable[tuple[int | None, bytes]]) -> DayTotal:
    """Return the totals of a day's bills, each given by its `updatedAt` in milliseconds and its JSON."""
    count = voids = hashed = 0
    net = tip = void_net = Decimal(0)
    latest: int | None = None
    for updated_at, body in bills:
        bill = _decode(body)
        count += 1
        voids += bill.status == "void"
        net += bill.amounts.net or 0
        if bill.status == "void":
            void_net += bill.amounts.net or 0
        tip += bill.amounts.tip or 0
        hashed += hash_of(bill.id, updated_at)
        if updated_at is not None:
            latest = updated_at if latest is None else max(latest, updated_at)
    return DayTotal(count, voids, _plain(net), _plain(tip), latest, str(hashed), _plain(void_net))


# A row of the store: the shop's ID, the day, the shop's number, whether the total is stale, and the stored total.
StoredDay = tuple[Any, ...]


def days_to_compute(rows: Iterable[StoredDay]) -> list[tuple[int, int]]:
    """Return the shop's number and the day of the stale totals that a page computes."""
    return [(number, day) for _, day, number, stale, *_ in rows if stale][:MAX_COMPUTED_DAYS]


def page_of_digests(
    rows: Sequence[StoredDay], computed: Mapping[tuple[int, int], DayTotal], start: ShopDay, limit: int
) -> DigestPage:
    """Return the page that follows `start`. It ends before a stale total that was not computed."""
    elements: list[bytes] = []
    for shop_id, day, number, stale, *stored in rows:
        if stale and (number, day) not in computed:
            return DigestPage(elements, start)
        total = computed[number, day] if stale else DayTotal(*stored)
        start = ShopDay(shop_id, day)
        if total.bills:
            elements.append(element(start, total))
    return DigestPage(elements, start if len(rows) == limit else None)


def hash_of(bill_id: str, updated_at: int | None) -> int:
    """Return the number that a bill adds to the hash of its day."""
    text = f"{bill_id}|{'' if updated_at is None else updated_at}"
    return int(md5(text.encode(), usedforsecurity=False).hexdigest()[:HASH_DIGITS], 16)


def element(at: ShopDay, total: DayTotal) -> bytes:
    """Return the JSON of a digest."""
    return b'{"shopId":%b,"day":%b,"bills":%d,"voids":%d,"net":%b,"tip":%b,"latestUpdatedAt":%b,"hash":"%b"}' % (
        json.encode(at.shop_id),
        json.encode(None if at.day == NO_DAY else date_of(at.day).isoformat()),
        total.bills,
        total.voids,
        total.net.encode(),
        total.tip.encode(),
        json.encode(None if total.latest is None else iso_utc(total.latest)),
        total.hash.encode(),
    )


def _plain(amount: Decimal) -> str:
    """Return the amount without an exponent, and without trailing zeros after the decimal point."""
    text = f"{amount:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
