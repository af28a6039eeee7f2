"""Reads the orders of an API from files of JSON, and converts them as the module of the API in `apis/` says."""

import codecs
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct

from counterfoil.importing import results
from counterfoil.importing.api_orders import ApiOrder, in_snake_case
from counterfoil.importing.apis import APIS
from counterfoil.importing.mapping import VOID, ImportMapping
from counterfoil.importing.results import ImportedRecord, ImportFailed, Reason, RejectedRow, RowProblem
from counterfoil.importing.sentences import sentence
from counterfoil.importing.tables import ImportOptions, shop_record
from counterfoil.importing.values import shown
from counterfoil.model.control_totals import MAX_REMEMBERED_BILLS
from counterfoil.model.json_documents import BYTE_ORDER_MARK, JsonSplitter
from counterfoil.model.pos_values import record_id
from counterfoil.model.text import printable

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
        raise ImportFailed(sentence("{name} is empty.", name=name))
    if b"\0" in start:
        raise ImportFailed(sentence("{name} is not UTF-8 text. Save the JSON in UTF-8.", name=name))
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
        raise ImportFailed(sentence("cannot read {path}: {strerror}", path=path, strerror=error.strerror)) from error


def split_orders(chunks: Iterable[bytes], list_names: Collection[str], file: str) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each order, and of each other element of a list of orders, with its first line."""
    splitter = JsonSplitter(1, MAX_ORDER, list_names)
    for line, text in splitter.records(chunks):
        yield from _values(line, text)
    if splitter.is_within_record:
        raise ImportFailed(sentence("{file} ends in the middle of the JSON text. It may be incomplete.", file=file))
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


def list_names() -> set[str]:
    """Return the fields of a page or an event that contain its orders, in any API."""
    return {name for api in APIS.values() for name in api.lists}


def apis_of(content: dict[str, Any]) -> list[str]:
    """Return the APIs of which an object may be an order."""
    names = in_snake_case(content).keys()
    return [name for name, api in APIS.items() if api.marks <= names and api.without.isdisjoint(names)]


class OrderImport(Struct):
    api: type[ApiOrder]
    mapping: ImportMapping
    options: ImportOptions
    named: set[str] = set()
    versions: dict[int, int] = {}
    """The hash of the content of each bill, by the hash of its shop, ID and revision."""

    def records(self, paths: Sequence[Path]) -> Iterator[results.Imported]:
        """Yield a source record for each order that is a bill, and a result for each order that was not converted."""
        is_elsewhere = self.api.needs_timezone or self._currency != HOME_CURRENCY
        if self.options.write_shops and not self._timezone and is_elsewhere:
            raise results.ZoneMissing(
                f"{self.api.title} have times in UTC, so the day of a bill "
                "depends on the time zone of its shop. Name it with --timezone, for example "
                "Asia/Riyadh, or in a mapping with timezone in [dates]."
            )
        self.named = {shop["id"] for shop in self.mapping.shops}
        for number, shop in enumerate(self.mapping.shops, start=1):
            record = {"kind": "shop", **shop}
            yield ImportedRecord(self.mapping.name, number, record, is_found_shop=shop.keys() == {"id"})
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
        reader = self.api(in_snake_case(order.content), self._currency)
        bill_id = reader.bill_id()
        try:
            status = reader.status()
            if status in self.api.skipped:
                yield results.SkippedRow(order.file, order.line, self.api.skipped[status])
                return
            reader.check(is_void=self.api.statuses.get(status) == VOID)
            if not status:
                raise RowProblem(Reason.NOT_AN_ORDER, f"has no status. {self.api.request}")
            if status not in self.api.statuses:
                raise RowProblem(Reason.UNKNOWN_STATUS, f"has the status {shown(status)}, which is not known")
            foreign = reader.shop_id()
            shop = self.options.shop or self.mapping.shop_ids.get(foreign, foreign)
            if record_id(shop) is None:
                detail = sentence("does not name its shop. {advice}", advice=self.api.without_shop)
                raise RowProblem(Reason.NO_SHOP, detail)
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
            found = shop_record(shop, reader.shop_name() or foreign or shop, self._timezone)
            yield ImportedRecord(order.file, order.line, found, is_found_shop=True)
        for record in records:
            yield ImportedRecord(order.file, order.line, record)

    def _check_version(self, bill: dict[str, Any]) -> None:
        """Raise `RowProblem` if the bill occurred before in the same version, but with other values."""
        version, content = hash((bill["shopId"], bill["id"], bill.get("rev"))), hash(repr(bill))
        if self.versions.get(version, content) != content:
            raise RowProblem(
                Reason.DIFFERENT_ROWS,
                (
                    "has the same ID as an earlier one, but other values, and "
                    "nothing says which is later. Import only the file with the latest one"
                ),
            )
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
