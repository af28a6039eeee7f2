"""The numbered migrations, and the check that this version can use a schema. It must import neither driver."""

import re
from pathlib import Path

from counterfoil.backends.migrations import Migration, read_scripts
from counterfoil.model.messages import Message
from counterfoil.ports import MESSAGES

MIGRATIONS = Path(__file__).parent / "migrations"

VERSION = "SELECT number, oldest FROM migrations ORDER BY number DESC LIMIT 1"
# `horizon.taken` exists only in a store whose tables are distributed over a Citus cluster.
IS_DISTRIBUTED = """
    SELECT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass('counterfoil.horizon') AND attname = 'taken' AND NOT attisdropped
    )
"""

# Says that running programs that were built for this schema or a newer one can keep using the migrated store.
_SUITS = re.compile(r"^-- Suits programs that know schema (\d+)\.$", re.MULTILINE)


def scripts() -> tuple[Migration, ...]:
    return read_scripts(MIGRATIONS)


def oldest_for(number: int, script: str) -> int:
    """Return the oldest schema N such that programs built for schema N can still use the store after this migration."""
    suited = _SUITS.search(script)
    return int(suited[1]) if suited else number


def mismatch(number: int, oldest: int) -> Message | None:
    """Return why this version cannot use a store with this schema, or None. An empty database has number 0."""
    first, latest = scripts()[0].number, scripts()[-1].number
    if 0 < number < first:
        return MESSAGES["database_before_release"]
    if number < latest:
        return MESSAGES["older_database"](found=number, wanted=latest)
    if oldest > latest:
        return MESSAGES["newer_database"](found=number, wanted=latest)
    return None
