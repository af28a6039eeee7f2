"""What `pull` and `reconcile` share: options for the service, key and target, progress, and the exit status."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
from msgspec import Struct

from counterfoil.client import Client, QuotaSpent, Refusal, Unreachable
from counterfoil.client.connection import checked_url, request_headers
from counterfoil.client.errors import CopyMismatch, CounterfoilError
from counterfoil.client.pull_state import Tally
from counterfoil.client.sinks import Destination, SinkError, parse_destination
from counterfoil.model.calendar import from_ms
from counterfoil.model.text import counted, parse_duration
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import FAILED, INTERRUPTED
from counterfoil.program.paths import UserPath
from counterfoil.program.process import signals_handled
from counterfoil.program.terminal import print_message, print_note, status_line

KEY_VARIABLE = "COUNTERFOIL_KEY"
# A run with at most this many requests does not ask the service for the rate limit.
UNPACED_REQUESTS = 6


class Remote(Struct, frozen=True):
    url: str
    key: str
    destination: Destination

    def client(self) -> Client:
        try:
            return Client(self.url, self.key, unpaced=UNPACED_REQUESTS)
        except ValueError as error:
            raise click.UsageError(f"{error}.") from error


def duration(text: str) -> float:
    """Parse a duration such as `30s`, `5m`, `12h` or `1d`, and return it in seconds."""
    span_ms = parse_duration(text, "smhd")
    if span_ms is None:
        raise click.BadParameter(f"{text!r} is not a valid duration. Use a value such as 30s, 5m, 12h or 1d.")
    return span_ms / 1000


def past_day(text: str) -> date:
    """Parse a date that is not in the future. Tomorrow in UTC is accepted, because it may be today at the shop."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a valid date. Use the format YYYY-MM-DD, for example 2026-01-31."
        ) from None
    if day > from_ms(SystemClock().now_ms(), UTC).date() + timedelta(days=1):
        raise click.BadParameter(f"{text} is in the future. Use an earlier date.")
    return day


def since_option(text: str) -> Callable[[Any], Any]:
    """Return a decorator that adds `--since` with this help text."""
    return click.option("--since", type=past_day, metavar="DATE", help=text)


