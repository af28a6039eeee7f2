"""`counterfoil pull`: keep a copy of what a key can read."""

import time
from contextlib import closing
from datetime import UTC, date, datetime

import click
from msgspec import Struct, structs

from counterfoil.cli.following import following
from counterfoil.cli.main import FAILED, INTERRUPTED
from counterfoil.cli.options import json_option
from counterfoil.cli.remote import Remote, duration, remote_options, since_option
from counterfoil.cli.terminal import fields, note, print_json
from counterfoil.client import QuotaSpent, Refusal, Unreachable
from counterfoil.client.errors import CopyMismatch, CounterfoilError
from counterfoil.client.pages import Tally
from counterfoil.client.pull import Options, Puller
from counterfoil.client.sinks import SinkError

QUOTA_SPENT, UNREACHABLE = 4, 5
ONE_DAY_SEC = 86_400.0
# After midnight the quota may still be spent for a moment where the two clocks differ.
ASK_AGAIN_SEC = 900.0


class Report(Struct):
    """A run as it is told: finished, or as far as it came."""

    target: str
    tally: Tally
    seconds: float = 0.0
    status: str = "ok"
    exit_code: int = 0
    error: str | None = None
    resumes_at: datetime | None = None


@click.command()
@remote_options
@since_option("How far back the first reading of a shop goes. [default: until a year in a row is empty]")
@click.option(
    "--members-every",
    type=duration,
    metavar="TIME",
    help="Read all members again after this long. [default: in every run; with --every once a day]",
)
@click.option("--every", type=duration, metavar="TIME", help="Keep running, and pull this often: 30s, 5m, 1h, 1d.")
@click.option("--limit", type=click.IntRange(1, 200), default=200, show_default=True, help="Rows a page.")
@click.option("--adopt", is_flag=True, help="Go on with a copy that was made from another address or with another key.")
@json_option
def command(
    *,
    remote: Remote,
    since: date | None,
    members_every: float | None,
    every: float | None,
    limit: int,
    adopt: bool,
    as_json: bool,
) -> None:
    """Keep a copy of all shops, bills and members that the key can read.

    Stop it at any moment and run it again: it goes on where it was. Exit
    status: 0 the copy is up to date, 4 the day's quota is spent (run it again
    tomorrow), 5 the service cannot be reached, 130 interrupted, 1 failed.
    """
    passes = members_every if members_every is not None else ONE_DAY_SEC if every else 0.0
    options = Options(since=since, members_every_sec=passes, limit=limit, adopt=adopt)
    report = pull_once(remote, options)
    _tell(report, as_json)
    while every is not None and _may_go_on(report):
        _wait(report, every)
        again = pull_once(remote, structs.replace(options, adopt=False))
        again.resumes_at = _doubted(report, again)
        report = again
        _tell(report, as_json)
    if report.exit_code:
        raise click.exceptions.Exit(report.exit_code)


def pull_once(remote: Remote, options: Options) -> Report:
    """One run, with whatever ends it. The target is open only while it runs, so that others can read it between."""
    began = time.perf_counter()
    report = Report(remote.target.shown, Tally())
    try:
        with closing(remote.target.open()) as sink, remote.client() as client, following() as show:
            puller = Puller(client, sink, options, show)
            report.tally = puller.tally
            with closing(puller):
                puller.run()
    except QuotaSpent as spent:
        _end(report, "quota", QUOTA_SPENT, spent)
        report.resumes_at = spent.resumes_at
    except Unreachable as error:
        _end(report, "unreachable", UNREACHABLE, error)
    except (CounterfoilError, SinkError, CopyMismatch) as error:
        _end(report, _kind(error), FAILED, error)
    except KeyboardInterrupt:
        _end(report, "interrupted", INTERRUPTED, None)
    report.seconds = time.perf_counter() - began
    return report


def _end(report: Report, status: str, exit_code: int, error: Exception | None) -> None:
    report.status, report.exit_code = status, exit_code
    report.error = str(error) if error else None


def _kind(error: Exception) -> str:
    return "target" if isinstance(error, SinkError) else error.code if isinstance(error, Refusal) else "failed"


# --- again and again ---------------------------------------------------------------


def _may_go_on(report: Report) -> bool:
    """What passes by itself is tried again at the next turn; a wrong key or copy is not."""
    return report.status in ("ok", "quota", "unreachable", "target")


def _wait(report: Report, every_sec: float) -> None:
    seconds = every_sec - report.seconds
    if report.resumes_at:
        seconds = (report.resumes_at - datetime.now(UTC)).total_seconds() + 1
    try:
        time.sleep(max(0.0, seconds))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


def _doubted(before: Report, after: Report) -> datetime | None:
    """When to try again. Refused twice in a row means that the service's day has not ended yet: ask again soon."""
    if before.status == after.status == "quota":
        return datetime.fromtimestamp(time.time() + ASK_AGAIN_SEC, UTC)
    return after.resumes_at


# --- the summary -------------------------------------------------------------------


def _tell(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(_view(report))
    elif report.tally.requests:
        fields(_summary(report))
    if report.error:
        click.echo(f"counterfoil: {' '.join(report.error.split())}", err=True)
    if report.status in ("interrupted", "quota", "unreachable"):
        note("what was written is whole; the same command goes on from here.")


def _summary(report: Report) -> list[tuple[str, str]]:
    tally = report.tally
    rate = tally.bills_read / report.seconds if report.seconds else 0
    left = "" if tally.remaining is None else f", {tally.remaining:,} left today"
    pairs = [
        ("copy", report.target),
        ("shops", f"{tally.shops_done:,} of {tally.shops:,} read"),
        ("bills", f"{tally.bills_read:,} read, {tally.bills_written:,} written ({rate:,.0f}/s)"),
        ("members", f"{tally.members_read:,} read, {tally.members_written:,} written, {tally.members_vanished:,} gone"),
        ("requests", f"{tally.requests:,}{left}"),
        ("time", f"{report.seconds:.1f} s"),
    ]
    if tally.shops_refused:
        pairs.append(("out of scope", f"{tally.shops_refused:,} shops or bases that went elsewhere meanwhile"))
    return pairs


def _view(report: Report) -> dict[str, object]:
    tally = report.tally
    return {
        "status": report.status,
        "target": report.target,
        "shops": tally.shops,
        "shopsRead": tally.shops_done,
        "billsRead": tally.bills_read,
        "billsWritten": tally.bills_written,
        "membersRead": tally.members_read,
        "membersWritten": tally.members_written,
        "membersGone": tally.members_vanished,
        "requests": tally.requests,
        "requestsLeft": tally.remaining,
        "seconds": round(report.seconds, 3),
        "waitingSeconds": round(tally.waiting_sec, 3),
        "writingSeconds": round(tally.writing_sec, 3),
        "resumesAt": report.resumes_at.isoformat() if report.resumes_at else None,
        "error": report.error,
    }
