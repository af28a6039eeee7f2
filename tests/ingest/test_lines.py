"""Lines become changes or are rejected with a reason. Rejects can be loaded again."""

import contextlib
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json as msgspec_json

from counterfoil.domain.changes import PutMember, PutShop
from counterfoil.ingest.lines import MAX_LINE_BYTES, REASONS, Reader, Rejected, parse_record
from counterfoil.ingest.sources import open_source
from ingest.loaders import load
from ports.backends import Store
from ports.open_store import PSEUDONYMS, OpenStore, bill, shop
from running_service import ManualClock

READER = Reader(PSEUDONYMS, lambda _: None)
DEEP = 100_000


def reason_of(line: bytes) -> str:
    with pytest.raises(Rejected) as aside:
        READER.change(parse_record(line))
    return aside.value.reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not_json"),
        (b"[]", "not_json"),
        (b"null", "not_json"),
        (b"{", "not_json"),
        (b'{"kind":"shop","id":"1"} {"kind":"shop","id":"2"}', "not_json"),
        (b'{"kind":"shop","id":"1"},', "not_json"),
        (b'{"kind":"shop","id":"\xff"}', "not_utf8"),
        ('{"kind":"shop","id":"1"}'.encode("utf-16"), "not_utf8"),
        ('{"kind":"shop","id":"1"}'.encode("utf-16-le"), "not_utf8"),
        (b"\x00" * 100, "not_json"),
        (b"[" * DEEP, "not_json"),
        (b'{"kind":"shop","id":"1","x":' + b"[" * DEEP + b"]" * DEEP + b"}", "not_json"),
        (b'{"kind":"shop","id":"1","x":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}", "not_json"),
        (b"{}", "unknown_kind"),
        (b'{"kind":"till","id":"1"}', "unknown_kind"),
        (b'{"kind":"Shop","id":"1"}', "unknown_kind"),
        (b'{"kind":["shop"],"id":"1"}', "unknown_kind"),
        (b'{"kind":"shop"}', "no_id"),
        (b'{"kind":"shop","id":"  "}', "no_id"),
        (b'{"kind":"shop","id":NaN}', "no_id"),
        (b'{"kind":"shop","id":true}', "no_id"),
        (b'{"kind":"shop","id":1.5}', "no_id"),
        (b'{"kind":"shop","id":{"a":1}}', "no_id"),
        (b'{"kind":"shop","id":"' + b"a" * 513 + b'"}', "no_id"),
        (b'{"kind":"base","id":"a\\u0000b"}', "no_id"),
        (b'{"kind":"member","id":"\\ud800","providerId":"mb"}', "no_id"),
        (b'{"kind":"bill","id":"a\\udc00","shopId":"sh_1","removed":true}', "no_id"),
        (b'{"kind":"bill","id":"1","shopId":"' + "ก".encode() * 171 + b'"}', "no_shop"),
        (b'{"kind":"bill","id":"1","shopId":"a\\u0000","removed":true}', "no_shop"),
        (b'{"kind":"member","id":"1","providerId":"' + b"a" * 513 + b'"}', "no_base"),
        (b'{"kind":"member","id":"1","providerId":"a\\ud800"}', "no_base"),
        (b'{"kind":"bill","id":"1"}', "no_shop"),
        (b'{"kind":"bill","id":"1","removed":true}', "no_shop"),
        (b'{"kind":"member","id":"1"}', "no_base"),
        (b'{"kind":"member","id":"1","providerId":[]}', "no_base"),
        (b'{"kind":"bill","id":"1","shopId":"sh_1"}', "unknown_shop"),
        (b'{"kind":"shop","id":"1","name":"' + b"a" * MAX_LINE_BYTES + b'"}', "too_long"),
        (b'{"kind":"reject"}', "not_json"),
        (b'{"kind":"reject","record":"hello"}', "not_json"),
        (b'{"kind":"reject","recordBase64":"%%%"}', "not_json"),
        (b'{"kind":"reject","record":"{\\"kind\\":\\"shop\\"}"}', "no_id"),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else value,
)
def test_a_line_that_is_not_a_record_is_rejected_with_its_reason(line: bytes, reason: str) -> None:
    assert reason_of(line) == reason


def test_every_documented_reason_has_a_text() -> None:
    page = Path(__file__).parents[2].joinpath("docs/source-records.md").read_text(encoding="utf-8")
    table = page.partition("## Rejected lines")[2]
    assert all(f"| `{reason}` |" in table for reason in REASONS)


@pytest.mark.parametrize(
    "line",
    [
        b'\xef\xbb\xbf{"kind":"shop","id":"1"}',
        b'{"kind":"shop","id":"1","x":NaN}',
        b'{"kind":"shop","id":"1","x":-Infinity}',
        b'{"kind":"shop","id":1}',
        b'{"kind":"shop","id":1.0}',
        b'{"kind":"shop","id":"1","x":' + b"9" * 400 + b"}",
        b'{"kind":"shop","id":"1","x":1e999}',
        b'{"kind":"shop","id":"1","x":"\\ud800"}',
        b'{"kind":"shop","id":"2","id":"1"}',
        b' {"kind":"shop",\t"id":"1"} ',
        b'{"kind":"shop","id":"1","more":"' + b"a" * (MAX_LINE_BYTES - 34) + b'"}',
    ],
    ids=lambda line: line[:40].decode("latin-1"),
)
def test_a_carelessly_written_line_is_a_record(line: bytes) -> None:
    change = READER.change(parse_record(line))
    assert isinstance(change, PutShop)
    assert change.shop.shop_id == "1"


