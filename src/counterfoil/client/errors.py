"""Errors that a call can raise. Each carries the request ID if there was one; the operator can search for it."""

from datetime import datetime


class CounterfoilError(Exception):
    """Base class: the call did not succeed."""

    def __init__(self, message: str, request_id: str | None = None) -> None:
        super().__init__(message if request_id is None else f"{message} (request {request_id})")
        self.request_id = request_id


class Unreachable(CounterfoilError):
    """The service did not answer, or only a proxy did, after all retries."""


class NotThisService(CounterfoilError):
    """The answer is not one of this API. Most often the address is wrong."""


class Refusal(CounterfoilError):
    """The service refused the request. `code` is its stable error code; branch on that."""

    def __init__(self, status: int, code: str, message: str, request_id: str | None) -> None:
        super().__init__(f"{code}: {message}", request_id)
        self.status = status
        self.code = code
        self.message = message


class QuotaSpent(Refusal):
    """The day's quota is used up. Requests are refused until `resumes_at`, midnight in Thailand."""

    def __init__(self, message: str, request_id: str | None, resumes_at: datetime) -> None:
        super().__init__(429, "quota_exceeded", f"{message} Try again from {resumes_at.isoformat()}.", request_id)
        self.resumes_at = resumes_at


class CopyMismatch(Exception):
    """The copy was made from another address, with another key or by a newer release, or there is no copy."""


def is_bad_cursor(error: CounterfoilError) -> bool:
    """Whether the cursor is not valid (it has expired, say, or its row was removed): start the list again."""
    return isinstance(error, Refusal) and error.code == "bad_cursor"
