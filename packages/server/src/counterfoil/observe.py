"""Events, and the log and counters made from them. None has a secret, a query string or what identifies a person."""

import fcntl
import mmap
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, json

from counterfoil.domain.problems import TABLE
from counterfoil.model.calendar import iso_utc
from counterfoil.model.text import counted, printable, short_duration, short_size


class RequestServed(Struct, frozen=True, kw_only=True, tag="request"):
    """A request was served. `took_us` is the time in microseconds between the HTTP server's call and the response."""

    request_id: str
    method: str
    route: str
    status: int
    error: str | None
    key_id: str | None
    took_us: int
    sent: int
    encoding: str | None
    personal_base: str | None = None
    personal_members: int = 0


class HandlerCrashed(Struct, frozen=True, kw_only=True, tag="crash"):
    """A handler failed unexpectedly. The event contains the location of the error, but no values."""

    request_id: str
    route: str
    exception: str
    where: list[str]


class StoreFailed(Struct, frozen=True, kw_only=True, tag="store_failed"):
    """A store could not be read or written."""

    request_id: str | None
    route: str
    reason: str


class ServiceChanged(Struct, frozen=True, kw_only=True, tag="service"):
    """The service became ready or stopped, a part of it failed or recovered, or a chore deleted expired data."""

    what: str
    detail: str = ""


class Trouble(Struct, frozen=True):
    """The names of two events of the service: something begins to fail, and it works again."""

    begins: str
    ends: str


HORIZON = Trouble("horizon_failing", "horizon_recovered")
CHECKPOINT = Trouble("checkpoint_failing", "checkpoint_recovered")
PRUNE_REMOVALS = Trouble("prune_removals_failing", "prune_removals_recovered")
TOTALS = Trouble("totals_failing", "totals_recovered")
MOVE_REQUESTS = Trouble("move_requests_failing", "move_requests_recovered")
USAGE_CHECKPOINT = Trouble("usage_checkpoint_failing", "usage_checkpoint_recovered")
PRUNE = Trouble("prune_failing", "prune_recovered")
NOTIFY = Trouble("notify_failing", "notify_recovered")
HEARTBEAT = Trouble("heartbeat_failing", "heartbeat_recovered")
TROUBLES = (HORIZON, CHECKPOINT, PRUNE_REMOVALS, TOTALS, MOVE_REQUESTS, USAGE_CHECKPOINT, PRUNE, NOTIFY, HEARTBEAT)


class CountsReseeded(Struct, frozen=True, kw_only=True, tag="counts_reseeded"):
    """The shared meter lost a key's daily count and restored it from the store, which is at most a second behind."""

    key_id: str
    day: str
    count: int


class ServerChanged(Struct, frozen=True, kw_only=True, tag="server"):
    """A server of the store has a new role, for example after a failover, or was checked for the first time."""

    server: str
    role: str


class ServerMessage(Struct, frozen=True, kw_only=True, tag="server"):
    """A worker process ended or was killed, or a line that it or its HTTP server wrote to standard error."""

    level: str
    message: str


Event = RequestServed | HandlerCrashed | StoreFailed | ServiceChanged | CountsReseeded | ServerChanged | ServerMessage


# --- the log as text for a person: the line of a GET or HEAD request has at most 80 columns --

# Column widths: the lengths of the longest route, `transactions/{id}`, and of a key ID.
ROUTE_WIDTH, KEY_WIDTH = 17, 12
LABEL_WIDTH = 16

GREEN, YELLOW, RED, CYAN, DIM = "32", "33", "31", "36", "2"
Paint = Callable[[str, str], str]


