"""Foodics: orders as the list, a single request and webhooks of its API return them.

A closed order becomes a bill, and a void order becomes a voided bill. A returned
order (status 5) is a separate order, with positive amounts and a reference to the
original; it becomes a bill with negative quantities and amounts. Open, declined,
joined and draft orders are skipped. Times are in UTC.
"""

from decimal import Decimal
from typing import Any, ClassVar

from counterfoil.importing.mapping import REFUND, SALE, VOID
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
from counterfoil.importing.results import NO_AMOUNT, UNREADABLE_VALUE, RowProblem
from counterfoil.importing.values import DateFormat, UnreadableCell, decimal_text, read_day, read_time

PRODUCT_VOID = "5"
DINE_IN, PICK_UP, DELIVERY, DRIVE_THROUGH = "1", "2", "3", "4"
CHANNELS: dict[str, dict[str, str] | str] = {
    PICK_UP: "pickup",
    DELIVERY: {"id": "delivery", "name": "Delivery"},
    DRIVE_THROUGH: {"id": "drive_thru", "name": "Drive-through"},
}
COUPON_DISCOUNT = "3"
DELIVERY_WORDS = ("deliver", "توصيل")
UTC_TIMES = DateFormat("ymd", "UTC")


class FoodicsOrders(OrderFormat):
    """Converts Foodics orders."""

    title = "Foodics orders"
    list_names = ("data", "order")
    marks = frozenset({"business_date", "status", "type"})
    request = "Request the orders with include=branch,payments.payment_method,products.product"
    statuses: ClassVar = {"4": SALE, "5": REFUND, "7": VOID}
    skipped: ClassVar = {
        "1": STILL_OPEN,
        "2": STILL_OPEN,
        "3": "the order was declined",
        "6": "the order was joined with another one",
        "8": "the order is a draft",
    }

    def status_of(self, order: Order) -> str:
        return text_of(order.get("status"))

    def shop_of(self, order: Order) -> str:
        return text_of(as_object(order.get("branch")).get("id") or order.get("branch_id"))

    def shop_name(self, order: Order) -> str:
        return text_of(as_object(order.get("branch")).get("name")) or self.shop_of(order)

    def needs_timezone(self) -> bool:
        return True

    def without_shop(self) -> str:
        return "Request the orders with include=branch, or use --shop"

    def bills(self, order: Order, meaning: str) -> list[dict[str, Any]]:
        for name in ("payments", "products") if meaning != VOID else ():
            # Without its payments, the order does not show the tip.
            if name not in order:
                raise RowProblem(NO_AMOUNT, f"has no {name}. {self.request}")
        sign = -1 if meaning == REFUND else 1
        original = text_of(as_object(order.get("original_order")).get("id"))
        products = self._products(order)
        fields = only_known(
            {
                "closedAt": _utc(order.get("closed_at") or (order.get("updated_at") if meaning == VOID else None)),
                "tradingDay": _day(order.get("business_date")),
                "orderIds": [one for one in (text_of(order.get("id")), original) if one],
                "receiptNumber": text_of(order.get("reference") or order.get("check_number")),
                "deviceId": as_object(order.get("device")).get("id"),
                "stationId": as_object(order.get("device")).get("reference"),
                "cashier": as_object(order.get("closer")).get("name"),
                "table": _table(order),
                "channel": self._channel(order),
                "memberId": text_of(as_object(order.get("customer")).get("id")),
                "lines": [_line(product, sign) for product in products],
                "amounts": self._amounts(order, products, sign),
                "payments": [_payment(one, sign) for one in as_objects(order.get("payments"))],
                "void": _void(order, products) if meaning == VOID else None,
            }
        )
        return [fields]

    def _products(self, order: Order) -> list[Order]:
        """Return the products of an order, including those within combos."""
        combos = as_objects(order.get("combos"))
        return [
            *as_objects(order.get("products")),
            *(product for combo in combos for product in as_objects(combo.get("products"))),
        ]

    def _channel(self, order: Order) -> dict[str, str] | str | None:
        kind = text_of(order.get("type"))
        if kind == DINE_IN:
            return None if _table(order) else "counter"
        return CHANNELS.get(kind)

    def _amounts(self, order: Order, products: list[Order], sign: int) -> dict[str, Any]:
        discount = _number(order, "discount_amount")
        coupon, promotion = as_object(order.get("coupon")), as_object(order.get("promotion"))
        by_name: dict[bool, list[Decimal]] = {True: [], False: []}
        for charge in as_objects(order.get("charges")):
            name = text_of(as_object(charge.get("charge")).get("name")).lower()
            amount = _number(charge, "amount")
            if amount is not None:
                by_name[any(word in name for word in DELIVERY_WORDS)].append(amount)
        tips = total_of([_number(one, "tips") for one in as_objects(order.get("payments"))])
        total = _number(order, "total_price")
        net = total if tips is None or total is None else total + tips
        is_manual = not coupon and not promotion and text_of(order.get("discount_type")) != COUPON_DISCOUNT
        return only_known(
            {
                "subtotal": signed(_number(order, "subtotal_price"), sign),
                "discount": signed(discount, sign) if is_manual else None,
                "discountTotal": signed(discount, sign),
                "coupons": [_promotion(coupon, discount, sign)] if coupon else None,
                "campaigns": [_promotion(promotion, discount, sign)] if promotion and not coupon else None,
                "serviceCharge": signed(total_of(by_name[False]), sign),
                "deliveryFee": signed(total_of(by_name[True]), sign),
                "vat": signed(_taxes(order, products), sign),
                "rounding": signed(_number(order, "rounding_amount"), sign),
                "tip": signed(tips, sign),
                "net": signed(net, sign),
            }
        )


