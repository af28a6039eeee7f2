"""Writes the sections of a mapping as TOML."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from counterfoil.model.text import UNSAFE, printable

IN_LINES = [
    "[answers]",
    "[accepted]",
    "[numbers]",
    "[dates]",
    "[shop]",
    "[[shop]]",
    "[shopIds]",
    "[line]",
    "[[status]]",
    "[[payment]]",
    "[[skip]]",
    "[[reject]]",
]
"""Sections that are written in lines, each of them a whole table, before the others."""
LONGEST_LINE = 160
"""Of a longer table, each entry has a line of its own."""


@dataclass
class TomlSection:
    header: str
    entries: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """The comments on entries."""
    comments: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.header.strip("[]")

    def lines(self) -> list[str]:
        """Return the section with a line for each entry."""
        lines = [self.header, *(f"# {comment}" for comment in self.comments)]
        long_tables = {}
        for entry, value in self.entries.items():
            line = f"{entry} = {toml(value)}{self._note(entry)}"
            if self.header == "[[status]]" and isinstance(value, Mapping) and len(line) > LONGEST_LINE:
                long_tables[entry] = value
            else:
                lines.append(line)
        for entry, table in long_tables.items():
            lines.append(f"[{self.name}.{entry}]")
            lines += [f"{key(name)} = {toml(value)}" for name, value in table.items()]
        return lines

    def table(self, end: str = "") -> str:
        """Return the section as a table in one line."""
        notes = "; ".join(self.notes.values())
        entries = ", ".join(f"{entry} = {toml(value)}" for entry, value in self.entries.items())
        return f"{{ {entries} }}{end}" + (f"  # {notes}" if notes else "")

    def _note(self, entry: str) -> str:
        return f"  # {self.notes[entry]}" if entry in self.notes else ""


class TomlText:
    """A TOML document, section by section. Entries of the same section are kept together."""

    def __init__(self, head: str) -> None:
        self._head = head
        self._sections: dict[str, TomlSection] = {}

    def add(self, section: str, entry: str, value: Any, comment: str = "") -> None:
        """Add an entry. What follows # in the name of a section tells sections with the same name apart."""
        found = self._section(section)
        if entry in found.entries:
            raise ValueError(f"{section} has {entry} twice")
        found.entries[entry] = value
        if comment:
            found.notes[entry] = printable(comment)

    def comment(self, section: str, text: str) -> None:
        self._section(section).comments.append(printable(text))

    def has(self, section: str, entry: str) -> bool:
        return section in self._sections and entry in self._sections[section].entries

    def text(self) -> str:
        lines = [f"# {printable(self._head)}"]
        parts = []
        for sections in self._by_header():
            tables = _tables(sections)
            if tables:
                lines += tables
            else:
                parts += ["\n".join(section.lines()) for section in sections]
        return "\n\n".join(["\n".join(lines), *parts]) + "\n"

    def _section(self, name: str) -> TomlSection:
        return self._sections.setdefault(name, TomlSection(name.partition("#")[0]))

    def _by_header(self) -> list[list[TomlSection]]:
        """Return the sections, those with the same header together."""
        groups: dict[str, list[TomlSection]] = {}
        for section in self._sections.values():
            groups.setdefault(section.header, []).append(section)
        return list(groups.values())


def _tables(sections: Sequence[TomlSection]) -> list[str]:
    """Return sections with the same header in lines, or nothing if they have no such form or are too long for it."""
    first = sections[0]
    if first.header not in IN_LINES or first.comments:
        return []
    if first.header == "[answers]":
        return [f"{first.name}.{entry} = {toml(value)}" for entry, value in first.entries.items()]
    if first.header.startswith("[[") and len(sections) == 1 and not first.notes:
        lines = [f"{first.name} = [{first.table()}]"]
    elif first.header.startswith("[["):
        lines = [f"{first.name} = [", *(f"  {section.table(',')}" for section in sections), "]"]
    else:
        lines = [f"{first.name} = {first.table()}"]
    return lines if max(map(len, lines)) <= LONGEST_LINE else []


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
        return "{ " + ", ".join(f"{key(name)} = {toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(toml, value))}]"
    return quoted(str(value))


def key(name: str) -> str:
    """Return the name as a key of TOML."""
    return name if name.isascii() and name.replace("-", "_").isidentifier() else quoted(name)
