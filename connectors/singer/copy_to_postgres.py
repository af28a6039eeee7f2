"""Runs `tap-counterfoil | target-postgres` once, and keeps the state in a file.

    python copy_to_postgres.py postgresql://user@host/database [state.json]

The command reads COUNTERFOIL_URL and COUNTERFOIL_KEY from the environment.
"""

import os
import subprocess
import sys
from pathlib import Path

import psycopg

# Views of the bills and members that exist now. The README explains their conditions.
VIEWS = """
CREATE OR REPLACE VIEW counterfoil.current_bills AS
SELECT bills.* FROM counterfoil.bills JOIN counterfoil.shops USING (shop_id)
WHERE shops.in_scope AND bills.copied_at >= shops.complete_since AND NOT bills.removed;

CREATE OR REPLACE VIEW counterfoil.current_members AS
SELECT members.* FROM counterfoil.members
JOIN (SELECT provider_id, max(members_copied_at) AS copied_at FROM counterfoil.shops
      WHERE NOT removed GROUP BY provider_id) AS bases USING (provider_id)
WHERE members.copied_at >= bases.copied_at;
"""


def main() -> int:
    # The state file does not contain personal data, but it belongs to one API key, so only its owner can read it.
    os.umask(0o077)
    url, state = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else "state.json")
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
    tap_command += ["--state", str(state)] if state.exists() else []
    target_command = [str(programs / "target-postgres"), "--config=ENV"]
    environment = os.environ | settings
    tap = subprocess.Popen(tap_command, env=environment, stdout=subprocess.PIPE)
    target = subprocess.Popen(target_command, env=environment, stdin=tap.stdout, stdout=subprocess.PIPE, text=True)
    if tap.stdout:
        tap.stdout.close()
    states, _ = target.communicate()
    if tap.wait() or target.returncode:
        print("The copy was not completed. Run the same command again.", file=sys.stderr)
        return 1
    new_state = state.with_suffix(".new")
    new_state.write_text(states.splitlines()[-1])
    new_state.replace(state)
    with psycopg.connect(url) as connection:
        connection.execute(VIEWS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
