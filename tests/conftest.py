import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from house import DEPLOYMENTS, House, overrides_for

# Files whose tests lay hands on the embedded store's own files.
OF_THE_FILES = {"test_request_records.py", "test_openapi_served.py"}


def pytest_configure() -> None:
    # A shell starts background jobs deaf to Ctrl-C, and so would be every command that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=DEPLOYMENTS)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """An empty deployment, once on every back end."""
    house = House(tmp_path, **overrides_for(request.param))
    yield house
    house.close()
