"""Clover: orders as version 3 of its API returns them with expand=lineItems,payments,refunds,discounts.

A paid order becomes a bill. What the customer paid is the sum of the successful
payments and their tips. Each refund of an order becomes a separate bill with
negative amounts. Open orders and test orders are skipped.
"""

import re
from decimal import Decimal
from typing import Any, ClassVar

from counterfoil.importing.mapping import SALE
from counterfoil.importing.orders import (
    STILL_OPEN,
    Order,
    OrderFormat,
    as_object,
    as_objects,
    only_known,
    rounded,
    signed,
    text_of,
    time_of_milliseconds,
    total_of,
    written_number,
)
from counterfoil.importing.results import NO_AMOUNT, UNKNOWN_STATUS, RowProblem
from counterfoil.importing.values import shown

TEST_ORDER = "test order"
REFUNDED = frozenset({"REFUNDED", "PARTIALLY_REFUNDED", "CREDITED"})
PAID_RESULTS = frozenset({"SUCCESS", "AUTH_COMPLETED"})
UNPAID_RESULTS = frozenset({"FAIL", "INITIATED", "VOIDED", "VOIDING"})
# `unitQty` is in thousandths of a unit.
UNITS = Decimal(1000)
_MERCHANT = re.compile(r"/merchants/([^/]+)/")


