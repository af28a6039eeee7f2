"""The SQL in docs/digests.md computes the same digests as the service.

The statements for DuckDB and PostgreSQL run unchanged on a pulled copy. Those for
BigQuery and Snowflake are parsed in their dialects, translated, and run in DuckDB.
"""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

import records as r
from client.pulled_copy import PLENTY, Copy
from client.targets import TARGETS, Target
from counterfoil.client import Client
from running_service import RunningService

DOCUMENT = Path(__file__).parents[2] / "docs" / "digests.md"
TRANSLATED = ("bigquery", "snowflake")


def statement(dialect: str) -> str:
    [code] = re.findall(rf"```sql\n-- {dialect}\n(.*?);\n```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    return str(code)


@pytest.mark.parametrize("dialect", ["duckdb", "postgresql", "bigquery", "snowflake"])
def test_the_statement_gives_the_digests_of_the_service(
    service: RunningService, branch: r.Record, tmp_path: Path, dialect: str
) -> None:
    copy = pulled(service, branch, TARGETS["postgres" if dialect == "postgresql" else "duckdb"](tmp_path))
    text = in_duckdb_sql(dialect) if dialect in TRANSLATED else statement(dialect)
    assert [_row(*row) for row in copy.rows(text)] == served_digests(copy)


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


def pulled(service: RunningService, branch: r.Record, target: Target) -> Copy:
    service.load(*(r.bill(branch, id=f"ใบ {number}", amounts={"net": 0.1, "tip": 0.7}) for number in range(5)))
    service.load(r.bill(branch, void=True), r.bill(branch, closedAt="2025-12-24T12:00:00+07:00", history=True))
    copy = Copy(service, service.key(franchise=branch["franchiseId"], **PLENTY), target)
    copy.pull()
    return copy


def served_digests(copy: Copy) -> list[dict[str, Any]]:
    with Client(copy.url, copy.key) as client:
        served = [digest for page in client.digest_pages() for digest in page.data]
    names = ("shopId", "day", "bills", "voids", "net", "tip", "hash")
    assert len(served) > 4
    return [{name: digest[name] for name in names} for digest in served]  # type: ignore[literal-required]


def test_the_python_function_gives_the_hash_of_the_service(service: RunningService, branch: r.Record) -> None:
    [code] = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    defined: dict[str, Any] = {}
    exec(code, defined)  # noqa: S102 - the code comes from our own documentation
    key = service.key(franchise=branch["franchiseId"], **PLENTY)
    bills = service.data("transactions", key, shopId=branch["id"], **r.NEW_YEAR)
    [digest] = service.data("digests", key, shopId=branch["id"], **r.NEW_YEAR)
    assert len(bills) == digest["bills"] > 10
    assert defined["hash_of"](bills) == digest["hash"]


def _row(shop_id: str, day: Any, bills: int, voids: int, net: Decimal, tip: Decimal, hashed: str) -> dict[str, Any]:
    written = None if day is None else str(day)
    return {"shopId": shop_id, "day": written, "bills": bills, "voids": voids, "net": net, "tip": tip, "hash": hashed}
