"""Detects that a file of the store has gone back in time, for example because an older copy replaced it.

While the service runs, the position of each file increases. A file stores its own position, and the positions of the
other files once they have been written there. So if another file knows a later position of a file than the file itself,
the file has lost changes that clients may have read. A file in a backup is marked instead, so that it is recognised
even if nothing was written between the backup and the replacement.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.files import read_only, translated, writing
from counterfoil.backends.sqlite.schema import NAMES, Name
from counterfoil.ports import Clock, StoreMismatch, StoreUnavailable

# How often positions are written, in microseconds. A write to `keys` makes the workers read all keys again.
EXCHANGE_US: dict[Name, int] = {"books": 1_000_000, "usage": 1_000_000, "keys": 60_000_000}

_READ = "SELECT name, at FROM positions"
_RAISE = "UPDATE positions SET at = max(at, ?) WHERE name = ?"
_SET = "UPDATE positions SET at = ? WHERE name = ?"

Positions = dict[Name, dict[Name, int]]


def known_positions(folder: Path) -> Positions:
    """Return what each file knows about the positions of all files. Files that cannot be read are left out."""
    known: Positions = {}
    for name in NAMES:
        with suppress(StoreUnavailable, StoreMismatch), closing(read_only(folder, name)) as file, translated():
            known[name] = dict(file.execute(_READ).fetchall())
    return known


def older_files(folder: Path) -> list[Name]:
    """Return the names of the files that have gone back in time."""
    known = known_positions(folder)
    if not _behind(known, known):
        return []
    # A running service may have written positions meanwhile, a file's own first, so they are read again.
    return _behind(known, known_positions(folder))


def _behind(known: Positions, own: Positions) -> list[Name]:
    behind = []
    for name, positions in own.items():
        at = positions[name]
        if any(of_file[name] > at for of_file in known.values()):
            behind.append(name)
    return behind


def mark_as_backup(connection: sqlite3.Connection, name: Name) -> None:
    """Mark a file of a backup, so that `older_files` returns it if it gets into a store without `restore`."""
    connection.execute(_SET, (-1, name))


def agree(folder: Path, names: Iterable[Name], at: int) -> None:
    """Give all files the same position, so that none of them counts as older than the others."""
    for name in names:
        opened = files.open_existing(folder, name, "rw", files.OPEN_SEC[name])
        with closing(opened) as file, translated(), writing(file, files.WAIT_SEC[name]):
            file.executemany(_SET, [(at, other) for other in names])


class PositionExchange:
    """Writes the positions while the service runs. A file that was replaced meanwhile is not written."""

    def __init__(self, folder: Path, books: sqlite3.Connection, clock: Clock) -> None:
        self._folder = folder
        self._books = books
        self._clock = clock
        self._files = files.OpenFiles(folder, NAMES, logs=False)
        self._reached: dict[Name, int] = {}
        self._due: dict[Name, int] = {}

    def run(self, horizon: int) -> None:
        """Write the positions that are due. If a file is locked, the next call tries again."""
        now = self._clock.steady_us()
        for name, every_us in EXCHANGE_US.items():
            if now >= self._due.get(name, 0):
                with suppress(StoreUnavailable, StoreMismatch):
                    self._write(name, max(horizon, self._reached.get(name, 0) + 1))
                    self._due[name] = now + every_us

    def _write(self, name: Name, at: int) -> None:
        values = [(at, name), *((reached, other) for other, reached in self._reached.items() if other != name)]
        if name == "books":
            self._raise(self._books, values)
        else:
            with closing(files.open_existing(self._folder, name, "rw", files.BRIEFLY_SEC)) as file:
                if self._files.problem(name):
                    return
                self._raise(file, values)
        self._reached[name] = at

    def _raise(self, file: sqlite3.Connection, values: list[tuple[int, Name]]) -> None:
        with translated(), writing(file, files.BRIEFLY_SEC):
            file.executemany(_RAISE, values)
