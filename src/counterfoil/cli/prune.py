"""`counterfoil prune`: drop what is past its time."""

from contextlib import closing

import click

from counterfoil import bootstrap
from counterfoil.cli.options import existing_store, json_option, store_option
from counterfoil.cli.terminal import print_json
from counterfoil.domain.allowance import DAILY_TOTAL_DAYS, REQUEST_RECORD_DAYS


@click.command()
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Drop request records past 90 days, daily totals past 400, and the places of cursors long unused.

    A running service does this by itself every hour.
    """
    settings = existing_store(ctx, store)
    with closing(bootstrap.usage(settings)) as usage:
        records, totals = usage.prune()
    with closing(bootstrap.bookmarks(settings)) as bookmarks:
        places = bookmarks.prune()
    if as_json:
        print_json({"requestRecords": records, "dailyTotals": totals, "bookmarks": places})
        return
    click.echo(
        f"Dropped {records:,} request records older than {REQUEST_RECORD_DAYS} days, "
        f"{totals:,} daily totals older than {DAILY_TOTAL_DAYS} days and {places:,} bookmarks of unused cursors."
    )
