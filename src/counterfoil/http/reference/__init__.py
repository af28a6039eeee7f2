"""The API reference for integrators, as an HTML page, as Markdown, and as llms.txt.

All three formats are generated from the OpenAPI document, so a new endpoint, field or error code appears in them
without any change here. `content` extracts the contents from the document, `calls` writes example requests, `guides`
contains short explanations, and `page`, `markdown` and `llms` write the formats.
"""

from counterfoil.http.reference import llms, markdown, page
from counterfoil.http.reference.content import Reference, build

FORMATS = ("html", "md", "txt")

__all__ = ["FORMATS", "Reference", "build", "render"]


def example_base_url(prefix: str) -> str:
    """Return the base URL that the examples show if the real base URL is not known."""
    return f"https://api.example.com{prefix}/v1"


def render(kind: str, prefix: str, base_url: str) -> bytes:
    """Return the reference as a file in one of the FORMATS."""
    reference = build(prefix, base_url, {})
    match kind:
        case "html":
            return page.render_page(reference)
        case "md":
            return markdown.render_markdown(reference)
        case _:
            return llms.render_llms(reference)
