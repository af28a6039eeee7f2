"""`counterfoil pull`: keep a copy of everything a key can read."""

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import click
from msgspec import Struct, structs

from counterfoil.client import Client, pull_state
from counterfoil.client.calls import MAX_FEED_LIMIT
from counterfoil.client.errors import Stopped, Unreachable
from counterfoil.client.pull import Options, Puller, origin_of
from counterfoil.client.pull_state import State, Tally
from counterfoil.client.sinks import Destination, SinkError, private_files
from counterfoil.copies import remote
from counterfoil.copies.remote import ExitStatus, Remote
from counterfoil.model.calendar import to_ms
from counterfoil.model.text import counted
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import FAILED, INTERRUPTED, Command
from counterfoil.program.process import SignalSafeEvent
from counterfoil.program.terminal import json_option, print_fields, print_json, print_note

ONE_DAY_SEC = 86_400.0
# A spent quota is tried again after this time at the latest, because our clock may be ahead of the service's.
QUOTA_RETRY_SEC = 3_600.0
MIN_BILLS_FOR_RATE = 1_000
PROGRESS_SAVED = "progress saved. Run the same command to resume."
FULL_PROGRESS_SAVED = "progress saved. Run the same command without --full to resume, or with --full to start again."
NOTHING_READ = "nothing was read. Run the same command to try again."


class PullReport(Struct):
    """The result of a run, complete or partial."""

    target: str
    tally: Tally
    state: State
    seconds: float = 0.0
    outcome: ExitStatus = ExitStatus()

    @property
    def needs_follow_up(self) -> bool:
        """Whether to run the `--then` command: the copy has changed since it last succeeded; not if interrupted."""
        if self.outcome.status == "interrupted":
            return False
        # After an error that a retry cannot fix, such as a revoked key, the command runs only if this run made changes.
        return self.state.has_unhandled_changes and (self.outcome.can_retry or self.tally.changes > 0)


