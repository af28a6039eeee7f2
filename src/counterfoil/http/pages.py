"""Pages that are served next to the API, with security headers for browsers. They can be read without a key."""

from msgspec import Struct

from counterfoil.http.wire import Headers

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
