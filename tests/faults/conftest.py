from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.multi_node import MultiNodeDeployment
from servers import Postgres, Valkey


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """A Valkey server that a test may kill."""
    server = Valkey()
    yield server
    server.remove()


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that a test may kill."""
    server = Postgres(18)
    yield server
    server.remove()


@pytest.fixture
def multi_node(tmp_path: Path, postgres: Postgres, valkey: Valkey) -> Iterator[MultiNodeDeployment]:
    """A deployment on its own servers, with bills for one shop."""
    multi_node = MultiNodeDeployment(tmp_path, postgres, valkey)
    yield multi_node
    multi_node.close()
