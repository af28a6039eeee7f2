"""Reads the row that identifies the store: its secret's fingerprint, and whether `counterfoil copy` is filling it."""

from typing import Any

from psycopg import Connection

from counterfoil.ports import StoreMismatch

# Prefix of the fingerprint while a copy is filling the store.
FILLING = "filling "

_FINGERPRINT = "SELECT secret_fingerprint FROM deployment"


def row_of(connection: Connection[tuple[Any, ...]]) -> str | None:
    row = connection.execute(_FINGERPRINT).fetchone()
    return str(row[0]) if row else None


def fingerprint_of(connection: Connection[tuple[Any, ...]]) -> str | None:
    """Return the fingerprint of the store's secret, or None for a new store.

    Raise StoreMismatch if a copy into the store has not been finished.
    """
    found = row_of(connection)
    if found and found.startswith(FILLING):
        raise StoreMismatch(
            "a copy into this store has not been finished: run `counterfoil copy` with --cut-over to complete it."
        )
    return found
