"""Writes the reference as one HTML page. Only the search needs a script."""

from functools import cache

from jinja2 import Template
from markupsafe import Markup
from msgspec import Struct

from counterfoil.domain.problems import TABLE
from counterfoil.http.reference import content
from counterfoil.http.reference.calls import coloured, json_lines, samples
from counterfoil.http.reference.content import Endpoint, Reference
from counterfoil.web import assets
from counterfoil.web.prose import blocks
from counterfoil.web.templates import compile_all, environment

PACKAGE = "counterfoil.http.reference"
PAGE_SCRIPT = "reference.js"
# Example responses longer than this many characters are left out of the page, except for the first one of an
# operation. The Markdown format shows all of them.
MAX_EXTRA_EXAMPLE = 600


class ShownExample(Struct, frozen=True):
    """An example response, and what it is an example of."""

    words: str
    text: str


class HomeLink(Struct, frozen=True):
    address: str
    name: str


def page_style_sheet() -> str:
    return assets.style_sheet(PACKAGE, "reference.css")


def render_page(
    reference: Reference, *, is_served: bool = False, home: tuple[str, str] | None = None, try_at: str | None = None
) -> bytes:
    """Return the page, which has a search field and links to the other formats if it `is_served` with its script.

    `home` is the address and name of a page to link back to. Below `try_at`, each operation has a page to try it.
    """
    style = page_style_sheet()
    first = samples(reference.endpoints[0].calls[0])[0].text
    page = _template().render(
        reference=reference,
        policy=assets.content_security_policy(style, runs_scripts=is_served, in_header=False),
        icon=assets.icon(),
        # A style sheet in a page is not escaped.
        style_sheet=Markup(style),  # noqa: S704 - it is the project's own
        is_served=is_served,
        script=PAGE_SCRIPT,
        home=HomeLink(*home) if home else None,
        try_at=try_at,
        first_call=content.FIRST_CALL,
        setup=f"export BASE={reference.base_url}\nexport KEY=cf_live_…\n\n{first}",
        problems=TABLE,
        order_of_checks=content.order_of_checks(),
        line_break="\n",
    )
    return page.encode()


@cache
def _template() -> Template:
    """Return the template of the page, compiled together with its macros."""
    templates = environment(PACKAGE, is_compact=True)
    templates.filters.update(blocks=blocks, coloured=coloured, samples=samples, shown_examples=_shown_examples)
    compile_all(templates)
    return templates.get_template("page.html")


def _shown_examples(endpoint: Endpoint) -> list[ShownExample]:
    """Return the examples that the page shows. A list shows the same object as the response for one ID."""
    if endpoint.path.endswith("}"):
        return []
    shown: list[ShownExample] = []
    for name, body in endpoint.examples.items():
        text = json_lines(body)
        if not shown or len(text) <= MAX_EXTRA_EXAMPLE:
            shown.append(ShownExample(_words(name), text))
    return shown


def _words(name: str) -> str:
    """Return the words of a name: `fullPage` becomes ` full page`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
