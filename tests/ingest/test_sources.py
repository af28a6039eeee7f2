"""Tests for sources of lines: files, folders and standard input, plain and compressed, complete and damaged."""

import gzip
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from counterfoil.ingest.sources import BUFFER_BYTES, SourceError, open_source
from ingest.loaders import load
from ports.backends import Store
from ports.open_store import OpenStore, bill, member, shop
from running_service import ManualClock

PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstd.compress}


def written(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def ids(name: Path) -> list[Any]:
    return [json.loads(line.text)["id"] for line in open_source(str(name)).lines()]


def file_with(folder: Path, packing: str, content: bytes) -> Path:
    file = folder / f"all.ndjson{packing}"
    file.write_bytes(PACK[packing](content))
    return file


# --- a file ------------------------------------------------------------------


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n \n\t\n"], ids=["nothing", "a line end", "blanks"])
def test_a_file_without_records_has_no_lines(tmp_path: Path, packing: str, content: bytes) -> None:
    assert ids(file_with(tmp_path, packing, content)) == []
    (tmp_path / "empty.ndjson.gz").touch()
    assert ids(tmp_path / "empty.ndjson.gz") == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.ndjson.gz", gzip.compress(b'{"kind":"shop","id":"a"}\n', mtime=0)[:10]),
        ("empty.ndjson.zst", b""),
        ("plain.ndjson.gz", b'{"kind":"shop","id":"a"}\n'),
        ("plain.ndjson.zst", b'{"kind":"shop","id":"a"}\n'),
    ],
    ids=["a gzip header", "an empty zstd file", "text named .gz", "text named .zst"],
)
def test_a_file_from_which_nothing_can_be_unpacked_is_damaged(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match="cannot be read, so it is not loaded"):
        ids(tmp_path / name)


@pytest.mark.parametrize("end", [b"", b"\r\n"], ids=["the last line has no end", "lines end as on Windows"])
def test_other_line_ends_are_accepted(tmp_path: Path, end: bytes) -> None:
    lines = written(shop("a"), shop("b")).splitlines()
    assert ids(file_with(tmp_path, "", (end or b"\n").join(lines) + end)) == ["a", "b"]


def test_blank_lines_are_skipped_and_still_numbered(tmp_path: Path) -> None:
    file = file_with(tmp_path, "", b"\n\n" + written(shop("a")) + b"   \n" + written(shop("b")))
    assert [line.number for line in open_source(str(file)).lines()] == [3, 5]


@pytest.mark.parametrize("packing", PACK)
def test_a_named_pipe_is_read_to_its_end(tmp_path: Path, packing: str) -> None:
    pipe = tmp_path / f"a.ndjson{packing}"
    os.mkfifo(pipe)
    content = PACK[packing](written(*(shop(f"shop {n * 7919 % 10_007}") for n in range(5000))))
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    opened = open_source(str(pipe))
    assert opened.total is None
    assert len(list(opened.lines())) == 5000
    writer.join()


# --- a folder ----------------------------------------------------------------


