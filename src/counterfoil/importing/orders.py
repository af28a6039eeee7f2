"""Converts the orders of an API, as the file of the API in `apis/` says.

SDKs write the fields of an order in camelCase and APIs in snake_case, so all names are converted to snake_case first.
"""

import codecs
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cache, partial
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from counterfoil.domain.control_totals import MAX_REMEMBERED_BILLS
from counterfoil.domain.json_documents import BYTE_ORDER_MARK, JsonSplitter
from counterfoil.domain.pos_values import record_id
from counterfoil.importing import mapping as mappings
from counterfoil.importing import results
from counterfoil.importing import values as cell_values
from counterfoil.importing.checks import LARGEST_COIN
from counterfoil.importing.mapping import REFUND, VOID, Cell, ImportMapping
from counterfoil.importing.order_paths import Order, condition, expression, word_of
from counterfoil.importing.results import ImportedRecord, ImportFailed, Reason, RejectedRow, RowProblem, message
from counterfoil.importing.table_bills import negate_amounts, refunded, written
from counterfoil.importing.tables import ImportOptions, shop_record
from counterfoil.importing.values import DateFormat, UnreadableCell, decimal_places, shown
from counterfoil.text import printable

CHUNK = 64 * 1024
MAX_ORDER = 8 * 1024 * 1024
# Text between orders: a string, or another value such as a number.
_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|[^ \t\r\n,"]+|"', re.DOTALL)


class JsonOrder(Struct, frozen=True):
    file: str
    line: int
    content: dict[str, Any]


def read_orders(path: Path, list_names: Collection[str]) -> Iterator[JsonOrder | RowProblem]:
    """Yield the orders in a file: the elements of lists with these names, and objects that have no such list."""
    name, chunks = printable(path.name), json_text(path)
    start = next(chunks, b"")
    if not start.strip():
        raise ImportFailed(f"{name} is empty.")
    if b"\0" in start:
        raise ImportFailed(f"{name} is not UTF-8 text. Save the JSON in UTF-8.")
    for line, text in split_orders(chain([start], chunks), list_names, name):
        yield _parsed(name, line, text)


def json_text(path: Path) -> Iterator[bytes]:
    """Yield the text of a file in UTF-8. PowerShell saves the answers of an API in UTF-16."""
    try:
        with path.open("rb") as raw:
            chunks = iter(partial(raw.read, CHUNK), b"")
            start = next(chunks, b"")
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                yield from (part.encode() for part in codecs.iterdecode(chain([start], chunks), "utf-16", "replace"))
            else:
                yield from chain([start.removeprefix(BYTE_ORDER_MARK)], chunks)
    except OSError as error:
        raise ImportFailed(f"cannot read {path}: {error.strerror}") from error


def split_orders(chunks: Iterable[bytes], list_names: Collection[str], file: str) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each order, and of each other element of a list of orders, with its first line."""
    splitter = JsonSplitter(1, MAX_ORDER, list_names)
    for line, text in splitter.records(chunks):
        yield from _values(line, text)
    if splitter.is_within_record:
        raise ImportFailed(f"{file} ends in the middle of the JSON text. It may be incomplete.")
    if rest := splitter.rest():
        yield from _values(*rest)


def _values(line: int, text: bytes) -> Iterator[tuple[int, bytes]]:
    if text[:1] in b"{[":
        yield line, text
        return
    counted = 0
    for found in _VALUE.finditer(text):
        line += text.count(b"\n", counted, found.start())
        counted = found.start()
        yield line, found[0]


def _parsed(file: str, line: int, text: bytes) -> JsonOrder | RowProblem:
    problem = "is not a JSON object" if len(text) <= MAX_ORDER else "is larger than 8 MiB"
    try:
        content = json.loads(text.decode(), parse_float=Decimal) if len(text) <= MAX_ORDER else None
        if isinstance(content, dict):
            return JsonOrder(file, line, content)
    except RecursionError:
        problem = "is nested too deeply to be an order"
    except ValueError as error:
        problem = f"cannot be read as JSON: {error}"
    return RowProblem(Reason.NOT_AN_ORDER, problem, line, file)


HOME_CURRENCY = "THB"
# The store keeps amounts as floating-point numbers. From here on, they have fewer than three exact decimals.
LARGEST_NUMBER = Decimal(10) ** 12
# Sums of numbers that were rounded to different decimals differ by less than this.
MAX_DRIFT = Decimal("0.02")
# Times in seconds, which are smaller, would be days in 1970.
FIRST_TIME = 10**11
# No format reads fields that are nested more deeply.
LEVELS_READ = 16
UTC_TIMES = DateFormat("ymd", "UTC")
_CONDITIONS = re.compile(r"\[[^\]]*\]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# The fields of orders that are not fields of source records, or have no type there.
_KINDS = {**mappings.BILL_FIELDS, **mappings.LINE_FIELDS, **mappings.PAYMENT_FIELDS, "tendered": Cell.NUMBER}

Field = dict[str, Any] | list[Any] | str
"""Where a value comes from: an expression, a table with an expression (`of`) and what becomes of its values, or a list
of alternatives."""


class RefusedOrder(Struct, forbid_unknown_fields=True):
    """An order that is rejected, because it satisfies all conditions, and because one of several fields is missing."""

    reason: str
    detail: str = "has no "
    when: list[str] = []
    missing: list[str] = []
    """Fields that each of certain parts must have. The detail ends with the name of one that is missing."""
    unless_equal: list[str] = []
    """Sums of which the first one equals another if nothing is missing in the order."""
    shown: str | None = None


class OrderApi(Struct, forbid_unknown_fields=True, kw_only=True):
    """How the orders of an API are converted."""

    title: str
    """How the format is named to the operator, such as `Square orders`."""
    lists: list[str]
    """The fields of a page or an event that contain its orders, or its only order."""
    marks: frozenset[str]
    """The fields by which an object is recognised as an order of this API."""
    without: frozenset[str] = frozenset()
    """Fields that show that it is an order of another one."""
    request: str
    """What to ask the API for if an order lacks its time or its amounts."""
    times: Literal["text", "milliseconds"] = "text"
    """How times are written. They are in UTC if they have no offset."""
    money: Literal["main", "smallest", "object"] = "main"
    """Whether amounts are in the main unit of the currency or in its smallest one, or are objects with a currency."""
    needs_timezone: bool = False
    """Whether the shops are certainly not in the usual time zone. Times are in UTC, but days are local."""
    without_shop: str = "Use --shop"
    """What to do if an order does not name its shop."""
    id: Field
    shop: Field
    shop_name: Field = ""
    status: Field
    statuses: dict[str, Literal["sale", "refund", "void", "refunds"]]
    """The statuses of orders that are bills. With `refunds`, only the refunds within an order are."""
    skipped: dict[str, str] = {}
    """The statuses of orders that are not bills, and why they are skipped. An order with any other one is rejected."""
    refuse: list[RefusedOrder] = []
    bill: dict[str, Field]
    void: dict[str, Field] = {}
    """The fields that a voided order has instead."""
    lines: list[dict[str, Any]]
    payments: list[dict[str, Any]]
    refunds: dict[str, Any] | None = None
    """The refunds within an order, each of which is a bill."""


@cache
def order_apis() -> dict[str, OrderApi]:
    """Return the APIs whose orders can be converted, by the name of their format."""
    folder = resources.files("counterfoil.importing") / "apis"
    found = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=lambda path: path.name)
    contents = {path.name.removesuffix(".toml"): tomllib.loads(path.read_text("utf-8")) for path in found}
    return {name: msgspec.convert(content, OrderApi) for name, content in contents.items()}


def list_names() -> set[str]:
    """Return the fields of a page or an event that contain its orders, in any API."""
    return {name for api in order_apis().values() for name in api.lists}


def apis_of(content: dict[str, Any]) -> list[str]:
    """Return the APIs of which an object may be an order."""
    names = in_snake_case(content).keys()
    return [name for name, api in order_apis().items() if api.marks <= names and api.without.isdisjoint(names)]


class OrderImport(Struct):
    api: OrderApi
    mapping: ImportMapping
    options: ImportOptions
    named: set[str] = set()
    versions: dict[int, int] = {}
    """The hash of the content of each bill, by the hash of its shop, ID and revision."""

    def records(self, paths: Sequence[Path]) -> Iterator[results.Imported]:
        """Yield a source record for each order that is a bill, and a result for each order that was not converted."""
        is_elsewhere = self.api.needs_timezone or self._currency != HOME_CURRENCY
        if self.options.write_shops and not self._timezone and is_elsewhere:
            raise ImportFailed(message("times_in_utc", title=self.api.title))
        self.named = {shop["id"] for shop in self.mapping.shops}
        for number, shop in enumerate(self.mapping.shops, start=1):
            yield ImportedRecord(self.mapping.name, number, {"kind": "shop", **shop})
        self.versions = {}
        for path in paths:
            for order in read_orders(path, self.api.lists):
                if isinstance(order, RowProblem):
                    yield RejectedRow(order.file, order.line, order.reason, order.detail)
                else:
                    yield from self._converted(order)

    @property
    def _currency(self) -> str:
        return self.mapping.numbers.currency or self.options.currency

    @property
    def _timezone(self) -> str | None:
        return self.options.timezone or self.mapping.dates.timezone

    def _converted(self, order: JsonOrder) -> Iterator[results.Imported]:
        reader = OrderReader(self.api, in_snake_case(order.content), self._currency)
        bill_id = reader.text(self.api.id)
        try:
            status = reader.text(self.api.status)
            if status in self.api.skipped:
                yield results.SkippedRow(order.file, order.line, self.api.skipped[status])
                return
            reader.check(is_void=self.api.statuses.get(status) == VOID)
            if not status:
                raise RowProblem(Reason.NOT_AN_ORDER, f"has no status. {self.api.request}")
            if status not in self.api.statuses:
                raise RowProblem(Reason.UNKNOWN_STATUS, f"has the status {shown(status)}, which is not known")
            foreign = reader.text(self.api.shop)
            shop = self.options.shop or self.mapping.shop_ids.get(foreign, foreign)
            if record_id(shop) is None:
                raise RowProblem(Reason.NO_SHOP, f"does not name its shop. {self.api.without_shop}")
            records = [
                _complete({"kind": "bill", "id": bill_id, "shopId": shop, **bill}, self.api.request)
                for bill in reader.bills(self.api.statuses[status])
            ]
            for record in records:
                self._check_version(record)
        except (RowProblem, TypeError, ValueError, AttributeError) as error:
            # A value may have another type than in the API. Only this order is rejected.
            other = RowProblem(Reason.NOT_AN_ORDER, "has a value of an unexpected type")
            problem = error if isinstance(error, RowProblem) else other
            yield RejectedRow(order.file, order.line, problem.reason, problem.detail, bill_id or None)
            return
        if self.options.write_shops and shop not in self.named:
            self.named.add(shop)
            found = shop_record(shop, reader.text(self.api.shop_name) or foreign or shop, self._timezone)
            yield ImportedRecord(order.file, order.line, found, is_found_shop=True)
        for record in records:
            yield ImportedRecord(order.file, order.line, record)

    def _check_version(self, bill: dict[str, Any]) -> None:
        """Raise `RowProblem` if the bill occurred before in the same version, but with other values."""
        version, content = hash((bill["shopId"], bill["id"], bill.get("rev"))), hash(repr(bill))
        if self.versions.get(version, content) != content:
            raise RowProblem(Reason.DIFFERENT_ROWS, message("different_orders"))
        if len(self.versions) < MAX_REMEMBERED_BILLS:
            self.versions[version] = content


def _complete(bill: dict[str, Any], request: str) -> dict[str, Any]:
    """Return the bill; raise `RowProblem` if it has no valid ID, no time or, unless it is voided, no total."""
    if record_id(bill["id"]) is None:
        raise RowProblem(Reason.NO_ID, f"has {shown(bill['id'])} as its ID, which is not a valid ID")
    if not bill.get("closedAt"):
        raise RowProblem(Reason.NO_TIME, f"has no time at which it was closed. {request}")
    if "void" not in bill and bill.get("amounts", {}).get("net") is None:
        raise RowProblem(Reason.NO_AMOUNT, f"has no total. {request}")
    return bill


class OrderReader(Struct):
    api: OrderApi
    order: Order
    currency: str
    status: str = ""

    def text(self, field: Field) -> str:
        """Return the text of a field of the order, or an empty string if it has none."""
        return str(self._value("", field, self.order, {}) or "")

    def check(self, *, is_void: bool) -> None:
        """Raise `RowProblem` if the order is one that the API's file refuses. A void one needs no amounts."""
        for refusal in self.api.refuse:
            is_amount = refusal.reason == Reason.NO_AMOUNT
            missing = next(filter(self._lacks, refusal.missing), "")
            if (
                bool(missing) == bool(refusal.missing)
                and not (is_void and (is_amount or refusal.unless_equal))
                and self._holds(refusal.when, self.order)
                and not self._are_equal(refusal.unless_equal)
            ):
                value = _CONDITIONS.sub("", missing) + (shown(self.text(refusal.shown)) if refusal.shown else "")
                advice = f". {self.api.request}" if is_amount else ""
                raise RowProblem(refusal.reason, f"{refusal.detail}{value}{advice}")

    def _lacks(self, field: str) -> bool:
        """Return whether a part of the order has no such field, as one that was not requested."""
        parts, _, name = field.rpartition(".")
        found = expression(parts).values(self.order, self.order) if parts else [(1, self.order)]
        return any(part.get(name) is None for _, part in found)

    def _are_equal(self, sums: Sequence[str]) -> bool:
        first, *others = (self._sum("amounts.net", each, self.order) for each in sums) if sums else (None,)
        known = [abs(each) for each in others if each is not None]
        return first is not None and any(abs(each - abs(first)) <= MAX_DRIFT for each in known)

    def bills(self, status: str) -> list[dict[str, Any]]:
        """Return the bill of the order, without its kind and its shop, and a bill for each refund within it."""
        api = self.api
        self.status = status
        lines = self._parts(api.lines)
        bill = self._fields({**api.bill, **(api.void if status == VOID else {})}, self.order, {"lines": lines})
        bill |= {"lines": lines, "payments": self._parts(api.payments)}
        reason = bill.pop("voidReason", None)
        if status == VOID:
            bill["void"] = {"reason": reason} if reason else True
        if status == REFUND:
            negate_amounts(bill)
        refunds = self._parts([api.refunds]) if api.refunds else []
        for refund in refunds:
            negate_amounts(refund)
            if not refund["void"]:
                del refund["void"]
        return [written(each) for each in (refunds if status == "refunds" else (bill, *refunds))]

    def _parts(self, specs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [part for spec in specs for part in self._parts_of(spec, self.order, is_signed=True)]

    def _parts_of(self, spec: dict[str, Any], part: Order, *, is_signed: bool) -> list[dict[str, Any]]:
        """Return the lines, payments, options or campaigns that a table of the API's file describes."""
        fields = {name: field for name, field in spec.items() if name not in ("each", "is_negative")}
        is_negative = is_signed and (self.status == REFUND or "is_negative" in spec)
        found = [self._fields(fields, inner, {}) for _, inner in expression(spec["each"]).values(self.order, part)]
        for each in found:
            name, variant = each.get("name"), each.pop("variant", None)
            if variant:
                each["name"] = f"{name} ({variant})" if name else variant
            # With options, the price is not what was charged per unit. `load` computes it from the total.
            if each.get("options"):
                each.pop("unitPrice", None)
            tendered, paid = each.pop("tendered", None), each.get("amount")
            if tendered and paid is not None and tendered > paid and not is_negative:
                # What was tendered beyond the amount and the tip was given back.
                each |= {"amount": tendered, "change": tendered - paid}
        return list(map(refunded, found)) if is_negative else found

    def _fields(self, spec: dict[str, Any], part: Order, built: dict[str, Any], group: str = "") -> dict[str, Any]:
        """Return the fields for which a part of the order has a value. `built` has what is already known."""
        fields: dict[str, Any] = {}
        for name, field in spec.items():
            if isinstance(field, dict) and "each" in field:
                parts = self._parts_of(field, part, is_signed=name != "options")
                value: Any = parts if parts or name == "options" else None
            elif name in mappings.GROUPS and isinstance(field, dict) and "of" not in field:
                value = self._fields(field, part, built, f"{name}.") or None
            else:
                value = self._value(group + name, field, part, fields | built)
            if value is not None and value != "":
                fields[name] = value
        return fields

    def _value(self, name: str, field: Field, part: Order, built: dict[str, Any]) -> Any:
        if isinstance(field, list):
            found = (self._value(name, each, part, built) for each in field)
            return next((value for value in found if value is not None and value != ""), None)
        table: dict[str, Any] = {"of": field} if isinstance(field, str) else field
        if not self._holds(table.get("when", ()), part):
            return None
        kind = _KINDS.get(name)
        if kind == Cell.NUMBER:
            return self._number(name, table, part, built)
        if "constant" in table:
            return table["constant"]
        values = [value for _, value in expression(table["of"]).values(self.order, part)] if table["of"] else []
        if kind == Cell.FLAG:
            return any(values)
        words = list(filter(None, map(word_of, values)))
        if kind == Cell.LIST:
            return words or None
        if kind == Cell.TIME:
            return max((self._time(name, word) for word in words if word != "0"), default=None)
        if kind == Cell.DAY:
            return _read(name, cell_values.read_day, words[0]) if words else None
        return _translated(words, table)

    def _number(self, name: str, table: dict[str, Any], part: Order, built: dict[str, Any]) -> Any:
        if "lines" in table:
            return _total([line.get(table["lines"]) for line in built["lines"] if not line.get("cancelled")])
        if "choices" in table:
            return self._chosen(name, table, part)
        if name == "rev":
            value = next((value for _, value in expression(table["of"]).values(self.order, part)), None)
            return self._milliseconds(name, value) if "is_time" in table and value else value
        number = self._sum(name, table["of"], part, is_absolute=table.get("is_absolute", False))
        rates = expression(table["percent"]).values(self.order, part) if "percent" in table else []
        if rates and "subtotal" in built:
            number = number or Decimal()
            rate = sum(written_number(value, name) or 0 for _, value in rates)
            return number + self._rounded((built["subtotal"] - number) * rate / 100)
        if number is None:
            return Decimal(table["default"]) if "default" in table else None
        if table.get("is_times_quantity"):
            return self._rounded(number * built["qty"])
        return number / table["divisor"] if "divisor" in table else number

    def _rounded(self, amount: Decimal) -> Decimal:
        """Return an amount in whole smallest units of the currency."""
        return amount.quantize(Decimal(1).scaleb(-decimal_places(self.currency)), ROUND_HALF_UP)

    def _chosen(self, name: str, table: dict[str, Any], part: Order) -> Decimal | None:
        """Return the sum that equals another one, if there is one, such as that of the payments."""
        choices = [each for text in table["choices"] if (each := self._sum(name, text, part)) is not None]
        other = self._sum(name, table["equal"], part)
        if not choices or self.status == VOID or (other is None and len(set(choices)) == 1):
            return choices[0] if choices else None
        nearest = min(choices, key=lambda each: abs(abs(each) - abs(other or Decimal())))
        # What is paid in cash may be rounded to a coin.
        if other is None or abs(abs(nearest) - abs(other)) > max(MAX_DRIFT, min(LARGEST_COIN, abs(nearest) / 100)):
            possible = " or ".join(dict.fromkeys(f"{each:f}" for each in choices))
            paid = f"{_CONDITIONS.sub('', table['equal'])} is {'missing' if other is None else f'{other:f}'}"
            raise RowProblem(Reason.DOUBTFUL_VALUE, f"has {possible} as its total, but {paid}")
        return nearest

    def _sum(self, name: str, text: str, part: Order, *, is_absolute: bool = False) -> Decimal | None:
        numbers = []
        for sign, value in expression(text).values(self.order, part):
            number = self._amount(name, value) if sign else Decimal()
            numbers.append(None if number is None else abs(number) if is_absolute else number * (sign or 1))
        return _total(numbers)

    def _amount(self, name: str, value: object) -> Decimal | None:
        if name == "qty" or self.api.money == "main":
            return written_number(value, name)
        if self.api.money == "smallest":
            return minor_units(value, word_of(self.order.get("currency") or ""), self.currency, name)
        if not isinstance(value, dict) or value.get("amount") is None:
            raise _unreadable(name, f"{shown(word_of(value))} is not an amount with a currency")
        return minor_units(value["amount"], word_of(value.get("currency") or ""), self.currency, name)

    def _time(self, name: str, word: str) -> str:
        if self.api.times == "text":
            return _read(name, cell_values.read_time, word)
        try:
            if int(word) < FIRST_TIME:
                raise ValueError
            return datetime.fromtimestamp(int(word) / 1000, UTC).isoformat(timespec="milliseconds")
        except (OverflowError, ValueError, OSError):
            raise _unreadable(name, f"{shown(word)} is not a time in milliseconds") from None

    def _milliseconds(self, name: str, value: object) -> int:
        try:
            return round(datetime.fromisoformat(self._time(name, word_of(value))).timestamp() * 1000)
        except ValueError:
            raise _unreadable(name, f"{shown(word_of(value))} is not a time") from None

    def _holds(self, conditions: Sequence[str], part: Order) -> bool:
        return all(condition(each).holds(self.order, part) for each in conditions)


def _translated(words: list[str], table: dict[str, Any]) -> Any:
    """Return the first of several words, or what the API's file says instead of it."""
    if not words or (table.get("is_only") and len(set(words)) > 1):
        return None
    word = words[0]
    if "pattern" in table:
        found = re.search(table["pattern"], word)
        return found[1] if found else None
    if "values" not in table:
        return word
    return table["values"].get(word, table["values"].get(word.lower(), word if table.get("is_open") else None))


def _unreadable(name: str, problem: object) -> RowProblem:
    return RowProblem(Reason.UNREADABLE_VALUE, f"{name}: {problem}")


def _read(name: str, reader: Callable[[str, DateFormat, str], str], word: str) -> str:
    try:
        return reader(word, UTC_TIMES, "ymd")
    except UnreadableCell as error:
        # Advice about mappings does not help here.
        raise _unreadable(name, str(error).partition(". ")[0]) from None


def in_snake_case(value: Any, levels: int = LEVELS_READ) -> Any:
    """Return a JSON value in which the names of fields are in snake_case, down to the levels that are read."""
    if not levels:
        return value
    if isinstance(value, dict):
        return {_HUMP.sub("_", name).lower(): in_snake_case(inner, levels - 1) for name, inner in value.items()}
    return [in_snake_case(inner, levels - 1) for inner in value] if isinstance(value, list) else value


def minor_units(amount: object, currency: str, expected: str, name: str) -> Decimal | None:
    """Return an amount that is written in the smallest unit of its currency, such as satang, in the main unit."""
    # JavaScript writes large whole numbers as 1234n.
    number = written_number(amount.removesuffix("n") if isinstance(amount, str) else amount, name)
    if number is None:
        return None
    whole = number.to_integral_value()
    # A text such as 12.00 is probably in the main unit.
    if number != whole or (isinstance(amount, str) and "." in amount):
        raise _unreadable(name, f"{shown(str(amount))} is not a whole number of the smallest unit")
    if currency != expected:
        names = {"currency": currency or "an unknown currency", "code": currency or "CODE"}
        raise RowProblem(Reason.OTHER_CURRENCY, message("other_currency", expected=expected, **names))
    return whole.scaleb(-decimal_places(currency))


def written_number(value: object, name: str) -> Decimal | None:
    """Return the exact value of a number in an order, or None if the field is empty."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool):
            raise InvalidOperation
        number = Decimal(str(value))
    except InvalidOperation:
        raise _unreadable(name, f"{shown(str(value))} is not a number") from None
    if not number.is_finite() or not cell_values.is_plausible(number) or abs(number) >= LARGEST_NUMBER:
        raise _unreadable(name, f"{shown(str(value))} is not a number that can be stored")
    return number


def _total(numbers: Sequence[Decimal | None]) -> Decimal | None:
    known = [number for number in numbers if number is not None]
    return sum(known, Decimal()) if known else None
