import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import Command
from counterfoil.views.times import THAILAND, show_times_in


@pytest.fixture(autouse=True)
def _as_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of this machine, and load as with one core: to fork this process takes longer than a load."""
    monkeypatch.setattr("counterfoil.cli.load_run.free_cores", lambda: 0)
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
