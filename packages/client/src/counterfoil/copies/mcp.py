"""`counterfoil mcp`: let an assistant ask questions about a copy."""

from pathlib import Path

import click

from counterfoil.program.main import Command
from counterfoil.program.paths import UserPath


@click.command(cls=Command)
@click.option("--copy", "path", type=UserPath(path_type=Path), default="counterfoil.duckdb", metavar="FILE")
def command(*, path: Path) -> None:
    from counterfoil.client.assistant.sources import CopyError, copy_file, is_sqlite  # noqa: PLC0415 - the extra may be missing

    path = path.expanduser()
    try:
        # Check the copy before importing the MCP SDK, which takes a second, so that an error is reported at once.
        is_sqlite(copy_file(path))
        from counterfoil.client.assistant.server import run  # noqa: PLC0415

        run(path)
    except CopyError as error:
        raise click.ClickException(str(error)) from error
