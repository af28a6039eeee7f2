"""The attempts of a call, and its requests: base URL, headers, limits of responses."""

import logging
import threading
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

import msgspec
from backports import zstd
from msgspec import Struct

from counterfoil.client import errors
from counterfoil.model.calendar import DAY_MS, THAI_TIME, from_ms, thai_day, thai_midnight
from counterfoil.model.text import without_password
from counterfoil.model.version import __version__
from counterfoil.program.http_connections import HttpConnections, NoResponse

LOGGER = logging.getLogger("counterfoil.client")
"""What the client waits for. It prints nothing unless the program configures logging."""
LOGGER.addHandler(logging.NullHandler())

# --- the rate limit ------------------------------------------------------------------

# This is one second more than the service's minute window, because some requests take longer to arrive than others.
WINDOW_SEC = 61.0


class Pace:
    """Counts the requests of the last minute. Threads may share it."""

    def __init__(self, per_min: int | None = None) -> None:
        self._per_min = per_min
        self._sent: deque[float] = deque()
        self._lock = threading.Lock()

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


# --- after a failed request ----------------------------------------------------------

MAX_TRIES = 8
FIRST_PAUSE_SEC = 0.5
MAX_PAUSE_SEC = 60.0


def _is_temporary(error: errors.CounterfoilError) -> bool:
    return isinstance(error, errors.Unreachable) or (isinstance(error, errors.Refusal) and error.status >= 500)


def _pause_sec(tries: int, random_number: float) -> float:
    """Return how long to wait after `tries` failures in a row: exponential back-off with jitter."""
    return min(MAX_PAUSE_SEC, FIRST_PAUSE_SEC * 2.0 ** (tries - 1)) * (0.5 + random_number / 2)


def _retry_after_sec(retry_after: object) -> float:
    """Return `Retry-After` in seconds, at least 1. A date or an invalid value counts as 1, an hour or more as 60."""
    try:
        seconds = float(str(retry_after))
    except ValueError:
        return 1.0
    return max(1.0, seconds) if seconds < 3600 else 60.0


# --- one call ------------------------------------------------------------------------

# Reasons to wait. Progress shows them after the words "waiting for".
RATE_LIMIT, FAILED_REQUEST = "the rate limit", "the service"
# If a page is too large, the client asks for this many rows instead. Records have at most 512 KiB.
SMALLEST_LIMIT = 25
# Texts of an error response are cut off after this many characters.
MAX_TEXT = 1_000


# Cursors and marks of the service have fewer than 1,024 characters.
Position = Annotated[str, msgspec.Meta(max_length=4_096)]


class Call(Struct, frozen=True):
    """A GET request; `path` is relative to the base URL."""

    path: str
    query: tuple[tuple[str, str], ...] = ()


