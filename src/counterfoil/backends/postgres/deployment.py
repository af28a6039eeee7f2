"""The one row that says whose store this is: the fingerprint of its secret, or that a copy is filling it."""

from typing import Any

from psycopg import Connection

from counterfoil.ports import StoreMismatch

# Before the fingerprint while a copy fills the store.
FILLING = "filling "

_FINGERPRINT = "SELECT secret_fingerprint FROM deployment"


def row_of(connection: Connection[tuple[Any, ...]]) -> str | None:
    row = connection.execute(_FINGERPRINT).fetchone()
    return str(row[0]) if row else None


def fingerprint_of(connection: Connection[tuple[Any, ...]]) -> str | None:
    """Of the secret that the store was built with, if it was built; a store that is being filled is refused."""
    found = row_of(connection)
    if found and found.startswith(FILLING):
        raise StoreMismatch(
            "a copy into this store has not been finished: run `counterfoil copy` with --cut-over to its end."
        )
    return found
