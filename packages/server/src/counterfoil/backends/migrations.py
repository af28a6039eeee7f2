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
    names = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    migrations = []
    for name in names:
        script = (folder / name).read_text(encoding="utf-8")
        migrations.append(Migration(int(name[:4]), name, script))
    return tuple(migrations)
