"""Code that the JSON formats share: reads orders from files, and builds the common fields of source records.

SDKs write the fields of an order in camelCase and APIs in snake_case, so all names are converted to snake_case first.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from pathlib import Path
from typing import Any, ClassVar

from counterfoil.domain.pos_values import record_id
from counterfoil.importing.documents import JsonOrder, read_orders
from counterfoil.importing.mapping import ImportMapping
from counterfoil.importing.results import (
    NO_AMOUNT,
    NO_ID,
    NO_SHOP,
    NO_TIME,
    NOT_AN_ORDER,
    OTHER_CURRENCY,
    UNKNOWN_STATUS,
    UNREADABLE_VALUE,
    Imported,
    ImportedRecord,
    ImportFailed,
    RejectedRow,
    RowProblem,
    SkippedRow,
)
from counterfoil.importing.tables import ImportOptions, shop_record
from counterfoil.importing.values import decimal_text, is_plausible, shown

Order = dict[str, Any]
STILL_OPEN = "the order is still open"
HOME_CURRENCY = "THB"

# The smallest unit of a currency is a hundredth of it, except for these currencies.
NO_DECIMALS = frozenset(
    {"BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"}
)
THREE_DECIMALS = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})
# The store keeps amounts as floating-point numbers. From here on, they have fewer than three exact decimals.
LARGEST_NUMBER = Decimal(10) ** 12
# No format reads fields that are nested more deeply.
LEVELS_READ = 16
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class OrderFormat:
    """Converts the orders of one API. A subclass says which orders are bills, and what their fields are."""

    title: ClassVar[str] = ""
    """How the format is named to the operator, such as `Square orders`."""
    list_names: ClassVar[tuple[str, ...]] = ()
    """The fields of a page or an event that contain its orders, or its only order."""
    marks: ClassVar[frozenset[str]] = frozenset()
    """The fields by which an object is recognised as an order of this API."""
    request: ClassVar[str] = ""
    """What to ask the API for if an order lacks its time or its amounts."""
    statuses: ClassVar[dict[str, str]] = {}
    """The statuses of orders that are bills, and what each means: SALE, REFUND or VOID."""
    skipped: ClassVar[dict[str, str]] = {}
    """The statuses of orders that are not bills, and why they are skipped. An order with any other one is rejected."""

    def __init__(self, mapping: ImportMapping, options: ImportOptions) -> None:
        self._mapping = mapping
        self.options = options
        self._named: set[str] = set()

    @classmethod
    def fits(cls, order: Order) -> bool:
        return cls.marks <= order.keys()

    def status_of(self, order: Order) -> str:
        """Return the status of an order, as it is in `statuses` and `skipped`."""
        raise NotImplementedError

    def id_of(self, order: Order) -> str:
        return text_of(order.get("id"))

    def shop_of(self, order: Order) -> str:
        """Return the shop's ID in the API."""
        raise NotImplementedError

    def shop_name(self, order: Order) -> str:
        """Return the name of the shop, or its ID if the order does not contain a name."""
        return self.shop_of(order)

    def bills(self, order: Order, meaning: str) -> list[dict[str, Any]]:
        """Return the fields of the bills in an order. `meaning` is SALE, REFUND or VOID.

        The kind and the shop are added to them, and the order's ID unless they have an `id`.
        """
        raise NotImplementedError

    def needs_timezone(self) -> bool:
        """Return whether the shops are certainly not in the usual time zone. Times are in UTC, but days are local."""
        return self.options.currency != HOME_CURRENCY

    def records(self, paths: Sequence[Path]) -> Iterator[Imported]:
        """Yield a source record for each order that is a bill, and a result for each order that was not converted."""
        if self.options.write_shops and not self.options.timezone and self.needs_timezone():
            raise ImportFailed(
                f"{self.title} have times in UTC, so the day of a bill depends on the time zone of its shop. Name it, "
                "for example with --timezone Asia/Riyadh."
            )
        self._named = {shop["id"] for shop in self._mapping.shops}
        for number, shop in enumerate(self._mapping.shops, start=1):
            yield ImportedRecord(self._mapping.name, number, {"kind": "shop", **shop})
        for path in paths:
            for order in read_orders(path, self.list_names):
                if isinstance(order, RowProblem):
                    yield RejectedRow(order.file, order.line, order.reason, order.detail)
                else:
                    yield from self._converted(order)

    def _converted(self, order: JsonOrder) -> Iterator[Imported]:
        content = in_snake_case(order.content)
        bill_id = self.id_of(content)
        try:
            status = self.status_of(content)
            if status in self.skipped:
                yield SkippedRow(order.file, order.line, self.skipped[status])
                return
            if status not in self.statuses:
                raise RowProblem(UNKNOWN_STATUS, f"has the status {shown(status)}, which is not known")
            foreign = self.shop_of(content)
            shop = self.options.shop or self._mapping.shop_ids.get(foreign, foreign)
            if record_id(shop) is None:
                raise RowProblem(NO_SHOP, f"does not name its shop. {self.without_shop()}")
            records = [
                _complete({"kind": "bill", "id": bill_id, "shopId": shop, **bill}, self.request)
                for bill in self.bills(content, self.statuses[status])
            ]
        except RowProblem as problem:
            yield RejectedRow(order.file, order.line, problem.reason, problem.detail, bill_id or None)
            return
        except (TypeError, ValueError, AttributeError):
            # A value has another type than in the API. Only this order is rejected.
            detail = "has a value of an unexpected type"
            yield RejectedRow(order.file, order.line, NOT_AN_ORDER, detail, bill_id or None)
            return
        if self.options.write_shops and shop not in self._named:
            self._named.add(shop)
            found = shop_record(shop, self.shop_name(content) or shop, self.options.timezone)
            yield ImportedRecord(order.file, order.line, found, is_found_shop=True)
        for record in records:
            yield ImportedRecord(order.file, order.line, record)

    def without_shop(self) -> str:
        """Return what to do if an order does not name its shop."""
        return "Use --shop"

    def minor_units(self, amount: object, currency: str, name: str) -> Decimal | None:
        """Return an amount that is written in the smallest unit of its currency, such as satang, in the main unit."""
        # JavaScript writes large whole numbers as 1234n.
        number = written_number(amount.removesuffix("n") if isinstance(amount, str) else amount, name)
        if number is None:
            return None
        whole = number.to_integral_value()
        if number != whole:
            raise RowProblem(
                UNREADABLE_VALUE, f"{name}: {shown(str(amount))} is not a whole number of the smallest unit"
            )
        if currency != self.options.currency:
            raise RowProblem(
                OTHER_CURRENCY,
                f"has amounts in {currency or 'an unknown currency'}, but {self.options.currency} is expected. Use "
                f"--currency {currency or 'CODE'} if all shops use it",
            )
        return whole.scaleb(-decimal_places(currency))


