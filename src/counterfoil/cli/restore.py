"""`counterfoil restore`: restore a backup and list the remaining steps."""

import sys
from pathlib import Path

import click

from counterfoil import bootstrap
from counterfoil.cli.options import json_option, require_embedded, settings_from, store_option
from counterfoil.cli.terminal import confirm, echo, is_terminal, print_fields, print_json, print_note
from counterfoil.domain.calendar import iso_utc
from counterfoil.domain.messages import duration
from counterfoil.machine.operator import operator
from counterfoil.settings import display_value


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--replace", is_flag=True, help="Replace the existing store. Its files are kept in a subfolder.")
@click.option("--yes", is_flag=True, help="Skip the --replace confirmation prompt.")
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, folder: Path, replace: bool, yes: bool, store: str | None, as_json: bool) -> None:
    """Restore the backup in DIR, which was created with `counterfoil backup`.

    Stop the service and all loads first. The backup is verified before anything
    is changed. The horizon is raised to the current time, so that marks for
    updatedSince stay valid. All marks of the change feed become invalid: a
    client that sends one gets mark_expired and must read everything again. All
    cursors become invalid too: a client that sends one gets bad_cursor and must
    read its list again from the beginning.

    Exit status: 0 if the backup was restored, 1 if the restore failed.
    """
    settings = settings_from(ctx, store=store)
    require_embedded(settings)
    if replace and not yes:
        if not is_terminal(sys.stdin):
            raise click.UsageError("--replace needs --yes, because standard input is not a terminal.", ctx)
        confirm(f"Replace the store {display_value(settings, 'store')}?")
    restored = bootstrap.restore(settings, folder, operator(), replace=replace)
    manifest = restored.manifest
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "backupTakenAt": iso_utc(manifest.created_at),
                "horizon": iso_utc(restored.horizon),
                "clockBehindMs": restored.clock_behind_ms,
                "previousFiles": None if restored.kept_in is None else str(restored.kept_in),
                "unreadable": restored.replaced.unreadable,
            }
        )
    else:
        print_fields(
            [
                ("restored", f"{display_value(settings, 'store')} from {folder}"),
                ("backup taken", iso_utc(manifest.created_at)),
                ("bills", f"{manifest.rows('books', 'bills'):,}"),
                ("members", f"{manifest.rows('books', 'members'):,}"),
                ("keys", f"{manifest.rows('keys', 'keys'):,}"),
                ("horizon", f"{iso_utc(restored.horizon)} (raised, so that marks for updatedSince stay valid)"),
                ("feed marks", "all invalid: clients get mark_expired and must read everything again"),
                ("cursors", "all invalid: clients get bad_cursor and must read the list again from the beginning"),
                *([("previous files", str(restored.kept_in))] if restored.kept_in else []),
            ]
        )
        echo()
        echo("Before you start the service, do the following:")
        carried = restored.kept_in is not None and not {"keys", "usage"} & set(restored.replaced.unreadable)
        if not carried:
            echo(f"- Keys that were revoked after {iso_utc(manifest.created_at)} are active again: revoke them.")
        echo(f"- Keys that were issued after {iso_utc(manifest.created_at)} are lost: issue new ones.")
        echo("Then load the deliveries again, beginning with those from shortly before the backup.")
    if restored.clock_behind_ms:
        print_note(
            f"the clock is {duration(restored.clock_behind_ms)} behind the horizon. Check the clock against NTP "
            "before you start the service."
        )
