"""An HTTP server for a few clients: the console and the admin listener. It is waitress with limits and our own errors.

waitress reads requests and sends responses in one thread, and calls the application in other threads, only when a
request is complete. Slow and idle clients therefore occupy no thread. Each connection carries one request.

Only an upload is different. Its body is large, and it must not be kept before it is known who sends it. So the
application is called as soon as the header has come, and reads the body itself while it arrives.
"""

import logging
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher, WSGITask

from counterfoil.machine.addresses import bound_socket

MAX_CONNECTIONS = 128
MAX_BODY = 64 * 1024
MAX_HEADERS = 32 * 1024
MAX_FIELDS = 100
CLIENT_SEC = 10
STOP_SEC = 0.5
# An upload may pause for so long, and take so long in all: 100 MB in half an hour are 0.5 Mbit/s.
UPLOAD_PAUSE_SEC = 30
UPLOAD_SEC = 30 * 60
UPLOAD_CHUNK = 256 * 1024
# If an upload is refused, what still arrives is thrown away for a moment. Otherwise the connection would be reset, and
# the browser would not show why. Only so many threads do this at once.
DISCARD_SEC = 2
_DISCARDING = threading.BoundedSemaphore(2)
THREADS = 8
LIMITS = {
    # Connections that are too many are closed by `maintenance`, in every turn of the loop. This limit is only reached
    # if all of them are being answered; further connections then wait to be accepted.
    "connection_limit": MAX_CONNECTIONS + 16,
    "cleanup_interval": 0,
    # waitress refuses a body that has exactly this size.
    "max_request_body_size": MAX_BODY + 1,
    "max_request_header_size": MAX_HEADERS,
    # Responses are in memory anyway, and must not be written to temporary files.
    "outbuf_overflow": 2**40,
    "ident": None,
    "log_socket_errors": False,
    # The console itself decides which headers of a proxy it trusts.
    "clear_untrusted_proxy_headers": False,
    "asyncore_use_poll": True,
}
# A path and a query, as clients send them to a server that is not a proxy.
_TARGET = re.compile(r"/[!-~]*")

# waitress logs addresses of pages, which contain IDs, and whatever clients send. The applications report their errors.
logging.getLogger("waitress").setLevel(logging.CRITICAL + 1)


class UploadBroken(Exception):
    """The client has closed the connection, or sends nothing any more, before its upload was complete."""


class UploadBody:
    """The body of an upload, which is read from the connection while it arrives."""

    def __init__(self, connection: socket.socket, first: bytes, length: int | None, *, awaits_continue: bool) -> None:
        self._connection = connection
        self._first = first
        self.length = length
        """The number of bytes that the client announced, or None if it did not."""
        self._awaits_continue = awaits_continue
        self._received = 0

    @property
    def is_complete(self) -> bool:
        return self._received == (self.length or 0)

    def chunks(self, pause_sec: float = UPLOAD_PAUSE_SEC, seconds: float = UPLOAD_SEC) -> Iterator[bytes]:
        """Yield the body in parts. Raise `UploadBroken` if the client stops or takes too long."""
        deadline = time.monotonic() + seconds
        if self._awaits_continue and not self.is_complete:
            self._awaits_continue = False
            self._connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self.is_complete:
            chunk = self._first or self._next(min(pause_sec, deadline - time.monotonic()))
            self._first = b""
            if not chunk:
                raise UploadBroken
            chunk = chunk[: (self.length or 0) - self._received]
            self._received += len(chunk)
            yield chunk

    def _next(self, seconds: float) -> bytes:
        """Return what arrives next, or nothing if the connection is closed or no data arrives in this time."""
        if seconds <= 0:
            return b""
        try:
            arrival = select.poll()
            arrival.register(self._connection, select.POLLIN)
            return self._connection.recv(UPLOAD_CHUNK) if arrival.poll(seconds * 1000) else b""
        except (OSError, ValueError):
            return b""

    def discard(self) -> None:
        """Throw away what still arrives, for at most DISCARD_SEC. If many others do this, return at once."""
        if self.is_complete or self._awaits_continue or not _DISCARDING.acquire(blocking=False):
            return
        try:
            deadline = time.monotonic() + DISCARD_SEC
            while self._next(deadline - time.monotonic()):
                continue
        finally:
            _DISCARDING.release()


