"""Pages that are served next to the API, with security headers for browsers. They can be read without a key."""

from msgspec import Struct

from counterfoil.http.wire import Headers
from counterfoil.machine.addresses import HostNames

# Logs and counters use this route name for all static pages.
PAGE_ROUTE = "reference"

# The names under which a page with keys can be read.
LOOPBACK_NAMES = HostNames("127.0.0.1", "")

_VARY = "Accept-Encoding, Origin, Sec-Fetch-Site, Sec-Fetch-Mode, Sec-Fetch-Dest"


class StaticPage(Struct, frozen=True):
    """A page that does not change while the service runs. A page with keys answers only to loopback names."""

    content_type: str
    body: bytes
    policy: str = "default-src 'none'; frame-ancestors 'none'"
    has_keys: bool = False


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
