"""The tables that `counterfoil copy` moves, in groups of rows. SQL is written as in `operator_reads.py`."""

import tomllib
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert

from counterfoil.model.calendar import HOUR_MS
from counterfoil.model.messages import MessageError

Row = tuple[Any, ...]

# The groups of a table, by the column that they have in common. Request records are grouped by hour.
GROUPS = {
    "shop": "SELECT number FROM shops",
    "provider_id": "SELECT DISTINCT provider_id FROM {name}",
    "hour": f"SELECT DISTINCT at / {HOUR_MS} FROM requests WHERE at >= CAST(:since AS bigint) * {HOUR_MS}",  # noqa: S608 - contains only a number
}
IN_GROUP = {
    "": "true",
    "shop": "shop = :group",
    "provider_id": "provider_id = :group",
    "hour": f"at >= CAST(:group AS bigint) * {HOUR_MS} AND at < (CAST(:group AS bigint) + 1) * {HOUR_MS}",
}


class MovedTable(Struct, frozen=True):
    """A table that both stores have, as moved_tables.toml lists it. Its key columns come first.

    Groups of rows are compared one by one. If `group` is empty, all rows form one group. In a table without a key, a
    group is replaced as a whole.
    """

    file: Literal["books", "keys", "usage"]
    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    group: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key + self.rest


class MoveRefused(MessageError):
    """The copy cannot be made or finished; the message says why and what to do."""


def _tables() -> dict[str, list[MovedTable]]:
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {file: [convert(table | {"file": file}, MovedTable) for table in listed[file]] for file in listed}


_TABLES = _tables()
KEYS_AND_USAGE = _TABLES["keys"] + _TABLES["usage"]
TABLES = _TABLES["books"] + KEYS_AND_USAGE
SHOPS, LOADS, REQUESTS = (
    next(table for table in TABLES if table.name == name) for name in ("shops", "loads", "requests")
)
