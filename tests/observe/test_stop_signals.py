"""A signal that asks the service to stop is never lost, whatever the supervisor is doing."""

import subprocess
import sys
import threading
from types import FrameType
from typing import Any

from counterfoil.serving.server import _PersistentServer

# The main thread waits; then another thread receives a signal.
_SIGNALLED_BESIDE_THE_MAIN_THREAD = """
import os, signal, threading
from pathlib import Path
from counterfoil.machine.signals import SignalSafeEvent

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


class SignalledList(list[int]):
    """The list of dead workers. A stop signal arrives just after the supervisor has cleared the list."""

    def __init__(self, server: Any) -> None:
        super().__init__([0])
        self._server = server

    def clear(self) -> None:
        super().clear()
        self._server.signal_handler_interrupt()


def test_a_signal_that_arrives_while_a_dead_worker_is_noticed_stops_the_service() -> None:
    server = _PersistentServer(target="x", workers=1, respawn_failed_workers=True)
    # The worker has died before, so after its next death it is replaced only after a pause.
    server._pauses.next(0)
    server.interrupt_children = SignalledList(server)
    server.main_loop_interrupt.set()
    loop = threading.Thread(target=server._serve_loop, args=(None, None), daemon=True)
    loop.start()
    loop.join(5)
    assert not loop.is_alive()


def test_a_signal_that_arrives_while_the_supervisor_begins_to_wait_does_not_block_it() -> None:
    server = _PersistentServer(target="x", workers=1)

    def signalled_at_every_line(_: FrameType, event: str, __: object) -> Any:
        # Python runs the handler in the same thread, between two steps of the code that the signal interrupts.
        if event == "line":
            server.signal_handler_interrupt()
        return signalled_at_every_line

    def wait() -> None:
        sys.settrace(lambda frame, *_: signalled_at_every_line if frame.f_code.co_name == "wait" else None)
        server.main_loop_interrupt.wait()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(5)
    assert not waiting.is_alive()


def test_a_signal_that_another_thread_receives_wakes_the_waiting_main_thread() -> None:
    subprocess.run([sys.executable, "-c", _SIGNALLED_BESIDE_THE_MAIN_THREAD], check=True, timeout=20)
