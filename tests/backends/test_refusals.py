"""The table of refusals contains every text that the code uses, with its values, and nothing else."""

import ast
from pathlib import Path
from string import Formatter

from counterfoil import backends
from counterfoil.backends.refusals import REFUSALS


def test_every_refusal_is_used_with_the_values_that_it_shows() -> None:
    used: dict[str, set[str]] = {}
    for file in Path(backends.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "refusal":
                used[ast.literal_eval(node.args[0])] = {str(keyword.arg) for keyword in node.keywords}
    assert used == {name: {part[1] for part in Formatter().parse(text) if part[1]} for name, text in REFUSALS.items()}
