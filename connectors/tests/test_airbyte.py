"""The Airbyte manifest in connectors/airbyte, run with the CDK's own runner, keeps an exact copy in DuckDB."""

import json
import os
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

from client.copy_contents import Json, plain
from connectors.tests.connector import CONNECTORS, TIMEOUT_SEC, Connector, Identity
from connectors.tests.shared_tests import ConnectorTests, World
from counterfoil.client.tables import MEMBERS


class Airbyte(Connector):
    name = "airbyte"

    def command(self) -> list[str]:
        return [str(self.bin / "python"), str(CONNECTORS / "airbyte" / "copy_to_duckdb.py"), "copy.duckdb"]

    @property
    def database(self) -> Path:
        return self.folder / "copy.duckdb"

    def shops(self) -> dict[str, Json]:
        rows = self.query(self.database, "SELECT shop_id, shop FROM shops WHERE NOT removed")
        return {row["shop_id"]: decoded(row["shop"]) for row in rows}

    def bills(self) -> dict[Identity, Json]:
        rows = self.query(self.database, "SELECT shop_id, id, bill FROM current_bills")
        return {(row["shop_id"], row["id"]): decoded(row["bill"]) for row in rows}

    def members(self) -> dict[Identity, Json]:
        rows = self.query(self.database, "SELECT provider_id, member_id, data FROM members")
        found = {(row["provider_id"], row["member_id"]): decoded(row["data"]) for row in rows}
        assert len(found) == len(rows), "a member is in the copy twice"
        for member in found.values():
            del member["providerId"]
        # The runner leaves out the fields of a row that are null.
        fields = dict.fromkeys(column.path[-1] for column in MEMBERS.columns if column.path)
        return {identity: fields | member for identity, member in found.items()}


def decoded(text: str) -> Json:
    found: Json = plain(json.loads(text, parse_float=Decimal))
    return found


class TestAirbyte(ConnectorTests):
    connector = Airbyte

    @pytest.mark.parametrize(("key", "status"), [("", "SUCCEEDED"), ("cf_live_wrong", "FAILED")])
    def test_the_check_command_accepts_a_valid_key_and_refuses_a_wrong_one(
        self, world: World, tmp_path: Path, key: str, status: str
    ) -> None:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"url": f"{world.url}/", "key": key or world.key}))
        folder = CONNECTORS / "airbyte"
        done = subprocess.run(
            [
                str(world.copy.bin / "source-declarative-manifest"),
                *("check", "--config", str(config)),
                *("--manifest-path", str(folder / "manifest.yaml"), "--components-path", str(folder / "components.py")),
            ],
            env=os.environ | {"AIRBYTE_ENABLE_UNSAFE_CODE": "true"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SEC,
            check=False,
        )
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        assert [each["connectionStatus"]["status"] for each in messages if "connectionStatus" in each] == [status]
