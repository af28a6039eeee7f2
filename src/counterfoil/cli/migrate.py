"""`counterfoil migrate`: the schema of a PostgreSQL store, and the roles that may use it."""

import click

from counterfoil import bootstrap
from counterfoil.cli.options import json_option, settings_from, store_option
from counterfoil.cli.terminal import print_json
from counterfoil.settings import shown


@click.command()
@click.option(
    "--roles", is_flag=True, help="Make the roles for serving, loading and administration, and what they may."
)
@click.option("--distribute", is_flag=True, help="Distribute bills and members over the workers of a Citus cluster.")
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, roles: bool, distribute: bool, store: str | None, as_json: bool) -> None:
    """Make the schema of the store, or bring it up to date; several at once do it once.

    The embedded store does this by itself. Needs a login that owns the schema
    `counterfoil` or may make it; with --roles, one that may make roles. With
    --distribute, stop every `serve` and `load` first.
    """
    settings = settings_from(ctx, store=store)
    done = bootstrap.migrate(settings)
    distributed = bootstrap.distribute(settings) if distribute else []
    granted = bootstrap.make_roles(settings) if roles else []
    if as_json:
        told = {"migrations": done, "distributed": distributed, "roles": granted}
        print_json({"store": shown(settings, "store"), **told})
        return
    click.echo(f"Ran {', '.join(done)}." if done else "The schema is up to date.")
    if distribute:
        click.echo(f"Distributed {', '.join(distributed)}." if distributed else "The tables are already distributed.")
    if granted:
        click.echo(f"Roles: {', '.join(granted)}. They cannot log in: grant them to users of your own.")
