"""HTTP by hand: exact bytes over a socket, for what no client library will send."""

import contextlib
import socket
from typing import NamedTuple

from house import House

PATIENCE_SEC = 10
# What must not be in any answer, whatever was sent.
TRACES = (b"Traceback", b'File "', b".py", b"sqlite3", b"Exception")


class Answer(NamedTuple):
    """An answer as it came; status 0 when the connection was closed without one."""

    status: int
    headers: dict[str, str]
    body: bytes


def connection(house: House) -> socket.socket:
    return socket.create_connection(("127.0.0.1", house.server.port), timeout=PATIENCE_SEC)


def request(target: bytes, *headers: bytes, method: bytes = b"GET", body: bytes = b"", key: str | None = None) -> bytes:
    """A whole request that asks for the connection to be closed after it."""
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: counterfoil", b"Connection: close", *headers]
    if key:
        lines.append(b"Authorization: Bearer " + key.encode())
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def say(house: House, sent: bytes) -> Answer:
    """Send these bytes on a connection of their own and read to its end."""
    with connection(house) as line:
        # A server that has heard enough hangs up; its answer may still be there.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(sent)
        return parsed(everything(line))


def everything(line: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := line.recv(65_536):
            received += piece
    return received


def parsed(received: bytes) -> Answer:
    if not received:
        return Answer(0, {}, b"")
    head, _, body = received.partition(b"\r\n\r\n")
    first, *rest = head.split(b"\r\n")
    headers = {}
    for header in rest:
        name, _, value = header.partition(b":")
        headers[name.decode().lower()] = value.strip().decode("latin-1")
    return Answer(int(first.split(b" ")[1]), headers, body)
