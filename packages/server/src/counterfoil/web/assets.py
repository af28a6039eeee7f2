"""What pages are made of besides their templates: style sheets, scripts, the icon, and the policy that allows them.

A page works without scripts and loads nothing from other hosts. The top of `style.css` lists the classes that pages
can use.
"""

import base64
import hashlib
import re
from functools import cache
from importlib import resources


@cache
def icon() -> str:
    """Return the address of the icon, which is embedded, so that no further request is needed."""
    return "data:image/svg+xml;base64," + base64.b64encode(text_file("counterfoil.web", "icon.svg").encode()).decode()


@cache
def content_security_policy(style_sheet: str, *, runs_scripts: bool = False, in_header: bool = True) -> str:
    """Return a policy that allows this inline style sheet and `data:` images.

    If `runs_scripts`, it also allows script files from the same origin. Everything else is blocked, such as other
    hosts, inline scripts, other inline styles, requests of scripts and form submissions. A policy `in_header` also
    prevents other pages from showing the page in a frame.
    """
    digest = base64.b64encode(hashlib.sha256(style_sheet.encode()).digest()).decode()
    rules = ["default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:"]
    rules += ["script-src 'self'"] if runs_scripts else []
    rules += ["base-uri 'none'", "form-action 'none'"]
    if in_header:
        # A <meta> element cannot set this rule.
        rules.append("frame-ancestors 'none'")
    return "; ".join(rules)


@cache
def style_sheet(package: str, name: str) -> str:
    """Return the style sheet shared by all pages, and one of a package, without comments and line breaks."""
    css = text_file("counterfoil.web", "style.css") + text_file(package, name)
    return " ".join(re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL).split())


@cache
def text_file(package: str, name: str) -> str:
    """Return a text file of a package, such as a style sheet or a script."""
    return (resources.files(package) / name).read_text(encoding="utf-8")
