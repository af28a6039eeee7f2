"""The types that pages work with: the operator's request, the content of a page, and the response."""

import shlex
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.checks.findings import Finding
from counterfoil.checks.overview import Overview, overview
from counterfoil.checks.running import (
    CONNECTION_REFUSED,
    HORIZON_STILL,
    SERVICE_NOT_NEEDED,
    SERVICE_SILENT,
    Ready,
    ask_ready,
    service_finding,
)
from counterfoil.console.imports import Imports
from counterfoil.console.sessions import Session, Sessions
from counterfoil.console.texts import Texts
from counterfoil.domain.devices import Role, allows
from counterfoil.machine.private_listener import ListenerRequest, ListenerResponse
from counterfoil.model.messages import Message
from counterfoil.operator_reads import OperatorReads, ShopName
from counterfoil.ports import Clock, StoreMismatch, StoreUnavailable
from counterfoil.program.columns import RowList
from counterfoil.settings import BY_NAME, Settings
from counterfoil.views.keys import labels_of

# The checks are slow: they count bills and query the service. Pages opened in quick succession share one result.
SHARED_SEC = 2
# A page waits this long for the service. If it was in vain, the next pages do not wait for REMEMBERED_SEC.
WAIT_SEC, REMEMBERED_SEC = 1, 10
Result = TypeVar("Result")


class SharedResult(Generic[Result]):
    """The result of a slow function. Pages share a result for as many seconds as `keep_sec` says."""

    def __init__(
        self, clock: Clock, compute: Callable[[], Result], keep_sec: Callable[[Result], int] = lambda _: SHARED_SEC
    ) -> None:
        self._clock, self._compute, self._keep_sec = clock, compute, keep_sec
        self._lock = threading.Lock()
        self._result: tuple[Result, int] | None = None

    def get(self) -> Result:
        with self._lock:
            if self._result is None or self._clock.steady_us() >= self._result[1]:
                result = self._compute()
                self._result = result, self._clock.steady_us() + self._keep_sec(result) * 1_000_000
            return self._result[0]


def _keep_sec(answer: Ready | Message) -> int:
    return REMEMBERED_SEC if isinstance(answer, Message) and answer.code == "timed_out" else SHARED_SEC


class ConsoleStore:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        ready = SharedResult(clock, lambda: ask_ready(settings, WAIT_SEC), _keep_sec)

        def ask_service() -> Finding:
            horizon = self.reads.horizon()
            finding = service_finding(settings, horizon, clock.now_ms(), is_new=horizon == 0, ask=ready.get)
            is_refused = finding.code == SERVICE_SILENT.code and ready.get() == CONNECTION_REFUSED
            is_stopped = is_refused or finding.code == HORIZON_STILL.code
            return SERVICE_NOT_NEEDED() if is_stopped and self._is_without_keys() else finding

        self._overview = SharedResult(clock, lambda: overview(settings, clock.now_ms(), deep=True, ask=ready.get))
        self._service = SharedResult(clock, ask_service)

    def labels(self) -> dict[str, str]:
        return labels_of(self.reads.keys())

    def shop_names(self) -> list[ShopName]:
        """Return the names of the loaded shops, or none if they cannot be read: pages must work without names."""
        try:
            return self.reads.shop_names()
        except (StoreUnavailable, StoreMismatch):
            return []

    @property
    def reads(self) -> OperatorReads:
        return bootstrap.store(self._settings).reads()

    def overview(self) -> Overview:
        """Return the findings of `counterfoil status --deep`, and the values that they are based on."""
        return self._overview.get()

    def findings(self) -> list[Finding]:
        """Return the findings without those about the login, because the service has another one than the console."""
        findings = [finding for finding in self.overview().findings if finding.check != "rights"]
        service = self.service()
        if service.code != SERVICE_NOT_NEEDED.code:
            return findings
        # Only a service that runs advances the horizon.
        return [service, *(finding for finding in findings if finding.check not in ("service", "horizon"))]

    def service(self) -> Finding:
        return self._service.get()

    def _is_without_keys(self) -> bool:
        try:
            return not self.reads.keys()
        except (StoreUnavailable, StoreMismatch):
            return False


View = TypeVar("View")
# Rows of a list, which an operator also reads on a phone.
PER_PAGE = 25
# A longer number in an address or a form is out of range anyway.
MAX_DIGITS = 10
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
    """A signed-in operator's request, and everything that a page needs.

    `values` contains the path variables. `path` is the address of the page that is shown, also as the result of a form.
    """

    request: ListenerRequest
    session: Session
    sessions: Sessions
    imports: Imports
    store: ConsoleStore
    settings: Settings
    t: Texts
    now: int
    values: dict[str, str]
    path: str = "/"

    @property
    def is_operator(self) -> bool:
        """Return whether the visitor may change anything. Pages show no forms to others."""
        return allows(self.session.role, "operator")

    @property
    def store_option(self) -> str:
        """Return the option of commands that names this store, if it is not the usual one, after a space.

        The address of a database is left out, because it contains a login.
        """
        settings = self.settings
        if settings.database or str(settings.store) == BY_NAME["store"].default:
            return ""
        return f" --store {shlex.quote(str(settings.store.absolute()))}"

    @property
    def query(self) -> dict[str, str]:
        return self.request.query

    def address(self, path: str, **changes: str | None) -> str:
        """Return the address of a page with this request's parameters and these changes. None removes a parameter."""
        changed = {**self.query, **changes}
        kept = {name: value for name, value in changed.items() if value}
        return f"{path}?{urlencode(kept)}" if kept else path

    def limit(self, most: int) -> int:
        """Return how many rows to show: PER_PAGE, or the parameter `limit`."""
        return max(1, min(number_in(self.query.get("limit", ""), PER_PAGE), most))


def number_in(text: str, otherwise: Result) -> int | Result:
    """Return the whole number in a text, or `otherwise`: Python refuses to convert a very long text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else otherwise


class FormResult(Struct, frozen=True):
    """What a form has done, or why it has done nothing. `kind` is `good`, `warn`, `bad` or empty."""

    text: str
    kind: str = ""


class ConsolePage(Struct, Generic[View], frozen=True, kw_only=True):
    """A page. `read` returns its data, which is also served as JSON, and the template renders the data as HTML.

    `name` is the page's name in the navigation. A page that is not listed there has the name of its parent page.
    `role` is the role that a device needs to open it. A page without `read` is only an answer to a form. `csv` returns
    the name and the rows of a file to download.
    """

    name: str
    role: Role = "reader"
    template: str
    read: Callable[[Visit], View] | None = None
    as_json: Callable[[Visit, View], object] = lambda _, view: view
    csv: Callable[[Visit, View], tuple[str, RowList[Any]]] | None = None
    # Whether the page itself says whether the service is ready.
    shows_service: bool = False
    # How often a script updates the page, or None if it does not.
    refresh_sec: Callable[[Visit, View], int | None] = lambda *_: None


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
