"""Simulated POS data: strategies that generate records, and the current records of the POS."""

from collections.abc import Iterable
from datetime import date
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Json = dict[str, Any]
Identity = tuple[str, str]

SHOPS = ("s0", "s1", "s2")
# Shops that move between two franchises. Only readers of the feed have keys for these franchises.
WANDERERS = ("w0", "w1")
WANDERED = ("g", "h")
BASES = ("p0", "p1")
DAYS = ("2025-11-03", "2025-12-01", "2025-12-02", "2025-12-31", "2026-01-01", "2026-01-05")
PERIOD = (date(2025, 11, 1), date(2026, 2, 1))
ZONES = ("Asia/Bangkok", "Asia/Tokyo", None)
CLOSING_TIMES = ("02:00", "05:30", None)


def shop_drawn(shop_id: str) -> SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {
            "kind": st.just("shop"),
            "id": st.just(shop_id),
            "franchiseId": st.just("f"),
            "name": st.sampled_from(["Riverside", "สาขา 2"]),
            "timezone": st.sampled_from(ZONES),
            "closingTime": st.sampled_from(CLOSING_TIMES),
            "providerId": st.sampled_from([*BASES, None]),
            "categories": st.sampled_from([[], [{"id": "c1", "name": "Soups"}, {"id": "c2", "parentId": "c1"}]]),
        }
    )


def wanderer_drawn() -> SearchStrategy[Json]:
    return st.builds(
        lambda shop, franchise_id: {**shop, "franchiseId": franchise_id},
        st.sampled_from(WANDERERS).flatmap(shop_drawn),
        st.sampled_from([*WANDERED, None]),
    )


def bills_drawn(least: int = 1, most: int = 5) -> SearchStrategy[list[Json]]:
    return st.lists(_bill, min_size=least, max_size=most)


def members_drawn() -> SearchStrategy[list[Json]]:
    return st.lists(_member, min_size=1, max_size=4)


_closed_at = st.one_of(
    st.none(), st.builds("{}T{}:30:00+07:00".format, st.sampled_from(DAYS), st.sampled_from(["00", "03", "12"]))
)
_bill = st.fixed_dictionaries(
    {
        "kind": st.just("bill"),
        "shopId": st.sampled_from(SHOPS[:2] + SHOPS),
        "id": st.sampled_from([f"b{number}" for number in range(9)]),
        "closedAt": _closed_at,
        "history": st.sampled_from([False, False, False, True]),
        "cashier": st.sampled_from(["Nok", "Ying"]),
        "amounts": st.sampled_from([{"net": 120}, {"net": 99.5, "campaigns": [{"id": "x", "amount": 1}]}]),
        "lines": st.sampled_from([[], [{"productId": "p", "qty": 2, "options": [{"id": "o"}]}, {"total": 0.3}]]),
        "payments": st.sampled_from([[], [{"name": "Cash", "amount": 120}]]),
        "memberId": st.sampled_from([None, "m1"]),
        "void": st.sampled_from([False, False, {"reason": "mistake"}]),
    }
)
_member = st.fixed_dictionaries(
    {
        "kind": st.just("member"),
        "id": st.sampled_from([f"m{number}" for number in range(6)]),
        "providerId": st.sampled_from(BASES),
        "createdAt": st.sampled_from(["2025-03-01T10:00:00Z", "2025-03-02T10:00:00Z", None]),
        "points": st.sampled_from([5, [{"amount": 7, "expireAt": "2026-01-03T00:00:00Z"}]]),
        "coupons": st.sampled_from([[], [{"code": "c1", "status": "used"}, {"code": "c2"}]]),
        "labels": st.sampled_from([[], ["vip"]]),
    }
)


class SourceData:
    """The current records, and the bills that need special treatment in comparisons."""

    def __init__(self) -> None:
        self.shops: dict[str, Json] = {}
        self.bills: dict[Identity, Json] = {}
        self.members: dict[str, Json] = {}
        self.once_removed: set[Identity] = set()
        self.imported: dict[Identity, int] = {}

    def taken(self, records: Iterable[Json], number: int) -> list[Json]:
        """Apply the records of load `number` to this state; return the records that the service must load."""
        return [record for record in records if self._take(dict(record), number)]

    def _take(self, record: Json, number: int) -> bool:
        match record["kind"]:
            case "shop":
                return self._take_shop(record)
            case "member":
                self.members.pop(record["id"], None)
                if not record.get("removed"):
                    self.members[record["id"]] = record
                return True
            case _:
                return self._take_bill(record, number)

    def _take_shop(self, record: Json) -> bool:
        if not record.get("removed"):
            self.shops[record["id"]] = record
        elif record["id"] in self.shops:
            self.shops[record["id"]] = {**self.shops[record["id"]], "gone": True}
        return True

    def _take_bill(self, record: Json, number: int) -> bool:
        identity = record["shopId"], record["id"]
        if record["shopId"] not in self.shops:
            return False
        if record.get("removed"):
            self.bills.pop(identity, None)
            self.once_removed.add(identity)
            return True
        if record["history"] and identity in self.once_removed:
            # If a removed bill came back as history, the list by change would not show it, so the tests do not load
            # such bills.
            return False
        if record["history"] and identity not in self.bills:
            self.imported[identity] = number
        self.bills[identity] = record
        return True

    def removal_of_bill(self, choice: int) -> Json:
        shop_id, bill_id = sorted(self.bills)[choice % len(self.bills)]
        return {"kind": "bill", "shopId": shop_id, "id": bill_id, "removed": True}

    def everything(self) -> list[Json]:
        """Return every current record, and then the removals of removed shops."""
        shops = [shop for shop in self.shops.values() if not shop.get("gone")]
        removed = [
            {"kind": "shop", "id": shop["id"], "removed": True} for shop in self.shops.values() if shop.get("gone")
        ]
        return [*shops, *self.members.values(), *self.bills.values(), *removed]

    def compare_bills(
        self, held: dict[Identity, Json], served: dict[Identity, Json], shops: set[str], begun: dict[str, int]
    ) -> None:
        """Compare a copy with the service, ignoring differences that the list by change does not show.

        Such differences are bills that the POS removed, and bills imported as
        history after the copy had begun to read their shop.
        """
        held = {identity: bill for identity, bill in held.items() if identity[0] in shops}
        for identity in held.keys() - served.keys():
            assert identity in self.once_removed or identity in self.imported, f"{identity} is only in the copy"
            assert identity not in self.bills or self._is_hidden(identity), f"{identity} exists, but no list shows it"
        for identity, bill in served.items():
            if identity in held:
                assert held[identity] == bill, identity
            else:
                late = self.imported.get(identity, -1) >= begun.get(identity[0], 0)
                assert bill["updatedAt"] is None, f"{identity} is missing from the copy"
                assert late, f"{identity} is older than the copy, but missing from it"

    def _is_hidden(self, identity: Identity) -> bool:
        """Return whether the bill is in none of the lists, because it is history without a date."""
        bill = self.bills[identity]
        return bill["history"] and bill["closedAt"] is None
