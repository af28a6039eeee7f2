"""The names in `--json`, in the console's JSON and in its CSV stay the same, because programs read them."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command import Command
from console.conftest import InUse

NAMES = json.loads(Path(__file__).with_name("names.json").read_text(encoding="utf-8"))


def missing(known: Any, found: Any, place: str = "") -> list[str]:
    """Return the names in `known`, at all levels, that are not in `found`. New names may be added."""
    if isinstance(known, list):
        of_elements: dict[str, Any] = {}
        for element in found if known else ():
            of_elements |= {name: part for name, part in element.items() if part or name not in of_elements}
        return missing(known[0], of_elements, place) if known else []
    if not isinstance(known, dict):
        return []
    if not isinstance(found, dict):
        return [place]
    return [
        name
        for known_name, part in known.items()
        for name in (
            missing(part, found[known_name], f"{place}.{known_name}")
            if known_name in found
            else [f"{place}.{known_name}"]
        )
    ]


@pytest.mark.parametrize("command", [name for name in NAMES if not name.startswith("/")])
def test_the_names_in_the_json_of_a_command_stay(shared: InUse, command: str) -> None:
    words = command.replace("KEY", shared.key_id).split()
    found = Command(shared.console.settings.store).json(*words, status=1 if command == "status" else 0)
    assert missing(NAMES[command], found) == []


@pytest.mark.parametrize("page", [name for name in NAMES if name.endswith(".json")])
def test_the_names_in_the_json_of_a_page_stay(shared: InUse, page: str) -> None:
    assert missing(NAMES[page], shared.alice.json(page.replace("KEY", shared.key_id))) == []


@pytest.mark.parametrize("page", [name for name in NAMES if name.endswith(".csv")])
def test_the_columns_of_an_export_stay(shared: InUse, page: str) -> None:
    assert [name for name in shared.alice.csv(page)[0] if name in NAMES[page]] == NAMES[page]
