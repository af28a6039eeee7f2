"""HTTP clients that record the time, the duration and the result of each call."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

HEADERS = ("x-ratelimit-limit", "x-ratelimit-remaining")
NO_ANSWER = 0


class Call(Struct, frozen=True):
    """One call, with its times in seconds on the caller's monotonic clock."""

    began: float
    ended: float
    status: int
    error: str | None = None
    metered: bool = False
    data: Any = None

    @property
    def took(self) -> float:
        return self.ended - self.began


class Client:
    """An HTTP client with one connection to one node. It reconnects after a failure."""

    def __init__(self, port: int, key: str, patience_sec: float = 30.0) -> None:
        self._port = port
        self._headers = {"authorization": f"Bearer {key}"}
        self._patience_sec = patience_sec
        self._line: http.client.HTTPConnection | None = None

    def ask(self, path: str) -> Call:
        began = time.monotonic()
        try:
            if self._line is None:
                self._line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._patience_sec)
            self._line.request("GET", f"/ext/v1/{path}", headers=self._headers)
            answer = self._line.getresponse()
            body = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            return Call(began, time.monotonic(), NO_ANSWER, type(error).__name__)
        ended = time.monotonic()
        metered = all(answer.headers.get(name) is not None for name in HEADERS)
        return Call(began, ended, answer.status, body.get("error"), metered, body.get("data"))

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class Repeating:
    """Repeats an action in a thread until the block ends."""

    def __init__(self, act: Callable[[], object], every_sec: float = 0.0, patience_sec: float = 60) -> None:
        self.stopping = threading.Event()
        self._act = act
        self._every_sec = every_sec
        self._patience_sec = patience_sec
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def _repeat(self) -> None:
        self._act()
        while not self.stopping.wait(self._every_sec):
            self._act()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._thread.join(self._patience_sec)
        assert not self._thread.is_alive(), "a call hangs"


class RepeatingClient(Repeating):
    """Repeats one request to one node, and keeps all results without their data."""

    def __init__(self, port: int, key: str, path: str, *, every_sec: float = 0.0) -> None:
        super().__init__(lambda: self.seen.append(replace(self._client.ask(path), data=None)), every_sec)
        self.seen: list[Call] = []
        self._client = Client(port, key)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._client.close()


def call_concurrently(port: int, key: str, path: str, number: int) -> list[Call]:
    """Send the same request on `number` connections at the same time; return all calls."""
    start = threading.Barrier(number)

    def ask(_: int) -> Call:
        with closing(Client(port, key)) as client:
            start.wait(30)
            return client.ask(path)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(ask, range(number)))


def longest_gap(seen: Sequence[Call], status: int = 200) -> float:
    """Return the longest time in seconds between two consecutive responses with this status.

    Return infinity if there are fewer than two such responses.
    """
    answered = sorted(call.ended for call in seen if call.status == status)
    return max((later - earlier for earlier, later in pairwise(answered)), default=float("inf"))
