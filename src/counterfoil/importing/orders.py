"""Code that the JSON formats share: reads orders from files, and builds the common fields of source records."""

from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from counterfoil.domain.pos_values import record_id
from counterfoil.importing.documents import JsonOrder, read_orders
from counterfoil.importing.mapping import ImportMapping
from counterfoil.importing.results import (
    NO_ID,
    NO_SHOP,
    UNREADABLE_VALUE,
    Imported,
    ImportedRecord,
    RejectedRow,
    RowProblem,
    SkippedRow,
)
from counterfoil.importing.tables import ImportOptions, shop_record
from counterfoil.importing.values import is_plausible, shown

Order = dict[str, Any]


class OrderFormat:
    """Converts the orders of one API. A subclass says which orders are bills, and what their fields are."""

    list_names: tuple[str, ...] = ()

    def __init__(self, mapping: ImportMapping, options: ImportOptions) -> None:
        self._mapping = mapping
        self.options = options
        self._named = {shop["id"] for shop in mapping.shops}

    def skip_reason(self, order: Order) -> str | None:
        """Return the reason why an order is not a bill, or None if it is a bill."""
        raise NotImplementedError

    def shop_of(self, order: Order) -> str:
        """Return the shop's ID in the API."""
        raise NotImplementedError

    def shop_name(self, order: Order) -> str:
        """Return the name of the shop, or its ID if the order does not contain a name."""
        return self.shop_of(order)

    def record(self, order: Order) -> dict[str, Any]:
        """Return the fields of the bill other than its kind, ID and shop."""
        raise NotImplementedError

    def records(self, paths: Sequence[Path]) -> Iterator[Imported]:
        """Yield a source record for each order that is a bill, and a result for each order that was not converted."""
        for number, shop in enumerate(self._mapping.shops, start=1):
            yield ImportedRecord(self._mapping.name, number, {"kind": "shop", **shop})
        for path in paths:
            for order in read_orders(path, self.list_names):
                if isinstance(order, RowProblem):
                    yield RejectedRow(order.file, order.line, order.reason, order.detail)
                else:
                    yield from self._converted(order)

    def _converted(self, order: JsonOrder) -> Iterator[Imported]:
        content = order.content
        bill_id = text_of(content.get("id"))
        try:
            reason = self.skip_reason(content)
            if reason:
                yield SkippedRow(order.file, order.line, reason)
                return
            foreign = self.shop_of(content)
            shop = self.options.shop or self._mapping.shop_ids.get(foreign, foreign)
            if record_id(bill_id) is None:
                raise RowProblem(NO_ID, f"has {shown(bill_id)} as its ID, which is not a valid ID")
            if record_id(shop) is None:
                raise RowProblem(NO_SHOP, "does not name its shop. Use --shop")
            record = {"kind": "bill", "id": bill_id, "shopId": shop, **self.record(content)}
        except RowProblem as problem:
            yield RejectedRow(order.file, order.line, problem.reason, problem.detail, bill_id or None)
            return
        if self.options.write_shops and shop not in self._named:
            self._named.add(shop)
            found = shop_record(shop, self.shop_name(content) or shop, self.options.timezone)
            yield ImportedRecord(order.file, order.line, found, is_found_shop=True)
        yield ImportedRecord(order.file, order.line, record)


def as_objects(value: object) -> list[Order]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


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
    if not number.is_finite() or not is_plausible(number):
        raise RowProblem(UNREADABLE_VALUE, f"{name}: {shown(str(value))} is not a number")
    return number


def total_of(numbers: Sequence[Decimal | None]) -> Decimal | None:
    """Return the sum of the numbers that are not None, or None if there are no such numbers."""
    known = [number for number in numbers if number is not None]
    return sum(known, Decimal()) if known else None
