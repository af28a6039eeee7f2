"""HTTP/1.1 over a bare socket: sends any bytes and parses answers strictly."""

import contextlib
import socket
from typing import NamedTuple

PATIENCE_SEC = 15.0
CHUNK = 262_144


class Malformed(Exception):
    """The service sent something that is not an HTTP/1.1 answer."""


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for known, value in self.headers if known == name), None)


class Line:
    """A connection to the service."""

    def __init__(self, port: int, patience_sec: float = PATIENCE_SEC) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience_sec)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def send(self, data: bytes) -> None:
        """Send these bytes. A server that has disconnected may still have answered, so that is not an error here."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def half_close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def answer(self, method: str = "GET") -> Answer | None:
        """Read and return one answer, or None if the connection was closed before it began."""
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            if not self._receive():
                if self._received:
                    raise Malformed(f"the connection was closed inside a head: {self._received[:200]!r}")
                return None
        status, headers = _head(self._received[:end])
        length = 0 if method == "HEAD" or status in (204, 304) else _length(headers)
        while len(self._received) < end + 4 + length:
            if not self._receive():
                raise Malformed("the connection was closed inside a body")
        body = self._received[end + 4 : end + 4 + length]
        self._received = self._received[end + 4 + length :]
        return Answer(status, headers, body)

    def answers(self, most: int, method: str = "GET") -> list[Answer]:
        """Read at most this many answers, until the server closes the connection."""
        found: list[Answer] = []
        while (answer := self.answer(method)) is not None:
            found.append(answer)
            if len(found) > most:
                raise Malformed(f"more than {most} answers")
        return found

    def until_silent(self, quiet_sec: float, most: int) -> list[Answer]:
        """Read answers until nothing has arrived for a while, then half-close and read the rest.

        A caller that half-closes at once gets no answer, because the HTTP server
        considers it gone.
        """
        patience = self.socket.gettimeout()
        found: list[Answer] = []
        self.socket.settimeout(quiet_sec)
        try:
            while (answer := self.answer()) is not None and len(found) <= most:
                found.append(answer)
        except TimeoutError:
            self.socket.settimeout(patience)
            self.half_close()
            found += self.answers(most)
        return found

    def _receive(self) -> bool:
        try:
            piece = self.socket.recv(CHUNK)
        except ConnectionResetError:
            return False
        self._received += piece
        return bool(piece)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _head(head: bytes) -> tuple[int, list[tuple[str, str]]]:
    first, *rest = head.split(b"\r\n")
    version, _, after = first.partition(b" ")
    code = after[:3]
    if version not in (b"HTTP/1.1", b"HTTP/1.0") or not code.isdigit():
        raise Malformed(f"no status line: {first[:100]!r}")
    headers = []
    for line in rest:
        name, colon, value = line.partition(b":")
        if not colon or not name or name.strip() != name:
            raise Malformed(f"no header: {line[:100]!r}")
        headers.append((name.decode("latin-1").lower(), value.strip().decode("latin-1")))
    return int(code), headers


def _length(headers: list[tuple[str, str]]) -> int:
    lengths = [value for name, value in headers if name == "content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit():
        raise Malformed(f"an answer needs one Content-Length, and has {lengths}")
    return int(lengths[0])


def request(
    target: str | bytes, key: str | None = None, *headers: bytes, method: bytes = b"GET", host: bool = True
) -> bytes:
    """Return a request that leaves the connection open."""
    asked = target.encode() if isinstance(target, str) else target
    lines = [method + b" " + asked + b" HTTP/1.1"]
    if host:
        lines.append(b"Host: counterfoil")
    if key is not None:
        lines.append(b"Authorization: Bearer " + key.encode())
    return b"\r\n".join([*lines, *headers]) + b"\r\n\r\n"


def ask(port: int, target: str | bytes, key: str | None = None, *headers: bytes, method: str = "GET") -> Answer | None:
    """Send one request on its own connection; return the answer, or None if there is none."""
    with Line(port) as line:
        line.send(request(target, key, *headers, b"Connection: close", method=method.encode()))
        return line.answer(method)
