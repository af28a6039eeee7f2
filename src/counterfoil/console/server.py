"""Accepts connections and passes requests to the app, with limits on their number, size and time."""

import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from counterfoil.console.exchange import ConsoleRequest, ConsoleResponse

MAX_CONNECTIONS = 64
MAX_BODY = 64 * 1024
SOCKET_SEC = 10
MAX_LENGTH_DIGITS = 18

Answer = Callable[[ConsoleRequest], ConsoleResponse]


class ConsoleServer(ThreadingHTTPServer):
    """An HTTP server with a limited number of threads. Connections beyond that number are closed at once."""

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, host: str, port: int, answer: Answer) -> None:
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), type("Handler", (ConsoleHandler,), {"answer": staticmethod(answer)}))

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a client that disconnects is not an error."""


class ConsoleHandler(BaseHTTPRequestHandler):
    """Reads one request from a connection and sends the response."""

    answer: Answer
    timeout = SOCKET_SEC
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "counterfoil", ""

    def handle_any(self) -> None:
        self.close_connection = True
        body = self._body()
        if isinstance(body, ConsoleResponse):
            self._send(body)
            return
        headers = tuple((name.lower(), value) for name, value in self.headers.items())
        request = ConsoleRequest(
            method=self.command, target=self.path, headers=headers, body=body, peer=self.client_address[0]
        )
        try:
            response = self.answer(request)
        except Exception as error:  # noqa: BLE001 - report the failure without its message, which may contain data
            _report(error)
            response = _plain(500, "The console failed to answer. See its standard error.")
        self._send(response)

    do_GET = do_HEAD = do_POST = handle_any  # noqa: N815 - http.server's names

    def _body(self) -> bytes | ConsoleResponse:
        if "transfer-encoding" in self.headers:
            return _plain(411, "The length of the body must be given.")
        lengths = self.headers.get_all("content-length", [])
        if len(lengths) > 1 or not all(_is_length(length) for length in lengths):
            return _plain(400, "The length of the body is not valid.")
        length = int(lengths[0]) if lengths else 0
        return self.rfile.read(length) if length <= MAX_BODY else _plain(413, "The body is too large.")

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
        """Refuse a malformed request with the same headers as any other response."""
        self.close_connection = True
        if not hasattr(self, "command") or self.command is None:
            self.command = "GET"
        self._send(_plain(405 if code == 501 else code, "The request is not valid."))

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's signature
        """Log nothing: addresses of pages contain IDs of keys and requests."""


def _is_length(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MAX_LENGTH_DIGITS


def _plain(status: int, text: str) -> ConsoleResponse:
    return ConsoleResponse(status=status, content_type="text/plain; charset=utf-8", body=f"{text}\n".encode())


def _report(error: Exception) -> None:
    """Write the type of an error and its position in the source code to standard error."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace else "unknown"
    sys.stderr.write(f"counterfoil console: a page failed ({type(error).__name__} in {where}).\n")
