"""Ends HTTP requests that take too long, whatever the other side sends meanwhile."""

import socket
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet


class OpenSockets:
    """The sockets of an HTTP client. Shutting them down wakes the threads that wait for data."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def note(self, event: str, info: dict[str, Any]) -> None:
        """Remember the sockets of new connections. httpx calls this at every step of a request."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            with self._lock:
                self._sockets.add(info["return_value"].get_extra_info("socket"))

    def shut_down(self) -> None:
        with self._lock:
            for opened in self._sockets:
                # The method of TLS sockets would change them while another thread uses them.
                with suppress(OSError):
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)
