"""What the orders of all APIs have in common: how their values are read, and what becomes of their parts.

SDKs write the fields of an order in camelCase and APIs in snake_case, so all names are converted to snake_case first.
Each module of `apis/` says what the fields of one API mean.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, ClassVar

from counterfoil.importing import values as cell_values
from counterfoil.importing.checks import LARGEST_COIN
from counterfoil.importing.mapping import REFUND, VOID
from counterfoil.importing.results import Reason, RowProblem
from counterfoil.importing.sentences import sentence
from counterfoil.importing.table_bills import negate_amounts, refunded, written
from counterfoil.importing.values import DateFormat, UnreadableCell, decimal_places, shown

Order = dict[str, Any]
REFUNDS_ONLY = "refunds"
"""The status of an order that is no bill itself, but of which the refunds are."""
# The store keeps amounts as floating-point numbers. From here on, they have fewer than three exact decimals.
LARGEST_NUMBER = Decimal(10) ** 12
# Sums of numbers that were rounded to different decimals differ by less than this.
MAX_DRIFT = Decimal("0.02")
# Times in seconds, which are smaller, would be days in 1970.
FIRST_TIME = 10**11
# No format reads fields that are nested more deeply.
LEVELS_READ = 16
UTC_TIMES = DateFormat("ymd", "UTC")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ApiOrder(ABC):
    """An order of an API, and what becomes of it."""

    title: ClassVar[str]
    """How the format is named to the operator, such as `Square orders`."""
    lists: ClassVar[Sequence[str]]
    """The fields of a page or an event that contain its orders, or its only order."""
    marks: ClassVar[frozenset[str]]
    """The fields by which an object is recognised as an order of this API."""
    without: ClassVar[frozenset[str]] = frozenset()
    """Fields that show that it is an order of another one."""
    request: ClassVar[str]
    """What to ask the API for if an order lacks its time or its amounts."""
    needs_timezone: ClassVar[bool] = False
    """Whether the shops are certainly not in the usual time zone. Times are in UTC, but days are local."""
    without_shop: ClassVar[str] = sentence("Use --shop")
    """What to do if an order does not name its shop."""
    statuses: ClassVar[Mapping[str, str]]
    """The statuses of orders that are bills, and what they mean."""
    skipped: ClassVar[Mapping[str, str]] = {}
    """The statuses of orders that are not bills, and why they are skipped. An order with any other one is rejected."""

    def __init__(self, order: Order, currency: str) -> None:
        self.order = order
        self.currency = currency
        self.meaning = ""
        """What the status of the order means."""
        self.converted_lines: list[Order] = []

    # --- what the module of an API says ----------------------------------------------

    @abstractmethod
    def bill_id(self) -> str: ...

    @abstractmethod
    def shop_id(self) -> str: ...

    def shop_name(self) -> str:
        return ""

    @abstractmethod
    def status(self) -> str: ...

    @abstractmethod
    def check(self, *, is_void: bool) -> None:
        """Raise `RowProblem` if the order cannot be a bill. A void one needs no amounts."""

    @abstractmethod
    def bill(self) -> Order:
        """Return the fields of the bill that have a value, without its kind, shop, lines and payments."""

    def void_reason(self) -> str | None:
        return None

    @abstractmethod
    def lines(self) -> Iterator[Order]: ...

    @abstractmethod
    def payments(self) -> Iterator[Order]: ...

    def refunds(self) -> Iterator[Order]:
        """Yield a bill for each refund within the order."""
        yield from ()

    def amount(self, name: str, value: object) -> Decimal | None:
        """Return an amount in the main unit of the currency. `name` is that of the field, for messages."""
        return number_of(name, value)

    # --- what becomes of it -----------------------------------------------------------

    def bills(self, meaning: str) -> list[Order]:
        """Return the bill of the order, without its kind and its shop, and a bill for each refund within it."""
        self.meaning = meaning
        self.converted_lines = list(self.lines())
        bill = self.bill() | {"lines": self.converted_lines, "payments": list(self.payments())}
        if meaning == VOID:
            reason = self.void_reason()
            bill["void"] = {"reason": reason} if reason else True
        if meaning == REFUND:
            negate_amounts(bill)
        refunds = list(self.refunds())
        for refund in refunds:
            negate_amounts(refund)
        return [written(each) for each in (refunds if meaning == REFUNDS_ONLY else (bill, *refunds))]

    def line(self, *, is_negative: bool = False, variant: str | None = None, **fields: Any) -> Order:
        """Return a line with the fields that have a value."""
        line = filled(fields)
        if variant:
            line["name"] = f"{line['name']} ({variant})" if "name" in line else variant
        # With options, the price is not what was charged per unit. `load` computes it from the total.
        if line.get("options"):
            line.pop("unitPrice", None)
        return self._signed(line, is_negative=is_negative)

    def payment(self, *, is_negative: bool = False, tendered: Decimal | None = None, **fields: Any) -> Order:
        """Return a payment with the fields that have a value."""
        payment = filled(fields)
        paid, is_negative = payment.get("amount"), is_negative or self.meaning == REFUND
        if tendered and paid is not None and tendered > paid and not is_negative:
            # What was tendered beyond the amount and the tip was given back.
            payment |= {"amount": tendered, "change": tendered - paid}
        return self._signed(payment, is_negative=is_negative)

    def discounts(self, parts: Iterable[Order]) -> list[Order] | None:
        """Return coupons or campaigns, or None if there are none."""
        return [self._signed(filled(part), is_negative=False) for part in parts] or None

    def _signed(self, part: Order, *, is_negative: bool) -> Order:
        return refunded(part) if is_negative or self.meaning == REFUND else part

    # --- reading values ---------------------------------------------------------------

    def total(self, name: str, values: Iterable[object], start: Decimal | None = None) -> Decimal | None:
        """Return the sum of the amounts that are there, or `start` if there are none."""
        amounts = [self.amount(name, value) for value in values if is_there(value)]
        known = [amount for amount in amounts if amount is not None]
        return sum(known, start or Decimal()) if known else start

    def difference(self, name: str, value: object, subtracted: object) -> Decimal | None:
        """Return an amount less another one, of which one may be missing."""
        less = self.total(name, [subtracted])
        amount = self.total(name, [value])
        return amount if less is None else (amount or Decimal()) - less

    def chosen(self, choices: Sequence[Decimal | None], other: Decimal | None, named: str) -> Decimal | None:
        """Return the choice for the net that equals another sum, if there is one, such as that of the payments."""
        found = [choice for choice in choices if choice is not None]
        if not found or self.meaning == VOID or (other is None and len(set(found)) == 1):
            return found[0] if found else None
        nearest = min(found, key=lambda choice: abs(abs(choice) - abs(other or Decimal())))
        # What is paid in cash may be rounded to a coin.
        if other is None or abs(abs(nearest) - abs(other)) > max(MAX_DRIFT, min(LARGEST_COIN, abs(nearest) / 100)):
            possible = " or ".join(dict.fromkeys(f"{choice:f}" for choice in found))
            paid = f"{named} is {'missing' if other is None else f'{other:f}'}"
            raise RowProblem(Reason.DOUBTFUL_VALUE, f"has {possible} as its total, but {paid}")
        return nearest

    def rounded(self, amount: Decimal) -> Decimal:
        """Return an amount in whole smallest units of the currency."""
        return amount.quantize(Decimal(1).scaleb(-decimal_places(self.currency)), ROUND_HALF_UP)

    def no_amount(self, problem: str) -> RowProblem:
        """Return the problem of an order that was not requested completely."""
        return RowProblem(Reason.NO_AMOUNT, f"{problem}. {self.request}")


# --- parts of an order ----------------------------------------------------------------


def is_there(value: object) -> bool:
    return value is not None and value != ""


def is_set(value: object) -> bool:
    """Return whether a value is there and neither false nor empty. The number 0 is a value."""
    return bool(value) or (isinstance(value, int | Decimal) and value is not False)


def inner(value: object, *names: str) -> Any:
    """Return the value at these names within objects that contain each other, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def parts_of(value: object) -> list[Order]:
    """Return the objects in a list. A part of another type would be lost, so it rejects the order."""
    if not value:
        return []
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise RowProblem(Reason.NOT_AN_ORDER, "has a list whose elements cannot be read")
    return value


