"""Opens a POS database as the source of an import."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from counterfoil.cli.terminal import print_note
from counterfoil.importing.database import DatabaseImport, SourceDatabase
from counterfoil.importing.mapping import parse_mapping
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.tables import ImportOptions
from counterfoil.importing.watermarks import StateFile
from counterfoil.text import is_address, scheme_of, use_address_form


@contextmanager
def open_database(
    url: str, content: dict[str, Any], name: str, options: ImportOptions, state: Path | None, *, full: bool
) -> Iterator[DatabaseImport]:
    """Lock the state file if `state` is given, connect to the database, print any notes, and yield the import."""
    mapping = parse_mapping(content, name)
    if state is None:
        with closing(_connect(url)) as source:
            yield DatabaseImport(source, mapping, options, None, full=full)
        return
    # The state file is locked before the snapshot is taken. Otherwise, another import could save a state that is newer
    # than this snapshot.
    with closing(StateFile(state)) as saved, closing(_connect(url)) as source:
        reading = DatabaseImport(source, mapping, options, saved, full=full)
        for note in reading.notes:
            print_note(note[0].lower() + note[1:])
        yield reading


def _connect(url: str) -> SourceDatabase:
    scheme = scheme_of(url)
    if scheme in ("postgresql", "postgres", "mysql", "mariadb") and not is_address(url):
        # A driver's error message may quote a part of such an address that contains the password.
        raise ImportFailed(f"the database address (--url) is not valid: {use_address_form(url)}.")
    if scheme in ("postgresql", "postgres"):
        from counterfoil.importing.postgres import PostgresSource  # noqa: PLC0415 - the driver is part of an extra

        return PostgresSource(url)
    if scheme in ("mysql", "mariadb"):
        from counterfoil.importing.mysql import MySqlSource  # noqa: PLC0415 - the driver is part of an extra

        return MySqlSource(url)
    raise ImportFailed("the database address (--url) must begin with postgresql:// or mysql://.")