class HttpResponse(Struct, frozen=True):
    """An HTTP response. Its headers are looked up by names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


# A request without a usable response has an error as its outcome.
Outcome = HttpResponse | errors.Unreachable | errors.ResponseTooLarge


class Environment(Struct, frozen=True):
    """Clocks and a source of random numbers, which tests replace."""

    monotonic: Callable[[], float]
    now: Callable[[], float]
    random_number: Callable[[], float]


class _ErrorBody(Struct):
    """The fields of an error response that the client uses. Fields other than `error` may have any type."""

    error: str
    message: object = ""
    retry_after_sec: object = msgspec.field(name="retryAfterSec", default=None)
    limit: object = None


_decode_error = msgspec.json.Decoder(_ErrorBody).decode


def response_to(
    call: Call,
    pace: Pace,
    environment: Environment,
    get: Callable[[Call], Outcome],
    sleep: Callable[[float, str], None],
) -> HttpResponse:
    """Call `get` at the key's pace, and again while errors are temporary. `sleep` gets the seconds and the reason."""
    tries = 0
    while True:
        wait = pace.reserve(environment.monotonic())
        if wait > 0:
            LOGGER.info("waiting %.1f s for the rate limit", wait)
            sleep(wait, RATE_LIMIT)
            continue
        outcome = get(call)
        match outcome:
            case HttpResponse(200):
                return outcome
            case errors.ResponseTooLarge():
                call = _with_smallest_limit(call, outcome)
                continue
            case HttpResponse():
                body = _error_body(outcome)
                if body is not None and body.error == "rate_limited":
                    # This is not a failure, so it does not count as a failed attempt.
                    if isinstance(body.limit, int):
                        pace.set_limit(body.limit)
                    wait = _retry_after_sec(outcome.headers.get("retry-after") or body.retry_after_sec)
                    LOGGER.info("waiting %.1f s, because the service limits the rate", wait)
                    sleep(wait, RATE_LIMIT)
                    continue
                error = _error(outcome, body, environment.now())
            case errors.Unreachable():
                error = outcome
        tries += 1
        if tries >= MAX_TRIES or not _is_temporary(error):
            raise error
        pause = _pause_sec(tries, environment.random_number())
        # Only the kind of the request, and no text of the answer: both may have tokens of members.
        kind = call.path.partition("/")[0]
        reason = f"status {error.status}" if isinstance(error, errors.Refusal) else "no usable response"
        LOGGER.warning("request for %s: %s; try %d of %d in %.1f s", kind, reason, tries + 1, MAX_TRIES, pause)
        sleep(pause, FAILED_REQUEST)


def _with_smallest_limit(call: Call, error: errors.ResponseTooLarge) -> Call:
    """Return the call with a smaller limit, or raise the error if the response cannot be made smaller."""
    query = dict(call.query)
    if int(query.get("limit", 0)) <= SMALLEST_LIMIT:
        raise error
    query["limit"] = str(SMALLEST_LIMIT)
    return Call(call.path, tuple(query.items()))


