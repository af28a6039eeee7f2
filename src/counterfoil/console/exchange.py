"""The requests and responses of the console, independent of the HTTP server."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, quote

from msgspec import Struct

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
MAX_FIELDS = 100


class ConsoleRequest(Struct, frozen=True, kw_only=True):
    """A request to the console. Header names are in lower case; `peer` is the address of the client or its proxy."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    peer: str = ""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return fields_of(self.target.partition("?")[2])

    @property
    def form(self) -> dict[str, str]:
        return fields_of(self.body.decode("utf-8", "replace"))

    def all_headers(self, name: str) -> list[str]:
        return [value for found, value in self.headers if found == name]

    def header(self, name: str) -> str:
        """Return the value of the first header with this name, or an empty string if there is none."""
        return next((value for found, value in self.headers if found == name), "")

    @property
    def cookies(self) -> dict[str, str]:
        pairs = (pair.partition("=") for pair in self.header("cookie").split(";"))
        return {name.strip(): value.strip() for name, _, value in pairs}


class ConsoleResponse(Struct, frozen=True, kw_only=True):
    status: int = 200
    content_type: str = HTML
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    policy: str = POLICY

    def all_headers(self) -> list[tuple[str, str]]:
        """Return all headers, including the security headers that every response has."""
        fixed = (("content-type", self.content_type), ("content-security-policy", self.policy))
        return [*fixed, *SECURITY_HEADERS, *self.headers]


def redirect(address: str, *headers: tuple[str, str]) -> ConsoleResponse:
    """Return a redirect. Headers are ASCII, so other characters in the address are encoded."""
    encoded = quote(address, safe="/?&=#%+,:;@!$'()*~")
    return ConsoleResponse(status=303, headers=(("location", encoded), *headers))


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of a query string or a form. If a field is repeated, the last value counts.

    If there are more than MAX_FIELDS fields, return none of them.
    """
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        return {}


def is_checked(form: Mapping[str, str], name: str) -> bool:
    return form.get(name) == "on"
