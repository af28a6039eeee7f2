"""Concurrent callers that keep their connections open and record when they sent each request and what they received."""

import contextlib
import json
import threading
import time
from collections.abc import Callable

from msgspec import Struct

from hostile.checker import Checker
from hostile.raw_http import Line, Malformed, request
from hostile.targets import until

NO_ANSWER = 0


class Call(Struct, frozen=True):
    """One request, with its times in seconds on this machine's monotonic clock."""

    began: float
    ended: float
    status: int
    error: str | None
    remaining: int | None = None

    @property
    def took(self) -> float:
        return self.ended - self.began


class Caller:
    """Repeatedly sends the same request to one port, and reconnects when the connection breaks."""

    def __init__(
        self, port: int, key: str, target: str, *, checker: Checker | None = None, patience_sec: float = 15.0
    ) -> None:
        self.port = port
        self._data = request(f"/ext/v1/{target}", key)
        self._path = f"/ext/v1/{target.partition('?')[0]}"
        self._checker = checker
        self._patience_sec = patience_sec
        self._line: Line | None = None
        self.calls: list[Call] = []
        self.faults: list[str] = []
        # A function that returns the faults in the body of a 200 response.
        self.judge: Callable[[bytes], list[str]] = lambda _: []

    def call(self) -> Call:
        began = time.monotonic()
        status, error, remaining = NO_ANSWER, None, None
        try:
            if self._line is None:
                self._line = Line(self.port, self._patience_sec)
            self._line.send(self._data)
            answer = self._line.answer()
            ended = time.monotonic()
            if answer is None:
                self.close()
            else:
                status = answer.status
                left = answer.header("x-ratelimit-remaining")
                remaining = int(left) if left is not None else None
                if self._checker:
                    template = self._checker.document.template(self._path)
                    self.faults += self._checker.faults(answer, template)
                if status == 200:
                    self.faults += self.judge(answer.body)
                else:
                    with contextlib.suppress(ValueError):
                        error = json.loads(answer.body).get("error")
        except TimeoutError:
            ended = time.monotonic()
            error = "no answer in time"
            self.close()
        except (OSError, Malformed) as trouble:
            ended = time.monotonic()
            error = type(trouble).__name__
            self.close()
        done = Call(began, ended, status, error, remaining)
        self.calls.append(done)
        return done

    def close(self) -> None:
        if self._line:
            self._line.close()
            self._line = None


class ConcurrentCallers:
    """Runs each caller in its own thread for the duration of a `with` block."""

    def __init__(self, callers: list[Caller], every_sec: float = 0.0) -> None:
        self.callers = callers
        self._every_sec = every_sec
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(caller,), daemon=True) for caller in callers]

    def _run(self, caller: Caller) -> None:
        while True:
            answered = caller.call().status != NO_ANSWER
            # If there was no response, the next attempt waits at least 20 ms, so that callers do not busy-loop.
            if self._stop.wait(self._every_sec if answered else max(self._every_sec, 0.02)):
                break
        caller.close()

    def __enter__(self) -> "ConcurrentCallers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a call hangs"

    @property
    def calls(self) -> list[Call]:
        return sorted((call for caller in self.callers for call in caller.calls), key=lambda call: call.ended)

    @property
    def faults(self) -> list[str]:
        return sorted({fault for caller in self.callers for fault in caller.faults})


def status_of(port: int, key: str, target: str) -> int:
    """Send one request; return its status, or NO_ANSWER if there is no response."""
    caller = Caller(port, key, target)
    try:
        return caller.call().status
    finally:
        caller.close()


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def pause(seconds: float) -> None:
    """Wait in real time, because a test cannot advance the clocks of other processes."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end, "the time had passed", seconds + 60)
