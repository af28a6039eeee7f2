"""Tests for `counterfoil generate`."""

import json
from collections import Counter
from pathlib import Path

import pytest

from cli.command import Command, file_size_limit

PLAN = ("--bills", "120", "--members", "40", "--shops", "18", "--until", "2026-09-30", "--seed", "5")


def test_records_go_to_standard_output_and_depend_only_on_the_seed(counterfoil: Command) -> None:
    first = counterfoil.bare("generate", *PLAN).stdout_bytes
    again = counterfoil.bare("generate", *PLAN).stdout_bytes
    other = counterfoil.bare("generate", *PLAN[:-1], "6").stdout_bytes
    assert first == again != other
    kinds = Counter(json.loads(line)["kind"] for line in first.splitlines())
    assert (kinds["shop"], kinds["member"], kinds["bill"]) == (18, 40, 120)


def test_a_folder_gets_a_file_per_kind_that_loads_without_rejects(counterfoil: Command, tmp_path: Path) -> None:
    out = tmp_path / "world"
    written = json.loads(counterfoil.bare("generate", *PLAN, "--out", out, "--json").stdout)
    assert {Path(path).name: count for path, count in written.items()} == {
        "bases.ndjson": 4,
        "shops.ndjson": 18,
        "members.ndjson": 40,
        "bills.ndjson": 120,
    }
    assert counterfoil.json("load", out)["added"] == 182


def test_an_unwritable_folder_is_reported_in_one_sentence(counterfoil: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = counterfoil.bare("generate", *PLAN, "--out", tmp_path / "file", status=1)
    assert result.stderr.startswith("counterfoil: File exists")


def test_a_file_that_cannot_be_written_is_named_and_no_file_remains(counterfoil: Command, tmp_path: Path) -> None:
    out = tmp_path / "world"
    with file_size_limit(2_000):
        result = counterfoil.bare("generate", *PLAN, "--out", out, status=1)
    error = result.stderr.splitlines()[-1]
    assert error.startswith("counterfoil: File too large: ")
    assert error.rpartition(": ")[2] in {str(out / f"{kind}.ndjson") for kind in ("shops", "members", "bills")}
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    "options", ["--until 9999-12-31", "--days 99999999999", "--shops 99999999999", "--members 9" + "9" * 19]
)
def test_an_impossible_plan_is_misuse(counterfoil: Command, options: str) -> None:
    counterfoil.bare("generate", "--bills", "1", *options.split(), status=2)
    counterfoil.bare("generate", status=2)
