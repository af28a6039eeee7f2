"""The schema follows Citus's rules for distributed tables. The tests do not need Citus."""

import pytest

import servers
from counterfoil.backends.postgres.citus import DISTRIBUTED, distribute
from counterfoil.ports import StoreMismatch

_UNIQUE = """
    SELECT indexrelid::regclass::text, array_agg(attname::text)
    FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
    WHERE indisunique AND indrelid = 'counterfoil.{table}'::regclass GROUP BY 1
"""
_REFERENCES = "SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'counterfoil'::regnamespace"
_OBSTACLES = """
    SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = 'counterfoil.{table}'::regclass
    UNION ALL
    SELECT attname::text FROM pg_attribute
    WHERE attrelid = 'counterfoil.{table}'::regclass AND (attidentity <> '' OR attgenerated <> '')
"""


@pytest.mark.parametrize("major", [18, pytest.param(16, marks=pytest.mark.long)])
def test_every_key_of_a_distributed_table_holds_its_distribution_column(major: int) -> None:
    server = servers.postgres(major)
    database = server.fresh_database()[0]
    for table, column in DISTRIBUTED.items():
        keys = server.command(_UNIQUE.format(table=table), database)
        assert keys, table
        for name, columns in keys:
            assert column in columns, name
        assert server.command(_OBSTACLES.format(table=table), database) == []


def test_no_foreign_key_crosses_the_tables() -> None:
    server = servers.postgres(18)
    assert server.command(_REFERENCES, server.fresh_database()[0]) == []


def test_a_database_without_citus_is_not_distributed() -> None:
    with pytest.raises(StoreMismatch, match="does not have Citus"):
        distribute(servers.postgres(18).fresh_database()[1])
