"""Refuses cross-site requests and requests with an unknown host name. The app runs these checks before all others."""

from counterfoil.console.imports import IMPORT_PATH
from counterfoil.console.visit import FORM
from counterfoil.machine.addresses import HostNames
from counterfoil.machine.private_listener import ListenerRequest
from counterfoil.machine.uploaded_files import MULTIPART

SAFE_METHODS = ("GET", "HEAD")
METHODS = (*SAFE_METHODS, "POST")
# The headers that these checks read. The listener refuses a request that repeats one of them.
SINGLE_HEADERS = ("host", "origin", "sec-fetch-site", "sec-fetch-mode", "content-type", "x-forwarded-proto")
OWN_SITES = ("same-origin", "none")


# The status and the reason of a refusal. The message for a reason is the text `guard.<reason>`.
ConsoleRefusal = tuple[int, str]
_OF_HOST: dict[str, ConsoleRefusal] = {"malformed": (400, "one_host"), "loopback": (421, "loopback_host")}


def refusal(names: HostNames, request: ListenerRequest) -> ConsoleRefusal | None:
    """Return the refusal of a request, or None if its host name, its method and the page that it comes from are right.

    - DNS rebinding: the Host header must name this console.
    - Other users of this machine: browsers send cookies to every port of a host, so a session under `127.0.0.1` or
      `localhost` would reach the web pages of every user. These names get a hint and nothing else.
    - Cross-site request forgery: a form must be sent by a page of this console, as `Sec-Fetch-Site` and `Origin` show.
      One of these headers is enough, because over plain HTTP, browsers send `Sec-Fetch-Site` only to loopback
      addresses. A form with neither header is refused.
    - Other sites may link to a page, but not embed or fetch anything. `Sec-Fetch-Site` and `Sec-Fetch-Mode` tell these
      cases apart. A read without `Sec-Fetch-Site` is allowed.
    """
    host = request.headers.get("host")
    problem = "malformed" if host is None else names.problem(host)
    if problem:
        return _OF_HOST.get(problem, (421, "unknown_host"))
    if request.method not in METHODS:
        return 405, "method"
    if request.method in SAFE_METHODS:
        site = request.header("sec-fetch-site") or "none"
        is_allowed = site in OWN_SITES or request.header("sec-fetch-mode") == "navigate"
        return None if is_allowed else (403, "foreign_read")
    if not _is_from_own_page(request):
        return 403, "foreign_form"
    kind = request.header("content-type").partition(";")[0].strip().lower()
    is_form = kind == FORM or (kind == MULTIPART and request.path == IMPORT_PATH)
    return None if is_form else (415, "not_url_encoded")


def _is_from_own_page(request: ListenerRequest) -> bool:
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site is not None
    # The origin must have this host and port. The origin `null` has no host.
    host = request.header("host").lower()
    return origin.lower() in (f"http://{host}", f"https://{host}")
