"""Tests for sources of lines: files, folders and standard input, plain and compressed, complete and damaged."""

import gzip
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from counterfoil.ingest.sources import SourceError, open_source
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
def test_a_file_may_be_plain_or_compressed(tmp_path: Path, packing: str) -> None:
    file = file_with(tmp_path, packing, written(shop("a"), shop("b")))
    lines = list(open_source(str(file)).lines())
    assert [(line.source, line.number) for line in lines] == [(file.name, 1), (file.name, 2)]
    assert ids(file) == ["a", "b"]


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
def test_a_file_from_which_nothing_can_be_unpacked_is_damaged_from_its_first_line(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match="cannot be read after line 0") as caught:
        ids(tmp_path / name)
    assert "unpacked" not in str(caught.value)


@pytest.mark.parametrize("end", [b"", b"\r\n"], ids=["the last line has no end", "lines end as on Windows"])
def test_other_line_ends_are_accepted(tmp_path: Path, end: bytes) -> None:
    lines = written(shop("a"), shop("b")).splitlines()
    assert ids(file_with(tmp_path, "", (end or b"\n").join(lines) + end)) == ["a", "b"]


def test_blank_lines_are_skipped_and_still_numbered(tmp_path: Path) -> None:
    file = file_with(tmp_path, "", b"\n\n" + written(shop("a")) + b"   \n" + written(shop("b")))
    assert [line.number for line in open_source(str(file)).lines()] == [3, 5]


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_several_gzip_members_and_zstd_frames_are_one_file(tmp_path: Path, packing: str) -> None:
    file = file_with(tmp_path, packing, written(shop("a")))
    file.write_bytes(file.read_bytes() + PACK[packing](written(shop("b"))))
    assert ids(file) == ["a", "b"]


def many() -> bytes:
    return written(*(shop(f"shop {n * 7919 % 10_007}") for n in range(5000)))


@pytest.mark.parametrize("packing", PACK)
def test_a_named_pipe_is_read_to_its_end(tmp_path: Path, packing: str) -> None:
    pipe = tmp_path / f"a.ndjson{packing}"
    os.mkfifo(pipe)
    content = PACK[packing](many())
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    opened = open_source(str(pipe))
    assert opened.total is None
    assert len(list(opened.lines())) == 5000
    writer.join()


def test_a_missing_source_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no file or folder"):
        open_source(str(tmp_path / "nowhere.ndjson"))


# --- a folder ----------------------------------------------------------------


def test_a_folder_is_read_in_the_order_of_names_with_all_bills_last(tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_bytes(written(bill("b_1"), shop("s_1"), bill("b_2")))
    (tmp_path / "2.jsonl.gz").write_bytes(gzip.compress(written(member("m_1"), bill("b_3"), shop("s_2"))))
    (tmp_path / "3.ndjson.zst").write_bytes(zstd.compress(written(bill("b_4"), shop("s_3"))))
    (tmp_path / "notes.txt").write_bytes(b"not for loading")
    (tmp_path / "folder.ndjson").mkdir()
    assert ids(tmp_path) == ["s_1", "m_1", "s_2", "s_3", "b_1", "b_2", "b_3", "b_4"]


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


def test_lines_of_a_folder_have_their_file_and_number(tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_bytes(written(bill("b_1"), shop("s_1")))
    lines = [(line.source, line.number) for line in open_source(str(tmp_path)).lines()]
    assert lines == [("1.ndjson", 2), ("1.ndjson", 1)]


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


def test_a_folder_that_has_only_other_files_is_reported(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(SourceError, match=r"contains no file whose name ends in \.ndjson, \.jsonl or \.json"):
        open_source(str(tmp_path))


def test_an_empty_folder_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "bills.ndjson.part").touch()
    source = open_source(str(tmp_path))
    assert list(source.lines()) == []
    assert [path.name for path in source.unfinished] == ["bills.ndjson.part"]


def test_json_files_of_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(json.dumps([bill("b"), shop("s")], indent=1))
    (tmp_path / "2.json.gz").write_bytes(gzip.compress(written(bill("c"))))
    assert ids(tmp_path) == ["s", "b", "c"]


def test_a_folder_reports_how_far_it_has_been_read(tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_bytes(written(bill("b"), shop("s")))
    (tmp_path / "2.ndjson").write_bytes(written(shop("s")))
    opened = open_source(str(tmp_path))
    positions = [opened.position() for _ in opened.lines()]
    assert positions == sorted(positions)
    assert opened.position() == opened.total


# --- standard input ------------------------------------------------------------


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
    file = file_with(tmp_path, packing, DOCUMENTS[document].encode())
    assert [json.loads(line.text) for line in open_source(str(file)).lines()] == RECORDS


def test_a_record_of_a_document_has_the_number_of_its_first_line(tmp_path: Path) -> None:
    file = file_with(tmp_path, "", b'[\n  {\n    "id": "a"\n  },\n  {"id": "b"}\n]')
    assert [line.number for line in open_source(str(file)).lines()] == [2, 5]


def test_a_long_list_is_read_across_chunk_boundaries(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    records = [shop(f"{n}", name='\\"' * n) for n in range(900)]
    file.write_text(json.dumps(records))
    assert [json.loads(line.text) for line in open_source(str(file)).lines()] == records


def test_a_list_without_its_end_is_a_damaged_file(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_text('[{"id":"a"},\n{"id":"b"},\n')
    source = open_source(str(file))
    lines = source.lines()
    assert [next(lines).text, next(lines).text] == [b'{"id":"a"}', b'{"id":"b"}']
    with pytest.raises(SourceError, match="cannot be read after line 3: the array is not closed"):
        next(lines)
    assert list(source.damage) == [file]


def test_other_text_between_the_records_of_a_list_is_rejected(store: Store, clock: ManualClock, tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_text('[{"kind":"shop","id":"a"}, nonsense, {"kind":"shop","id":"b"}, 7]')
    summary = load(store, clock, open_source(str(file)))
    assert (summary.outcomes, summary.rejected) == ({"added": 2}, {"not_json": 2})


@pytest.mark.parametrize("packing", PACK)
def test_a_compressed_file_is_recognised_without_its_suffix(tmp_path: Path, packing: str) -> None:
    file = tmp_path / "a.ndjson"
    file.write_bytes(PACK[packing](written(shop("a"), shop("b"))))
    assert ids(file) == ["a", "b"]


def test_a_folder_reports_files_that_it_does_not_read_and_empty_files(tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_bytes(written(shop("a")))
    (tmp_path / "2.ndjson").write_bytes(b"\n")
    (tmp_path / "3.ndjson.gz").write_bytes(b"not gzip")
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".half").touch()
    (tmp_path / "more").mkdir()
    source = open_source(str(tmp_path))
    with pytest.raises(SourceError, match=r"3\.ndjson\.gz"):
        list(source.lines())
    assert [path.name for path in source.ignored] == ["more", "notes.txt"]
    assert [path.name for path in source.damage] == ["3.ndjson.gz"]
    assert source.empty == ["2.ndjson"]


def test_the_errors_of_two_damaged_files_are_two_sentences(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.ndjson.gz").write_bytes(gzip.compress(b'{"kind":"shop"}\n' * 1000)[:-9])
    with pytest.raises(SourceError, match=r"[^.;]\. b\.ndjson\.gz cannot be read") as caught:
        list(open_source(str(tmp_path)).lines())
    assert ".;" not in str(caught.value)
