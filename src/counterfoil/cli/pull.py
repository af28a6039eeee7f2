"""`counterfoil pull`: keep a copy of everything a key can read."""

import time
from contextlib import closing
from datetime import UTC, date

import click
from msgspec import Struct, structs

from counterfoil.cli.exit_status import (
    EXPECTED_ERRORS,
    QUOTA_SPENT,
    ExitStatus,
    exit_status,
    exit_with,
    print_error,
    sigterm_as_interrupt,
)
from counterfoil.cli.main import INTERRUPTED
from counterfoil.cli.options import json_option
from counterfoil.cli.pull_progress import pull_progress
from counterfoil.cli.remote import Remote, duration, remote_options, since_option
from counterfoil.cli.terminal import print_fields, print_json
from counterfoil.client.pages import Tally
from counterfoil.client.pull import Options, Puller
from counterfoil.client.sinks.opening import private_files
from counterfoil.domain.calendar import from_ms, to_ms
from counterfoil.machine.clock import SystemClock

ONE_DAY_SEC = 86_400.0
# How long to wait if the quota is still used up at midnight, because our clock is ahead of the service's.
QUOTA_RETRY_MS = 900_000


class PullReport(Struct):
    """The result of a run, complete or partial."""

    target: str
    tally: Tally
    seconds: float = 0.0
    outcome: ExitStatus = ExitStatus()


@click.command()
@remote_options
@since_option("How far back to read a new shop. [default: stops after 12 empty months]")
@click.option(
    "--members-every",
    type=duration,
    metavar="TIME",
    help="How often to read all members again. [default: in every run; with --every, once a day]",
)
@click.option("--every", type=duration, metavar="TIME", help="Keep running and pull at this interval: 30s, 5m, 1h, 1d.")
@click.option("--limit", type=click.IntRange(1, 200), default=200, show_default=True, help="Rows per page.")
@click.option("--adopt", is_flag=True, help="Continue a copy that was made from another address or with another key.")
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

    You can stop it at any time; the next run resumes where it stopped. Exit
    status: 0 the copy is up to date, 4 the day's quota is used up (run it again
    tomorrow, Thailand time), 5 the service cannot be reached, 130 interrupted,
    1 failed.
    """
    members_interval = members_every if members_every is not None else ONE_DAY_SEC if every else 0.0
    options = Options(since=since, members_every_sec=members_interval, limit=limit, adopt=adopt)
    with sigterm_as_interrupt():
        report = pull_once(remote, options)
        _print_report(report, as_json)
        while every is not None and report.outcome.can_retry:
            _wait_for_next_run(report, every)
            next_report = pull_once(remote, structs.replace(options, adopt=False))
            next_report.outcome = _retry_sooner(report.outcome, next_report.outcome)
            report = next_report
            _print_report(report, as_json)
    exit_with(report.outcome.exit_code)


def pull_once(remote: Remote, options: Options) -> PullReport:
    """Run one pull. The target is open only during the run, so that others can read it in between."""
    began = time.perf_counter()
    report = PullReport(remote.destination.display_name, Tally())
    try:
        with (
            private_files(),
            closing(remote.destination.open()) as sink,
            remote.client() as client,
            pull_progress() as show,
        ):
            puller = Puller(client, sink, options, show)
            report.tally = puller.tally
            with closing(puller):
                puller.run()
    except EXPECTED_ERRORS as error:
        report.outcome = exit_status(error)
    report.seconds = time.perf_counter() - began
    return report


# --- repeated runs -----------------------------------------------------------------


def _wait_for_next_run(report: PullReport, every_sec: float) -> None:
    seconds = every_sec - report.seconds
    if report.outcome.resumes_at:
        seconds = (to_ms(report.outcome.resumes_at) - SystemClock().now_ms()) / 1000 + 1
    try:
        time.sleep(max(0.0, seconds))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


def _retry_sooner(before: ExitStatus, after: ExitStatus) -> ExitStatus:
    """Return `after`, with an earlier retry if both runs used up the quota, as the service's day has not ended."""
    if before.exit_code == after.exit_code == QUOTA_SPENT:
        return structs.replace(after, resumes_at=from_ms(SystemClock().now_ms() + QUOTA_RETRY_MS, UTC))
    return after


# --- the summary -------------------------------------------------------------------


def _print_report(report: PullReport, as_json: bool) -> None:
    if as_json:
        print_json(_view(report))
    elif report.tally.requests:
        print_fields(_summary(report))
    print_error(report.outcome, "progress saved. Run the same command to resume.")


def _summary(report: PullReport) -> list[tuple[str, str]]:
    tally = report.tally
    rate = tally.bills_read / report.seconds if report.seconds else 0
    left = "" if tally.remaining is None else f", {tally.remaining:,} left today (Thailand time)"
    pairs = [
        ("copy", report.target),
        ("shops", f"{tally.shops_done:,} of {tally.shops:,} read"),
        ("bills", f"{tally.bills_read:,} read, {tally.bills_written:,} written ({rate:,.0f}/s)"),
        (
            "members",
            f"{tally.members_read:,} read, {tally.members_written:,} written, {tally.members_vanished:,} removed",
        ),
        ("requests", f"{tally.requests:,}{left}"),
        ("time", f"{report.seconds:.1f} s"),
    ]
    if tally.out_of_scope:
        pairs.append(("out of scope", f"{tally.out_of_scope:,} shops or bases left the key's scope during the run"))
    return pairs


def _view(report: PullReport) -> dict[str, object]:
    tally, outcome = report.tally, report.outcome
    return {
        "status": outcome.status,
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
        "resumesAt": outcome.resumes_at.isoformat() if outcome.resumes_at else None,
        "error": outcome.error,
    }
