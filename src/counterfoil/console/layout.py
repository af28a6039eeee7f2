"""Renders the parts that all pages share: header with the operator's name, navigation, and the export menu."""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from counterfoil.console.display import command_line, finding_text, link_list, name_of, template, zone_text
from counterfoil.console.sign_in import SIGN_IN_PATH
from counterfoil.console.texts import LANGUAGES, Texts
from counterfoil.console.visit import ConsoleResponse, PageContent, Visit
from counterfoil.settings import display_value
from counterfoil.views.times import local
from counterfoil.web.html import Child, Html, element, icon, markup

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
        footer=t("footer", zone=zone_text(t)),
    )
    return ConsoleResponse(status=status, body=_document(t, content.title, body))


def _operator(visit: Visit) -> str:
    t, session = visit.t, visit.session
    name = name_of(session.actor.name)
    return t("signed_in_as", name=name if session.role == "operator" else f"{name} ({t(f'role.{session.role}')})")


def service_banner(visit: Visit) -> Html | None:
    """Return a warning with advice if the service is not ready, or None if it is."""
    finding = visit.store.service()
    if finding.status == "ok":
        return None
    return element(
        "p", element("strong", visit.t("service.down")), " ", finding_text(visit.t, finding), class_="notice bad"
    )


def sign_in_page(t: Texts, command: str, message: str | None, operator: str | None = None) -> bytes:
    """Return the sign-in page. It shows `command`, which makes a link, and the operator who is signed in, if any."""
    go_on = element("a", t("sign_in.go_on"), href="/")
    notices = [
        notice(markup(t("signed_in_as", name=operator), " · ", go_on)) if operator else None,
        notice(message, "bad") if message else None,
    ]
    languages = _languages(t, lambda language: f"{SIGN_IN_PATH}?lang={language}")
    body = template("signed_out", t, languages=languages, notices=notices, command=command_line(command))
    return _document(t, t("sign_in.title"), body)


def _languages(t: Texts, address: Callable[[str], str]) -> list[Html]:
    return [
        element("a", LANGUAGE_NAMES[language], href=address(language), lang=language, hreflang=language)
        for language in LANGUAGES
        if language != t.language
    ]


def _document(t: Texts, title: str, body: Html) -> bytes:
    return template("document", t, title=title, icon=icon(), body=body).encode()


def _navigation(t: Texts, current: str) -> Html:
    links = (
        (markup(template("icon", t, address=f"{ICONS_PATH}#{name}"), t(f"nav.{name}")), address, name == current)
        for name, address in NAVIGATION.items()
    )
    return link_list(None, None, links)


def _export(t: Texts, content: PageContent, as_json: str, as_csv: str) -> Html | None:
    """Return the menu with the same data in other formats and on the command line."""
    commands = [content.command, *content.more_commands] if content.command else []
    formats = {"JSON": as_json, "CSV": as_csv}
    links = [element("li", element("a", label, href=address)) for label, address in formats.items() if address]
    if not commands and not links:
        return None
    lines = [element("li", command_line(command)) for command in commands]
    introduction = element("p", content.command_text or t("same.command")) if commands else None
    return template("export", t, links=links, introduction=introduction, commands=lines)


def notice(text: Child, kind: str = "") -> Html:
    """Return a message in a box. `kind` is `good`, `warn`, `bad` or empty."""
    return element("p", text, class_=f"notice {kind}".rstrip(), role="status")