class ListenerRequest(Struct, frozen=True, kw_only=True):
    """A complete request, or an upload whose body the application reads itself.

    Header names are in lower case; `peer` is the address of the client or its proxy.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    upload: UploadBody | None = None
    peer: str = ""
    version: str = "HTTP/1.1"

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return fields_of(self.target.partition("?")[2])

    @property
    def form(self) -> dict[str, str]:
        return fields_of(self.body.decode("utf-8", "replace"))

    def header(self, name: str) -> str:
        """Return the value of a header, or an empty string if there is none."""
        return self.headers.get(name, "")

    @property
    def cookies(self) -> dict[str, str]:
        pairs = (pair.partition("=") for pair in self.header("cookie").split(";"))
        return {name.strip(): value.strip() for name, _, value in pairs}


class ListenerResponse(Struct, frozen=True):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of a query string or a form: of a repeated one the last value, of more than MAX_FIELDS none."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        return {}


class PrivateListener:
    """A server that passes each request to `answer`, in several threads.

    `refuse` returns the response to a malformed request for a status and an Accept-Language header. A request that
    repeats one of `single_headers` is malformed. A client must send its request within `client_sec`, and must not
    pause for longer while it receives the response. A POST to one of `upload_paths` is an upload.
    """

    def __init__(
        self,
        host: str,
        port: int,
        answer: Callable[[ListenerRequest], ListenerResponse],
        refuse: Callable[[int, str], ListenerResponse],
        single_headers: tuple[str, ...] = ("host",),
        client_sec: int = CLIENT_SEC,
        upload_paths: frozenset[str] = frozenset(),
    ) -> None:
        def application(environ: dict[str, Any], start_response: Callable[..., object]) -> list[bytes]:
            request = _request(environ)
            is_valid = _TARGET.fullmatch(request.target)
            response = answer(request) if is_valid else refuse(400, request.header("accept-language"))
            length = ("content-length", str(len(response.body)))
            start_response(_status_line(response.status), [*response.headers, length])
            return [] if request.method == "HEAD" else [response.body]

        self._tasks = ThreadedTaskDispatcher()
        self._sockets: dict[int, Any] = {}
        bound = bound_socket(host, port)
        self.port = int(bound.getsockname()[1])
        info = (bound.family, bound.type, bound.proto, bound.getsockname())
        # Every connection has these terms, so ours are among those of waitress.
        terms = Adjustments(**LIMITS, channel_timeout=client_sec)
        terms.refuse, terms.single_headers = refuse, tuple(name.lower().encode() for name in single_headers)
        terms.upload_paths = upload_paths
        place = {"map": self._sockets, "_sock": bound, "sockinfo": info, "bind_socket": False}
        self._server = _Server(application, dispatcher=self._tasks, adj=terms, **place)
        self._thread = threading.Thread(target=self._server.run, name="listener", daemon=True)

    def start(self) -> None:
        self._tasks.set_thread_count(THREADS)
        self._thread.start()

    def stop(self) -> None:
        """Close all connections. Requests that are being answered get STOP_SEC to finish."""
        self._tasks.shutdown(timeout=STOP_SEC)
        if self._thread.is_alive():
            self._server.trigger.pull_trigger(self._end_loop)
            self._thread.join()
        else:
            self._end_loop()
        self._server.close()

    def _end_loop(self) -> None:
        """Close all connections and end the loop. The server stays open: `pull_trigger` may yet write to its pipe."""
        for connection in list(self._server.active_channels.values()):
            with suppress(OSError):
                connection.close()
        self._sockets.clear()


class _RequestParser(HTTPRequestParser):  # type: ignore[misc]
    is_upload = False
    awaits_continue = False
    upload_length: int | None = None
    first_of_body = b""
    # What waitress has read of the header.
    chunked: bool
    content_length: int
    expect_continue: bool

    def received(self, data: bytes) -> int:
        """Take what has arrived, and return how much. Of an upload, nothing is read after the header."""
        taken = int(super().received(data))
        if self.is_upload and self.error is None:
            self.first_of_body = data[taken:]
            return len(data)
        return taken

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            # A target such as `http://[`, or a length with thousands of digits.
            raise ParsingError("malformed") from error
        # waitress joins the values of repeated headers, which would hide the repetition from the application.
        lines = header_plus.lower()
        if any(lines.count(b"\r\n" + name + b":") > 1 for name in self.adj.single_headers):
            raise ParsingError("repeated header")
        self.headers["CONNECTION"] = "close"
        if self.command == "POST" and self.path in self.adj.upload_paths:
            self._begin_upload()

    def _begin_upload(self) -> None:
        """Let the request be complete without its body, which waitress would otherwise collect before anybody asks."""
        self.is_upload = True
        self.upload_length = None if self.chunked else self.content_length
        self.awaits_continue = self.expect_continue
        # To waitress, this request has no body.
        self.expect_continue = self.chunked = False
        self.content_length = 0
        self.body_rcv = None


class _Task(WSGITask):  # type: ignore[misc]
    upload: UploadBody | None = None

    def get_environment(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environment()
        request = self.request
        if request.is_upload:
            self.upload = UploadBody(
                self.channel.socket,
                request.first_of_body,
                request.upload_length,
                awaits_continue=request.awaits_continue,
            )
            environ["counterfoil.upload"] = self.upload
        return environ

    def service(self) -> None:
        super().service()
        if self.upload:
            self.upload.discard()


class _Refusal(ErrorTask):  # type: ignore[misc]
    """The response to a request that waitress could not read."""

    def execute(self) -> None:
        language = self.request.headers.get("ACCEPT_LANGUAGE", "")
        response = self.channel.adj.refuse(self.request.error.code, language)
        self.status = _status_line(response.status)
        self.response_headers.extend(response.headers)
        self.set_close_on_finish()
        self.content_length = len(response.body)
        self.write(response.body)


class _Channel(HTTPChannel):  # type: ignore[misc]
    task_class = _Task
    error_task_class = _Refusal
    parser_class = _RequestParser


class _Server(TcpWSGIServer):  # type: ignore[misc]
    channel_class = _Channel
    _previous_turn = 0.0

    def maintenance(self, now: float) -> None:
        """Close the connections of clients that are too slow and, if there are too many, the oldest idle ones."""
        super().maintenance(now)
        # A connection that is newer than the previous turn of the loop may have sent a request that was not read yet.
        older = [channel for channel in self.active_channels.values() if channel.creation_time < self._previous_turn]
        self._previous_turn = now
        idle = [channel for channel in older if not channel.requests]
        # A client that accepts its response slowly is closed only if there is no client that has not sent a request.
        idle.sort(key=lambda channel: (channel.total_outbufs_len > 0, channel.creation_time))
        surplus = len(self.active_channels) - MAX_CONNECTIONS
        for number, channel in enumerate(idle):
            is_slow = not channel.total_outbufs_len and channel.creation_time < now - self.adj.channel_timeout
            if channel.will_close or is_slow or number < surplus:
                channel.will_close = True
                # Without this, waitress would close the connection only when the client accepts more data.
                with suppress(OSError):
                    channel.socket.shutdown(socket.SHUT_RDWR)


def _request(environ: dict[str, Any]) -> ListenerRequest:
    headers = {name[5:].replace("_", "-").lower(): environ[name] for name in environ if name.startswith("HTTP_")}
    if "CONTENT_TYPE" in environ:
        headers["content-type"] = environ["CONTENT_TYPE"]
    return ListenerRequest(
        method=environ["REQUEST_METHOD"],
        target=environ["REQUEST_URI"],
        headers=headers,
        body=environ["wsgi.input"].read(),
        upload=environ.get("counterfoil.upload"),
        peer=environ["REMOTE_ADDR"],
        version=environ["SERVER_PROTOCOL"],
    )


def _status_line(status: int) -> str:
    return f"{status} {HTTPStatus(status).phrase}"
