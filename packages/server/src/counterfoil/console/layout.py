"""Answers with pages: what surrounds their content, the sign-in page, and pages that say why a request is refused."""

from collections.abc import Callable, Mapping
from typing import Final, Literal
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct

from counterfoil.checks.findings import Finding
from counterfoil.console.rendering import render, render_page
from counterfoil.console.sign_in import SIGN_IN_PATH
from counterfoil.console.texts import LANGUAGES, Texts, preferred
from counterfoil.console.visit import ConsolePage, ConsoleResponse, FormResult, View, Visit
from counterfoil.domain.devices import Role
from counterfoil.model.text import translatable
from counterfoil.program.times import local, zone_name
from counterfoil.settings import display_value
from counterfoil.web import assets

STYLE_PATH, SCRIPT_PATH, ICONS_PATH = "/console.css", "/console.js", "/icons.svg"
SERVICE_BANNER_PATH = "/service-banner"
# The pages in the navigation, with their addresses.
NAVIGATION: Final = {
    "today": "/",
    "keys": "/keys",
    "requests": "/requests",
    "shops": "/shops",
    "imports": "/imports",
    "loads": "/loads",
    "personal": "/personal-data",
    "store": "/store",
    "devices": "/devices",
    "audit": "/audit",
    "reference": "/reference",
}
LANGUAGE_NAMES = {"en": "English", "th": "ไทย"}


class LanguageLink(Struct, frozen=True):
    code: str
    name: str
    address: str


class Frame(Struct, frozen=True, kw_only=True):
    """What surrounds the content of every page. `name` is that of the page in the navigation."""

    name: str
    navigation: Mapping[str, str]
    icon: str
    store: str
    operator: str
    role: Role
    languages: list[LanguageLink]
    can_sign_out: bool
    banner_path: str
    service_problem: Finding | None
    # Whether the content already says whether the service is ready.
    shows_service: bool
    refresh_sec: int | None
    # The addresses of the same data as JSON and CSV, and the time at which it was read.
    as_json: str
    as_csv: str
    taken: str
    zone: str


def show(
    visit: Visit,
    page: ConsolePage[View],
    view: View,
    *,
    status: int = 200,
    outcome: FormResult | None = None,
    as_json: str = "",
    as_csv: str = "",
) -> ConsoleResponse:
    """Return a page. It links to the same data at the addresses `as_json` and `as_csv`, and begins with the outcome."""
    frame = _frame(
        visit, page.name, as_json, as_csv, shows_service=page.shows_service, refresh_sec=page.refresh_sec(visit, view)
    )
    body = render_page(page.template, visit, view, frame=frame, outcome=outcome)
    return ConsoleResponse(status=status, body=body.encode())


def _frame(
    visit: Visit, name: str, as_json: str, as_csv: str, *, shows_service: bool, refresh_sec: int | None
) -> Frame:
    back = visit.request.target if visit.request.method == "GET" else visit.path
    return Frame(
        name=name,
        navigation=NAVIGATION,
        icon=assets.icon(),
        store=display_value(visit.settings, "store"),
        operator=visit.session.actor.name,
        role=visit.session.role,
        languages=_other_languages(visit.t, lambda language: f"/language?{urlencode({'to': language, 'back': back})}"),
        can_sign_out=visit.session.device_id is not None,
        banner_path=SERVICE_BANNER_PATH,
        service_problem=service_problem(visit),
        shows_service=shows_service,
        refresh_sec=refresh_sec,
        as_json=as_json,
        as_csv=as_csv,
        taken=f"{local(visit.now):%H:%M:%S}",
        zone=zone_name(),
    )


def service_problem(visit: Visit) -> Finding | None:
    """Return why the service is not ready, or None if it is."""
    finding = visit.store.service()
    return None if finding.status == "ok" else finding


def service_banner(visit: Visit) -> Markup:
    """Return a warning with advice if the service is not ready."""
    return render_page("service_banner", visit, service_problem(visit))


def _other_languages(t: Texts, address: Callable[[str], str]) -> list[LanguageLink]:
    return [
        LanguageLink(language, LANGUAGE_NAMES[language], address(language))
        for language in LANGUAGES
        if language != t.language
    ]


SignInReason = Literal["ended", "refused", "signed_out"]


def sign_in_page(t: Texts, command: str, reason: SignInReason | None, operator: str | None = None) -> bytes:
    """Return the sign-in page. It shows `command`, which makes a link, and the operator who is signed in, if any."""
    languages = _other_languages(t, lambda language: f"{SIGN_IN_PATH}?lang={language}")
    values = {"icon": assets.icon(), "languages": languages, "link_command": command}
    return render("sign_in", t, **values, reason=reason, operator=operator).encode()


# Why a request is refused, by the reasons of `guards.refusal` and of the listener.
REFUSALS: Final = {
    "body_too_large": translatable("The body is too large."),
    "failed": translatable("The console failed unexpectedly. See its standard error."),
    "foreign_form": translatable(
        "This form was sent from another web site, so nothing was done. Open the page in this console, and send its "
        "form."
    ),
    "foreign_read": translatable("Other web sites must not load anything from the console. Open its address in a tab."),
    "loopback_host": translatable(
        "The console has an address of its own, so that your session stays yours. Open its sign-in link, or run "
        "`counterfoil console link` to get one."
    ),
    "malformed": translatable("The request is not valid."),
    "method": translatable("Only GET, HEAD and POST are allowed."),
    "not_url_encoded": translatable("The body of a form must be URL-encoded."),
    "one_host": translatable("Exactly one valid Host header is required."),
    "unknown_host": translatable(
        "The console does not know this host name. Open a link from `counterfoil console link`, or add the name to the "
        "setting `console_names`."
    ),
}


def refusal_page(headers: Mapping[str, str], status: int, reason: str) -> ConsoleResponse:
    """Return why a request is refused: a page for browsers, in the language that they prefer, or else plain text."""
    t = Texts(preferred(headers.get("accept-language", "")))
    text = t.gettext(REFUSALS[reason])
    if "text/html" not in headers.get("accept", ""):
        return ConsoleResponse(status=status, content_type="text/plain; charset=utf-8", body=f"{text}\n".encode())
    # The page contains its style sheet, because a request with a wrong host name gets no file.
    sheet = assets.style_sheet("counterfoil.console", "console.css")
    body = render(
        "refusal",
        t,
        icon=assets.icon(),
        languages=[],
        # A style sheet in a page is not escaped.
        style_sheet=Markup(sheet),  # noqa: S704 - it is the console's own
        has_failed=status >= 500,
        text=text,
        # Every address with this host name is refused.
        has_link=status != 421,
    )
    return ConsoleResponse(status=status, body=body.encode(), policy=assets.content_security_policy(sheet))
