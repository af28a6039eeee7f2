"""An invented restaurant group as source records, and the data that each key may read, computed from the records alone.

All records except removals contain canaries: unique markers in fields that are
returned only with permission, or never.
Bills, members and shops have labels by which they are recognised in responses.
"""

from collections import Counter
from random import Random
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field

Record = dict[str, Any]

# IDs that are awkward in a URL, in SQL or in a file name. A POS may use such IDs.
ODD_IDS = (
    "a/b",
    "a b",
    "50%",
    "%2F",
    "'; --",
    "ก-ข",
    "..",
    "a?b=c&d",
    "m1_not-a-token",
    "lookup",
    '"',
    "a\\b",
    "+",
    "a;b",
)
NEVER_ON_SHOPS = ("address", "phone", "taxId", "manager", "openingHours", "staff", "devices", "credentials", "stock")
NEVER_ON_BILLS = (
    *("customerName", "customerPhone", "customerAddress", "receiptNote", "slipUrl", "shiftId"),
    "gatewayReference",
    "accountingStatus",
    "editedBy",
    "unknownField",
)
NEVER_ON_LINES = ("cost", "recipe", "kitchenNote")
NEVER_ON_PAYMENTS = ("cardNumber", "cardHolder", "reference")
# Bills that some lists never return, keyed by the end of their ID. Lists by day leave out bills without a date, and
# lists by change leave out bills from before change tracking. The first load has one bill of each kind for every shop.
IRREGULAR: dict[str, Record] = {
    "untracked": {"history": True},
    "undated": {"closedAt": None},
    "undated-untracked": {"closedAt": None, "history": True},
}
NET = 120
NEVER_ON_MEMBERS = ("name", "nickname", "birthday", "gender", "photo", "address", "notes", "savedCard", "promotions")


