"""The console: the steps of a request (checks, files, sign-in, session, then a page or an action), and its process."""

import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from counterfoil import bootstrap
from counterfoil.console import routes, sign_in
from counterfoil.console.actions import record_proxy_sign_in
from counterfoil.console.guards import SINGLE_HEADERS, refusal
from counterfoil.console.imports import IMPORT_PATH, Imports
from counterfoil.console.layout import ICONS_PATH, SCRIPT_PATH, STYLE_PATH, SignInReason, refusal_page, sign_in_page
from counterfoil.console.rendering import templates
from counterfoil.console.sessions import Session, Sessions
from counterfoil.console.texts import LANGUAGES, Texts, language_named, preferred, translations
from counterfoil.console.visit import JSON, ConsoleResponse, ConsoleStore, Visit, redirect
from counterfoil.domain.audit import Actor
from counterfoil.machine.addresses import HostNames, is_loopback
from counterfoil.machine.private_listener import ListenerRequest, ListenerResponse, PrivateListener
from counterfoil.ports import Clock
from counterfoil.program.clock import SystemClock
from counterfoil.program.process import SignalSafeEvent
from counterfoil.program.times import show_times_in
from counterfoil.settings import Settings
from counterfoil.web.assets import style_sheet, text_file

MAX_NAME = 200
UPLOAD_PATHS = frozenset({IMPORT_PATH})
# The sign-in page for a device that was signed in before.
SIGNED_OUT_PATH = f"{sign_in.SIGN_IN_PATH}?out=1"
# The script sends this header with requests that it makes by itself, such as those of *Follow live*.
REFRESH_HEADER = "x-background-refresh"
# In this header, a proxy says whether the browser used HTTPS.
PROTOCOL_HEADER = "x-forwarded-proto"
# Headers that proxies add to the requests that they pass on.
PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", PROTOCOL_HEADER, "x-real-ip")


