"""Builds the bodies and headers of responses."""

import hashlib
import re
from functools import lru_cache

from backports import zstd
from isal import isal_zlib
from msgspec import UNSET, Struct, UnsetType, json

from counterfoil.domain.access import remaining
from counterfoil.domain.problems import METHOD_NOT_ALLOWED, Refused, Stage, TooManyRequests
from counterfoil.model.calendar import iso_utc
from counterfoil.reads import Answer, Caller

Headers = list[tuple[str, str]]

# The user agent of the supervisor's own request for the OpenAPI document, which is not logged.
PROBE_AGENT = "counterfoil-probe"
# Compressing a smaller body costs more than it saves.
MIN_COMPRESSED_BYTES = 600
# Higher levels take much longer and save few bytes: see docs/evidence/performance.md.
GZIP_LEVEL = 1
ZSTD_LEVEL = 1
GZIP_WRAPPER = 31

TAG_BYTES = 12

VARY = "Accept-Encoding, Authorization, Origin, Sec-Fetch-Site, Sec-Fetch-Mode, Sec-Fetch-Dest"
_FIXED_HEADERS: Headers = [
    ("content-type", "application/json"),
    ("cache-control", "private, no-cache"),
    ("vary", VARY),
    ("x-content-type-options", "nosniff"),
    ("server", "counterfoil"),
]
_REQUEST_ID = re.compile(r"[A-Za-z0-9._~:-]{1,128}", re.ASCII)
_WEIGHT = re.compile(r"[01](?:\.[0-9]*)?", re.ASCII)
_ENTITY_TAG = re.compile(r'(?:W/)?("[^"]*")')


class Response(Struct):
    """A response as it is passed to the server."""

    status: int
    headers: Headers
    body: bytes
    encoding: str | None = None


def request_id(header: str | None) -> str | None:
    """Return the caller's own request ID if it is well-formed, else None."""
    return header if header and _REQUEST_ID.fullmatch(header) else None


def success_body(answer: Answer) -> bytes:
    """Return the body `{"ok":true,"data":…}`. Include `nextCursor` and `mark` if they are set, even to None."""
    server_time = iso_utc(answer.horizon).encode()
    if answer.next_cursor is UNSET and answer.mark is UNSET:
        tail = b',"serverTime":"%b"}' % server_time
    else:
        cursor = _field(b"nextCursor", answer.next_cursor)
        tail = b'%b%b,"serverTime":"%b"}' % (cursor, _field(b"mark", answer.mark), server_time)
    if isinstance(answer.data, bytes):
        return b'{"ok":true,"data":%b%b' % (answer.data, tail)
    return b'{"ok":true,"data":[%b]%b' % (b",".join(answer.data), tail)


def _field(name: bytes, value: str | UnsetType | None) -> bytes:
    if value is UNSET:
        return b""
    return b',"%b":%b' % (name, json.encode(value))


def problem_body(refused: Refused) -> bytes:
    body: dict[str, object] = {"ok": False, "error": refused.problem.code, "message": refused.message}
    if isinstance(refused, TooManyRequests):
        body |= {"retryAfterSec": refused.retry_after_sec, "limit": refused.limit, "windowSec": refused.window_sec}
    return json.encode(body)


def problem_headers(refused: Refused) -> Headers:
    if isinstance(refused, TooManyRequests):
        return [("retry-after", str(refused.retry_after_sec))]
    if refused.problem is METHOD_NOT_ALLOWED:
        return [("allow", "GET, HEAD")]
    if refused.problem.status == 401:
        return [("www-authenticate", 'Bearer realm="counterfoil"')]
    return []


def response_headers(request: str, caller: Caller | None, refused: Refused | None = None) -> Headers:
    """Return the headers of a response. They include the quota if the request was admitted."""
    if caller is None or (refused and refused.problem.stage is Stage.BEFORE_ADMISSION):
        return [*_FIXED_HEADERS, ("x-request-id", request)]
    return [
        *_FIXED_HEADERS,
        ("x-request-id", request),
        ("x-ratelimit-limit", str(caller.key.per_day)),
        ("x-ratelimit-remaining", str(remaining(caller.key, caller.admitted.count))),
    ]


def bare_headers(request: str) -> Headers:
    """Return the headers of a response without a body, for a request that is not well-formed HTTP."""
    return [("cache-control", "no-store"), ("server", "counterfoil"), ("x-request-id", request)]


class EntityTags:
    """Computes ETags that ignore encoding and serverTime, keyed so that nobody can try phone numbers on a hash."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        # Most polls return no data, so the ETag of an empty answer is computed in advance.
        self._of_nothing = self._tag(b"", None)

    def of(self, answer: Answer) -> str:
        if not answer.seal and not answer.next_cursor:
            return self._of_nothing
        return self._tag(answer.seal, answer.next_cursor or None)

    def _tag(self, seal: bytes, next_cursor: str | None) -> str:
        # Not SHA-256, which takes twice as long on a processor without instructions for it.
        tag = hashlib.blake2b(seal, digest_size=TAG_BYTES, key=self._key)
        if next_cursor:
            tag.update(b"\0" + next_cursor.encode())
        return f'W/"{tag.hexdigest()}"'


def matches_etag(if_none_match: str, tag: str) -> bool:
    return if_none_match.strip() == "*" or tag[2:] in _ENTITY_TAG.findall(if_none_match)


# --- content encodings -------------------------------------------------------


# The result is cached, because a caller sends the same header with every request.
@lru_cache(maxsize=64)
def choose_encoding(accept_encoding: str, is_small: bool) -> str | None:
    """Return the encoding that the caller prefers, "zstd" or "gzip", or None if the body should not be compressed.

    If the caller has no preference, it is "zstd". A small body is compressed only if the caller refuses it as it is.
    """
    weights = _weights(accept_encoding)
    if is_small and weights.get("identity", 1.0) > 0:
        return None
    wildcard = weights.get("*", 0.0)
    zstd_weight, gzip_weight = weights.get("zstd", wildcard), weights.get("gzip", wildcard)
    best = max(zstd_weight, gzip_weight)
    if best <= 0 or best < weights.get("identity", 0.0):
        return None
    return "zstd" if zstd_weight == best else "gzip"


def _weights(accept_encoding: str) -> dict[str, float]:
    weights = {}
    for part in accept_encoding.lower().split(","):
        name, _, parameter = part.partition(";")
        key, _, value = map(str.strip, parameter.partition("="))
        weight = 1.0
        if key == "q":
            weight = float(value) if _WEIGHT.fullmatch(value) else 0.0
        weights[name.strip()] = weight
    return weights


def compress(body: bytes, encoding: str) -> bytes:
    if encoding == "zstd":
        return zstd.compress(body, ZSTD_LEVEL)
    compressor = isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, GZIP_WRAPPER)
    return compressor.compress(body) + compressor.flush()


# --- pages that are served next to the API and can be read without a key ----

# Logs and counters use this route name for all static pages.
PAGE_ROUTE = "reference"

_VARY = "Accept-Encoding, Origin, Sec-Fetch-Site, Sec-Fetch-Mode, Sec-Fetch-Dest"


class StaticPage(Struct, frozen=True):
    """A page that does not change while the service runs."""

    content_type: str
    body: bytes
    policy: str = "default-src 'none'; frame-ancestors 'none'"


def page_headers(page: StaticPage, request_id: str) -> Headers:
    return [
        ("content-type", page.content_type),
        ("content-security-policy", page.policy),
        ("cache-control", "no-cache"),
        ("vary", _VARY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("server", "counterfoil"),
        ("x-request-id", request_id),
    ]
