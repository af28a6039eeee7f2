"""Renders the parts that all pages share: header with the operator's name, navigation, and the export menu."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from counterfoil.console import display
from counterfoil.console.display import finding_text, template
from counterfoil.console.sign_in import SIGN_IN_PATH
from counterfoil.console.texts import LANGUAGES, Texts, preferred
from counterfoil.console.visit import ConsoleResponse, PageContent, Visit
from counterfoil.settings import display_value
from counterfoil.views.times import local
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
    "loads": "/loads",
    "personal": "/personal-data",
    "store": "/store",
    "devices": "/devices",
    "audit": "/audit",
    "reference": "/reference",
}
LANGUAGE_NAMES = {"en": "English", "th": "ไทย"}


def page(
    visit: Visit, name: str, content: PageContent, *, status: int = 200, as_json: str = "", as_csv: str = ""
) -> ConsoleResponse:
    """Return a page with header and navigation. It links to the same data at the addresses `as_json` and `as_csv`."""
    t, banner = visit.t, service_banner(visit)
    back = visit.request.target if visit.request.method == "GET" else visit.path
    body = template(
        "page",
        t,
        store=display_value(visit.settings, "store"),
        operator=_operator(visit),
        languages=_languages(t, lambda language: f"/language?{urlencode({'to': language, 'back': back})}"),
        sign_out=template("sign_out", t) if visit.session.device_id else None,
        navigation=_navigation(t, name),
        current=f": {t(f'nav.{name}')}" if name in NAVIGATION else None,
        # A script updates the banner while the page is open.
        banner_path=SERVICE_BANNER_PATH,
        banner=None if content.shows_service else banner,
        is_down="yes" if banner else None,
        content=content,
        export=_export(t, content, as_json, as_csv),
        taken=t("taken", time=f"{local(visit.now):%H:%M:%S}") if as_json else None,
        footer=t("footer", zone=display.zone_text(t)),
    )
    return ConsoleResponse(status=status, body=_document(t, content.title, body))


def _operator(visit: Visit) -> str:
    t, session = visit.t, visit.session
    name = display.name_of(session.actor.name)
    return t("signed_in_as", name=name if session.role == "operator" else f"{name} ({t(f'role.{session.role}')})")


def service_banner(visit: Visit) -> Html | None:
    """Return a warning with advice if the service is not ready, or None if it is."""
    finding = visit.store.service()
    if finding.status == "ok":
        return None
    return element(
        "p", element("strong", visit.t("service.down")), " ", finding_text(visit.t, finding), class_="notice bad"
    )


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


def _navigation(t: Texts, current: str) -> Html:
    links = (
        (html.markup(template("icon", t, address=f"{ICONS_PATH}#{name}"), t(f"nav.{name}")), address, name == current)
        for name, address in NAVIGATION.items()
    )
    return display.link_list(None, None, links)


def _export(t: Texts, content: PageContent, as_json: str, as_csv: str) -> Html | None:
    """Return the menu with the same data in other formats and on the command line."""
    formats = {"JSON": as_json, "CSV": as_csv}
    links = [element("li", element("a", label, href=address)) for label, address in formats.items() if address]
    if not content.commands and not links:
        return None
    lines = [element("li", display.command_line(command)) for command in content.commands]
    introduction = element("p", content.command_text or t("same.command")) if content.commands else None
    return template("export", t, links=links, introduction=introduction, commands=lines)


def notice(text: html.Child, kind: str = "") -> Html:
    """Return a message in a box. `kind` is `good`, `warn`, `bad` or empty."""
    return element("p", text, class_=f"notice {kind}".rstrip(), role="status")
