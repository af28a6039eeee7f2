"""`counterfoil doctor`: check everything that the service needs, as `counterfoil status --deep` does."""

import click

from counterfoil.cli.options import json_option, store_option
from counterfoil.cli.status import show_status


@click.command()
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Check settings, secret, store, schema, clock, disk, ports and the service, and say how to fix problems.

    The same as `counterfoil status --deep`, except for the exit status: 0 if everything
    that the service needs is in order (there may be warnings), 1 if a check failed. A
    service that is not running does not count, so you can run this before you start it.
    """
    if not show_status(ctx, store, as_json=as_json, deep=True).is_healthy:
        raise click.exceptions.Exit(1)
