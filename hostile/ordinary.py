"""Ordinary callers in a separate process, so that the attacker's own load does not distort their measurements.

`python -m hostile.ordinary PORTS TARGET CALLERS EVERY_SEC` reads the key from
standard input and prints `ready`. It runs until standard input is closed, and
then prints the calls and the faults as JSON.
"""

import subprocess
import sys
from types import TracebackType

from msgspec import json

from hostile.callers import Call, Caller, ConcurrentCallers
from hostile.checker import Checker, Document


class OrdinaryCallers:
    """Runs this module as a process during a `with` block. Afterwards, `calls` and `faults` contain its results."""

    def __init__(
        self, ports: list[int], key: str, target: str = "shops", callers: int = 4, every_sec: float = 0.02
    ) -> None:
        numbers = ",".join(map(str, ports))
        self._command = [sys.executable, "-m", "hostile.ordinary", numbers, target, str(callers), str(every_sec)]
        self._key = key
        self.calls: list[Call] = []
        self.faults: list[str] = []

    def __enter__(self) -> "OrdinaryCallers":
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(self._key.encode() + b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        printed, _ = self._process.communicate(timeout=90)
        self.calls, self.faults = json.decode(printed, type=tuple[list[Call], list[str]])


def main() -> None:
    ports, target, callers, every_sec = sys.argv[1:]
    key = sys.stdin.readline().strip()
    numbers = [int(port) for port in ports.split(",")]
    checker = Checker(Document.served_by(numbers[0]))
    group = [Caller(numbers[place % len(numbers)], key, target, checker=checker) for place in range(int(callers))]
    for caller in group:
        # The first call on a connection is slower, so it is not measured.
        caller.call()
        caller.calls.clear()
    with ConcurrentCallers(group, float(every_sec)) as concurrent:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
    sys.stdout.buffer.write(json.encode((concurrent.calls, concurrent.faults)))


if __name__ == "__main__":
    main()
