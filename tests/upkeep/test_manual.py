"""The manual pages match the commands, and a man page formatter accepts them."""

import shutil
import subprocess

import pytest

from counterfoil.cli.main import COMMANDS
from upkeep.manual import FOLDER, pages


def test_the_manual_pages_are_up_to_date() -> None:
    written = {page.name: page.read_text("utf-8") for page in FOLDER.iterdir()}
    assert written == pages(), "run `make docs`"


def test_every_command_and_subcommand_has_a_page() -> None:
    names = set(pages())
    assert {"counterfoil.1", "counterfoil-keys-issue.1"} <= names
    assert {f"counterfoil-{name}.1" for name in COMMANDS} <= names


@pytest.mark.skipif(
    shutil.which("mandoc") is None,
    reason="mandoc is not on the PATH, so the manual pages were NOT linted (Debian: apt-get install mandoc)",
)
def test_mandoc_finds_nothing_wrong_with_the_pages() -> None:
    lint = ["mandoc", "-Tlint", "-Wwarning", *map(str, sorted(FOLDER.iterdir()))]
    said = subprocess.run(lint, capture_output=True, text=True, check=False).stdout
    # The pages deliberately have no date, so that they change only with the commands, the settings and the version.
    assert [line for line in said.splitlines() if "missing date" not in line] == []
