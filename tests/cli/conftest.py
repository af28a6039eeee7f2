import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import Command
from counterfoil.views.times import THAILAND, show_times_in


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("COUNTERFOIL_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _default_time_zone() -> Iterator[None]:
    """Show times in the default zone again, because a command chooses the zone of its process."""
    yield
    show_times_in(THAILAND)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def counterfoil(store: Path) -> Command:
    return Command(store)
