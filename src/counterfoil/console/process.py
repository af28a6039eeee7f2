"""Runs the console in this process, and makes sign-in links for it."""

import secrets
import signal
import sys
from collections.abc import Callable

from counterfoil import bootstrap
from counterfoil.console.app import ConsoleApp, audience
from counterfoil.console.guards import SINGLE_HEADERS, refusal_response
from counterfoil.console.links import SIGN_IN_PATH, link_key, make_token, own_name
from counterfoil.domain.audit import Actor
from counterfoil.machine.addresses import is_loopback, reachable_host, url
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.private_listener import ListenerRequest, ListenerResponse, PrivateListener
from counterfoil.machine.process import SignalSafeEvent
from counterfoil.settings import Settings


def sign_in_link(settings: Settings, by: Actor, validity_ms: int, base_url: str | None = None) -> str:
    """Return a new link that signs this operator in once. Only a console that is already running accepts it."""
    key = link_key(bootstrap.deployment_secret(settings))
    token = make_token(key, by, audience(settings), SystemClock().now_ms(), validity_ms, secrets.token_bytes)
    is_local = is_loopback(reachable_host(settings.console_host))
    host = own_name(key, audience(settings)) if is_local else settings.console_host
    base = (base_url or url(host, settings.console_port)).rstrip("/")
    return f"{base}{SIGN_IN_PATH}#{token}"


def serve(settings: Settings, on_ready: Callable[[], None], stop: SignalSafeEvent) -> None:
    """Serve the console until `stop` is set or the process receives SIGINT or SIGTERM."""
    listener = listener_of(
        settings, ConsoleApp(settings, link_key(bootstrap.deployment_secret(settings)), SystemClock())
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    listener.start()
    try:
        on_ready()
        stop.wait()
    finally:
        listener.stop()


def listener_of(settings: Settings, app: ConsoleApp) -> PrivateListener:
    """Return the listener of a console. It is not started."""

    def answer(request: ListenerRequest) -> ListenerResponse:
        try:
            return app.answer(request).complete()
        except Exception as error:  # noqa: BLE001 - report the failure without its message, which may contain data
            _report(error)
            return refusal_response(request.header("accept-language"), 500, "failed").complete()

    def refuse(status: int, accept_language: str) -> ListenerResponse:
        if status == 413:
            return refusal_response(accept_language, status, "body_too_large").complete()
        return refusal_response(accept_language, status, "malformed").complete()

    single = (*SINGLE_HEADERS, settings.console_proxy_header) if settings.console_proxy_header else SINGLE_HEADERS
    return PrivateListener(settings.console_host, settings.console_port, answer, refuse, single)


def _report(error: Exception) -> None:
    """Write the type of an error and its position in the source code to standard error."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace else "unknown"
    sys.stderr.write(f"counterfoil console: a request failed ({type(error).__name__} in {where}).\n")
