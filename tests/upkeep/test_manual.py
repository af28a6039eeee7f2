"""Every command has a manual page, and a man page formatter accepts all pages."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from counterfoil.program.registry import registered

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, ROOT / "packages" / "server" / "manual_pages.py", folder], check=True)
    return folder


def test_every_command_and_subcommand_has_a_manual_page(pages: Path) -> None:
    names = {page.name for page in pages.iterdir()}
    assert {"counterfoil.1", "counterfoil-keys-issue.1"} <= names
    assert {f"counterfoil-{name}.1" for name in registered()} <= names


@pytest.mark.skipif(
    shutil.which("mandoc") is None,
    reason="mandoc is not on the PATH, so the manual pages were NOT linted (Debian: apt-get install mandoc)",
)
def test_mandoc_finds_nothing_wrong_with_the_pages(pages: Path) -> None:
    lint = ["mandoc", "-Tlint", "-Wwarning", *map(str, sorted(pages.iterdir()))]
    said = subprocess.run(lint, capture_output=True, text=True, check=False).stdout
    # The pages deliberately have no date, so that they change only with the commands, the settings and the version.
    assert [line for line in said.splitlines() if "missing date" not in line] == []
