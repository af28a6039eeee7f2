"""The names in `--json`, in the console's JSON and in its CSV stay the same, because programs read them."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command import Command
from console.conftest import InUse

NAMES = json.loads(Path(__file__).with_name("names.json").read_text(encoding="utf-8"))
COMMANDS = (
    ("keys", "list"),
    ("keys", "show", "KEY"),
    ("usage",),
    ("usage", "--disclosures"),
    ("requests",),
    ("shops",),
    ("loads",),
    ("loads", "2"),
    ("audit",),
    ("status",),
)
LISTS = ("/keys", "/requests", "/shops", "/loads", "/loads/2", "/personal-data", "/audit")
PAGES = (*LISTS, "/today", "/keys/KEY", "/keys/new", "/store")


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


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_names_in_the_json_of_a_command_stay(shared: InUse, words: tuple[str, ...]) -> None:
    given = [shared.key_id if word == "KEY" else word for word in words]
    found = Command(shared.console.settings.store).json(*given, status=1 if words == ("status",) else 0)
    assert missing(NAMES[" ".join(words)], found) == []


@pytest.mark.parametrize("page", PAGES)
def test_the_names_in_the_json_of_a_page_stay(shared: InUse, page: str) -> None:
    found = shared.alice.json(f"{page.replace('KEY', shared.key_id)}.json")
    assert missing(NAMES[f"{page}.json"], found) == []


@pytest.mark.parametrize("page", LISTS)
def test_the_columns_of_an_export_stay(shared: InUse, page: str) -> None:
    known = NAMES[f"{page}.csv"]
    assert [name for name in shared.alice.csv(f"{page}.csv")[0] if name in known] == known
