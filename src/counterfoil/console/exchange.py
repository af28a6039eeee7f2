"""The responses of the console, independent of the HTTP server."""

from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

from counterfoil.machine.private_listener import ListenerResponse

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
