"""The commands in docs/keep-a-copy.md work exactly as printed, and show that the copies agree."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import records as r
from connectors.tests.connector import ROOT, TIMEOUT_SEC
from running_service import RunningService

PAGE = (ROOT / "docs" / "keep-a-copy.md").read_text("utf-8").partition("\n## Other tools\n")[2]
AGREEMENT = {"dlt": "Every field of 24 bills agrees"}


def block(section: str) -> str:
    """Return the shell commands in a section of the page."""
    text = PAGE.split(f"\n### {section}\n", 1)[1].split("\n### ", 1)[0]
    [commands] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return str(commands)


def test_every_code_block_on_the_page_is_tested() -> None:
    sections = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
    with_blocks = [name for name in sections if "```" in PAGE.split(f"\n### {name}\n", 1)[1].split("\n### ", 1)[0]]
    assert with_blocks == ["Before you start", *AGREEMENT]


@pytest.fixture(scope="module")
def shop_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningService, str]]:
    """A service with a franchise of two branches, and the key of the franchise."""
    service = RunningService(tmp_path_factory.mktemp("page"))
    branches = [r.branch(franchiseId="franchise-of-the-page", providerId="base-1") for _ in range(2)]
    sold = [bill for branch in branches for bill in r.bills(branch, 12)]
    service.load(*branches, r.base("base-1"), *r.members("base-1", 3), *sold)
    service.clock.advance(1)
    service.ledger.advance_horizon()
    yield service, service.key(franchise="franchise-of-the-page", per_min=100_000, per_day=100_000)
    service.close()


def run(section: str, clone: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euc", block(section)],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SEC,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new clone after "Before you start". Only the environments of the connectors are those of this clone."""
    clone = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        # With their times, or make would install the connectors again.
        shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    for connector in ("dlt", "airbyte"):
        (clone / "connectors" / connector / ".venv").symlink_to(ROOT / "connectors" / connector / ".venv")
    run("Before you start", clone, os.environ | {"PYTHON": sys.executable})
    return clone


@pytest.mark.parametrize("section", AGREEMENT)
def test_the_commands_work_as_printed_in_a_new_clone(
    shop_world: tuple[RunningService, str], section: str, clone: Path
) -> None:
    service, key = shop_world
    environment = os.environ | {"COUNTERFOIL_URL": f"{service.url}/ext/v1", "COUNTERFOIL_KEY": key}
    assert AGREEMENT[section] in run(section, clone, environment)
