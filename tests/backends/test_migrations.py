"""A later release can migrate a store, and a store made before the first release is refused and not changed."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import servers
from cli.command import SHOPS, Command
from counterfoil.backends.postgres.admin_connections import check_version, connect
from counterfoil.backends.postgres.administration import make_roles, migrate
from counterfoil.backends.postgres.schema import scripts as server_scripts
from counterfoil.backends.sqlite.backup import MANIFEST
from counterfoil.backends.sqlite.files import path_of, read_only, read_write
from counterfoil.backends.sqlite.schema import NAMES, Name, scripts
from counterfoil.ports import StoreMismatch, StoreUnavailable
from second_migration import SECOND, SQL, add_second_migration

LINES = b"\n".join(SHOPS)
BEFORE_THE_FIRST_RELEASE = "made before the first release, and this version cannot read it: create"


def schema_of(folder: Path, name: Name) -> int:
    with closing(sqlite3.connect(path_of(folder, name))) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


# --- a second migration --------------------------------------------------------------


def test_a_second_migration_runs_once_in_each_file_and_keeps_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    Command(store)("load", "-", stdin=LINES)
    shops = Command(store).json("shops")
    add_second_migration(tmp_path, monkeypatch)
    for name in NAMES:
        with pytest.raises(StoreMismatch, match=r"has schema 2[03], but this version needs 24: .* to upgrade it"):
            read_only(store, name)
        for _ in range(2):
            with closing(read_write(store, name)) as connection:
                assert connection.execute("SELECT number FROM second").fetchall() == [(1,), (2,)]
                files = connection.execute("SELECT file FROM migrations ORDER BY number").fetchall()
        assert (files[0], files[-1]) == ((f"0020_{name}.sql",), (SECOND,))
        assert schema_of(store, name) == 24
    assert Command(store).json("shops") == shops


def test_a_second_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_write(tmp_path / "store", "books").close()
    add_second_migration(tmp_path, monkeypatch, SQL + "DROP TABLE nowhere;\n")
    with pytest.raises(StoreUnavailable, match="nowhere"):
        read_write(tmp_path / "store", "books")
    assert schema_of(tmp_path / "store", "books") == 23
    with closing(sqlite3.connect(path_of(tmp_path / "store", "books"))) as connection:
        assert not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'second'").fetchall()


@pytest.mark.parametrize("suits", [True, False])
def test_a_second_migration_of_a_database_runs_once_and_says_which_programs_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suits: bool
) -> None:
    server = servers.postgres(18)
    database, url = server.fresh_database()
    Command(url)("load", "-", stdin=LINES)
    make_roles(url)
    with monkeypatch.context() as next_release:
        add_second_migration(
            tmp_path, next_release, ("-- Suits programs that know schema 23.\n" if suits else "") + SQL
        )
        with connect(url) as connection, pytest.raises(StoreMismatch, match=r"needs 24: run `counterfoil migrate`"):
            check_version(connection)
        assert migrate(url) == [SECOND]
        assert migrate(url) == []
        with connect(url) as connection:
            check_version(connection)
    assert server.command("SELECT number FROM counterfoil.second", database) == [(1,), (2,)]
    assert server.command("SELECT count(*) FROM counterfoil.shops", database) == [(len(SHOPS),)]
    with connect(url) as connection:
        if suits:
            check_version(connection)
        else:
            with pytest.raises(StoreMismatch, match="newer version of Counterfoil"):
                check_version(connection)


# --- before the first release ----------------------------------------------------------


def downgrade(folder: Path, name: Name, number: int) -> None:
    with closing(sqlite3.connect(path_of(folder, name))) as connection:
        connection.execute(f"PRAGMA user_version = {number}")


def test_commands_refuse_a_folder_made_before_the_first_release_with_one_sentence(tmp_path: Path) -> None:
    store = Command(tmp_path / "store")
    store("load", "-", stdin=LINES)
    for name in NAMES:
        downgrade(tmp_path / "store", name, 2)
    for words in (("status",), ("load", "-"), ("keys", "list"), ("requests",), ("backup", tmp_path / "copy")):
        result = store(*words, stdin=LINES, status=1)
        assert BEFORE_THE_FIRST_RELEASE in " ".join(result.output.split())
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_made_before_the_first_release_is_refused_and_not_changed(tmp_path: Path, name: Name) -> None:
    read_write(tmp_path, name).close()
    downgrade(tmp_path, name, 7)
    before = path_of(tmp_path, name).read_bytes()
    for open_file in (read_only, read_write):
        with pytest.raises(StoreMismatch, match=f"the {name} database was {BEFORE_THE_FIRST_RELEASE}"):
            open_file(tmp_path, name)
    assert path_of(tmp_path, name).read_bytes() == before


def test_a_backup_made_before_the_first_release_is_refused_with_what_to_do(tmp_path: Path) -> None:
    store, backup = Command(tmp_path / "store"), tmp_path / "backup"
    store("load", "-", stdin=LINES)
    store("backup", backup)
    manifest = backup / MANIFEST
    manifest.write_text(manifest.read_text("utf-8").replace(f'"schema": {scripts("books")[0].number}', '"schema": 2'))
    shutil.rmtree(tmp_path / "store")
    told = store("restore", backup, status=1).stderr
    assert "was made before the first release" in told
    assert "load the source records into it" in told


def test_a_database_made_before_the_first_release_is_refused_and_not_changed() -> None:
    server = servers.postgres(18)
    database, url = server.fresh_database()
    server.command("DELETE FROM counterfoil.migrations WHERE number > 20", database)
    server.command("UPDATE counterfoil.migrations SET number = 10, oldest = 9", database)
    for use in (check_version, lambda _: migrate(url)):
        with connect(url) as connection, pytest.raises(StoreMismatch, match=BEFORE_THE_FIRST_RELEASE):
            use(connection)
    assert server.command("SELECT number, oldest FROM counterfoil.migrations", database) == [(10, 9)]


def test_programs_from_before_the_first_release_refuse_a_new_database() -> None:
    """They compare the column `oldest` with the latest schema that they know, which is at most 10."""
    with psycopg.connect(servers.postgres(18).fresh_database()[1]) as connection:
        (oldest,) = connection.execute("SELECT min(oldest) FROM counterfoil.migrations").fetchone() or (0,)
    assert oldest == server_scripts()[0].number == 20
