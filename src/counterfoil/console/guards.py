"""Refuses cross-site requests and requests with an unknown host name. The app runs these checks before all others."""

from urllib.parse import urlsplit

from msgspec import Struct

from counterfoil.console.exchange import FORM, ConsoleRequest, ConsoleResponse
from counterfoil.console.texts import Texts, preferred
from counterfoil.machine.host_names import HostNames

SAFE_METHODS = ("GET", "HEAD")
METHODS = (*SAFE_METHODS, "POST")
OWN_SITES = ("same-origin", "none")


class ConsoleRefusal(Struct, frozen=True):
    """The status and the reason of a refusal. The message for a reason is the text `guard.<reason>`."""

    status: int
    reason: str


def refusal_response(accept_language: str, status: int, reason: str) -> ConsoleResponse:
    """Return a refusal as plain text, in the language that the browser prefers."""
    t = Texts(preferred(accept_language))
    text = t(f"guard.{reason}")
    return ConsoleResponse(status=status, content_type="text/plain; charset=utf-8", body=f"{text}\n".encode())


class Guard:
    """Checks the host name, the method, and whether a request comes from the console's own pages.

    - DNS rebinding: the Host header must name this console.
    - Cross-site request forgery: a form must be sent by a page of this console, as `Sec-Fetch-Site` and `Origin` show.
      One of these headers is enough, because over plain HTTP, browsers send `Sec-Fetch-Site` only to loopback
      addresses. A form with neither header is refused.
    - Other sites may link to a page, but not embed or fetch anything. `Sec-Fetch-Site` and `Sec-Fetch-Mode` tell these
      cases apart. A read without `Sec-Fetch-Site` is allowed.
    """

    def __init__(self, names: HostNames) -> None:
        self._names = names

    def refusal(self, request: ConsoleRequest) -> ConsoleRefusal | None:
        """Return the refusal of a request, or None if it is allowed."""
        hosts = request.all_headers("host")
        if len(hosts) != 1:
            return ConsoleRefusal(400, "one_host")
        if not self._names.allows(hosts[0]):
            return ConsoleRefusal(421, "unknown_host")
        if request.method not in METHODS:
            return ConsoleRefusal(405, "method")
        if request.method in SAFE_METHODS:
            return self._of_read(request)
        return self._of_form(request)

    def _of_read(self, request: ConsoleRequest) -> ConsoleRefusal | None:
        site = request.header("sec-fetch-site") or "none"
        if site in OWN_SITES or request.header("sec-fetch-mode") == "navigate":
            return None
        return ConsoleRefusal(403, "foreign_read")

    def _of_form(self, request: ConsoleRequest) -> ConsoleRefusal | None:
        if not _is_from_own_page(request):
            return ConsoleRefusal(403, "foreign_form")
        if request.header("content-type").partition(";")[0].strip().lower() != FORM:
            return ConsoleRefusal(415, "not_url_encoded")
        return None


def _is_from_own_page(request: ConsoleRequest) -> bool:
    sites, origins = request.all_headers("sec-fetch-site"), request.all_headers("origin")
    if len(sites) > 1 or len(origins) > 1:
        return False
    if sites and sites[0] != "same-origin":
        return False
    if origins:
        return _has_host(origins[0], request.header("host"))
    return bool(sites)


def _has_host(origin: str, host: str) -> bool:
    """Return whether an origin has this host and port. The origin `null` has no host."""
    found = urlsplit(origin)
    return found.scheme in ("http", "https") and found.netloc.lower() == host.strip().lower()
