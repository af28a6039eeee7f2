"""Runs a pull in a thread, so that Ctrl-C is noticed at once, even while the database is writing."""

import os
import threading
from typing import Protocol

from counterfoil.cli.main import INTERRUPTED
from counterfoil.cli.terminal import print_note
from counterfoil.client.errors import Stopped
from counterfoil.machine.process import SignalSafeEvent


class Stoppable(Protocol):
    """Work that another thread can stop. `run` then raises `Stopped`."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


def run_interruptibly(work: Stoppable) -> None:
    """Run the work to completion, and raise its error if it fails.

    On Ctrl-C, let the work save the rows that it has received, then raise KeyboardInterrupt.
    """
    errors: list[BaseException] = []
    # `Thread.join` is unsuitable: after an interrupted call, it reports that the thread has ended, even if it has not.
    done = SignalSafeEvent()

    def run() -> None:
        try:
            work.run()
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="pull", daemon=True).start()
    try:
        done.wait()
    except KeyboardInterrupt:
        _stop(work, done)
        if not errors or isinstance(errors[0], Stopped):
            raise
    if errors:
        raise errors[0]


def _stop(work: Stoppable, done: SignalSafeEvent) -> None:
    print_note("saving the rows that have been received, then stopping. Press Ctrl-C again to stop at once.")
    work.stop()
    try:
        done.wait()
    except KeyboardInterrupt:
        # The open transaction is lost. The copy remains in the state of the last commit.
        os._exit(INTERRUPTED)
