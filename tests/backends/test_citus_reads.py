"""On Citus, most reads take two statements. On a single server, they must return what one statement returns.

These tests do not need Citus: on a single server, the statements for the
coordinator and for the shards read the same tables.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from counterfoil.backends.postgres.citus_reads import CitusBooks, CitusServers
from counterfoil.machine.clock import SystemClock
from ports.backends import OpenBooks, PostgresStore
from ports.conftest import clock, open_store, run, shop_store  # noqa: F401 - fixtures
from ports.test_books import *  # noqa: F403 - every test of the file


class SplitStore(PostgresStore):
    """A single server that is read as if its tables were distributed."""

    def books(self) -> OpenBooks:
        return CitusBooks(self._kept(CitusServers(self.url, SystemClock())))


@pytest.fixture
def store(tmp_path: Any) -> Iterator[PostgresStore]:
    with closing(SplitStore(tmp_path)) as store:
        yield store
