"""The tap in connectors/singer keeps an exact copy with target-postgres, and passes the SDK's own tests."""

import os
import subprocess
from datetime import datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

import records as r
import servers
from client.copy_contents import Json
from connectors.tests.connector import (
    CONNECTORS,
    ROOT,
    TIMEOUT_SEC,
    Connector,
    Identity,
    bill_object,
    member_object,
    shop_object,
)
from connectors.tests.shared_tests import FRANCHISE, ConnectorTests, World

_numbers = count(1)


class Singer(Connector):
    name = "singer"

    def __init__(self, folder: Path, url: str, key: str) -> None:
        super().__init__(folder, url, key)
        self.server = servers.postgres(18)
        self.database = f"copy_{next(_numbers)}"
        self.server.command(f"CREATE DATABASE {self.database}")

    def command(self) -> list[str]:
        program = CONNECTORS / "singer" / "copy_to_postgres.py"
        return [str(self.bin / "python"), str(program), self.server.url(self.database)]

    def revenue(self, bill_id: str) -> Decimal:
        [row] = self._rows(f"SELECT revenue FROM counterfoil.current_bills WHERE id = '{bill_id}'")
        return Decimal(row["revenue"])

    def scope(self, shop_id: str) -> tuple[bool, datetime | None]:
        [row] = self._rows(f"SELECT in_scope, complete_until FROM counterfoil.shops WHERE shop_id = '{shop_id}'")
        return row["in_scope"], row["complete_until"]

    def replace_target(self) -> None:
        self.database = f"copy_{next(_numbers)}"
        self.server.command(f"CREATE DATABASE {self.database}")

    def execute(self, statement: LiteralString, *values: object) -> None:
        with psycopg.connect(self.server.url(self.database)) as connection:
            connection.execute(statement, values)

    def lose_bills(self, kept_shops: list[str]) -> None:
        self.execute("DELETE FROM counterfoil.bills WHERE shop_id <> ALL(%s)", kept_shops)

    def shops(self) -> dict[str, Json]:
        rows = self._rows("SELECT * FROM counterfoil.shops WHERE NOT removed")
        return {row["shop_id"]: shop_object(row) for row in rows}

    def bills(self) -> dict[Identity, Json]:
        rows = self._rows("SELECT * FROM counterfoil.current_bills")
        return {(row["shop_id"], row["id"]): bill_object(row) for row in rows}

    def members(self) -> dict[Identity, Json]:
        rows = self._rows("SELECT * FROM counterfoil.current_members")
        return {(row["provider_id"], row["member_id"]): member_object(row) for row in rows}

    def _rows(self, statement: str) -> list[Json]:
        with psycopg.connect(self.server.url(self.database), row_factory=dict_row) as connection:
            return connection.execute(statement).fetchall()


class TestSinger(ConnectorTests):
    connector = Singer

    def test_a_copy_that_has_lost_a_column_is_read_again_in_full(self, world: World) -> None:
        assert isinstance(world.copy, Singer)
        world.copy.execute("ALTER TABLE counterfoil.bills DROP COLUMN revenue CASCADE")
        assert "starts from the beginning" in world.copy.run()
        world.assert_equal()
        assert world.copy.revenue(world.sold[0]["id"]) > 0

    def test_a_copy_without_a_state_is_made_again_and_keeps_the_bills_of_shops_that_left(self, world: World) -> None:
        assert isinstance(world.copy, Singer)
        leaving = r.branch(franchiseId=FRANCHISE, providerId="base-1")
        world.load(leaving, *r.bills(leaving, 2))
        world.copy.run()
        world.copy.execute("DROP TABLE IF EXISTS counterfoil.tap_state")
        world.leave(leaving)
        world.copy.run()
        world.assert_equal()

    def test_the_standard_tests_of_the_sdk_pass(self, world: World) -> None:
        settings: dict[str, Any] = {"TAP_COUNTERFOIL_URL": world.url, "TAP_COUNTERFOIL_KEY": world.key}
        paths = os.pathsep.join([str(ROOT / "src"), str(CONNECTORS / "singer")])
        done = subprocess.run(
            [str(world.copy.bin / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "standard_tests.py"],
            cwd=CONNECTORS / "singer",
            env=os.environ | settings | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SEC,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        assert " passed" in done.stdout
        assert "failed" not in done.stdout
