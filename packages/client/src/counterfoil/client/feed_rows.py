"""Turns a pass through the change feed into flat rows, for tools that load rows into tables by their primary key.

Such tools can replace or delete a row, but they cannot delete all bills of a shop, as is necessary when the feed sends
a shop in full. So every bill has `copied_at`, the time of the pass that returned it, and every shop has
`complete_since`, the time of the pass that last sent it in full. A bill whose `copied_at` is before its shop's
`complete_since` no longer exists. The bills of a shop that has left the key's scope were sold, so they stay: the shop
has `complete_until`, the time up to which they have all changes.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from counterfoil.client.api import Client
from counterfoil.client.calls import MAX_ATTEMPTS, MAX_FEED_LIMIT
from counterfoil.client.errors import CopyMismatch, Refusal
from counterfoil.client.models import Change, Page, Shop
from counterfoil.client.tables import BILLS, MEMBERS, SHOPS, Column, Kind

Row = dict[str, Any]
State = dict[str, Any]

# Lists of objects are stored as JSON text.
LISTS_OF_BILL = {
    "items": ("items",),
    "payments": ("payments",),
    "campaigns": ("amounts", "campaign"),
    "coupons": ("amounts", "coupon"),
}
# A column of the tables of a pull for which the rows have `removed` instead.
NOT_IN_ROWS = ("removed_at",)
_FROM_RESPONSE = {table.name: [column for column in table.columns if column.path] for table in (SHOPS, BILLS, MEMBERS)}
_encode = msgspec.json.Encoder(decimal_format="number").encode
OTHER_KEY = (
    "this copy was made with another key, or from another service. If both return the same data, run the "
    "same command with --adopt. Otherwise, use another target."
)


class FeedRows:
    """Reads one pass. Once `rows` is exhausted, `state` must be stored for the next pass.

    The state can be stored as JSON. It contains the mark and the time of the pass and, for each shop, `complete_since`,
    `complete_until` and whether it is in scope. A caller can add `full` to read everything again, for example because
    the copy has lost rows, and `adopt` to do so with a key that the copy was not made with.
    """

    def __init__(self, client: Client, state: Mapping[str, Any] | None = None, limit: int = MAX_FEED_LIMIT) -> None:
        self._client = client
        self._limit = limit
        known = state or {}
        self._adopts = bool(known.get("adopt"))
        self._is_full = bool(known.get("full"))
        self._mark: str | None = None if self._adopts else known.get("mark")
        self._as_of: str | None = known.get("as_of")
        self._shops: dict[str, Row] = dict(known.get("shops") or {})
        # Known shops that a full pass has not returned yet. Those still missing at its end have left the key's scope.
        self._missing: set[str] = set()

    @property
    def state(self) -> State:
        return {"mark": self._mark, "as_of": self._as_of, "shops": self._shops}

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield table names and rows in the order to store them. First raise `CopyMismatch` if the key is another."""
        for _ in range(MAX_ATTEMPTS):
            has_cursor = False
            try:
                if self._is_full or not self._mark:
                    self._start_anew()
                self._missing = set() if self._mark else set(self._shops)
                for page in self._client.change_pages(since=self._mark, limit=self._limit):
                    has_cursor = True
                    for element in page.data:
                        yield from self._row(element, page.server_time)
                    if page.mark is not None:
                        yield from self._end(page)
                        return
            except Refusal as error:
                if error.code == "bad_cursor" and self._mark and not has_cursor:
                    # A mark is valid for the key that received it, and for those that replace it by rotation.
                    raise CopyMismatch(OTHER_KEY) from error
                if error.code not in ("bad_cursor", "mark_expired") or not (self._mark or has_cursor):
                    raise
                if error.code == "mark_expired":
                    self._mark = None
        raise RuntimeError(f"The pass through the change feed was refused {MAX_ATTEMPTS} times.")

    def _start_anew(self) -> None:
        """Forget the mark, once it has shown that the key is the right one. Without a mark, one of the shops must."""
        known = {shop_id for shop_id, shop in self._shops.items() if shop["in_scope"]}
        if self._mark:
            next(self._client.change_pages(since=self._mark, limit=1))
        elif known and not self._adopts and known.isdisjoint(shop["shopId"] for shop in self._client.shops()):
            raise CopyMismatch(OTHER_KEY)
        self._mark, self._is_full = None, False

    def _row(self, element: Change, copied_at: str) -> Iterator[tuple[str, Row]]:
        shop_id = element["shopId"]
        if element["type"] == "bill":
            yield "bills", bill_row(element["bill"], copied_at)
        elif element["type"] == "billRemoved":
            yield "bills", _empty("bills") | {"shop_id": shop_id, "id": element["id"], "copied_at": copied_at}
        elif element["type"] in ("shop", "shopRemoved"):
            self._missing.discard(shop_id)
            self._note(shop_id, copied_at, full=element["full"], in_scope=element.get("inScope", True) is True)
            shop: Mapping[str, Any] | None = element["shop"] if element["type"] == "shop" else None
            yield "shops", shop_row(shop_id, shop, self._shops[shop_id], copied_at)

    def _end(self, page: Page[Change]) -> Iterator[tuple[str, Row]]:
        """Remember the mark, and yield rows for shops that a full pass did not return: they left the key's scope."""
        for shop_id in sorted(self._missing):
            self._note(shop_id, page.server_time, full=False, in_scope=False)
            yield "shops", shop_row(shop_id, None, self._shops[shop_id], page.server_time)
        self._mark, self._as_of = page.mark, page.server_time

    def _note(self, shop_id: str, copied_at: str, *, full: bool, in_scope: bool) -> None:
        earlier = self._shops.get(shop_id, {"complete_since": copied_at, "in_scope": True})
        complete_until = None
        if not in_scope:
            # A shop that had left before keeps its time.
            complete_until = self._as_of if earlier["in_scope"] else earlier.get("complete_until")
        self._shops[shop_id] = {
            "complete_since": copied_at if full else earlier["complete_since"],
            "in_scope": in_scope,
            "complete_until": complete_until,
        }


