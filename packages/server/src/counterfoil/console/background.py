"""Work that may take longer than an operator waits for a page. It goes on in a thread of its own.

Whoever uses this has to leave the store complete after each step, because the console may be stopped at any time.
"""

import sys
import threading
from collections.abc import Callable

# A page waits this long for the work to end.
WAIT_SEC = 5.0


def finishes_soon(name: str, work: Callable[[], object], wait_sec: float = WAIT_SEC) -> bool:
    """Start the work, and return whether it has ended while the page waited. Raise its error if it has failed by then.

    A later error is written to standard error, without its message, which may contain data.
    """
    failures: list[Exception] = []
    is_reported = threading.Event()

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the page raises it, or it is reported here
            failures.append(error)
            if is_reported.is_set():
                sys.stderr.write(f"counterfoil console: {name} has failed ({type(error).__name__}).\n")

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(wait_sec)
    is_reported.set()
    if failures:
        raise failures[0]
    return not thread.is_alive()
