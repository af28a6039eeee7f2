"""An invented restaurant group as source records, and the data that each key may read, computed from the records alone.

Every record contains canaries: unique markers in fields that are returned only
with permission, or never.
Bills, members and shops have labels by which they are recognised in responses.
"""

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
    """The response that the records require. `rows` are the labels of shops, bills or members, in any order."""

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
        self._receipts: dict[str, list[str]] = {}
        for (shop_id, bill_id), bill in self.bills.items():
            self._bills_by_id.setdefault(bill_id, []).append((shop_id, bill))
            self._receipts.setdefault(shop_id, []).append(str(bill["receiptNumber"]))
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
            record = {
                "kind": "bill",
                "id": bill_id,
                "shopId": shop_id,
                "closedAt": f"2026-01-{number % 28 + 1:02}T12:{place % 60:02}:00+07:00",
                "receiptNumber": f"label of {shop_id} {bill_id}",
                "memberId": self.random.choice(own)["id"] if own and number % 2 else None,
                "lines": [{"name": "Soup", "qty": 1, "total": 120, **self._marked(NEVER_ON_LINES, "line")}],
                "amounts": {"net": 120},
                "payments": [{"name": "Card", "amount": 120, **self._marked(NEVER_ON_PAYMENTS, "payment")}],
                **self._marked(NEVER_ON_BILLS, "bill"),
            }
            self.bills[shop_id, bill_id] = record
            self.first.append(record)

    def _move_and_remove(self) -> None:
        """Add the records of the second load.

        A shop moves to another franchise. Another shop, two bills and two members are removed.
        """
        moved = self.shops["sh-0-2"] | {"franchiseId": "fr-1"}
        self.later.append(moved)
        self.shops["sh-0-2"] = moved
        self.later.append({"kind": "shop", "id": "sh-1-0", "removed": True})
        self.removed_shops.add("sh-1-0")
        for shop_id in ("sh-0-0", "sh-1-1"):
            place = (shop_id, f"{shop_id}-b1")
            del self.bills[place]
            self.removed_bills.append(place)
            self.later.append({"kind": "bill", "id": place[1], "shopId": shop_id, "removed": True})
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

    def expected_list(self, key: KeySpec, shop_id: str) -> Expected:
        if not shop_id:
            return Expected(400, "bad_query")
        if not self.in_scope(key, shop_id):
            return Expected(403, "shop_not_in_scope")
        return Expected(200, None, frozenset(self._receipts.get(shop_id, ())))

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


def _label(member: Record) -> str:
    return str(member["labels"][0])


def escaped(text: str) -> str:
    return quote(text, safe="")
