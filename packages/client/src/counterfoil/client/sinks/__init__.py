"""Sinks store a copy: rows and progress in one transaction. An engine is imported only when its sink is opened."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from counterfoil.client.sinks.json_rows import SinkError
from counterfoil.client.sinks.sql import Sink
from counterfoil.model.text import is_address, missing_package, use_address_form, without_password

__all__ = ["TARGET_KINDS", "Destination", "SinkError", "parse_destination", "private_files"]

POSTGRES = ("postgresql://", "postgres://")
SQLITE_SUFFIXES = (".sqlite", ".sqlite3", ".db")
# In a folder of Parquet files, this hidden DuckDB file is the copy itself. The Parquet files are written from it.
PARQUET_WORKING_FILE = ".counterfoil.duckdb"
SQLITE_MAGIC = b"SQLite format 3\0"
TARGET_KINDS = "a file ending in .duckdb or .sqlite, a folder ending in / (Parquet), or postgresql://..."


def engine_of(file: Path) -> str | None:
    """Return `duckdb` or `sqlite` if the file is of that engine, as its first bytes show."""
    with file.open("rb") as opened:
        head = opened.read(len(SQLITE_MAGIC))
    if head == SQLITE_MAGIC:
        return "sqlite"
    # In a DuckDB file, the checksum of the first block comes first.
    return "duckdb" if head[8:12] == b"DUCK" else None


class Destination(Struct, frozen=True):
    """Where a copy is stored. `display_name` is its path, or its address without the password."""

    display_name: str
    module: str
    sink: str
    location: Path | str

    def open(self) -> Sink:
        """Open the copy, and create it if it does not exist."""
        sink: Callable[[Path | str], Sink] = getattr(self.import_engine(), self.sink)
        return sink(self.location)

    def exists(self) -> bool:
        """Return whether the copy exists. In PostgreSQL, it is assumed to exist, because a check needs a connection."""
        if not isinstance(self.location, Path):
            return True
        is_folder = self.sink == "ParquetSink"
        return (self.location / PARQUET_WORKING_FILE if is_folder else self.location).exists()

    def readable_by_others(self) -> bool:
        """Return whether the copy is a file or folder that other users of this machine can read."""
        return isinstance(self.location, Path) and self.exists() and bool(self.location.stat().st_mode & 0o044)

    def import_engine(self) -> Any:
        """Raise `SinkError` if a package that this kind of target needs is not installed."""
        try:
            if find_spec("_duckdb") is None:  # Every kind of target needs it, once rows arrive.
                raise ModuleNotFoundError(name="duckdb")
            return import_module(f"counterfoil.client.sinks.{self.module}")
        except ImportError as error:
            raise SinkError(
                missing_package((error.name or "").lstrip("_"), "counterfoil-client[pull]", sys.executable)
            ) from error


@contextmanager
def private_files() -> Iterator[None]:
    """Set the umask, because a copy may contain personal data, and DuckDB creates its log and other files itself."""
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
