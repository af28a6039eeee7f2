"""The dlt source in connectors/dlt keeps an exact copy in DuckDB."""

import subprocess
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from client.copy_contents import Json
from connectors.tests.connector import CONNECTORS, Connector, Identity, bill_object, member_object, shop_object
from connectors.tests.shared_tests import ConnectorTests


class Dlt(Connector):
    name = "dlt"

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


def test_a_run_killed_while_dlt_committed_a_package_does_not_block_later_runs(tmp_path: Path) -> None:
    doubled, finished = "1700000000.1", "1700000000.2"
    for name in (
        f"normalize/extracted/{doubled}",
        f"load/normalized/{doubled}/new_jobs",
        f"load/normalized/{finished}",
    ):
        (tmp_path / name).mkdir(parents=True)
    code = "import sys, pathlib, counterfoil_dlt as c; c._remove_doubled_packages(pathlib.Path(sys.argv[1]))"
    folder = Path(__file__).parent.parent / "dlt"
    subprocess.run([folder / ".venv/bin/python", "-c", code, tmp_path], cwd=folder, check=True)
    assert [path.name for path in (tmp_path / "load" / "normalized").iterdir()] == [finished]
    assert (tmp_path / "normalize" / "extracted" / doubled).is_dir()
