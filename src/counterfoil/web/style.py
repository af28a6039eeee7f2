"""The style sheets of the pages, read from the package and minified."""

import re
from functools import cache
from importlib import resources

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_AROUND_PUNCTUATION = re.compile(r"\s*([{};,>])\s*")
_AFTER_PROPERTY = re.compile(r"(?<=[a-z-]):\s+")


@cache
def shared_style_sheet() -> str:
    """Return the style sheet shared by all pages, minified."""
    return style_sheet("counterfoil.web", "style.css")


@cache
def style_sheet(package: str, name: str) -> str:
    """Return a style sheet of a package, minified."""
    return shorten(text_file(package, name))


@cache
def text_file(package: str, name: str) -> str:
    """Return a text file of a package, such as a script."""
    return (resources.files(package) / name).read_text(encoding="utf-8")


def shorten(css: str) -> str:
    """Remove comments and unnecessary spaces. The project's style sheets have no strings that this would change."""
    flat = re.sub(r"\s+", " ", _COMMENT.sub("", css)).strip()
    return _AFTER_PROPERTY.sub(":", _AROUND_PUNCTUATION.sub(r"\1", flat)).replace(";}", "}")
