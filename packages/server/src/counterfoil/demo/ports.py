"""Chooses the ports of the demo."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from counterfoil.machine.addresses import is_free, reserved_port

LAST_PORT = 65_535
CONSOLE_HOST = "127.0.0.1"


class DemoPorts(NamedTuple):
    api: int
    admin: int
    console: int


@contextmanager
def chosen_ports(host: str, port: int, admin: int | None, console: int | None) -> Iterator[DemoPorts]:
    """Yield the ports to use: the admin listener has the port after `port`, and the console the next one."""
    # Free ports are reserved while the demo runs: another demo could choose the same ones before it listens on them.
    with ExitStack() as reserved:
        following = 0
        if port:
            admin = admin or (port + 1 if port < LAST_PORT else port - 1)
            following = admin + 1
        if following > LAST_PORT or not is_free(CONSOLE_HOST, following):
            following = 0
        yield DemoPorts(
            port or reserved_port(host, reserved),
            admin or reserved_port("127.0.0.1", reserved),
            console or reserved_port(CONSOLE_HOST, reserved, following),
        )
