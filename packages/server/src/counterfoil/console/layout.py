"""Answers with pages: what surrounds their content, the sign-in page, and pages that say why a request is refused."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct

from counterfoil.checks.findings import Finding
from counterfoil.console import display
from counterfoil.console.display import template
from counterfoil.console.rendering import render_page
from counterfoil.console.sign_in import SIGN_IN_PATH
from counterfoil.console.texts import LANGUAGES, Texts, preferred
from counterfoil.console.visit import ConsolePage, ConsoleResponse, FormResult, PageContent, View, Visit
from counterfoil.domain.devices import Role
from counterfoil.program.times import local, zone_name
from counterfoil.settings import display_value
from counterfoil.web import html
from counterfoil.web.html import Html, element

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


def page(
    visit: Visit, name: str, content: PageContent, *, status: int = 200, as_json: str = "", as_csv: str = ""
) -> ConsoleResponse:
    """Return a page that is not a template yet."""
    shows_service, refresh_sec = content.shows_service, content.refresh_sec
    frame = _frame(visit, name, as_json, as_csv, shows_service=shows_service, refresh_sec=refresh_sec)
    body = render_page("drawn", visit, content, frame=frame, outcome=None)
    return ConsoleResponse(status=status, body=body.encode())


def _frame(
    visit: Visit, name: str, as_json: str, as_csv: str, *, shows_service: bool, refresh_sec: int | None
) -> Frame:
    back = visit.request.target if visit.request.method == "GET" else visit.path
    return Frame(
        name=name,
        navigation=NAVIGATION,
        icon=html.icon(),
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


def sign_in_page(t: Texts, command: str, message: Html | None, operator: str | None = None) -> bytes:
    """Return the sign-in page. It shows `command`, which makes a link, and the operator who is signed in, if any."""
    go_on = element("a", t("sign_in.go_on"), href="/")
    notices = [notice(html.markup(t("signed_in_as", name=operator), " · ", go_on)) if operator else None, message]
    languages = _languages(t, lambda language: f"{SIGN_IN_PATH}?lang={language}")
    form = template("sign_in", t, notices=notices, command=display.command_line(command))
    return _outside(t, t("sign_in.title"), form, languages)


def refusal_page(headers: Mapping[str, str], status: int, reason: str) -> ConsoleResponse:
    """Return why a request is refused: a page for browsers, in the language that they prefer, or else plain text."""
    t = Texts(preferred(headers.get("accept-language", "")))
    text = t(f"guard.{reason}")
    if "text/html" not in headers.get("accept", ""):
        return ConsoleResponse(status=status, content_type="text/plain; charset=utf-8", body=f"{text}\n".encode())
    # The page contains its style sheet, because a request with a wrong host name gets no file.
    sheet = html.style_sheet("counterfoil.console", "console.css")
    title = t("refusal.failed") if status >= 500 else t("refusal.title")
    # Every address with this host name is refused.
    content = problem_box(t, html.inline(text), has_link=status != 421)
    body = _outside(t, title, content, style=html.style_element(sheet))
    return ConsoleResponse(status=status, body=body, policy=html.content_security_policy(sheet))


def problem_box(t: Texts, text: html.Child, *, has_link: bool = True) -> Html:
    link = display.button_row(display.button_link(t("problem.today"), "/")) if has_link else None
    return element("div", element("p", text), link, class_="problem", role="status")


def _outside(t: Texts, title: str, content: Html, languages: Sequence[Html] = (), style: Html | None = None) -> bytes:
    """Return a page without navigation."""
    body = template("outside", t, icon=html.icon(), title=title, content=content, languages=languages)
    return _document(t, title, body, style)


def _languages(t: Texts, address: Callable[[str], str]) -> list[Html]:
    return [
        element("a", LANGUAGE_NAMES[language], href=address(language), lang=language, hreflang=language)
        for language in LANGUAGES
        if language != t.language
    ]


def _document(t: Texts, title: str, body: Html, style: Html | None = None) -> bytes:
    linked = [element("link", rel="stylesheet", href=STYLE_PATH), element("script", src=SCRIPT_PATH, defer=True)]
    return template("document", t, title=title, icon=html.icon(), files=style or linked, body=body).encode()


def notice(text: html.Child, kind: str = "") -> Html:
    """Return a message in a box. `kind` is `good`, `warn`, `bad` or empty."""
    return element("p", text, class_=f"notice {kind}".rstrip(), role="status")
