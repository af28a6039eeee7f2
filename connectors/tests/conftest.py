from collections.abc import Iterator

import pytest

from connectors.tests.shared_tests import World


@pytest.fixture(scope="class")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service with three branches, and a copy after its first pass. All tests of a connector share both."""
    world = World(tmp_path_factory.mktemp("world"), request.cls.connector)
    try:
        world.copy.run()
        yield world
    finally:
        world.service.close()
