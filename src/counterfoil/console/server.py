"""Accepts connections and passes requests to the app, with limits on connections, request size and time."""

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from counterfoil.console.exchange import ConsoleRequest, ConsoleResponse
from counterfoil.console.guards import refusal_response

MAX_CONNECTIONS = 128
MAX_BODY = 64 * 1024
SOCKET_SEC = 10
MAX_LENGTH_DIGITS = 18

Answer = Callable[[ConsoleRequest], ConsoleResponse]


class ConsoleServer(ThreadingHTTPServer):
    """An HTTP server with a limited number of connections and one thread per connection.

    Browsers keep connections open without using them. If there are too many connections, the server therefore closes
    the oldest connection that has not sent a complete request. If there is none, it closes the new connection.
    """

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, host: str, port: int, answer: Answer) -> None:
        self._lock = threading.Lock()
        # Connections that have not sent a complete request, oldest first, and connections that are being answered.
        self._idle: dict[Any, None] = {}
        self._busy: set[Any] = set()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), type("Handler", (ConsoleHandler,), {"answer": staticmethod(answer)}))

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._admit(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _admit(self, request: Any) -> bool:
        """Add a connection. If there are too many, close the oldest idle one. If all are busy, return False."""
        with self._lock:
            if len(self._idle) + len(self._busy) >= MAX_CONNECTIONS:
                if not self._idle:
                    return False
                oldest = next(iter(self._idle))
                del self._idle[oldest]
                # The thread of this connection is waiting for data. It now reads the end of the stream and exits.
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._idle[request] = None
            return True

    def mark_busy(self, request: Any) -> None:
        """Mark a connection as busy when a complete request has arrived, so that it stays open for the response."""
        with self._lock:
            if request in self._idle:
                del self._idle[request]
                self._busy.add(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._idle.pop(request, None)
                self._busy.discard(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a client that disconnects is not an error."""


class ConsoleHandler(BaseHTTPRequestHandler):
    """Reads one request from a connection and sends the response."""

    answer: Answer
    server: ConsoleServer
    timeout = SOCKET_SEC
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "counterfoil", ""

    def handle_any(self) -> None:
        self.close_connection = True
        body = self._body()
        if isinstance(body, ConsoleResponse):
            self._send(body)
            return
        self.server.mark_busy(self.connection)
        headers = tuple((name.lower(), value) for name, value in self.headers.items())
        request = ConsoleRequest(
            method=self.command, target=self.path, headers=headers, body=body, peer=self.client_address[0]
        )
        try:
            response = self.answer(request)
        except Exception as error:  # noqa: BLE001 - report the failure without its message, which may contain data
            _report(error)
            response = refusal_response(self._languages(), 500, "failed")
        self._send(response)

    do_GET = do_HEAD = do_POST = handle_any  # noqa: N815 - http.server's names

    def _body(self) -> bytes | ConsoleResponse:
        if "transfer-encoding" in self.headers:
            return refusal_response(self._languages(), 411, "no_length")
        lengths = self.headers.get_all("content-length", [])
        if len(lengths) > 1 or not all(_is_length(length) for length in lengths):
            return refusal_response(self._languages(), 400, "wrong_length")
        length = int(lengths[0]) if lengths else 0
        return (
            self.rfile.read(length)
            if length <= MAX_BODY
            else refusal_response(self._languages(), 413, "body_too_large")
        )

    def _languages(self) -> str:
        """Return the Accept-Language header, or an empty string. A malformed request may have no headers."""
        headers = getattr(self, "headers", None)
        return headers.get("accept-language", "") if headers else ""

    def _send(self, response: ConsoleResponse) -> None:
        self.send_response(response.status)
        for name, value in response.all_headers():
            self.send_header(name, value)
        self.send_header("content-length", str(len(response.body)))
        self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Refuse a malformed request or an unknown method, with the same headers as any other response."""
        self.close_connection = True
        if not hasattr(self, "command") or self.command is None:
            self.command = "GET"
        self._send(refusal_response(self._languages(), 405 if code == 501 else code, "malformed"))

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's signature
        """Log nothing: addresses of pages contain IDs of keys and requests."""


def _is_length(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MAX_LENGTH_DIGITS


def _report(error: Exception) -> None:
    """Write the type of an error and its position in the source code to standard error."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace else "unknown"
    sys.stderr.write(f"counterfoil console: a request failed ({type(error).__name__} in {where}).\n")
