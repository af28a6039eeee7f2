"""Sinks store a copy. Rows and the progress of the pull are committed in one transaction.

`parse_destination` parses the name of a target. Its engine is imported only when the sink is opened.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from counterfoil.text import is_address, missing_package, use_address_form, without_password

BillKey = tuple[str, str]


class SinkError(Exception):
    """The target cannot be used. The message says why."""


class CopiedBill(Struct, frozen=True):
    """The fields of a bill that are compared. `changed_us` is `updatedAt` in microseconds since 1970."""

    id: str
    changed_us: int | None
    net: Decimal | None
    void: bool
    tip: Decimal | None = None


class ShopDayTotals(Struct, frozen=True):
    """Bill totals for one shop on one day, in the copy or from the service."""

    bills: int
    voids: int
    net: Decimal
    tip: Decimal
    hash: str


class Written(Struct, frozen=True):
    """How many rows were added, changed or unchanged.

    A bill that was already stored is unchanged if its `updatedAt` is the same, and changed if it has no `updatedAt`.
    Members are compared in full.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0


class ParsedRows(Struct, frozen=True):
    """Rows that a sink has parsed before writing them. They are in the in-memory DuckDB database named `database`."""

    database: str


class Sink(Protocol):
    """Stores a copy. Each row is a JSON object from a response, as bytes. A bill is identified by its shop and ID."""

    def transaction(self) -> AbstractContextManager[None]:
        """Commit everything that is written inside the context, or roll it back if an error is raised."""

    def state(self) -> bytes | None: ...

    def save_state(self, state: bytes) -> None: ...

    def put_shops(self, rows: Sequence[bytes]) -> None:
        """Upsert shops that are listed, and so not removed and in scope."""

    def remove_shops(self, shops: Mapping[str, bool], now: str, complete_until: str | None) -> None:
        """Mark shops as removed. A shop that is not in the copy is added without a name.

        The values of `shops` say whether the key can still read their bills. If not, the copy has their changes up to
        `complete_until`, or it is not known up to when.
        """

    def shop_ids(self) -> set[str]:
        """Return the IDs of all shops of the copy, including shops that are marked as removed."""

    def count_shops(self) -> int:
        """Return the number of shops that are not marked as removed."""

    def removed_shop_ids(self) -> set[str]:
        """Return the IDs of the shops that are marked as removed."""

    def forget_shops(self, shop_ids: Sequence[str]) -> int:
        """Delete shops with all their rows, and return the number of deleted bills."""

    def bases(self) -> list[str]:
        """Return the IDs of the bases of all shops that are not marked as removed."""

    def shop_bases(self) -> set[str]:
        """Return the IDs of the bases of all shops of the copy, including shops that are marked as removed."""

    def forget_base(self, provider_id: str) -> int:
        """Delete the members of a base with all their rows, and return the number of deleted members."""

    def parse_bills(self, rows: Sequence[bytes]) -> ParsedRows:
        """Parse bills ahead of `put_bills`. One other thread may call this while the sink writes."""

    def put_bills(
        self, rows: Sequence[bytes], parsed: ParsedRows | None = None, shop_ids: Collection[str] | None = None
    ) -> Written:
        """Upsert bills, which must be of these shops. The copy must not contain a later version of any of them.

        `parsed` is the result of `parse_bills` for the same rows, if it was called. It can be used only once.
        """

    def remove_bills(self, keys: Sequence[BillKey]) -> int:
        """Delete bills, and return how many of them were in the copy."""

    def mark_undelivered(self, shop_ids: Sequence[str]) -> None:
        """Flag all bills of these shops as not delivered. `put_bills` and `remove_bills` clear the flag of a bill."""

    def clear_undelivered(self) -> None:
        """Remove the flag from all bills that are flagged as not delivered."""

    def delete_undelivered(self) -> int:
        """Delete the bills that are still flagged as not delivered; return the number deleted."""

    def open_pass(self, provider_id: str) -> None:
        """Begin a pass over the base: clear the list of members that were seen."""

    def put_members(self, provider_id: str, rows: Sequence[bytes]) -> Written:
        """Upsert members and mark them as seen by the current pass. `rows` must not contain a member twice."""

    def close_pass(self, provider_id: str, now: str) -> int:
        """Mark members that the pass has not seen as removed; return the number marked."""

    def bills_of_days(self, shop_id: str, first: date, last: date) -> dict[str, list[CopiedBill]]:
        """Return the bills of a shop from the day `first` to the day `last`, keyed by day."""

    def undated_bills(self, shop_id: str) -> list[CopiedBill]: ...

    def day_totals(self, since: date | None) -> dict[tuple[str, str | None], ShopDayTotals]:
        """Return totals by shop and day, from `since` on. If it is None, include all days and the undated bills."""

    def publish(self) -> None:
        """Make the written rows visible to readers, if committing them is not enough."""

    def close(self) -> None: ...


