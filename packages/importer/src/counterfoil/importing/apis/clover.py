"""Orders as version 3 of the API of Clover returns them with expand=lineItems,payments,refunds,credits,voids,discounts.

A paid order becomes a bill. What the customer paid is the sum of the successful payments and their tips. Each refund of
an order becomes a separate bill with negative amounts. Open orders and test orders are skipped.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import ClassVar

from counterfoil.importing.api_orders import (
    REFUNDS_ONLY,
    ApiOrder,
    Order,
    are_equal,
    filled,
    group,
    inner,
    is_set,
    is_there,
    minor_units,
    number_of,
    parts_of,
    text_of,
    texts_of,
    time_in_milliseconds,
    translated,
    word_of,
)
from counterfoil.importing.mapping import SALE, VOID
from counterfoil.importing.results import Reason, RowProblem
from counterfoil.importing.sentences import sentence
from counterfoil.importing.values import shown

SUCCESSFUL = ("SUCCESS", "AUTH_COMPLETED")
VOIDED = ("VOIDED", "VOIDING")
RESULTS = (*SUCCESSFUL, *VOIDED, "FAIL", "INITIATED")
REFUNDED = ("REFUNDED", "PARTIALLY_REFUNDED", "CREDITED")
THOUSANDTHS = 1000
_MERCHANT = re.compile("/merchants/([^/]+)/")


class CloverOrder(ApiOrder):
    title = "Clover orders"
    lists = ("elements",)
    marks = frozenset({"currency", "created_time", "total"})
    request = "Request the orders with expand=lineItems,payments,refunds,credits,voids,discounts"
    statuses: ClassVar = {
        "PAID": SALE,
        "REFUNDED": SALE,
        "PARTIALLY_REFUNDED": SALE,
        "CREDITED": SALE,
        "locked": SALE,
        "LOCKED": SALE,
        # An order with credits, and without payments, is no sale.
        "manual refund": REFUNDS_ONLY,
        # It may have been imported while its payments were still valid.
        "voided": VOID,
    }
    skipped: ClassVar = {
        "OPEN": sentence("the order is still open"),
        "open": sentence("the order is still open"),
        "PARTIALLY_PAID": sentence("the order is not paid completely"),
        "test order": sentence("the order is a test"),
    }

    def bill_id(self) -> str:
        return text_of(self.order.get("id"))

    def shop_id(self) -> str:
        merchant = _MERCHANT.search(text_of(self.order.get("href")))
        return merchant[1] if merchant else text_of(inner(self.order, "merchant", "id"))

    def status(self) -> str:
        order = self.order
        # Some orders have no payment state. Their own state shows whether they are closed.
        state, own_state = text_of(order.get("payment_state")), text_of(order.get("state"))
        if text_of(order.get("test_mode")) == "true":
            return "test order"
        is_paid = bool(self._good_payments())
        if not is_paid and (self._has_voided_payment() or self._has("voids")):
            return "voided"
        is_open = state == "OPEN" or (not is_set(order.get("payment_state")) and own_state in ("open", "OPEN"))
        if is_open and is_paid:
            return "open, but paid"
        if self._has("credits") and not is_paid:
            return "manual refund"
        return text_of(order.get("payment_state"), order.get("state"))

    # --- what it consists of ------------------------------------------------------------

    def _elements(self, name: str) -> list[Order]:
        return parts_of(inner(self.order, name, "elements"))

    def _has(self, name: str) -> bool:
        return is_set(inner(self.order, name, "elements"))

    def _good_payments(self) -> list[Order]:
        valid = [payment for payment in self._elements("payments") if not _is_true(payment.get("voided"))]
        return [payment for payment in valid if text_of(payment.get("result")) in SUCCESSFUL]

    def _has_voided_payment(self) -> bool:
        for payment in self._elements("payments"):
            if text_of(payment.get("result")) in VOIDED or _is_true(payment.get("voided")):
                return True
        return False

    def _refunds_of_payments(self) -> list[Order]:
        refunds = []
        for payment in self._elements("payments"):
            refunds += _elements_of(payment, "refunds")
        return refunds

    # --- what is refused ----------------------------------------------------------------

    def check(self, *, is_void: bool) -> None:
        if not is_void:
            self._check_refunds()
            if self.order.get("payments") is None and self._costs() and not self._has("credits"):
                raise self.no_amount("has no payments")
        for payment in self._elements("payments"):
            result = text_of(payment.get("result"))
            if result not in RESULTS:
                detail = f"has a payment with a result that is not known: {shown(result)}"
                raise RowProblem(Reason.UNKNOWN_STATUS, detail)
        if not is_void:
            self._check_payments()

    def _costs(self) -> bool:
        return text_of(self.order.get("total")) != "0"

    def _has_item(self, mark: str) -> bool:
        return any(_is_true(item.get(mark)) for item in self._elements("line_items"))

    def _check_refunds(self) -> None:
        is_refunded = text_of(self.order.get("payment_state")) in REFUNDED or self._has_item("refunded")
        if not is_refunded or self._has("refunds") or self._has("credits"):
            return
        if not any(is_set(inner(payment, "refunds", "elements")) for payment in self._elements("payments")):
            raise self.no_amount("was refunded, but has no refunds")

    def _check_payments(self) -> None:
        for payment in self._elements("payments"):
            if text_of(payment.get("result")) in SUCCESSFUL and not is_set(payment.get("amount")):
                raise self.no_amount("has a payment without an amount")
        payments = self._good_payments()
        if not payments and self._costs() and not self._has("credits"):
            raise self.no_amount("has no successful payment, although it is closed")
        # A surcharge for cards is paid in addition to the total. What is refunded or exchanged may change the total.
        is_refunded = self._has("refunds") or self._has("credits") or self._has_item("refunded")
        if is_refunded or self._has_item("exchanged") or not self._costs():
            return
        total = self.total("amounts.net", [self.order.get("total")])
        if not are_equal(total, self.total("amounts.net", (payment.get("amount") for payment in payments))):
            raise RowProblem(Reason.DOUBTFUL_VALUE, "has payments that are not its total")

    # --- what it becomes ----------------------------------------------------------------

    def amount(self, name: str, value: object) -> Decimal | None:
        if not is_there(value):
            return None
        return minor_units(value, word_of(self.order.get("currency") or ""), self.currency, name)

    def bill(self) -> Order:
        order = self.order
        times = []
        for part in (order, *self._good_payments()):
            time = time_in_milliseconds("closedAt", part.get("created_time"))
            if time:
                times.append(time)
        return filled(
            {
                "rev": order.get("modified_time"),
                "closedAt": max(times, default=None),
                "orderIds": texts_of([order.get("id")]) or None,
                "receiptNumber": text_of(order.get("title")),
                "deviceId": text_of(inner(order, "device", "id")),
                "cashier": text_of(inner(order, "employee", "name")),
                "channel": text_of(inner(order, "order_type", "label")),
                "amounts": self._amounts(),
            }
        )

    def _amounts(self) -> Order | None:
        payments = self._good_payments()
        totals = [line["total"] for line in self.converted_lines if "total" in line and not line.get("cancelled")]
        subtotal = sum(totals, Decimal()) if totals else None
        surcharges: list[object] = []
        for payment in payments:
            surcharges += _surcharges(payment)
        tips = [payment.get("tip_amount") for payment in payments]
        service = [inner(payment, "service_charge", "amount") for payment in payments]
        paid = [*(payment.get("amount") for payment in payments), *tips, *surcharges]
        return group(
            subtotal=subtotal,
            serviceCharge=self.total("amounts.serviceCharge", service),
            cardSurcharge=self.total("amounts.cardSurcharge", surcharges),
            vat=self.total("amounts.vat", (payment.get("tax_amount") for payment in payments)),
            vatType=translated(text_of(self.order.get("is_vat")), {"true": "Include", "false": "Exclude"}),
            tip=self.total("amounts.tip", tips),
            net=self.total("amounts.net", paid, Decimal()),
            discountTotal=self._discount(subtotal),
        )

    def _discount(self, subtotal: Decimal | None) -> Decimal | None:
        """Return the sum of the discounts, or None if one is not known.

        A discount of the order may only be known as a percentage of what other discounts leave. Of a line, it is not
        known.
        """
        of_order = self._elements("discounts")
        of_lines: list[Order] = []
        for item in self._elements("line_items"):
            of_lines += _elements_of(item, "discounts")
        by_rate = [discount for discount in of_order if not is_set(discount.get("amount"))]
        is_known = all(is_set(discount.get("percentage")) for discount in by_rate)
        if not is_known or not all(is_set(discount.get("amount")) for discount in of_lines):
            return None
        name = "amounts.discountTotal"
        amounts = []
        for part in (*of_order, *of_lines):
            amount = self.amount(name, part.get("amount"))
            if amount is not None:
                amounts.append(abs(amount))
        discount = sum(amounts, Decimal()) if amounts else None
        rates = [number_of(name, part.get("percentage")) or Decimal() for part in by_rate]
        if not rates or subtotal is None:
            return discount
        discount = discount or Decimal()
        return discount + self.rounded((subtotal - discount) * sum(rates, Decimal()) / 100)

    def lines(self) -> Iterator[Order]:
        for item in self._elements("line_items"):
            modifications = _elements_of(item, "modifications")
            thousandths = number_of("qty", item.get("unit_qty"))
            qty = Decimal(1) if thousandths is None else thousandths / THOUSANDTHS
            prices = [item.get("price"), *(modification.get("amount") for modification in modifications)]
            yield self.line(
                productId=text_of(inner(item, "item", "id")),
                name=text_of(item.get("name")),
                qty=qty,
                total=self.rounded((self.total("total", prices) or Decimal()) * qty),
                options=[filled({"name": text_of(modification.get("name"))}) for modification in modifications],
                cancelled=_is_true(item.get("voided")) or _is_true(item.get("exchanged")),
            )

    def payments(self) -> Iterator[Order]:
        for payment in self._good_payments():
            amounts = [payment.get("amount"), payment.get("tip_amount"), *_surcharges(payment)]
            yield self.payment(
                name=text_of(inner(payment, "tender", "label")),
                amount=self.total("amount", amounts),
                tendered=self.amount("tendered", payment.get("cash_tendered")),
            )

    def refunds(self) -> Iterator[Order]:
        # The refunds of the order are those of its payments.
        found = self._elements("refunds") or self._refunds_of_payments()
        for refund in [*found, *self._elements("credits")]:
            amounts = [refund.get("amount"), refund.get("tip_amount")]
            payment = self.payment(is_negative=True, name="Refund", amount=self.total("amount", amounts))
            bill = {
                "id": text_of(refund.get("id")),
                "rev": self.order.get("modified_time"),
                "closedAt": time_in_milliseconds("closedAt", refund.get("created_time")),
                "orderIds": texts_of([self.order.get("id")]) or None,
                # Its amount includes the tax, but not a tip that was given back.
                "amounts": group(
                    vat=self.total("amounts.vat", [refund.get("tax_amount")]),
                    tip=self.total("amounts.tip", [refund.get("tip_amount")]),
                    net=self.total("amounts.net", amounts) if is_there(refund.get("amount")) else None,
                ),
                "payments": [payment] if is_set(refund.get("id")) else None,
                "void": True if _is_true(refund.get("voided")) else None,
            }
            yield filled(bill)


def _elements_of(part: Order, name: str) -> list[Order]:
    return parts_of(inner(part, name, "elements"))


def _surcharges(payment: Order) -> Iterable[object]:
    return [charge.get("amount") for charge in _elements_of(payment, "additional_charges")]


def _is_true(value: object) -> bool:
    return text_of(value) == "true"
