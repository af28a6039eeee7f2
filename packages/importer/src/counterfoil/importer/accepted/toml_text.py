"""Writes the sections of a mapping as TOML."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.model.text import UNSAFE, printable


class TomlText:
    """A TOML document, section by section. Entries of the same section are kept together."""

    def __init__(self, head: str) -> None:
        self._head = head
        self._sections: dict[str, list[str]] = {}

    def add(self, section: str, entry: str, value: Any, comment: str = "") -> None:
        """Add an entry. What follows # in the name of a section tells sections with the same name apart."""
        note = f"  # {printable(comment)}" if comment else ""
        self._sections.setdefault(section, []).append(f"{entry} = {toml(value)}{note}")

    def comment(self, section: str, text: str) -> None:
        self._sections.setdefault(section, []).append(f"# {printable(text)}")

    def has(self, section: str, entry: str) -> bool:
        return any(line.startswith(f"{entry} = ") for line in self._sections.get(section, []))

    def text(self) -> str:
        parts = [f"# {printable(self._head)}"]
        for section, lines in self._sections.items():
            parts.append("\n".join([section.partition("#")[0], *lines]))
        return "\n\n".join(parts) + "\n"


def quoted(text: str) -> str:
    """Return the text as a TOML string, with control characters escaped. TOML has no escapes for surrogates."""
    as_json = json.dumps(text, ensure_ascii=False)
    return UNSAFE.sub(
        lambda found: found[0] if "\ud800" <= found[0] <= "\udfff" else f"\\U{ord(found[0]):08x}", as_json
    )


def toml(value: Any) -> str:
    if isinstance(value, int):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(toml, value))}]"
    return quoted(str(value))


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("-", "_").isidentifier() else quoted(name)
