"""The dbt package in connectors/dbt, run with dbt-duckdb on a copy that changes, has the bills of the API."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

import records as r
from client.pulled_copy import PLENTY, Copy
from connectors.tests.connector import CONNECTORS, TIMEOUT_SEC
from counterfoil.client.sinks.duckdb import DuckDBSink
from running_service import RunningService

DBT = Path(__file__).parent / ".venv" / "bin" / "dbt"
README = CONNECTORS / "dbt" / "README.md"
FRANCHISE = "franchise-of-the-package"


class Project:
    """A copy, and the package with the profile of its README, in a folder of its own."""

    def __init__(self, folder: Path, service: RunningService) -> None:
        self.folder = folder
        self.service = service
        key = service.key(franchise=FRANCHISE, **PLENTY)
        self.copy = Copy(service, key, lambda: DuckDBSink(folder / "sales.duckdb"))
        [profile] = re.findall(r"```yaml\n(counterfoil:\n.*?)```", README.read_text("utf-8"), re.DOTALL)
        (folder / "profiles.yml").write_text(profile)

    def pull(self, *records: r.Record) -> None:
        self.service.clock.advance(60)
        self.service.load(*records)
        self.service.ledger.advance_horizon()
        self.copy.pull()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        paths = ["--project-dir", str(CONNECTORS / "dbt"), "--profiles-dir", "."]
        paths += ["--target-path", str(self.folder / "target")]
        quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_LOG_PATH": str(self.folder / "logs")}
        return subprocess.run(
            [str(DBT), *words, *paths],
            cwd=self.folder,
            env=os.environ | quiet,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SEC,
            check=False,
        )

    def build(self) -> str:
        done = self.run("build")
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def models(self, statement: str) -> list[tuple[object, ...]]:
        with duckdb.connect(str(self.folder / "analytics.duckdb"), read_only=True) as database:
            return list(database.execute(statement).fetchall())


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with closing(RunningService(tmp_path)) as service:
        yield Project(tmp_path, service)


def test_an_incremental_model_follows_additions_changes_removals_and_returns(project: Project) -> None:
    branch = r.branch(franchiseId=FRANCHISE)
    kept, changed, removed = (r.bill(branch, id=name) for name in ("kept", "changed", "removed"))
    steps = [
        (branch, kept, changed, removed),
        (changed | {"amounts": {"net": 77.25, "tip": 7}}, r.removal(removed), r.bill(branch, id="late")),
        (),
        (removed,),
        (r.removal(kept), r.removal(changed)),
    ]
    for records in steps:
        project.pull(*records)
        project.build()
        expected = {
            bill["id"]: Decimal(bill["amounts"]["net"]) - (bill["amounts"]["tip"] or 0)
            for bill in project.copy.served()["bills"].values()
        }
        assert dict(project.models("SELECT id, revenue FROM fct_bills")) == expected  # type: ignore[arg-type]
        [(total,)] = project.models("SELECT sum(revenue) FROM sales_by_shop_and_day")
        assert total == sum(expected.values())


def test_the_tests_of_the_sources_find_a_bill_that_is_in_the_copy_twice(project: Project) -> None:
    branch = r.branch(franchiseId=FRANCHISE)
    project.pull(branch, r.bill(branch))
    project.copy.rows("INSERT INTO bills SELECT * FROM bills")
    done = project.run("test", "--select", "source:counterfoil")
    assert done.returncode == 1
    assert "source_unique_together_counterfoil_bills_shop_id__id" in done.stdout


def test_the_freshness_of_a_copy_that_is_no_longer_pulled_is_an_error(project: Project) -> None:
    branch = r.branch(franchiseId=FRANCHISE)
    # The clock of the service is in the past, so these bills were written more than three days ago.
    project.pull(branch, r.bill(branch))
    done = project.run("source", "freshness")
    assert done.returncode == 1
    assert "ERROR STALE freshness of counterfoil.bills" in done.stdout
