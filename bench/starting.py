"""Measure the time from `serve` to the first response."""

import socket
import statistics
import subprocess
import time
from collections.abc import Callable

from bench import machine
from bench.contestants import HOST, PATIENCE_SEC, free_port
from bench.targets import Verdict, at_most
from bench.world import COUNTERFOIL, World

REQUEST = b"GET /ext/v1/openapi.json HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n"
PAUSE_SEC = 0.002


def measured(world: World, bills: int, rounds: int, tell: Callable[[str], None]) -> Verdict:
    """Start the service several times; return the verdict on the median. All starts but the first use cached files."""
    taken = []
    for number in range(1, rounds + 1):
        tell(f"start {number} of {rounds}")
        taken.append(_start(world))
    what = f"seconds from `serve` to the first response, {bills:,} bills"
    wall, processor = (statistics.median(times) for times in zip(*taken, strict=True))
    return at_most(what, 0.5, wall, processor)


def _start(world: World) -> tuple[float, float]:
    """Start the service once; return the wall time, and the processor time of all its processes."""
    port = free_port()
    words = [*COUNTERFOIL, "serve", "--port", str(port), "--admin-port", "0", "--log", "off"]
    # An installed program has compiled bytecode. Without it, the measured time would mostly be spent on compiling.
    environment = {name: value for name, value in world.environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.monotonic()
    server = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while time.monotonic() - began < PATIENCE_SEC:
            if answers(port):
                return time.monotonic() - began, machine.processor_seconds(server.pid) or 0.0
            time.sleep(PAUSE_SEC)
    finally:
        server.terminate()
        server.wait()
    raise SystemExit("the service did not start")


def answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as line:
            line.sendall(REQUEST)
            return line.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False
