"""What the console brings in is checked and loaded by a process that can open no keys."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counterfoil import bootstrap
from counterfoil.settings import Settings
from counterfoil.settings import load as load_settings
from empty_store import copy_empty_store
from records import bills, branch

STRACE = shutil.which("strace")
LOADER = [sys.executable, "-P", "-m", "counterfoil.cli.keyless_load"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    copy_empty_store(tmp_path / "store")
    return load_settings({"store": str(tmp_path / "store")}, {})


@pytest.fixture
def records(tmp_path: Path) -> Path:
    shop = branch()
    path = tmp_path / "november.0f.ndjson"
    path.write_text("".join(json.dumps(record) + "\n" for record in (shop, *bills(shop, 3))))
    return path


def run(settings: Settings, action: str, records: Path, before: tuple[str, ...] = ()) -> Any:
    environment = {**os.environ, "COUNTERFOIL_STORE": str(settings.store)}
    command = [*before, *LOADER, action, records.name]
    with records.open() as opened:
        done = subprocess.run(
            command, stdin=opened, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_check_writes_nothing_and_a_load_names_its_file(settings: Settings, records: Path) -> None:
    checked = run(settings, "check", records)
    assert (checked["totals"]["bills"], checked["load"], checked["doubts"]) == (3, 0, [])
    assert bootstrap.store(settings).reads().loads(10) == []
    assert run(settings, "load", records)["added"] == 4
    (load,) = bootstrap.store(settings).reads().loads(10)
    assert (load.files, load.finished) == ({"november.0f.ndjson": 0}, True)


@pytest.mark.programs
@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_neither_a_check_nor_a_load_opens_the_keys(settings: Settings, records: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for action in ("check", "load"):
        run(settings, action, records, before=(str(STRACE), "-f", "-e", "trace=open,openat", "-o", str(trace)))
        opened = set(re.findall(r"(\w+)\.sqlite3", trace.read_text()))
        assert opened == {"books"}, action


def test_a_process_that_may_never_open_the_keys_cannot(settings: Settings) -> None:
    program = f"""
from pathlib import Path
from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.store import SqliteStore
from counterfoil.ports import StoreUnavailable
folder = Path({str(settings.store)!r})
files.never_open("keys")
files.read_only(folder, "books").close()
for open_keys in (lambda: SqliteStore(folder, None, str).key_store(), lambda: files.read_only(folder, "keys")):
    try:
        open_keys()
    except StoreUnavailable:
        continue
    raise SystemExit("the keys were opened")
for name in ("keys.sqlite3", "keys.sqlite3-wal"):
    try:
        (folder / name).open("rb")
    except PermissionError:
        continue
    raise SystemExit("the file was opened")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