def remote_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options `--url`, `--key-file` and `--to`, and pass them to the command as `given`."""

    @click.option(
        "--url", required=True, envvar="COUNTERFOIL_URL", show_envvar=True, metavar="URL", help="Base URL of the API."
    )
    @click.option(
        "--key-file",
        type=UserPath(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
        metavar="FILE",
        help="File with the API key, or - for standard input. [default: the environment variable COUNTERFOIL_KEY]",
    )
    @click.option("--key", "bare_key", hidden=True)
    @click.option(
        "--to",
        "target_name",
        default="counterfoil.duckdb",
        metavar="TARGET",
        help="Where the copy is kept: a file ending in .duckdb or .sqlite, a folder ending in / (Parquet), or "
        "postgresql://...",
    )
    @wraps(command)
    def with_remote(url: str, key_file: Path | None, bare_key: str | None, target_name: str, **others: Any) -> int:
        return command(given=_remote(url, _key(key_file, bare_key), target_name), **others)

    return with_remote


def _remote(url: str, key: str, target_name: str) -> Remote:
    try:
        base_url = checked_url(url)
        request_headers(key)  # This raises ValueError for an invalid key.
        return Remote(base_url, key, parse_destination(target_name))
    except ValueError as error:
        raise click.UsageError(f"{str(error).removesuffix('.')}.") from error


def _key(file: Path | None, bare: str | None) -> str:
    if bare is not None:
        raise click.UsageError(
            "A key on the command line is visible to all users of this machine. Use --key-file or "
            f"the environment variable {KEY_VARIABLE}."
        )
    if file is not None:
        with click.open_file(str(file), encoding="utf-8", errors="replace") as opened:
            key = str(opened.read(10_000)).strip()
    else:
        key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise click.UsageError(f"No API key. Use --key-file or set the environment variable {KEY_VARIABLE}.")
    return key


@contextmanager
def pull_progress() -> Iterator[Callable[[Tally], None]]:
    """Yield a function that shows a tally. It does nothing if standard error is not a terminal."""
    with status_line("connecting") as show:
        yield lambda tally: show(progress_line(tally))


def progress_line(tally: Tally) -> str:
    """Return how much was read, what is left of the quota, and what is being read or waited for."""
    parts = [counted(tally.members_read, "member") if tally.members_read else counted(tally.bills_read, "bill")]
    if tally.remaining is not None:
        parts.append(f"quota left: {tally.remaining:,}")
    parts.append(f"waiting for {tally.waiting_for}" if tally.waiting_for else f"reading {tally.reading}")
    return ", ".join(parts)


DIFFERENT, QUOTA_SPENT, UNREACHABLE = 3, 4, 5


class ExitStatus(Struct, frozen=True):
    status: str = "ok"
    exit_code: int = 0
    error: str | None = None
    resumes_at: datetime | None = None

    @property
    def can_retry(self) -> bool:
        """Whether the next run may succeed without human intervention. With a wrong key, for example, it cannot."""
        return self.exit_code in (0, DIFFERENT, QUOTA_SPENT, UNREACHABLE) or self.status in ("target", "then")


EXPECTED_ERRORS = (CounterfoilError, SinkError, CopyMismatch, KeyboardInterrupt)


def exit_status(error: BaseException) -> ExitStatus:
    text = str(error)
    match error:
        case KeyboardInterrupt():
            return ExitStatus("interrupted", INTERRUPTED)
        case QuotaSpent():
            return ExitStatus("quota", QUOTA_SPENT, text, error.resumes_at)
        case Unreachable():
            return ExitStatus("unreachable", UNREACHABLE, text)
        case Refusal():
            # Treat every server error as temporary, so that schedulers retry.
            return ExitStatus(error.code, UNREACHABLE if error.status >= 500 else FAILED, text)
        case SinkError():
            return ExitStatus("target", FAILED, text)
    return ExitStatus("failed", FAILED, text)


# What to do about an error, by its status.
_ADVICE = {
    "key_revoked": "ask your operator for a new key. The copy stays as it is.",
    "invalid_key": "compare the key with the one that your operator gave you: it may be mistyped or cut off.",
    "unreachable": "check the address (--url or COUNTERFOIL_URL), and whether the service is running there.",
}


def print_error(outcome: ExitStatus, resume_note: str) -> None:
    """Print the error, if there is one, and `resume_note` if the next run can go on where this one ended."""
    if outcome.error:
        print_message(outcome.error)
    advice = _ADVICE.get(outcome.status)
    if advice:
        print_note(advice)
    if outcome.status == "interrupted" or (
        outcome.exit_code in (QUOTA_SPENT, UNREACHABLE) and outcome.status not in ("target", "then")
    ):
        print_note(resume_note)


def describe_incomplete_shops(shops: Mapping[str, Sequence[str]]) -> str:
    """Say which shops that have left the key's scope have lost rows. The values are the tables."""
    listed = "; ".join(f"{shop_id} ({', '.join(tables)})" for shop_id, tables in shops.items())
    return (
        "the copy has lost rows or columns, and some may belong to shops that have left the key's scope. "
        f"The service does not return their rows again: {listed}. Restore the copy from a backup, "
        "or run `counterfoil pull` with --accept-loss to do without these rows."
    )


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that the copy is closed, and then let the signal end the process."""
    is_terminated = False

    def stop(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - a signal handler's signature
        nonlocal is_terminated
        is_terminated = True
        raise KeyboardInterrupt

    try:
        with signals_handled([signal.SIGTERM], stop):
            yield
    finally:
        if is_terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
