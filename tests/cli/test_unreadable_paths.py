"""A path that the user may not look up or read is called unreadable, never missing, in every command."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.command import PYTHON
from counterfoil.program.main import program
from counterfoil.program.paths import UserPath

# Root may read everything, unless it has given up these privileges.
AS_ORDINARY_USER = (
    "setpriv",
    "--inh-caps=-dac_override,-dac_read_search",
    "--bounding-set=-dac_override,-dac_read_search",
)


def parameters(command: click.Command, name: str) -> Iterator[tuple[str, click.Parameter]]:
    for parameter in command.params:
        yield f"{name} {parameter.name}", parameter
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found
            yield from parameters(found, f"{name} {child}")


def test_every_path_of_every_command_is_checked_before_it_is_called_missing() -> None:
    found = [(name, one.type) for name, one in parameters(program, "counterfoil") if isinstance(one.type, click.Path)]
    assert len(found) > 20
    assert [name for name, kind in found if not isinstance(kind, UserPath)] == []


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody but a privileged user may enter, with a file in it."""
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "file").write_text("")
    (tmp_path / "shut").write_text("")
    (tmp_path / "shut").chmod(0)
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ("load", "--mapping", "closed/file", "x.csv"),
        ("load", "closed/file"),
        ("load", "--watch", "closed/file"),
        ("import", "shut"),
        ("--config", "closed/file", "status"),
        ("status", "--store", "closed/store"),
    ],
    ids=" ".join,
)
@pytest.mark.programs
def test_a_path_that_may_not_be_read_is_not_called_missing(closed: Path, words: tuple[str, ...]) -> None:
    command = [*AS_ORDINARY_USER, *PYTHON, *words]
    done = subprocess.run(command, cwd=closed.parent, capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2)
    assert "not exist" not in done.stderr
    assert any(said in done.stderr for said in ("may not enter the folder", "not readable", "Permission denied"))
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed_path", [".", "books.sqlite3"])
@pytest.mark.parametrize("by_flag", [True, False], ids=["flag", "variable"])
@pytest.mark.programs
def test_the_store_of_another_user_is_refused_with_the_name_of_its_owner_and_the_command_to_run(
    tmp_path: Path, closed_path: str, by_flag: bool
) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o755)
    (store / "books.sqlite3").write_bytes(b"")
    (store / closed_path).chmod(0o700)
    for path in (store, store / "books.sqlite3"):
        shutil.chown(path, "nobody")
    where = ("--store", str(store)) if by_flag else ()
    variables = os.environ | ({} if by_flag else {"COUNTERFOIL_STORE": str(store)})
    command = [*AS_ORDINARY_USER, *PYTHON, "keys", "list", *where]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2)
    assert "belongs to the user nobody, and the user root may not read it" in done.stderr
    assert "sudo -u nobody " in done.stderr
    assert f"counterfoil keys list --store {store}" in done.stderr
