"""A damaged archive: none of its lines is loaded, and the damage is reported."""

import gzip
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd
from msgspec import json

from counterfoil.ingest.sources import SourceError, open_source
from records import bill, branch

NUMBER = 300
PARTS = 3
SEEDS = 150


def zstd_with_checksum(text: bytes) -> bytes:
    """Compress with a checksum, as the `zstd` command does."""
    return zstd.compress(text, options={zstd.CompressionParameter.checksum_flag: 1})


PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstd_with_checksum}


def cut(packed: bytearray, draw: random.Random) -> bytearray:
    return packed[: draw.randrange(len(packed))]


def scribbled_on(packed: bytearray, draw: random.Random) -> bytearray:
    at, size = draw.randrange(len(packed)), draw.randrange(1, 80)
    packed[at : at + size] = draw.randbytes(len(packed[at : at + size]))
    return packed


def with_a_flipped_bit(packed: bytearray, draw: random.Random) -> bytearray:
    packed[draw.randrange(len(packed))] ^= 1 << draw.randrange(8)
    return packed


def scribbled_on_and_cut(packed: bytearray, draw: random.Random) -> bytearray:
    return cut(scribbled_on(packed, draw), draw)


HARMS = [cut, scribbled_on, with_a_flipped_bit, scribbled_on_and_cut]


def delivered_lines() -> list[bytes]:
    """Return the lines of a shop and its bills: the same in every run, with random digits that compress badly."""
    draw = random.Random(1)  # noqa: S311 - test data
    of = branch(id="shop-1", franchiseId="franchise-1", providerId="base-1")
    bills = (bill(of, id=f"bill-{n}", taxNumber=draw.randbytes(40).hex()) for n in range(NUMBER))
    return [json.encode(record) for record in (of, *bills)]


LINES = delivered_lines()


def packed_in_parts(suffix: str, lines: list[bytes], number: int = PARTS) -> bytearray:
    """Compress the lines into this many gzip members or zstd frames, one after the other."""
    size = -(-len(lines) // number)
    parts = [lines[at : at + size] for at in range(0, len(lines), size)]
    return bytearray(b"".join(PACK[suffix](b"\n".join(part) + b"\n") for part in parts))


def read(path: Path) -> tuple[list[bytes], SourceError | None]:
    """Return the lines that a load would see, and the damage that was reported."""
    found: list[bytes] = []
    try:
        for line in open_source(str(path)).lines():
            found.append(line.text)  # noqa: PERF401 - the lines before an error count too
    except SourceError as damage:
        return found, damage
    return found, None


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("harm", HARMS)
def test_no_line_is_ever_read_from_a_damaged_archive(
    tmp_path: Path, packing: str, harm: Callable[[bytearray, random.Random], bytearray]
) -> None:
    file = tmp_path / f"delivery.ndjson{packing}"
    intact = packed_in_parts(packing, LINES)
    for seed in range(SEEDS):
        file.write_bytes(harm(bytearray(intact), random.Random(seed)))  # noqa: S311 - test data
        found, damage = read(file)
        if damage:
            assert found == [], seed
            assert f"{file.name} cannot be read, so it is not loaded: " in str(damage), seed
        else:
            # A flipped bit may have no effect, for example in the modification time in a gzip header.
            assert found == LINES[: len(found)], seed
            assert harm is cut or found == LINES, seed


def test_a_zstd_frame_without_a_checksum_is_loaded_from_an_intact_file(tmp_path: Path) -> None:
    file = tmp_path / "delivery.ndjson.zst"
    frames = [zstd.compress(line + b"\n") for line in LINES[:2]]
    file.write_bytes(b"".join(frames))
    assert read(file) == (LINES[:2], None)
    file.write_bytes(b"".join(frames)[:-1])
    assert read(file)[0] == []


@pytest.mark.parametrize("packing", PACK)
def test_a_file_that_is_damaged_between_the_two_passes_over_a_folder_is_checked_again(
    tmp_path: Path, packing: str
) -> None:
    file = tmp_path / f"delivery.ndjson{packing}"
    intact = packed_in_parts(packing, LINES, 1)
    file.write_bytes(intact)
    source = open_source(str(tmp_path)).lines()
    assert next(source).text == LINES[0], "the shop is read in the first pass"
    file.write_bytes(scribbled_on(bytearray(intact), random.Random(2)))  # noqa: S311 - test data
    found: list[bytes] = []
    with pytest.raises(SourceError, match="cannot be read, so it is not loaded"):
        found += [line.text for line in source]
    assert found == []


def test_zeros_after_a_gzip_member_are_not_damage(tmp_path: Path) -> None:
    file = tmp_path / "delivery.ndjson.gz"
    file.write_bytes(gzip.compress(LINES[0] + b"\n") + bytes(70_000) + gzip.compress(LINES[1]) + bytes(10))
    assert read(file) == (LINES[:2], None)


def test_a_sparse_file_behind_an_archive_ends_the_file_at_once(tmp_path: Path) -> None:
    file = tmp_path / "delivery.ndjson.gz"
    file.write_bytes(gzip.compress(LINES[0] + b"\n"))
    os.truncate(file, 1 << 40)
    lines, damage = read(file)
    assert lines == []
    assert "more than 4 MiB without text" in str(damage)


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("text", [b"", b"\n"])
def test_an_archive_of_many_tiny_parts_is_not_read_to_its_end(tmp_path: Path, kind: str, text: bytes) -> None:
    file = tmp_path / f"delivery.ndjson{kind}"
    file.write_bytes(PACK[kind](text) * 500_000)
    assert "too many small parts" in str(read(file)[1])


@pytest.mark.parametrize("kind", PACK)
def test_parts_with_one_record_each_are_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"delivery.ndjson{kind}"
    record = b'{"kind":"base","id":"1"}'
    file.write_bytes(PACK[kind](record + b"\n") * 5_000)
    assert read(file) == ([record] * 5_000, None)


def test_the_load_can_be_stopped_while_it_reads_zeros(tmp_path: Path) -> None:
    file = tmp_path / "delivery.ndjson.gz"
    file.write_bytes(gzip.compress(LINES[0] + b"\n") + bytes(1 << 20))
    source = open_source(str(file))
    calls = []
    source.on_read = lambda: calls.append(1)
    assert len(list(source.lines())) == 1
    assert len(calls) > 2 * 16, "both passes over the file call it for every 64 KiB"


def test_the_other_files_of_a_folder_are_read_and_each_damage_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson.gz").write_bytes(packed_in_parts(".gz", LINES)[:-1])
    (tmp_path / "b.ndjson.zst").write_bytes(packed_in_parts(".zst", LINES[1:], 1)[:-1])
    (tmp_path / "c.ndjson.gz").write_bytes(packed_in_parts(".gz", LINES, 1))
    found, damage = read(tmp_path)
    assert re.findall(r"(\S+) cannot be read, ", str(damage)) == ["a.ndjson.gz", "b.ndjson.zst"]
    assert re.search(r"[^.;]\. b\.ndjson\.zst", str(damage))
    assert found == LINES
