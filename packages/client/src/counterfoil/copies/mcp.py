"""`counterfoil mcp`: let an assistant ask questions about a copy."""

from pathlib import Path

import click

from counterfoil.program.main import Command
from counterfoil.program.paths import UserPath


@click.command(cls=Command)
@click.option(
    "--copy",
    "path",
    type=UserPath(path_type=Path),
    default="counterfoil.duckdb",
    metavar="FILE",
    help="The copy that `counterfoil pull` keeps up to date: a DuckDB or SQLite file, or a folder of Parquet files.",
)
def command(*, path: Path) -> None:
    """Answer an assistant's questions about a copy, over the Model Context Protocol (MCP).

    An assistant starts this command and talks to it over standard input and output. The command only reads the copy
    and does not call the service. Columns that can identify a person are not loaded.
    """
    from counterfoil.client.assistant.sources import CopyError, copy_file, is_sqlite  # noqa: PLC0415 - the extra may be missing

    path = path.expanduser()
    try:
        # Check the copy before importing the MCP SDK, which takes a second, so that an error is reported at once.
        is_sqlite(copy_file(path))
        from counterfoil.client.assistant.server import run  # noqa: PLC0415

        run(path)
    except CopyError as error:
        raise click.ClickException(str(error)) from error
