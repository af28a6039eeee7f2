"""Attacks with thousands of sockets that send slowly, do not read or do nothing, while ordinary callers are served."""

import contextlib
import resource
import selectors
import socket
import time
from pathlib import Path

from msgspec import Struct

from hostile.callers import Call, Caller, ConcurrentCallers, pause, percentile
from hostile.checker import Checker
from hostile.ordinary import OrdinaryCallers
from hostile.raw_http import request
from hostile.targets import Attacked, until

KINDS = ("silent", "half a request", "a byte at a time", "does not read")
# The number of requests that are sent without reading the responses. More would be a flood, a different attack.
PIPELINED = 2
WARM_UP_SEC = 0.5
STEP_SEC = 0.25
# Extra time allowed for opening all the sockets.
OPENING_SEC = 60.0


class Report(Struct):
    sockets: int
    open_at_once: int
    calls: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    descriptors_before: int
    descriptors_after: int
    faults: list[str]


class SlowSocket:
    """One hostile connection. `kind` is one of KINDS."""

    def __init__(self, port: int, kind: str, key: str) -> None:
        self.kind = kind
        self.open = False
        self._unsent = request("/ext/v1/shops", key, b"X-Slow: " + b"x" * 4000)
        self.socket = socket.socket()
        if kind == "does not read":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self._unsent = request("/ext/v1/openapi.json") * PIPELINED
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.socket.connect(("127.0.0.1", port))

    def connected(self) -> None:
        self.open = True
        match self.kind:
            case "half a request":
                self._send(2000)
            case "does not read":
                self._send(len(self._unsent))
            case "a byte at a time":
                self._send(1)

    def step(self) -> None:
        if self.open and self.kind == "a byte at a time":
            self._send(1)

    def _send(self, size: int) -> None:
        try:
            sent = self.socket.send(self._unsent[:size])
            self._unsent = self._unsent[sent:]
        except BlockingIOError:
            return
        except OSError:
            self.open = False

    def close(self) -> None:
        self.socket.close()


def descriptors(site: Attacked) -> int:
    pids = [pid for name, pid in site.processes().items() if name.startswith("worker")]
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def allow_sockets(number: int) -> int:
    """Raise this process's limit on open files if it is too low; return how many sockets the process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + 512
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft - 512


def run(
    site: Attacked,
    checker: Checker,
    *,
    sockets: int,
    seconds: float,
    key: str,
    worst_ms: float = 5_000,
    returned_sec: float = 40.0,
) -> Report:
    """Keep slow sockets open for a while; report how well ordinary callers are served during that time.

    Descriptors that the service does not close afterwards are reported, too.
    """
    number = min(sockets, allow_sockets(sockets))
    with ConcurrentCallers(
        [Caller(site.ports[place % len(site.ports)], key, "shops", checker=checker) for place in range(32)]
    ):
        # Workers open files when a request first needs them, so send requests before descriptors are counted.
        pause(WARM_UP_SEC)
    pause(0.2)
    before = descriptors(site)
    slow: list[SlowSocket] = []
    most_open = 0
    waiting = selectors.DefaultSelector()
    with OrdinaryCallers(site.ports, key) as ordinary:
        end = time.monotonic() + seconds
        next_step = 0.0
        while (now := time.monotonic()) < end or (
            now < end + OPENING_SEC and (len(slow) < number or waiting.get_map())
        ):
            for _ in range(min(200, number - len(slow))):
                one = SlowSocket(site.ports[len(slow) % len(site.ports)], KINDS[len(slow) % len(KINDS)], key)
                slow.append(one)
                waiting.register(one.socket, selectors.EVENT_WRITE, one)
            for event, _ in waiting.select(0.01):
                event.data.connected()
                waiting.unregister(event.fileobj)
            if time.monotonic() > next_step:
                next_step = time.monotonic() + STEP_SEC
                for one in slow:
                    one.step()
                most_open = max(most_open, sum(one.open for one in slow))
            pause(0.02)
        most_open = max(most_open, sum(one.open for one in slow))
    waiting.close()
    for one in slow:
        one.close()
    # The workers may not have closed all connections of ordinary callers yet, so a few more descriptors than before are
    # allowed.
    faults = [*ordinary.faults, *_failures(ordinary.calls, worst_ms)]
    try:
        until(lambda: descriptors(site) <= before + 4, "the descriptors were closed", returned_sec)
    except AssertionError:
        faults.append(f"the service had {before} descriptors before the attack and {descriptors(site)} after it")
    took = [call.took * 1000 for call in ordinary.calls]
    return Report(
        sockets=len(slow),
        open_at_once=most_open,
        calls=len(took),
        p50_ms=percentile(took, 0.5),
        p99_ms=percentile(took, 0.99),
        worst_ms=max(took, default=0.0),
        descriptors_before=before,
        descriptors_after=descriptors(site),
        faults=faults,
    )


def _failures(calls: list[Call], worst_ms: float) -> list[str]:
    found = [f"an ordinary caller got {call.status} {call.error}" for call in calls if call.status != 200]
    slowest = max((call.took * 1000 for call in calls), default=0.0)
    if slowest > worst_ms:
        found.append(f"an ordinary caller waited {slowest:.0f} ms")
    return sorted(set(found))
