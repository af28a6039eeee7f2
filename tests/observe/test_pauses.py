"""Tests how long the supervisor waits before it replaces a worker."""

from counterfoil.serving.workers import FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC, STEADY_SEC, Pauses


class Died:
    """Simulates the deaths of workers at chosen instants."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._pauses = Pauses(lambda: self.now)

    def after(self, seconds: float, worker: int = 0) -> float:
        """Return the pause before a worker that lived this long is replaced."""
        self.now += seconds
        pause = self._pauses.next(worker)
        self.now += pause
        return pause


def test_the_first_death_of_a_worker_causes_no_pause() -> None:
    died = Died()
    assert [died.after(0, worker) for worker in (0, 1)] == [0, 0]


def test_a_worker_that_dies_repeatedly_is_replaced_after_longer_and_longer_pauses() -> None:
    died = Died()
    pauses = [died.after(1) for _ in range(10)]
    assert pauses[:4] == [0, FIRST_PAUSE_SEC, 2 * FIRST_PAUSE_SEC, 4 * FIRST_PAUSE_SEC]
    assert pauses[-1] == LONGEST_PAUSE_SEC


def test_a_worker_that_ran_for_a_while_is_replaced_at_once() -> None:
    died = Died()
    for _ in range(5):
        died.after(1)
    assert died.after(STEADY_SEC) == 0
