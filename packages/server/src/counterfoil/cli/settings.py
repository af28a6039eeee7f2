"""`counterfoil settings`: print the effective settings, with secrets masked."""

import os
from pathlib import Path

import click

from counterfoil.cli.options import store_flag, store_options
from counterfoil.program.main import Command
from counterfoil.program.terminal import print_json, print_wrapped, style
from counterfoil.settings import TABLE, collect, display_value, resolve

INDENT = 4


@click.command(cls=Command)
@store_options
@click.pass_obj
def command(config: Path | None, as_json: bool) -> None:
    """Print every setting with its value, where the value comes from, and what the setting does."""
    sources = collect(store_flag(), os.environ, config)
    effective = resolve(sources)
    rows = [
        (setting.name, display_value(effective, setting.name), sources[setting.name].origin, setting.help)
        for setting in TABLE
    ]
    if as_json:
        names = ("name", "value", "origin", "help")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    name_width = max(len(setting.name) for setting in TABLE)
    for name, value, origin, text in rows:
        shown = style(value or "(empty)", fg="cyan")
        print_wrapped(f"{style(name.ljust(name_width), bold=True)}  {shown}  {origin}", INDENT)
        print_wrapped(" " * INDENT + text, INDENT, dim=True)
