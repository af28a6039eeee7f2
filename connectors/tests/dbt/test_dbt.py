"""The dbt package in connectors/dbt, run with dbt-duckdb on a copy that changes, has the bills of the API."""

import json
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


def test_lines_payments_and_members_are_those_of_the_copy_without_personal_data(project: Project) -> None:
    branch = r.branch(franchiseId=FRANCHISE)
    sold, void = r.bill(branch, id="sold", memberId="m-1"), r.bill(branch, id="void", void=True)
    project.pull(branch, r.base(branch), r.member(branch, id="m-1", tel="0899999999"), sold, void)
    project.build()
    with closing(project.copy.target()) as copy:
        for model, table in (
            ("fct_bill_lines", "bill_items"),
            ("fct_payments", "payments"),
            ("dim_members", "members"),
        ):
            counted = "SELECT count(*) FROM "
            assert project.models(counted + model) == copy.run(counted + table)
        lines = "SELECT sum(line_total) FROM bill_lines WHERE is_sold"
        payments = "SELECT sum(amount) FROM payments_by_method"
        assert project.models(lines.replace("bill_lines", "fct_bill_lines")) == copy.run(lines)
        assert project.models("SELECT sum(received) FROM fct_payments") == copy.run(payments)
        bought = copy.run("SELECT bills, revenue FROM member_activity")
    assert project.models("SELECT bills, revenue FROM dim_members") == bought
    project.pull(r.removal(sold))
    project.build()
    assert project.models("SELECT DISTINCT bill_id FROM fct_bill_lines") == [("void",)]
    assert project.models("SELECT bills FROM dim_members") == [(0,)]


def test_every_column_of_every_model_is_described_and_nothing_is_deprecated(project: Project) -> None:
    branch = r.branch(franchiseId=FRANCHISE)
    project.pull(branch, r.base(branch), r.bill(branch))
    built = project.run("build", "--show-all-deprecations")
    assert built.returncode == 0, built.stdout[-4000:]
    # dbt names a kind of deprecation like this: MissingArgumentsPropertyInGenericTestDeprecation.
    assert re.findall(r"\w+Deprecation\w*", built.stdout + built.stderr) == []
    manifest = json.loads((project.folder / "target" / "manifest.json").read_text("utf-8"))
    described = {
        (node["name"], column["name"])
        for node in manifest["nodes"].values()
        if node["resource_type"] == "model"
        for column in node["columns"].values()
        if column["description"]
    }
    built_columns = project.models(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_catalog = 'analytics'"
    )
    assert described == set(built_columns)


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
