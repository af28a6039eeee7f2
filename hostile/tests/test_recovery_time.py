"""The time until the service has recovered from an outage includes the time that the requests take."""

from collections.abc import Iterable

from hostile.outages import RECOVERY_SEC, seconds_until_recovery


class SlowService:
    """Serves requests or fails, as `outcomes` says. Each request advances the clock of the test."""

    def __init__(self, request_sec: float, outcomes: Iterable[bool]) -> None:
        self.now_sec = 100.0
        self._request_sec = request_sec
        self._outcomes = iter(outcomes)

    def is_served(self) -> bool:
        self.now_sec += self._request_sec
        return next(self._outcomes)

    def recovery(self) -> float:
        return seconds_until_recovery(self.is_served, lambda: self.now_sec)


def test_the_recovery_time_includes_slow_requests() -> None:
    assert SlowService(1.0, [False, True, False, *[True] * 5]).recovery() == 8.0


def test_five_requests_in_a_row_that_end_too_late_are_not_a_recovery_in_time() -> None:
    assert SlowService(RECOVERY_SEC / 4, [True] * 5).recovery() > RECOVERY_SEC


def test_a_service_that_does_not_recover_is_not_asked_again_after_the_allowed_time() -> None:
    assert SlowService(RECOVERY_SEC / 2, [False] * 3).recovery() == RECOVERY_SEC * 1.5
