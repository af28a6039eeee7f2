"""Renders the parts that all pages share: header with the operator's name, navigation, and the equivalent command."""

from typing import Final
from urllib.parse import urlencode

from counterfoil.console.display import command_line, finding_text
from counterfoil.console.sessions import SIGN_IN_PATH
from counterfoil.console.texts import LANGUAGES, Texts
from counterfoil.console.visit import PageContent, Visit
from counterfoil.machine.private_listener import ListenerRequest
from counterfoil.settings import display_value
from counterfoil.web.html import ICON, Child, Html, element, markup

STYLE_PATH, SCRIPT_PATH, SERVICE_BANNER_PATH = "/console.css", "/console.js", "/service-banner"
# The pages in the navigation, with their addresses.
NAVIGATION: Final = {
    "today": "/",
    "keys": "/keys",
    "requests": "/requests",
    "shops": "/shops",
    "loads": "/loads",
    "personal": "/personal-data",
    "store": "/store",
    "audit": "/audit",
    "reference": "/reference",
}
LANGUAGE_NAMES = {"en": "English", "th": "ไทย"}


def page(
    visit: Visit, name: str, content: PageContent, json_address: str | None, csv_address: str | None = None
) -> bytes:
    """Return a page with header and navigation. It links to the same data at `json_address` and `csv_address`."""
    t = visit.t
    body = element(
        "body",
        element("a", t("skip"), href="#content", class_="skip"),
        element("header", _header(visit), class_="top"),
        element(
            "div",
            element("nav", _navigation(t, name), _menu(visit, name), aria_label=t("navigation")),
            element(
                "main",
                _service(visit, content),
                element("h1", content.title),
                content.lead,
                content.main,
                _same_data(t, content, json_address, csv_address),
                id="content",
                tabindex=-1,
            ),
            class_="columns",
        ),
        element("footer", element("p", t("footer"))),
    )
    return _document(t, f"{content.title} · Counterfoil", body)


def _service(visit: Visit, content: PageContent) -> Html:
    """Return the element for the service banner. A script updates it while the page is open."""
    t = visit.t
    banner = service_banner(visit)
    return element(
        "div",
        None if content.shows_service else banner,
        id="service",
        role="status",
        data_address=SERVICE_BANNER_PATH,
        data_down="yes" if banner else None,
        data_again=t("service.again"),
        data_lost=t("service.console_lost"),
    )


def service_banner(visit: Visit) -> Html | None:
    """Return a warning with advice if the service is not ready, or None if it is."""
    finding = visit.store.service()
    if finding.status == "ok":
        return None
    return element(
        "p", element("strong", visit.t("service.down")), " ", finding_text(visit.t, finding), class_="notice bad"
    )


def signed_out_page(t: Texts, request: ListenerRequest, title: str, *main: Child) -> bytes:
    """Return a page without navigation, which can be shown without a session, such as the sign-in page."""
    languages = [
        element("a", LANGUAGE_NAMES[language], href=f"{request.path}?lang={language}", lang=language, hreflang=language)
        for language in LANGUAGES
        if language != t.language
    ]
    body = element(
        "body",
        element("header", _brand(), element("p", languages, class_="who"), class_="top"),
        element("main", element("h1", title), *main, id="content", class_="signed-out"),
    )
    return _document(t, f"{title} · Counterfoil", body)


def _document(t: Texts, title: str, body: Html) -> bytes:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("title", title),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href=ICON),
        element("link", rel="stylesheet", href=STYLE_PATH),
        element("script", src=SCRIPT_PATH, defer=True),
    )
    return markup(Html("<!DOCTYPE html>\n"), element("html", head, "\n", body, lang=t.language), "\n").encode()


def _brand() -> Html:
    return element("a", element("span", "Counterfoil", class_="brand"), " console", href="/", class_="home", lang="en")


def _header(visit: Visit) -> Html:
    t = visit.t
    back = visit.request.target if visit.request.method == "GET" else visit.request.path
    languages = [
        element("a", LANGUAGE_NAMES[language], href=visit_language(language, back), lang=language, hreflang=language)
        for language in LANGUAGES
        if language != t.language
    ]
    sign_out = element(
        "form", element("button", t("sign_out"), class_="plain"), method="post", action="/sign-out", class_="inline"
    )
    operator = element("span", t("signed_in_as", name=visit.session.actor.name), class_="operator")
    store = element("span", display_value(visit.settings, "store"), class_="place", title=t("store_title"))
    return markup(
        _brand(),
        store,
        element("div", operator, languages, None if visit.session.is_proxied else sign_out, class_="who"),
    )


def visit_language(language: str, back: str) -> str:
    return f"/language?{urlencode({'to': language, 'back': back})}"


def _menu(visit: Visit, current: str) -> Html:
    """Return the navigation for narrow screens, collapsed at first, with the operator's name and the store address."""
    t = visit.t
    name = f": {t(f'nav.{current}')}" if current in NAVIGATION else ""
    return element(
        "details",
        element("summary", t("menu") + name),
        _navigation(t, current),
        element("p", t("signed_in_as", name=visit.session.actor.name), class_="muted"),
        element("p", element("code", display_value(visit.settings, "store")), class_="muted"),
        class_="menu",
    )


def _navigation(t: Texts, current: str) -> Html:
    return element(
        "ul",
        [
            element(
                "li",
                element("a", t(f"nav.{name}"), href=address, aria_current="page" if name == current else None),
            )
            for name, address in NAVIGATION.items()
        ],
    )


def _same_data(t: Texts, content: PageContent, json_address: str | None, csv_address: str | None) -> Html | None:
    commands = [content.command, *content.more_commands] if content.command else []
    formats = [
        element("a", label, href=address, type=kind)
        for label, address, kind in (("JSON", json_address, "application/json"), ("CSV", csv_address, "text/csv"))
        if address
    ]
    if not commands and not formats:
        return None
    introduction = content.command_text or t("same.command")
    return element(
        "aside",
        element("p", introduction, [[" ", command_line(command)] for command in commands]) if commands else None,
        element("p", t("same.formats"), [[" ", link] for link in formats]) if formats else None,
        class_="same",
        aria_label=t("same.title"),
    )


def notice(text: Child, kind: str = "") -> Html:
    """Return a message in a box. `kind` is `good`, `warn`, `bad` or empty."""
    return element("p", text, class_=f"notice {kind}".rstrip(), role="status")


def sign_in_form(t: Texts, command: str, message: str | None, operator: str | None = None) -> Html:
    """Return the sign-in form. It shows `command`, which makes a link, and the operator who is signed in, if any."""
    return markup(
        notice(markup(t("signed_in_as", name=operator), " · ", element("a", t("sign_in.go_on"), href="/")))
        if operator
        else None,
        notice(message, "bad") if message else None,
        element("p", t("sign_in.text")),
        element("p", command_line(command)),
        element(
            "form",
            element("label", t("sign_in.label"), for_="link"),
            element(
                "input",
                id="link",
                name="link",
                type="password",
                required=True,
                autocomplete="off",
                spellcheck="false",
                aria_describedby="link-help",
            ),
            element("p", t("sign_in.help"), id="link-help", class_="muted"),
            element("button", t("sign_in.button")),
            method="post",
            action=SIGN_IN_PATH,
            id="sign-in",
            class_="stack card",
        ),
    )
