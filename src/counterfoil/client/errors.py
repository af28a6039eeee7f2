"""What a call can end with other than an answer. Every one carries the request id, for the operator to find it by."""

from datetime import datetime


class CounterfoilError(Exception):
    """Something kept a call from being answered."""

    def __init__(self, message: str, request_id: str | None = None) -> None:
        super().__init__(message if request_id is None else f"{message} (request {request_id})")
        self.request_id = request_id


class Unreachable(CounterfoilError):
    """No answer came, however often it was tried."""


class NotThisService(CounterfoilError):
    """Something answered, but not in the words of this API: most often the address is wrong."""


class Refusal(CounterfoilError):
    """The service said no. `code` is its stable error code; branch on that."""

    def __init__(self, status: int, code: str, message: str, request_id: str | None) -> None:
        super().__init__(f"{code}: {message}", request_id)
        self.status = status
        self.code = code
        self.message = message


class QuotaSpent(Refusal):
    """The day's quota is used up. Nothing will be answered before `resumes_at`, midnight in Thailand."""

    def __init__(self, message: str, request_id: str | None, resumes_at: datetime) -> None:
        super().__init__(429, "quota_exceeded", f"{message} Try again from {resumes_at.isoformat()}.", request_id)
        self.resumes_at = resumes_at


class CopyMismatch(Exception):
    """The copy was made from somewhere else, or by a newer program; the message says what to do."""


def is_bad_cursor(error: CounterfoilError) -> bool:
    """Whether the row of a cursor is gone: the list is to be begun anew."""
    return isinstance(error, Refusal) and error.code == "bad_cursor"