class Canaries:
    """Creates unique markers, and records the kind of field that each marker is used in."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - markers, not secrets
        self.kinds: dict[str, str] = {}

    def mark(self, kind: str) -> str:
        return self._kept(f"cnry{self._random.getrandbits(64):016x}", kind)

    def tel(self) -> str:
        return self._kept(f"066699{self._random.randrange(10**9):09}", "tel")

    def email(self) -> str:
        return self._kept(f"mail-cnr-{self._random.getrandbits(64):016x}@example.com", "email")

    def messaging_id(self) -> str:
        return self._kept(f"Ucacafe{self._random.getrandbits(104):026x}", "messaging id")

    def member_id(self) -> str:
        return self._kept(f"idcnr-{self._random.getrandbits(64):016x}", "member id")

    def add(self, text: str, kind: str) -> str:
        return self._kept(text, kind)

    def _kept(self, text: str, kind: str) -> str:
        self.kinds[text] = kind
        return text


class KeySpec(Struct, frozen=True):
    """The scope and permissions that a key is issued with."""

    kind: str
    scope_id: str
    lookup: bool = False
    personal: bool = False


class Expected(Struct, frozen=True):
    """The response that the records require.

    `rows` are the labels of shops, bills or members, or descriptions of feed elements or digests, in any order.
    """

    status: int
    error: str | None = None
    rows: frozenset[str] = field(default_factory=frozenset)


class World:
    """Source records in loading order, and the state after both loads."""

    def __init__(self, seed: int = 1, franchises: int = 3, shops: int = 3, bills: int = 6, members: int = 6) -> None:
        self.random = Random(seed)  # noqa: S311 - invented data
        self.canaries = Canaries(seed)
        self.shops: dict[str, Record] = {}
        self.removed_shops: set[str] = set()
        self.bills: dict[tuple[str, str], Record] = {}
        self.members: dict[str, Record] = {}
        self.removed_bills: list[tuple[str, str]] = []
        self.removed_members: list[str] = []
        # The state that only the change feed depends on: the franchise of each shop after the first load, and the bills
        # that the second load adds or changes.
        self.first_franchises: dict[str, str | None] = {}
        self.changed_bills: set[tuple[str, str]] = set()
        self.first: list[Record] = []
        self.later: list[Record] = []
        for franchise in range(franchises):
            for number in range(shops):
                self._open_shop(f"fr-{franchise}", f"sh-{franchise}-{number}", self._base_of(franchise, number))
        self._open_shop(None, "sh-alone", "mb-alone")
        self._open_shop(None, "sh-without-members", None)
        for base in sorted({str(shop["providerId"]) for shop in self.shops.values() if shop["providerId"]}):
            self._open_base(base, members)
        for place, shop_id in enumerate(list(self.shops)):
            self._sell(shop_id, bills, place)
        self._move_and_remove()
        self._index()

    def _index(self) -> None:
        """Group the final records by the IDs that requests contain."""
        self._bills_by_id: dict[str, list[tuple[str, Record]]] = {}
        self._bills_of: dict[str, list[Record]] = {}
        for (shop_id, bill_id), bill in self.bills.items():
            self._bills_by_id.setdefault(bill_id, []).append((shop_id, bill))
            self._bills_of.setdefault(shop_id, []).append(bill)
        self._members_of: dict[str, list[Record]] = {}
        self._holders: dict[tuple[str, str], list[Record]] = {}
        for member in self.members.values():
            base = str(member["providerId"])
            self._members_of.setdefault(base, []).append(member)
            self._holders.setdefault((base, member["messaging"][0]["userId"]), []).append(member)
        self._shops_of: dict[str, list[str]] = {}
        for shop_id, shop in self.shops.items():
            if shop_id not in self.removed_shops:
                self._shops_of.setdefault(str(shop["providerId"]), []).append(shop_id)

    @staticmethod
    def _base_of(franchise: int, number: int) -> str:
        """Return the ID of a shop's base. The second shops of all franchises share one base."""
        return "mb-shared" if number == 1 else f"mb-{franchise}"

    def _marked(self, fields: tuple[str, ...], what: str) -> Record:
        return {name: self.canaries.mark(f"{what} {name}") for name in fields}

    def _open_shop(self, franchise: str | None, shop_id: str, provider_id: str | None) -> None:
        record = {
            "kind": "shop",
            "id": shop_id,
            "name": f"label of {shop_id}",
            "franchiseId": franchise,
            "providerId": provider_id,
            "timezone": "Asia/Bangkok",
            "closingTime": "02:00",
            **self._marked(NEVER_ON_SHOPS, "shop"),
        }
        self.shops[shop_id] = record
        self.first_franchises[shop_id] = franchise
        self.first.append(record)

    def _open_base(self, base: str, members: int) -> None:
        self.first.append(
            {
                "kind": "base",
                "id": base,
                "tiers": [{"code": "gold", "name": "Gold"}],
                "creditEnabled": True,
                "messagingChannel": "now",
                "olderMessagingChannels": ["before"],
                "botToken": self.canaries.mark("base botToken"),
            }
        )
        for number in range(members):
            self._enrol(base, number)

    def _enrol(self, base: str, number: int, user_id: str | None = None) -> Record:
        member_id = self.canaries.member_id()
        record = {
            "kind": "member",
            "id": member_id,
            "providerId": base,
            "createdAt": f"2025-03-{number % 28 + 1:02}T10:{number // 28 % 60:02}:00+07:00",
            "labels": [f"label of {base} {number}"],
            "rank": "gold",
            "points": [{"amount": 10, "reason": self.canaries.mark("member points reason")}],
            "visits": [{"at": "2025-12-01", "table": self.canaries.mark("member visit table")}],
            "tel": self.canaries.tel(),
            "email": self.canaries.email(),
            "messaging": [
                {"channel": "before" if number % 2 else "now", "userId": user_id or self.canaries.messaging_id()}
            ],
            **self._marked(NEVER_ON_MEMBERS, "member"),
        }
        self.members[member_id] = record
        self.first.append(record)
        return record

    def _sell(self, shop_id: str, bills: int, place: int) -> None:
        own = [member for member in self.members.values() if member["providerId"] == self.shops[shop_id]["providerId"]]
        # The first bill has the same ID in every shop, and the last bill of each shop has one of the awkward IDs.
        ids = ["same-in-all", *(f"{shop_id}-b{number}" for number in range(1, bills))]
        if bills > 1:
            ids[-1] = f"{ODD_IDS[place % len(ODD_IDS)]} {shop_id}"
        for number, bill_id in enumerate(ids):
            member_id = self.random.choice(own)["id"] if own and number % 2 else None
            self.first.append(self._bill(shop_id, bill_id, f"2026-01-{number % 28 + 1:02}", place, memberId=member_id))
        for name, fields in IRREGULAR.items():
            self.first.append(self._bill(shop_id, f"{shop_id}-{name}", "2026-01-02", place, **fields))

    def _bill(self, shop_id: str, bill_id: str, day: str, place: int = 0, **fields: Any) -> Record:
        """Add a bill to the final state; return its record."""
        record = {
            "kind": "bill",
            "id": bill_id,
            "shopId": shop_id,
            "closedAt": f"{day}T12:{place % 60:02}:00+07:00",
            "receiptNumber": f"label of {shop_id} {bill_id}",
            "lines": [{"name": "Soup", "qty": 1, "total": NET, **self._marked(NEVER_ON_LINES, "line")}],
            "amounts": {"net": NET},
            "payments": [{"name": "Card", "amount": NET, **self._marked(NEVER_ON_PAYMENTS, "payment")}],
            **self._marked(NEVER_ON_BILLS, "bill"),
            **fields,
        }
        self.bills[shop_id, bill_id] = record
        return record

    def _move_and_remove(self) -> None:
        """Add the records of the second load.

        A shop moves to another franchise. Another shop, two bills and two members are removed. A bill is changed, and
        an undated bill from before change tracking is added.
        """
        moved = self.shops["sh-0-2"] | {"franchiseId": "fr-1"}
        self.later.append(moved)
        self.shops["sh-0-2"] = moved
        # The bills contain the franchise, so each of them changes with it and is tracked from then on.
        self.bills |= {place: bill | {"history": False} for place, bill in self.bills.items() if place[0] == "sh-0-2"}
        self.later.append({"kind": "shop", "id": "sh-1-0", "removed": True})
        self.removed_shops.add("sh-1-0")
        for shop_id in ("sh-0-0", "sh-1-1"):
            place = (shop_id, f"{shop_id}-b1")
            del self.bills[place]
            self.removed_bills.append(place)
            self.later.append({"kind": "bill", "id": place[1], "shopId": shop_id, "removed": True})
        changed = ("sh-0-1", "same-in-all")
        self.bills[changed] = self.bills[changed] | {"cashier": "Ann"}
        late = self._bill("sh-0-1", "sh-0-1-late", "2026-01-02", closedAt=None, history=True)
        self.later += [self.bills[changed], late]
        self.changed_bills |= {changed, ("sh-0-1", "sh-0-1-late")}
        victims = [
            next(m["id"] for m in self.members.values() if m["providerId"] == base) for base in ("mb-0", "mb-shared")
        ]
        for member_id in victims:
            del self.members[member_id]
            self.removed_members.append(member_id)
            self.later.append({"kind": "member", "id": member_id, "removed": True})

    # --- permissions of keys -----------------------------------------------------------

    def key_specs(self) -> list[KeySpec]:
        """Specify a key for each shop, each franchise and some unknown scopes. The permissions vary from key to key."""
        scopes = [("shop", shop_id) for shop_id in self.shops]
        franchises = {str(shop["franchiseId"]) for shop in self.shops.values() if shop["franchiseId"] is not None}
        scopes += [("franchise", name) for name in sorted(franchises)]
        scopes += [("shop", "sh-never-loaded"), ("franchise", "fr-never-loaded")]
        return [
            KeySpec(kind, scope_id, lookup=bool(number & 1), personal=bool(number & 2))
            for number, (kind, scope_id) in enumerate(scopes)
        ]

    def in_scope(self, key: KeySpec, shop_id: str) -> bool:
        if key.kind == "shop":
            return key.scope_id == shop_id
        return shop_id in self.shops and self.shops[shop_id]["franchiseId"] == key.scope_id

    def covers(self, key: KeySpec, base: str) -> bool:
        return any(self.in_scope(key, shop_id) for shop_id in self._shops_of.get(base, ()))

    def expected_shops(self, key: KeySpec) -> Expected:
        listed = [
            shop_id for shop_id in self.shops if self.in_scope(key, shop_id) and shop_id not in self.removed_shops
        ]
        return Expected(200, None, frozenset(f"label of {shop_id}" for shop_id in listed))

    def expected_list(self, key: KeySpec, shop_id: str, *, by_day: bool) -> Expected:
        refused = self._refused_shop(key, shop_id)
        return refused or Expected(200, None, frozenset(self.listed_bills(shop_id, by_day=by_day)))

    def listed_bills(self, shop_id: str, *, by_day: bool) -> list[str]:
        """Return the labels of the bills in a shop's list by day or by change."""
        listed = [
            bill for bill in self._bills_of.get(shop_id, ()) if (bill["closedAt"] if by_day else not is_history(bill))
        ]
        return [str(bill["receiptNumber"]) for bill in listed]

    def _refused_shop(self, key: KeySpec, shop_id: str) -> Expected | None:
        """Return the refusal of a request for this shop, or None if the key covers the shop."""
        if not shop_id:
            return Expected(400, "bad_query")
        return None if self.in_scope(key, shop_id) else Expected(403, "shop_not_in_scope")

    def expected_digests(
        self, key: KeySpec, shop_id: str | None = None, first: str | None = None, last: str | None = None
    ) -> Expected:
        """Return one row for each shop and day. Bills without a date are left out if `first` or `last` is given."""
        if shop_id is not None and (refused := self._refused_shop(key, shop_id)):
            return refused
        covered = [of for of in self.shops if self.in_scope(key, of)] if shop_id is None else [shop_id]
        rows: list[str] = []
        for of in covered:
            days = Counter(bill["closedAt"] and bill["closedAt"][:10] for bill in self._bills_of.get(of, ()))
            rows += [
                digest_row(of, day, bills, bills * NET)
                for day, bills in days.items()
                if (first is last is None if day is None else (first or day) <= day <= (last or day))
            ]
        return Expected(200, None, frozenset(rows))

    def expected_feed(self, key: KeySpec) -> Expected:
        """Return the elements of a first pass: every shop in the key's scope in full, including removed shops."""
        covered = [shop_id for shop_id in self.shops if self.in_scope(key, shop_id)]
        return Expected(200, None, frozenset(row for shop_id in covered for row in self._full_shop(shop_id)))

    def expected_changes(self, key: KeySpec) -> Expected:
        """Return the elements of a pass whose mark is from before the second load."""
        rows: list[str] = []
        for shop_id, shop in self.shops.items():
            moved = shop["franchiseId"] != self.first_franchises[shop_id]
            if not self.in_scope(key, shop_id):
                if key.kind == "franchise" and self.first_franchises[shop_id] == key.scope_id:
                    rows.append(shop_row(shop_id, full=False, removed=True, in_scope=False))
            elif moved:
                rows += self._full_shop(shop_id)
            else:
                if shop_id in self.removed_shops:
                    rows.append(shop_row(shop_id, full=False, removed=True))
                rows += [bill_row(*bill, removed=True) for bill in self.removed_bills if bill[0] == shop_id]
                rows += [bill_row(*bill) for bill in self.changed_bills if bill[0] == shop_id]
        return Expected(200, None, frozenset(rows))

    def _full_shop(self, shop_id: str) -> list[str]:
        shop = shop_row(shop_id, full=True, removed=shop_id in self.removed_shops)
        return [shop, *(bill_row(shop_id, bill["id"]) for bill in self._bills_of.get(shop_id, ()))]

    def expected_bill(self, key: KeySpec, bill_id: str) -> list[Expected]:
        """Return every allowed response: a franchise may have the same bill ID in several shops."""
        found = [bill for shop_id, bill in self._bills_by_id.get(bill_id, ()) if self.in_scope(key, shop_id)]
        answers = [Expected(200, None, frozenset({str(bill["receiptNumber"])})) for bill in found]
        return answers or [Expected(404, "not_found")]

    def expected_members(self, key: KeySpec, base: str) -> Expected:
        if not base:
            return Expected(400, "bad_query")
        if not self.covers(key, base):
            return Expected(403, "provider_not_in_scope")
        return Expected(200, None, frozenset(_label(member) for member in self._members_of.get(base, ())))

    def expected_member(self, key: KeySpec, member_id: str | None) -> Expected:
        member = self.members.get(member_id or "")
        if member is None or not self.covers(key, str(member["providerId"])):
            return Expected(404, "not_found")
        return Expected(200, None, frozenset({_label(member)}))

    def expected_lookup(self, key: KeySpec, base: str, user_id: str) -> Expected:
        if not key.lookup:
            return Expected(403, "lookup_not_enabled")
        digits = user_id[1:]
        if (
            not base
            or user_id[:1] != "U"
            or len(digits) != 32
            or any(digit not in "0123456789abcdef" for digit in digits)
        ):
            return Expected(400, "bad_query")
        if not self.covers(key, base):
            return Expected(403, "provider_not_in_scope")
        holders = self._holders.get((base, user_id))
        if not holders:
            return Expected(404, "not_found")
        return Expected(200, None, frozenset({_label(max(holders, key=lambda member: str(member["createdAt"])))}))


def is_history(bill: Record) -> bool:
    """Return whether a bill is from before change tracking, so that it has no `updatedAt`."""
    return bool(bill.get("history"))


def shop_row(shop_id: str, *, full: bool, removed: bool = False, in_scope: bool = True) -> str:
    """Describe a shop in the feed with its label, or its removal."""
    entry = f"shopRemoved {shop_id}, in scope: {in_scope}" if removed else f"shop {shop_id}: label of {shop_id}"
    return f"{entry}, full: {full}"


def bill_row(shop_id: str, bill_id: str, *, removed: bool = False) -> str:
    """Describe a bill in the feed with its label, or its removal."""
    return f"billRemoved {shop_id} {bill_id}" if removed else f"bill {shop_id}: label of {shop_id} {bill_id}"


def digest_row(shop_id: str, day: str | None, bills: int, net: float) -> str:
    return f"{bills} bills of {shop_id} on {day}, net {net:g}"


def _label(member: Record) -> str:
    return str(member["labels"][0])


def escaped(text: str) -> str:
    return quote(text, safe="")
