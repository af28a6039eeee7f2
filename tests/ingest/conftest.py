"""Loading runs on every back end, like the port suite. PostgreSQL is included in `make test-long`."""

import pytest

from ports.conftest import clock, open_store, run, store

__all__ = ["clock", "open_store", "run", "store"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "ingest" in item.path.parts and "[postgres" in item.name:
            item.add_marker(pytest.mark.long)
