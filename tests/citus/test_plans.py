"""Every read stays on the shards of its scope: the statements of every endpoint, planned by Citus itself."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from backends.test_shards import *  # noqa: F403 - every test of the file
from backends.test_shards import Group
from citus.cluster import cluster

# It is about the address alone.
del test_what_the_address_sets_for_its_sessions_is_left_to_it  # noqa: F821


@pytest.fixture(scope="module")  # type: ignore[no-redef]  # in the place of the one imported
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with closing(Group(tmp_path_factory.mktemp("group"), cluster().fresh_database()[1])) as group:
        yield group
