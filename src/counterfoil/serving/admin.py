"""The admin listener: `/live`, `/ready` and `/metrics`, on a separate address and never on the public port."""

from collections.abc import Callable, Iterable
from http import HTTPStatus

from msgspec import Struct, json
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from counterfoil.machine.addresses import STORE_HEADER, is_loopback
from counterfoil.machine.host_names import HostNames
from counterfoil.machine.private_listener import ListenerRequest, ListenerResponse, PrivateListener

TEXT = "text/plain; version=0.0.4; charset=utf-8"
ALLOWED = ["GET", "HEAD"]


class Readiness(Struct, frozen=True):
    """The result of one readiness check: its name, and the problem or None.

    A warning is for the operator and does not make the service unready.
    """

    name: str
    problem: str | None
    warning: str | None = None


class Admin:
    """The admin listener. It runs in a thread of the supervisor, so it responds even if all workers are busy."""

    def __init__(
        self,
        host: str,
        port: int,
        ready: Callable[[], list[Readiness]],
        metrics: Callable[[], Iterable[Metric]],
        names: str = "",
        store_id: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._ready = ready
        self._store_id = store_id
        self._names = HostNames(host, names)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_MetricsCollector(metrics))
        self._listener = PrivateListener(host, port, self.respond, _malformed)
        self.port, self.start, self.stop = self._listener.port, self._listener.start, self._listener.stop

    def respond(self, request: ListenerRequest) -> ListenerResponse:
        refusal = self._refusal(request)
        if refusal:
            return refusal
        if request.method not in ALLOWED:
            return _json(405, {"allowed": ALLOWED}, ("allow", ", ".join(ALLOWED)))
        try:
            response = self._answer(request.path)
            response.headers.extend(self.store_header(request.path, request.peer))
        except Exception as error:  # noqa: BLE001 - report the failure without its message, which may contain data
            return _json(500, {"failed": type(error).__name__})
        return response

    def _refusal(self, request: ListenerRequest) -> ListenerResponse | None:
        """Return the refusal of a request that a web page may have sent, or None.

        The listener has no authentication, so it must not be reachable from a web page that is open in an operator's
        browser.
        """
        host = request.headers.get("host")
        if host is None and request.version != "HTTP/1.0":
            return _json(400, {"refused": "HTTP/1.1 requires exactly one Host header."})
        problem = None if host is None else self._names.problem(host)
        if problem == "malformed":
            return _json(400, {"refused": "The Host header is not valid."})
        if problem:
            return _json(421, {"refused": "Unknown host name. Add it to the setting admin_names."})
        if "origin" in request.headers or request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _json(403, {"refused": "Requests from web pages are refused."})
        return None

    def store_header(self, path: str, client: str) -> list[tuple[str, str]]:
        """Return the header of `/ready` that names the store, for a client on this machine.

        `status` and `doctor` use it to notice that the service on a port serves another store.
        """
        store_id = self._store_id() if path == "/ready" and is_loopback(client) else None
        return [(STORE_HEADER, store_id)] if store_id else []

    def _answer(self, path: str) -> ListenerResponse:
        match path:
            case "/live":
                return _json(200, {"live": True})
            case "/ready":
                checks = self._ready()
                problems = {check.name: check.problem for check in checks if check.problem}
                warnings = {check.name: check.warning for check in checks if check.warning}
                names = [check.name for check in checks]
                body = {"ready": not problems, "notReady": problems, "warnings": warnings, "checked": names}
                return _json(503 if problems else 200, body)
            case "/metrics":
                return ListenerResponse(200, [("content-type", TEXT)], generate_latest(self._registry))
            case _:
                return _json(404, {"paths": ["/live", "/ready", "/metrics"]})


class _MetricsCollector(Collector):
    def __init__(self, metrics: Callable[[], Iterable[Metric]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics()


def _json(status: int, body: object, *headers: tuple[str, str]) -> ListenerResponse:
    return ListenerResponse(status, [("content-type", "application/json"), *headers], json.encode(body))


def _malformed(status: int, _language: str) -> ListenerResponse:
    return _json(status, {"failed": HTTPStatus(status).phrase})
