"""A signal that asks the service to stop is never lost, whatever the supervisor is doing."""

import subprocess
import sys
import threading
from types import FrameType
from typing import Any

from counterfoil.program.process import SignalSafeEvent

# The main thread waits; then another thread receives a signal.
_SIGNALLED_BESIDE_THE_MAIN_THREAD = """
import os, signal, threading
from pathlib import Path
from counterfoil.program.process import SignalSafeEvent

stopped = SignalSafeEvent()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())

def main_thread_sleeps():
    return Path(f"/proc/self/task/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[0] == "S"

def receive():
    while not main_thread_sleeps():
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

threading.Thread(target=receive).start()
stopped.wait()
"""

# Workers that end at once are replaced. While the supervisor does this, a signal arrives, each time at a later line.
_SIGNALLED_AT_EVERY_LINE = """
import signal, sys
from counterfoil.serving import workers

workers.COMMAND = ("/bin/false",)
TRACED = {"_replace", "_start"}

def run(line):
    lines = iter(range(line))

    def trace(frame, event, _):
        if event == "line" and next(lines, None) == line - 1:
            signal.raise_signal(signal.SIGTERM)
        return trace

    sys.settrace(lambda frame, *_: trace if frame.f_code.co_name in TRACED else None)
    workers.Workers(2, b"", [], 0, lambda event: None).run(lambda: None)
    sys.settrace(None)

for line in range(1, 40):
    run(line)
"""

# A worker cannot be started. The report of that asks the supervisor to stop.
_WITHOUT_THE_PROGRAM = """
import signal
from counterfoil.serving import workers

workers.COMMAND = ("/nowhere/python",)
reports = []

def log(event):
    reports.append(event.message)
    if len(reports) == 3:
        signal.raise_signal(signal.SIGTERM)

workers.Workers(1, b"", [], 0, log).run(lambda: None)
assert reports == ["Cannot start worker-1: No such file or directory"] * 3, reports
"""


def run(source: str) -> None:
    subprocess.run([sys.executable, "-c", source], check=True, timeout=60)


def test_a_signal_that_arrives_while_workers_are_replaced_stops_the_service() -> None:
    run(_SIGNALLED_AT_EVERY_LINE)


def test_a_supervisor_that_cannot_start_a_worker_tries_again_and_can_be_stopped() -> None:
    run(_WITHOUT_THE_PROGRAM)


def test_a_signal_that_arrives_while_the_supervisor_begins_to_wait_does_not_block_it() -> None:
    stopped = SignalSafeEvent()

    def signalled_at_every_line(_: FrameType, event: str, __: object) -> Any:
        # Python runs the handler in the same thread, between two steps of the code that the signal interrupts.
        if event == "line":
            stopped.set()
        return signalled_at_every_line

    def wait() -> None:
        sys.settrace(lambda frame, *_: signalled_at_every_line if frame.f_code.co_name == "wait" else None)
        stopped.wait()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(5)
    assert not waiting.is_alive()


def test_a_signal_that_another_thread_receives_wakes_the_waiting_main_thread() -> None:
    run(_SIGNALLED_BESIDE_THE_MAIN_THREAD)
