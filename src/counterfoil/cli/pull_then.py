"""Runs the command given with `counterfoil pull --then`, and returns an error message if it fails."""

import os
import shlex
import sys

import click

from counterfoil.cli.remote import KEY_VARIABLE
from counterfoil.client.pull_state import Tally

REPEATED = "The copy is not affected. The next run with --then runs the command again."


def command_words(text: str) -> list[str]:
    """Split a command into its words, as a shell would, but without running a shell."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a valid command: {error}.") from error
    if not words:
        raise click.BadParameter("the command is empty.")
    return words


class FollowUp:
    """A command that is run with the results of a pull in environment variables."""

    def __init__(self, words: list[str], target: str) -> None:
        self._words = words
        self._target = target

    def run(self, tally: Tally) -> str | None:
        """Run the command with its output on standard error, and return an error message if it fails.

        Environment variables tell the command the target and how many rows were added, changed and removed. They do
        not include the API key.
        """
        import subprocess  # noqa: PLC0415 - only `--then` needs it

        environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
        environment |= {
            "COUNTERFOIL_PULL_TARGET": self._target,
            "COUNTERFOIL_PULL_BILLS_ADDED": str(tally.bills_added),
            "COUNTERFOIL_PULL_BILLS_CHANGED": str(tally.bills_changed),
            "COUNTERFOIL_PULL_BILLS_REMOVED": str(tally.bills_removed),
            "COUNTERFOIL_PULL_MEMBERS_ADDED": str(tally.members_added),
            "COUNTERFOIL_PULL_MEMBERS_CHANGED": str(tally.members_changed),
            "COUNTERFOIL_PULL_MEMBERS_REMOVED": str(tally.members_removed),
        }
        output = _standard_error()
        try:
            done = subprocess.run(
                self._words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if output is None else output,
                check=False,
            )
        except OSError as error:
            return f"cannot run {self._words[0]}: {error.strerror}. {REPEATED}"
        if done.returncode:
            return f"{self._words[0]} exited with status {done.returncode}. {REPEATED}"
        return None


def _standard_error() -> int | None:
    """Return the file descriptor of standard error, or None if the stream has no descriptor, as in tests."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError):
        return None
