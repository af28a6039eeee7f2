"""A proposed mapping: its entries, the evidence for them, and the questions that a person must answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from counterfoil.importing.column_profiles import SheetSample
from counterfoil.text import UNSAFE, printable

UNDECIDED = "[undecided]"


class Question(Struct, frozen=True):
    """A question about an entry. The mapping cannot be used until the entry is set."""

    entry: str
    text: str
    choices: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        options = " or ".join(f"--set '{self.entry}={choice}'" for choice in self.choices)
        return f"{self.text} Answer with {options}." if options else f"{self.text} Set {self.entry}."


class Proposal(Struct):
    """A proposed mapping, with open questions, assumptions to check, and the data that the export lacks."""

    sections: dict[str, list[str]] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    bills: SheetSample | None = None
    lines: SheetSample | None = None
    payments: SheetSample | None = None

    def add(self, section: str, entry: str, value: str, comment: str = "") -> None:
        note = f"  # {printable(comment)}" if comment else ""
        self.sections.setdefault(section, []).append(f"{entry} = {value}{note}")

    def comment(self, section: str, text: str) -> None:
        self.sections.setdefault(section, []).append(f"# {printable(text)}")

    def ask(self, question: Question) -> None:
        self.questions.append(question)

    def has(self, section: str, entry: str) -> bool:
        return any(line.startswith(f"{entry} = ") for line in self.sections.get(section, []))

    def text(self) -> str:
        """Return the mapping as TOML."""
        head = ["# Proposed by `counterfoil import --infer`. Check it, then use it with --mapping."]
        head += [f"# Question: {printable(question.advice)}" for question in self.questions]
        head += [f"# To decide: {printable(text)}" for text in self.undecided]
        head += [f"# Missing: {printable(text)}" for text in self.missing]
        if self.unused:
            head.append(f"# Columns that are not used: {printable(', '.join(self.unused))}")
        parts = ["\n".join(head)]
        if self.questions:
            texts: dict[str, list[str]] = {}
            for question in self.questions:
                texts.setdefault(question.entry, []).append(question.text)
            entries = [f"{quoted(entry)} = {quoted(' '.join(parts))}" for entry, parts in texts.items()]
            note = "# The mapping can be used once these entries are set. Then this section has no effect."
            parts.append("\n".join([UNDECIDED, note, *entries]))
        for section, lines in self.sections.items():
            name = section.partition("#")[0]
            parts.append("\n".join([name, *lines]))
        return "\n\n".join(parts) + "\n"


def quoted(text: str) -> str:
    """Return the text as a TOML string, with control characters escaped. TOML has no escapes for surrogates."""
    as_json = json.dumps(text, ensure_ascii=False)
    return UNSAFE.sub(
        lambda found: found[0] if "\ud800" <= found[0] <= "\udfff" else f"\\U{ord(found[0]):08x}", as_json
    )


def toml(value: Any) -> str:
    """Return a value as TOML, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(toml, value))}]"
    return quoted(str(value))


def _key(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else quoted(name)
