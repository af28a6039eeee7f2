"""`counterfoil loads`: list the latest loads, one load, or what waits for the operator; close what waits."""

from collections.abc import Sequence
from contextlib import closing

import click

from counterfoil import bootstrap
from counterfoil.checks.open_items import waiting
from counterfoil.cli.options import existing_store, store_options, utc_option
from counterfoil.cli.store import record
from counterfoil.cli.terminal import echo, print_json, print_list, print_note, print_rows
from counterfoil.cli.totals import print_totals
from counterfoil.domain.audit import Act
from counterfoil.domain.control_totals import TotalsReport
from counterfoil.domain.intake import RejectedLine
from counterfoil.domain.open_items import OpenItem
from counterfoil.machine.clock import SystemClock
from counterfoil.operator_reads import LoadRow, OperatorReads
from counterfoil.settings import Settings
from counterfoil.text import counted
from counterfoil.views import loads as views
from counterfoil.views.columns import json_row

NUMBER = click.IntRange(1)


@click.command()
@click.argument("words", nargs=-1, metavar="[NUMBER | open | resolve NUMBER...]")
@click.option("--limit", type=click.IntRange(1, views.MOST_LOADS), default=20)
@utc_option
@store_options
def command(ctx: click.Context, words: tuple[str, ...], limit: int, store: str | None, as_json: bool) -> None:
    # A wrong number is wrong usage, whether there is a store or not.
    number = _number(ctx, words[0]) if len(words) == 1 and words[0] != "open" else 0
    settings = existing_store(ctx, store)
    reads = bootstrap.operator_reads(settings)
    match words:
        case ():
            _print_loads(reads.loads(limit), as_json)
        case ("open",):
            _print_items(waiting(settings, reads.open_items()), as_json)
        case ("resolve", first, *others):
            _resolve(settings, [_number(ctx, word) for word in (first, *others)], as_json)
        case (_,):
            _print_one(reads, number, as_json)
        case _:
            raise click.UsageError("Use `loads`, `loads NUMBER`, `loads open` or `loads resolve NUMBER`.")


def _number(ctx: click.Context, word: str) -> int:
    try:
        number: int = NUMBER(word, ctx=ctx)
    except click.BadParameter as error:
        error.param_hint = "'NUMBER'"
        raise
    return number


def _print_one(reads: OperatorReads, number: int, as_json: bool) -> None:
    load = views.find(reads, number)
    if load is None:
        raise click.ClickException(
            f"there is no load {number}, or it is too old. Run `counterfoil loads` to list the latest loads."
        )
    _print_load(load, reads.totals(number), reads.rejects(number, views.MOST_REJECTS), as_json)


def _print_items(items: Sequence[OpenItem], as_json: bool) -> None:
    nothing = "nothing is waiting: no rejected lines, and no quarantined or held files."
    print_rows(views.items(SystemClock().now_ms()), items, as_json, nothing=nothing)


def _resolve(settings: Settings, numbers: list[int], as_json: bool) -> None:
    """Close items by hand. The audit entry is written first: without it, nothing is closed."""
    known = {item.number for item in bootstrap.operator_reads(settings).open_items()}
    if missing := [number for number in numbers if number not in known]:
        raise click.ClickException(
            f"item {missing[0]} is not open. Nothing was closed. Run `counterfoil loads open` to list the open items."
        )
    record(settings, Act.ITEMS_RESOLVED, ", ".join(f"item {number}" for number in numbers))
    with closing(bootstrap.ledger(settings)) as ledger:
        closed = [item.number for item in ledger.close_items(numbers, "resolved")]
    if as_json:
        print_json({"resolved": closed})
    else:
        echo(f"Closed {counted(len(closed), 'item')}.")


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
