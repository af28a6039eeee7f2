import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from empty_store import copy_empty_store
from ports.backends import BACKENDS, OpenUsage, Postgres16Store, SqliteStore, Store
from ports.open_store import OpenStore, shop
from running_service import ManualClock

Run = Callable[[Awaitable[Any]], Any]


def backend_params(backends: tuple[Any, ...]) -> list[Any]:
    """Return a parameter for each back end. To save time, the older PostgreSQL is tested only in `make test-long`."""
    marks = {Postgres16Store: pytest.mark.long}
    ids = {backend: backend.__name__.removesuffix("Store").lower() for backend in backends}
    return [pytest.param(backend, id=ids[backend], marks=marks.get(backend, ())) for backend in backends]


# Tests whose names contain these words start several processes, which takes seconds. On PostgreSQL and Valkey, they run
# only in `make test-long`.
OF_SEVERAL_PROCESSES = ("four_processes", "killed_in_the_middle", "alongside_three_writers")
# What counts as a visible change does not depend on the store, so `make test` tries one case of it on PostgreSQL.
OF_EVERY_STORE = ("visible_change_moves", "wrong_for_a_while", "not_visible_on_bills")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        on_a_server = "[postgres" in item.name or "[valkey" in item.name
        if on_a_server and any(words in item.name for words in OF_SEVERAL_PROCESSES):
            item.add_marker(pytest.mark.long)
        if on_a_server and any(words in item.name for words in OF_EVERY_STORE) and not is_first_case(item):
            item.add_marker(pytest.mark.long)


def is_first_case(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    return not any(place for name, place in item.callspec.indices.items() if name != "store")


def new_store(backend: Callable[[Path], Store], folder: Path) -> Store:
    """Return an empty store on this back end."""
    if backend is SqliteStore:
        copy_empty_store(folder)
    return backend(folder)


@pytest.fixture(params=backend_params(BACKENDS))
def store(request: pytest.FixtureRequest, tmp_path: Path, run: Run) -> Iterator[Store]:
    """An empty store on each back end in turn. It is closed before the event loop is closed."""
    made = new_store(request.param, tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def usage(store: Store, clock: ManualClock) -> OpenUsage:
    return store.usage(clock)


@pytest.fixture
def run() -> Iterator[Run]:
    """A function that runs coroutines on a single event loop."""
    with asyncio.Runner() as runner:

        async def awaited(awaitable: Awaitable[Any]) -> Any:
            return await awaitable

        yield lambda awaitable: runner.run(awaited(awaitable))


@pytest.fixture
def open_store(store: Store, clock: ManualClock, run: Run) -> Iterator[OpenStore]:
    """An empty store whose books are open for reading and writing."""
    open_store = OpenStore(store, clock, run)
    yield open_store
    open_store.close()


@pytest.fixture
def shop_store(open_store: OpenStore) -> OpenStore:
    """A store that contains the shop `sh_1` and nothing else."""
    open_store.put(shop())
    return open_store
