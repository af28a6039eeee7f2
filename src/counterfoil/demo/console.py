"""Chooses the ports of the demo, and runs its console in a separate process."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from msgspec import DecodeError, json
from msgspec.structs import replace

from counterfoil.machine.addresses import is_free, reserved_port, url
from counterfoil.settings import TABLE, Settings, display_value

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
    """Yield the ports to use: the admin listener has the port after `port`, and the console the next one.

    If `port` is 0, or the console's port is in use, free ports are reserved while the demo runs, because it listens on
    them only after it has created its data, and another demo could choose the same ones.
    """
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


class DemoConsole:
    """The console's process. It stops when its standard input closes, which also happens if the demo is killed."""

    def __init__(self, settings: Settings) -> None:
        api_url = settings.api_url or url(settings.host, settings.port, f"{settings.prefix}/v1")
        self._settings = replace(settings, api_url=api_url)
        self._is_stopping = threading.Event()
        command = [sys.executable, "-m", "counterfoil", "console", "--json", "--until-end-of-input"]
        self._process = subprocess.Popen(
            [*command, "--valid-for", LINK_VALIDITY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _environment(self._settings),
            # In its own session, the console does not receive Ctrl-C from the terminal. The demo stops it instead.
            start_new_session=True,
        )

    @property
    def process_id(self) -> int:
        return self._process.pid

    def link(self) -> str | None:
        """Wait until the console is ready and return its sign-in link, or None if the console could not be started."""
        if self._process.stdout is None:
            return None
        try:
            return json.decode(self._process.stdout.readline(), type=dict[str, str])["console"]
        except (DecodeError, ValueError):
            # The console has exited, or the demo is stopping and has closed the stream.
            return None

    def watch(self, report: Callable[[str], None]) -> None:
        """Start a thread that reports when the console exits, unless the demo stops it."""
        threading.Thread(target=self._watch, args=(report,), name="console watcher", daemon=True).start()

    def _watch(self, report: Callable[[str], None]) -> None:
        status = self._process.wait()
        if not self._is_stopping.is_set():
            store, port = display_value(self._settings, "store"), self._settings.console_port
            again = f"counterfoil console --store {store} --console-port {port}"
            report(f"the console exited with status {status}. To start it again, run `{again}`.")

    def close(self) -> None:
        self._is_stopping.set()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with suppress(OSError):
                    stream.close()
        try:
            self._process.wait(STOP_SEC)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment(settings: Settings) -> dict[str, str]:
    """Return the settings as environment variables, so that the secret is not on the command line."""
    values = {setting.variable: str(getattr(settings, setting.name)) for setting in TABLE}
    if settings.database:
        values["COUNTERFOIL_STORE"] = settings.database
    return values
