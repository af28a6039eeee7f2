from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.estate import Estate
from servers import Postgres, Valkey


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """A meter that a test may kill."""
    server = Valkey()
    yield server
    server.remove()


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """A store that a test may kill."""
    server = Postgres(18)
    yield server
    server.remove()


@pytest.fixture
def estate(tmp_path: Path, postgres: Postgres, valkey: Valkey) -> Iterator[Estate]:
    """Bills of one shop on servers of its own."""
    estate = Estate(tmp_path, postgres, valkey)
    yield estate
    estate.close()
