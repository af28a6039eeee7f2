"""`counterfoil prune`: delete expired request records, daily totals, cursors and removals."""

from contextlib import closing

import click

from counterfoil import bootstrap
from counterfoil.cli.options import existing_store, json_option, store_option
from counterfoil.cli.recording import record
from counterfoil.cli.terminal import echo, print_json, print_note
from counterfoil.domain.access import DAILY_TOTAL_DAYS, REQUEST_RECORD_DAYS
from counterfoil.domain.audit import Act
from counterfoil.domain.calendar import DAY_MS
from counterfoil.domain.change_feed import REMOVALS_KEPT_MS
from counterfoil.settings import Settings
from counterfoil.text import counted


@click.command()
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Delete old request records, daily totals and cursors, and old removals from the change feed.

    Request records are kept for 90 days, daily totals and removals for 400
    days, and unused cursors for 7 days. A running service does this
    automatically every hour.
    """
    settings = existing_store(ctx, store)
    with closing(bootstrap.usage(settings)) as usage:
        records, totals = usage.prune()
    with closing(bootstrap.cursors(settings)) as cursors:
        expired = cursors.prune()
    removals = _prune_removals(settings)
    deleted_records, deleted_totals = counted(records, "request record"), counted(totals, "daily total")
    deleted_removals = counted(removals, "removal")
    counts = f"{deleted_records}, {deleted_totals}, {counted(expired, 'expired cursor')}, {deleted_removals}"
    record(settings, Act.RECORDS_PRUNED, counts)
    if as_json:
        print_json({"requestRecords": records, "dailyTotals": totals, "cursors": expired, "removals": removals})
        return
    echo(
        f"Deleted {deleted_records} older than {REQUEST_RECORD_DAYS} days and "
        f"{deleted_totals} older than {DAILY_TOTAL_DAYS} days. Expired {counted(expired, 'unused cursor')}. "
        f"Deleted {deleted_removals} older than {REMOVALS_KEPT_MS // DAY_MS} days from the change feed."
    )


def _prune_removals(settings: Settings) -> int:
    """Delete old removals from the change feed; return the count. If the login cannot delete them, print a note."""
    permissions = bootstrap.operator_reads(settings).permissions()
    if permissions and not (permissions.serves or permissions.loads):
        print_note(
            f"the login {permissions.login} cannot delete removals from the change feed, so none were deleted. "
            "The service deletes them."
        )
        return 0
    with closing(bootstrap.ledger(settings)) as ledger:
        return ledger.prune_removals()
