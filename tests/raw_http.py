"""Sends exact bytes over a socket, for requests that no HTTP client library would send."""

import contextlib
import socket
from typing import Any, NamedTuple

import httpx
from msgspec import Struct, field

from running_service import RunningService

PATIENCE_SEC = 10
# Signs of leaked internals, which no response may contain.
TRACES = (b"Traceback", b'File "', b".py", b"sqlite3", b"Exception")


class Answer(NamedTuple):
    """A parsed response. The status is 0 if the connection was closed without a response."""

    status: int
    headers: dict[str, str]
    body: bytes


class AppRequest(Struct):
    """A request as the server passes it to the application."""

    path: str
    query_string: str
    headers: Any
    method: str = "GET"
    http_version: str = "1.1"


class AppResponse(Struct):
    """A response as the application passes it to the server."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


class Headers(dict[str, str]):
    """Headers as the server passes them to the application, each at most once."""

    def get_all(self, name: str) -> list[str]:
        return [self[name]] if name in self else []


def connect(service: RunningService) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.server.port), timeout=PATIENCE_SEC)


def request(target: bytes, *headers: bytes, method: bytes = b"GET", body: bytes = b"", key: str | None = None) -> bytes:
    """Return a complete request with `Connection: close`."""
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: counterfoil", b"Connection: close", *headers]
    if key:
        lines.append(b"Authorization: Bearer " + key.encode())
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def send(service: RunningService, sent: bytes) -> Answer:
    """Send these bytes on a new connection and read until it is closed; return the response."""
    with connect(service) as line:
        # The server may close the connection before it has read everything; its response can still be read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(sent)
        return parse(read_to_end(line))


def read_to_end(line: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := line.recv(65_536):
            received += piece
    return received


def parse(received: bytes) -> Answer:
    if not received:
        return Answer(0, {}, b"")
    head, _, body = received.partition(b"\r\n\r\n")
    first, *rest = head.split(b"\r\n")
    headers = {}
    for header in rest:
        name, _, value = header.partition(b":")
        headers[name.decode().lower()] = value.strip().decode("latin-1")
    return Answer(int(first.split(b" ")[1]), headers, body)


def visible(answer: httpx.Response) -> tuple[object, ...]:
    """Return everything that a caller can see in a response except the request ID and the time."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date")}
    return answer.status_code, answer.content, tuple(sorted(headers.items()))
