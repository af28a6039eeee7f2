"""Makes Counterfoil behave like the next release, which has one more migration per database."""

import shutil
from pathlib import Path

import pytest

from counterfoil.backends.postgres import administration as postgres_migrate
from counterfoil.backends.postgres import schema as postgres_schema
from counterfoil.backends.sqlite import schema as sqlite_schema

SECOND = "0024_second.sql"
SQL = "CREATE TABLE second (number integer PRIMARY KEY);\nINSERT INTO second VALUES (1), (2);\n"


def add_second_migration(folder: Path, monkeypatch: pytest.MonkeyPatch, sql: str = SQL) -> None:
    """Let both back ends read their migrations from copies in `folder`, which contain a second migration each."""
    for schema in (sqlite_schema, postgres_schema):
        copied = shutil.copytree(schema.MIGRATIONS, folder / schema.__name__)
        for place in [copied / name for name in sqlite_schema.NAMES] if schema is sqlite_schema else [copied]:
            (place / SECOND).write_text(sql, "utf-8")
        monkeypatch.setattr(schema, "MIGRATIONS", copied)
    monkeypatch.setattr(postgres_migrate, "MIGRATIONS", postgres_schema.MIGRATIONS)
