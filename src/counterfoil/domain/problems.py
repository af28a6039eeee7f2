"""The error table, which `problems.toml` contains, and the exceptions with which a request is refused."""

import tomllib
from enum import Enum
from importlib.resources import files

from msgspec import Struct, convert

from counterfoil.domain.messages import NOTHING, Message


class Stage(Enum):
    """The stage at which a request is refused. Only responses after admission have the rate-limit headers."""

    BEFORE_ADMISSION = "before admission"
    AFTER_ADMISSION = "after admission"
    EITHER = "either"


class Problem(Struct, frozen=True):
    """One row of the error table. `action` is what a client should do."""

    status: int
    code: str
    message: str
    action: str
    stage: Stage = Stage.AFTER_ADMISSION


TABLE = tuple(
    convert({"code": code} | row, Problem)
    for code, row in tomllib.loads((files("counterfoil.domain") / "problems.toml").read_text("utf-8")).items()
)
_BY_CODE = {problem.code: problem for problem in TABLE}


def with_code(code: str) -> Problem:
    return _BY_CODE[code]


BAD_QUERY = with_code("bad_query")
BAD_CURSOR = with_code("bad_cursor")
MARK_EXPIRED = with_code("mark_expired")
NOT_SUPPORTED = with_code("not_supported")
INVALID_KEY = with_code("invalid_key")
KEY_REVOKED = with_code("key_revoked")
CROSS_ORIGIN_REFUSED = with_code("cross_origin_refused")
SHOP_NOT_IN_SCOPE = with_code("shop_not_in_scope")
PROVIDER_NOT_IN_SCOPE = with_code("provider_not_in_scope")
LOOKUP_NOT_ENABLED = with_code("lookup_not_enabled")
NOT_FOUND = with_code("not_found")
METHOD_NOT_ALLOWED = with_code("method_not_allowed")
RATE_LIMITED = with_code("rate_limited")
QUOTA_EXCEEDED = with_code("quota_exceeded")
INTERNAL = with_code("internal")
AUTH_UNAVAILABLE = with_code("auth_unavailable")
# Requests with these errors have no key, are not admitted, or do not reach the API, so they leave no record.
UNRECORDED = frozenset({INVALID_KEY, KEY_REVOKED, CROSS_ORIGIN_REFUSED, METHOD_NOT_ALLOWED, RATE_LIMITED})
RECORDED_CODES = tuple(problem.code for problem in TABLE if problem not in UNRECORDED)


def explanation(code: str) -> Message:
    """Return the message of an error code, which is empty if the code is unknown."""
    problem = _BY_CODE.get(code)
    return Message(f"error.{code}", problem.message) if problem else NOTHING


def what_to_do(code: str) -> Message:
    """Return what a client should do about an error code, which is empty if the code is unknown."""
    problem = _BY_CODE.get(code)
    return Message(f"error.{code}.action", problem.action) if problem else NOTHING


class Refused(Exception):
    """A request is refused. `key_id` is set if its key is revoked or the minute window of the key is full."""

    def __init__(self, problem: Problem, message: str | None = None, *, key_id: str | None = None) -> None:
        super().__init__(problem.code)
        self.problem = problem
        self.message = message or problem.message
        self.key_id = key_id


class TooManyRequests(Refused):
    """A request is refused, because the minute window is full. The exception has the limit and the time to wait."""

    def __init__(self, key_id: str, retry_after_sec: int, limit: int, window_sec: int) -> None:
        super().__init__(RATE_LIMITED, key_id=key_id)
        self.retry_after_sec = retry_after_sec
        self.limit = limit
        self.window_sec = window_sec
