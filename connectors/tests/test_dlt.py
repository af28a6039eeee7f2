"""The dlt source in connectors/dlt keeps an exact copy in DuckDB."""

from pathlib import Path

from client.copy_contents import Json
from connectors.tests.campaign import Campaign
from connectors.tests.connector import CONNECTORS, Connector, Identity, bill_object, member_object, shop_object


class Dlt(Connector):
    name = "dlt"

    def command(self) -> list[str]:
        return [str(self.bin / "python"), str(CONNECTORS / "dlt" / "counterfoil_dlt.py"), "copy.duckdb"]

    @property
    def database(self) -> Path:
        return self.folder / "copy.duckdb"

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


class TestDlt(Campaign):
    connector = Dlt
