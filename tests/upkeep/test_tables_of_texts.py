"""A table of texts contains every text that the code uses, with its values, and nothing else."""

import ast
from collections.abc import Mapping
from pathlib import Path
from string import Formatter

import pytest

from counterfoil import backends, settings
from counterfoil.backends.refusals import REFUSALS


@pytest.mark.parametrize(
    ("texts", "function", "files"),
    [
        (REFUSALS, "refusal", [*Path(backends.__path__[0]).rglob("*.py")]),
        (settings._PROBLEMS, "_problem", [Path(settings.__file__)]),
    ],
)
def test_every_text_is_used_with_the_values_that_it_shows(
    texts: Mapping[str, str], function: str, files: list[Path]
) -> None:
    used: dict[str, set[str]] = {}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                used[ast.literal_eval(node.args[0])] = {str(keyword.arg) for keyword in node.keywords}
    assert used == {name: {part[1] for part in Formatter().parse(text) if part[1]} for name, text in texts.items()}
