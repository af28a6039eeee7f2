"""Runs `tap-counterfoil | target-postgres` once, and keeps the state in the same database as the copy.

    python copy_to_postgres.py postgresql://user@host/database

The command reads COUNTERFOIL_URL and COUNTERFOIL_KEY from the environment.
"""

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

# The state of the last complete run, and how many bills the copy had then. The target never deletes a row, so a copy
# with fewer bills has lost some, and continuing from its state would leave them out forever.
STATE_TABLE = "CREATE TABLE IF NOT EXISTS counterfoil.tap_state (state json NOT NULL, bills bigint NOT NULL)"
STATE = "SELECT state, bills <= (SELECT count(*) FROM counterfoil.bills) FROM counterfoil.tap_state"
NEW_STATE = "INSERT INTO counterfoil.tap_state SELECT %s, count(*) FROM counterfoil.bills"
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'counterfoil'"
SHOPS = "SELECT shop_id, complete_since, in_scope, complete_until FROM counterfoil.shops"


def stored_state(connection: psycopg.Connection) -> dict[str, Any] | None:
    """Return the state from which the tap must continue, or None if the database has no copy yet."""
    tables = {name for (name,) in connection.execute(TABLES)}
    stored = connection.execute(STATE).fetchone() if {"bills", "tap_state"} <= tables else None
    if stored and stored[1]:
        state: dict[str, Any] = stored[0]
        return state
    if "shops" not in tables:
        return None
    print("The copy has no state, or has lost bills since its last run: it starts from the beginning.", file=sys.stderr)
    # Without a mark, the tap reads everything. It needs the known shops to recognise those that have left the scope.
    shops = {
        shop_id: {
            "complete_since": since and since.isoformat(),
            "in_scope": in_scope,
            "complete_until": until and until.isoformat(),
        }
        for shop_id, since, in_scope, until in connection.execute(SHOPS)
    }
    return {"bookmarks": {"bills": {"feed": {"mark": None, "shops": shops}}}}


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit("usage: copy_to_postgres.py postgresql://user@host/database")
    url = sys.argv[1]
    with psycopg.connect(url) as connection:
        state = stored_state(connection)
    # The folder is private to its owner, because the state belongs to one API key.
    with tempfile.TemporaryDirectory() as folder:
        state_file = Path(folder) / "state.json"
        if state is not None:
            state_file.write_text(json.dumps(state))
        new_state = run(url, state_file)
    if new_state is None:
        print("The copy was not completed. Run the same command again.", file=sys.stderr)
        return 1
    with psycopg.connect(url) as connection:
        connection.execute(VIEWS)
        connection.execute(STATE_TABLE)
        connection.execute("DELETE FROM counterfoil.tap_state")
        connection.execute(NEW_STATE, [new_state])
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