def text_line(at_ms: int, event: Event, *, in_colour: bool = False) -> str:
    """Return the line for an event, without the line break."""

    def paint(text: str, colour: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if in_colour and text.strip() else text

    time = paint(iso_utc(at_ms)[11:19] + "Z", DIM)
    if isinstance(event, RequestServed):
        return f"{time} {_request(event, paint)}"
    label, colour, text = _described(event)
    return f"{time} {paint(label.ljust(LABEL_WIDTH), colour)} {printable(text)}".rstrip()


def _request(event: RequestServed, paint: Paint) -> str:
    status = paint(str(event.status), _status_colour(event.status))
    # Every parameter is shown as {id}, which keeps the column narrow.
    path, parameter, _ = event.route.partition("{")
    route = f"{path}{{id}}" if parameter else path
    route = route if event.method == "GET" else f"{event.method} {route}"
    key = paint((event.key_id or "-").ljust(KEY_WIDTH), CYAN)
    if event.error:
        result = paint(event.error, RED if event.status >= 500 else YELLOW)
    else:
        result = short_size(event.sent).rjust(7)
        if event.personal_base is not None:
            result += "  " + paint(f"disclosure: {event.personal_members}", YELLOW)
    return f"{status}  {printable(route):<{ROUTE_WIDTH}} {short_duration(event.took_us):>7}  {key}  {result}"


def _status_colour(status: int) -> str:
    if status >= 500:
        return RED
    return YELLOW if status >= 400 else GREEN


_FAILURES = {"not_ready", "notify_state_failing", "save_failed", "stop_failed", "watch_failed", "worker_failed"}
_COLOURS = {
    "ready": GREEN,
    **dict.fromkeys(_FAILURES, RED),
    **{trouble.begins: RED for trouble in TROUBLES},
    **{trouble.ends: GREEN for trouble in TROUBLES},
}


def _described(event: Event) -> tuple[str, str, str]:
    """Return the label, the colour and the text of an event that is not a request."""
    match event:
        case ServiceChanged():
            return event.what.replace("_", " "), _COLOURS.get(event.what, DIM), event.detail
        case StoreFailed():
            asked = f" (request {event.request_id})" if event.request_id else ""
            return "store failed", RED, f"{event.route}: {event.reason}{asked}"
        case HandlerCrashed():
            where = " < ".join(event.where)
            return "crash", RED, f"{event.route}: {event.exception} in {where} (request {event.request_id})"
        case ServerChanged():
            return "database server", RED if event.role == "away" else CYAN, f"{event.server} is {event.role}"
        case ServerMessage():
            return f"server {event.level}", RED if event.level == "error" else YELLOW, event.message
        case CountsReseeded():
            return "counts reseeded", YELLOW, f"key {event.key_id}, {event.day}: {counted(event.count, 'request')}"
        case RequestServed():
            raise ValueError(event)


# --- the log, as JSON for programs or as text -------------------------------
#
# Lines are buffered briefly and written together, so that one system call serves many requests.

Schedule = Callable[[float, Callable[[], None]], object]

FLUSH_SEC = 0.1
MAX_BUFFER_BYTES = 32_768


_encode = json.Encoder().encode


def json_line(at_ms: int, event: Event) -> bytes:
    # The time comes before the other fields: {"at":"...","type":"request",...}
    return b'{"at":"%b",%b\n' % (iso_utc(at_ms).encode(), _encode(event)[1:])


def text_lines(*, in_colour: bool) -> Callable[[int, Event], bytes]:
    return lambda at_ms, event: f"{text_line(at_ms, event, in_colour=in_colour)}\n".encode(errors="backslashreplace")


class EventLog:
    """Writes a line for each event to a file descriptor. `schedule` calls a function after a delay."""

    def __init__(
        self,
        descriptor: int,
        now_ms: Callable[[], int],
        schedule: Schedule,
        line: Callable[[int, Event], bytes] = json_line,
    ) -> None:
        self._descriptor = descriptor
        self._now_ms = now_ms
        self._schedule = schedule
        self._line = line
        self._buffer = bytearray()
        self._flush_scheduled = False

    def __call__(self, event: Event) -> None:
        self._buffer += self._line(self._now_ms(), event)
        if len(self._buffer) >= MAX_BUFFER_BYTES:
            self.flush()
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._schedule(FLUSH_SEC, self.flush)

    def flush(self) -> None:
        self._flush_scheduled = False
        lines, self._buffer = self._buffer, bytearray()
        view = memoryview(lines)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except OSError:
                # The service must keep running even if its log can no longer be written.
                return


# --- counters that the workers share with the supervisor, which serves `/metrics` --
#
# Every worker maps a section of one file, so counting needs no system call, and a killed worker's counts remain.

BUCKETS_US = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000)
# Pairs of status and error code. The last pair stands for every other outcome.
OUTCOMES = (("200", ""), ("304", ""), *((str(problem.status), problem.code) for problem in TABLE), ("other", ""))


