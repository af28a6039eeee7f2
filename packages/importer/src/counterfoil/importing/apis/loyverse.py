"""Receipts as the API of Loyverse returns them. The exports of its back office are in ../mappings.

A sale becomes a bill, a refund one with negative amounts, and a cancelled receipt a voided bill.
"""

from collections.abc import Iterator
from typing import ClassVar

from counterfoil.importing.api_orders import (
    ApiOrder,
    Order,
    filled,
    group,
    is_set,
    is_there,
    milliseconds_of,
    number_of,
    only_text,
    parts_of,
    text_of,
    texts_of,
    time_of,
    translated,
)
from counterfoil.importing.mapping import REFUND, SALE, VOID

CHANNELS = {"dine in": "counter", "takeout": "take_away", "delivery": "delivery", "pickup": "pickup"}
TAXES = {"INCLUDED": "Include", "ADDED": "Exclude"}


class LoyverseReceipt(ApiOrder):
    title = "Loyverse receipts (API)"
    lists = ("receipts",)
    marks = frozenset({"receipt_number", "receipt_type"})
    request = "Request complete receipts from the API"
    statuses: ClassVar = {"SALE": SALE, "REFUND": REFUND, "cancelled": VOID}

    def bill_id(self) -> str:
        return text_of(self.order.get("receipt_number"))

    def shop_id(self) -> str:
        return text_of(self.order.get("store_id"))

    def status(self) -> str:
        kind = text_of(self.order.get("receipt_type"))
        return "cancelled" if is_set(self.order.get("cancelled_at")) and kind in ("SALE", "REFUND") else kind

    def check(self, *, is_void: bool) -> None:
        """Refuse nothing: a receipt that lacks its total is refused as that of any API."""

    def bill(self) -> Order:
        receipt = self.order
        option = text_of(receipt.get("dining_option"))
        return filled(
            {
                "rev": milliseconds_of("rev", receipt.get("updated_at")),
                "closedAt": time_of("closedAt", receipt.get("receipt_date"), receipt.get("created_at")),
                "orderIds": texts_of([receipt.get("receipt_number"), receipt.get("refund_for")]) or None,
                "receiptNumber": text_of(receipt.get("receipt_number")),
                "deviceId": text_of(receipt.get("pos_device_id")),
                "memberId": text_of(receipt.get("customer_id")),
                "channel": translated(option, CHANNELS, option),
                "amounts": self._amounts(),
            }
        )

    def _amounts(self) -> Order | None:
        receipt = self.order
        taxes = parts_of(receipt.get("total_taxes"))
        vat = receipt.get("total_tax")
        vats = [vat] if is_there(vat) else [tax.get("money_amount") for tax in taxes]
        gross = [line.get("gross_total_money") for line in parts_of(receipt.get("line_items"))]
        return group(
            subtotal=self.total("amounts.subtotal", gross),
            discountTotal=self.total("amounts.discountTotal", [receipt.get("total_discount")]),
            cardSurcharge=self.total("amounts.cardSurcharge", [receipt.get("surcharge")]),
            vat=self.total("amounts.vat", vats),
            vatType=translated(only_text(tax.get("type") for tax in taxes), TAXES),
            tip=self.total("amounts.tip", [receipt.get("tip")]),
            net=self._net(),
        )

    def _net(self) -> object:
        """Return the total. Whether it includes the tip and the surcharge is found from the payments."""
        total, tip, surcharge = (self.order.get(name) for name in ("total_money", "tip", "surcharge"))
        choices = [[total], [total, tip], [total, surcharge], [total, tip, surcharge]] if is_there(total) else []
        paid = [payment.get("money_amount") for payment in parts_of(self.order.get("payments"))]
        return self.chosen(
            [self.total("amounts.net", choice) for choice in choices],
            self.total("amounts.net", paid),
            "payments.money_amount",
        )

    def lines(self) -> Iterator[Order]:
        for item in parts_of(self.order.get("line_items")):
            modifiers = parts_of(item.get("line_modifiers"))
            yield self.line(
                productId=text_of(item.get("item_id")),
                name=text_of(item.get("item_name")),
                variant=text_of(item.get("variant_name")),
                qty=number_of("qty", item.get("quantity")),
                unitPrice=self.amount("unitPrice", item.get("price")),
                total=self.amount("total", item.get("gross_total_money")),
                options=[
                    filled({"name": text_of(modifier.get("option"), modifier.get("name"))}) for modifier in modifiers
                ],
                vat=any(parts_of(item.get("line_taxes"))),
            )

    def payments(self) -> Iterator[Order]:
        for payment in parts_of(self.order.get("payments")):
            amount = self.amount("amount", payment.get("money_amount"))
            yield self.payment(name=text_of(payment.get("name")), amount=amount)
