"""On PostgreSQL, refusing a request does not read any row of another franchise.

Reading such a row would take longer than finding no row, and callers could measure
the difference.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from hostile.database_timing import STATEMENTS, compare_in_database, connected
from hostile.refusals import TwoFranchises, two_franchises

SAMPLES = 20_000
ATTEMPTS = 3


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoFranchises]:
    with two_franchises(tmp_path_factory.mktemp("estate"), "postgres") as estate:
        yield estate


@pytest.mark.parametrize("name", STATEMENTS)
def test_an_id_of_somebody_else_reads_as_many_rows_as_one_that_does_not_exist(estate: TwoFranchises, name: str) -> None:
    statement = STATEMENTS[name]
    with connected(estate.store) as connection:
        ((scope,),) = connection.execute(statement.scope.encode())
        connection.execute(b"PREPARE asked AS " + statement.text.encode())
        theirs = [_rows_read(connection, scope, asked) for asked in estate.theirs[statement.kind][:50]]
        nobodys = [_rows_read(connection, scope, asked) for asked in estate.nobodys[statement.kind][:50]]
    assert theirs == nobodys


def _rows_read(connection: psycopg.Connection[Any], scope: object, asked: str) -> list[tuple[str, float]]:
    """Return how many rows each node of the plan read, including rows that its filter removed."""
    explain = sql.SQL("EXPLAIN (ANALYZE, TIMING OFF, BUFFERS OFF, FORMAT JSON) EXECUTE asked ({}, {})")
    ((found,),) = connection.execute(explain.format(sql.Literal(scope), sql.Literal(asked)))
    parts, rows = [found[0]["Plan"]], []
    while parts:
        part = parts.pop()
        parts += part.get("Plans", [])
        rows.append((part["Node Type"], part["Actual Rows"] + part.get("Rows Removed by Filter", 0)))
    return rows


@pytest.mark.long
@pytest.mark.parametrize("name", STATEMENTS)
def test_an_id_of_somebody_else_takes_the_database_as_long_as_one_that_does_not_exist(
    estate: TwoFranchises, name: str
) -> None:
    statement = STATEMENTS[name]
    nobodys, theirs = estate.nobodys[statement.kind], estate.theirs[statement.kind]
    with connected(estate.store) as connection:
        found = [compare_in_database(connection, statement, nobodys, theirs, SAMPLES) for _ in range(ATTEMPTS)]
    assert any(not one.differs for one in found), found
