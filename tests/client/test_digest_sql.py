"""The SQL in docs/digests.md, run unchanged on a pulled copy, computes the same digests as the service."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import records as r
from client.pulled_copy import PLENTY, Copy
from client.targets import TARGETS
from counterfoil.client import Client
from running_service import RunningService

DOCUMENT = Path(__file__).parents[2] / "docs" / "digests.md"
DIALECTS = {"duckdb": "duckdb", "postgresql": "postgres"}


def statement(dialect: str) -> str:
    [code] = re.findall(rf"```sql\n-- {dialect}\n(.*?);\n```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    return str(code)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_statement_gives_the_digests_of_the_service(
    service: RunningService, branch: r.Record, tmp_path: Path, dialect: str
) -> None:
    service.load(*(r.bill(branch, id=f"ใบ {number}", amounts={"net": 0.1, "tip": 0.7}) for number in range(5)))
    service.load(r.bill(branch, void=True), r.bill(branch, closedAt="2025-12-24T12:00:00+07:00", history=True))
    key = service.key(franchise=branch["franchiseId"], **PLENTY)
    copy = Copy(service, key, TARGETS[DIALECTS[dialect]](tmp_path))
    copy.pull()
    computed = [_row(*row) for row in copy.rows(statement(dialect))]
    with Client(copy.url, key) as client:
        served = [digest for page in client.digest_pages() for digest in page.data]
    names = ("shopId", "day", "bills", "voids", "net", "tip", "hash")
    assert len(served) > 4
    assert computed == [{name: digest[name] for name in names} for digest in served]  # type: ignore[literal-required]


def test_the_python_function_gives_the_hash_of_the_service(service: RunningService, branch: r.Record) -> None:
    [code] = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    defined: dict[str, Any] = {}
    exec(code, defined)  # noqa: S102 - the code comes from our own documentation
    key = service.key(franchise=branch["franchiseId"], **PLENTY)
    bills = service.data("transactions", key, shopId=branch["id"], **r.NEW_YEAR)
    [digest] = service.data("digests", key, shopId=branch["id"], **r.NEW_YEAR)
    assert len(bills) == digest["bills"] > 10
    assert defined["hash_of"](bills) == digest["hash"]


def test_every_dialect_is_documented() -> None:
    assert all("hash" in statement(dialect) for dialect in (*DIALECTS, "bigquery", "snowflake"))


def _row(shop_id: str, day: Any, bills: int, voids: int, net: Decimal, tip: Decimal, hashed: str) -> dict[str, Any]:
    written = None if day is None else str(day)
    return {
        "shopId": shop_id,
        "day": written,
        "bills": bills,
        "voids": voids,
        "net": net,
        "tip": tip,
        "hash": hashed,
    }
