"""`counterfoil requests`: find recorded requests, or follow new ones."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from counterfoil import bootstrap
from counterfoil.cli.audit import since_time
from counterfoil.cli.keys import key_id
from counterfoil.cli.options import existing_store, store_options, utc_option
from counterfoil.cli.terminal import print_fields, print_json, print_note, print_rows, print_wrapped, style, unbroken
from counterfoil.domain.access import REQUEST_RECORD_DAYS
from counterfoil.domain.problems import TABLE
from counterfoil.machine.clock import SystemClock
from counterfoil.operator_reads import OperatorReads, RecordedRequest, RequestFilter
from counterfoil.text import counted, csv_text
from counterfoil.views.columns import json_row
from counterfoil.views.keys import labels_of
from counterfoil.views.requests import RequestFollower, columns, find
from counterfoil.views.times import second

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
@utc_option
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
    if as_csv:
        sys.stdout.write(csv_text([_NAMES, *_csv(found[:limit])], "\n"))
    else:
        _print(found[:limit], labels_of(reads.keys()), as_json=as_json, is_single=wanted.request_id is not None)
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
        new = follower.new_requests()
        labels = labels_of(reads.keys()) if new else {}
        for request in new:
            if as_json:
                print_json(json_row(_COLUMNS, request))
            elif as_csv:
                sys.stdout.write(csv_text(_csv([request]), "\n"))
            else:
                _print_line(request, labels)
        sys.stdout.flush()
        time.sleep(FOLLOW_SEC)


_COLUMNS = columns()
_NAMES = [column.json for column in _COLUMNS if column.json]
# The order in a terminal.
_FIRST = ("at", "status", "took", "route", "keyId", "label", "requestId", "error")


def _csv(found: Sequence[RecordedRequest]) -> list[list[object]]:
    """Return the rows of `--csv`, which has the names and values of `--json`."""
    return [list(json_row(_COLUMNS, request).values()) for request in found]


def _print_line(request: RecordedRequest, labels: Mapping[str, str]) -> None:
    colour = "red" if request.status >= 500 else "yellow" if request.status >= 400 else "green"
    took = f"{request.took_us / 1000:>9,.1f} ms"
    error = "" if request.error is None else f"  {request.error}"
    what = f"{style(str(request.status), fg=colour)}  {took}  {request.route:<21}"
    key = unbroken(f"{style(request.key_id, bold=True)}  {labels.get(request.key_id) or '-'}")
    print_wrapped(f"{style(second(request.at), dim=True)}  {what}  {key}  {request.request_id}{error}", 4)


def _print(found: Sequence[RecordedRequest], labels: Mapping[str, str], *, as_json: bool, is_single: bool) -> None:
    if len(found) == 1 and is_single and not as_json:
        request = found[0]
        shown = json_row(_COLUMNS, request) | {"at": second(request.at)}
        pairs = [(name, str(value)) for name, value in shown.items() if value is not None]
        position = pairs.index(("keyId", request.key_id)) + 1
        print_fields([*pairs[:position], ("label", labels.get(request.key_id) or "-"), *pairs[position:]])
        return
    nothing = f"no recorded request matches. Records are kept for {REQUEST_RECORD_DAYS} days."
    print_rows(columns(labels), found, as_json, nothing=nothing, first=_FIRST)
