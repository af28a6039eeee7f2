"""Sends HTTP requests, and ends those that take too long, whatever the other side sends meanwhile."""

import logging
import os
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

import certifi
import urllib3

from counterfoil.model.text import printable

# So many connections are kept open between requests. Threads that need more open others.
MAX_KEPT = 100
# A connection that was idle for longer is not used again: a firewall may have dropped it without a word.
MAX_IDLE_SEC = 5.0
# A text of an error has at most so many characters.
MAX_TEXT = 200
# The name of the threads that end requests.
WATCH = "http-watch"
# How often a request is ended whose time is over: it may still be connecting.
END_EVERY_SEC = 1.0

# If a response has malformed headers, urllib3 logs its URL, which may contain a secret.
logging.getLogger("urllib3.connection").addFilter(lambda record: "(url=" not in str(record.msg))


class NoResponse(Exception):
    """There is no usable response. The text says why; `kind` says it without words of the other side."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class HttpConnections:
    """Connections to one address, directly or through the proxy of the environment. Threads may share them.

    `timeout_sec` applies to each read, and `response_sec` to a whole response.
    """

    def __init__(self, url: str, timeout_sec: float, response_sec: float) -> None:
        self._response_sec = response_sec
        self._sockets = _OpenSockets()
        self._manager = _manager(url, timeout_sec)
        self._pool = self._manager.connection_from_url(url)
        self._pool.ConnectionCls = _noting_sockets(self._pool.ConnectionCls, self._sockets)

    @contextmanager
    def response(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Send a request and yield the response, whose body is not read yet. Redirects are not followed.

        Raise `NoResponse` if there is none, or if it is not complete when the block ends.
        """
        is_done, is_overdue = threading.Event(), threading.Event()
        watch = threading.Thread(target=self._end_when_overdue, args=(is_done, is_overdue), name=WATCH, daemon=True)
        watch.start()
        response: urllib3.BaseHTTPResponse | None = None
        try:
            response = self._manager.urlopen(
                method, url, headers=headers, body=body, redirect=False, retries=False, preload_content=False
            )
            yield response
            if is_overdue.is_set():
                # A status line that was cut off may look complete.
                raise self._overdue()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            # http.client raises ValueError, for example, if a chunk has a negative size.
            raise (self._overdue() if is_overdue.is_set() else _no_response(error)) from None
        finally:
            is_done.set()
            if response is not None:
                # This closes the connection, unless the response was read to its end.
                response.close()

    def close(self) -> None:
        """Close all connections. Requests of other threads end at once, without a response."""
        self._sockets.end()
        self._pool.close()

    def _overdue(self) -> NoResponse:
        text = f"the response was not complete after {self._response_sec:g} seconds"
        return NoResponse(text, text)

    def _end_when_overdue(self, is_done: threading.Event, is_overdue: threading.Event) -> None:
        if is_done.wait(self._response_sec):
            return
        is_overdue.set()
        self._sockets.shut_down()
        # The time may be over before a connection was made.
        while not is_done.wait(END_EVERY_SEC):
            self._sockets.shut_down()


class _OpenSockets:
    """The sockets of open connections. Shutting them down wakes the threads that wait for data."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._has_ended = False

    def add(self, opened: socket.socket) -> None:
        with self._lock:
            self._sockets.add(opened)
            has_ended = self._has_ended
        if has_ended:
            self.shut_down()

    def shut_down(self) -> None:
        with self._lock:
            for opened in self._sockets:
                # The method of TLS sockets would change them while another thread uses them.
                with suppress(OSError):
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)

    def end(self) -> None:
        """Shut down the sockets, and each one that is added later."""
        with self._lock:
            self._has_ended = True
        self.shut_down()


class _FinalResponse(HTTPResponse):
    """A response that is not one of those (1xx) that a server may send before it, such as 103 Early Hints."""

    def begin(self) -> None:
        super().begin()
        while self.status < 200:
            self.headers = None  # type: ignore[assignment]
            super().begin()


def _noting_sockets(connection_class: Any, sockets: _OpenSockets) -> Any:
    """Return a subclass of a connection class of urllib3 that adds the socket of each connection to `sockets`."""

    class NotingConnection(connection_class):  # type: ignore[misc]
        response_class = _FinalResponse
        used_at = 0.0

        def _new_conn(self) -> socket.socket:
            # A proxy may take any time to connect, and a TLS socket takes the place of this one.
            opened: socket.socket = super()._new_conn()
            sockets.add(opened)
            return opened

        def connect(self) -> None:
            super().connect()
            sockets.add(self.sock)

        def getresponse(self) -> Any:
            response = super().getresponse()
            self.used_at = time.monotonic()
            return response

        @property
        def is_connected(self) -> bool:
            return bool(super().is_connected) and time.monotonic() - self.used_at <= MAX_IDLE_SEC

    return NotingConnection


def _manager(url: str, timeout_sec: float) -> urllib3.PoolManager:
    timeout = urllib3.Timeout(connect=timeout_sec, read=timeout_sec)
    proxy = proxy_for(url)
    if proxy is None:
        return urllib3.PoolManager(maxsize=MAX_KEPT, timeout=timeout, ca_certs=_certificates())
    try:
        parts = urlsplit(proxy)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError
        credentials = basic_credentials(parts)
        headers = {"proxy-authorization": credentials} if credentials else {}
        return urllib3.ProxyManager(
            proxy, proxy_headers=headers, maxsize=MAX_KEPT, timeout=timeout, ca_certs=_certificates()
        )
    except ValueError:
        # The original message may quote the password.
        raise ValueError(
            "the proxy of the environment is not an address that begins with http:// or https://"
        ) from None


def basic_credentials(parts: SplitResult) -> str | None:
    """Return the value of a header with the user name and the password in an address, if it has any."""
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def proxy_for(url: str) -> str | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY give for a URL."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    # The netloc of an IPv6 address has brackets; in NO_PROXY, the address may stand without them.
    if not proxy or proxy_bypass(parts.netloc) or proxy_bypass(f"{parts.hostname}:"):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _certificates() -> str | None:
    """Return the file of trusted certificates, or None if the environment names others, which Python then loads."""
    has_own = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    return None if has_own else certifi.where()


def _no_response(error: BaseException) -> NoResponse:
    """Say what went wrong. The texts of urllib3 may contain the URL; those of the errors that caused it do not."""
    for cause in (error.__cause__, *error.args):
        if isinstance(cause, Exception):
            return _no_response(cause)
    kind = type(error).__name__
    has_text = isinstance(error, OSError | HTTPException) and not isinstance(error, urllib3.exceptions.HTTPError)
    # Some texts quote what the other side has sent.
    return NoResponse(kind, f"{kind}: {printable(str(error)[:MAX_TEXT].strip())}" if has_text else kind)
