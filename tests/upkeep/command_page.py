"""Generates docs/commands.md: the commands and subcommands with their one-line help, and the exit statuses."""

from collections.abc import Iterator

import click

from counterfoil.program.main import EXIT_STATUSES, program
from counterfoil.program.registry import GROUPS, RegisteredCommand, registered
from upkeep.fields import ROOT

PAGE = ROOT / "docs/commands.md"
INTRODUCTION = """\
# Commands

`make docs` generates this page from the commands. `counterfoil COMMAND --help` shows the options of a command, and
`man counterfoil-keys-issue` the same as a manual page.
"""


def page() -> str:
    parts = [INTRODUCTION]
    for group in GROUPS:
        rows = [row for command in registered().values() if command.group == group for row in _rows(command)]
        parts.append(f"## {group}\n\n| command | what it does |\n|---|---|\n{''.join(rows)}")
    statuses = "".join(f"| {status} | {meaning} |\n" for status, meaning in EXIT_STATUSES.items())
    parts.append(f"## Exit statuses\n\n| status | meaning |\n|---|---|\n{statuses}")
    return "\n".join(parts)


def _rows(registered_command: RegisteredCommand) -> Iterator[str]:
    yield f"| `{registered_command.name}` | {registered_command.summary} |\n"
    command = registered_command.load()
    if not isinstance(command, click.Group):
        return
    context = click.Context(command, info_name=registered_command.name, parent=click.Context(program))
    for name in command.list_commands(context):
        subcommand = command.get_command(context, name)
        if subcommand is not None and not subcommand.hidden:
            yield f"| `{registered_command.name} {name}` | {subcommand.get_short_help_str(limit=200)} |\n"
