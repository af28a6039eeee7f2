"""Reads numbered migrations, such as `0020_books.sql`. Numbers below 20 predate the first release."""

from functools import cache
from pathlib import Path
from typing import NamedTuple


class Migration(NamedTuple):
    """A migration. The database has schema `number` after it."""

    number: int
    file: str
    sql: str


@cache
def read_scripts(folder: Path) -> tuple[Migration, ...]:
    """Return the migrations in a folder, in the order in which they are run."""
    # `importlib.resources` would import modules for zip archives and temporary files, which takes 10 ms.
    files = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    return tuple(Migration(int(file[:4]), file, (folder / file).read_text(encoding="utf-8")) for file in files)
