"""Runs the Airbyte source once with the CDK's own runner, and loads its messages into DuckDB, as Airbyte would.

    python airbyte_runner.py [--full] [--adopt] sales.duckdb

The command reads COUNTERFOIL_URL and COUNTERFOIL_KEY from the environment. With
--full, it reads everything again. With --adopt, it does so with a key that the copy was not made with. It
loads the messages as destinations do in the sync modes of catalog.json:
`changes` is deduplicated by its primary key, and rows with `_ab_cdc_deleted_at`
are deleted; `members` is overwritten. The state of a complete stream is stored in one
transaction with its rows, in the same file, so a state never belongs to another copy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

FOLDER = Path(__file__).parents[1] / "airbyte"
TABLES = """
CREATE TABLE IF NOT EXISTS changes
    (shop_id VARCHAR, kind VARCHAR, id VARCHAR, data JSON, PRIMARY KEY (shop_id, kind, id));
CREATE TABLE IF NOT EXISTS members (provider_id VARCHAR, member_id VARCHAR, data JSON);
CREATE TABLE IF NOT EXISTS states (stream VARCHAR PRIMARY KEY, state JSON);
ALTER TABLE states ADD COLUMN IF NOT EXISTS rows BIGINT;
"""
# The view `shops` has all shops, even removed ones. The README explains the conditions of `current_bills`.
VIEWS = """
CREATE OR REPLACE VIEW shops AS
SELECT shop_id, CAST(data->>'removed' AS BOOLEAN) AS removed, CAST(data->>'inScope' AS BOOLEAN) AS in_scope,
    CAST(data->>'completeSince' AS TIMESTAMPTZ) AS complete_since,
    CAST(data->>'completeUntil' AS TIMESTAMPTZ) AS complete_until, data->'shop' AS shop
FROM changes WHERE kind = 'shop';

CREATE OR REPLACE VIEW current_bills AS
SELECT bills.shop_id, bills.id, CAST(data->>'$.bill.billDate' AS DATE) AS bill_date,
    CAST(data->>'$.bill.businessDate' AS DATE) AS business_date,
    CAST(data->>'$.bill.timestamp' AS TIMESTAMPTZ) AS timestamp,
    CAST(left(data->>'$.bill.timestamp', -6) AS TIMESTAMP) AS local_time,
    CAST(data->>'$.bill.updatedAt' AS TIMESTAMPTZ) AS updated_at, data->>'$.bill.status' AS status,
    CAST(data->>'$.bill.amounts.net' AS DECIMAL(38, 6)) AS net,
    CAST(data->>'$.bill.amounts.tip' AS DECIMAL(38, 6)) AS tip,
    CASE WHEN status = 'void' THEN 0 ELSE coalesce(net, 0) - coalesce(tip, 0) END AS revenue, data->'bill' AS bill
