"""A copy that is kept up to date from the feed, as described in docs/own-client.md."""

from typing import Any

from msgspec import Struct, field

Json = dict[str, Any]
Identity = tuple[str, str]


class FeedCopy(Struct):
    """A copy of shops and bills. `away` contains the IDs of shops that have left the key's scope."""

    shops: dict[str, Json] = field(default_factory=dict)
    bills: dict[Identity, Json] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)

    def __copy__(self) -> "FeedCopy":
        return FeedCopy(dict(self.shops), dict(self.bills), set(self.away))

    def apply(self, elements: list[Json]) -> None:
        """Apply the elements in the order in which the feed returned them."""
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
        """Return the bills of shops that are still in the key's scope."""
        return {identity: bill for identity, bill in self.bills.items() if identity[0] not in self.away}
