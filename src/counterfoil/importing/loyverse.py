"""Loyverse: receipts as its API returns them. The exports of the back office are in `mappings/loyverse*.toml`.

A sale becomes a bill, a refund a bill with negative quantities and amounts, and
a cancelled receipt a voided bill.
"""

from decimal import Decimal
from typing import Any, ClassVar

from counterfoil.importing.mapping import REFUND, SALE, VOID
from counterfoil.importing.orders import (
    Order,
    OrderFormat,
    as_objects,
    only_known,
    signed,
    text_of,
    total_of,
    written_number,
)
from counterfoil.importing.results import UNREADABLE_VALUE, RowProblem

CANCELLED = "cancelled"
CHANNELS = {"dine in": "counter", "takeout": "take_away", "delivery": "delivery", "pickup": "pickup"}
VAT_TYPES = {"INCLUDED": "Include", "ADDED": "Exclude"}


class LoyverseReceipts(OrderFormat):
    """Converts Loyverse receipts."""

    title = "Loyverse receipts (API)"
    list_names = ("receipts",)
    marks = frozenset({"receipt_number", "receipt_type"})
    request = "Request complete receipts from the API"
    statuses: ClassVar = {"SALE": SALE, "REFUND": REFUND, CANCELLED: VOID}

    def status_of(self, order: Order) -> str:
        kind = text_of(order.get("receipt_type"))
        return CANCELLED if order.get("cancelled_at") and kind in self.statuses else kind

    def id_of(self, order: Order) -> str:
        return text_of(order.get("receipt_number"))

    def shop_of(self, order: Order) -> str:
        return text_of(order.get("store_id"))

    def bills(self, order: Order, meaning: str) -> list[dict[str, Any]]:
        sign = -1 if order.get("receipt_type") == "REFUND" else 1
        lines, payments = as_objects(order.get("line_items")), as_objects(order.get("payments"))
        option = text_of(order.get("dining_option"))
        fields = {
            "closedAt": order.get("receipt_date") or order.get("created_at"),
            "orderIds": [one for one in (self.id_of(order), text_of(order.get("refund_for"))) if one],
            "receiptNumber": self.id_of(order),
            "deviceId": text_of(order.get("pos_device_id")),
            "channel": CHANNELS.get(option.lower(), option),
            "memberId": text_of(order.get("customer_id")),
            "lines": [_line(one, sign) for one in lines],
            "amounts": _amounts(order, lines, payments, sign),
            "payments": [
                only_known({"name": one.get("name"), "amount": _signed(one, "money_amount", sign)}) for one in payments
            ],
            "void": True if meaning == VOID else None,
        }
        return [only_known(fields)]


def _line(line: Order, sign: int) -> dict[str, Any]:
    name, variant = text_of(line.get("item_name")), text_of(line.get("variant_name"))
    modifiers = as_objects(line.get("line_modifiers"))
    return only_known(
        {
            "productId": text_of(line.get("item_id")),
            "name": f"{name} ({variant})" if name and variant else name or variant,
            "qty": _signed(line, "quantity", sign),
            # With modifiers, the price is not what was charged per unit; `load` computes the unit price from the total.
            "unitPrice": None if modifiers else _signed(line, "price", 1),
            "total": _signed(line, "gross_total_money", sign),
            "options": [only_known({"name": text_of(one.get("option") or one.get("name"))}) for one in modifiers],
            "vat": bool(as_objects(line.get("line_taxes"))),
        }
    )


def _amounts(order: Order, lines: list[Order], payments: list[Order], sign: int) -> dict[str, Any]:
    tax_types = {text_of(one.get("type")) for one in as_objects(order.get("total_taxes"))}
    subtotal = total_of([_size(one, "gross_total_money") for one in lines])
    return only_known(
        {
            "subtotal": signed(subtotal, sign),
            "discountTotal": _signed(order, "total_discount", sign),
            "cardSurcharge": _signed(order, "surcharge", sign),
            "vat": _signed(order, "total_tax", sign),
            "vatType": VAT_TYPES.get(tax_types.pop()) if len(tax_types) == 1 else None,
            "tip": _signed(order, "tip", sign),
            "net": signed(_net(order, payments), sign),
        }
    )


def _net(order: Order, payments: list[Order]) -> Decimal | None:
    """Return what was paid, tip included. Whether `total_money` includes the tip is found from the payments."""
    total, tip = _size(order, "total_money"), _size(order, "tip")
    paid = total_of([_size(one, "money_amount") for one in payments])
    if total is None or not tip or paid == total:
        return total
    if paid != total + tip:
        raise RowProblem(
            UNREADABLE_VALUE,
            f"tip: the payments are {paid}, which is neither the total of {total} nor that total with the tip of {tip}",
        )
    return paid


def _size(part: Order, name: str) -> Decimal | None:
    number = written_number(part.get(name), name)
    return None if number is None else abs(number)


def _signed(part: Order, name: str, sign: int) -> str | None:
    """Return a number, negative in a refund, whichever sign the API writes there."""
    number = written_number(part.get(name), name) if sign > 0 else _size(part, name)
    return signed(number, sign)
