"""The processes that run the tests lose none of them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

TESTS = Path(__file__).parents[1]
CONFTEST = """
from forked_workers import ForkedWorkers

def pytest_configure(config):
    config.pluginmanager.register(ForkedWorkers(config, 2))
"""
FAILING = "def test_right(): pass\ndef test_wrong(tmp_path):\n    print('printed by it')\n    assert [1] == [2]\n"
DYING = "import os\ndef test_before(): pass\ndef test_dies(): os._exit(0)\ndef test_after(): pass\n"


def run(folder: Path, *arguments: str, **files: str) -> tuple[int, str]:
    """Run pytest on these files in two processes; return its status and what it prints."""
    for name, text in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    command = [sys.executable, "-m", "pytest", "--rootdir", str(folder), "-c", "/dev/null", "-p", "no:cacheprovider"]
    environment = {"PYTHONPATH": str(TESTS)}
    done = subprocess.run([*command, *arguments, str(folder)], env=environment, capture_output=True, check=False)
    return done.returncode, done.stdout.decode()


def test_every_test_is_reported_by_one_process(tmp_path: Path) -> None:
    passing = "import pytest\n@pytest.mark.parametrize('n', range(30))\ndef test_right(n): pass\n"
    status, printed = run(tmp_path, test_a=passing, test_b=passing, test_c=passing)
    assert status == 0
    assert "90 passed" in printed


def test_a_failure_fails_the_run_and_shows_what_the_test_printed(tmp_path: Path) -> None:
    status, printed = run(tmp_path, test_a=FAILING, test_b="def test_right(): pass\n")
    assert status == 1
    assert "1 failed, 2 passed" in printed
    assert "printed by it" in printed


def test_the_run_ends_at_the_first_failure_if_asked_to(tmp_path: Path) -> None:
    status, printed = run(tmp_path, "-x", test_a=FAILING, test_b="def test_right(): pass\n")
    assert status == 1
    assert "stopping after 1 failures" in printed


def test_a_process_that_ends_fails_the_run_and_its_tests_are_named(tmp_path: Path) -> None:
    status, printed = run(tmp_path, test_a=DYING, test_b="def test_right(): pass\n")
    assert status == 2
    assert "2 tests were not run" in printed
    assert "test_dies" in printed
    assert "test_after" in printed
