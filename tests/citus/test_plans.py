"""Every read uses only the shards of its scope: the statements of every endpoint, planned by Citus itself."""

import re
from collections.abc import Iterable, Iterator
from contextlib import closing

import pytest

from backends.test_shards import *  # noqa: F403 - every test of the file
from backends.test_shards import Group
from citus.cluster import cluster
from counterfoil.backends.postgres import books, citus_reads
from counterfoil.backends.postgres.citus_layout import DISTRIBUTED

SMALL = ("horizon", "shops", "bases")

# One of these tests concerns only the address; the other concerns the statements for a single server.
del test_session_options_in_the_address_are_respected  # noqa: F821
del test_every_read_of_a_distributed_table_is_covered  # noqa: F821


@pytest.fixture(scope="module")  # type: ignore[no-redef]  # replaces the imported fixture
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with closing(Group(tmp_path_factory.mktemp("group"), cluster().fresh_database()[1])) as group:
        yield group


def test_every_join_of_a_small_and_a_distributed_table_is_split_into_two_statements() -> None:
    joined = {text for text in _statements() if _reads(text, SMALL) and _reads(text, DISTRIBUTED)}
    assert joined == citus_reads.PARTS.keys()
    assert not any(_reads(parts.head, DISTRIBUTED) or _reads(parts.rows, SMALL) for parts in citus_reads.PARTS.values())


def _statements() -> Iterator[str]:
    for value in vars(books).values():
        yield from (text for text in (value.values() if isinstance(value, dict) else [value]) if isinstance(text, str))


def _reads(statement: str, tables: Iterable[str]) -> bool:
    return bool(re.search(rf"(FROM|JOIN) ({'|'.join(tables)})\b", statement))
