"""Converts a subset of Markdown to HTML: paragraphs, numbered lists, `code`, **bold** and [links](#anchor)."""

import re
from collections.abc import Iterator, Mapping

from counterfoil.web.html import Html, element, markup

_INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|\[(?P<label>[^\]]+)\]\((?P<address>[^)\s]+)\)")
_NUMBERED = re.compile(r"\d+\. ")

# Maps the text of a code span to the address that the span links to.
Links = Mapping[str, str]


def inline(text: str, links: Links | None = None) -> Html:
    """Return one line of text as markup. Code whose text is in `links` becomes a link."""
    parts: list[str] = []
    end = 0
    for found in _INLINE.finditer(text):
        parts += [text[end : found.start()], _inline_element(found, links or {})]
        end = found.end()
    return markup(*parts, text[end:])


def _inline_element(found: re.Match[str], links: Links) -> Html:
    if found["code"]:
        code = element("code", found["code"])
        address = links.get(found["code"])
        return element("a", code, href=address) if address else code
    if found["bold"]:
        return element("strong", inline(found["bold"], links))
    return element("a", inline(found["label"]), href=found["address"])


def blocks(text: str, links: Links | None = None) -> Html:
    """Return paragraphs and numbered lists as markup."""
    return markup(*(_block(lines, links) for lines in _paragraphs(text)))


def _paragraphs(text: str) -> Iterator[list[str]]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        yield paragraph.split("\n")


def _block(lines: list[str], links: Links | None) -> Html:
    if not _NUMBERED.match(lines[0]):
        return element("p", inline(" ".join(line.strip() for line in lines), links))
    items: list[str] = []
    for line in lines:
        if _NUMBERED.match(line):
            items.append(_NUMBERED.sub("", line, count=1))
        else:
            items[-1] += " " + line.strip()
    return element("ol", [element("li", inline(item, links)) for item in items])
