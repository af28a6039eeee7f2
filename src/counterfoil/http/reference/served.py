"""The reference as pages that the service serves: `{prefix}/reference`, `reference.md` and `llms.txt`."""

from counterfoil.http.pages import StaticPage
from counterfoil.http.reference import tryout
from counterfoil.http.reference.content import Reference
from counterfoil.http.reference.llms import render_llms
from counterfoil.http.reference.markdown import render_markdown
from counterfoil.http.reference.page import page_style_sheet, render_page
from counterfoil.http.reference.tryout import TryOut
from counterfoil.web.html import content_security_policy

PATH = "/reference"


def reference_pages(
    reference: Reference, try_out: TryOut | None = None, home: tuple[str, str] | None = None
) -> dict[str, StaticPage]:
    """Return the pages by path. With `try_out`, the HTML page has forms that send requests with the given keys.

    `home` is the address and the name of a page that the HTML page links back to.
    """
    policy = content_security_policy(page_style_sheet(), runs_scripts=try_out is not None)
    html = render_page(reference, is_served=True, try_out=try_out, home=home)
    pages = {
        PATH: StaticPage("text/html; charset=utf-8", html, policy, has_keys=try_out is not None),
        f"{PATH}.md": StaticPage("text/markdown; charset=utf-8", render_markdown(reference)),
        "/llms.txt": StaticPage("text/plain; charset=utf-8", render_llms(reference)),
    }
    if try_out:
        pages[f"/{tryout.SCRIPT}"] = StaticPage("text/javascript; charset=utf-8", tryout.script())
    return {reference.prefix + path: page for path, page in pages.items()}
