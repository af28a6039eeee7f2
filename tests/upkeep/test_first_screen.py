"""A newcomer who reads the first screen of the README can start the demo and run the tests."""

import re
import subprocess
from pathlib import Path

import pytest

from counterfoil import API_VERSION, __version__

ROOT = Path(__file__).parents[2]
FIRST_SCREEN = 30


def first_commands() -> list[str]:
    """Return the commands in the code blocks on the first screen of the README, without comments."""
    screen = "\n".join((ROOT / "README.md").read_text("utf-8").splitlines()[:FIRST_SCREEN])
    blocks = re.findall(r"^```sh\n(.*?)^```", screen, re.MULTILINE | re.DOTALL)
    return [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]


def test_the_first_screen_of_the_readme_names_the_commands_for_the_demo_and_the_tests() -> None:
    assert {"make demo", "make test"} <= set(first_commands())


@pytest.mark.parametrize(("command", "does"), [("make demo", "counterfoil demo"), ("make test", "-m pytest")])
def test_a_first_command_installs_what_it_needs_before_it_runs(command: str, does: str, tmp_path: Path) -> None:
    """An empty VENV stands for a fresh machine: make prints the steps that it would take there."""
    steps = subprocess.run(
        [*command.split(), "--dry-run", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 0 < steps.index("-m venv") < steps.index("pip install") < steps.index(does)


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ("README.md", f"Version {__version__}, with version {API_VERSION} of the API"),
        ("docs/operate-install.md", f"counterfoil {__version__} (API {API_VERSION})"),
        ("docs/operate-watch.md", f"Counterfoil {__version__} (API {API_VERSION})"),
    ],
)
def test_a_document_that_shows_the_version_shows_the_current_one(document: str, names: str) -> None:
    assert names in (ROOT / document).read_text("utf-8")