def test_a_number_of_a_thousand_digits_is_ignored_but_the_record_is_kept() -> None:
    line = b'{"kind":"member","id":"1","providerId":"mb","points":' + b"9" * 10_000 + b"}"
    change = READER.change(parse_record(line))
    assert isinstance(change, PutMember)
    assert change.record.points == []


@given(st.binary(max_size=200))
def test_any_bytes_are_at_worst_rejected(line: bytes) -> None:
    # Hypothesis tries the literals of this file too, so some of its lines are records.
    reason = None
    try:
        READER.change(parse_record(line))
    except Rejected as rejected:
        reason = rejected.reason
    assert reason in {None, *REASONS}


@given(
    st.dictionaries(
        st.sampled_from(["kind", "id", "shopId", "providerId", "rev", "removed", "record", "lines", "categories"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.sampled_from(["bill"]),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=8,
        ),
    ),
    st.sampled_from(["shop", "base", "member", "bill", "reject"]),
)
def test_any_object_is_at_worst_rejected(record: dict[str, Any], kind: str) -> None:
    with contextlib.suppress(Rejected):
        READER.change(parse_record(json.dumps({**record, "kind": kind}).encode("utf-8", "surrogatepass")))


# --- the rejects file ----------------------------------------------------------


def rejects_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_reject_gives_the_position_and_the_content_of_the_line(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "rejects.ndjson"
    load(store, clock, [shop(), b'{"kind":"till"}', b"\xff\xfe"], rejects=file)
    assert rejects_in(file) == [
        {"kind": "reject", "source": "test", "line": 2, "reason": "unknown_kind", "record": '{"kind":"till"}'},
        {"kind": "reject", "source": "test", "line": 3, "reason": "not_utf8", "recordBase64": "//4="},
    ]
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_permissions_of_a_pipe_for_rejects_are_not_changed(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    load(store, clock, [b'{"kind":"till"}'], rejects=pipe)
    assert json.loads(os.read(reading, 10_000))["reason"] == "unknown_kind"
    os.close(reading)
    assert pipe.stat().st_mode & 0o777 == 0o666


def test_rejects_are_loadable_once_the_cause_is_fixed_even_if_they_were_rejected_again(
    open_store: OpenStore, store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    files = [tmp_path / f"rejects-{n}.ndjson" for n in range(4)]
    tricky = bill("b_1", cashier='Noi "\\ \u2028 นุ่น \x7f', amounts={"net": "NaN"})
    with_nan = b'{"kind":"bill","id":"b_2","shopId":"sh_1","x":NaN}'
    not_utf8 = b'{"kind":"bill","id":"b_3","shopId":"sh_1","note":"\xff"}'
    assert load(store, clock, [tricky, with_nan, not_utf8], rejects=files[0]).rejected.total() == 3
    for before, after in pairwise(files):
        load(store, clock, open_source(str(before)), rejects=after)
    assert rejects_in(files[3]) == rejects_in(files[0])
    load(store, clock, [shop()])
    summary = load(store, clock, open_source(str(files[3])))
    assert (summary.outcomes, summary.rejected) == ({"added": 2}, {"not_utf8": 1})
    assert open_store.bill("b_1")["cashier"] == tricky["cashier"]
    assert open_store.bill("b_2") is not None


def test_a_long_rejected_line_is_still_loadable(
    open_store: OpenStore, store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    """Quotes are escaped in a rejects file, so the line there is longer than the limit for lines."""
    file = tmp_path / "rejects.ndjson"
    long = bill("b_1", ignored='"' * 1_000_000)
    assert MAX_LINE_BYTES / 2 < len(json.dumps(long)) < MAX_LINE_BYTES
    load(store, clock, [msgspec_json.encode(long)], rejects=file)
    load(store, clock, [shop()])
    assert load(store, clock, open_source(str(file))).outcomes == {"added": 1}
    assert open_store.bill("b_1")["id"] == "b_1"


def test_a_line_too_long_to_load_stays_rejected(store: Store, clock: ManualClock, tmp_path: Path) -> None:
    long = tmp_path / "long.ndjson"
    long.write_bytes(b'{"kind":"shop","id":"1","name":"' + b'\\"' * 9_000_000 + b'"}\n' + b'{"kind":"shop","id":"2"}\n')
    first, second = tmp_path / "first.ndjson", tmp_path / "second.ndjson"
    summary = load(store, clock, open_source(str(long)), rejects=first)
    assert (summary.lines, summary.outcomes, summary.rejected) == (2, {"added": 1}, {"too_long": 1})
    assert load(store, clock, open_source(str(first)), rejects=second).rejected == {"too_long": 1}
    assert first.stat().st_size < 4 * MAX_LINE_BYTES
