"""The dlt source in connectors/dlt keeps an exact copy in DuckDB."""

import os
import subprocess
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from client.copy_contents import Json
from connectors.tests.connector import (
    CLIENT_SOURCES,
    CONNECTORS,
    Connector,
    Identity,
    bill_object,
    member_object,
    shop_object,
)
from connectors.tests.shared_tests import ConnectorTests, World


class Dlt(Connector):
    name = "dlt"
    if_the_key_is_another = "--adopt"

    def command(self) -> list[str]:
        return [str(self.bin / "python"), str(CONNECTORS / "dlt" / "counterfoil_dlt.py"), "copy.duckdb"]

    @property
    def database(self) -> Path:
        return self.folder / "copy.duckdb"

    def revenue(self, bill_id: str) -> Decimal:
        [row] = self.query(self.database, f"SELECT revenue FROM counterfoil.current_bills WHERE id = '{bill_id}'")
        return Decimal(row["revenue"])

    def scope(self, shop_id: str) -> tuple[bool, datetime | None]:
        return self.scope_in(self.database, "counterfoil.shops", shop_id)

    def replace_target(self) -> None:
        self.database.unlink()

    def execute(self, statement: str, *values: object) -> None:
        with closing(duckdb.connect(str(self.database))) as database:
            database.execute(statement, list(values))

    def lose_bills(self, kept_shops: list[str]) -> None:
        self.execute("DELETE FROM counterfoil.bills WHERE NOT list_contains(?, shop_id)", kept_shops)

    def shops(self) -> dict[str, Json]:
        rows = self.query(self.database, "SELECT * FROM counterfoil.shops WHERE NOT removed")
        return {row["shop_id"]: shop_object(row) for row in rows}

    def bills(self) -> dict[Identity, Json]:
        rows = self.query(self.database, "SELECT * FROM counterfoil.current_bills")
        found = {(row["shop_id"], row["id"]): bill_object(row) for row in rows}
        assert len(found) == len(rows), "a bill is in the copy twice"
        return found

    def members(self) -> dict[Identity, Json]:
        rows = self.query(self.database, "SELECT * FROM counterfoil.members")
        found = {(row["provider_id"], row["member_id"]): member_object(row) for row in rows}
        assert len(found) == len(rows), "a member is in the copy twice"
        return found


class TestDlt(ConnectorTests):
    connector = Dlt

    @pytest.mark.parametrize(
        "loss",
        [
            "DELETE FROM counterfoil.shops",
            "ALTER TABLE counterfoil.bills DROP COLUMN revenue",
            "DROP TABLE counterfoil.bills",
        ],
    )
    def test_a_copy_that_has_lost_shops_a_column_or_a_table_is_made_again(self, world: World, loss: str) -> None:
        assert isinstance(world.copy, Dlt)
        world.copy.execute("DROP VIEW counterfoil.current_bills")
        world.copy.execute(loss)
        if "TABLE counterfoil.bills" in loss and "COLUMN" not in loss:
            world.copy.bills_of_shops_that_left = {}
        assert "starts from the beginning" in world.copy.run()
        world.assert_equal()
        assert world.copy.revenue(world.sold[0]["id"]) > 0

    def test_a_full_run_repairs_bills_that_a_deep_check_finds(self, world: World) -> None:
        def check(*options: str) -> "subprocess.CompletedProcess[str]":
            assert isinstance(world.copy, Dlt)
            return subprocess.run(
                [world.copy.bin / "python", CONNECTORS / "check_copy.py", *options, world.copy.database],
                env=os.environ | world.copy.environment(world.url) | {"PYTHONPATH": CLIENT_SOURCES},
                capture_output=True,
                text=True,
                check=False,
            )

        assert isinstance(world.copy, Dlt)
        bill_id = world.sold[0]["id"]
        world.copy.run()
        world.copy.execute("UPDATE counterfoil.bills SET items = '[]', revenue = 0 WHERE id = ?", bill_id)
        totals = check()
        assert totals.returncode == 0
        assert "Not compared: their other fields" in totals.stdout
        deep = check("--deep")
        assert deep.returncode == 1
        assert f"bill {bill_id}: items, revenue\n" in deep.stdout
        world.copy.run("", "--full")
        assert check("--deep").returncode == 0
        world.assert_equal()


def test_a_run_killed_while_dlt_committed_a_package_does_not_block_later_runs(tmp_path: Path) -> None:
    doubled, extracted = "1700000000.1", "1700000000.2"
    for name in (
        f"normalize/extracted/{doubled}",
        f"normalize/extracted/{extracted}",
        f"load/normalized/{doubled}/new_jobs",
    ):
        (tmp_path / name).mkdir(parents=True)
    code = "import sys, pathlib, counterfoil_dlt as c; c._remove_doubled_packages(pathlib.Path(sys.argv[1]))"
    folder = Path(__file__).parent.parent / "dlt"
    subprocess.run([folder / ".venv/bin/python", "-c", code, tmp_path], cwd=folder, check=True)
    assert [path.name for path in (tmp_path / "normalize" / "extracted").iterdir()] == [extracted]
    assert (tmp_path / "load" / "normalized" / doubled / "new_jobs").is_dir()
