"""Chooses the ports of the demo, and runs its console in a separate process."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, NamedTuple, cast

from msgspec import DecodeError, json
from msgspec.structs import replace

from counterfoil.machine.addresses import is_free, reserved_port, url
from counterfoil.settings import TABLE, Settings

LAST_PORT = 65_535
CONSOLE_HOST = "127.0.0.1"
STOP_SEC = 5
# Some users do not open the console until hours after they start the demo.
LINK_VALIDITY = "24h"


class DemoPorts(NamedTuple):
    api: int
    admin: int
    console: int


@contextmanager
def chosen_ports(
    host: str, port: int, admin: int | None, console: int | None, *, is_cluster: bool
) -> Iterator[DemoPorts]:
    """Yield the ports to use: the admin listener has the port after `port`, and the console the next one."""
    # Free ports are reserved while the demo runs: another demo could choose the same ones before it listens on them.
    with ExitStack() as reserved:
        following = 0
        if port:
            admin = admin or (port + 1 if port < LAST_PORT else port - 1)
            following = (port if is_cluster else admin) + 1
        if following > LAST_PORT or not is_free(CONSOLE_HOST, following):
            following = 0
        yield DemoPorts(
            port or reserved_port(host, reserved),
            admin or reserved_port("127.0.0.1", reserved),
            console or reserved_port(CONSOLE_HOST, reserved, following),
        )


@contextmanager
def demo_console(settings: Settings) -> Iterator[Callable[[], str | None]]:
    """Run the console in a process. Yield a function that waits for it and returns its sign-in link, or None."""
    # The process stops when its standard input closes, which also happens if the demo is killed.
    api_url = settings.api_url or url(settings.host, settings.port, f"{settings.prefix}/v1")
    command = [sys.executable, "-m", "counterfoil", "console", "--json", "--until-end-of-input"]
    process = subprocess.Popen(
        [*command, "--valid-for", LINK_VALIDITY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | _environment(replace(settings, api_url=api_url)),
        # In its own session, the console does not receive Ctrl-C from the terminal. The demo stops it instead.
        start_new_session=True,
    )
    stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)

    def link() -> str | None:
        try:
            return json.decode(stdout.readline(), type=dict[str, str])["console"]
        except DecodeError:
            # The console could not be started.
            return None

    try:
        yield link
    finally:
        for stream in (stdin, stdout):
            with suppress(OSError):
                stream.close()
        try:
            process.wait(STOP_SEC)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(settings: Settings) -> dict[str, str]:
    """Return the settings as environment variables, so that the secret is not on the command line."""
    values = {setting.variable: str(getattr(settings, setting.name)) for setting in TABLE}
    if settings.database:
        values["COUNTERFOIL_STORE"] = settings.database
    return values
