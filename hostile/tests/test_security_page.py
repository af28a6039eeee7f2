"""docs/evidence/security.md names only tests that exist, and states the correct number of attacks."""

import ast
import re
from pathlib import Path

from hostile.attacks import attacks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "evidence" / "security.md").read_text("utf-8")


def test_every_test_on_the_page_exists() -> None:
    named = re.findall(r"`([\w/]*test_\w+\.py)?::(test_\w+)`", PAGE)
    assert len(named) > 12
    file = ""
    for path, test in named:
        file = path or file
        folder = ROOT / "tests" if "/" in file else Path(__file__).parent
        tree = ast.parse((folder / file).read_text("utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{file}::{test}"


def test_the_page_counts_the_attacks_that_there_are() -> None:
    counted = re.search(r"(\d+) known attacks on framing", PAGE)
    assert counted is not None
    assert int(counted[1]) == len(attacks("key"))
