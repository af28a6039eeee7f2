"""The clients written out in docs/sync.md, run as they stand there."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import records as r
from client.copies import Json, plain
from client.pulling import Copy
from client.targets import Target, duckdb_target
from house import House

DOCUMENT = Path(__file__).parents[2] / "docs" / "sync.md"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return duckdb_target(tmp_path)


def written(language: str) -> str:
    [code] = re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return str(code)


def run(command: list[str], copy: Copy, folder: Path) -> None:
    environment = os.environ | {"COUNTERFOIL_URL": copy.url, "COUNTERFOIL_KEY": copy.key}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def stored(folder: Path, table: str) -> list[Json]:
    with closing(sqlite3.connect(folder / "copy.sqlite3")) as db:
        return [json.loads(body) for [body] in db.execute(f"SELECT body FROM {table}")]  # noqa: S608 - our own names


def by_id(rows: list[Json], name: str = "id") -> dict[str, Json]:
    return {row[name]: plain(row) for row in rows}


def change(house: House, branch: r.Record) -> None:
    """More than a page of bills, one that changes, one without a date, and a member less."""
    changing = r.bill(branch, id="changing")
    house.load(changing, *r.bills(branch, 210), r.bill(branch, closedAt=None))
    house.clock.advance(1)
    house.load(changing | {"void": {"reason": "mistake"}}, r.removal(r.member(branch, id="m-1")))


def test_the_python_example_keeps_a_copy(copy: Copy, branch: r.Record, house: House, tmp_path: Path) -> None:
    pytest.importorskip("requests")
    (tmp_path / "example.py").write_text(written("python"))
    for _ in range(2):
        run([sys.executable, "example.py"], copy, tmp_path)
        served = copy.served()
        assert by_id(stored(tmp_path, "bills")) == {bill["id"]: bill for bill in served["bills"].values()}
        assert by_id(stored(tmp_path, "members"), "memberId") == {
            member["memberId"]: member for member in served["members"].values()
        }
        change(house, branch)


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
def test_the_curl_example_brings_every_change(copy: Copy, branch: r.Record, house: House, tmp_path: Path) -> None:
    (tmp_path / "example.sh").write_text(written("sh"))
    for _ in range(2):
        run(["sh", "example.sh"], copy, tmp_path)
        lines = (tmp_path / "bills.ndjson").read_text().splitlines()
        tracked = {bill["id"]: bill for bill in copy.served()["bills"].values() if bill["updatedAt"]}
        assert by_id([json.loads(line) for line in lines]) == tracked
        change(house, branch)
