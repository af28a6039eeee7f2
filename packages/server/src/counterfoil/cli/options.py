"""Options shared by several commands, and functions that turn flags into settings."""

import os
import pwd
import shlex
import sys
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from counterfoil import bootstrap
from counterfoil.program.paths import UserPath
from counterfoil.program.terminal import json_option as json_option  # noqa: PLC0414 - commands import it from here
from counterfoil.program.times import UTC_NAME, show_times_in
from counterfoil.settings import BY_NAME, Settings, SettingsError, load


def setting_option(name: str, kind: Any = None, metavar: str | None = None) -> Callable[[Any], Any]:
    """Return a decorator that adds the flag of a setting, with the setting's help text."""
    setting = BY_NAME[name]
    is_number = isinstance(setting.default, int)
    if kind is None and is_number:
        kind = int
    elif kind is None:
        kind = click.Choice(setting.choices) if setting.choices else str
    return click.option(
        f"--{name.replace('_', '-')}",
        name,
        type=kind,
        metavar="N" if is_number else metavar,
        help=f"{setting.help} [{setting.variable}; default: {setting.default or 'none'}]",
    )


def _together(options: Iterable[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Return a decorator that adds options, in this order."""
    return lambda function: reduce(lambda done, option: option(done), reversed([*options]), function)


def setting_options(*names: str) -> Callable[[Any], Any]:
    return _together(map(setting_option, names))


def _remember(ctx: click.Context, option: click.Parameter, value: object) -> None:
    # In `console --store DIR devices`, only the outer command has a value.
    if value is not None:
        ctx.meta[f"counterfoil.{option.name}"] = value


class StorePath(UserPath):
    """The folder of a store. If it is another user's, the refusal says whose it is and how to run the command."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        problem = store_of_another_user(Path(value))
        if problem:
            self.fail(problem, param, ctx)
        return super().convert(value, param, ctx)


def store_of_another_user(folder: Path) -> str | None:
    """Return a sentence about a store that this user may not read because it belongs to another one, or None."""
    for path, permission in ((folder, os.R_OK | os.X_OK), (folder / "books.sqlite3", os.R_OK)):
        try:
            owner = path.stat().st_uid
        except (OSError, ValueError):
            # It does not exist, or a folder above it may not be entered: UserPath says so.
            return None
        if owner != os.geteuid() and not os.access(path, permission, effective_ids=True):
            name = _user_name(owner)
            installed = Path(sys.executable).with_name("counterfoil")
            command = installed if installed.exists() else "counterfoil"
            words = click.get_current_context().command_path.split()[1:]
            run = shlex.join(["sudo", "-u", name, str(command), *words, "--store", str(folder.absolute())])
            return (
                f"{path} belongs to the user {name}, and the user {_user_name(os.geteuid())} may not read it. Run the "
                f"command as {name}: `{run}`."
            )
    return None


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"


# These options are not passed to commands: `settings_from` applies them.
_hidden: dict[str, Any] = {"is_eager": True, "expose_value": False, "callback": _remember}
store_option = click.option(
    "--store",
    type=StorePath(file_okay=False),
    metavar="DIR",
    help="Folder of the store, or postgresql://... [COUNTERFOIL_STORE; default: counterfoil-data]",
    **_hidden,
)
utc_option = click.option(
    "--utc", is_flag=True, help="Show times in UTC instead of the zone of the setting `timezone`.", **_hidden
)
store_options = _together([store_option, json_option])


# How exports are converted, by `import` and by `load`: each flag and its kind, by the fields of `ExportRequest`.
EXPORT_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "mapping": ("--mapping", {"type": UserPath(path_type=Path, dir_okay=False, exists=True), "metavar": "FILE"}),
    "mappings": (
        "--mappings",
        {
            "type": UserPath(path_type=Path, file_okay=False, exists=True),
            "envvar": "COUNTERFOIL_IMPORT_MAPPINGS",
            "show_envvar": True,
            "metavar": "FOLDER",
        },
    ),
    "shop": ("--shop", {"metavar": "ID"}),
    "base": ("--base", {"metavar": "ID"}),
    "with_shops": ("--with-shops", {"is_flag": True}),
    "franchise": ("--franchise", {"metavar": "NAME"}),
    "closing_time": ("--closing-time", {"metavar": "HH:MM"}),
    "date_order": ("--date-order", {"type": click.Choice(("dmy", "mdy", "ymd", "ydm"))}),
    "timezone": ("--timezone", {"metavar": "NAME"}),
    "currency": ("--currency", {"default": "THB", "show_default": True, "metavar": "CODE"}),
    "converter": ("--converter", {"metavar": "COMMAND"}),
}


def export_option(name: str, text: str) -> Callable[[Any], Any]:
    """Return a decorator that adds one of EXPORT_OPTIONS. Its help text is that of the command."""
    flag, kind = EXPORT_OPTIONS[name]
    return click.option(flag, help=text, **kind)


def store_flag() -> dict[str, object]:
    return {"store": click.get_current_context().meta.get("counterfoil.store")}


def show_times(settings: Settings) -> None:
    """Show times in UTC with --utc, otherwise in the zone of the setting `timezone`."""
    show_times_in(UTC_NAME if click.get_current_context().meta.get("counterfoil.utc") else settings.timezone)


def settings_from(**flags: object) -> Settings:
    """Return the effective settings with these flags and --store. From now on, times are shown in their time zone."""
    flags = store_flag() | flags
    try:
        settings = load(flags, file=click.get_current_context().obj)
    except SettingsError as error:
        if any(flags.get(name) is not None for name in error.names):
            raise click.UsageError(str(error)) from error
        raise
    show_times(settings)
    if settings.store.is_file():
        raise SettingsError(
            f"the store {settings.store!s} is a file, but a store must be a folder. Set --store to a folder."
        )
    return settings


def refuse_without_effect(reason: str, *names: str) -> None:
    """Refuse the options with these flags if the command line has them. `reason` says why they have no effect."""
    context = click.get_current_context()
    for option in context.command.params:
        is_given = context.get_parameter_source(option.name or "") == ParameterSource.COMMANDLINE
        if is_given and option.opts[-1] in names:
            raise click.UsageError(f"{option.opts[-1]} has no effect here: {reason}")


def require_embedded(settings: Settings) -> None:
    """Raise if the store is on PostgreSQL, which has its own tools for backups."""
    if settings.database:
        raise SettingsError(
            "a store on PostgreSQL is backed up and restored with PostgreSQL's own tools, "
            "pg_basebackup and a WAL archive. See docs/backup.md for the commands and the steps "
            "after a restore."
        )


def require_roles(settings: Settings, *, writes: bool) -> None:
    """Raise if the login of PostgreSQL cannot read keys and, if the command writes, write books and the audit log."""
    granted = bootstrap.store(settings).reads().permissions()
    if granted is None:
        # An embedded store relies on file modes.
        return
    missing = [] if granted.issues_keys else ["counterfoil_administration"]
    if writes and not granted.loads:
        missing.append("counterfoil_loading")
    if missing:
        raise SettingsError(
            f"the login {granted.login} may not do this: it lacks the role {' and '.join(missing)}. Use the login of"
            " the owner, or one that has the roles counterfoil_administration and counterfoil_loading."
        )


def existing_store(**flags: object) -> Settings:
    """Return the settings. Raise if an embedded store does not exist, because the command must not create one."""
    settings = settings_from(**flags)
    problem = None if settings.database else store_of_another_user(settings.store)
    if problem:
        raise SettingsError(problem)
    bootstrap.store(settings).require_exists()
    return settings
