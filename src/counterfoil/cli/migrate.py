"""`counterfoil migrate`: create or upgrade the schema and the roles of a PostgreSQL store."""

from functools import partial

import click

from counterfoil import bootstrap
from counterfoil.cli.options import json_option, settings_from, store_option
from counterfoil.cli.recording import audit_entry, record
from counterfoil.cli.terminal import echo, print_json
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.settings import SettingsError, display_value


@click.command()
@click.option(
    "--roles", is_flag=True, help="Create the roles for serving, loading and administration, with their permissions."
)
@click.option("--distribute", is_flag=True, help="Distribute bills and members over the workers of a Citus cluster.")
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, roles: bool, distribute: bool, store: str | None, as_json: bool) -> None:
    """Create or upgrade the schema of a PostgreSQL store. Safe to run concurrently.

    An embedded store is upgraded automatically. The login must own the schema
    `counterfoil` or be allowed to create it; with --roles, it must be allowed
    to create roles. Before --distribute, stop every `serve` and `load`.
    """
    settings = settings_from(ctx, store=store)
    if not settings.database and (roles or distribute):
        flag = "--roles" if roles else "--distribute"
        raise SettingsError(
            f"{flag} requires a store on PostgreSQL. Set COUNTERFOIL_STORE to its address. "
            "An embedded store has no roles and cannot be distributed."
        )
    done = bootstrap.store(settings).migrate(partial(_entry, Act.SCHEMA_MIGRATED))
    distributed = bootstrap.distribute(settings) if distribute else []
    if distributed:
        record(settings, Act.TABLES_DISTRIBUTED, ", ".join(distributed))
    granted = bootstrap.make_roles(settings, partial(_entry, Act.ROLES_GRANTED)) if roles else []
    if as_json:
        changes = {"migrations": done, "distributed": distributed, "roles": granted}
        print_json({"store": display_value(settings, "store"), **changes})
        return
    echo(f"Applied {', '.join(done)}." if done else "The schema is up to date.")
    if distribute:
        echo(f"Distributed {', '.join(distributed)}." if distributed else "The tables are already distributed.")
    if granted:
        echo(f"Roles: {', '.join(granted)}. They cannot log in; grant them to your own logins.")


def _entry(act: Act, names: list[str]) -> AuditEntry:
    return audit_entry(act, ", ".join(names))