FROM changes AS bills JOIN shops USING (shop_id)
WHERE bills.kind = 'bill' AND CAST(data->>'passTime' AS TIMESTAMPTZ) >= shops.complete_since;
"""
SHOPS = "SELECT shop_id, CAST(data AS VARCHAR) FROM changes WHERE kind = 'shop'"
# The state of a copy that has rows but no state.
NO_STATE = {"stream_descriptor": {"name": "changes"}, "stream_state": {"passTime": "1970-01-01T00:00:00.000000Z"}}


class Loader:
    """Collects the rows of a stream until its end, and then stores the rows and the state together."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._changes: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._members: list[dict[str, Any]] = []
        self._states: dict[str, dict[str, Any]] = {}

    def stored_state(self, *, full: bool, adopt: bool) -> list[Any]:
        """Return the state from which the source must continue. It is empty if there is no copy yet."""
        stored = self._database.execute("SELECT state, rows FROM states WHERE stream = 'changes'").fetchone()
        [(held,)] = self._database.execute("SELECT count(*) FROM changes").fetchall()
        if stored is None and not held:
            return []
        is_whole = stored is not None and stored[1] == held
        if not is_whole:
            print("The copy is not the one that its state belongs to: it starts from the beginning.", file=sys.stderr)
        state: dict[str, Any] = json.loads(stored[0]) if stored else {"type": "STREAM", "stream": NO_STATE}
        known = state["stream"]["stream_state"]
        # The source needs the known shops to recognise those that have left the scope: their bills stay.
        known["shops"] = {
            shop_id: {name: data.get(name) for name in ("completeSince", "inScope", "completeUntil")}
            for shop_id, text in self._database.execute(SHOPS).fetchall()
            if (data := json.loads(text))
        } | known.get("shops", {})
        known |= {"full": full or not is_whole, "adopt": adopt}
        return [state]

    def load(self, messages: Iterable[str]) -> bool:
        """Load all messages; return whether every stream was read to its end."""
        is_complete, complete = True, set[str]()
        for line in messages:
            message = json.loads(line)
            match message["type"]:
                case "RECORD" if message["record"]["stream"] == "changes":
                    data = message["record"]["data"]
                    self._changes[data["shopId"], data["kind"], data["id"]] = data
                case "RECORD":
                    self._members.append(message["record"]["data"])
                case "STATE":
                    self._states[message["state"]["stream"]["stream_descriptor"]["name"]] = message["state"]
                case "TRACE" if message["trace"]["type"] == "ERROR":
                    is_complete = False
                    print(message["trace"]["error"]["message"][:200], file=sys.stderr)
                case "TRACE" if message["trace"].get("stream_status", {}).get("status") == "COMPLETE":
                    complete.add(message["trace"]["stream_status"]["stream_descriptor"]["name"])
        # A stream that fails sends a state too, but its rows may be those of another company.
        if "changes" in complete:
            self._store_changes()
        if {"changes", "members"} <= complete:
            self._replace_members()
        return is_complete

    def _store_changes(self) -> None:
        self._database.begin()
        for key, data in self._changes.items():
            if data.get("_ab_cdc_deleted_at"):
                self._database.execute("DELETE FROM changes WHERE (shop_id, kind, id) = (?, ?, ?)", key)
            else:
                row = [*key, json.dumps(data)]
                self._database.execute("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?)", row)
        state = json.dumps(self._states["changes"])
        self._database.execute("INSERT OR REPLACE INTO states SELECT 'changes', ?, count(*) FROM changes", [state])
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
    parser = argparse.ArgumentParser(description="Run the source once, and load its messages into DuckDB.")
    parser.add_argument("target", nargs="?", default="counterfoil.duckdb")
    parser.add_argument("--full", action="store_true", help="read everything again")
    parser.add_argument("--adopt", action="store_true", help="accept a key that the copy was not made with")
    options = parser.parse_args()
    with duckdb.connect(options.target) as database, tempfile.TemporaryDirectory() as folder:
        database.execute(TABLES)
        loader = Loader(database)
        source = subprocess.Popen(
            source_command(Path(folder), loader.stored_state(full=options.full, adopt=options.adopt)),
            # The CDK runs components.py only if this environment variable is set.
            env=os.environ | {"AIRBYTE_ENABLE_UNSAFE_CODE": "true"},
            stdout=subprocess.PIPE,
            text=True,
        )
        is_complete = loader.load(source.stdout or ())
        has_failed = source.wait() != 0 or not is_complete
        database.execute(VIEWS)
    if has_failed:
        print("The copy was not completed. Once the cause is fixed, run the same command again.", file=sys.stderr)
    return 1 if has_failed else 0


def source_command(folder: Path, state: list[Any]) -> list[str]:
    """Write the source's configuration and state to this folder, and return the command that reads all streams."""
    settings: dict[str, str | int] = {
        "url": os.environ["COUNTERFOIL_URL"].rstrip("/") + "/",
        "key": os.environ["COUNTERFOIL_KEY"],
    }
    if page_size := os.environ.get("COUNTERFOIL_PAGE_SIZE"):
        settings["page_size"] = int(page_size)
    files = {"config": folder / "config.json", "state": folder / "state.json"}
    files["config"].write_text(json.dumps(settings))
    files["state"].write_text(json.dumps(state))
    files |= {"catalog": FOLDER / "catalog.json"}
    files |= {"manifest-path": FOLDER / "manifest.yaml", "components-path": FOLDER / "components.py"}
    program = str(Path(sys.executable).parent / "source-declarative-manifest")
    return [program, "read", *(part for name, file in files.items() for part in (f"--{name}", str(file)))]


if __name__ == "__main__":
    sys.exit(main())
