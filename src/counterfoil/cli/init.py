"""`counterfoil init`: create an empty store."""

import click

from counterfoil import bootstrap
from counterfoil.cli.options import settings_from, store_option
from counterfoil.cli.recording import record
from counterfoil.domain.audit import Act
from counterfoil.settings import display_value


@click.command()
@click.option(
    "--recreate",
    type=click.Choice(["books", "keys", "usage"]),
    help="Replace this file with an empty one, if it was lost and there is no backup.",
)
@store_option
@click.pass_context
def command(ctx: click.Context, recreate: str | None, store: str | None) -> None:
    """Create an empty store and its deployment secret. An existing store is left as it is.

    `load`, `keys issue` and `demo` also create a store; `serve` never does.
    """
    settings = settings_from(ctx, store=store)
    if recreate:
        bootstrap.recreate(settings, recreate)
        record(settings, Act.FILE_RECREATED, f"{recreate}.sqlite3")
        click.echo(f"Created an empty {recreate}.sqlite3 in {display_value(settings, 'store')}.")
        return
    is_new = not bootstrap.has_store(settings)
    bootstrap.prepare(settings)
    if is_new:
        record(settings, Act.STORE_CREATED, "")
    click.echo(f"The store {display_value(settings, 'store')} is ready. Load source records with `counterfoil load`.")
