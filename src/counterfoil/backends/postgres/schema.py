"""The numbered migrations, and the check that this version of Counterfoil can use a schema.

Code for both drivers uses this module, so it must not import either of them.
"""

import re
from importlib import resources

VERSION = "SELECT number, oldest FROM migrations ORDER BY number DESC LIMIT 1"
# `horizon.taken` exists only in a store whose tables are distributed over a Citus cluster.
IS_DISTRIBUTED = """
    SELECT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass('counterfoil.horizon') AND attname = 'taken' AND NOT attisdropped
    )
"""

# If a migration contains this comment, running programs that were built for the given schema or a newer schema can keep
# using the store after the migration.
_SUITS = re.compile(r"^-- Suits programs that know schema (\d+)\.$", re.MULTILINE)


def scripts() -> list[tuple[int, str, str]]:
    """Return the numbered migrations: number, file name, SQL."""
    folder = resources.files(__package__) / "migrations"
    files = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    return [(int(file[:4]), file, (folder / file).read_text(encoding="utf-8")) for file in files]


def oldest_for(number: int, script: str) -> int:
    """Return the oldest schema N such that programs built for schema N can still use the store after this migration."""
    said = _SUITS.search(script)
    return int(said[1]) if said else number


LATEST = scripts()[-1][0]


def mismatch(number: int | None, oldest: int) -> str | None:
    """Return the reason this version of Counterfoil cannot use a store with this schema, or None."""
    if number is None or number < LATEST:
        return f"the database has schema {number or 0}, but this version needs {LATEST}: run `counterfoil migrate`."
    if oldest > LATEST:
        return (
            f"the database has schema {number}, but this version supports only schemas up to {LATEST}: "
            "it was upgraded by a newer version of Counterfoil. Use that version, or restore a backup."
        )
    return None
