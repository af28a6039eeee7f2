"""HTTP/1.1 over a bare socket: sends any bytes and parses responses strictly."""

import contextlib
import socket
import time
from typing import NamedTuple

# A machine that is busy with other work may need this long to respond.
PATIENCE_SEC = 60.0
CHUNK = 65_536
_SPACES = " \t\n\r\v\f"


class Malformed(Exception):
    """The service sent something that is not a valid HTTP/1 response, or too many responses."""


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        for known, value in self.headers:
            if known == name:
                return value
        return None


class Line:
    """A connection to the service."""

    def __init__(self, port: int, patience_sec: float = PATIENCE_SEC) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience_sec)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The received bytes, and the offset at which the next response begins.
        self._received = bytearray()
        self._begin = 0
        # True if the server has reset the connection. A reset discards data that has not been delivered yet.
        self.was_reset = False
        self._used_at = [time.monotonic()] * 2

    def idle_sec(self) -> float:
        """Return an upper bound, in seconds, on how long the connection was idle before the last send.

        This is the time since the previous send, or since the connection was opened.
        """
        return time.monotonic() - self._used_at[0]

    def send(self, data: bytes) -> None:
        """Send these bytes.

        A server that has disconnected may still have answered, so a broken
        connection is not an error here.
        """
        self._used_at = [self._used_at[1], time.monotonic()]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def half_close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def answer(self, method: str = "GET") -> Answer | None:
        """Read and return one response, or None if the connection was closed before a response began."""
        while (end := self._received.find(b"\r\n\r\n", self._begin)) < 0:
            if not self._receive():
                if len(self._received) > self._begin:
                    rest = bytes(self._received[self._begin : self._begin + 200])
                    raise Malformed(f"the connection was closed in the middle of a head: {rest!r}")
                return None
        status, headers = _head(self._received[self._begin : end].decode("latin-1"))
        length = 0 if method == "HEAD" or status in (204, 304) else _length(headers)
        end += 4 + length
        while len(self._received) < end:
            if not self._receive():
                raise Malformed("the connection was closed in the middle of a body")
        body = bytes(memoryview(self._received)[end - length : end])
        self._begin = end
        if self._begin == len(self._received):
            self._received, self._begin = bytearray(), 0
        return Answer(status, headers, body)

    def answers(self, most: int, method: str = "GET") -> list[Answer]:
        """Read responses until the server closes the connection. Fail if there are more than `most`."""
        found: list[Answer] = []
        while (answer := self.answer(method)) is not None:
            found.append(answer)
            if len(found) > most:
                raise Malformed(f"more than {most} responses")
        return found

    def until_silent(self, quiet_sec: float, most: int) -> list[Answer]:
        """Read responses until nothing has arrived for `quiet_sec`, then half-close and read the rest.

        A caller that half-closes immediately gets no response, because the HTTP
        server assumes that the caller has disconnected.
        """
        found, closed = self.so_far(quiet_sec, most)
        if not closed and len(found) <= most:
            self.half_close()
            found += self.answers(most)
        return found

    def so_far(self, quiet_sec: float, most: int) -> tuple[list[Answer], bool]:
        """Read responses until nothing has arrived for `quiet_sec`; return them, and whether the connection was closed.

        A response that has begun is read to its end.
        """
        patience = self.socket.gettimeout()
        found: list[Answer] = []
        self.socket.settimeout(quiet_sec)
        try:
            while len(found) <= most:
                try:
                    answer = self.answer()
                except (TimeoutError, BlockingIOError):
                    if len(self._received) == self._begin:
                        return found, False
                    self.socket.settimeout(patience)
                    answer = self.answer()
                    self.socket.settimeout(quiet_sec)
                if answer is None:
                    return found, True
                found.append(answer)
        finally:
            self.socket.settimeout(patience)
        return found, False

    def _receive(self) -> bool:
        try:
            piece = self.socket.recv(CHUNK)
        except ConnectionResetError:
            self.was_reset = True
            return False
        self._received += piece
        return bool(piece)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _head(head: str) -> tuple[int, list[tuple[str, str]]]:
    first, *rest = head.split("\r\n")
    code = first[9:12]
    if first[:9] not in ("HTTP/1.1 ", "HTTP/1.0 ") or not (code.isascii() and code.isdigit()):
        raise Malformed(f"not a status line: {first[:100]!r}")
    headers = []
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon or not name or name.strip(_SPACES) != name:
            raise Malformed(f"not a header: {line[:100]!r}")
        headers.append((name.lower(), value.strip(_SPACES)))
    return int(code), headers


def _length(headers: list[tuple[str, str]]) -> int:
    lengths = [value for name, value in headers if name == "content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit():
        raise Malformed(f"a response needs exactly one Content-Length, but has {lengths}")
    return int(lengths[0])


def request(
    target: str | bytes, key: str | None = None, *headers: bytes, method: bytes = b"GET", host: bool = True
) -> bytes:
    """Return the bytes of a request. The connection stays open unless `headers` contains `Connection: close`."""
    asked = target.encode() if isinstance(target, str) else target
    lines = [method + b" " + asked + b" HTTP/1.1"]
    if host:
        lines.append(b"Host: counterfoil")
    if key is not None:
        lines.append(b"Authorization: Bearer " + key.encode())
    return b"\r\n".join([*lines, *headers]) + b"\r\n\r\n"


def ask(port: int, target: str | bytes, key: str | None = None, *headers: bytes, method: str = "GET") -> Answer | None:
    """Send one request on its own connection; return the response, or None if there is no response."""
    with Line(port) as line:
        line.send(request(target, key, *headers, b"Connection: close", method=method.encode()))
        return line.answer(method)
