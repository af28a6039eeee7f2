"""Options that several commands share, and the way from flags to settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from counterfoil.settings import BY_NAME, Settings, SettingsError, load

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def setting_option(name: str, kind: Any = str, metavar: str | None = None) -> Callable[[Any], Any]:
    """The flag of a setting, with the setting's own help."""
    setting = BY_NAME[name]
    return click.option(
        f"--{name.replace('_', '-')}",
        name,
        type=kind,
        metavar=metavar,
        help=f"{setting.help} [{setting.variable}; default: {setting.default or 'none'}]",
    )


store_option = setting_option("store", click.Path(file_okay=False), "DIR")


def settings_from(ctx: click.Context, **flags: object) -> Settings:
    """The effective settings under these flags."""
    config: Path | None = ctx.obj
    try:
        settings = load(flags, file=config)
    except SettingsError as error:
        if any(flags.get(name) is not None for name in error.names):
            raise click.UsageError(f"{error}.", ctx) from error
        raise
    if settings.store.is_file():
        raise SettingsError(f"the store {settings.store} is a file, and a store is a folder; --store names another.")
    return settings


def existing_store(ctx: click.Context, store: str | None) -> Settings:
    """Settings for a command that only looks: it must not make a store where there is none."""
    settings = settings_from(ctx, store=store)
    if not settings.database and not settings.store.is_dir():
        raise SettingsError(
            f"there is no store at {settings.store}; `counterfoil load` or `counterfoil keys issue` makes one, "
            "and --store names another folder."
        )
    return settings
