"""Creates triggers whose statements contain values. SQLite's triggers take no parameters."""

import re
import sqlite3


def create_trigger(connection: sqlite3.Connection, statement: str, **values: int | str) -> None:
    """Run a CREATE TRIGGER statement, with a literal in place of each `:name` in it."""
    literals = {name: _literal(value) for name, value in values.items()}
    connection.execute(re.sub(r":([a-z_]+)", lambda place: literals[place[1]], statement))


def _literal(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("'", "''") + "'"
