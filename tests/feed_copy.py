"""A client that keeps a copy by the feed of changes, as docs/sync.md tells it to."""

from typing import Any

from msgspec import Struct, field

Json = dict[str, Any]
Identity = tuple[str, str]


class FeedCopy(Struct):
    """The shops that are listed, the bills, and the shops that the key could no longer read when it last heard."""

    shops: dict[str, Json] = field(default_factory=dict)
    bills: dict[Identity, Json] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)

    def __copy__(self) -> "FeedCopy":
        return FeedCopy(dict(self.shops), dict(self.bills), set(self.away))

    def apply(self, elements: list[Json]) -> None:
        """Apply elements in the order in which they came."""
        for element in elements:
            shop_id = element["shopId"]
            if element.get("full"):
                self.bills = {identity: bill for identity, bill in self.bills.items() if identity[0] != shop_id}
            match element["type"]:
                case "shop":
                    self.shops[shop_id] = element["shop"]
                    self.away.discard(shop_id)
                case "shopRemoved":
                    self.shops.pop(shop_id, None)
                    if not element["inScope"]:
                        self.away.add(shop_id)
                case "bill":
                    self.bills[shop_id, element["bill"]["id"]] = element["bill"]
                case "billRemoved":
                    self.bills.pop((shop_id, element["id"]), None)

    def readable_bills(self) -> dict[Identity, Json]:
        """Return the bills of the shops that the key can read."""
        return {identity: bill for identity, bill in self.bills.items() if identity[0] not in self.away}
