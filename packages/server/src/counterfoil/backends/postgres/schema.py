"""The numbered migrations, and the check that this version can use a schema. It must import neither driver."""

import re
from pathlib import Path

from counterfoil.backends.migrations import Migration, read_scripts
from counterfoil.model.messages import Message

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


DATABASE_BEFORE_RELEASE = Message(
    "database_before_release",
    "the database was made before the first release, and this version cannot read it: create another database, run "
    "`counterfoil migrate` there, load the source records into it, and issue new keys. A new store makes a new "
    "deployment secret, and so a new token for every member in every copy: to keep the tokens, run `counterfoil init "
    "--secret-file` with the old secret first.",
)


def mismatch(number: int, oldest: int) -> Message | None:
    """Return why this version cannot use a store with this schema, or None. An empty database has number 0."""
    first, latest = scripts()[0].number, scripts()[-1].number
    if 0 < number < first:
        return DATABASE_BEFORE_RELEASE
    if number < latest:
        return Message(
            "older_database",
            "the database has schema {found}, but this version needs {wanted}: run `counterfoil migrate`.",
            found=number,
            wanted=latest,
        )
    if oldest > latest:
        return Message(
            "newer_database",
            "the database has schema {found}, but this version supports only schemas up to {wanted}: it was upgraded "
            "by a newer version of Counterfoil. Use that version, or restore a backup.",
            found=number,
            wanted=latest,
        )
    return None
