"""With the same source records, Citus and SQLite respond identically, byte for byte except for `serverTime`."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from backends.test_same_answers import *  # noqa: F403 - every test of the file
from backends.test_same_answers import load_a_world
from citus.cluster import cluster
from running_service import RunningService


@pytest.fixture(scope="module")  # type: ignore[no-redef]  # replaces the imported fixture
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningService]]:
    """Services on both back ends that have loaded the same deliveries. The last delivery changes a shop's time zone."""
    places = {"sqlite": {}, "citus": {"store": cluster().fresh_database()[1]}}
    with ExitStack() as stack:
        services = [
            stack.enter_context(closing(RunningService(tmp_path_factory.mktemp(kind), **place)))
            for kind, place in places.items()
        ]
        load_a_world(*services)
        yield services
