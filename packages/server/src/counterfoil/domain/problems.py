"""The error table, with one row per code. Codes are published and never renamed; messages may change."""

from enum import Enum

from msgspec import Struct

from counterfoil.model.messages import NOTHING, Message


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


BAD_QUERY = Problem(
    400, "bad_query", "A parameter is missing or invalid.", "Fix the request. The same request will fail again."
)
BAD_CURSOR = Problem(
    400,
    "bad_cursor",
    "The cursor is not valid here or its row no longer exists; start again without a cursor.",
    "Start this list again without a cursor.",
)
MARK_EXPIRED = Problem(
    400,
    "mark_expired",
    "The mark is too old, or the data was restored from a backup; start again without since.",
    "Delete your copy and the mark, then start again without `since`.",
)
NOT_SUPPORTED = Problem(
    400, "not_supported", "This parameter is not available on this endpoint.", "Leave the parameter out."
)
INVALID_KEY = Problem(
    401,
    "invalid_key",
    "The API key is missing or not valid.",
    "Stop and check your configuration. Do not retry.",
    Stage.BEFORE_ADMISSION,
)
KEY_REVOKED = Problem(
    401,
    "key_revoked",
    "This API key has been revoked.",
    "Stop and ask your operator for a new key.",
    Stage.BEFORE_ADMISSION,
)
CROSS_ORIGIN_REFUSED = Problem(
    403,
    "cross_origin_refused",
    "Requests from web pages are refused; call this API from a server.",
    "Call from your server, without browser headers.",
    Stage.BEFORE_ADMISSION,
)
SHOP_NOT_IN_SCOPE = Problem(
    403,
    "shop_not_in_scope",
    "This key does not cover that shop.",
    "Call `GET /v1/shops` to see which shops the key covers.",
)
PROVIDER_NOT_IN_SCOPE = Problem(
    403,
    "provider_not_in_scope",
    "This key does not cover that membership base.",
    "Call `GET /v1/shops` to see which bases the key covers.",
)
LOOKUP_NOT_ENABLED = Problem(
    403,
    "lookup_not_enabled",
    "This key has no permission to look up members by messaging user ID.",
    "Ask your operator for the permission.",
)
NOT_FOUND = Problem(
    404,
    "not_found",
    "Not found, or not readable with this key.",
    "Treat the resource as absent. If the path does not exist, check the URL.",
)
METHOD_NOT_ALLOWED = Problem(
    405, "method_not_allowed", "This service is read-only: use GET or HEAD.", "Use GET.", Stage.BEFORE_ADMISSION
)
RATE_LIMITED = Problem(
    429,
    "rate_limited",
    "Too many requests in the last minute; wait and retry.",
    "Wait as many seconds as `Retry-After` says, then continue.",
    Stage.BEFORE_ADMISSION,
)
QUOTA_EXCEEDED = Problem(
    429,
    "quota_exceeded",
    "The daily quota is used up; it resets at midnight, Thailand time.",
    "Stop until 00:00 Thailand time.",
)
INTERNAL = Problem(
    500,
    "internal",
    "The service failed unexpectedly; retry with increasing delays.",
    "Retry with increasing delays.",
    Stage.EITHER,
)
AUTH_UNAVAILABLE = Problem(
    503,
    "auth_unavailable",
    "Keys cannot be checked at the moment; this is not a problem with your key. Retry with increasing delays.",
    "Retry with increasing delays.",
    Stage.BEFORE_ADMISSION,
)

TABLE = tuple(value for value in list(globals().values()) if isinstance(value, Problem))
# Requests with these errors have no key, are not admitted, or do not reach the API, so they leave no record.
UNRECORDED = frozenset({INVALID_KEY, KEY_REVOKED, CROSS_ORIGIN_REFUSED, METHOD_NOT_ALLOWED, RATE_LIMITED})
RECORDED_CODES = tuple(problem.code for problem in TABLE if problem not in UNRECORDED)

_BY_CODE = {problem.code: problem for problem in TABLE}


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
