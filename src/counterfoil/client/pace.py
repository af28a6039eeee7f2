"""Limits the client to the number of requests per minute that its key allows."""

from collections import deque
from threading import Lock

# This is one second more than the service's minute window, because some requests take longer to arrive than others.
WINDOW_SEC = 61.0


class Pace:
    """Counts the requests of the last minute. Threads may share it."""

    def __init__(self, per_min: int | None = None) -> None:
        self._per_min = per_min
        self._sent: deque[float] = deque()
        self._lock = Lock()

    @property
    def has_limit(self) -> bool:
        return self._per_min is not None

    def set_limit(self, per_min: int) -> None:
        """Set the limit per minute to the service's value, which may change during a run."""
        with self._lock:
            self._per_min = max(1, per_min)

    def reserve(self, now: float) -> float:
        """Count a request and return 0. If the limit is reached, return the seconds to wait before trying again."""
        with self._lock:
            if self._per_min is not None and len(self._sent) >= self._per_min:
                wait = self._sent[-self._per_min] + WINDOW_SEC - now
                if wait > 0:
                    return wait
            self._sent.append(now)
            while self._sent[0] <= now - WINDOW_SEC:
                self._sent.popleft()
            return 0.0