class CloverOrders(OrderFormat):
    """Converts Clover orders."""

    title = "Clover orders"
    list_names = ("elements",)
    marks = frozenset({"currency", "created_time", "total"})
    request = "Request the orders with expand=lineItems,payments,refunds,discounts"
    statuses: ClassVar = dict.fromkeys(("PAID", *REFUNDED, "locked"), SALE)
    skipped: ClassVar = {
        "OPEN": STILL_OPEN,
        "open": STILL_OPEN,
        "PARTIALLY_PAID": "the order is not paid completely",
        TEST_ORDER: "the order is a test",
    }

    def status_of(self, order: Order) -> str:
        """Return the payment state. Some orders do not have one; their own state shows whether they are closed."""
        if order.get("test_mode") is True:
            return TEST_ORDER
        return text_of(order.get("payment_state")) or text_of(order.get("state")).lower()

    def shop_of(self, order: Order) -> str:
        found = _MERCHANT.search(text_of(order.get("href")))
        return found[1] if found else text_of(as_object(order.get("merchant")).get("id"))

    def bills(self, order: Order, meaning: str) -> list[dict[str, Any]]:  # noqa: ARG002 - payments and refunds show it
        refunds = [*_elements(order, "refunds"), *_elements(order, "credits")]
        is_refunded = text_of(order.get("payment_state")) in REFUNDED
        if not refunds and (is_refunded or any(one.get("refunded") is True for one in _elements(order, "line_items"))):
            raise RowProblem(NO_AMOUNT, f"was refunded, but has no refunds. {self.request}")
        return [self._sale(order), *(self._refund(order, one) for one in refunds)]

    def _sale(self, order: Order) -> dict[str, Any]:
        payments = self._paid(order)
        lines = [self._line(order, one) for one in _elements(order, "line_items")]
        times = [time_of_milliseconds(one.get("created_time"), "createdTime") for one in (order, *payments)]
        fields = {
            "rev": order.get("modified_time"),
            "closedAt": max((time for time in times if time), default=None),
            "orderIds": [self.id_of(order)],
            "receiptNumber": order.get("title"),
            "deviceId": text_of(as_object(order.get("device")).get("id")),
            "cashier": as_object(order.get("employee")).get("name"),
            "channel": text_of(as_object(order.get("order_type")).get("label")),
            "lines": lines,
            "amounts": self._amounts(order, payments, lines),
            "payments": [self._payment(order, one) for one in payments],
        }
        return only_known(fields)

    def _paid(self, order: Order) -> list[Order]:
        """Return the payments that succeeded."""
        total = self._money(order, order, "total")
        if "payments" not in order and total != 0:
            raise RowProblem(NO_AMOUNT, f"has no payments. {self.request}")
        paid = []
        for payment in _elements(order, "payments"):
            result = text_of(payment.get("result"))
            if result not in PAID_RESULTS | UNPAID_RESULTS:
                raise RowProblem(UNKNOWN_STATUS, f"has a payment with the result {shown(result)}, which is not known")
            if result in PAID_RESULTS:
                paid.append(payment)
        if not paid and total != 0:
            raise RowProblem(NO_AMOUNT, f"has no successful payment, although it is closed. {self.request}")
        return paid

    def _amounts(self, order: Order, payments: list[Order], lines: list[dict[str, Any]]) -> dict[str, Any]:
        def of_payments(name: str) -> Decimal | None:
            return total_of([self._money(order, one, name) for one in payments])

        charges = [self._money(order, as_object(one.get("service_charge")), "amount") for one in payments]
        tip = of_payments("tip_amount")
        fields = {
            "subtotal": signed(total_of([Decimal(one["total"]) for one in lines if not one.get("cancelled")])),
            "discountTotal": signed(self._discount(order)),
            "serviceCharge": signed(total_of(charges)),
            "vat": signed(of_payments("tax_amount")),
            "vatType": "Include"
            if order.get("is_vat") is True
            else "Exclude"
            if order.get("is_vat") is False
            else None,
            "tip": signed(tip),
            "net": signed((of_payments("amount") or Decimal()) + (tip or Decimal())),
        }
        return only_known(fields)

    def _discount(self, order: Order) -> Decimal | None:
        """Return the discounts of the order and its lines, or None if one of them is only known as a percentage."""
        parts = [order, *_elements(order, "line_items")]
        found = [self._money(order, one, "amount") for part in parts for one in _elements(part, "discounts")]
        return None if None in found else total_of([abs(one) for one in found if one is not None])

    def _line(self, order: Order, line: Order) -> dict[str, Any]:
        options = _elements(line, "modifications")
        price = total_of([self._money(order, line, "price"), *(self._money(order, one, "amount") for one in options)])
        units = written_number(line.get("unit_qty"), "unitQty")
        qty = Decimal(1) if units is None else units / UNITS
        fields = {
            "productId": text_of(as_object(line.get("item")).get("id")),
            "name": text_of(line.get("name")),
            "qty": signed(qty),
            "total": signed(rounded((price or Decimal()) * qty, text_of(order.get("currency")))),
            "options": [only_known({"name": text_of(one.get("name"))}) for one in options],
            "cancelled": True if line.get("voided") is True or line.get("exchanged") is True else None,
        }
        return only_known(fields)

    def _payment(self, order: Order, payment: Order) -> dict[str, Any]:
        """Return a payment. The cash beyond the amount and the tip was given back as change."""
        paid = total_of([self._money(order, payment, "amount"), self._money(order, payment, "tip_amount")]) or Decimal()
        tendered = self._money(order, payment, "cash_tendered") or Decimal()
        change = max(Decimal(), tendered - paid) if tendered else Decimal()
        name = text_of(as_object(payment.get("tender")).get("label"))
        return only_known({"name": name, "amount": signed(paid + change), "change": signed(change) if change else None})

    def _refund(self, order: Order, refund: Order) -> dict[str, Any]:
        """Return a bill for a refund. Its amount includes the tax, but not a tip that was given back."""
        amount, tip = self._money(order, refund, "amount"), self._money(order, refund, "tip_amount")
        if amount is None:
            raise RowProblem(NO_AMOUNT, f"has a refund without an amount. {self.request}")
        net = abs(amount) + abs(tip or Decimal())
        fields = {
            "closedAt": time_of_milliseconds(refund.get("created_time"), "createdTime"),
            "orderIds": [self.id_of(order)],
            "amounts": only_known(
                {
                    "vat": signed(self._size(order, refund, "tax_amount"), -1),
                    "tip": signed(self._size(order, refund, "tip_amount"), -1),
                    "net": signed(net, -1),
                }
            ),
            "payments": [{"name": "Refund", "amount": signed(net, -1)}],
        }
        return {"id": text_of(refund.get("id")), **only_known(fields)}

    def _size(self, order: Order, part: Order, name: str) -> Decimal | None:
        amount = self._money(order, part, name)
        return None if amount is None else abs(amount)

    def _money(self, order: Order, part: Order, name: str) -> Decimal | None:
        return self.minor_units(part.get(name), text_of(order.get("currency")), name)


def _elements(part: Order, name: str) -> list[Order]:
    return as_objects(as_object(part.get(name)).get("elements"))
