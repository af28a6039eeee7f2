"""`counterfoil loads`: list the latest loads, or the rejected lines of one load."""

from collections.abc import Sequence

import click

from counterfoil import bootstrap
from counterfoil.cli.options import existing_store, json_option, store_option
from counterfoil.cli.terminal import DisplayColumn, print_json, print_note, print_table
from counterfoil.domain.calendar import THAI_TIME, from_ms, iso_utc
from counterfoil.domain.intake import RejectedLine
from counterfoil.machine.clock import SystemClock
from counterfoil.operator_reads import LoadRow, OperatorReads, load_state

MOST_LOADS, MOST_REJECTS = 100, 1_000


@click.command()
@click.argument("number", type=click.IntRange(1), required=False)
@click.option(
    "--limit", type=click.IntRange(1, MOST_LOADS), default=20, show_default=True, help="Maximum number of loads."
)
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, number: int | None, limit: int, store: str | None, as_json: bool) -> None:
    """List the latest loads, newest first, or the rejected lines of load NUMBER.

    The store remembers the latest 100 loads, and up to 1,000 rejected lines of each.
    Rejected lines are listed without their text, which may contain personal
    data; the rejects file has the text.

    Exit status: 0 if the loads or the rejected lines were listed, 1 if the store
    cannot be read or there is no such load.
    """
    reads = bootstrap.operator_reads(existing_store(ctx, store))
    if number is None:
        _print_loads(reads.loads(limit), as_json)
    else:
        _print_rejects(_find(reads, number), reads.rejects(number, MOST_REJECTS), as_json)


def _find(reads: OperatorReads, number: int) -> LoadRow:
    found = next((one for one in reads.loads(MOST_LOADS) if one.number == number), None)
    if found is None:
        raise click.ClickException(
            f"there is no load {number}, or it is too old. Run `counterfoil loads` to list the latest loads."
        )
    return found


def _view(one: LoadRow) -> dict[str, object]:
    return {
        "number": one.number,
        "source": one.source,
        "state": load_state(one, SystemClock().now_ms()),
        "startedAt": iso_utc(one.started_at),
        "finishedAt": None if one.finished_at is None else iso_utc(one.finished_at),
        "lines": one.lines,
        "changed": one.changed,
        "rejected": one.rejected,
        "reasons": one.reasons,
        "rejectsFile": one.rejects_file,
    }


def _print_loads(loads: Sequence[LoadRow], as_json: bool) -> None:
    if as_json:
        print_json([_view(one) for one in loads])
        return
    if not loads:
        print_note("nothing has been loaded yet. Run `counterfoil load` to load source records.")
        return
    columns = (
        DisplayColumn("load", align_right=True),
        DisplayColumn("started (Thailand time)", no_wrap=True),
        DisplayColumn("state"),
        DisplayColumn("lines", align_right=True),
        DisplayColumn("changed", align_right=True),
        DisplayColumn("rejected", align_right=True),
        DisplayColumn("source"),
    )
    now = SystemClock().now_ms()
    rows = [
        (
            one.number,
            f"{from_ms(one.started_at, THAI_TIME):%Y-%m-%d %H:%M:%S}",
            load_state(one, now),
            f"{one.lines:,}",
            f"{one.changed:,}",
            f"{one.rejected:,}",
            one.source or "-",
        )
        for one in loads
    ]
    print_table(columns, rows)


def _print_rejects(load: LoadRow, rejects: Sequence[RejectedLine], as_json: bool) -> None:
    if as_json:
        lines = [
            {"source": one.source, "line": one.line, "reason": one.reason, "fields": list(one.fields)}
            for one in rejects
        ]
        print_json({**_view(load), "rejects": lines})
        return
    if not rejects:
        print_note(f"the store has no rejected lines from load {load.number}.")
        return
    columns = (
        DisplayColumn("line", align_right=True),
        DisplayColumn("reason"),
        DisplayColumn("fields"),
        DisplayColumn("source"),
    )
    rows = [(f"{one.line:,}", one.reason, " ".join(one.fields) or "-", one.source or "-") for one in rejects]
    print_table(columns, rows)
    if load.rejected > len(rejects):
        print_note(f"the first {len(rejects):,} of {load.rejected:,} rejected lines are shown.")
