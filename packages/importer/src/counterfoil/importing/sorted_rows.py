"""Joins bills, lines and payments in a temporary SQLite file, so that any export is imported in constant memory."""

import contextlib
import errno
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, json

from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import Sheet, TableRow

BILL, LINE, PAYMENT = 0, 1, 2
_CREATE = "CREATE TABLE rows (number INTEGER PRIMARY KEY, kind INT, bill TEXT, sheet INT, line INT, cells BLOB)"
_ADD = "INSERT INTO rows (kind, bill, sheet, line, cells) VALUES (?, ?, ?, ?, ?)"
_INDEX = "CREATE INDEX rows_of_bill ON rows (bill, kind)"
_BILLS = "SELECT bill FROM rows WHERE kind = 0 GROUP BY bill ORDER BY min(number)"
_ROWS = "SELECT kind, sheet, line, cells FROM rows WHERE bill = ? ORDER BY number"
_IN_PARTS = """
    SELECT bill FROM rows WHERE kind = 0 GROUP BY bill, sheet HAVING max(number) - min(number) + 1 > count(*)
"""
_ORPHANS = """
    SELECT kind, sheet, line, cells, bill FROM rows AS orphan
    WHERE kind <> 0 AND NOT EXISTS (SELECT 1 FROM rows WHERE rows.bill = orphan.bill AND rows.kind = 0)
    ORDER BY bill, number
"""
_BATCH = 2000

_encode = json.Encoder().encode
_decode = json.Decoder(list[str]).decode


class BillRows(Struct):
    """All rows of one bill, in the order of the export."""

    key: str
    bills: list[TableRow]
    lines: list[TableRow]
    payments: list[TableRow]


class SortedRows:
    """The rows of an export, grouped by bill. `max_pages` limits the size of the temporary file, in pages of 4 KiB."""

    def __init__(self, max_pages: int | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="counterfoil-import-")
        self._db = sqlite3.connect(Path(self._folder.name) / "rows.sqlite3", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("PRAGMA temp_store = FILE")
        if max_pages:
            self._db.execute(f"PRAGMA max_page_count = {max_pages}")
        self._db.execute(_CREATE)
        # The file is open, so it needs no name any more, and a process that is killed leaves nothing behind.
        self._folder.cleanup()
        self._db.execute("BEGIN")
        self._sheets: list[Sheet] = []
        self._waiting: list[tuple[int, str, int, int, bytes]] = []

    def add_sheet(self, sheet: Sheet) -> int:
        self._sheets.append(sheet)
        return len(self._sheets) - 1

    def add(self, kind: int, key: str, sheet: int, line: int, cells: Sequence[str]) -> None:
        self._waiting.append((kind, key, sheet, line, _encode(cells)))
        if len(self._waiting) >= _BATCH:
            self._flush()

    def bills(self) -> Iterator[BillRows]:
        """Yield the rows of each bill, in the order in which the bills first appear."""
        self._flush()
        if self._db.in_transaction:
            self._index()
        for (key,) in self._db.execute(_BILLS):
            group = BillRows(key, [], [], [])
            lists = (group.bills, group.lines, group.payments)
            for kind, sheet, line, cells in self._db.execute(_ROWS, (key,)):
                lists[kind].append(TableRow(self._sheets[sheet], line, _decode(cells)))
            yield group

    def _index(self) -> None:
        try:
            self._db.execute("COMMIT")
            self._db.execute(_INDEX)
        except sqlite3.Error as error:
            raise _failure(self._folder.name, error) from error

    def in_parts(self) -> set[str]:
        """Return the bills that have rows of other bills of the same file between theirs."""
        self._flush()
        return {key for (key,) in self._db.execute(_IN_PARTS)}

    def orphans(self) -> Iterator[tuple[int, TableRow, str]]:
        """Yield the lines and payments whose bill is missing, with the key of that bill. Call it after `bills`."""
        for kind, sheet, line, cells, key in self._db.execute(_ORPHANS):
            yield kind, TableRow(self._sheets[sheet], line, _decode(cells)), key

    def close(self) -> None:
        self._db.close()
        with contextlib.suppress(OSError):
            self._folder.cleanup()

    def _flush(self) -> None:
        try:
            self._db.executemany(_ADD, self._waiting)
        except sqlite3.Error as error:
            raise _failure(self._folder.name, error) from error
        self._waiting.clear()


def _failure(folder: str, error: sqlite3.Error) -> ImportFailed:
    return ImportFailed(
        sentence(
            "the temporary file in {folder} cannot be written: {error}. It takes about as much space as the "
            "export. If there is not enough space, set TMPDIR to another folder.",
            folder=folder,
            error=error,
        )
    )


def is_disk_full(error: BaseException) -> bool:
    """Return whether an import failed because a temporary file could not be written, not because of its files."""
    # A stop may have any cause, such as an error of the store.
    cause = (error.__cause__ or error) if isinstance(error, Exception) else None
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
