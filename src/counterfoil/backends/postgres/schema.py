"""The numbered migrations, and which schema this program can use.

Both drivers use this module, so it imports neither.
"""

import re
from importlib import resources

VERSION = "SELECT number, oldest FROM migrations ORDER BY number DESC LIMIT 1"
# Distributing the tables over a Citus cluster adds this column.
IS_DISTRIBUTED = """
    SELECT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass('counterfoil.horizon') AND attname = 'taken' AND NOT attisdropped
    )
"""

# A migration that older nodes can keep running with names the oldest schema that they may know.
_SUITS = re.compile(r"^-- Suits programs that know schema (\d+)\.$", re.MULTILINE)


def scripts() -> list[tuple[int, str, str]]:
    """Return the numbered migrations: number, file name, SQL."""
    folder = resources.files(__package__) / "migrations"
    files = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    return [(int(file[:4]), file, (folder / file).read_text(encoding="utf-8")) for file in files]


def oldest_for(number: int, script: str) -> int:
    """Return the oldest schema that a program may know to keep using the store after this migration."""
    said = _SUITS.search(script)
    return int(said[1]) if said else number


LATEST = scripts()[-1][0]


def mismatch(number: int | None, oldest: int) -> str | None:
    """Return why this program cannot use a store of this schema, or None."""
    if number is None or number < LATEST:
        return f"the database has schema {number or 0}, and this program needs {LATEST}: run `counterfoil migrate`."
    if oldest > LATEST:
        return (
            f"the database has schema {number}, and this program knows up to {LATEST}: "
            "it was brought up to date by a newer Counterfoil. Run that version, or restore a backup."
        )
    return None