# --- targets -------------------------------------------------------------------------

POSTGRES = ("postgresql://", "postgres://")
SQLITE_SUFFIXES = (".sqlite", ".sqlite3", ".db")
# In a folder of Parquet files, this hidden DuckDB file is the copy itself. The Parquet files are written from it.
PARQUET_WORKING_FILE = ".counterfoil.duckdb"
TARGET_KINDS = "a file ending in .duckdb or .sqlite, a folder ending in / (Parquet), or postgresql://..."


class Destination(Struct, frozen=True):
    """Where a copy is stored. `display_name` is its path, or its address without the password."""

    display_name: str
    module: str
    sink: str
    location: Path | str

    def open(self) -> Sink:
        """Open the copy, and create it if it does not exist."""
        sink: Callable[[Path | str], Sink] = getattr(self._import_engine(), self.sink)
        return sink(self.location)

    def require_engine(self) -> None:
        """Raise `SinkError` if a package that this kind of target needs is not installed."""
        self._import_engine()

    def exists(self) -> bool:
        """Return whether the copy exists. In PostgreSQL, it is assumed to exist, because a check needs a connection."""
        if not isinstance(self.location, Path):
            return True
        is_folder = self.sink == "ParquetSink"
        return (self.location / PARQUET_WORKING_FILE if is_folder else self.location).exists()

    def readable_by_others(self) -> bool:
        """Return whether the copy is a file or folder that other users of this machine can read."""
        return isinstance(self.location, Path) and self.exists() and bool(self.location.stat().st_mode & 0o044)

    def _import_engine(self) -> Any:
        try:
            return import_module(f"counterfoil.client.sinks.{self.module}")
        except ImportError as error:
            raise SinkError(missing_package(error.name, "pull", sys.executable)) from error


@contextmanager
def private_files() -> Iterator[None]:
    """Make new files and folders readable only by their owner, because a copy may contain personal data.

    DuckDB creates its log and its temporary files itself, so the umask is set for the whole process.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def parse_destination(name: str) -> Destination:
    """Return the target with this name. Raise `ValueError` if the name is not valid."""
    if name.startswith(POSTGRES):
        if not is_address(name):
            # A driver's error message may quote a part of such an address that contains the password.
            raise ValueError(f"the address of the target is not valid: {use_address_form(name)}: an @ is %40.")
        # Commands of `--then` may use this address, with a password from elsewhere.
        shown = without_password(name).partition("?")[0].replace(":***@", "@")
        return Destination(shown, "postgres", "PostgresSink", name)
    path = Path(name).expanduser()
    if name.endswith("/") or path.is_dir():
        return Destination(f"{path}/", "duckdb", "ParquetSink", path)
    if path.suffix == ".duckdb":
        return Destination(str(path), "duckdb", "DuckDBSink", path)
    if path.suffix in SQLITE_SUFFIXES:
        return Destination(str(path), "sqlite", "SQLiteSink", path)
    raise ValueError(f"{without_password(name)!r} is not a valid target. Use {TARGET_KINDS}")
