"""Formats events as aligned lines for a person at a terminal. The line of a GET or HEAD request has at most 80 columns.

Like the JSON lines, these lines contain no secrets, no query strings, and
nothing that identifies a member.
"""

from collections.abc import Callable

from counterfoil.domain.calendar import iso_utc
from counterfoil.observe.events import (
    CountsReseeded,
    Event,
    HandlerCrashed,
    RequestServed,
    ServerChanged,
    ServerMessage,
    ServiceChanged,
    StoreFailed,
)
from counterfoil.text import counted, printable, short_duration, short_size

# Column widths: the lengths of the longest route, `transactions/{id}`, and of a key ID.
ROUTE_WIDTH, KEY_WIDTH = 17, 12
LABEL_WIDTH = 16

GREEN, YELLOW, RED, CYAN, DIM = "32", "33", "31", "36", "2"
Paint = Callable[[str, str], str]


def plain(text: str, colour: str) -> str:  # noqa: ARG001 - the signature of Paint
    return text


def coloured(text: str, colour: str) -> str:
    return f"\033[{colour}m{text}\033[0m" if text.strip() else text


def text_line(at_ms: int, event: Event, paint: Paint) -> str:
    """Return the line for an event, without the line break."""
    time = paint(_clock_time(at_ms), DIM)
    if isinstance(event, RequestServed):
        return f"{time} {_request(event, paint)}"
    label, colour, text = _described(event)
    return f"{time} {paint(label.ljust(LABEL_WIDTH), colour)} {printable(text)}".rstrip()


def _clock_time(at_ms: int) -> str:
    return iso_utc(at_ms)[11:19] + "Z"


def _request(event: RequestServed, paint: Paint) -> str:
    status = paint(str(event.status), RED if event.status >= 500 else YELLOW if event.status >= 400 else GREEN)
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


def _described(event: Event) -> tuple[str, str, str]:
    """Return the label, the colour and the text of an event that is not a request."""
    match event:
        case ServiceChanged():
            return event.what.replace("_", " "), _service_colour(event.what), event.detail
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


def _service_colour(what: str) -> str:
    if what.endswith(("_failing", "_failed")) or what == "not_ready":
        return RED
    return GREEN if what == "ready" or what.endswith("_recovered") else DIM
