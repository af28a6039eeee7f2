"""The result of a pull or a comparison: a status word, a message, and an exit status for schedulers."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import NoReturn

import click
from msgspec import Struct

from counterfoil.cli.main import FAILED, INTERRUPTED
from counterfoil.cli.terminal import print_message, print_note
from counterfoil.client import QuotaSpent, Refusal, Unreachable
from counterfoil.client.errors import CopyMismatch, CounterfoilError
from counterfoil.client.sinks import SinkError

DIFFERENT, QUOTA_SPENT, UNREACHABLE = 3, 4, 5


class ExitStatus(Struct, frozen=True):
    status: str = "ok"
    exit_code: int = 0
    error: str | None = None
    resumes_at: datetime | None = None

    @property
    def can_retry(self) -> bool:
        """Whether the next run may succeed without human intervention. With a wrong key, for example, it cannot."""
        return self.exit_code in (0, QUOTA_SPENT, UNREACHABLE) or self.status in ("target", "then")


EXPECTED_ERRORS = (CounterfoilError, SinkError, CopyMismatch, KeyboardInterrupt)


def exit_status(error: BaseException) -> ExitStatus:
    """Return the exit status for an expected error."""
    message = str(error)
    match error:
        case KeyboardInterrupt():
            return ExitStatus("interrupted", INTERRUPTED)
        case QuotaSpent():
            return ExitStatus("quota", QUOTA_SPENT, message, error.resumes_at)
        case Unreachable():
            return ExitStatus("unreachable", UNREACHABLE, message)
        case Refusal():
            # Treat every server error as temporary, so that schedulers retry.
            return ExitStatus(error.code, UNREACHABLE if error.status >= 500 else FAILED, message)
        case SinkError():
            return ExitStatus("target", FAILED, message)
    return ExitStatus("failed", FAILED, message)


def print_error(outcome: ExitStatus, resume_note: str) -> None:
    """Print the error, if there is one, to standard error.

    Add `resume_note` if the run was interrupted, the quota is used up, or the service cannot be reached or fails.
    """
    if outcome.error:
        print_message(outcome.error)
    if outcome.status == "interrupted" or (
        outcome.exit_code and outcome.can_retry and outcome.status not in ("target", "then")
    ):
        print_note(resume_note)


def exit_with(exit_code: int) -> None:
    if exit_code:
        raise click.exceptions.Exit(exit_code)


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that the copy is closed, and then let the signal end the process."""
    is_terminated = False

    def stop(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - a signal handler's signature
        nonlocal is_terminated
        is_terminated = True
        raise KeyboardInterrupt

    previous_handler = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
        if is_terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