def part_of(value: object) -> Order | None:
    """Return an object that may be missing. A part of another type would be lost, so it rejects the order."""
    if not value:
        return None
    if not isinstance(value, dict):
        raise RowProblem(Reason.NOT_AN_ORDER, "has a part that cannot be read")
    return value


def filled(fields: Order) -> Order:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if is_there(value)}


def group(**fields: Any) -> Order | None:
    """Return the fields that have a value, or None if none has one."""
    return filled(fields) or None


# --- words ----------------------------------------------------------------------------


def word_of(value: object) -> str:
    """Return a value as it is compared and shown: a string, a number, `true` or `false`."""
    return str(value).lower() if isinstance(value, bool) else "" if isinstance(value, dict | list) else str(value)


def text_of(*values: object) -> str:
    """Return the first value that is there, as a text."""
    for value in values:
        if is_there(value):
            return word_of(value)
    return ""


def texts_of(values: Iterable[object]) -> list[str]:
    """Return the texts of the values that are there."""
    return [text for value in values if (text := text_of(value))]


def only_text(values: Iterable[object]) -> str:
    """Return the text of all values that are there, or an empty text if they differ."""
    texts = texts_of(values)
    return texts[0] if len(set(texts)) == 1 else ""


def translated(word: str, meanings: Mapping[str, Any], other: str | None = None) -> Any:
    return meanings.get(word, meanings.get(word.lower(), other)) if word else None


