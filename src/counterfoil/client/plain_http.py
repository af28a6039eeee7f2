"""Sends requests to an `http://` address with Python's standard library.

Importing httpx takes longer than a whole pull that finds no changes, so the
blocking client uses this module where it can: without TLS and without a proxy.
"""

import http.client
import selectors
import socket
import threading
import zlib
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlencode, urlsplit

from backports import zstd

from counterfoil.client.conversation import Call, HttpResponse, NoResponse


class PlainHttp:
    """Sends requests, and keeps connections open between them. Threads may share it."""

    def __init__(self, base_url: str, headers: Mapping[str, str], timeout_sec: float) -> None:
        parts = urlsplit(base_url)
        self._host, self._port = parts.hostname or "", parts.port
        self._path = parts.path
        self._headers = dict(headers)
        self._timeout_sec = timeout_sec
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        # The sockets of requests in progress. A connection forgets its socket before the last part of the response has
        # arrived, if the service is going to close it.
        self._busy: dict[http.client.HTTPConnection, socket.socket] = {}
        self._is_closed = False

    def get(self, call: Call) -> HttpResponse | NoResponse:
        query = f"?{urlencode(call.query)}" if call.query else ""
        connection = self._take()
        is_reusable = False
        try:
            if not self._is_connected(connection):
                return NoResponse("the client is closed")
            connection.request("GET", f"{self._path}/{call.path}{query}", headers=self._headers)
            response = connection.getresponse()
            body = response.read()
            is_reusable = not response.will_close
            headers = {name.lower(): value for name, value in response.getheaders()}
            return HttpResponse(response.status, headers, _decompressed(headers.get("content-encoding"), body))
        except (OSError, http.client.HTTPException, zlib.error, zstd.ZstdError) as error:
            is_reusable = False
            return NoResponse(f"{type(error).__name__}: {error}")
        finally:
            self._put_back(connection, is_reusable=is_reusable)

    def close(self) -> None:
        """Close all connections. Requests of other threads end at once, without a response."""
        with self._lock:
            self._is_closed = True
            for busy in self._busy.values():
                with suppress(OSError):
                    busy.shutdown(socket.SHUT_RDWR)  # This wakes a thread that waits for a response.
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def _take(self) -> http.client.HTTPConnection:
        """Return a connection that is still open, or a new one."""
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if not _was_closed(connection):
                    break
                connection.close()
            else:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_sec)
            return connection

    def _is_connected(self, connection: http.client.HTTPConnection) -> bool:
        """Connect to the service if necessary; return False if the client has been closed."""
        if not self._is_closed and connection.sock is None:
            connection.connect()
        with self._lock:
            if not self._is_closed:
                self._busy[connection] = connection.sock
            return not self._is_closed

    def _put_back(self, connection: http.client.HTTPConnection, *, is_reusable: bool) -> None:
        with self._lock:
            self._busy.pop(connection, None)
            if is_reusable and not self._is_closed:
                self._idle.append(connection)
            else:
                connection.close()


def _was_closed(connection: http.client.HTTPConnection) -> bool:
    """Return whether the service has closed an idle connection. Its socket is then readable."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _decompressed(encoding: str | None, body: bytes) -> bytes:
    if encoding == "zstd":
        return zstd.decompress(body)
    if encoding == "gzip":
        return zlib.decompress(body, wbits=zlib.MAX_WBITS | 16)
    return body
