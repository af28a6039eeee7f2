"""The client's errors. An error about a response contains the request ID, which operators can look up."""

from datetime import datetime


class CounterfoilError(Exception):
    """Base class for errors raised by a failed call."""

    def __init__(self, message: str, request_id: str | None = None) -> None:
        super().__init__(message if request_id is None else f"{message} (request {request_id})")
        self.request_id = request_id


class Unreachable(CounterfoilError):
    """The service did not respond, even after retries, or only a proxy did. Also raised if the client is closed."""


class NotThisService(CounterfoilError):
    """The response is not from this API, or the service has no change feed. Usually the base URL is wrong."""


class ResponseTooLarge(CounterfoilError):
    """The response is larger than a response of this API may be, and was not read to its end."""


class Refusal(CounterfoilError):
    """The service refused the request. Programs should check `code`, the stable error code, and not the message."""

    def __init__(self, status: int, code: str, message: str, request_id: str | None) -> None:
        super().__init__(f"{code}: {message}", request_id)
        self.status = status
        self.code = code
        self.message = message


class QuotaSpent(Refusal):
    """The day's quota is used up. Requests are refused until `resumes_at`, midnight in Thailand."""

    def __init__(self, message: str, request_id: str | None, resumes_at: datetime) -> None:
        super().__init__(429, "quota_exceeded", f"{message} Try again after {resumes_at.isoformat()}.", request_id)
        self.resumes_at = resumes_at


class CopyMismatch(Exception):
    """The copy cannot be used in this run, for example because it was made with another key or by a newer release."""


class Stopped(Exception):
    """The run was stopped on request. Its progress is stored, and the next run continues from there."""


def is_bad_cursor(error: CounterfoilError) -> bool:
    """Return whether the service refused the cursor, for example because it expired or its row was removed."""
    return isinstance(error, Refusal) and error.code == "bad_cursor"
