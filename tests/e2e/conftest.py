"""A running service with the demo's data, shared by all tests in a test process that run third-party programs."""

from collections.abc import Iterator

import pytest

from e2e.served_demo import Demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    demo = Demo(tmp_path_factory.mktemp("demo"))
    yield demo
    demo.server.stop()
