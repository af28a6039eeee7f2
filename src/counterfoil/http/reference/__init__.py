"""The reference for integrators: one HTML page, the same as Markdown, and llms.txt.

All three are made from the OpenAPI document, and so from the same tables: a new endpoint, field or error code appears
without any change here. `content` collects what is shown, `calls` writes example requests, `guides` holds the short
explanations, and `page`, `markdown` and `llms` write the formats.
"""

from counterfoil.http.reference import llms, markdown, page
from counterfoil.http.reference.content import Reference, build

FORMATS = ("html", "md", "txt")

__all__ = ["FORMATS", "Reference", "build", "render"]


def example_base_url(prefix: str) -> str:
    """Return the base URL that the examples show where the real one is not known."""
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
