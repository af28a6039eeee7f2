"""The client's own limiter: it never sends more in a minute than its key allows."""

from collections import deque
from threading import Lock

# A little more than the service's minute: requests may travel at different speeds.
WINDOW_SEC = 61.0


class Pace:
    """The instants of the requests sent in the last minute. Several threads may share one."""

    def __init__(self, per_min: int | None = None) -> None:
        self._per_min = per_min
        self._sent: deque[float] = deque()
        self._lock = Lock()

    @property
    def known(self) -> bool:
        return self._per_min is not None

    def learn(self, per_min: int) -> None:
        """What the service says the ceiling is; it may change while we run."""
        with self._lock:
            self._per_min = max(1, per_min)

    def claim(self, now: float) -> float:
        """Take a place in the window: 0 when it was free, otherwise the seconds after which to ask again."""
        with self._lock:
            if self._per_min is not None and len(self._sent) >= self._per_min:
                wait = self._sent[-self._per_min] + WINDOW_SEC - now
                if wait > 0:
                    return wait
            self._sent.append(now)
            while self._sent[0] <= now - WINDOW_SEC:
                self._sent.popleft()
            return 0.0
