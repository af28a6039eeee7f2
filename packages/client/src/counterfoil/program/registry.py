"""Finds the commands that the installed distributions register."""

from functools import cache
from importlib import import_module
from typing import NamedTuple

import click

ENTRY_POINTS = "counterfoil.commands"
GROUPS = ("Start", "Load", "Keys", "Watch", "Store", "Copies", "Develop")
"""The groups of the help, in this order. A group without commands is not shown."""


class RegisteredCommand(NamedTuple):
    """A command: its name, the group of the help that shows it, what it does in one line, and where it is defined.

    The module is imported only when the command is needed, because some take long.
    """

    name: str
    group: str
    summary: str
    module: str
    function: str = "command"

    def load(self) -> click.Command:
        command: click.Command = getattr(import_module(self.module), self.function)
        return command


@cache
def registered() -> dict[str, RegisteredCommand]:
    """Return the commands of all installed distributions by their names, in the order of the help."""
    # A process that runs one command without asking for its name starts faster without it.
    from importlib.metadata import entry_points  # noqa: PLC0415

    found: list[RegisteredCommand] = []
    for point in entry_points(group=ENTRY_POINTS):
        found += point.load()
    found.sort(key=lambda command: GROUPS.index(command.group))
    return {command.name: command for command in found}
