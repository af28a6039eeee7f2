"""`counterfoil init`: create an empty store."""

import click

from counterfoil import bootstrap
from counterfoil.cli.options import settings_from, store_option
from counterfoil.cli.recording import record
from counterfoil.cli.terminal import echo, print_note
from counterfoil.domain.audit import Act
from counterfoil.settings import Settings, SettingsError, display_value


@click.command()
@click.option(
    "--recreate",
    type=click.Choice(["books", "keys", "usage"]),
    help="Replace this file with an empty one, if it was lost and there is no backup.",
)
@click.option(
    "--share",
    is_flag=True,
    help="Share the books of an embedded store with the group of its folder, so that `load` can run as another user, "
    "who cannot open the keys.",
)
@store_option
@click.pass_context
def command(ctx: click.Context, recreate: str | None, share: bool, store: str | None) -> None:
    """Create an empty store and its deployment secret. An existing store keeps its data.

    `load`, `import --load`, `keys issue` and `demo` also create a store; `serve`
    never does. On PostgreSQL, run `counterfoil migrate` first, then run `init` with
    the same login; after that, `serve` can start before anything is loaded.
    """
    settings = settings_from(ctx, store=store)
    if recreate:
        if settings.database:
            raise SettingsError("only an embedded store has files that can be recreated.")
        bootstrap.recreate(settings, recreate)
        record(settings, Act.FILE_RECREATED, f"{recreate}.sqlite3")
        echo(f"Created an empty {recreate}.sqlite3 in {display_value(settings, 'store')}.")
        return
    if settings.database:
        _require_owner(settings)
    if share:
        if settings.database:
            raise SettingsError("only the files of an embedded store are shared. On PostgreSQL, each user has a login.")
        bootstrap.share(settings)
    is_new = not bootstrap.store(settings).exists()
    bootstrap.prepare(settings)
    if is_new:
        record(settings, Act.STORE_CREATED, "")
    echo(f"The store {display_value(settings, 'store')} is ready. Load source records with `counterfoil load`.")
    if settings.database and not settings.secret:
        print_note(
            f"the deployment secret is in {settings.secret_file}. Every node and every loader needs the same secret: "
            "set COUNTERFOIL_SECRET or COUNTERFOIL_SECRET_FILE on each of them."
        )


def _require_owner(settings: Settings) -> None:
    """Raise if the login does not own the schema.

    Only the owner can both initialise a store and write the audit entry about it, so call this first.
    """
    permissions = bootstrap.operator_reads(settings).permissions()
    if permissions and not permissions.owns:
        raise SettingsError(
            f"the login {permissions.login} does not own the schema. Run `counterfoil init` with the login that you "
            "use for `counterfoil migrate`."
        )
