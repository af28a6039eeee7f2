from collections.abc import Iterator
from pathlib import Path

import pytest

from citus.cluster import COORDINATOR
from citus.store import CitusStore
from ports.backends import Store
from ports.conftest import Run, clock, open_store, run, shop_store, usage

__all__ = ["clock", "open_store", "run", "shop_store", "store", "usage"]

HERE = str(Path(__file__).parent)
WHY = "Needs a Citus cluster: set COUNTERFOIL_TEST_CITUS to the address of its coordinator."

collect_ignore = [] if COORDINATOR else ["test_ports.py"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # All tests in the suite pass through this hook, and comparing strings is much faster than comparing paths.
        if str(item.path).startswith(HERE):
            # Some tests kill nodes of the cluster, so a single process runs all these tests sequentially.
            item.add_marker(pytest.mark.xdist_group("citus"))
            if not COORDINATOR:
                item.add_marker(pytest.mark.skip(reason=WHY))


@pytest.fixture
def store(tmp_path: Path, run: Run) -> Iterator[Store]:
    """An empty distributed store."""
    made = CitusStore(tmp_path)
    yield made
    made.close()
