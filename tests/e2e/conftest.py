"""One running demo service, shared by all third-party programs in a test process."""

from collections.abc import Iterator

import pytest

from e2e.served_demo import Demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    demo = Demo(tmp_path_factory.mktemp("demo"))
    yield demo
    demo.server.stop()