def _error_body(response: HttpResponse) -> _ErrorBody | None:
    """Return the body of an error response, or None if the response comes from a proxy or another service."""
    try:
        return _decode_error(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _error(response: HttpResponse, body: _ErrorBody | None, now: float) -> errors.CounterfoilError:
    request_id = request_id_of(response)
    if body is None:
        if response.status >= 500 or response.status == 429:
            return errors.Unreachable(
                f"the response had HTTP status {response.status} but no API error code, so it "
                "did not come from the service. Try again later, or check the base URL.",
                request_id,
            )
        return errors.NotThisService(
            f"the response had HTTP status {response.status} but no API error code. Check the base URL.", request_id
        )
    text = body.message[:MAX_TEXT] if isinstance(body.message, str) else ""
    if body.error == "quota_exceeded":
        today = thai_day(int(now * 1000))
        return errors.QuotaSpent(text, request_id, from_ms(thai_midnight(today) + DAY_MS, THAI_TIME))
    return errors.Refusal(response.status, body.error[:MAX_TEXT], text, request_id)


def request_id_of(response: HttpResponse) -> str | None:
    request_id = response.headers.get("x-request-id")
    return None if request_id is None else request_id[:MAX_TEXT]


TIMEOUT_SEC = 30.0
# The timeout applies to each read. A response must be complete after this many timeouts, even if bytes keep arriving.
TIMEOUTS_PER_RESPONSE = 4
# A response may have this many bytes, compressed and decompressed. The largest page of the change feed has 8.6 MiB, and
# a page of SMALLEST_LIMIT records, of at most 512 KiB each, 12.5 MiB.
MAX_BODY_BYTES = 16 * 1024 * 1024
# So much of a body is read at once.
PART_BYTES = 256 * 1024
# RFC 9659 allows a window of 8 MiB.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}


# Where the API is on a host, unless the service has another prefix.
API_PATH = "/ext/v1"


def checked_url(base_url: str) -> str:
    """Return the base URL, with API_PATH if it has no path. Raise `ValueError` if it is not valid."""
    try:
        url = urlsplit(base_url)
        is_usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        # The original message may quote a part of the URL that contains a password.
        raise ValueError(f"{without_password(base_url)!r} is not a valid URL") from None
    if url.username is not None:
        raise ValueError(
            "the base URL must not contain a user name or a password, because they would be sent instead of the key"
        )
    has_more = "?" in base_url or "#" in base_url
    if not is_usable or has_more or len(base_url.split()) != 1 or not base_url.isprintable():
        masked = without_password(base_url)
        raise ValueError(f"{masked!r} is not a valid base URL. Use a URL such as https://example.com/ext/v1")
    if not url.netloc.isascii():
        try:
            base_url = base_url.replace(url.netloc, url.netloc.encode("idna").decode(), 1)
        except UnicodeError:
            raise ValueError(f"{base_url!r} is not a valid URL: its host is not a valid name") from None
    return base_url.rstrip("/") + ("" if url.path.strip("/") else API_PATH)


def request_headers(key: str) -> dict[str, str]:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("this is not a valid API key: a key consists of letters, digits and underscores")
    return {
        "authorization": f"Bearer {key}",
        "accept": "application/json",
        "accept-encoding": "zstd, gzip",
        "user-agent": f"counterfoil-client/{__version__}",
    }


class Connection:
    """Sends the requests of the client, and keeps connections open between them. Threads may share it."""

    def __init__(self, base_url: str, key: str, timeout_sec: float) -> None:
        self._base_url = base_url
        self._headers = request_headers(key)
        self._http = HttpConnections(base_url, timeout_sec, TIMEOUTS_PER_RESPONSE * timeout_sec)
        self._is_closed = False

    def get(self, call: Call) -> Outcome:
        if self._is_closed:
            return errors.Unreachable("the client is closed")
        query = f"?{urlencode(call.query)}" if call.query else ""
        try:
            with self._http.response("GET", f"{self._base_url}/{call.path}{query}", self._headers) as response:
                body = bytearray()
                for part in response.stream(PART_BYTES, decode_content=False):
                    body += part
                    if len(body) > MAX_BODY_BYTES:
                        break
                if response.status == 200 and not body and not (HAS_END & {name.lower() for name in response.headers}):
                    # The connection may have ended within the headers.
                    return errors.Unreachable(f"the response of {self._base_url} is empty")
                return _decoded(response.status, response.headers, body)
        except NoResponse as error:
            return errors.Unreachable(f"the service cannot be reached at {self._base_url}: {error}")
        except DAMAGES as error:
            return errors.Unreachable(f"the response of {self._base_url} is damaged: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Close all connections. Requests of other threads end at once, without a response."""
        self._is_closed = True
        self._http.close()


# Headers that say where a body ends.
HAS_END = {"content-length", "transfer-encoding"}
# What is raised if a body cannot be decompressed.
DAMAGES = (zlib.error, zstd.ZstdError, EOFError)


def _decoded(status: int, headers: Mapping[str, str], body: bytearray) -> HttpResponse | errors.ResponseTooLarge:
    """Return the response with its decompressed body. A body that ends too early raises one of DAMAGES."""
    if len(body) <= MAX_BODY_BYTES:
        whole = _decompressed(headers.get("content-encoding", ""), body)
        if len(whole) <= MAX_BODY_BYTES:
            return HttpResponse(status, headers, whole)
    return errors.ResponseTooLarge(
        f"the response is larger than {MAX_BODY_BYTES // 1024**2} MiB, which no response "
        "of a Counterfoil API is. Check the base URL."
    )


def _decompressed(encoding: str, body: bytearray) -> bytes:
    """Return the decompressed body, or the first part of it if it is larger than MAX_BODY_BYTES."""
    decompressor: Any
    most = MAX_BODY_BYTES
    if encoding == "zstd":
        # A buffer of the right size halves the time.
        most = min(most, zstd.get_frame_info(body).decompressed_size or most)
        decompressor = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
    elif encoding == "gzip":
        decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    else:
        return bytes(body)
    part: bytes = decompressor.decompress(body, most + 1)
    if len(part) <= MAX_BODY_BYTES and not decompressor.eof:
        raise EOFError("the compressed body ends too early")
    return part
