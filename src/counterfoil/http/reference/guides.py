"""Short explanations for the reference: the first call, errors, the order of checks, paging and limits."""

from collections.abc import Iterable

from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, WINDOW_SEC
from counterfoil.domain.calendar import HOUR_MS
from counterfoil.domain.paging import LIFETIME_MS
from counterfoil.domain.problems import (
    AUTH_UNAVAILABLE,
    BAD_CURSOR,
    BAD_QUERY,
    CROSS_ORIGIN_REFUSED,
    INVALID_KEY,
    KEY_REVOKED,
    LOOKUP_NOT_ENABLED,
    MARK_EXPIRED,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    NOT_SUPPORTED,
    PROVIDER_NOT_IN_SCOPE,
    QUOTA_EXCEEDED,
    RATE_LIMITED,
    SHOP_NOT_IN_SCOPE,
    Problem,
)
from counterfoil.domain.requests import DEFAULT_LIMIT, MAX_LIMIT, MAX_SPAN_DAYS

# The checks in the order in which they run, each with the errors that it can return.
CHECKS: tuple[tuple[str, tuple[Problem, ...]], ...] = (
    ("browser", (CROSS_ORIGIN_REFUSED,)),
    ("path and method", (NOT_FOUND, METHOD_NOT_ALLOWED)),
    ("key", (INVALID_KEY, KEY_REVOKED, AUTH_UNAVAILABLE)),
    ("rate limit", (RATE_LIMITED,)),
    ("quota", (QUOTA_EXCEEDED,)),
    ("permission", (LOOKUP_NOT_ENABLED,)),
    ("parameters", (NOT_SUPPORTED, BAD_QUERY)),
    ("scope", (SHOP_NOT_IN_SCOPE, PROVIDER_NOT_IN_SCOPE)),
    ("cursor", (BAD_CURSOR, MARK_EXPIRED)),
    ("existence", (NOT_FOUND,)),
)


def order_of_checks() -> str:
    """Return the checks as a numbered list in Markdown."""
    return "\n".join(
        f"{number}. {name[0].upper() + name[1:]}: {_codes(problems)}"
        for number, (name, problems) in enumerate(CHECKS, 1)
    )


def _codes(problems: Iterable[Problem]) -> str:
    return ", ".join(f"`{problem.code}`" for problem in problems)


FIRST_CALL = """\
Send your key in the `Authorization` header and nowhere else. The examples read the address and the key from the
environment variables `BASE` and `KEY`. Your operator gives you both.
"""

PAGING = f"""\
Lists take `limit` ({DEFAULT_LIMIT} rows per page by default; at most {MAX_LIMIT}, or 1,000 for changes and digests) and
`cursor`. Leave `cursor` out on the first page. Then send `nextCursor` back as `cursor`, with all other parameters
unchanged, until it is null.

**Only null ends a list.** A full page may be followed by an empty one. A cursor is valid only for the same list and
key. For bills and members, it is valid for {LIFETIME_MS // HOUR_MS // 24} days after it was last handed out or used. On
`bad_cursor`, start the list again without a cursor.
"""

LIMITS = f"""\
Unless your key has other limits, it may send {DEFAULT_PER_MIN} requests in any {WINDOW_SEC} seconds (`rate_limited`)
and {DEFAULT_PER_DAY:,} requests per day, Thailand time (`quota_exceeded`). `GET /v1/usage` shows your limits. A read by
day covers at most {MAX_SPAN_DAYS} days.
"""
