"""The SQL in docs/examples/digests.sql computes the same digests as the service.

The statements for DuckDB and PostgreSQL run unchanged on a pulled copy. Those for
BigQuery and Snowflake are parsed in their dialects, translated, and run in DuckDB.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

import records as r
from client.conftest import new_copy
from client.pulled_copy import PLENTY
from client.targets import TARGETS
from counterfoil.client import Client
from running_service import RunningService

DOCS = Path(__file__).parents[2] / "docs"
TRANSLATED = ("bigquery", "snowflake")
NAMES = ("shopId", "day", "bills", "voids", "net", "tip", "hash")


def statement(dialect: str) -> str:
    statements = (DOCS / "examples" / "digests.sql").read_text("utf-8")
    [code] = re.findall(rf"^-- {dialect}\n(.*?);\n", statements, re.DOTALL | re.MULTILINE)
    return str(code)


@pytest.mark.parametrize("dialect", ["duckdb", "postgresql", "bigquery", "snowflake"])
def test_the_statement_gives_the_digests_of_the_service(
    service: RunningService, branch: r.Record, tmp_path: Path, dialect: str
) -> None:
    service.load(*(r.bill(branch, id=f"ใบ {number}", amounts={"net": 0.1, "tip": 0.7}) for number in range(5)))
    service.load(r.bill(branch, void=True), r.bill(branch, closedAt="2025-12-24T12:00:00+07:00", history=True))
    copy = new_copy(service, branch, TARGETS["postgres" if dialect == "postgresql" else "duckdb"](tmp_path))
    copy.pull()
    with Client(copy.url, copy.key) as client:
        served = [tuple(digest[name] for name in NAMES) for page in client.digest_pages() for digest in page.data]  # type: ignore[literal-required]
    assert len(served) > 4
    text = in_duckdb_sql(dialect) if dialect in TRANSLATED else statement(dialect)
    assert [(shop, day and str(day), *figures) for shop, day, *figures in copy.rows(text)] == served


def in_duckdb_sql(dialect: str) -> str:
    """Parse a statement in its dialect and return it in DuckDB's SQL. Every function in it must be known to sqlglot."""
    tree = sqlglot.parse_one(statement(dialect), dialect=dialect)
    assert not list(tree.find_all(exp.Anonymous, exp.Command))
    return str(tree.transform(_with_wide_numbers).sql(dialect="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE))


def _with_wide_numbers(node: exp.Expr) -> exp.Expr:
    """Replace a type and a function that sqlglot does not translate exactly."""
    if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.DECIMAL:
        # BigQuery's NUMERIC has 38 digits, but DuckDB's DECIMAL has only 18 by default.
        return exp.DataType.build("DECIMAL(38, 0)", dialect="duckdb")
    if isinstance(node, exp.ToNumber):
        # sqlglot parses Snowflake's TO_NUMBER, but does not translate the format for hexadecimal digits.
        assert set(node.args["format"].name) == {"X"}
        return sqlglot.parse_one(f"CAST('0x' || {node.this.sql(dialect='duckdb')} AS HUGEINT)", dialect="duckdb")
    return node


def test_the_python_function_gives_the_hash_of_the_service(service: RunningService, branch: r.Record) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "own-client.md").read_text("utf-8"), re.DOTALL)
    [code] = [block for block in blocks if "sqlite3" not in block]
    defined: dict[str, Any] = {}
    exec(code, defined)  # noqa: S102 - the code comes from our own documentation
    key = service.key(franchise=branch["franchiseId"], **PLENTY)
    bills = service.data("transactions", key, shopId=branch["id"], **r.NEW_YEAR)
    [digest] = service.data("digests", key, shopId=branch["id"], **r.NEW_YEAR)
    assert len(bills) == digest["bills"] > 10
    assert defined["hash_of"](bills) == digest["hash"]
