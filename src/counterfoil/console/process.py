"""Runs the console in this process, and makes sign-in links for it."""

import secrets
import signal
import threading
from collections.abc import Callable

from counterfoil import bootstrap
from counterfoil.console.app import ConsoleApp, audience
from counterfoil.console.links import SIGN_IN_PATH, link_key, make_token
from counterfoil.console.server import ConsoleServer
from counterfoil.domain.audit import Actor
from counterfoil.machine.addresses import url
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.signals import SignalSafeEvent
from counterfoil.settings import Settings


def sign_in_link(settings: Settings, by: Actor, validity_ms: int, base_url: str | None = None) -> str:
    """Return a new link that signs this operator in once. Only a console that is already running accepts it."""
    key = link_key(bootstrap.deployment_secret(settings))
    token = make_token(key, by, audience(settings), SystemClock().now_ms(), validity_ms, secrets.token_bytes)
    base = (base_url or url(settings.console_host, settings.console_port)).rstrip("/")
    return f"{base}{SIGN_IN_PATH}#{token}"


def serve(settings: Settings, on_ready: Callable[[], None], stop: SignalSafeEvent) -> None:
    """Serve the console until `stop` is set or the process receives SIGINT or SIGTERM."""
    app = ConsoleApp(settings, link_key(bootstrap.deployment_secret(settings)), SystemClock())
    server = ConsoleServer(settings.console_host, settings.console_port, app.answer)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    thread = threading.Thread(target=server.serve_forever, name="console", daemon=True)
    thread.start()
    try:
        on_ready()
        stop.wait()
    finally:
        server.shutdown()
        server.server_close()
