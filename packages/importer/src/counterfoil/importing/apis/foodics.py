"""Orders as the list, a single request and webhooks of the API of Foodics return them.

A closed order becomes a bill, and a void order a voided bill. A returned order is a separate order, with positive
amounts and a reference to the original; it becomes a bill with negative quantities and amounts. Open, declined, joined
and draft orders are skipped.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import ClassVar

from counterfoil.importing.api_orders import (
    ApiOrder,
    Order,
    are_equal,
    day_of,
    filled,
    group,
    inner,
    is_set,
    is_there,
    milliseconds_of,
    number_of,
    part_of,
    parts_of,
    text_of,
    texts_of,
    time_of,
    translated,
)
from counterfoil.importing.mapping import REFUND, SALE, VOID
from counterfoil.importing.results import Reason, RowProblem
from counterfoil.importing.sentences import sentence

VOIDED_LINE = "5"
IN_THE_HOUSE = "1"
PROMOTION = "3"
CHANNELS = {
    IN_THE_HOUSE: "counter",
    "2": "pickup",
    "3": {"id": "delivery", "name": "Delivery"},
    "4": {"id": "drive_thru", "name": "Drive-through"},
}
_DELIVERY = re.compile("deliver|توصيل")


class FoodicsOrder(ApiOrder):
    title = "Foodics orders"
    lists = ("data", "order")
    marks = frozenset({"business_date", "status", "type"})
    request = (
        "Request the orders with include=branch,payments.payment_method,products.product,products.taxes,"
        "products.options.modifier_option,products.options.taxes,combos.products.product,combos.products.taxes,"
        "combos.products.options.modifier_option,combos.products.options.taxes,charges.charge,charges.taxes"
    )
    needs_timezone = True
    without_shop = sentence("Request the orders with include=branch, or use --shop")
    statuses: ClassVar = {"4": SALE, "5": REFUND, "7": VOID}
    skipped: ClassVar = {
        "1": sentence("the order is still open"),
        "2": sentence("the order is still open"),
        "3": sentence("the order was declined"),
        "6": sentence("the order was joined with another one"),
        "8": sentence("the order is a draft"),
    }

    def bill_id(self) -> str:
        return text_of(self.order.get("id"))

    def shop_id(self) -> str:
        return text_of(inner(self.order, "branch", "id"), self.order.get("branch_id"))

    def shop_name(self) -> str:
        return text_of(inner(self.order, "branch", "name"))

    def status(self) -> str:
        return text_of(self.order.get("status"))

    # --- what it consists of ------------------------------------------------------------

    def _products(self) -> list[Order]:
        return parts_of(self.order.get("products"))

    def _combo_products(self) -> list[Order]:
        products = []
        for combo in parts_of(self.order.get("combos")):
            products += parts_of(combo.get("products"))
        return products

    def _charges(self) -> list[Order]:
        return parts_of(self.order.get("charges"))

    def _payments(self) -> list[Order]:
        return parts_of(self.order.get("payments"))

    # --- what is refused ----------------------------------------------------------------

    def check(self, *, is_void: bool) -> None:
        # Without its payments, the order does not show the tip, and without taxes, not the tax.
        if not is_void:
            missing = next(self._missing(), None)
            if missing:
                raise self.no_amount(f"has no {missing}")
            missing = next(self._not_requested(), None)
            if missing and not self._costs_nothing_else():
                raise self.no_amount(f"has no {missing}")
            self._check_payments()
        if is_set(self.order.get("deleted_at")):
            raise RowProblem(Reason.UNKNOWN_STATUS, "was deleted")

    def _check_payments(self) -> None:
        """Raise `RowProblem` if the payments are not the total, with or without their tips."""
        total = self.order.get("total_price")
        paid = [payment.get("amount") for payment in self._payments()]
        if self.status() == "7" or not is_set(total) or not any(map(is_set, paid)):
            return
        tips = [payment.get("tips") for payment in self._payments()]
        name = "amounts.net"
        totals = self.total(name, [total]), self.total(name, [total, *tips])
        if not are_equal(self.total(name, paid, Decimal()), *totals):
            raise RowProblem(Reason.DOUBTFUL_VALUE, "has payments that are not its total")

    def _missing(self) -> Iterator[str]:
        """Yield the names of what a complete order has and this one lacks."""
        if _lacks([self.order], "payments"):
            yield "payments"
        if _lacks(self._payments(), "amount"):
            yield "payments.amount"
        if _lacks([self.order], "products"):
            yield "products"
        yield from _without_taxes("products", self._products())
        if _lacks(parts_of(self.order.get("combos")), "products"):
            yield "combos.products"
        yield from _without_taxes("combos.products", self._combo_products())
        if _lacks(_valid(self._charges()), "taxes"):
            yield "charges.taxes"
        for name, parts in (
            ("products", _valid(self._products())),
            ("products.options", _options(_valid(self._products()))),
            ("combos.products", _valid(self._combo_products())),
            ("charges", _valid(self._charges())),
        ):
            if _lacks(_taxes(parts), "pivot"):
                yield f"{name}.taxes.pivot"

    def _not_requested(self) -> Iterator[str]:
        """Yield the names of what may be left out if the order costs nothing else."""
        if _lacks(_valid(self._products()), "options"):
            yield "products.options"
        if _lacks(_valid(self._combo_products()), "options"):
            yield "combos.products.options"
        for name in ("combos", "charges"):
            if _lacks([self.order], name):
                yield name

    def _costs_nothing_else(self) -> bool:
        """Return whether what is there adds up to the total, with its taxes in the prices or on top."""
        order, name = self.order, "amounts.net"
        products = [*_valid(self._products()), *_valid(self._combo_products())]
        priced = [*products, *_options(products)]
        added = [
            *(part.get("total_price") for part in priced),
            *(charge.get("amount") for charge in _valid(self._charges())),
            order.get("rounding_amount"),
        ]
        discount = self.total(name, [order.get("discount_amount")], Decimal()) or Decimal()
        costs = (self.total(name, added, Decimal()) or Decimal()) - discount
        taxes = self.total(name, self._tax_amounts(), Decimal()) or Decimal()
        return are_equal(self.total(name, [order.get("total_price")]), costs, costs + taxes)

    def _tax_amounts(self) -> list[object]:
        products = [*_valid(self._products()), *_valid(self._combo_products())]
        taxed = [*products, *_options(products), *_valid(self._charges())]
        return [inner(tax, "pivot", "amount") for tax in _taxes(taxed)]

    # --- what it becomes ----------------------------------------------------------------

    def bill(self) -> Order:
        order = self.order
        times = [order.get("closed_at")]
        if self.meaning == VOID:
            times.append(order.get("updated_at"))
        return filled(
            {
                "rev": milliseconds_of("rev", order.get("updated_at")),
                "closedAt": time_of("closedAt", *times),
                "tradingDay": day_of("tradingDay", order.get("business_date")),
                "orderIds": texts_of([order.get("id"), inner(order, "original_order", "id")]) or None,
                "receiptNumber": text_of(order.get("reference"), order.get("check_number")),
                "deviceId": text_of(inner(order, "device", "id")),
                "stationId": text_of(inner(order, "device", "reference")),
                "cashier": text_of(inner(order, "closer", "name")),
                "table": group(id=text_of(inner(order, "table", "id")), name=text_of(inner(order, "table", "name"))),
                "memberId": text_of(inner(order, "customer", "id")),
                "channel": self._channel(),
                "amounts": self._amounts(),
            }
        )

    def _channel(self) -> object:
        """Return the channel. An order in the house has a table, or was taken at the counter."""
        kind = text_of(self.order.get("type"))
        has_table = any(is_set(inner(self.order, "table", name)) for name in ("id", "name"))
        return None if kind == IN_THE_HOUSE and has_table else translated(kind, CHANNELS)

    def _amounts(self) -> Order | None:
        order = self.order
        coupon, promotion, discount = order.get("coupon"), order.get("promotion"), order.get("discount_amount")
        is_own = not is_set(coupon) and not is_set(promotion) and text_of(order.get("discount_type")) != PROMOTION
        deliveries: list[object] = []
        services: list[object] = []
        for charge in self._charges():
            is_delivery = _DELIVERY.search(text_of(inner(charge, "charge", "name")).lower())
            (deliveries if is_delivery else services).append(charge.get("amount"))
        total, tips = order.get("total_price"), [payment.get("tips") for payment in self._payments()]
        return group(
            subtotal=self.total("amounts.subtotal", [order.get("subtotal_price")]),
            discount=self.total("amounts.discount", [discount]) if is_own else None,
            discountTotal=self.total("amounts.discountTotal", [discount]),
            coupons=self.discounts(self._reduction(coupon, discount)),
            campaigns=None if is_set(coupon) else self.discounts(self._reduction(promotion, discount)),
            serviceCharge=self.total("amounts.serviceCharge", services),
            deliveryFee=self.total("amounts.deliveryFee", deliveries),
            vat=self.total("amounts.vat", self._tax_amounts()),
            rounding=self.total("amounts.rounding", [order.get("rounding_amount")]),
            tip=self.total("amounts.tip", tips),
            net=self.total("amounts.net", [total, *tips]) if is_there(total) else None,
        )

    def _reduction(self, value: object, amount: object) -> list[Order]:
        """Return the coupon or the promotion that the discount of the order is."""
        source = part_of(value)
        if source is None or not is_set(source.get("id")):
            return []
        names = {"id": text_of(source.get("id")), "name": text_of(source.get("name"))}
        return [{**names, "amount": self.amount("amount", amount)}]

    def void_reason(self) -> str | None:
        products = [*self._products(), *self._combo_products()]
        reasons = [self.order.get("void_reason"), *(product.get("void_reason") for product in products)]
        return text_of(*(inner(reason, "name") for reason in reasons)) or None

    def lines(self) -> Iterator[Order]:
        for item in [*self._products(), *self._combo_products()]:
            options = parts_of(item.get("options"))
            prices = [item.get("total_price"), *(option.get("total_price") for option in options)]
            yield self.line(
                productId=text_of(inner(item, "product", "id")),
                name=text_of(inner(item, "product", "name")),
                qty=number_of("qty", item.get("quantity")),
                unitPrice=self.amount("unitPrice", item.get("unit_price")),
                total=self.total("total", prices),
                options=[_option(option) for option in options],
                categoryIds=texts_of([inner(item, "product", "category", "id")]) or None,
                cancelled=text_of(item.get("status")) == VOIDED_LINE,
                vat=any(parts_of(item.get("taxes"))),
            )

    def payments(self) -> Iterator[Order]:
        for payment in self._payments():
            yield self.payment(
                name=text_of(inner(payment, "payment_method", "name")),
                amount=self.total("amount", [payment.get("amount"), payment.get("tips")]),
                tendered=self.amount("tendered", payment.get("tendered")),
            )


def _option(option: Order) -> Order:
    return filled(
        {
            "id": text_of(inner(option, "modifier_option", "id")),
            "name": text_of(inner(option, "modifier_option", "name")),
            "qty": number_of("qty", option.get("quantity")),
        }
    )


def _valid(parts: Iterable[Order]) -> list[Order]:
    """Return the parts that are not void."""
    return [part for part in parts if text_of(part.get("status")) != VOIDED_LINE]


def _options(products: Iterable[Order]) -> list[Order]:
    """Return the options of products that are not void."""
    options = []
    for product in products:
        options += _valid(parts_of(product.get("options")))
    return options


def _taxes(parts: Iterable[Order]) -> list[Order]:
    taxes = []
    for part in parts:
        taxes += parts_of(part.get("taxes"))
    return taxes


def _lacks(parts: Iterable[Order], name: str) -> bool:
    """Return whether a part has no such field, as one that was not requested."""
    return any(part.get(name) is None for part in parts)


def _without_taxes(name: str, products: list[Order]) -> Iterator[str]:
    if _lacks(_valid(products), "taxes"):
        yield f"{name}.taxes"
    if _lacks(_options(_valid(products)), "taxes"):
        yield f"{name}.options.taxes"
