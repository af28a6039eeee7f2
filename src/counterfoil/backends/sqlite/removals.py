"""Records the revision at which something was removed, so that a late record does not restore it."""

import sqlite3

_REMOVAL = "SELECT rev FROM removals WHERE kind = ? AND shop = ? AND id = ?"
_REMEMBER = """
    INSERT INTO removals (kind, shop, id, rev) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET rev = max(rev, excluded.rev)
"""


class Removals:
    """The table `removals`, used inside the ledger's transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def remember(self, rev: float | None, kind: str, shop_id: str, record_id: str) -> None:
        if rev is not None:
            self._connection.execute(_REMEMBER, (kind, shop_id, record_id, rev))

    def since(self, rev: float | None, kind: str, shop_id: str, record_id: str) -> bool:
        """Return whether a record that is not stored was removed at a later revision than this."""
        if rev is None:
            return False
        row = self._connection.execute(_REMOVAL, (kind, shop_id, record_id)).fetchone()
        return row is not None and is_late(rev, row[0])


def is_late(rev: float | None, known: float | None) -> bool:
    return rev is not None and known is not None and rev < known
