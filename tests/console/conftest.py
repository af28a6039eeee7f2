from collections.abc import Iterator
from pathlib import Path

import pytest

from console.running_console import Operator, RunningConsole


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    running = RunningConsole(tmp_path)
    yield running
    running.close()


@pytest.fixture
def alice(console: RunningConsole) -> Operator:
    return console.operator("alice")
