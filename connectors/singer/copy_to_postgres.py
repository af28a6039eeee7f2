"""Runs `tap-counterfoil | target-postgres` once, and keeps the state in the same database as the copy.

    python copy_to_postgres.py [--full] [--adopt] postgresql://user@host/database

The command reads COUNTERFOIL_URL and COUNTERFOIL_KEY from the environment. With --full, it reads everything again.
With --adopt, it does so with a key that the copy was not made with.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg

# Views of the bills and members that exist now. The README explains their conditions.
VIEWS = """
CREATE OR REPLACE VIEW counterfoil.current_bills AS
SELECT bills.* FROM counterfoil.bills JOIN counterfoil.shops USING (shop_id)
WHERE bills.copied_at >= shops.complete_since AND NOT bills.removed;

CREATE OR REPLACE VIEW counterfoil.current_members AS
SELECT members.* FROM counterfoil.members
JOIN (SELECT provider_id, max(members_copied_at) AS copied_at FROM counterfoil.shops
      WHERE NOT removed GROUP BY provider_id) AS bases USING (provider_id)
WHERE members.copied_at >= bases.copied_at;
"""

# The state of the last complete run, and how many bills and columns of bills the copy had then. The target never
# deletes either, so a copy with fewer has lost some, and continuing from its state would leave them out forever. If a
# column is missing, the target adds it, but without values.
COLUMNS = "SELECT count(*) FROM information_schema.columns WHERE (table_schema, table_name) = ('counterfoil', 'bills')"
STATE_TABLE = """
CREATE TABLE IF NOT EXISTS counterfoil.tap_state (state json NOT NULL, bills bigint NOT NULL, columns bigint NOT NULL)
"""
STATE = """
SELECT state, bills <= (SELECT count(*) FROM counterfoil.bills) AND columns <= ({columns}) FROM counterfoil.tap_state
"""
NEW_STATE = "INSERT INTO counterfoil.tap_state SELECT %s, count(*), ({columns}) FROM counterfoil.bills"
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'counterfoil'"
SHOPS = "SELECT shop_id, complete_since, in_scope, complete_until FROM counterfoil.shops"


def stored_state(connection: psycopg.Connection) -> tuple[dict[str, Any] | None, bool]:
    """Return the state from which the tap must continue, if there is a copy, and whether the copy has all its bills."""
    tables = {name for (name,) in connection.execute(TABLES)}
    if (
        "tap_state" in tables
        and "bills" in tables
        and (stored := connection.execute(STATE.format(columns=COLUMNS)).fetchone())
    ):
        return stored[0], stored[1]
    if "shops" not in tables:
        return None, True
    # Without a mark, the tap reads everything. It needs the known shops to recognise those that have left the scope.
    shops = {
        shop_id: {
            "complete_since": since and since.isoformat(),
            "in_scope": in_scope,
            "complete_until": until and until.isoformat(),
        }
        for shop_id, since, in_scope, until in connection.execute(SHOPS)
    }
    return {"bookmarks": {"bills": {"feed": {"mark": None, "shops": shops}}}}, False


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tap and the target once.")
    parser.add_argument("database", help="postgresql://user@host/database")
    parser.add_argument("--full", action="store_true", help="read everything again")
    parser.add_argument("--adopt", action="store_true", help="accept a key that the copy was not made with")
    options = parser.parse_args()
    url = options.database
    with psycopg.connect(url) as connection:
        state, is_whole = stored_state(connection)
    if state is not None:
        state["bookmarks"]["bills"]["feed"] |= {"full": options.full or not is_whole, "adopt": options.adopt}
    if not is_whole:
        lost = "The copy has lost its state, bills or a column since its last run: it starts from the beginning."
        print(lost, file=sys.stderr)
    # The folder is private to its owner, because the state belongs to one API key.
    with tempfile.TemporaryDirectory() as folder:
        state_file = Path(folder) / "state.json"
        if state is not None:
            state_file.write_text(json.dumps(state))
        new_state = run(url, state_file)
    if new_state is None:
        print("The copy was not completed. Once the cause is fixed, run the same command again.", file=sys.stderr)
        return 1
    with psycopg.connect(url) as connection:
        connection.execute(VIEWS)
        connection.execute(STATE_TABLE)
        connection.execute("DELETE FROM counterfoil.tap_state")
        connection.execute(NEW_STATE.format(columns=COLUMNS), [new_state])
    return 0


def run(url: str, state_file: Path) -> str | None:
    """Run the tap and the target; return the state that the target stored last, or None if either of them failed."""
    programs = Path(sys.executable).parent
    settings = {
        "TAP_COUNTERFOIL_URL": os.environ["COUNTERFOIL_URL"],
        "TAP_COUNTERFOIL_KEY": os.environ["COUNTERFOIL_KEY"],
        "TARGET_POSTGRES_SQLALCHEMY_URL": url.replace("postgresql://", "postgresql+psycopg://", 1),
        "TARGET_POSTGRES_DEFAULT_TARGET_SCHEMA": "counterfoil",
    }
    if page_size := os.environ.get("COUNTERFOIL_PAGE_SIZE"):
        settings["TAP_COUNTERFOIL_PAGE_SIZE"] = page_size
    tap_command = [str(programs / "tap-counterfoil"), "--config=ENV"]
    tap_command += ["--state", str(state_file)] if state_file.exists() else []
    target_command = [str(programs / "target-postgres"), "--config=ENV"]
    environment = os.environ | settings
    tap = subprocess.Popen(tap_command, env=environment, stdout=subprocess.PIPE)
    target = subprocess.Popen(target_command, env=environment, stdin=tap.stdout, stdout=subprocess.PIPE, text=True)
    if tap.stdout:
        tap.stdout.close()
    states, _ = target.communicate()
    return None if tap.wait() or target.returncode else states.splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
