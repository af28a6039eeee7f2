"""Every SQL statement of a module exists, and none is left that no module uses."""

import re
from pathlib import Path

import pytest

import counterfoil

SOURCE = Path(counterfoil.__file__).parent
FILES = [file for file in SOURCE.rglob("*.sql") if "migrations" not in file.parts]
NAMED = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def used_names(file: Path) -> set[str]:
    """Return the names of the statements in this file that any module uses."""
    own = file.with_suffix(".py").read_text(encoding="utf-8")
    names = set(re.findall(r"(?<!\.)\bSQL\.([A-Z_]+)", own))
    if "getattr(SQL, part.name)" in own:
        names |= set(re.findall(r"Part\.([A-Z]+)", own))
    for module in file.parent.glob("*.py"):
        names |= set(re.findall(rf"\b{file.stem}\.SQL\.([A-Z_]+)", module.read_text(encoding="utf-8")))
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_module_and_its_statements_agree(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    names = NAMED.findall(text)
    within = set(re.findall(r"\{([A-Z_]+)\}", text)) & set(names)
    assert sorted(set(names)) == sorted(names)
    assert used_names(file) | within == set(names)
