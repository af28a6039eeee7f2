"""The tables that `counterfoil copy` copies, and how their rows are grouped."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from counterfoil.domain import audit
from counterfoil.domain.calendar import HOUR_MS

HOUR = "hour"

Row = tuple[Any, ...]


class CopiedTable(Struct, frozen=True):
    """A table that both stores have. Its key columns come first.

    Rows with the same value in the column `group` form a group, and groups are
    compared one by one. If `group` is HOUR, the rows of one hour form a group; if
    it is empty, all rows do. In a table without a key, a group is replaced as a
    whole. If `sealed` is True, the last column is a body and other columns
    contain digests of it, so a pass compares the digests and not the body.
    Verification reads the body too.
    """

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    group: str = ""
    sealed: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key + self.rest

    @property
    def compared(self) -> tuple[str, ...]:
        return self.columns[:-1] if self.sealed else self.columns

    def grouped(self, rows: Iterable[Row]) -> Iterator[tuple[Any, Row]]:
        """Yield each complete row with its group."""
        if not self.group:
            yield from ((None, row) for row in rows)
        elif self.group == HOUR:
            index = self.columns.index("at")
            yield from ((row[index] // HOUR_MS, row) for row in rows)
        else:
            index = self.columns.index(self.group)
            yield from ((row[index], row) for row in rows)


SHOPS = CopiedTable(
    "shops",
    ("number",),
    ("id", "franchise_id", "provider_id", "removed", "rev", "latest_version", "applied_version", "facts", "body"),
)
LOADS = CopiedTable(
    "loads",
    ("number",),
    ("source", "started_at", "seen_at", "finished_at", "lines", "changed", "rejected", "reasons", "rejects_file"),
)
BILLS = CopiedTable(
    "bills",
    ("shop", "id"),
    (
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
    ),
    group="shop",
    sealed=True,
)
REQUESTS = CopiedTable(
    "requests",
    (),
    ("at", "key_id", "route", "status", "error", "took_us", "personal_base", "personal_members", "request_id"),
    group=HOUR,
)
# The tables that loads write.
BOOKS = (
    SHOPS,
    CopiedTable("bases", ("id",), ("rev", "body")),
    CopiedTable("members", ("provider_id", "token"), ("created_at", "rev", "record", "form"), group="provider_id"),
    CopiedTable("accounts", ("provider_id", "token", "place"), ("hash", "created_at", "channel"), group="provider_id"),
    CopiedTable("removals", ("shop", "kind", "id"), ("rev",)),
    CopiedTable("shop_changes", ("shop",), ("franchise_id", "joined_at", "listed_at", "latest_at")),
    CopiedTable("departures", ("franchise_id", "shop"), ("left_at",)),
    CopiedTable("removed_bills", ("shop", "id"), ("removed_at",)),
    CopiedTable("feed", ("one",), ("oldest",)),
    CopiedTable("day_totals", ("shop", "bill_day"), ("stale", "bills", "voids", "net", "tip", "latest", "hash")),
    BILLS,
    LOADS,
    CopiedTable("rejected_lines", ("load", "place"), ("source", "line", "reason", "fields")),
    CopiedTable("intake", ("one",), ("state",)),
)
# The tables that the operator and the service write.
KEYS_AND_USAGE = (
    CopiedTable("keys", ("key_id",), ("secret_digest", "body")),
    CopiedTable("audit", ("origin", "number"), audit.COLUMNS),
    CopiedTable("daily_totals", ("key_id", "day"), ("count",)),
    CopiedTable("daily_errors", ("key_id", "day", "error"), ("count",)),
    CopiedTable("passes", ("lineage", "list_name", "shop_id"), ("server_time", "ended_at", "continued_at", "covered")),
    CopiedTable("meters", ("key_id",), ("n", "at", "ahead", "day", "count")),
    CopiedTable("admissions", ("key_id", "n"), ("at",)),
    CopiedTable(
        "cursors",
        ("lineage", "resource", "query", "cursor"),
        ("row_id", "major", "minor", "earliest", "latest", "ends_at", "expired"),
    ),
    REQUESTS,
)
TABLES = BOOKS + KEYS_AND_USAGE