# The events other than requests that are counted.
COUNTED: tuple[type[Event], ...] = (HandlerCrashed, StoreFailed, CountsReseeded, ServerChanged)

# Each route has a row of counters: requests by outcome, requests by latency bucket, sum of latencies, and bytes sent.
_OUTCOME_INDEX = {(int(status), code): index for index, (status, code) in enumerate(OUTCOMES) if status != "other"}
_OTHER_INDEX = len(OUTCOMES) - 1
BUCKETS_OFFSET = len(OUTCOMES)
LATENCY_OFFSET = BUCKETS_OFFSET + len(BUCKETS_US) + 1
SENT_OFFSET = LATENCY_OFFSET + 1
ROW_LENGTH = SENT_OFFSET + 1


class Layout:
    """The index of each value in a worker's section. `public_routes` are the routes that need no API key."""

    def __init__(self, routes: Iterable[str], public_routes: Iterable[str]) -> None:
        self.public_routes = tuple(public_routes)
        self.routes = (*routes, *self.public_routes)
        self.rows = {route: index * ROW_LENGTH for index, route in enumerate(self.routes)}
        self.events = {kind: index for index, kind in enumerate(COUNTED, ROW_LENGTH * len(self.routes))}
        # Time of the last store failure in milliseconds. It is 0 if there was none, or if a request with a known key
        # has since been answered without a server error.
        self.failed_at = ROW_LENGTH * len(self.routes) + len(COUNTED)
        self.slots = self.failed_at + 1
        # The operating system maps only whole pages.
        self.section_bytes = -(-self.slots * 8 // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY


class Counters:
    """The counters of one process, in a new section of a file that it shares with others."""

    def __init__(self, file: int, layout: Layout, now_ms: Callable[[], int]) -> None:
        self._layout = layout
        self._now_ms = now_ms
        fcntl.lockf(file, fcntl.LOCK_EX)
        start = os.fstat(file).st_size
        os.ftruncate(file, start + layout.section_bytes)
        fcntl.lockf(file, fcntl.LOCK_UN)
        self._map = mmap.mmap(file, layout.section_bytes, offset=start)
        self._numbers = memoryview(self._map).cast("Q")

    def __call__(self, event: Event) -> None:
        numbers, layout = self._numbers, self._layout
        if isinstance(event, RequestServed):
            row = layout.rows[event.route]
            numbers[row + _OUTCOME_INDEX.get((event.status, event.error or ""), _OTHER_INDEX)] += 1
            numbers[row + BUCKETS_OFFSET + bisect_left(BUCKETS_US, event.took_us)] += 1
            numbers[row + LATENCY_OFFSET] += event.took_us
            numbers[row + SENT_OFFSET] += event.sent
            if event.key_id is not None and event.status < 500:
                numbers[layout.failed_at] = 0
        elif type(event) in layout.events:
            numbers[layout.events[type(event)]] += 1
            if isinstance(event, StoreFailed):
                numbers[layout.failed_at] = self._now_ms()


def totals(file: int, layout: Layout) -> list[int]:
    """Return the sum of each counter over all worker processes."""
    sums = [0] * layout.slots
    for section in _sections(file, layout):
        for index in range(layout.slots):
            sums[index] += section[index]
    return sums


def last_store_failure_ms(file: int, layout: Layout) -> int:
    """Return the time of the latest store failure, or 0. A failure counts until its worker can use the store again."""
    return max((section[layout.failed_at] for section in _sections(file, layout)), default=0)


def _sections(file: int, layout: Layout) -> Iterator[memoryview]:
    for start in range(0, os.fstat(file).st_size, layout.section_bytes):
        yield memoryview(os.pread(file, layout.section_bytes, start)).cast("Q")
