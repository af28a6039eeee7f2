"""The API reference for integrators, as an HTML page, as Markdown, as llms.txt, and as a Postman collection.

All formats are generated from the OpenAPI document, so a new endpoint, field or error code appears in them
without any change here. `content` extracts the contents from the document, `calls` writes example requests, and
`page`, `markdown` and `postman` write the formats.
"""

from counterfoil.http.reference.content import Reference, build
from counterfoil.http.reference.markdown import render_llms, render_markdown
from counterfoil.http.reference.page import PAGE_SCRIPT, page_style_sheet, render_page
from counterfoil.http.reference.postman import render_postman
from counterfoil.http.wire import StaticPage
from counterfoil.web.assets import content_security_policy, text_file

_RENDERERS = {"html": render_page, "md": render_markdown, "txt": render_llms}
FORMATS = (*_RENDERERS, "json")

__all__ = ["FORMATS", "Reference", "build", "render"]


def example_base_url(prefix: str) -> str:
    """Return the base URL that the examples show if the real base URL is not known."""
    return f"https://api.example.com{prefix}/v1"


def render(kind: str, prefix: str, base_url: str) -> bytes:
    """Return the reference as a file in one of the FORMATS."""
    if kind == "json":
        return render_postman(prefix, base_url)
    return _RENDERERS[kind](build(prefix, base_url, {}))


PATH = "/reference"


def served_pages(
    reference: Reference, home: tuple[str, str] | None = None, try_at: str | None = None
) -> dict[str, StaticPage]:
    """Return the pages by path. `render_page` explains the arguments."""
    policy = content_security_policy(page_style_sheet(), runs_scripts=True)
    html = render_page(reference, is_served=True, home=home, try_at=try_at)
    pages = {
        PATH: StaticPage("text/html; charset=utf-8", html, policy),
        f"{PATH}.md": StaticPage("text/markdown; charset=utf-8", render_markdown(reference)),
        "/llms.txt": StaticPage("text/plain; charset=utf-8", render_llms(reference)),
        f"/{PAGE_SCRIPT}": StaticPage("text/javascript; charset=utf-8", text_file(__name__, PAGE_SCRIPT).encode()),
    }
    return {reference.prefix + path: page for path, page in pages.items()}
