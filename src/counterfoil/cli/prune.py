"""`counterfoil prune`: delete expired records."""

from contextlib import closing

import click

from counterfoil import bootstrap
from counterfoil.cli.options import existing_store, json_option, store_option
from counterfoil.cli.recording import record
from counterfoil.cli.terminal import print_json
from counterfoil.domain.allowance import DAILY_TOTAL_DAYS, REQUEST_RECORD_DAYS
from counterfoil.domain.audit import Act


@click.command()
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Delete request records older than 90 days and daily totals older than 400 days; expire cursors unused for 7 days.

    A running service does this automatically every hour.
    """
    settings = existing_store(ctx, store)
    with closing(bootstrap.usage(settings)) as usage:
        records, totals = usage.prune()
    with closing(bootstrap.cursors(settings)) as cursors:
        expired = cursors.prune()
    counts = f"{records:,} request records, {totals:,} daily totals, {expired:,} expired cursors"
    record(settings, Act.RECORDS_PRUNED, counts)
    if as_json:
        # "bookmarks" is the former name of "cursors"; scripts may depend on it.
        print_json({"requestRecords": records, "dailyTotals": totals, "cursors": expired, "bookmarks": expired})
        return
    click.echo(
        f"Deleted {records:,} request records older than {REQUEST_RECORD_DAYS} days and "
        f"{totals:,} daily totals older than {DAILY_TOTAL_DAYS} days. Expired {expired:,} unused cursors."
    )