def command_words(text: str) -> list[str]:
    """Split a command into its words, as a shell would, but without running a shell."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a valid command: {error}.") from error
    if not words:
        raise click.BadParameter("the command is empty.")
    return words


def _shop_ids(text: str) -> tuple[str, ...]:
    """Return the shop IDs given with `--shops`. An empty tuple means all shops."""
    ids = tuple(part.strip() for part in text.split(",") if part.strip())
    if not ids:
        raise click.UsageError("--shops needs at least one shop ID, or * for all shops.")
    return () if ids == ("*",) else ids


@click.command(
    cls=Command,
    groups={
        "What is copied": ("--since", "--shops", "--full", "--members-every", "--limit"),
        "After a run": ("--then", "--json"),
        "A copy that is refused": ("--adopt", "--accept-loss"),
    },
)
@remote.remote_options
@remote.since_option(
    "Copy only bills from this day on, and bills without a date. [default: as in the last run; initially all bills]"
)
@click.option(
    "--shops",
    type=_shop_ids,
    metavar="IDS",
    help="Copy only these shops: IDs separated by commas, or * for all. [default: as in the last run; initially all]",
)
@click.option(
    "--every",
    type=remote.duration,
    metavar="TIME",
    help="Keep running and pull at this interval, such as 30s, 5m or 1h.",
)
@click.option(
    "--then",
    "follow_up",
    type=command_words,
    metavar="CMD",
    help="Run this command, without a shell, after each run that changed the copy. If the command fails, "
    "the next run repeats it.",
)
@click.option("--full", is_flag=True, help="Read everything again, and repair every row that differs from the service.")
@json_option
@click.option(
    "--members-every",
    "members_every_sec",
    type=remote.duration,
    metavar="TIME",
    help="How often to read all members again. [default: in every run; with --every, once a day]",
)
@click.option("--limit", type=click.IntRange(1, MAX_FEED_LIMIT), default=MAX_FEED_LIMIT, help="Rows per page.")
@click.option("--adopt", is_flag=True, help="Continue a copy that was made from another address or with another key.")
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Do without lost rows of shops that have left the key's scope, and end with 0 from now on.",
)
def command(*, given: Remote, every: float | None, follow_up: list[str] | None, as_json: bool, **chosen: Any) -> int:
    """Keep a copy of all shops, bills and members that the key can read.

    You can stop a pull at any time; the next run resumes where it stopped. Exit status: 0 if the copy is up to
    date, 3 if it has lost rows that the service does not return any more, 4 if the day's quota is used up (run the
    command again tomorrow, Thailand time), 5 if the service cannot be reached or fails, 130 if interrupted, 1 if
    the pull failed.
    """
    if chosen["full"] and every is not None:
        raise click.UsageError("--full is for a single run, so it cannot be used with --every.")
    if chosen["members_every_sec"] is None:
        chosen["members_every_sec"] = ONE_DAY_SEC if every else 0.0
    options = Options(**chosen)
    with remote.sigterm_as_interrupt():
        report = _run(given, options, follow_up, as_json)
        if report.outcome.status != "target":
            _warn_if_readable(given)
        while every is not None and report.outcome.can_retry:
            _wait_for_next_run(report, every)
            report = _run(given, structs.replace(options, adopt=False, accept_loss=False), follow_up, as_json)
    return report.outcome.exit_code


def _run(given: Remote, options: Options, follow_up: list[str] | None, as_json: bool) -> PullReport:
    """Run one pull and print its report. If the copy has unhandled changes, run the `--then` command."""
    report = pull_once(given, options)
    _print_report(report, options, as_json)
    if follow_up and report.needs_follow_up:
        failure = run_follow_up(follow_up, report.target, report.tally)
        if failure is None:
            _record_handled(given, report.state.changes)
        else:
            failed = ExitStatus("then", FAILED, failure)
            remote.print_error(failed, "")
            report.outcome = report.outcome if report.outcome.exit_code else failed
    return report


def _record_handled(given: Remote, changes: int) -> None:
    """Store in the copy that the `--then` command has succeeded, so that the next run does not repeat it."""
    try:
        with private_files(), closing(given.destination.open()) as sink:
            pull_state.record_handled(sink, changes)
    except SinkError as error:
        print_note(
            f"the --then command succeeded, but this could not be recorded in the copy: {error!s}. The "
            "next pull with --then will run the command again."
        )


def pull_once(given: Remote, options: Options) -> PullReport:
    """Run one pull. The target is open only during the run, so that other programs can read it between runs."""
    began = time.perf_counter()
    report = PullReport(given.destination.display_name, Tally(), State())
    try:
        with private_files(), remote.pull_progress() as show, given.client() as client:
            run_interruptibly(partial(_pull, given.destination, client, options, report, show), client)
        if incomplete := report.tally.incomplete_shops:
            error_text = remote.describe_incomplete_shops(incomplete)
            report.outcome = ExitStatus("incomplete", remote.DIFFERENT, error_text)
    except remote.EXPECTED_ERRORS as error:
        report.outcome = remote.exit_status(error)
    report.seconds = time.perf_counter() - began
    return report


def _pull(
    destination: Destination, client: Client, options: Options, report: PullReport, on_progress: Callable[[Tally], None]
) -> None:
    destination.import_engine()
    origin = None
    if not destination.exists():
        # First the service must accept the key, so that a wrong address or key leaves no empty copy behind.
        try:
            origin = origin_of(client)
        finally:
            report.tally.requests = client.requests
    with closing(destination.open()) as sink:
        report.tally.on_progress = on_progress
        puller = Puller(client, sink, options, report.tally, origin)
        try:
            puller.run()
        finally:
            report.state = puller.state


def _warn_if_readable(given: Remote) -> None:
    if given.destination.readable_by_others():
        name = given.destination.display_name
        print_note(
            f"other users of this machine can read {name}, which may contain personal data. To prevent this, "
            f"run `chmod go-rwx {shlex.quote(name)}`."
        )


def _wait_for_next_run(report: PullReport, every_sec: float) -> None:
    seconds = every_sec - report.seconds
    if report.outcome.resumes_at:
        seconds = min(QUOTA_RETRY_SEC, (to_ms(report.outcome.resumes_at) - SystemClock().now_ms()) / 1000 + 1)
    try:
        time.sleep(max(0.0, seconds))
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


def _print_report(report: PullReport, options: Options, as_json: bool) -> None:
    if as_json:
        print_json(_view(report))
    elif not report.outcome.exit_code or report.tally.has_read:
        print_fields(_summary(report))
    if report.tally.lost_tables:
        names = ", ".join(report.tally.lost_tables)
        print_note(f"the copy has lost rows or columns of {names} since the last pull, so everything is read again.")
    if "removed_bills" in report.tally.lost_tables:
        print_note("the service cannot return lost rows of removed_bills. Build anew what was made from them.")
    if not {"members", "coupons"}.isdisjoint(report.tally.lost_tables):
        print_note("the service cannot return lost rows of members that it had removed before.")
    if report.tally.bills_without_day:
        bills = counted(report.tally.bills_without_day, "bill")
        print_note(
            f"{bills} of this run came without a business day, because the shop has no closing time. In daily_sales "
            "they are in a row without a day; use daily_sales_by_calendar_day, or ask the operator to run "
            "`counterfoil shops set --missing --closing-time HH:MM`."
        )
    for shop_id in report.tally.missing_shops:
        print_note(f"the key does not cover shop {shop_id}, so the shop's data is not copied.")
    for shop_id in report.tally.shops_that_left:
        print_note(f"shop {shop_id} has left the key's scope. Its bills stay in the copy, and are no longer updated.")
    saved = FULL_PROGRESS_SAVED if options.full else PROGRESS_SAVED
    remote.print_error(report.outcome, saved if report.tally.has_read else NOTHING_READ)


def _summary(report: PullReport) -> list[tuple[str, str]]:
    tally = report.tally
    # A small pull spends most of its time starting up, so its rate would be meaningless.
    is_measured = tally.bills_read >= MIN_BILLS_FOR_RATE and report.seconds > 0
    rate = f" ({tally.bills_read / report.seconds:,.0f} read/s)" if is_measured else ""
    left = "" if tally.remaining is None else f", {tally.remaining:,} left today (Thailand time)"
    bills = _counts(
        added=tally.bills_added,
        changed=tally.bills_changed,
        removed=tally.bills_removed,
        unchanged=tally.bills_unchanged,
    )
    members = _counts(
        added=tally.members_added,
        changed=tally.members_changed,
        removed=tally.members_removed,
        unchanged=tally.members_unchanged,
    )
    pairs = [
        ("copy", report.target),
        # Shops are counted at the end of a pass, so a failed run may have no count.
        *([("shops", f"{tally.shops:,}")] if tally.shops or not report.outcome.exit_code else []),
        ("bills", bills + rate),
        ("members", members),
        *([("stray rows", f"{tally.strays_removed:,} removed")] if tally.strays_removed else []),
        ("requests", f"{tally.requests:,}{left}"),
        ("time", f"{report.seconds:.1f} s"),
    ]
    if tally.out_of_scope:
        pairs.append(("out of scope", f"bases that left the key's scope during the run: {tally.out_of_scope:,}"))
    return pairs


def _counts(*, added: int, changed: int, removed: int, unchanged: int) -> str:
    return f"{added:,} added, {changed:,} changed, {removed:,} removed, {unchanged:,} unchanged"


def _view(report: PullReport) -> dict[str, object]:
    tally, outcome = report.tally, report.outcome
    return {
        "status": outcome.status,
        "target": report.target,
        "shops": tally.shops,
        "shopsRead": tally.shops_done,
        "billsRead": tally.bills_read,
        "billsWritten": tally.bills_written,
        "billsAdded": tally.bills_added,
        "billsChanged": tally.bills_changed,
        "billsUnchanged": tally.bills_unchanged,
        "billsRemoved": tally.bills_removed,
        "membersRead": tally.members_read,
        "membersWritten": tally.members_written,
        "membersAdded": tally.members_added,
        "membersChanged": tally.members_changed,
        "membersUnchanged": tally.members_unchanged,
        "membersRemoved": tally.members_removed,
        "billsWithoutBusinessDay": tally.bills_without_day,
        "strayRowsRemoved": tally.strays_removed,
        "lostTables": tally.lost_tables,
        "incompleteShops": tally.incomplete_shops,
        "requests": tally.requests,
        "requestsLeft": tally.remaining,
        "seconds": round(report.seconds, 3),
        "waitingSeconds": round(tally.waiting_sec, 3),
        "writingSeconds": round(tally.writing_sec, 3),
        "resumesAt": outcome.resumes_at.isoformat() if outcome.resumes_at else None,
        "error": outcome.error,
    }


REPEATED = "The copy is not affected. The next run with --then runs the command again."


def run_follow_up(words: list[str], target: str, tally: Tally) -> str | None:
    """Run the command with the target and the counts, but not the key, in variables; return an error if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != remote.KEY_VARIABLE}
    environment |= {
        "COUNTERFOIL_PULL_TARGET": target,
        "COUNTERFOIL_PULL_BILLS_ADDED": str(tally.bills_added),
        "COUNTERFOIL_PULL_BILLS_CHANGED": str(tally.bills_changed),
        "COUNTERFOIL_PULL_BILLS_REMOVED": str(tally.bills_removed),
        "COUNTERFOIL_PULL_MEMBERS_ADDED": str(tally.members_added),
        "COUNTERFOIL_PULL_MEMBERS_CHANGED": str(tally.members_changed),
        "COUNTERFOIL_PULL_MEMBERS_REMOVED": str(tally.members_removed),
    }
    try:
        output = sys.stderr.fileno()
    except (AttributeError, OSError):  # Standard error is closed or, as in tests, not a file.
        output = subprocess.DEVNULL
    try:
        done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=output, check=False)
    except OSError as error:
        return f"cannot run {words[0]}: {error.strerror}. {REPEATED}"
    return f"{words[0]} exited with status {done.returncode}. {REPEATED}" if done.returncode else None


def run_interruptibly(work: Callable[[], None], client: Client) -> None:
    """Run the work and raise its error. On Ctrl-C, let it save the rows it has received, then raise the interrupt."""
    errors: list[BaseException] = []
    # `Thread.join` is unsuitable: after an interrupted call, it reports that the thread has ended, even if it has not.
    done = SignalSafeEvent()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="pull", daemon=True).start()
    try:
        done.wait()
    except KeyboardInterrupt:
        print_note("saving the rows that have been received, then stopping. Press Ctrl-C again to stop at once.")
        client.close()
        try:
            done.wait()
        except KeyboardInterrupt:
            # The open transaction is lost. The copy remains in the state of the last commit.
            os._exit(INTERRUPTED)
        if not errors or isinstance(errors[0], Stopped | Unreachable):
            raise
    if errors:
        raise errors[0]
