"""Prose in a page: a subset of Markdown with paragraphs, numbered lists, `code`, **bold** and [links](#anchor)."""

import re
from html import escape

from markupsafe import Markup

_INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|\[(?P<label>[^\]]+)\]\((?P<address>[^)\s]+)\)")
_NUMBERED = re.compile(r"\d+\. ")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
ALLOWED_SCHEMES = frozenset({"http", "https", "mailto"})


def escaped(text: str) -> str:
    """Return a text as markup. Unlike in an attribute, quotes stay as they are."""
    return escape(text, quote=False)


def inline(text: str) -> Markup:
    """Return one line of prose as markup."""
    parts: list[str] = []
    end = 0
    for found in _INLINE.finditer(text):
        parts += [escaped(text[end : found.start()]), _inline_element(found)]
        end = found.end()
    parts.append(escaped(text[end:]))
    return Markup("".join(parts))  # noqa: S704 - all parts are escaped


def _inline_element(found: re.Match[str]) -> str:
    if found["code"]:
        return f"<code>{escaped(found['code'])}</code>"
    if found["bold"]:
        return f"<strong>{inline(found['bold'])}</strong>"
    _require_allowed_scheme(found["address"])
    return f'<a href="{escape(found["address"])}">{inline(found["label"])}</a>'


def _require_allowed_scheme(address: str) -> None:
    # Browsers ignore control characters before a scheme, and within it. Spaces end an address in prose.
    scheme = _SCHEME.match(re.sub(r"[\x00-\x20]", "", address))
    if scheme and scheme[1].lower() not in ALLOWED_SCHEMES:
        raise ValueError(f"an address cannot have the scheme {scheme[1]}")


def blocks(text: str) -> Markup:
    """Return paragraphs and numbered lists as markup."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return Markup("").join(_block(paragraph.split("\n")) for paragraph in paragraphs)


def _block(lines: list[str]) -> Markup:
    if not _NUMBERED.match(lines[0]):
        return Markup("<p>{}</p>").format(inline(" ".join(line.strip() for line in lines)))
    items: list[str] = []
    for line in lines:
        if _NUMBERED.match(line):
            items.append(_NUMBERED.sub("", line, count=1))
        else:
            items[-1] += " " + line.strip()
    listed = Markup("").join(Markup("<li>{}</li>").format(inline(item)) for item in items)
    return Markup("<ol>{}</ol>").format(listed)
