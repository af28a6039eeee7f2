"""Formats JSON and code samples: short values on one line, names and strings in colour."""

import re
from typing import Any

from msgspec import json

from counterfoil.web.html import Html, element, markup

WIDTH = 58
_STRING = re.compile(r'("(?:[^"\\]|\\.)*"|\'[^\']*\')')


def json_lines(value: Any, indent: str = "", before: int = 0) -> str:
    """Return JSON, with lists and objects on one line if they fit. `before` characters precede it on its first line."""
    short = _on_one_line(value)
    if not isinstance(value, dict | list) or len(indent) + before + len(short) <= WIDTH:
        return short
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{_quoted(key)}: {json_lines(item, deeper, len(key) + 4)}" for key, item in value.items()]
        opening, closing = "{", "}"
    else:
        parts = [json_lines(item, deeper) for item in value]
        opening, closing = "[", "]"
    inner = ",\n".join(f"{deeper}{part}" for part in _filled(parts, len(deeper)))
    return f"{opening}\n{inner}\n{indent}{closing}"


def _filled(parts: list[str], indent: int) -> list[str]:
    """Join short neighbouring parts into lines of at most WIDTH characters."""
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]}, {part}" if lines else ""
        if lines and "\n" not in joined and indent + len(joined) <= WIDTH:
            lines[-1] = joined
        else:
            lines.append(part)
    return lines


def _on_one_line(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)}: {_on_one_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_on_one_line(item) for item in value) + "]"
    return json.encode(value).decode()


def _quoted(text: str) -> str:
    return json.encode(text).decode()


def coloured_json(text: str) -> Html:
    """Return formatted JSON as markup: names in <b>, strings in <i>."""
    parts = _STRING.split(text)
    coloured: list[str] = []
    for number, part in enumerate(parts):
        if number % 2 == 0:
            coloured.append(part)
        else:
            coloured.append(element("b" if parts[number + 1].startswith(":") else "i", part))
    return element("pre", markup(*coloured), class_="code")


def coloured_code(text: str) -> Html:
    """Return a code sample as markup, with strings in <i>."""
    parts = [element("i", part) if number % 2 else part for number, part in enumerate(_STRING.split(text))]
    return element("pre", markup(*parts), class_="code")