def _complete(bill: dict[str, Any], request: str) -> dict[str, Any]:
    """Return the bill; raise `RowProblem` if it has no valid ID, no time or, unless it is voided, no total."""
    if record_id(bill["id"]) is None:
        raise RowProblem(NO_ID, f"has {shown(bill['id'])} as its ID, which is not a valid ID")
    if not bill.get("closedAt"):
        raise RowProblem(NO_TIME, f"has no time at which it was closed. {request}")
    if "void" not in bill and bill.get("amounts", {}).get("net") is None:
        raise RowProblem(NO_AMOUNT, f"has no total. {request}")
    return bill


def in_snake_case(value: Any, levels: int = LEVELS_READ) -> Any:
    """Return a JSON value in which the names of fields are in snake_case, down to the levels that are read."""
    if not levels:
        return value
    if isinstance(value, dict):
        return {_HUMP.sub("_", name).lower(): in_snake_case(inner, levels - 1) for name, inner in value.items()}
    return [in_snake_case(inner, levels - 1) for inner in value] if isinstance(value, list) else value


def as_objects(value: object) -> list[Order]:
    """Return the objects in a list. A part of another type would be lost, so it rejects the order."""
    if not value:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise RowProblem(NOT_AN_ORDER, "has a list whose elements cannot be read")
    return value


def as_object(value: object) -> Order:
    return value if isinstance(value, dict) else {}


def text_of(value: object) -> str:
    """Return an ID or a name as a string, or an empty string if there is none."""
    return "" if value is None or isinstance(value, dict | list | bool) else str(value)


def only_known(fields: dict[str, Any]) -> dict[str, Any]:
    """Return only the fields for which the order has a value."""
    return {name: value for name, value in fields.items() if value is not None and value != ""}


def written_number(value: object, name: str) -> Decimal | None:
    """Return the exact value of a number in an order, or None if the field is empty."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool):
            raise InvalidOperation
        number = Decimal(str(value))
    except InvalidOperation:
        raise RowProblem(UNREADABLE_VALUE, f"{name}: {shown(str(value))} is not a number") from None
    if not number.is_finite() or not is_plausible(number) or abs(number) >= LARGEST_NUMBER:
        raise RowProblem(UNREADABLE_VALUE, f"{name}: {shown(str(value))} is not a number that can be stored")
    return number


def total_of(numbers: Sequence[Decimal | None]) -> Decimal | None:
    """Return the sum of the numbers that are not None, or None if there are no such numbers."""
    known = [number for number in numbers if number is not None]
    return sum(known, Decimal()) if known else None


def signed(number: Decimal | None, sign: int = 1) -> str | None:
    return None if number is None else decimal_text(number * sign)


def decimal_places(currency: str) -> int:
    return 0 if currency in NO_DECIMALS else 3 if currency in THREE_DECIMALS else 2


def rounded(amount: Decimal, currency: str) -> Decimal:
    """Return an amount rounded to the smallest unit of the currency."""
    return amount.quantize(Decimal(1).scaleb(-decimal_places(currency)), ROUND_HALF_UP)


def time_of_milliseconds(value: object, name: str) -> str | None:
    """Return a time in milliseconds since 1970 as ISO-8601 in UTC."""
    if not value:
        return None
    try:
        return datetime.fromtimestamp(int(text_of(value)) / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        raise RowProblem(UNREADABLE_VALUE, f"{name}: {shown(str(value))} is not a time in milliseconds") from None
