"""`counterfoil settings`: print the effective settings, with secrets masked."""

import os

import click

from counterfoil.cli.options import store_options
from counterfoil.cli.terminal import display_width, echo, print_json, print_wrapped, style, wrapped
from counterfoil.settings import TABLE, collect, display_value, resolve

MAX_WIDTH, MAX_VALUE = 100, 40
INDENT = "    "


@click.command()
@store_options
def command(ctx: click.Context, store: str | None, as_json: bool) -> None:
    sources = collect({"store": store}, os.environ, ctx.obj)
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
    value_width = min(MAX_VALUE, max(display_width(value) for _, value, _, _ in rows))
    for name, value, origin, text in rows:
        padding = " " * (value_width - display_width(value))
        shown = style(value, fg="cyan") + padding
        print_wrapped(f"{style(name.ljust(name_width), bold=True)}  {shown}  {origin}", len(INDENT))
        for line in wrapped(INDENT + text, len(INDENT), MAX_WIDTH):
            echo(line, dim=True)
