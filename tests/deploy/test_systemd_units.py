"""The systemd units: systemd itself finds no fault with them, and the steps of the load work as documented."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
# The score of `systemd-analyze security`: 100 means no protection at all; ours is 13.
MOST_EXPOSED = 20
INSTALLED = "/opt/counterfoil/bin/counterfoil"
SHOP = b'{"kind":"shop","id":"sh_1","name":"Riverside"}\n'

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not on the path, so the units were NOT verified (Debian: apt-get install systemd)",
)


def analyze(*words: object) -> str:
    done = subprocess.run(
        ["systemd-analyze", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"SYSTEMD_PAGER": "cat"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units, changed to run a command that exists on this machine."""
    for unit in UNITS.iterdir():
        text = unit.read_text("utf-8").replace(INSTALLED, shutil.which("true") or "/bin/true")
        (tmp_path / unit.name).write_text(text, "utf-8")
    return tmp_path


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_units(installed: Path) -> None:
    said = analyze("verify", "--man=no", *sorted(installed.iterdir()))
    assert not re.search(r"counterfoil[^:]*:\d+:", said), said


@needs_systemd
@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_the_exposure_of_the_services_is_low(unit: Path) -> None:
    analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", unit)


def steps() -> dict[str, str]:
    """Return the shell commands of the load unit by directive."""
    text = (UNITS / "counterfoil-load.service").read_text("utf-8")
    return dict(re.findall(r"^(Exec\w+)=/bin/sh -c '(.*)'$", text, re.MULTILINE))


def run_load(spool: Path, store: Path) -> int:
    """Run the same steps as systemd, one after the other; return the exit status of the load."""
    here = {"PATH": os.environ["PATH"], "COUNTERFOIL_STORE": str(store), "PYTHONPATH": os.pathsep.join(sys.path)}

    def sh(line: str, **more: str) -> int:
        command = line.replace(INSTALLED, f"{sys.executable} -m counterfoil").replace("$$", "$")
        return subprocess.run(["/bin/sh", "-c", command], cwd=spool, env=here | more, check=False).returncode

    assert sh(steps()["ExecStartPre"]) == 0
    status = sh(steps()["ExecStart"])
    assert sh(steps()["ExecStopPost"], EXIT_STATUS=str(status)) == 0
    return status


def test_a_delivery_is_loaded_and_archived(tmp_path: Path) -> None:
    spool, store = tmp_path / "spool", tmp_path / "store"
    spool.mkdir()
    assert run_load(spool, store) == 0
    (spool / "incoming" / "a.ndjson").write_bytes(SHOP)
    (spool / "incoming" / ".half.ndjson").write_bytes(SHOP[:9])
    assert run_load(spool, store) == 0
    assert [file.name for file in (spool / "loaded").iterdir()] == ["a.ndjson"]
    assert [file.name for file in (spool / "incoming").iterdir()] == [".half.ndjson"]


def test_a_failed_load_is_retried_before_newer_deliveries(tmp_path: Path) -> None:
    spool, store = tmp_path / "spool", tmp_path / "store"
    (spool / "incoming").mkdir(parents=True)
    (spool / "incoming" / "a.ndjson").write_bytes(SHOP)
    store.write_bytes(b"no folder")
    assert run_load(spool, store) == 1
    (spool / "incoming" / "b.ndjson").write_bytes(SHOP)
    store.unlink()
    assert run_load(spool, store) == 0
    assert [file.name for file in (spool / "loaded").iterdir()] == ["a.ndjson"]
    assert run_load(spool, store) == 0
    assert sorted(file.name for file in (spool / "loaded").iterdir()) == ["a.ndjson", "b.ndjson"]


def test_a_delivery_with_rejects_is_archived_and_the_unit_fails(tmp_path: Path) -> None:
    spool, store = tmp_path / "spool", tmp_path / "store"
    (spool / "incoming").mkdir(parents=True)
    (spool / "incoming" / "a.ndjson").write_bytes(SHOP + b"nonsense\n")
    assert run_load(spool, store) == 3
    assert [file.name for file in (spool / "loaded").iterdir()] == ["a.ndjson"]


def test_an_unreadable_delivery_is_quarantined_and_does_not_hold_up_the_others(tmp_path: Path) -> None:
    spool, store = tmp_path / "spool", tmp_path / "store"
    (spool / "incoming").mkdir(parents=True)
    (spool / "incoming" / "a.ndjson.gz").write_bytes(b"not gzip")
    (spool / "incoming" / "b.ndjson").write_bytes(SHOP)
    (spool / "incoming" / "readme.txt").write_bytes(b"hello")
    assert run_load(spool, store) == 3
    assert [file.name for file in (spool / "loaded").iterdir()] == ["b.ndjson"]
    assert sorted(file.name for file in (spool / "quarantine").iterdir()) == ["a.ndjson.gz", "readme.txt"]
    assert run_load(spool, store) == 0


def test_a_delivery_that_contains_only_other_files_is_quarantined(tmp_path: Path) -> None:
    spool, store = tmp_path / "spool", tmp_path / "store"
    for _ in range(2):
        (spool / "incoming").mkdir(parents=True, exist_ok=True)
        (spool / "incoming" / "bills.csv").write_bytes(b"a,b")
        assert run_load(spool, store) == 3
    assert sorted(file.name for file in (spool / "quarantine").iterdir()) == ["bills.csv", "bills.csv.2"]
    assert not list((spool / "loading").iterdir())
