"""`counterfoil settings`: print the effective settings, with secrets masked."""

import os

import click

from counterfoil.cli.options import json_option, store_option
from counterfoil.cli.terminal import DisplayColumn, print_json, print_table
from counterfoil.settings import TABLE, collect, display_value, resolve


@click.command()
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Print every setting with its value, the origin of the value, and its meaning."""
    sources = collect({"store": store}, os.environ, ctx.obj)
    settings = resolve(sources)
    rows = [
        (setting.name, display_value(settings, setting.name), sources[setting.name].origin, setting.help)
        for setting in TABLE
    ]
    if as_json:
        names = ("name", "value", "origin", "help")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    print_table(
        (
            DisplayColumn("setting", "bold"),
            DisplayColumn("value", "cyan"),
            DisplayColumn("origin"),
            DisplayColumn("help", "dim"),
        ),
        rows,
    )