class ConsoleApp:
    """The console application. `answer` is safe to call from several threads."""

    def __init__(self, settings: Settings, link_key: bytes, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        show_times_in(settings.timezone)
        name = sign_in.own_name(link_key, sign_in.audience(settings))
        self._names = HostNames(settings.console_host, settings.console_names, name)
        self._devices = sign_in.SignedInDevices(settings, link_key, clock)
        self._sessions = Sessions(clock, sign_in.lifetimes(settings))
        self._store = ConsoleStore(settings, clock)
        self._imports = Imports(clock)
        package = "counterfoil.console"
        self._files = {
            STYLE_PATH: ("text/css; charset=utf-8", style_sheet(package, "console.css")),
            SCRIPT_PATH: ("text/javascript; charset=utf-8", text_file(package, "console.js")),
            ICONS_PATH: ("image/svg+xml", text_file(package, "icons.svg")),
        }

    def open(self) -> None:
        """Prepare everything that pages need, so that a console with a broken template or without texts does not start.

        Without the private folder of the files that operators bring in, none can be brought in.
        """
        templates()
        for language in LANGUAGES:
            translations(language)
        self._imports.open()

    def close(self) -> None:
        """Delete these files."""
        self._imports.close()

    def answer(self, request: ListenerRequest) -> ConsoleResponse:
        refused = refusal(self._names, request)
        if refused:
            return refusal_page(request.headers, *refused)
        if request.path in self._files:
            kind, content = self._files[request.path]
            return ConsoleResponse(content_type=kind, body=content.encode())
        session = self._session(request)
        if request.path == sign_in.SIGN_IN_PATH:
            return self._sign_in(request, session)
        if session is None:
            return self._without_session(request)
        if request.path == "/sign-out" and request.method == "POST":
            self._sign_out_devices(request)
            return redirect(SIGNED_OUT_PATH, ("set-cookie", self._cookie(request, "", 0)))
        if request.path == "/language":
            return self._set_language(request, session)
        visit = Visit(
            request=request,
            session=session,
            sessions=self._sessions,
            imports=self._imports,
            store=self._store,
            settings=self._settings,
            t=Texts(session.language or preferred(request.header("accept-language"))),
            now=self._clock.now_ms(),
            values={},
        )
        return routes.answer(visit)

    def _session(self, request: ListenerRequest) -> Session | None:
        proxied = self._proxied_operator(request)
        is_use = not request.header(REFRESH_HEADER)
        if proxied:
            of_proxy, is_new = self._sessions.of_proxy(proxied, is_use=is_use)
            if is_new:
                record_proxy_sign_in(self._settings, proxied, self._clock.now_ms())
            return of_proxy
        tokens = self._tokens(request)
        device = next((device for token in tokens if (device := self._devices.find(token, is_use=is_use))), None)
        return self._sessions.of_device(device) if device else None

    def _tokens(self, request: ListenerRequest) -> list[str]:
        """Return the tokens in cookies. Over HTTPS, only that with the prefix counts: anybody can set the other."""
        over_https, over_http = self._cookie_names()
        names = (over_https,) if _is_https(request) else (over_https, over_http)
        return [request.cookies[name] for name in names if name in request.cookies]

    def _proxied_operator(self, request: ListenerRequest) -> Actor | None:
        """Return the operator whom the trusted proxy names, or None without a valid name from that proxy."""
        settings = self._settings
        if not settings.console_proxy or request.peer != settings.console_proxy:
            return None
        name = request.header(settings.console_proxy_header.lower()).strip()
        if not name or len(name) > MAX_NAME or not name.isprintable():
            return None
        return Actor(name, "console", request.peer)

    def _cookie_names(self) -> tuple[str, str]:
        """Return the names over HTTPS and HTTP, with the port: browsers send a host's cookies to all its ports."""
        port = self._settings.console_port
        return f"__Host-counterfoil-console-{port}", f"counterfoil-console-{port}"

    def _sign_in(self, request: ListenerRequest, session: Session | None) -> ConsoleResponse:
        """Show the form, or sign the device in; also an operator who is signed in, so that a second link is used up."""
        if session and not session.device_id:
            return redirect("/#")
        t = Texts(language_named(request.query.get("lang")) or preferred(request.header("accept-language")))
        if request.method != "POST":
            reason: SignInReason | None = "signed_out" if "out" in request.query and not session else None
            return self._sign_in_page(t, request, 200, reason, session)
        signed_in = self._devices.sign_in(request.form.get("link", ""))
        if signed_in is None:
            return redirect("/") if session else self._sign_in_page(t, request, 403, "refused")
        self._sign_out_devices(request)
        return redirect("/", ("set-cookie", self._cookie(request, *signed_in)))

    def _sign_in_page(
        self,
        t: Texts,
        request: ListenerRequest,
        status: int,
        reason: SignInReason | None,
        session: Session | None = None,
    ) -> ConsoleResponse:
        operator = session.actor.name if session else None
        return ConsoleResponse(status=status, body=sign_in_page(t, self._link_command(request), reason, operator))

    def _link_command(self, request: ListenerRequest) -> str:
        """Return the command that makes a link, with the store's path only if nobody else can reach this page."""
        settings = self._settings
        is_private = not settings.console_names and not settings.console_proxy
        is_direct = not any(request.header(name) for name in PROXY_HEADERS)
        if is_private and is_direct and is_loopback(settings.console_host):
            return sign_in.link_command(settings)
        return "counterfoil console link"

    def _without_session(self, request: ListenerRequest) -> ConsoleResponse:
        wants_page = "text/html" in request.header("accept") or request.header("sec-fetch-mode") == "navigate"
        if request.method == "POST" or (wants_page and not request.path.endswith((".json", ".csv"))):
            t = Texts(preferred(request.header("accept-language")))
            if request.method == "POST":
                return self._sign_in_page(t, request, 401, "ended")
            return redirect(SIGNED_OUT_PATH if self._tokens(request) else sign_in.SIGN_IN_PATH)
        return ConsoleResponse(status=401, content_type=JSON, body=b'{"error":"not_signed_in"}\n')

    def _sign_out_devices(self, request: ListenerRequest) -> None:
        for token in self._tokens(request):
            self._devices.sign_out(token)

    def _cookie(self, request: ListenerRequest, token: str, age_sec: int) -> str:
        over_https, over_http = self._cookie_names()
        name, secure = (over_https, "; Secure") if _is_https(request) else (over_http, "")
        return f"{name}={token}; Path=/; Max-Age={age_sec}; HttpOnly; SameSite=Strict{secure}"

    def _set_language(self, request: ListenerRequest, session: Session) -> ConsoleResponse:
        session.language = language_named(request.query.get("to")) or session.language
        back = request.query.get("back", "/")
        return redirect(back if _is_local(back) else "/")


def _is_https(request: ListenerRequest) -> bool:
    """Return whether the browser is known to use HTTPS. A false claim only makes the rules for cookies stricter."""
    # Each of several proxies adds its own protocol; the first is that of the browser.
    protocol = request.header(PROTOCOL_HEADER).partition(",")[0].strip().lower()
    return protocol == "https" or request.header("origin").lower().startswith("https:")


def _is_local(address: str) -> bool:
    """Return whether an address is a path of the console. To a browser, `//` and `/\\` begin a host name."""
    return address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()


def serve(settings: Settings, on_ready: Callable[[], None]) -> None:
    """Serve the console until the process receives SIGINT or SIGTERM."""
    stop = SignalSafeEvent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with running(settings):
        on_ready()
        stop.wait()


@contextmanager
def running(settings: Settings) -> Iterator[None]:
    """Serve the console in other threads inside the `with` block."""
    key = sign_in.link_key(bootstrap.deployment_secret(settings))
    app = ConsoleApp(settings, key, SystemClock())
    listener = listener_of(settings, app)
    app.open()
    listener.start()
    try:
        yield
    finally:
        listener.stop()
        app.close()


def listener_of(settings: Settings, app: ConsoleApp) -> PrivateListener:
    """Return the listener of a console. It is not started."""

    def answer(request: ListenerRequest) -> ListenerResponse:
        try:
            return app.answer(request).complete()
        except Exception as error:  # noqa: BLE001 - report the failure without its message, which may contain data
            _report(error)
            return refusal_page(request.headers, 500, "failed").complete()

    def refuse(status: int, accept_language: str) -> ListenerResponse:
        reason = "body_too_large" if status == 413 else "malformed"
        return refusal_page({"accept-language": accept_language}, status, reason).complete()

    single = (*SINGLE_HEADERS, settings.console_proxy_header) if settings.console_proxy_header else SINGLE_HEADERS
    return PrivateListener(
        settings.console_host, settings.console_port, answer, refuse, single, upload_paths=UPLOAD_PATHS
    )


def _report(error: Exception) -> None:
    """Write the type of an error and its position in the source code to standard error."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    sys.stderr.write(f"counterfoil console: a request failed ({type(error).__name__} in {where}).\n")
