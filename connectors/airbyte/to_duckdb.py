"""Loads the messages of an Airbyte source into DuckDB, as destinations do in the sync modes of catalog.json.

    source-declarative-manifest read ... | python to_duckdb.py sales.duckdb

`changes` is deduplicated by its primary key, and rows with `_ab_cdc_deleted_at`
are deleted. `members` is overwritten. A state message is stored in one
transaction with the rows before it.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

TABLES = """
CREATE TABLE IF NOT EXISTS changes
    (shop_id VARCHAR, kind VARCHAR, id VARCHAR, data JSON, PRIMARY KEY (shop_id, kind, id));
CREATE TABLE IF NOT EXISTS members (provider_id VARCHAR, member_id VARCHAR, data JSON);
CREATE TABLE IF NOT EXISTS states (stream VARCHAR PRIMARY KEY, state JSON);
"""
# The view `shops` has all shops, even removed ones. The README explains the conditions of `current_bills`.
VIEWS = """
CREATE OR REPLACE VIEW shops AS
SELECT shop_id, CAST(data->>'removed' AS BOOLEAN) AS removed, CAST(data->>'inScope' AS BOOLEAN) AS in_scope,
    CAST(data->>'completeSince' AS TIMESTAMPTZ) AS complete_since, data->'shop' AS shop
FROM changes WHERE kind = 'shop';

CREATE OR REPLACE VIEW current_bills AS
SELECT bills.shop_id, bills.id, CAST(data->>'$.bill.billDate' AS DATE) AS bill_date,
    CAST(data->>'$.bill.updatedAt' AS TIMESTAMPTZ) AS updated_at, data->>'$.bill.status' AS status,
    CAST(data->>'$.bill.amounts.net' AS DECIMAL(38, 6)) AS net,
    CAST(data->>'$.bill.amounts.tip' AS DECIMAL(38, 6)) AS tip, data->'bill' AS bill
FROM changes AS bills JOIN shops USING (shop_id)
WHERE bills.kind = 'bill' AND shops.in_scope AND CAST(data->>'passTime' AS TIMESTAMPTZ) >= shops.complete_since;
"""


class Loader:
    """Collects rows until a state message arrives, and then stores the rows and the state together."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._changes: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._members: list[dict[str, Any]] = []

    def load(self, messages: Iterable[str]) -> bool:
        """Load all messages; return whether every stream was read to its end."""
        is_complete = True
        for line in messages:
            message = json.loads(line)
            match message["type"]:
                case "RECORD" if message["record"]["stream"] == "changes":
                    data = message["record"]["data"]
                    self._changes[data["shopId"], data["kind"], data["id"]] = data
                case "RECORD":
                    self._members.append(message["record"]["data"])
                case "STATE":
                    stream = message["state"]["stream"]
                    self._store(stream["stream_descriptor"]["name"], message["state"])
                case "TRACE" if message["trace"]["type"] == "ERROR":
                    is_complete = False
                    print(message["trace"]["error"]["message"][:200], file=sys.stderr)
                case "TRACE" if message["trace"].get("stream_status", {}).get("status") == "COMPLETE":
                    if message["trace"]["stream_status"]["stream_descriptor"]["name"] == "members":
                        self._replace_members()
        return is_complete

    def _store(self, stream: str, state: dict[str, Any]) -> None:
        self._database.begin()
        if stream == "changes":
            for key, data in self._changes.items():
                if data.get("_ab_cdc_deleted_at"):
                    self._database.execute("DELETE FROM changes WHERE (shop_id, kind, id) = (?, ?, ?)", key)
                else:
                    row = [*key, json.dumps(data)]
                    self._database.execute("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?)", row)
            self._changes = {}
        self._database.execute("INSERT OR REPLACE INTO states VALUES (?, ?)", [stream, json.dumps(state)])
        self._database.commit()

    def _replace_members(self) -> None:
        self._database.begin()
        self._database.execute("DELETE FROM members")
        for data in self._members:
            row = [data["providerId"], data["memberId"], json.dumps(data)]
            self._database.execute("INSERT INTO members VALUES (?, ?, ?)", row)
        self._database.commit()


def main() -> int:
    # A copy may contain personal data, so only its owner can read it.
    os.umask(0o077)
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "counterfoil.duckdb")
    with duckdb.connect(str(target)) as database:
        database.execute(TABLES)
        is_complete = Loader(database).load(sys.stdin)
        database.execute(VIEWS)
        states = database.execute("SELECT state FROM states WHERE stream = 'changes'").fetchall()
    new_state = target.with_suffix(".state.new")
    new_state.write_text(json.dumps([json.loads(state) for (state,) in states]))
    new_state.replace(target.with_suffix(".state.json"))
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
