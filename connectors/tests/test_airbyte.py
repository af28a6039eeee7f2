"""The Airbyte manifest in connectors/airbyte, run with the CDK's own runner, keeps an exact copy in DuckDB."""

import json
import os
import re
import subprocess
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from client.copy_contents import Json, plain
from connectors.tests.connector import CONNECTORS, TIMEOUT_SEC, Connector, Identity
from connectors.tests.shared_tests import ConnectorTests, World
from counterfoil.client.tables import MEMBERS


class Airbyte(Connector):
    name = "airbyte"
    if_the_key_is_another = "clear the data of the connection"

    def command(self) -> list[str]:
        return [str(self.bin / "python"), str(CONNECTORS / "tests" / "airbyte_runner.py"), "copy.duckdb"]

    @property
    def database(self) -> Path:
        return self.folder / "copy.duckdb"

    def revenue(self, bill_id: str) -> Decimal:
        [row] = self.query(self.database, f"SELECT revenue FROM current_bills WHERE id = '{bill_id}'")
        return Decimal(row["revenue"])

    def scope(self, shop_id: str) -> tuple[bool, datetime | None]:
        return self.scope_in(self.database, "shops", shop_id)

    def replace_target(self) -> None:
        self.database.unlink()

    def lose_bills(self, kept_shops: list[str]) -> None:
        with closing(duckdb.connect(str(self.database))) as database:
            database.execute("DELETE FROM changes WHERE kind = 'bill' AND NOT list_contains(?, shop_id)", [kept_shops])

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
        # The runner omits fields that are null.
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


# Tests a cursor of the CDK, and a cursor that returns a copy of its state, as a later version of the CDK might.
CURSORS = """
import sys
from airbyte_cdk.sources.message import InMemoryMessageRepository
from airbyte_cdk.sources.connector_state_manager import ConnectorStateManager
from airbyte_cdk.sources.streams.concurrent.cursor import ConcurrentCursor, CursorField
from airbyte_cdk.sources.streams.concurrent.state_converters.datetime_stream_state_converter import (
    EpochValueConcurrentStreamStateConverter as Converter,
)
from components import store_in_state

class CopyingCursor(ConcurrentCursor):
    @property
    def state(self):
        return dict(super().state)

kind = {"shipped": ConcurrentCursor, "copying": CopyingCursor}[sys.argv[1]]
field = CursorField("passTime")
cursor = kind("changes", None, {}, InMemoryMessageRepository(), ConnectorStateManager(), Converter(), field,
              None, None, Converter.get_end_provider())
store_in_state(cursor, mark="m1", shops={})
print(cursor.state["mark"])
"""


@pytest.mark.parametrize(("kind", "printed"), [("shipped", "m1"), ("copying", "Install the version that is listed")])
def test_a_cdk_that_does_not_keep_the_mark_is_reported(kind: str, printed: str) -> None:
    python = CONNECTORS / "airbyte" / ".venv" / "bin" / "python"
    done = subprocess.run(
        [str(python), "-c", CURSORS, kind],
        cwd=CONNECTORS / "airbyte",
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SEC,
        check=False,
    )
    assert printed in done.stdout + done.stderr, done.stderr
    assert (done.returncode == 0) == (kind == "shipped")


def test_the_components_use_only_public_names_of_the_cdk() -> None:
    source = (CONNECTORS / "airbyte" / "components.py").read_text("utf-8")
    assert re.findall(r"(?:cursor|super\(\))\._\w+", source) == []
