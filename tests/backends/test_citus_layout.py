"""The schema takes the statements for Citus as they are printed: its own rules, checked without it."""

import re
from pathlib import Path

import pytest

import servers

PAGE = Path(__file__).parents[2] / "docs" / "operate-postgresql.md"
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


def distributed() -> dict[str, str]:
    """Each distributed table of the page, and its column."""
    found = dict(re.findall(r"create_distributed_table\('(\w+)', '(\w+)'", PAGE.read_text("utf-8")))
    assert {"bills", "members"} <= found.keys()
    return found


@pytest.mark.parametrize("major", [18, pytest.param(16, marks=pytest.mark.long)])
def test_every_key_of_a_distributed_table_holds_its_distribution_column(major: int) -> None:
    server = servers.postgres(major)
    database = server.fresh_database()[0]
    for table, column in distributed().items():
        keys = server.command(_UNIQUE.format(table=table), database)
        assert keys, table
        for name, columns in keys:
            assert column in columns, name
        assert server.command(_OBSTACLES.format(table=table), database) == []


def test_no_foreign_key_crosses_the_tables() -> None:
    server = servers.postgres(18)
    assert server.command(_REFERENCES, server.fresh_database()[0]) == []
