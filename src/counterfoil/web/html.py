"""Builds HTML from elements, so that text is always escaped and the result is always well-formed.

    element("p", "Tom & ", element("b", "Jerry"), class_="names")

returns `<p class="names">Tom &amp; <b>Jerry</b></p>`.
"""

import re
from collections.abc import Iterable
from html import escape as escape_text
from typing import TypeAlias

VOID_ELEMENTS = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "wbr"})
ADDRESS_ATTRIBUTES = frozenset({"action", "formaction", "href", "src"})
# The content of these elements is not parsed as markup, so it cannot be escaped. Use `style_element` for style sheets.
RAW_ELEMENTS = frozenset({"script", "style"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
ALLOWED_SCHEMES = frozenset({"http", "https", "mailto", "data"})


class Html(str):
    """Markup that is inserted without escaping. Any other text is escaped."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | bool | None"


def markup(*children: Child) -> Html:
    """Return the children as markup: text is escaped, None is left out, and lists are joined."""
    return Html("".join(_parts(children)))


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, Html):
            yield child
        elif isinstance(child, str):
            yield escape_text(child, quote=False)
        elif child is not None:
            yield from _parts(child)


def element(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element. In attribute names, `class_` stands for `class` and `aria_label` for `aria-label`.

    An attribute that is None or False is left out. An attribute that is True is written without a value.
    """
    if name in RAW_ELEMENTS and children:
        raise ValueError(f"the content of <{name}> cannot be escaped")
    opening = "".join([f"<{name}", *(_attribute(key, value) for key, value in attributes.items()), ">"])
    if name in VOID_ELEMENTS:
        if children:
            raise ValueError(f"<{name}> cannot have children")
        return Html(opening)
    return Html(f"{opening}{markup(*children)}</{name}>")


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if name == "style" or name.startswith("on"):
        raise ValueError(f"the Content-Security-Policy does not allow the attribute {name}")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    if name in ADDRESS_ATTRIBUTES:
        _require_allowed_scheme(str(value))
    return f' {name}="{_quoted(str(value))}"'


def _quoted(value: str) -> str:
    """Escape the value of an attribute. Values are always in double quotes, so single quotes need no escaping."""
    return escape_text(value, quote=False).replace('"', "&quot;")


def _require_allowed_scheme(address: str) -> None:
    # Browsers ignore spaces and control characters before a scheme, and tabs and line breaks within it.
    found = _SCHEME.match(re.sub(r"[\x00-\x20]", "", address))
    if found and found[1].lower() not in ALLOWED_SCHEMES:
        raise ValueError(f"an address cannot have the scheme {found[1]}")


def style_element(style_sheet: str) -> Html:
    """Return a <style> element. Its content is not escaped, so the style sheet must be the project's own."""
    if "</" in style_sheet:
        raise ValueError("a style sheet in a page cannot contain </")
    return Html(f"<style>{style_sheet}</style>")
