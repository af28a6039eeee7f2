import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.command import Command
from cli.watched_folder import SHOP_LINES, WatcherProcess, bills
from counterfoil.program.times import THAILAND, show_times_in
from empty_store import copy_empty_store
from running_service import SECRET, backend_settings, free_port


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
def empty_store(store: Path) -> None:
    """Let the store exist before the first command. To create it takes longer than most commands."""
    copy_empty_store(store)


@pytest.fixture
def free_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the settings name ports on which no other service of this machine listens."""
    monkeypatch.setenv("COUNTERFOIL_PORT", str(free_port()))
    monkeypatch.setenv("COUNTERFOIL_ADMIN_PORT", str(free_port()))


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty store, on each back end in turn."""
    monkeypatch.setenv("COUNTERFOIL_SECRET", SECRET)
    with backend_settings(request.param) as place:
        yield place.get("store", str(store))


@pytest.fixture
def counterfoil(store: Path) -> Command:
    return Command(store)


@pytest.fixture(scope="session")
def store_of_two_shops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("shops") / "store"
    command = Command(store)
    command("load", "-", stdin=SHOP_LINES)
    command("keys", "issue", "--shop", "sh_1", "--label", "ERP")
    return store


@pytest.fixture
def loaded(counterfoil: Command, store_of_two_shops: Path) -> Command:
    """A command whose store has two shops and a key."""
    shutil.copytree(store_of_two_shops, counterfoil.store, dirs_exist_ok=True)
    return counterfoil


@pytest.fixture(scope="session")
def store_of_three_loads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that is built once, because these loads take longer than most tests."""
    store = tmp_path_factory.mktemp("usual") / "store"
    for content in (SHOP_LINES + bills(0), bills(300), bills(600)):
        Command(store)("load", "-", stdin=content)
    return store


@pytest.fixture
def usual(counterfoil: Command, store_of_three_loads: Path) -> Command:
    """A command whose store has had three ordinary loads, so that it knows what is usual."""
    shutil.copytree(store_of_three_loads, counterfoil.store, dirs_exist_ok=True)
    return counterfoil


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


@pytest.fixture
def start(spool: Path, store: Path) -> Iterator[Callable[..., WatcherProcess]]:
    """Starts watchers of the spool as separate processes."""
    started: list[WatcherProcess] = []

    def new(*options: object, **form: tuple[str, ...]) -> WatcherProcess:
        started.append(WatcherProcess(spool, store, *options, **form))
        started[-1].wait_until_ready()
        return started[-1]

    yield new
    for watcher in started:
        if watcher.process.poll() is None:
            watcher.stop(signal.SIGKILL)
