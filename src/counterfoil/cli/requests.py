"""`counterfoil requests`: find recorded requests, or follow new ones."""

import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from counterfoil import bootstrap
from counterfoil.cli.audit import since_time
from counterfoil.cli.keys import key_id
from counterfoil.cli.options import existing_store, store_options
from counterfoil.cli.terminal import echo, print_fields, print_json, print_note, print_rows, style
from counterfoil.domain.access import REQUEST_RECORD_DAYS
from counterfoil.domain.problems import TABLE
from counterfoil.machine.clock import SystemClock
from counterfoil.operator_reads import OperatorReads, RecordedRequest, RequestFilter
from counterfoil.text import counted, csv_text
from counterfoil.views.columns import arranged, json_row, plain_text
from counterfoil.views.requests import RequestFollower, columns, find

FOLLOW_SEC = 1.0
ERRORS = sorted(problem.code for problem in TABLE)


@click.command()
@click.argument("request_id", metavar="[REQUESTID]", required=False)
@click.option("--key", "key_id", type=key_id, metavar="KEYID")
@click.option("--route", metavar="ROUTE")
@click.option("--status", type=click.IntRange(100, 599))
@click.option("--error", type=click.Choice(ERRORS), metavar="CODE")
@click.option(
    "--slower-than",
    "slower_than_us",
    type=click.IntRange(0),
    metavar="MS",
    callback=lambda _ctx, _option, ms: None if ms is None else ms * 1_000,
)
@click.option("--personal-data", is_flag=True)
@click.option("--since", type=since_time, metavar="TIME")
@click.option("--until", type=since_time, metavar="TIME")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50)
@click.option("--follow", is_flag=True)
@click.option("--csv", "as_csv", is_flag=True)
@store_options
def command(
    ctx: click.Context, limit: int, follow: bool, as_csv: bool, store: str | None, as_json: bool, **conditions: Any
) -> None:
    wanted = RequestFilter(**conditions)
    if as_csv and as_json:
        raise click.UsageError("Choose either --csv or --json.", ctx)
    if follow and wanted.request_id is not None:
        raise click.UsageError("--follow shows new requests, so it cannot be combined with a request ID.", ctx)
    if follow and wanted.until is not None:
        raise click.UsageError("--follow runs until interrupted, so it cannot be combined with --until.", ctx)
    if follow and ctx.get_parameter_source("limit") == ParameterSource.COMMANDLINE:
        raise click.UsageError("--follow runs until interrupted, so it cannot be combined with --limit.", ctx)
    reads = bootstrap.operator_reads(existing_store(ctx, store))
    if follow:
        _follow(reads, wanted, as_json=as_json, as_csv=as_csv)
    found, _ = find(reads, wanted, limit + 1)
    _print(found[:limit], as_json=as_json, as_csv=as_csv, is_single=wanted.request_id is not None)
    if len(found) > limit:
        print_note(
            f"there are more requests; only the latest {counted(limit, 'is', 'are')} shown. Use --limit N to see more."
        )


def _follow(reads: OperatorReads, wanted: RequestFilter, *, as_json: bool, as_csv: bool) -> NoReturn:
    now = SystemClock().now_ms()
    since = now if wanted.since is None else wanted.since
    follower = RequestFollower(reads, wanted, since)
    if as_csv:
        sys.stdout.write(csv_text([_NAMES], "\n"))
    while True:
        for request in follower.new_requests():
            if as_json:
                print_json(json_row(_COLUMNS, request))
            elif as_csv:
                sys.stdout.write(csv_text(_csv([request]), "\n"))
            else:
                echo(_line(request))
        sys.stdout.flush()
        time.sleep(FOLLOW_SEC)


_COLUMNS = columns()
_NAMES = [column.json for column in _COLUMNS if column.json]
# The order in a terminal.
_FIRST = ("at", "status", "took", "route", "keyId", "requestId", "error")


def _csv(found: Sequence[RecordedRequest]) -> list[list[object]]:
    """Return the rows of `--csv`, which has the names and values of `--json`."""
    return [list(json_row(_COLUMNS, request).values()) for request in found]


def _line(request: RecordedRequest) -> str:
    at, took, *_ = (plain_text(column, request) for column in arranged(_COLUMNS, ("at", "took")))
    colour = "red" if request.status >= 500 else "yellow" if request.status >= 400 else "green"
    about = f"{request.route:<21}  {style(request.key_id, bold=True)}  {request.request_id}"
    error = "" if request.error is None else f"  {request.error}"
    return f"{style(at, dim=True)}  {style(str(request.status), fg=colour)}  {took:>9} ms  {about}{error}"


def _print(found: Sequence[RecordedRequest], *, as_json: bool, as_csv: bool, is_single: bool) -> None:
    if as_csv:
        sys.stdout.write(csv_text([_NAMES, *_csv(found)], "\n"))
    elif len(found) == 1 and is_single and not as_json:
        print_fields([(name, str(value)) for name, value in json_row(_COLUMNS, found[0]).items() if value is not None])
    else:
        nothing = f"no recorded request matches. Records are kept for {REQUEST_RECORD_DAYS} days."
        print_rows(_COLUMNS, found, as_json, nothing=nothing, first=_FIRST)
