"""Commands that list what the store has recorded: `counterfoil usage`, `requests` and `audit`."""

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from counterfoil import bootstrap, key_issuing
from counterfoil.cli.keys import NO_KEYS, duration, instant, key_id
from counterfoil.cli.options import existing_store, refuse_without_effect, settings_from, store_options, utc_option
from counterfoil.domain.access import DAILY_TOTAL_DAYS, REQUEST_RECORD_DAYS, Key
from counterfoil.domain.problems import RECORDED_CODES
from counterfoil.http.app import ROUTES
from counterfoil.model.calendar import compact, days_until, thai_day
from counterfoil.model.text import counted, csv_text
from counterfoil.operator_reads import OperatorReads
from counterfoil.program import terminal
from counterfoil.program.clock import SystemClock
from counterfoil.program.columns import DATA, ListColumn, csv_lines, json_row
from counterfoil.program.main import Command
from counterfoil.program.times import second, shown_zone
from counterfoil.request_reads import ANY_ERROR, RecordedRequest, RequestFilter
from counterfoil.views.audit import with_labels
from counterfoil.views.keys import labels_of
from counterfoil.views.requests import RequestFollower, columns, find
from counterfoil.views.requests import disclosures as disclosure_columns

LIMIT = click.IntRange(1, 1_000_000)
BAR_WIDTH = 10


def since_time(value: str) -> int:
    """Parse a duration before now such as `7d`, or a time (by default in the shown zone); return ms since 1970."""
    try:
        if value[-1:] in "mhdw":
            return SystemClock().now_ms() - duration(value)
        settings_from()
        return instant(value, shown_zone())
    except click.BadParameter as error:
        raise click.BadParameter(
            f"{value!r} is not a valid duration or time. Use a duration such as 12h or 7d, or a time "
            "such as 2026-11-23T00:00 or 2026-11-23T00:00+07:00."
        ) from error


def _note_more(found: Sequence[object], limit: int, noun: str, option: str = "--limit") -> None:
    if len(found) > limit:
        latest = counted(limit, "is", "are")
        terminal.print_note(f"there are more {noun}; only the latest {latest} shown. Use {option} N to see more.")


@click.command(cls=Command)
@click.argument("keyid", type=key_id, required=False)
@click.option(
    "--since",
    type=since_time,
    metavar="TIME",
    help="Only entries since this time: a duration before now (12h, 7d, 2w) or a time such as 2026-11-23T00:00+07:00.",
)
@click.option("--limit", type=LIMIT, default=50, help="Maximum number of entries.")
@utc_option
@store_options
def audit(keyid: str | None, since: int | None, limit: int, as_json: bool) -> None:
    """Show who changed keys or the store, what changed, and when, newest entry first.

    Sign-ins to the console and views of rejected lines are shown too. With KEYID, only entries about that key are
    shown. A change to a key and its entry are written in the same transaction. Entries cannot be changed or
    deleted, and they do not contain secrets.
    """
    reads = bootstrap.store(existing_store()).reads()
    found, labels = reads.audit(limit + 1, keyid, since or 0), labels_of(reads.keys())
    about, period = f" about key {keyid}" if keyid else "", " since the given time" if since else ""
    nothing = f"there are no entries{about}{period}."
    terminal.print_rows(
        with_labels(labels),
        found[:limit],
        as_json,
        nothing=nothing,
        first=("at", "act", "keyId", "label"),
        narrow=("time", "act", "key ID", "label", "actor"),
        below="changes",
    )
    _note_more(found, limit, "entries")


FOLLOW_SEC = 1.0
ERRORS = [ANY_ERROR, *sorted(RECORDED_CODES)]


