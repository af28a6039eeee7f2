"""`check_copy.py` compares a copy with the digests of the service, and lists the days that differ."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import records as r
from connectors.tests.connector import CONNECTORS
from running_service import RunningService

VIEW = """
CREATE SCHEMA counterfoil;
CREATE TABLE counterfoil.shops (shop_id VARCHAR, in_scope BOOLEAN);
INSERT INTO counterfoil.shops VALUES ('left', false);
CREATE TABLE counterfoil.current_bills (shop_id VARCHAR, id VARCHAR, bill_date DATE, status VARCHAR,
    net DECIMAL(38, 6), tip DECIMAL(38, 6), updated_at TIMESTAMPTZ);
INSERT INTO counterfoil.current_bills VALUES ('left', 'b1', '2026-01-01', 'completed', 10, 0, NULL)
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    service = RunningService(tmp_path)
    yield service
    service.close()


def test_an_empty_copy_differs_in_every_day_also_in_bills_without_a_date(
    service: RunningService, tmp_path: Path
) -> None:
    branch = r.branch(franchiseId="franchise-to-check")
    service.load(branch, r.bill(branch), r.bill(branch, closedAt=None))
    service.clock.advance(1)
    service.ledger.advance_horizon()
    copy = tmp_path / "copy.duckdb"
    with duckdb.connect(str(copy)) as database:
        database.execute(VIEW)
    key = service.key(franchise="franchise-to-check")
    done = subprocess.run(
        [sys.executable, str(CONNECTORS / "check_copy.py"), str(copy)],
        env=os.environ | {"COUNTERFOIL_URL": f"{service.url}/ext/v1", "COUNTERFOIL_KEY": key},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == ""
    *_, summary, advice = done.stdout.splitlines()
    assert "2 of 2" in summary
    assert "--full" in advice
    assert f"shop {branch['id']}, without a date:" in done.stdout
    assert f"shop {branch['id']}, 2026-01-01:" in done.stdout
    assert done.stdout.count("copy     no bills") == 2
    assert done.stdout.count("service  bills 1, voids 0, net 120.00") == 2
