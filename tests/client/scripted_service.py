"""Services for client tests: one with scripted responses, and proxies to the real one."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from running_service import RunningService

Answer = tuple[int, dict[str, str], bytes]
Answers = Callable[[str, Mapping[str, str]], Answer]
LATER = {"than": [1.5, "this"]}


@contextmanager
def scripted_service(answer: Answers, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Run a service that gets its responses by calling `answer` with the path and headers; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, body = answer(self.path, dict(self.headers.items()))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by the base class
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing about a client that hangs up."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def forwarded(service: RunningService, path: str, headers: Mapping[str, str]) -> httpx.Response:
    """Send a request that a proxy received to the service; return its response."""
    sent = {name.lower(): value for name, value in headers.items()}
    return service.server.client.get(service.url + path, headers={"authorization": sent["authorization"]})


@contextmanager
def proxy(service: RunningService, happens: Callable[[str], Answer | None]) -> Iterator[str]:
    """Run a proxy to the service that calls `happens` with the path of each request before it forwards the request.

    If `happens` returns a response, the client receives that response instead. Yields the proxy's base URL.
    """

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        refusal = happens(path)
        if refusal is not None:
            return refusal
        received = forwarded(service, path, headers)
        return received.status_code, {}, received.content

    with scripted_service(answer) as url:
        yield f"{url}{service.settings.prefix}/v1"


@contextmanager
def newer_service(service: RunningService) -> Iterator[str]:
    """Run a proxy to our service that adds fields and changes values as a later release might; yield its base URL."""

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        received = forwarded(service, path, headers)
        passed_on = {"x-ratelimit-remaining": received.headers.get("x-ratelimit-remaining", "")}
        return received.status_code, passed_on, json.dumps(_extended(received.json())).encode()

    with scripted_service(answer) as url:
        yield f"{url}/ext/v1"


def _extended(value: Any) -> Any:
    match value:
        case dict():
            known = {name: _extended(inner) for name, inner in value.items()}
            if known.get("status") == "completed":
                known["status"] = "disputed"
            return {"later": LATER, **known, "amongst": None}
        case list():
            return [_extended(inner) for inner in value]
        case _:
            return value
