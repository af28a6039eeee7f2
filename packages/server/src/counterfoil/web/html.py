"""Building blocks for HTML pages: elements, templates, prose, style sheets.

Text is always escaped, and the result is always well-formed. Inline styles, event handlers and `javascript:` URLs raise
an error, because a strict Content-Security-Policy blocks them. A page works without scripts and loads nothing from
other hosts. The top of `style.css` lists the classes that pages can use.

    element("p", "Tom & ", element("b", "Jerry"), class_="names")

returns `<p class="names">Tom &amp; <b>Jerry</b></p>`.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from html import escape as escape_text
from importlib import resources
from string import Formatter
from typing import Any, TypeAlias

VOID_ELEMENTS = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "wbr"})
ADDRESS_ATTRIBUTES = frozenset({"action", "formaction", "href", "src"})
# The content of these elements is not parsed as markup, so it cannot be escaped. Use `style_element` for style sheets.
RAW_ELEMENTS = frozenset({"script", "style"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
ALLOWED_SCHEMES = frozenset({"http", "https", "mailto", "data"})


class Html(str):
    """Markup that is inserted without escaping. Any other text is escaped."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the markup, as templates of Jinja2 ask for it."""
        return self


Child: TypeAlias = "str | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | bool | None"


def markup(*children: Child) -> Html:
    """Return the children as markup: text is escaped, None is left out, and lists are joined."""
    return Html("".join(_parts(children)))


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if hasattr(child, "__html__"):
            yield str(child)
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
    # Values are always in double quotes, so single quotes need no escaping.
    quoted = escape_text(str(value), quote=False).replace('"', "&quot;")
    return f' {name}="{quoted}"'


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


# --- templates: markup in files of a package ---------------------------------


class _Filler(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        return _attribute(format_spec, value) if format_spec else markup(value)


def fill(package: str, name: str, **values: object) -> Html:
    """Return a template with its placeholders filled: `{name}` is a child, and `{name:href}` is the attribute `href`.

    As in `element`, text is escaped, and an attribute that is None or False is left out.
    """
    return Html(_Filler().vformat(_template(package, name), (), values))


@cache
def _template(package: str, name: str) -> str:
    text = text_file(package, name)
    if re.search(r'="[^"]*\{', text):
        raise ValueError(f"an attribute in {name} has a placeholder in quotes, where text would not be escaped")
    return re.sub(r"\n\s*", "", text)


# --- prose: a subset of Markdown (paragraphs, numbered lists, code, bold and links) --

_INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|\[(?P<label>[^\]]+)\]\((?P<address>[^)\s]+)\)")
_NUMBERED = re.compile(r"\d+\. ")


def inline(text: str) -> Html:
    """Return one line of text as markup."""
    parts: list[str] = []
    end = 0
    for found in _INLINE.finditer(text):
        parts += [text[end : found.start()], _inline_element(found)]
        end = found.end()
    return markup(*parts, text[end:])


def _inline_element(found: re.Match[str]) -> Html:
    if found["code"]:
        return element("code", found["code"])
    if found["bold"]:
        return element("strong", inline(found["bold"]))
    return element("a", inline(found["label"]), href=found["address"])


def blocks(text: str) -> Html:
    """Return paragraphs and numbered lists as markup."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return markup(*(_block(paragraph.split("\n")) for paragraph in paragraphs))


def _block(lines: list[str]) -> Html:
    if not _NUMBERED.match(lines[0]):
        return element("p", inline(" ".join(line.strip() for line in lines)))
    items: list[str] = []
    for line in lines:
        if _NUMBERED.match(line):
            items.append(_NUMBERED.sub("", line, count=1))
        else:
            items[-1] += " " + line.strip()
    return element("ol", [element("li", inline(item)) for item in items])


# --- the icon of a page, and its Content-Security-Policy --------------------


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


# --- text files of a package ------------------------------------------------


@cache
def style_sheet(package: str, name: str) -> str:
    """Return the style sheet shared by all pages, and one of a package, without comments and line breaks."""
    css = text_file("counterfoil.web", "style.css") + text_file(package, name)
    return " ".join(re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL).split())


@cache
def text_file(package: str, name: str) -> str:
    """Return a text file of a package, such as a style sheet or a script."""
    return (resources.files(package) / name).read_text(encoding="utf-8")
