"""The types that pages work with: the operator's request, the content of a page, and the response."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct

from counterfoil.console.sessions import Session, Sessions
from counterfoil.console.stores import ConsoleStore
from counterfoil.console.texts import Texts
from counterfoil.machine.private_listener import ListenerRequest, ListenerResponse
from counterfoil.settings import Settings
from counterfoil.web.html import Html

View = TypeVar("View")
HTML = "text/html; charset=utf-8"
JSON = "application/json"
CSV = "text/csv; charset=utf-8"
FORM = "application/x-www-form-urlencoded"

# Pages load everything from the console itself, and have no inline scripts, inline styles or frames.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS = (
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    # With `no-referrer`, browsers would send the origin `null` with forms, which the guard refuses.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-robots-tag", "noindex"),
)


class NotFound(Exception):
    """The page, the key or the load does not exist. The message is shown to the operator."""


class Visit(Struct, frozen=True, kw_only=True):
    """A signed-in operator's request, and everything that a page needs. `values` contains the path variables."""

    request: ListenerRequest
    session: Session
    sessions: Sessions
    store: ConsoleStore
    settings: Settings
    t: Texts
    now: int
    values: dict[str, str]

    @property
    def query(self) -> dict[str, str]:
        return self.request.query

    def address(self, path: str, **changes: str | None) -> str:
        """Return the address of a page with this request's parameters and these changes. None removes a parameter."""
        merged = {name: changes.get(name, value) for name, value in {**self.query, **changes}.items()}
        kept = {name: value for name, value in merged.items() if value}
        return f"{path}?{urlencode(kept)}" if kept else path

    def new_form(self) -> str:
        return self.sessions.new_form(self.session)


class PageContent(Struct, frozen=True, kw_only=True):
    """The content of a page. `command` and `more_commands` together show the same data in a terminal.

    `command_text` is set if `command` shows or does something else, and says what.
    `shows_service` is true if the content already says whether the service is ready.
    """

    title: str
    main: Html
    command: str | None = None
    more_commands: tuple[str, ...] = ()
    command_text: str | None = None
    lead: Html | None = None
    shows_service: bool = False


class CsvExport(Struct, frozen=True):
    """A file to download. The first of its lines are the headings."""

    name: str
    lines: list[list[object]]


class ConsolePage(Struct, Generic[View], frozen=True, kw_only=True):
    """A page. `read` returns its data, and `draw` renders the data as HTML. `as_json` returns what is served as JSON.

    `name` is the page's name in the navigation. A page that is not listed there has the name of its parent page.
    """

    name: str
    read: Callable[[Visit], View]
    draw: Callable[[Visit, View], PageContent]
    as_json: Callable[[Visit, View], object] = lambda _, view: view
    csv: Callable[[Visit, View], CsvExport] | None = None


# --- responses -----------------------------------------------------------------------


class ConsoleResponse(Struct, frozen=True, kw_only=True):
    status: int = 200
    content_type: str = HTML
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    policy: str = POLICY

    def complete(self) -> ListenerResponse:
        """Return this response with all headers, including the security headers that every response has."""
        fixed = (("content-type", self.content_type), ("content-security-policy", self.policy))
        return ListenerResponse(self.status, [*fixed, *SECURITY_HEADERS, *self.headers], self.body)


def redirect(address: str, *headers: tuple[str, str]) -> ConsoleResponse:
    """Return a redirect. Headers are ASCII, so other characters in the address are encoded."""
    encoded = quote(address, safe="/?&=#%+,:;@!$'()*~")
    return ConsoleResponse(status=303, headers=(("location", encoded), *headers))


def is_checked(form: Mapping[str, str], name: str) -> bool:
    return form.get(name) == "on"
