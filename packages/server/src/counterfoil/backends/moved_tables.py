"""The tables that `counterfoil copy` moves, in groups of rows. SQL is written as in `operator_reads.py`.

Every table is read, filled and emptied in the same way. So both ends of a copy make these statements from the
declarations here: written out, they would be about a hundred that say nothing else. Only names of declared tables and
columns, and the conditions of IN_GROUP, get into a statement; values are always parameters.
"""

from typing import Any, Literal

from msgspec import Struct

from counterfoil.model.calendar import HOUR_MS
from counterfoil.model.messages import MessageError

Row = tuple[Any, ...]

# Lists the groups of the tables that have some, by the column that the rows of a group have in common. Request records
# are grouped by hour.
GROUPS = {
    "bills": "SELECT number FROM shops",
    "members": "SELECT DISTINCT provider_id FROM members",
    "accounts": "SELECT DISTINCT provider_id FROM accounts",
    "requests": f"SELECT DISTINCT at / {HOUR_MS} FROM requests WHERE at >= CAST(:since AS bigint) * {HOUR_MS}",  # noqa: S608 - contains only a number
}
IN_GROUP = {
    "": "true",
    "shop": "shop = :group",
    "provider_id": "provider_id = :group",
    "hour": f"at >= CAST(:group AS bigint) * {HOUR_MS} AND at < (CAST(:group AS bigint) + 1) * {HOUR_MS}",
}


class MovedTable(Struct, frozen=True):
    """A table that both stores have. Its key columns come first.

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


# The tables that loads write.
BOOKS = (
    MovedTable(
        "books",
        "shops",
        key=("number",),
        rest=(
            "id",
            "franchise_id",
            "provider_id",
            "removed",
            "rev",
            "latest_version",
            "applied_version",
            "facts",
            "body",
        ),
    ),
    MovedTable("books", "bases", key=("id",), rest=("rev", "body")),
    MovedTable(
        "books",
        "members",
        key=("provider_id", "token"),
        rest=("created_at", "rev", "record", "form"),
        group="provider_id",
    ),
    MovedTable(
        "books",
        "accounts",
        key=("provider_id", "token", "place"),
        rest=("hash", "created_at", "channel"),
        group="provider_id",
    ),
    MovedTable("books", "removals", key=("shop", "kind", "id"), rest=("rev",)),
    MovedTable("books", "forgotten_members", key=("mark",), rest=("at", "finished_at")),
    MovedTable("books", "shop_changes", key=("shop",), rest=("franchise_id", "joined_at", "listed_at", "latest_at")),
    MovedTable("books", "departures", key=("franchise_id", "shop"), rest=("left_at",)),
    MovedTable("books", "removed_bills", key=("shop", "id"), rest=("removed_at", "load")),
    MovedTable("books", "feed", key=("one",), rest=("oldest",)),
    MovedTable(
        "books",
        "day_totals",
        key=("shop", "bill_day"),
        rest=("stale", "bills", "voids", "net", "tip", "latest", "hash", "void_net"),
    ),
    MovedTable(
        "books",
        "bills",
        key=("shop", "id"),
        rest=(
            "bill_day",
            "closed_at",
            "updated_at",
            "loaded_at",
            "trading_day",
            "rev",
            "facts_version",
            "digest",
            "seal",
            "withheld",
            "body",
            "load",
            "load_before",
            "confirmed_by",
        ),
        group="shop",
    ),
    MovedTable(
        "books",
        "loads",
        key=("number",),
        rest=(
            "source",
            "started_at",
            "seen_at",
            "finished_at",
            "lines",
            "changed",
            "rejected",
            "reasons",
            "rejects_file",
            "totals",
            "files",
            "alarms",
            "horizon",
            "undone_at",
        ),
    ),
    MovedTable("books", "rejected_lines", key=("load", "place"), rest=("source", "line", "reason", "fields")),
    MovedTable("books", "delivery_previews", key=("identity",), rest=("preview",)),
    MovedTable(
        "books",
        "open_items",
        key=("number",),
        rest=(
            "identity",
            "kind",
            "load",
            "files",
            "path",
            "machine",
            "reason",
            "digest",
            "decision",
            "opened_at",
            "closed_at",
            "closed_by",
        ),
    ),
    MovedTable("books", "intake", key=("one",), rest=("state",)),
)
# The tables that the operator and the service write.
KEYS = (
    MovedTable("keys", "keys", key=("key_id",), rest=("secret_digest", "body")),
    MovedTable("keys", "console_devices", key=("device_id",), rest=("token_digest", "body")),
    MovedTable(
        "keys",
        "audit",
        key=("origin", "number"),
        rest=("at", "act", "actor", "via", "host", "key_id", "changes", "detail"),
    ),
)
USAGE = (
    MovedTable("usage", "daily_totals", key=("key_id", "day"), rest=("count",)),
    MovedTable("usage", "daily_errors", key=("key_id", "day", "error"), rest=("count",)),
    MovedTable(
        "usage",
        "passes",
        key=("lineage", "list_name", "shop_id"),
        rest=("server_time", "ended_at", "continued_at", "covered"),
    ),
    MovedTable("usage", "meters", key=("key_id",), rest=("n", "at", "ahead", "day", "count")),
    MovedTable("usage", "admissions", key=("key_id", "n"), rest=("at",)),
    MovedTable(
        "usage",
        "cursors",
        key=("lineage", "resource", "query", "cursor"),
        rest=("row_id", "major", "minor", "earliest", "latest", "ends_at", "expired"),
    ),
    MovedTable(
        "usage",
        "requests",
        key=(),
        rest=(
            "at",
            "key_id",
            "route",
            "status",
            "error",
            "took_us",
            "personal_base",
            "personal_members",
            "request_id",
            "detail",
        ),
        group="hour",
    ),
)
KEYS_AND_USAGE = (*KEYS, *USAGE)
TABLES = (*BOOKS, *KEYS_AND_USAGE)
SHOPS, LOADS, REQUESTS = (
    next(table for table in TABLES if table.name == name) for name in ("shops", "loads", "requests")
)
