"""Fields that a load does not use are reported: unknown names and unreadable values, in records and nested objects."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.ingest.fields import (
    MAX_COUNTED,
    FieldCounts,
    FieldType,
    Findings,
    check_record,
    known_fields,
    suggestion,
)
from counterfoil.ingest.lines import Rejected, parse_record
from ingest.loaders import READER
from ports.open_store import base, bill, member, shop

# Records of a kind, and the paths of their fields that are unknown or cannot be read.
CASES = json.loads(Path(__file__).with_name("field_cases.json").read_text("utf-8"))
MAKE: dict[str, Callable[..., dict[str, Any]]] = {"shop": shop, "base": base, "member": member, "bill": bill}


def findings(line: bytes) -> Findings:
    record = parse_record(line)
    return check_record(record, READER.change(record)) or Findings(set(), set())


def found(kind: str, **fields: object) -> tuple[set[str], set[str]]:
    told = findings(json.dumps({"kind": kind, "id": "1", "shopId": "sh_1", "providerId": "mb", **fields}).encode())
    return told.unknown - {"shopId", "providerId"}, told.unreadable


# --- the table -----------------------------------------------------------------


class Recorder(dict[str, Any]):
    """An object that records which of its fields are read."""

    def __init__(self, fields: dict[str, Any], path: str, read: set[str]) -> None:
        super().__init__(fields)
        self._path, self._read = path, read

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(f"{self._path}{name}")
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        return self.get(name)


def recording(known: FieldType, read: set[str]) -> Any:
    """Return a `Recorder` for a record, with a nested `Recorder` for each object in the record."""
    start = f"{known.path}." if known.path else ""
    values: dict[str, Any] = {}
    for name, inner in (known.fields or {}).items():
        if inner.fields is not None:
            values[name] = recording(inner, read)
        elif inner.elements is not None and inner.elements.fields is not None:
            values[name] = [recording(inner.elements, read)]
            values[name][0].update(id="1", userId="u")  # the other fields are read only if these are present
    # An object with an unknown field is read field by field.
    return Recorder(values | {"unknown": 1}, start, read)


def paths(known: FieldType) -> Iterator[str]:
    for inner in (known.fields or {}).values():
        yield inner.path
        yield from paths(inner.elements or inner)


@pytest.mark.parametrize("kind", MAKE)
def test_the_schema_of_a_kind_names_exactly_the_fields_that_a_load_reads(kind: str) -> None:
    read: set[str] = set()
    record = recording(known_fields(kind), read)
    record.update(kind=kind, id="1", shopId="sh_1", providerId="mb")
    READER.change(record)
    assert read | {"kind", "id"} == set(paths(known_fields(kind)))


# --- names ---------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "fields", "unknown"), CASES["unknown"])
def test_an_unknown_name_is_found_wherever_it_is(kind: str, fields: dict[str, Any], unknown: list[str]) -> None:
    assert found(kind, **fields)[0] == set(unknown)


@pytest.mark.parametrize(
    ("kind", "path", "meant"),
    [
        ("bill", "closed_at", "closedAt"),
        ("bill", "amount", "amounts"),
        ("bill", "ShopID", "shopId"),
        ("bill", "lines.unit_price", "unitPrice"),
        ("bill", "amounts.coupons.ammount", "amount"),
        ("member", "points.expiresAt", "expireAt"),
        ("bill", "weather", None),
        ("bill", "(other fields)", None),
        ("bill", "a.b.c", None),
    ],
)
def test_the_field_that_was_probably_meant_is_suggested(kind: str, path: str, meant: str | None) -> None:
    assert suggestion(kind, path) == meant


def test_a_delivery_with_any_number_of_names_needs_a_limited_amount_of_memory() -> None:
    counts = FieldCounts()
    for number in range(10 * MAX_COUNTED):
        counts.add("bill", Findings({f"x{number}"}, set()), "file", number)
    assert len(counts.unknown) == len(counts.first) == MAX_COUNTED + 1
    assert counts.unknown.total() == 10 * MAX_COUNTED


def test_a_name_is_shown_short_and_without_control_characters() -> None:
    (name,) = found("bill", **{"\x1b[2J" + "x" * 10_000: 1})[0]
    assert len(name) < 100
    assert name.isprintable()


# --- values --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields", "unreadable"),
    [
        *CASES["unreadable"],
        ("bill", {"amounts": {"net": 2**63}, "lines": [{"qty": float("nan")}]}, ["amounts.net", "lines.qty"]),
    ],
)
def test_a_value_that_cannot_be_read_is_found(kind: str, fields: dict[str, Any], unreadable: list[str]) -> None:
    assert found(kind, **fields) == (set(), set(unreadable))


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_a_field_without_a_value_is_not_a_mistake(nothing: object) -> None:
    assert found("bill", closedAt=nothing, table=nothing, lines=[{"qty": nothing}], amounts={"net": nothing}) == (
        set(),
        set(),
    )


@pytest.mark.parametrize(("kind", "fields"), CASES["readable"])
def test_every_documented_form_of_a_value_is_accepted(kind: str, fields: dict[str, Any]) -> None:
    assert found(kind, **fields) == (set(), set())


def test_the_other_fields_of_a_removal_are_not_checked() -> None:
    assert found("bill", removed=True, closed_at=1) == (set(), set())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "12.5", "1,000", "x", "yes", "2026-01-31", "2026-02-30T10:00:00Z", " 7", "-", "1e3"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["qty", "id", "name", "amount", "net", "options", "x", "reason"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*(known_fields("bill").fields or {}), "x"]), VALUES, max_size=6))
def test_the_strict_decoder_accepts_no_bill_that_the_field_check_rejects(fields: dict[str, Any]) -> None:
    """The decoder accepts no line of a rejects file, so all findings in a wrapped record come from the field check."""
    line = json.dumps({**fields, "kind": "bill", "id": "1", "shopId": "sh_1", "removed": None}).encode()
    wrapped = json.dumps({"kind": "reject", "record": line.decode()}).encode()
    try:
        assert findings(line) == findings(wrapped)
    except Rejected:
        assert "lines" in fields
