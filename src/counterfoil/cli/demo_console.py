"""Runs the demo's console in a separate process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import DecodeError, Struct, json

from counterfoil.settings import TABLE, Settings

STOP_SEC = 5
# Long enough for somebody who starts the demo and opens the console later.
LINK_VALIDITY = "24h"


class ConsoleLine(Struct, frozen=True):
    """The line that `counterfoil console --json` prints when it is ready."""

    console: str


class DemoConsole:
    """The console's process. It stops when its standard input is closed, even if the demo is killed."""

    def __init__(self, settings: Settings) -> None:
        command = [sys.executable, "-m", "counterfoil", "console", "--json", "--until-end-of-input"]
        self._process = subprocess.Popen(
            [*command, "--valid-for", LINK_VALIDITY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _environment(settings),
        )

    def link(self) -> str | None:
        """Wait until the console is ready and return its sign-in link, or None if the console could not be started."""
        if self._process.stdout is None:
            return None
        try:
            return json.decode(self._process.stdout.readline(), type=ConsoleLine).console
        except DecodeError:
            return None

    def stop(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with suppress(OSError):
                    stream.close()
        try:
            self._process.wait(STOP_SEC)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running_console(settings: Settings) -> Iterator[DemoConsole]:
    console = DemoConsole(settings)
    try:
        yield console
    finally:
        console.stop()


def _environment(settings: Settings) -> dict[str, str]:
    """Return the settings as environment variables, so that the secret is not on the command line."""
    values = {setting.variable: str(getattr(settings, setting.name)) for setting in TABLE}
    if settings.database:
        values["COUNTERFOIL_STORE"] = settings.database
    return values
