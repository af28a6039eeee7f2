"""Square: orders as SearchOrders, BatchRetrieveOrders, RetrieveOrder and the SDKs return them.

A sale becomes a bill. In Square, a return is a separate order; it becomes a
separate bill with negative quantities and amounts. A cancelled order becomes a
voided bill. Open orders and drafts are skipped.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

from counterfoil.importing.mapping import SALE, VOID
from counterfoil.importing.orders import (
    STILL_OPEN,
    Order,
    OrderFormat,
    as_object,
    as_objects,
    only_known,
    signed,
    text_of,
    total_of,
    written_number,
)
from counterfoil.importing.results import NO_AMOUNT, NOT_AN_ORDER, RowProblem

TENDERS = {
    "CARD": "Card",
    "CASH": "Cash",
    "SQUARE_GIFT_CARD": "Gift card",
    "WALLET": "Wallet",
    "BANK_ACCOUNT": "Bank account",
    "BUY_NOW_PAY_LATER": "Buy now, pay later",
    "SQUARE_ACCOUNT": "Square account",
    "THIRD_PARTY_CARD": "Card",
    "NO_SALE": "No sale",
    "OTHER": "Other",
}
FAILED_REFUNDS = frozenset({"REJECTED", "FAILED"})
CHANNELS = {"PICKUP": "pickup", "DELIVERY": "delivery", "SHIPMENT": "shipment"}
VAT_TYPES = {"INCLUSIVE": "Include", "ADDITIVE": "Exclude"}


class SquareOrders(OrderFormat):
    """Converts Square orders."""

    title = "Square orders"
    # With return_entries, SearchOrders returns only the IDs of the orders, in the list order_entries. They are read, so
    # that they are rejected with advice.
    list_names = ("orders", "order", "order_entries", "orderEntries")
    marks = frozenset({"location_id"})
    request = "Request complete orders from the Orders API"
    statuses: ClassVar = {"COMPLETED": SALE, "CANCELED": VOID}
    skipped: ClassVar = {"OPEN": STILL_OPEN, "DRAFT": STILL_OPEN}

    def status_of(self, order: Order) -> str:
        if "order_id" in order and "id" not in order:
            raise RowProblem(
                NOT_AN_ORDER, "is an order entry. Request the orders again with return_entries set to false"
            )
        return text_of(order.get("state"))

    def shop_of(self, order: Order) -> str:
        return text_of(order.get("location_id"))

    def bills(self, order: Order, meaning: str) -> list[dict[str, Any]]:
        # Only a cancelled order may have no time at which it was closed.
        closed_at = order.get("closed_at") or (order.get("updated_at") if meaning == VOID else None)
        fields = {
            "rev": order.get("version"),
            "closedAt": closed_at,
            "orderIds": [self.id_of(order)],
            "receiptNumber": order.get("reference_id"),
            "channel": self._channel(order),
            "memberId": order.get("customer_id"),
            "lines": [*self._lines(order), *self._returned_lines(order)],
            "amounts": self._amounts(order),
            "payments": [*self._payments(order), *self._refunds(order)],
            "void": True if meaning == VOID else None,
        }
        return [only_known(fields)]

    def _channel(self, order: Order) -> str | None:
        kinds = [text_of(one.get("type")) for one in as_objects(order.get("fulfillments"))]
        return CHANNELS.get(kinds[0]) if kinds else None

    def _lines(self, order: Order) -> list[dict[str, Any]]:
        return [self._line(one, "gross_sales_money", "modifiers", 1) for one in as_objects(order.get("line_items"))]

    def _returned_lines(self, order: Order) -> list[dict[str, Any]]:
        return [
            self._line(one, "gross_return_money", "return_modifiers", -1)
            for part in as_objects(order.get("returns"))
            for one in as_objects(part.get("return_line_items"))
        ]

    def _line(self, item: Order, gross: str, modifiers: str, sign: int) -> dict[str, Any]:
        name, variation = text_of(item.get("name")), text_of(item.get("variation_name"))
        options = as_objects(item.get(modifiers))
        money = item.get(gross) or item.get("total_money")
        total, qty = self.money(money), written_number(item.get("quantity"), "quantity")
        return only_known(
            {
                "productId": item.get("catalog_object_id"),
                "name": f"{name} ({variation})" if name and variation else name or variation,
                "qty": signed(qty, sign),
                # With modifiers, the base price is not what was charged per unit. It is left out, and `load` computes
                # the unit price from the total.
                "unitPrice": None if options else self.written(item.get("base_price_money")),
                "total": signed(total, sign),
                "options": [
                    only_known(
                        {
                            "id": one.get("catalog_object_id"),
                            "name": one.get("name"),
                            "qty": None if one.get("quantity") is None else text_of(one["quantity"]),
                        }
                    )
                    for one in options
                ],
                "vat": bool(item.get("applied_taxes") or item.get("return_taxes")),
            }
        )

    def _amounts(self, order: Order) -> dict[str, Any]:
        net = as_object(order.get("net_amounts"))
        sold = [self.money(one.get("gross_sales_money")) for one in as_objects(order.get("line_items"))]
        returned = [
            self.money(one.get("gross_return_money"))
            for part in as_objects(order.get("returns"))
            for one in as_objects(part.get("return_line_items"))
        ]
        subtotal = total_of([*sold, *(None if one is None else -one for one in returned)])
        manual, campaigns = self._discounts(order)
        return only_known(
            {
                "subtotal": signed(subtotal),
                "discount": signed(manual),
                "discountTotal": self.written(net.get("discount_money") or order.get("total_discount_money")),
                "campaigns": campaigns or None,
                "serviceCharge": self.written(
                    net.get("service_charge_money") or order.get("total_service_charge_money")
                ),
                "vat": self.written(net.get("tax_money") or order.get("total_tax_money")),
                "vatType": self._vat_type(order),
                "rounding": self.written(as_object(order.get("rounding_adjustment")).get("amount_money")),
                "tip": self.written(net.get("tip_money") or order.get("total_tip_money")),
                "net": self._net(order, net),
            }
        )

    def _discounts(self, order: Order) -> tuple[Decimal | None, list[dict[str, Any]]]:
        """Return the total of the discounts that the cashier gave, and the discounts that a pricing rule applied."""
        found = as_objects(order.get("discounts"))
        manual = total_of([self.money(one.get("applied_money")) for one in found if not one.get("pricing_rule_id")])
        campaigns = [
            only_known(
                {
                    "id": one.get("pricing_rule_id"),
                    "name": one.get("name"),
                    "amount": self.written(one.get("applied_money")),
                }
            )
            for one in found
            if one.get("pricing_rule_id")
        ]
        return manual, campaigns

    def _vat_type(self, order: Order) -> str | None:
        kinds = {text_of(one.get("type")) for one in as_objects(order.get("taxes"))}
        return VAT_TYPES.get(kinds.pop()) if len(kinds) == 1 else None

    def _payments(self, order: Order) -> list[dict[str, Any]]:
        return [self._payment(one) for one in as_objects(order.get("tenders"))]

    def _payment(self, tender: Order) -> dict[str, Any]:
        kind = text_of(tender.get("type"))
        cash = as_object(tender.get("cash_details"))
        given = self.written(cash.get("buyer_tendered_money"))
        return only_known(
            {
                "name": TENDERS.get(kind, kind),
                "amount": given or self.written(tender.get("amount_money")),
                "change": self.written(cash.get("change_back_money")) if given else None,
            }
        )

    def _refunds(self, order: Order) -> list[dict[str, Any]]:
        """Return refunds as negative payments.

        If an order has no returns, its refunds are left out, because they belong to a separate return order.
        """
        if not order.get("returns"):
            return []
        refunds: Sequence[Order] = [
            one for one in as_objects(order.get("refunds")) if text_of(one.get("status")) not in FAILED_REFUNDS
        ]
        amounts = [self.money(one.get("amount_money")) for one in refunds]
        return [{"name": "Refund", "amount": signed(amount, -1)} for amount in amounts if amount is not None]

    def _net(self, order: Order, net: Order) -> str | None:
        """Return what the customer paid or, if it is negative, got back. `total_money` does not include returns."""
        if net.get("total_money"):
            return self.written(net["total_money"])
        if order.get("returns"):
            raise RowProblem(NO_AMOUNT, f"has returns, but no net_amounts. {self.request}")
        return self.written(order.get("total_money"))

    def written(self, money: object) -> str | None:
        return signed(self.money(money))

    def money(self, money: object) -> Decimal | None:
        """Return a Square amount in the main unit of the currency, such as baht."""
        if not isinstance(money, dict):
            return None
        return self.minor_units(money.get("amount"), text_of(money.get("currency")), "amount")
