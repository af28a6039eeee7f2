"""Orders as SearchOrders, BatchRetrieveOrders, RetrieveOrder and the SDKs of Square return them.

A sale becomes a bill. A return is a separate order, and becomes a bill with negative quantities and amounts. A
cancelled order becomes a voided bill. Open orders and drafts are skipped.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import ClassVar

from counterfoil.importing.api_orders import (
    ApiOrder,
    Order,
    filled,
    group,
    inner,
    is_set,
    is_there,
    minor_units,
    number_of,
    only_text,
    part_of,
    parts_of,
    text_of,
    texts_of,
    time_of,
    translated,
    unreadable,
    word_of,
)
from counterfoil.importing.mapping import SALE, VOID
from counterfoil.importing.results import Reason, RowProblem
from counterfoil.importing.sentences import sentence
from counterfoil.importing.values import shown

CHANNELS = {"PICKUP": "pickup", "DELIVERY": "delivery", "SHIPMENT": "shipment"}
TAXES = {"INCLUSIVE": "Include", "ADDITIVE": "Exclude"}
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
# The status of a tender that was not paid, by the kind of the tender.
FAILED_TENDERS = {
    "card_details": ("FAILED", "VOIDED"),
    "buy_now_pay_later_details": ("FAILED", "VOIDED"),
    "square_account_details": ("FAILED", "VOIDED"),
    "bank_account_details": ("FAILED",),
}


class SquareOrder(ApiOrder):
    title = "Square orders"
    # With return_entries, SearchOrders returns only the IDs of the orders, in the list order_entries. They are read, so
    # that they are rejected with advice.
    lists = ("orders", "order", "order_entries", "orderEntries")
    marks = frozenset({"location_id"})
    # Orders of Shopify have a location too.
    without = frozenset({"financial_status", "admin_graphql_api_id"})
    request = "Request complete orders from the Orders API"
    statuses: ClassVar = {"COMPLETED": SALE, "CANCELED": VOID, "failed return": VOID}
    skipped: ClassVar = {
        "OPEN": sentence("the order is still open"),
        "DRAFT": sentence("the order is still open"),
        "open, but paid": sentence("the order is paid, but still open. Close it in Square, then import it again"),
    }

    def bill_id(self) -> str:
        return text_of(self.order.get("id"))

    def shop_id(self) -> str:
        return text_of(self.order.get("location_id"))

    def status(self) -> str:
        order = self.order
        state = text_of(order.get("state"))
        is_return = is_set(order.get("returns")) and not is_set(order.get("tenders")) and is_set(order.get("refunds"))
        if state == "COMPLETED" and is_return and not any(map(is_set, self._good_refunds())):
            # The refunds of a return may fail, after they were imported. Then nothing was returned.
            return "failed return"
        return "open, but paid" if state == "OPEN" and is_set(order.get("tenders")) else state

    def check(self, *, is_void: bool) -> None:
        order = self.order
        is_closed = text_of(order.get("state")) == "COMPLETED"
        has_returns = is_set(order.get("returns"))
        if is_set(order.get("order_id")) and not is_set(order.get("id")):
            detail = "is an order entry. Request the orders again with return_entries set to false"
            raise RowProblem(Reason.NOT_AN_ORDER, detail)
        totals = [inner(order, name, "total_money") for name in ("net_amounts", "return_amounts")]
        if has_returns and not any(map(is_set, totals)) and not is_void:
            raise self.no_amount("has returns, but no net_amounts")
        if is_closed and is_set(order.get("tenders")) and not any(map(is_set, self._good_tenders())):
            raise RowProblem(Reason.DOUBTFUL_VALUE, "has no successful payment, although it is closed")
        due = inner(order, "net_amount_due_money", "amount")
        if is_closed and not has_returns and is_set(due) and word_of(due) not in ("0", "0n"):
            raise RowProblem(Reason.DOUBTFUL_VALUE, "is closed, but was not paid completely")

    def _good_tenders(self) -> Iterator[Order]:
        for tender in parts_of(self.order.get("tenders")):
            statuses = {details: text_of(inner(tender, details, "status")) for details in FAILED_TENDERS}
            if not any(statuses[details] in failed for details, failed in FAILED_TENDERS.items()):
                yield tender

    def _good_refunds(self) -> Iterator[Order]:
        for refund in parts_of(self.order.get("refunds")):
            if text_of(refund.get("status")) not in ("REJECTED", "FAILED"):
                yield refund

    def _refunds_of_returns(self) -> Iterator[Order]:
        """Yield the refunds. If an order has no returns, they belong to a separate return order."""
        refunds = list(self._good_refunds())
        if is_set(self.order.get("returns")):
            yield from refunds

    def amount(self, name: str, value: object) -> Decimal | None:
        if not is_there(value):
            return None
        if not isinstance(value, dict) or value.get("amount") is None:
            raise unreadable(name, f"{shown(word_of(value))} is not an amount with a currency")
        return minor_units(value["amount"], word_of(value.get("currency") or ""), self.currency, name)

    def bill(self) -> Order:
        order = self.order
        # Only a cancelled order may have no time at which it was closed.
        times = [order.get("closed_at"), *([order.get("updated_at")] if self.meaning == VOID else [])]
        types = texts_of(fulfillment.get("type") for fulfillment in parts_of(order.get("fulfillments")))
        return filled(
            {
                "rev": order.get("version"),
                "closedAt": time_of("closedAt", *times),
                "orderIds": texts_of([order.get("id")]) or None,
                "receiptNumber": text_of(order.get("reference_id")),
                "channel": translated(types[0], CHANNELS) if types else None,
                "memberId": text_of(order.get("customer_id")),
                "amounts": self._amounts(),
            }
        )

    def _amounts(self) -> Order | None:
        order = self.order
        discounts = parts_of(order.get("discounts"))
        # The discounts that a pricing rule applied are campaigns, the others are those that a cashier gave.
        given = [one.get("applied_money") for one in discounts if not is_set(one.get("pricing_rule_id"))]
        campaigns = [
            {
                "id": text_of(one.get("pricing_rule_id")),
                "name": text_of(one.get("name")),
                "amount": self.amount("amount", one.get("applied_money")),
            }
            for one in discounts
            if is_set(one.get("pricing_rule_id"))
        ]
        taxes = parts_of(order.get("taxes"))
        return group(
            subtotal=self._subtotal(),
            discount=self.total("amounts.discount", given),
            campaigns=self.discounts(campaigns),
            discountTotal=self._without_returns("discountTotal", "discount_money"),
            serviceCharge=self._without_returns("serviceCharge", "service_charge_money"),
            vat=self._without_returns("vat", "tax_money", [tax.get("applied_money") for tax in taxes]),
            vatType=translated(only_text(tax.get("type") for tax in taxes), TAXES),
            rounding=self.total("amounts.rounding", [inner(order, "rounding_adjustment", "amount_money")]),
            tip=self._without_returns("tip", "tip_money", self._tips()),
            net=self._net(),
        )

    def _subtotal(self) -> Decimal | None:
        sold = [item.get("gross_sales_money") for item in parts_of(self.order.get("line_items"))]
        returned = [item.get("gross_return_money") for _, item in self._returned_items()]
        less = self.total("amounts.subtotal", returned)
        total = self.total("amounts.subtotal", sold)
        return total if less is None else (total or Decimal()) - less

    def _without_returns(self, name: str, field: str, parts: list[object] | None = None) -> Decimal | None:
        """Return a net amount, or the total less that of the returns, or the sum of the parts."""
        net = inner(self.order, "net_amounts", field)
        if is_there(net):
            return self.amount(f"amounts.{name}", net)
        total, returned = self.order.get(f"total_{field}"), inner(self.order, "return_amounts", field)
        if is_there(total) or is_there(returned):
            return self.difference(f"amounts.{name}", total, returned)
        return self.total(f"amounts.{name}", parts or [])

    def _tips(self) -> list[object]:
        return [tender.get("tip_money") for tender in parts_of(self.order.get("tenders"))]

    def _net(self) -> Decimal | None:
        """Return what the customer paid or, if it is negative, got back. `total_money` does not include returns."""
        name = "amounts.net"
        net, total = inner(self.order, "net_amounts", "total_money"), self.order.get("total_money")
        returned = inner(self.order, "return_amounts", "total_money")
        with_tips: Decimal | None = None
        if is_there(net):
            without_tips = self.amount(name, net)
            with_tips = self.total(name, [net, *self._tips()])
        else:
            without_tips = self.difference(name, total, returned)
            if is_there(total):
                with_tips = (self.total(name, [total, *self._tips()]) or Decimal()) - (
                    self.total(name, [returned]) or Decimal()
                )
        paid = self.total(name, (tender.get("amount_money") for tender in self._good_tenders()))
        back = self.total(name, (refund.get("amount_money") for refund in self._refunds_of_returns()))
        received = paid if back is None else (paid or Decimal()) - back
        return self.chosen([without_tips, with_tips], received, "tenders.amount_money - refunds.amount_money")

    def _returned_items(self) -> Iterator[tuple[Order, Order]]:
        """Yield each return with each item of it."""
        for one in parts_of(self.order.get("returns")):
            for item in parts_of(one.get("return_line_items")):
                yield one, item

    def lines(self) -> Iterator[Order]:
        for item in parts_of(self.order.get("line_items")):
            yield self._line(item, "gross_sales_money", "modifiers", is_negative=False)
        for _, item in self._returned_items():
            yield self._line(item, "gross_return_money", "return_modifiers", is_negative=True)

    def _line(self, item: Order, gross: str, modifiers: str, *, is_negative: bool) -> Order:
        total = item.get(gross) if is_there(item.get(gross)) else item.get("total_money")
        taxes = [*parts_of(item.get("applied_taxes")), *parts_of(item.get("return_taxes"))]
        return self.line(
            is_negative=is_negative,
            productId=text_of(item.get("catalog_object_id")),
            name=text_of(item.get("name")),
            variant=text_of(item.get("variation_name")),
            qty=number_of("qty", item.get("quantity")),
            unitPrice=self.amount("unitPrice", item.get("base_price_money")),
            total=self.amount("total", total),
            options=[_option(modifier) for modifier in parts_of(item.get(modifiers))],
            vat=any(taxes),
        )

    def payments(self) -> Iterator[Order]:
        for tender in self._good_tenders():
            kind = text_of(tender.get("type"))
            cash = part_of(tender.get("cash_details"))
            tendered = inner(cash, "buyer_tendered_money")
            change = inner(cash, "change_back_money") if is_set(tendered) else None
            yield self.payment(
                amount=self.amount("amount", tendered if is_there(tendered) else tender.get("amount_money")),
                change=self.amount("change", change),
                name=translated(kind, TENDERS, kind),
            )
        for refund in self._refunds_of_returns():
            if is_set(refund.get("amount_money")):
                amount = self.amount("amount", refund.get("amount_money"))
                yield self.payment(is_negative=True, name="Refund", amount=amount)


def _option(modifier: Order) -> Order:
    return filled(
        {
            "id": text_of(modifier.get("catalog_object_id")),
            "name": text_of(modifier.get("name")),
            "qty": number_of("qty", modifier.get("quantity")),
        }
    )
