"""The layout of a page, and its Content-Security-Policy."""

import base64
import hashlib
from functools import cache

from msgspec import Struct

from counterfoil.web.html import Html, element, markup, style_element

# The icon shows a counterfoil, the stub that stays in the book. It is embedded, so that no further request is needed.
ICON = (
    "data:image/svg+xml;base64,"
    + base64.b64encode(
        b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" '
        b'fill="#0b6e4f"/><path d="M8 9h16M8 16h10M8 23h13" stroke="#fff" stroke-width="3" stroke-linecap="round"/>'
        b"</svg>"
    ).decode()
)


class HtmlPage(Struct, frozen=True, kw_only=True):
    """The parts of a page. `scripts` are addresses of files; a page has no inline script."""

    title: str
    description: str
    style_sheet: str
    header: Html
    navigation: Html
    main: Html
    footer: Html
    language: str = "en"
    scripts: tuple[str, ...] = ()


def render(page: HtmlPage) -> bytes:
    """Return the page as one file, which loads only its scripts. A <meta> element sets the Content-Security-Policy."""
    policy = content_security_policy(page.style_sheet, runs_scripts=bool(page.scripts), in_header=False)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", page.title),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="description", content=page.description),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href=ICON),
        style_element(page.style_sheet),
        [element("script", src=address, defer=True) for address in page.scripts],
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element("header", page.header, class_="top"),
        element(
            "div",
            element("nav", page.navigation, id="contents", aria_label="Contents"),
            element("main", page.main, id="content", tabindex=-1),
            class_="columns",
        ),
        element("footer", page.footer),
    )
    return markup(Html("<!DOCTYPE html>\n"), element("html", head, "\n", body, lang=page.language), "\n").encode()


@cache
def content_security_policy(style_sheet: str, *, runs_scripts: bool = False, in_header: bool = True) -> str:
    """Return a policy that allows this inline style sheet and `data:` images.

    If `runs_scripts`, it also allows script files from the same origin, and requests
    to it. Everything else is blocked, such as other hosts, inline scripts, other inline
    styles and form submissions. A policy `in_header` also prevents other pages
    from showing the page in a frame.
    """
    digest = base64.b64encode(hashlib.sha256(style_sheet.encode()).digest()).decode()
    rules = ["default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:"]
    if runs_scripts:
        rules += ["script-src 'self'", "connect-src 'self'"]
    rules += ["base-uri 'none'", "form-action 'none'"]
    if in_header:
        # A <meta> element cannot set this rule.
        rules.append("frame-ancestors 'none'")
    return "; ".join(rules)