def shop_row(shop_id: str, shop: Mapping[str, Any] | None, known: Row, copied_at: str) -> Row:
    """Return the row of a shop. `known` is its entry in the state, and `shop` is None if it is no longer listed."""
    return {
        **(_values(_FROM_RESPONSE["shops"], shop) if shop else _empty("shops")),
        "shop_id": shop_id,
        "categories": json_text(shop["categories"]) if shop else None,
        "removed": shop is None,
        **known,
        "copied_at": copied_at,
    }


def all_shop_rows(client: Client, state: Mapping[str, Any] | None) -> Iterator[Row]:
    """Yield the rows of all shops that are listed or in the state, with current names."""
    page = client.shop_page()
    listed = {shop["shopId"]: shop for shop in page.data}
    unknown = {"complete_since": None, "in_scope": True, "complete_until": None}  # The feed has not returned it yet.
    known = (state or {}).get("shops") or {}
    for shop_id in sorted(listed.keys() | known.keys()):
        yield shop_row(shop_id, listed.get(shop_id), known.get(shop_id, unknown), page.server_time)


def bill_row(bill: Mapping[str, Any], copied_at: str) -> Row:
    lists = {name: json_text(_at(bill, path)) for name, path in LISTS_OF_BILL.items()}
    more = {"local_time": _local_time(bill["timestamp"]), "revenue": _revenue(bill)}
    return _values(_FROM_RESPONSE["bills"], bill) | lists | more | {"removed": False, "copied_at": copied_at}


def _local_time(instant: str | None) -> str | None:
    """Return the time on the shop's clock, whose offset the instant has."""
    return instant and datetime.fromisoformat(instant).replace(tzinfo=None).isoformat(timespec="milliseconds")


def _revenue(bill: Mapping[str, Any]) -> Decimal:
    """Return `net` without the tip, or 0 if the bill is void. Missing amounts count as 0."""
    net, tip = (Decimal(_at(bill, ("amounts", name)) or 0) for name in ("net", "tip"))
    return Decimal(0) if bill["status"] == "void" else net - tip


def member_rows(client: Client, shops: Page[Shop]) -> Iterator[Row]:
    """Yield all members of the bases of these shops. Their `copied_at` is the `serverTime` of the list of shops."""
    providers = {str(shop["providerId"]) for shop in shops.data if shop["providerId"] is not None}
    for provider_id in sorted(providers):
        more = {"provider_id": provider_id, "copied_at": shops.server_time}
        for page in client.member_pages(provider_id):
            for member in page.data:
                yield _values(_FROM_RESPONSE["members"], member) | more | {"coupons": json_text(member["coupons"])}


def json_text(value: object) -> str:
    return _encode(value).decode()


def _empty(table: str) -> Row:
    """Return the row of a removed shop or bill, in which all fields of the response are None."""
    lists = dict.fromkeys([*LISTS_OF_BILL, "local_time", "revenue"]) if table == "bills" else {}
    return dict.fromkeys(column.name for column in _FROM_RESPONSE[table]) | lists | {"removed": True}


def _values(columns: list[Column], record: Mapping[str, Any]) -> Row:
    return {column.name: _converted(column.kind, _at(record, column.path)) for column in columns}


def _at(record: Any, path: tuple[str, ...]) -> Any:
    """Return the value at this path. A field that is absent, such as `tel` if the key may not read it, is None."""
    for name in path:
        record = record.get(name) if record is not None else None
    return record


def _converted(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    if kind is Kind.INSTANT:
        return utc_text(value)
    return json_text(value) if kind is Kind.TEXTS else value


def utc_text(instant: str) -> str:
    """Format an instant in UTC with milliseconds, so that the strings sort by time."""
    moment = datetime.fromisoformat(instant).astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
