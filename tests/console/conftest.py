import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console.forked_loader import ForkedLoader
from console.running_console import Operator, RunningConsole
from counterfoil.console import import_steps
from counterfoil.console.rendering import templates
from records import NEW_YEAR, base, bills, branch, member
from running_service import backend_settings


@pytest.fixture(scope="session", autouse=True)
def _forked_loader() -> Iterator[None]:
    """Fork the process that checks and loads, because a new interpreter imports for longer than most tests take."""
    forked = SimpleNamespace(Popen=ForkedLoader, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_steps, "subprocess", forked)
        yield


@pytest.fixture
def _new_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the console start its own command to check and load."""
    monkeypatch.setattr(import_steps, "subprocess", subprocess)


@pytest.fixture
def console(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningConsole]:
    """A console, with the back end and the settings that a test passes as a parameter."""
    options = {"backend": "sqlite", **getattr(request, "param", {})}
    with (
        backend_settings(options.pop("backend")) as settings,
        closing(RunningConsole(tmp_path, **settings, **options)) as running,
    ):
        yield running


@pytest.fixture
def shop(console: RunningConsole) -> str:
    """Load a shop; return its ID."""
    loaded = branch(name="Riverside")
    console.service.load(loaded)
    return str(loaded["id"])


@pytest.fixture
def alice(console: RunningConsole) -> Operator:
    return console.operator("alice")


@dataclass(frozen=True)
class InUse:
    """A console of a store with a shop, a member, three bills and a key that sent four requests, one of which failed.

    The second load was rejected. `ids` are the IDs of the requests.
    """

    console: RunningConsole
    alice: Operator
    key_id: str
    shop: dict[str, Any]
    ids: dict[str, str]


def in_use(console: RunningConsole) -> InUse:
    shop, service = branch(name="Riverside"), console.service
    service.load(shop, base(shop), member(shop), *bills(shop, 3))
    service.load(b'{"kind":"bill"}')
    key = service.key(shop=shop["id"], label="ERP", personal_data=True)
    asked = {
        "bills": service.get("transactions", key, shopId=shop["id"], **NEW_YEAR),
        "members": service.get("members", key, providerId=shop["providerId"]),
        "wrong": service.get("transactions", key, shopId="elsewhere", **NEW_YEAR),
        "changes": service.get("transactions", key, shopId=shop["id"], updatedSince="1970-01-01T00:00:00Z"),
    }
    # Stopping the service writes the records of its requests.
    service.restart()
    ids = {name: answer.headers["x-request-id"] for name, answer in asked.items()}
    return InUse(console, console.operator("alice"), key.split("_")[2], shop, ids)


@pytest.fixture
def used(console: RunningConsole) -> InUse:
    return in_use(console)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InUse]:
    """A console that tests must leave as it is, because others use it too."""
    with closing(RunningConsole(tmp_path_factory.mktemp("shared"))) as running:
        yield in_use(running)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile the templates once, before the processes are forked that run the tests."""
    if any(item.path.parent == Path(__file__).parent for item in session.items):
        templates()