def test_a_folder_is_read_in_the_order_of_names_with_all_bills_last(tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_bytes(written(bill("b_1"), shop("s_1"), bill("b_2")))
    (tmp_path / "2.jsonl.gz").write_bytes(gzip.compress(written(member("m_1"), bill("b_3"), shop("s_2"))))
    (tmp_path / "3.ndjson.zst").write_bytes(zstd.compress(written(bill("b_4"), shop("s_3"))))
    (tmp_path / "4.json").write_text(json.dumps([bill("b_5"), shop("s_4")], indent=1))
    (tmp_path / "5.ndjson").write_bytes(b"\n")
    (tmp_path / "notes.txt").write_bytes(b"not for loading")
    (tmp_path / "folder.ndjson").mkdir()
    assert ids(tmp_path) == ["s_1", "m_1", "s_2", "s_3", "s_4", "b_1", "b_2", "b_3", "b_4", "b_5"]
    source = open_source(str(tmp_path))
    lines = [(line.source, line.number) for line in source.lines()]
    assert lines[:2] == [("1.ndjson", 2), ("2.jsonl.gz", 1)]
    assert [path.name for path in source.ignored] == ["folder.ndjson", "notes.txt"]
    assert source.empty == ["5.ndjson"]


@pytest.mark.parametrize(
    "shop_line",
    [
        b'{"kind":"bill","kind":"shop","id":"s"}',
        b'{"kind":"bill","\\u006bind":"shop","id":"s"}',
        b'{"kind":"shop","id":"s","name":"bill"}',
    ],
)
def test_a_line_whose_last_kind_is_not_bill_is_read_before_the_bills(tmp_path: Path, shop_line: bytes) -> None:
    file_with(tmp_path, "", b'{"kind":"bill","id":"b"}\n' + shop_line)
    assert ids(tmp_path) == ["s", "b"]


def test_a_bill_with_nan_is_still_read_after_its_shop(tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_bytes(b'{"kind":"bill","id":"b","x":NaN}\n')
    (tmp_path / "2.ndjson").write_bytes(written(shop("s")))
    assert [line.source for line in open_source(str(tmp_path)).lines()] == ["2.ndjson", "1.ndjson"]


def test_a_line_that_is_not_a_record_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_bytes(b'hello\n{"kind":"bill"\n\xff"bill"\n[[["bill"\n')
    assert len(list(open_source(str(tmp_path)).lines())) == 4


def test_bills_in_a_rejects_file_are_read_after_the_shops_in_the_same_folder(
    open_store: OpenStore, store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    load(store, clock, [bill("b_1")], rejects=folder / "rejects.ndjson")
    (folder / "shops.ndjson").write_bytes(written(shop()))
    assert load(store, clock, open_source(str(folder))).rejected == {}
    assert open_store.bill("b_1") is not None


def test_an_empty_folder_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "bills.ndjson.part").touch()
    source = open_source(str(tmp_path))
    assert list(source.lines()) == []
    assert [path.name for path in source.unfinished] == ["bills.ndjson.part"]


def test_a_folder_reports_how_far_it_has_been_read(tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_bytes(written(bill("b"), shop("s")))
    (tmp_path / "2.ndjson").write_bytes(written(shop("s")))
    opened = open_source(str(tmp_path))
    positions = [opened.position() for _ in opened.lines()]
    assert positions == sorted(positions)
    assert opened.position() == opened.total


# --- lists, records over several lines, and compressed input without a name ---------


RECORDS = [shop("a", name='a "]}" \\ {['), bill("b", lines=[{"qty": 1}, {"qty": 2}]), shop("c")]
DOCUMENTS = {
    "a list": json.dumps(RECORDS),
    "an indented list": json.dumps(RECORDS, indent=2),
    "a list of lines": "[\n" + ",\n".join(map(json.dumps, RECORDS)) + "\n]\n",
    "indented records": "\n".join(json.dumps(record, indent=4) for record in RECORDS),
    "indented records with commas": "\ufeff" + ",\r\n".join(json.dumps(record, indent=1) for record in RECORDS),
    "after blank lines": "\n \n" + json.dumps(RECORDS, indent=2),
}


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_list_and_records_over_several_lines_are_read_like_lines(tmp_path: Path, document: str, packing: str) -> None:
    """Compressed files are recognised without a suffix."""
    file = tmp_path / "all.ndjson"
    file.write_bytes(PACK[packing](DOCUMENTS[document].encode()))
    assert [json.loads(line.text) for line in open_source(str(file)).lines()] == RECORDS


def test_a_record_of_a_document_has_the_number_of_its_first_line(tmp_path: Path) -> None:
    file = file_with(tmp_path, "", b'[\n  {\n    "id": "a"\n  },\n  {"id": "b"}\n]')
    assert [line.number for line in open_source(str(file)).lines()] == [2, 5]


def test_a_long_list_is_read_across_chunk_boundaries(tmp_path: Path) -> None:
    records = [shop(f"{n}", name='\\"' * n) for n in range(300)]
    file = file_with(tmp_path, "", json.dumps(records).encode())
    assert [json.loads(line.text) for line in open_source(str(file)).lines()] == records


def test_a_list_on_one_line_can_be_interrupted_between_its_records(tmp_path: Path) -> None:
    path = tmp_path / "bills.json"
    path.write_bytes(b"[%b{}]" % (b"{}," * 200_000))
    calls: list[None] = []
    source = open_source(str(path))
    source.on_read = lambda: calls.append(None)
    calls_before = [len(calls) for _ in source.lines()]
    assert len(calls_before) == 200_001
    assert max(Counter(calls_before).values()) <= 2 * BUFFER_BYTES / len(b"{},")


def test_a_list_without_its_end_is_a_damaged_file(tmp_path: Path) -> None:
    file = file_with(tmp_path, "", b'[{"id":"a"},\n{"id":"b"},\n')
    source = open_source(str(file))
    lines = source.lines()
    assert [next(lines).text, next(lines).text] == [b'{"id":"a"}', b'{"id":"b"}']
    with pytest.raises(SourceError, match="cannot be read after line 3: the array is not closed"):
        next(lines)
    assert list(source.damage) == [file]


def test_other_text_between_the_records_of_a_list_is_rejected(store: Store, clock: ManualClock, tmp_path: Path) -> None:
    file = file_with(tmp_path, "", b'[{"kind":"shop","id":"a"}, nonsense, {"kind":"shop","id":"b"}, 7]')
    summary = load(store, clock, open_source(str(file)))
    assert (summary.outcomes, summary.rejected) == ({"added": 2}, {"not_json": 2})
