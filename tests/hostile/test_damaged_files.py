"""A damaged delivery: every line before the damage is loaded, and the error names the last line that was reached."""

import gzip
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd
from msgspec import json

from counterfoil import bootstrap
from counterfoil.ingest.pipeline import Pipeline, RejectsFile, Summary
from counterfoil.ingest.sources import SourceError, open_source
from records import bill, branch
from running_service import RunningService

NUMBER = 2_000
PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstd.compress}


def cut(packed: bytearray) -> bytearray:
    return packed[: len(packed) // 2]


def scribbled_on(packed: bytearray) -> bytearray:
    middle = len(packed) // 2
    packed[middle : middle + 50] = b"\xff" * 50
    return packed


def delivery(file: Path, harm: Callable[[bytearray], bytearray]) -> None:
    """Write a shop and its bills, compress them, and then damage the file."""
    draw = random.Random(1)  # noqa: S311 - random content, so that the file does not compress to almost nothing
    of = branch()
    records = [of, *(bill(of, taxNumber=draw.randbytes(40).hex()) for _ in range(NUMBER))]
    packed = PACK[file.suffix](b"\n".join(json.encode(record) for record in records) + b"\n")
    file.write_bytes(harm(bytearray(packed)))


def loaded(service: RunningService, path: Path) -> tuple[Summary, str]:
    """Load a file or folder; return the result and the reported damage."""
    results: list[Summary] = []
    rejects = RejectsFile(service.folder / "rejects.ndjson")
    pipeline = Pipeline(service.ledger, bootstrap.pseudonyms(service.settings), rejects, 500, results.append)
    with pytest.raises(SourceError) as damage:
        pipeline.load(open_source(str(path)))
    return results[-1], str(damage.value)


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("harm", [cut, scribbled_on])
def test_every_line_before_the_damage_is_loaded(
    service: RunningService, tmp_path: Path, packing: str, harm: Callable[[bytearray], bytearray]
) -> None:
    file = tmp_path / f"delivery.ndjson{packing}"
    delivery(file, harm)
    summary, damage = loaded(service, file)
    reached = re.search(r"cannot be read after line (\d+): \w+", damage)
    assert reached, damage
    # The damage is in the middle. All lines in the same zstd block are lost.
    assert int(reached[1]) > NUMBER * (0.4 if packing == ".gz" else 0.2)
    assert summary.lines == int(reached[1])
    assert summary.outcomes["added"] + summary.rejected.total() == summary.lines
    # gzip unpacks some damaged bytes before it detects an error. The loader rejects the resulting lines.
    assert summary.outcomes["added"] > NUMBER * (0.4 if packing == ".gz" else 0.2)


def test_the_other_files_of_a_folder_are_loaded(service: RunningService, tmp_path: Path) -> None:
    for name, harm in (("a.ndjson.gz", cut), ("b.ndjson.zst", scribbled_on), ("c.ndjson.gz", bytearray)):
        delivery(tmp_path / name, harm)
    summary, damage = loaded(service, tmp_path)
    assert re.findall(r"(\S+) cannot be read after line", damage) == ["a.ndjson.gz", "b.ndjson.zst"]
    assert summary.outcomes["added"] > NUMBER + 1 + 2 * NUMBER * 0.2


def test_a_damaged_load_is_not_recorded_as_finished(service: RunningService, tmp_path: Path) -> None:
    file = tmp_path / "delivery.ndjson.gz"
    delivery(file, cut)
    loaded(service, file)
    latest = bootstrap.inspection(service.settings).latest_load(service.clock.now_ms())
    assert latest is not None
    assert not latest.finished
