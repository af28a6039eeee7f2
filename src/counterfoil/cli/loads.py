"""`counterfoil loads`: list the latest loads, or the control totals and the rejected lines of one load."""

from collections.abc import Sequence

import click

from counterfoil import bootstrap
from counterfoil.cli.options import existing_store, store_options
from counterfoil.cli.terminal import print_json, print_list, print_note, print_rows
from counterfoil.cli.totals import print_totals
from counterfoil.domain.control_totals import TotalsReport
from counterfoil.domain.intake import RejectedLine
from counterfoil.machine.clock import SystemClock
from counterfoil.operator_reads import LoadRow
from counterfoil.text import counted
from counterfoil.views import loads as views
from counterfoil.views.columns import json_row


@click.command()
@click.argument("number", type=click.IntRange(1), required=False)
@click.option("--limit", type=click.IntRange(1, views.MOST_LOADS), default=20)
@store_options
def command(ctx: click.Context, number: int | None, limit: int, store: str | None, as_json: bool) -> None:
    reads = bootstrap.operator_reads(existing_store(ctx, store))
    if number is None:
        _print_loads(reads.loads(limit), as_json)
    else:
        load = views.find(reads, number)
        if load is None:
            raise click.ClickException(
                f"there is no load {number}, or it is too old. Run `counterfoil loads` to list the latest loads."
            )
        _print_load(load, reads.totals(number), reads.rejects(number, views.MOST_REJECTS), as_json)


def _print_loads(loads: Sequence[LoadRow], as_json: bool) -> None:
    columns = views.columns(SystemClock().now_ms())
    nothing = "nothing has been loaded yet. Run `counterfoil load` to load source records."
    first = ("number", "startedAt", "state", "lines", "changed", "rejected")
    print_rows(columns, loads, as_json, nothing=nothing, first=first)


def _print_load(load: LoadRow, totals: TotalsReport | None, rejects: Sequence[RejectedLine], as_json: bool) -> None:
    columns = views.rejects({})
    if as_json:
        lines = [json_row(columns, reject) for reject in rejects]
        row = json_row(views.columns(SystemClock().now_ms()), load)
        print_json({**row, "totals": totals, "rejects": lines})
        return
    if totals:
        print_totals(totals)
        if load.finished_at is None:
            print_note(
                f"load {load.number} was stopped. These are the totals of what it read; "
                f"it wrote {counted(load.changed, 'changed record')}."
            )
    else:
        print_note(f"the store has no totals of load {load.number}, because it has not ended, or ended with an error.")
    if not rejects:
        print_note(f"the store has no rejected lines from load {load.number}.")
        return
    print_list(columns, rejects, ("line", "reason", "fields"))
    if load.rejected > len(rejects):
        print_note(f"the first {len(rejects):,} of {load.rejected:,} rejected lines are shown.")
