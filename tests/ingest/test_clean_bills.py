"""The fast path for clean bills has the same result as the lenient reader."""

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.domain import source_bills
from counterfoil.domain.changes import EncodedBill, KnownFacts
from counterfoil.domain.shops import shop_from
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest import conversion
from counterfoil.ingest.conversion import LineConverter
from counterfoil.ingest.fields import FieldType, check_record, known_fields
from counterfoil.ingest.lines import LONGEST_NAME, MAX_RECORD, Reader, Rejected, parse_record
from counterfoil.ingest.lines import MAX_ITEMS as MAX_LINES
from ingest.loaders import at, lines_of_a_world, paths, shops_of_a_world

PSEUDONYMS = Pseudonyms(bytes(range(32)))
CASES = json.loads(Path(__file__).with_name("clean_bill_cases.json").read_text("utf-8"))
SHOPS: list[dict[str, Any]] = CASES["shops"]
# A bill with every field.
BILL: dict[str, Any] = CASES["bill"]
ODD_VALUES: list[Any] = CASES["oddValues"]


PATHS = list(paths(BILL))
FACTS = {shop["id"]: KnownFacts(1, shop_from(shop)[1]) for shop in SHOPS}
CONVERTER = LineConverter(PSEUDONYMS, FACTS.get)
READER = Reader(PSEUDONYMS, FACTS.get)


def assert_same(line: bytes, converter: LineConverter = CONVERTER, reader: Reader = READER) -> bool:
    """Return whether the fast path accepts the line. If so, check that the lenient reader returns the same result."""
    converted = converter.convert_clean(line)
    if converted is None:
        return False
    record = parse_record(line)
    change = reader.change(record, len(line))
    assert isinstance(change, EncodedBill)
    assert check_record(record, change) is None
    assert converted == change
    return True


def test_most_generated_bills_take_the_fast_path_with_the_same_result() -> None:
    lines = lines_of_a_world()
    facts = {shop["id"]: KnownFacts(1, shop_from(shop)[1]) for shop in shops_of_a_world()}
    converter, reader = LineConverter(PSEUDONYMS, facts.get), Reader(PSEUDONYMS, facts.get)
    bills = [line for line in lines if b'"kind":"bill"' in line]
    assert sum(assert_same(line, converter, reader) for line in bills) > len(bills) / 2


@pytest.mark.parametrize("shop", SHOPS, ids=lambda shop: shop["id"])
def test_a_bill_with_every_field_takes_the_fast_path(shop: dict[str, Any]) -> None:
    assert assert_same(json.dumps(BILL | {"shopId": shop["id"]}).encode())


@given(
    st.sampled_from(SHOPS),
    st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(ODD_VALUES)), min_size=1, max_size=3),
    st.booleans(),
)
def test_odd_values_never_change_the_result(
    shop: dict[str, Any], changes: list[tuple[tuple[Any, ...], Any]], is_ascii: bool
) -> None:
    bill = copy.deepcopy(BILL) | {"shopId": shop["id"]}
    for path, value in changes:
        put(bill, path, value)
    line = json.dumps(bill, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    assert_same(line)


@pytest.mark.parametrize("value", ODD_VALUES, ids=repr)
def test_an_odd_value_in_any_field_never_changes_the_result(value: Any) -> None:
    for path in PATHS:
        bill = copy.deepcopy(BILL)
        put(bill, path, value)
        assert_same(json.dumps(bill).encode())


def put(bill: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    """Set the value at a path, unless an earlier change has removed the path."""
    with suppress(LookupError, TypeError):
        at(bill, path[:-1])[path[-1]] = value


def test_every_field_of_the_fast_path_is_in_the_published_schema() -> None:
    bill = known_fields("bill")
    lines = (bill.fields or {})["lines"].elements
    assert lines
    assert_fields_match(source_bills.SourceBill, bill, {"removed"})
    assert_fields_match(source_bills.SourceItem, lines, set())


@pytest.mark.parametrize("limit", ["MAX_KEPT_LINES", "MAX_KEPT_BYTES", "MAX_KEPT_SHOPS"])
def test_the_result_does_not_depend_on_how_many_lines_are_kept(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, limit, 2)
    converter = LineConverter(PSEUDONYMS, FACTS.get)
    for total in range(8):
        lines = [{"name": "Tea", "qty": 1, "total": total + each, "rootId": "r"} for each in range(3)]
        for shop in FACTS:
            assert assert_same(json.dumps(BILL | {"shopId": shop, "lines": lines}).encode(), converter)


def test_a_line_is_published_again_when_the_facts_of_its_shop_change() -> None:
    facts = dict(FACTS)
    converter, reader = LineConverter(PSEUDONYMS, facts.get), Reader(PSEUDONYMS, facts.get)
    line = json.dumps(BILL | {"shopId": "plain"}).encode()
    assert assert_same(line, converter, reader)
    facts["plain"] = KnownFacts(2, shop_from(SHOPS[1] | {"id": "plain"})[1])
    assert assert_same(line, converter, reader)


def assert_fields_match(struct: Any, known: FieldType, left_out: set[str]) -> None:
    fields = known.fields or {}
    assert set(struct.__struct_encode_fields__) == set(fields) - left_out
    types = msgspec.inspect.type_info(struct)
    assert isinstance(types, msgspec.inspect.StructType)
    for field in types.fields:
        for inner in struct_types_in(field.type):
            below = fields[field.encode_name]
            assert_fields_match(inner.cls, below.elements or below, set())


def struct_types_in(kind: Any) -> list[msgspec.inspect.StructType]:
    if isinstance(kind, msgspec.inspect.StructType):
        return [kind]
    if isinstance(kind, msgspec.inspect.UnionType):
        return [found for each in kind.types for found in struct_types_in(each)]
    return struct_types_in(kind.item_type) if isinstance(kind, msgspec.inspect.ListType) else []


def test_a_bill_that_is_too_large_is_left_to_the_lenient_reader() -> None:
    long = BILL | {"cashier": "x" * (MAX_RECORD - LONGEST_NAME)}
    many = BILL | {"lines": [{}] * (MAX_LINES + 1)}
    for bill in (long, many):
        line = json.dumps(bill).encode()
        assert CONVERTER.convert_clean(line) is None
        with pytest.raises(Rejected, match="too_large"):
            READER.change(parse_record(line), len(line))


def test_a_bill_of_an_unknown_shop_is_left_to_the_lenient_reader() -> None:
    assert CONVERTER.convert_clean(json.dumps(BILL | {"shopId": "elsewhere"}).encode()) is None
