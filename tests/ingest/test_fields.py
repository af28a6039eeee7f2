"""Fields that a load does not use are reported: unknown names and unreadable values, in records and nested objects."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.shops import shop_from
from counterfoil.ingest.fields import (
    MAX_COUNTED,
    FieldCounts,
    FieldType,
    Findings,
    check_record,
    known_fields,
    suggestion,
)
from counterfoil.ingest.lines import Reader, Rejected, parse_record
from ports.open_store import PSEUDONYMS, base, bill, member, shop

FACTS = shop_from({"id": "sh_1", "franchiseId": "fr_a"})[1]
READER = Reader(PSEUDONYMS, lambda _: KnownFacts(1, FACTS))
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
    return Recorder(values, start, read)


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


@pytest.mark.parametrize(
    ("kind", "fields", "unknown"),
    [
        ("bill", {"closed_at": 1_760_000_000, "amount": {"net": 1}}, {"closed_at", "amount"}),
        ("bill", {"lines": [{"qty": 1}, {"quantity": 1}]}, {"lines.quantity"}),
        ("bill", {"lines": [{"options": [{"choice": "x"}]}]}, {"lines.options.choice"}),
        (
            "bill",
            {"amounts": {"netTotal": 1, "coupons": [{"value": 1}]}},
            {"amounts.netTotal", "amounts.coupons.value"},
        ),
        ("bill", {"payments": [{"method": "cash"}]}, {"payments.method"}),
        ("bill", {"table": {"label": "4"}, "channel": {"code": "x"}}, {"table.label", "channel.code"}),
        ("bill", {"void": {"cause": "x"}}, {"void.cause"}),
        ("shop", {"categories": [{"id": "c", "title": "x"}]}, {"categories.title"}),
        ("shop", {"channels": [{"id": "c", "label": "x"}]}, {"channels.label"}),
        ("base", {"tiers": [{"id": "gold"}], "removed": True}, {"tiers.id", "removed"}),
        ("member", {"points": [{"amount": 1, "expiresAt": "2027-01-01"}]}, {"points.expiresAt"}),
        ("member", {"coupons": [{"id": "c"}], "messaging": [{"user": "u"}]}, {"coupons.id", "messaging.user"}),
        ("member", {"visits": [{"date": "2026-01-01"}]}, {"visits.date"}),
    ],
)
def test_an_unknown_name_is_found_wherever_it_is(kind: str, fields: dict[str, Any], unknown: set[str]) -> None:
    assert found(kind, **fields)[0] == unknown


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
        ("bill", {"closedAt": "14/11/2026 19:05", "tradingDay": "14/11/2026"}, {"closedAt", "tradingDay"}),
        ("bill", {"closedAt": {"$date": 1}}, {"closedAt"}),
        (
            "bill",
            {"amounts": {"net": "120 THB", "vat": True, "tip": 1e30}},
            {"amounts.net", "amounts.vat", "amounts.tip"},
        ),
        ("bill", {"amounts": {"net": 2**63}, "lines": [{"qty": float("nan")}]}, {"amounts.net", "lines.qty"}),
        ("bill", {"amounts": [120], "lines": {"qty": 1}}, {"amounts", "lines"}),
        ("bill", {"lines": [{"qty": "two", "vat": "Y"}, "mango"]}, {"lines", "lines.qty", "lines.vat"}),
        (
            "bill",
            {"lines": [{"options": [{"qty": "x"}], "categoryIds": "c"}]},
            {"lines.options.qty", "lines.categoryIds"},
        ),
        ("bill", {"payments": [{"amount": "?", "change": []}]}, {"payments.amount", "payments.change"}),
        ("bill", {"table": "T4", "cashier": 7, "void": 2}, {"table", "cashier", "void"}),
        ("bill", {"orderIds": ["a", {"id": "b"}], "rev": "first"}, {"orderIds", "rev"}),
        ("shop", {"timezone": "Asia/Bankok", "closingTime": "2am"}, {"timezone", "closingTime"}),
        (
            "shop",
            {"categories": [{"id": "c", "level": "top", "visibleIn": "x"}]},
            {"categories.level", "categories.visibleIn"},
        ),
        ("base", {"creditEnabled": "on", "tiers": ["gold"]}, {"creditEnabled", "tiers"}),
        ("member", {"createdAt": "1/3/2025", "rank": 2, "rankLevel": -1}, {"createdAt", "rank", "rankLevel"}),
        (
            "member",
            {"points": "many", "credit": [{"amount": "x", "expireAt": "soon"}]},
            {"points", "credit.amount", "credit.expireAt"},
        ),
        (
            "member",
            {"coupons": [{"status": "open", "expireAt": "x"}], "visits": ["x"]},
            {"coupons.status", "coupons.expireAt", "visits"},
        ),
    ],
)
def test_a_value_that_cannot_be_read_is_found(kind: str, fields: dict[str, Any], unreadable: set[str]) -> None:
    assert found(kind, **fields) == (set(), unreadable)


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_a_field_without_a_value_is_not_a_mistake(nothing: object) -> None:
    assert found("bill", closedAt=nothing, table=nothing, lines=[{"qty": nothing}], amounts={"net": nothing}) == (
        set(),
        set(),
    )


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("bill", {"closedAt": "2026-11-14T19:05:00+07:00", "tradingDay": "20261114", "amounts": {"net": "1,250.00"}}),
        (
            "bill",
            {"closedAt": "1760000000", "void": "wrong table", "channel": 7, "lines": [{"vat": "yes", "qty": " 3 "}]},
        ),
        ("bill", {"closedAt": 1_760_000_000_000, "tradingDay": 20261114, "void": {"reason": "x"}, "history": 1}),
        ("member", {"createdAt": "2025-03-01", "tel": 812345678, "visits": [20250101, {"at": "2025-01-01T10:00"}]}),
        ("member", {"points": 5, "credit": [{"amount": "5", "expireAt": "9999-12-31"}], "rankLevel": "2"}),
        ("shop", {"timezone": "Asia/Bangkok", "closingTime": "24:00", "categories": [{"id": 1, "visibleIn": [1]}]}),
    ],
)
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
