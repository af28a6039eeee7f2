"""The admin listener: `/live`, `/ready` and `/metrics`, on a separate address and never on the public port."""

import socket
import threading
from collections.abc import Callable, Iterable
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from msgspec import Struct, json
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from counterfoil.machine.addresses import STORE_HEADER, is_loopback
from counterfoil.machine.host_names import HostNames

TEXT = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"
ALLOWED = ["GET", "HEAD"]


class Readiness(Struct, frozen=True):
    """The result of one readiness check: its name, and the problem or None.

    A warning is for the operator and does not make the service unready.
    """

    name: str
    problem: str | None
    warning: str | None = None


class AdminRefusal(Struct, frozen=True):
    """The status and message for a request that is refused before its path is examined."""

    status: int
    message: str


class AdminRequestCheck:
    """Checks the headers of a request, and refuses it if a web page may have sent it.

    The listener has no authentication, so it must not be reachable from a web
    page that is open in an operator's browser.
    """

    def __init__(self, host: str, names: str) -> None:
        self._names = HostNames(host, names)

    def refusal(self, headers: Message, version: str) -> AdminRefusal | None:
        """Return the refusal of a request, or None if it is allowed."""
        hosts = headers.get_all("host", [])
        if len(hosts) > 1 or (not hosts and version != "HTTP/1.0"):
            return AdminRefusal(400, "HTTP/1.1 requires exactly one Host header.")
        if hosts and not self._names.allows(hosts[0]):
            return AdminRefusal(421, "Unknown host name. Add it to the setting admin_names.")
        if "origin" in headers or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return AdminRefusal(403, "Requests from web pages are refused.")
        return None


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
        self.request_check = AdminRequestCheck(host, names)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_MetricsCollector(metrics))
        self._server = _Server((host, port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, name="admin", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            # This wakes the thread, which would otherwise take up to half a second to notice that it should stop.
            self._server.socket.shutdown(socket.SHUT_RDWR)
            self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        try:
            return self._answer(path)
        except Exception as error:  # noqa: BLE001 - report the failure without its message, which may contain data
            return 500, JSON, json.encode({"failed": type(error).__name__})

    def store_header(self, path: str, client: str) -> list[tuple[str, str]]:
        """Return the header of `/ready` that names the store, for a client on this machine.

        `status` and `doctor` use it to notice that the service on a port serves another store.
        """
        store_id = self._store_id() if path == "/ready" and is_loopback(client) else None
        return [(STORE_HEADER, store_id)] if store_id else []

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        match path.partition("?")[0]:
            case "/live":
                return 200, JSON, json.encode({"live": True})
            case "/ready":
                checks = self._ready()
                problems = {check.name: check.problem for check in checks if check.problem}
                warnings = {check.name: check.warning for check in checks if check.warning}
                names = [check.name for check in checks]
                body = {"ready": not problems, "notReady": problems, "warnings": warnings, "checked": names}
                return (503 if problems else 200), JSON, json.encode(body)
            case "/metrics":
                return 200, TEXT, generate_latest(self._registry)
            case _:
                return 404, JSON, json.encode({"paths": ["/live", "/ready", "/metrics"]})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a client that disconnects is not an error, and standard error contains the log."""


class _MetricsCollector(Collector):
    def __init__(self, metrics: Callable[[], Iterable[Metric]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics()


def _handler(admin: Admin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5

        def do_GET(self) -> None:
            refusal = admin.request_check.refusal(self.headers, self.request_version)
            if refusal:
                self._send(refusal.status, JSON, json.encode({"refused": refusal.message}))
            else:
                header = admin.store_header(self.path, self.client_address[0])
                self._send(*admin.answer(self.path), *header)

        def _send(self, status: int, kind: str, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in (("content-type", kind), ("content-length", str(len(body))), *headers):
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
            """Respond in JSON even if http.server itself refuses a request, for example because of its method."""
            if code == HTTPStatus.NOT_IMPLEMENTED:
                self._send(405, JSON, json.encode({"allowed": ALLOWED}), ("allow", ", ".join(ALLOWED)))
            else:
                self._send(code, JSON, json.encode({"failed": HTTPStatus(code).phrase}))

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's signature
            """Log nothing, because frequent scrapes would fill the log."""

    return Handler