# --- numbers and times ----------------------------------------------------------------


def unreadable(name: str, problem: object) -> RowProblem:
    return RowProblem(Reason.UNREADABLE_VALUE, f"{name}: {problem}")


def number_of(name: str, value: object) -> Decimal | None:
    """Return the exact value of a number in an order, or None if the field is empty."""
    if not is_there(value):
        return None
    try:
        if isinstance(value, bool):
            raise InvalidOperation
        number = Decimal(str(value))
    except InvalidOperation:
        raise unreadable(name, f"{shown(str(value))} is not a number") from None
    if not number.is_finite() or not cell_values.is_plausible(number) or abs(number) >= LARGEST_NUMBER:
        raise unreadable(name, f"{shown(str(value))} is not a number that can be stored")
    return number


def minor_units(amount: object, currency: str, expected: str, name: str) -> Decimal | None:
    """Return an amount that is written in the smallest unit of its currency, such as satang, in the main unit."""
    # JavaScript writes large whole numbers as 1234n.
    number = number_of(name, amount.removesuffix("n") if isinstance(amount, str) else amount)
    if number is None:
        return None
    whole = number.to_integral_value()
    # A text such as 12.00 is probably in the main unit.
    if number != whole or (isinstance(amount, str) and "." in amount):
        raise unreadable(name, f"{shown(str(amount))} is not a whole number of the smallest unit")
    if currency != expected:
        raise RowProblem(
            Reason.OTHER_CURRENCY,
            sentence(
                "has amounts in {currency}, but {expected} is expected. If all shops use it, use --currency {code}, or "
                'a mapping with currency = "{code}" in [numbers]',
                currency=currency or sentence("an unknown currency"),
                expected=expected,
                code=currency or "CODE",
            ),
        )
    return whole.scaleb(-decimal_places(currency))


def time_of(name: str, *values: object) -> str | None:
    """Return the first time that is there. A time without an offset is in UTC."""
    word = text_of(*values)
    return _read(name, cell_values.read_time, word) if word and word != "0" else None


def day_of(name: str, value: object) -> str | None:
    word = text_of(value)
    return _read(name, cell_values.read_day, word) if word else None


def time_in_milliseconds(name: str, value: object) -> str | None:
    """Return the time of a number of milliseconds."""
    word = text_of(value)
    if not word or word == "0":
        return None
    try:
        if int(word) < FIRST_TIME:
            raise ValueError
        return datetime.fromtimestamp(int(word) / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        raise unreadable(name, f"{shown(word)} is not a time in milliseconds") from None


def milliseconds_of(name: str, value: object) -> Any:
    """Return a time as a number of milliseconds, for `rev`."""
    if not value:
        return value
    word = word_of(value)
    try:
        return round(datetime.fromisoformat(_read(name, cell_values.read_time, word)).timestamp() * 1000)
    except ValueError:
        raise unreadable(name, f"{shown(word)} is not a time") from None


def _read(name: str, reader: Callable[[str, DateFormat, str], str], word: str) -> str:
    try:
        return reader(word, UTC_TIMES, "ymd")
    except UnreadableCell as error:
        # Advice about mappings does not help here.
        raise unreadable(name, str(error).partition(". ")[0]) from None


def are_equal(first: Decimal | None, *others: Decimal | None) -> bool:
    """Return whether a sum equals another one, whatever their signs are."""
    if first is None:
        return False
    return any(abs(abs(other) - abs(first)) <= MAX_DRIFT for other in others if other is not None)


def in_snake_case(value: Any, levels: int = LEVELS_READ) -> Any:
    """Return a JSON value in which the names of fields are in snake_case, down to the levels that are read."""
    if not levels:
        return value
    if isinstance(value, dict):
        return {_HUMP.sub("_", name).lower(): in_snake_case(inner, levels - 1) for name, inner in value.items()}
    return [in_snake_case(inner, levels - 1) for inner in value] if isinstance(value, list) else value
