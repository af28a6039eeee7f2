"""Find: leads from a request ID, a key, a shop, a bill or a load to its page."""

from urllib.parse import urlencode

from msgspec import Struct

from counterfoil.console.addresses import bill_address, shop_address
from counterfoil.console.visit import ConsolePage, Visit, number_in
from counterfoil.request_reads import RequestFilter
from counterfoil.views.loads import find as find_load

PATH = "/find"
# So many characters of a key ID, such as those in a log, find the key.
FEWEST_OF_KEY_ID = 4


class Match(Struct, frozen=True):
    """Something that was found: what it is, its name, and the address of its page."""

    kind: str
    name: str
    address: str


class FindView(Struct, frozen=True):
    wanted: str
    matches: list[Match]


def read(visit: Visit) -> FindView:
    wanted = visit.query.get("q", "").strip()
    return FindView(wanted, _matches(visit, wanted) if wanted else [])


def _matches(visit: Visit, wanted: str) -> list[Match]:
    reads, text = visit.store.reads, wanted.casefold()
    found = [
        Match("key", f"{label} · {key_id}", f"/keys/{key_id}")
        for key_id, label in visit.store.labels().items()
        if text in label.casefold() or (len(wanted) >= FEWEST_OF_KEY_ID and key_id.startswith(wanted))
    ]
    found += [
        Match("shop", f"{shop.shop_name or '–'} · {shop.shop_id}", shop_address(shop.shop_id))
        for shop in visit.store.shop_names()
        if text in (shop.shop_name or "").casefold() or wanted == shop.shop_id
    ]
    found += [
        Match("bill", f"{wanted} · {stored.shop_id}", bill_address(wanted, stored.shop_id))
        for stored in reads.bill(wanted)
    ]
    number = number_in(wanted, None)
    if number is not None and find_load(reads, number):
        found.append(Match("load", wanted, f"/loads/{number}"))
    if reads.requests(RequestFilter(request_id=wanted), 1).requests:
        found.append(Match("request", wanted, f"/requests?{urlencode({'request': wanted})}"))
    return found


PAGE = ConsolePage(name="find", template="find", read=read)