@click.command(
    cls=Command,
    groups={"When": ("--since", "--until", "--follow"), "Output": ("--limit", "--csv", "--json", "--utc", "--store")},
)
@click.argument("request_id", metavar="[REQUESTID]", required=False)
@click.option("--key", "key_id", type=key_id, metavar="KEYID", help="Only requests made with this key.")
@click.option("--route", metavar="ROUTE", help="Only requests to this route, such as transactions or members/lookup.")
@click.option("--status", type=click.IntRange(100, 599), help="Only responses with this HTTP status.")
@click.option(
    "--error",
    type=click.Choice(ERRORS),
    metavar="CODE",
    help="Only responses with this error code, or all errors with `any`.",
)
@click.option(
    "--slower-than",
    "slower_than_us",
    type=click.IntRange(0),
    metavar="MS",
    callback=lambda _ctx, _option, ms: None if ms is None else ms * 1_000,
    help="Only requests that took longer than this many milliseconds.",
)
@click.option("--personal-data", is_flag=True, help="Only disclosures of personal data.")
@click.option(
    "--since",
    type=since_time,
    metavar="TIME",
    help="Only requests since this time: a duration before now (30m, 12h, 7d, 2w) or a time such as "
    "2026-11-23T00:00+07:00.",
)
@click.option(
    "--until", type=since_time, metavar="TIME", help="Only requests before this time, in the same format as --since."
)
@click.option("--limit", type=LIMIT, default=50, help="Maximum number of requests.")
@click.option("--follow", is_flag=True, help="Show new requests as they are recorded, until interrupted.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@utc_option
@store_options
@click.pass_context
def requests(ctx: click.Context, /, limit: int, follow: bool, as_csv: bool, as_json: bool, **conditions: Any) -> None:
    """Find recorded requests that match the options, newest first, or the request whose X-Request-Id is REQUESTID.

    Records are kept for 90 days. They contain no returned data. Of the parameters, they contain the names, the shop
    (`unknown` if it is not in the store), and the providerId of a disclosure. One request is shown with everything
    that is known about it. With --follow and --json, each request is one line of JSON.
    """
    wanted = RequestFilter(**conditions)
    if as_csv and as_json:
        raise click.UsageError("Choose either --csv or --json.")
    if wanted.route is not None:
        _require_route(wanted.route)
    has_limit = ctx.get_parameter_source("limit") == ParameterSource.COMMANDLINE
    if follow and (wanted.request_id is not None or wanted.until is not None or has_limit):
        raise click.UsageError("--follow cannot be combined with a request ID, --until or --limit.")
    reads = bootstrap.store(existing_store()).reads()
    if follow:
        _follow(reads, wanted, as_json=as_json, as_csv=as_csv)
    found, _ = find(reads, wanted, limit + 1)
    if as_csv:
        sys.stdout.write(csv_text([_NAMES, *_csv(found[:limit])], "\n"))
    elif found and wanted.request_id is not None and not as_json:
        _print_one(found[0], labels_of(reads.keys()))
    else:
        nothing = (
            f"no recorded request matches. Records are kept for {REQUEST_RECORD_DAYS} days. A request "
            "without a valid key, beyond the rate limit, to another path or with another method leaves none: "
            "`counterfoil usage` and the log count those."
        )
        labels = labels_of(reads.keys())
        terminal.print_rows(
            columns(labels), found[:limit], as_json, nothing=nothing, first=_FIRST, narrow=_NARROW, below="error"
        )
    _note_more(found, limit, "requests")


def _require_route(route: str) -> None:
    if route not in ROUTES:
        raise click.UsageError(f"{route!r} is not a route. The routes are {', '.join(ROUTES)}.")


def _follow(reads: OperatorReads, wanted: RequestFilter, *, as_json: bool, as_csv: bool) -> NoReturn:
    follower = RequestFollower(reads, wanted, SystemClock().now_ms() if wanted.since is None else wanted.since)
    if as_csv:
        sys.stdout.write(csv_text([_NAMES], "\n"))
    while True:
        new = follower.new_requests()
        labels = labels_of(reads.keys()) if new else {}
        for request in new:
            if as_json:
                terminal.print_json(json_row(_COLUMNS, request))
            elif as_csv:
                sys.stdout.write(csv_text(_csv([request]), "\n"))
            else:
                _print_line(request, labels)
        sys.stdout.flush()
        time.sleep(FOLLOW_SEC)


_COLUMNS = columns()
_NAMES = [column.name for column in _COLUMNS if "json" not in column.without]
# The order in a terminal.
_FIRST = ("at", "status", "took", "route", "keyId", "label", "requestId", "error")
_NARROW = ("time", "status", "route", "key ID", "request ID")


def _csv(found: Sequence[RecordedRequest]) -> list[list[object]]:
    """Return the rows of `--csv`, which has the names and values of `--json`."""
    return [list(json_row(_COLUMNS, request).values()) for request in found]


def _print_line(request: RecordedRequest, labels: Mapping[str, str]) -> None:
    colour = "green"
    if request.status >= 400:
        colour = "red" if request.status >= 500 else "yellow"
    took = f"{request.took_us / 1000:>9,.1f} ms"
    error = "" if request.error is None else f"  {request.error}"
    what = f"{terminal.style(str(request.status), fg=colour)}  {took}  {request.route:<21}"
    key = f"{terminal.style(request.key_id, bold=True)}  {labels.get(request.key_id) or '-'}"
    terminal.print_wrapped(
        f"{terminal.style(second(request.at), dim=True)}  {what}  {key}  {request.request_id}{error}", 4
    )


def _print_one(request: RecordedRequest, labels: Mapping[str, str]) -> None:
    headings, values = csv_lines(columns(labels)[1:], [request])
    fields = [("time", second(request.at))]
    for heading, value in zip(headings, values, strict=True):
        text = str(value)
        if text:
            fields.append((str(heading).replace("_", " "), text))
    terminal.print_fields(fields)


@click.command(cls=Command)
@click.argument("keyid", type=key_id, required=False)
@click.option("--days", type=click.IntRange(1, DAILY_TOTAL_DAYS), default=7, help="Number of days to show.")
@click.option(
    "--disclosures", is_flag=True, help="Instead of request counts, list the latest disclosures of tel or email."
)
@click.option("--latest", type=LIMIT, default=50, help="With --disclosures: maximum number to show.")
@utc_option
@store_options
def usage(keyid: str | None, days: int, disclosures: bool, latest: int, as_json: bool) -> None:
    """Show the number of requests per day (Thailand time) for KEYID, or for each key.

    With --disclosures, a member counts once for each response that contained the member.
    """
    if disclosures:
        refuse_without_effect("disclosures are listed by --latest.", "--days")
    else:
        refuse_without_effect("it limits the list of --disclosures.", "--latest")
    reads = bootstrap.store(existing_store()).reads()
    keys = reads.keys()
    if keyid is not None:
        keys = [key_issuing.key_in(keys, keyid)]
    if disclosures:
        found = reads.requests(RequestFilter(personal_data=True, key_id=keyid), latest + 1).requests
        nothing = "no disclosures found. Disclosures are kept for 90 days."
        terminal.print_rows(disclosure_columns(labels_of(keys)), found[:latest], as_json, nothing=nothing)
        _note_more(found, latest, "disclosures", "--latest")
        return
    span = days_until(thai_day(SystemClock().now_ms()), days)
    counts = {(of_day.key_id, of_day.day): of_day.requests for of_day in reads.days(span[0], span[-1])}

    def days_of(key: Key) -> list[tuple[date, int]]:
        return [(day, counts.get((key.key_id, day), 0)) for day in span]

    used = [(key, days_of(key)) for key in keys]
    if as_json:
        terminal.print_json([_view(key, of_key) for key, of_key in used])
    elif not used:
        terminal.print_note(NO_KEYS)
    else:
        _print_usage(used)


def _print_usage(used: Sequence[tuple[Key, Sequence[tuple[date, int]]]]) -> None:
    """Print the days of each key, and then the keys without requests. A key alone is always shown."""
    rows: list[tuple[Key, date, int]] = []
    idle: list[str] = []
    for key, days in used:
        if len(used) > 1 and not any(count for _, count in days):
            idle.append(f"{key.label} {key.key_id}".strip())
            continue
        rows.extend((key, day, count) for day, count in days)
    if rows:
        terminal.print_list(_days(max(count for *_, count in rows)), rows)
    if idle:
        terminal.print_wrapped(f"No requests: {', '.join(idle)}", dim=True)


def _view(key: Key, days: Sequence[tuple[date, int]]) -> dict[str, object]:
    return {
        "keyId": key.key_id,
        "label": key.label,
        "perMin": key.per_min,
        "perDay": key.per_day,
        "revoked": key.is_revoked(SystemClock().now_ms()),
        "days": [{"date": compact(day), "count": count} for day, count in days],
        "total": sum(count for _, count in days),
    }


def _days(largest: int) -> Sequence[ListColumn[tuple[Key, date, int]]]:
    """Return the columns of a list of keys, days and requests. On a terminal, a full bar is the largest day."""

    def bar(row: tuple[Key, date, int]) -> str:
        return "█" * max(round(row[2] / largest * BAR_WIDTH), row[2] > 0) if largest else ""

    return (
        ListColumn("keyId", lambda row: row[0].key_id, kind="code", terminal="key ID", without=DATA),
        ListColumn("day", lambda row: row[1].isoformat(), terminal="day", without=DATA),
        ListColumn("count", lambda row: row[2], kind="number", terminal="count", without=DATA),
        ListColumn("share", terminal="of largest" if terminal.is_terminal(sys.stdout) else "", text=bar, without=DATA),
        ListColumn("quota", lambda row: row[0].per_day, kind="number", terminal="quota", without=DATA),
        ListColumn(
            "used", kind="number", terminal="used", text=lambda row: f"{row[2] / row[0].per_day:.1%}", without=DATA
        ),
        ListColumn("label", lambda row: row[0].label, terminal="label", without=DATA),
    )