def _line(product: Order, sign: int) -> dict[str, Any]:
    details, options = as_object(product.get("product")), as_objects(product.get("options"))
    total = total_of([_number(product, "total_price"), *(_number(one, "total_price") for one in options)])
    category = text_of(as_object(details.get("category")).get("id"))
    return only_known(
        {
            "productId": text_of(details.get("id")),
            "name": text_of(details.get("name")),
            "qty": signed(_number(product, "quantity"), sign),
            # With options, `unit_price` is not what was charged per unit. It is left out, and `load` computes the unit
            # price from the total.
            "unitPrice": None if options else signed(_number(product, "unit_price"), 1),
            "total": signed(total, sign),
            "options": [_option(one) for one in options],
            "categoryIds": [category] if category else None,
            "cancelled": text_of(product.get("status")) == PRODUCT_VOID,
            "vat": bool(as_objects(product.get("taxes"))),
        }
    )


def _option(option: Order) -> dict[str, Any]:
    details = as_object(option.get("modifier_option"))
    qty = _number(option, "quantity")
    return only_known(
        {
            "id": text_of(details.get("id")),
            "name": text_of(details.get("name")),
            "qty": None if qty is None else decimal_text(qty),
        }
    )


def _payment(payment: Order, sign: int) -> dict[str, Any]:
    """Return a payment. Anything tendered beyond the amount and the tip was given back as change."""
    paid = total_of([_number(payment, "amount"), _number(payment, "tips")])
    tendered = _number(payment, "tendered")
    change = max(Decimal(0), tendered - paid) if sign > 0 and tendered is not None and paid is not None else Decimal(0)
    return only_known(
        {
            "name": text_of(as_object(payment.get("payment_method")).get("name")),
            "amount": None if paid is None else signed(paid + change, sign),
            "change": decimal_text(change) if change else None,
        }
    )


def _taxes(order: Order, products: list[Order]) -> Decimal | None:
    taxed = [*products, *as_objects(order.get("charges"))]
    taxed += [option for product in products for option in as_objects(product.get("options"))]
    return total_of(
        [
            _number(as_object(tax.get("pivot")), "amount")
            for one in taxed
            if text_of(one.get("status")) != PRODUCT_VOID
            for tax in as_objects(one.get("taxes"))
        ]
    )


def _void(order: Order, products: list[Order]) -> dict[str, str] | bool:
    reasons = [as_object(one.get("void_reason")).get("name") for one in (order, *products)]
    reason = next((text_of(one) for one in reasons if one), "")
    return {"reason": reason} if reason else True


def _promotion(promotion: Order, amount: Decimal | None, sign: int) -> dict[str, Any]:
    return only_known(
        {"id": text_of(promotion.get("id")), "name": promotion.get("name"), "amount": signed(amount, sign)}
    )


def _table(order: Order) -> dict[str, str] | None:
    table = as_object(order.get("table"))
    return only_known({"id": text_of(table.get("id")), "name": text_of(table.get("name"))}) or None


def _number(part: Order, name: str) -> Decimal | None:
    return written_number(part.get(name), name)


def _utc(value: object) -> str | None:
    return _read(value, "closed_at", read_time)


def _day(value: object) -> str | None:
    return _read(value, "business_date", read_day)


def _read(value: object, name: str, reader: Any) -> str | None:
    if not value:
        return None
    try:
        return str(reader(text_of(value), UTC_TIMES, "ymd"))
    except UnreadableCell as error:
        raise RowProblem(UNREADABLE_VALUE, f"{name}: {error}") from None
