"""A proposed mapping: its entries, the evidence for them, and the questions that a person must answer."""

import json
import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct, field

from counterfoil.importing.column_profiles import SheetSample
from counterfoil.text import UNSAFE, printable

COMMENT_WIDTH = 100
# After a heading such as `Disc.`
_DOUBLE_STOP = re.compile(r"(?<=[^.][.])[.](?= |$)")


class EntryQuestion(Struct, frozen=True):
    """A question about an entry. The mapping cannot be used until the entry is set."""

    entry: str
    text: str
    choices: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    """What each choice gives, for example on one bill."""
    name: str = ""
    """What `--set` sets, if it is not the entry itself."""

    @property
    def key(self) -> str:
        """What must be set: the entry or, if others may have set it already, the value in question."""
        is_value = self.name.startswith("status.") and not self.entry.startswith("status.")
        return self.name if is_value else self.entry

    @property
    def answers(self) -> list[str]:
        """What can be typed to answer, with an example for each choice."""
        typed = [f"--set {shlex.quote(f'{self.name or self.entry}={choice}')}" for choice in self.choices]
        width = max(map(len, typed), default=0)
        return [
            f"{text:{width}}  {example}".rstrip() for text, example in zip_longest(typed, self.examples, fillvalue="")
        ]


class Proposal(Struct):
    """A proposed mapping, with open questions, assumptions to check, and the data that the export lacks."""

    bills: SheetSample
    lines: SheetSample | None = None
    payments: SheetSample | None = None
    sections: dict[str, list[str]] = field(default_factory=dict)
    """The lines of each section. What follows # in the name of a section tells sections with the same name apart."""
    questions: list[EntryQuestion] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    """Values with doubtful words that the sample explains."""
    used: set[str] = field(default_factory=set)
    """The names of columns, and other texts, that entries or questions have."""
    doubted: set[str] = field(default_factory=set)
    """Those of columns that only questions have."""

    def add(self, section: str, entry: str, value: Any, comment: str = "") -> None:
        if section not in ("[file]", "[checks]"):
            self.used.update(_texts(value))
            self.doubted.difference_update(_texts(value))
        note = f"  # {printable(comment)}" if comment else ""
        self.sections.setdefault(section, []).append(f"{entry} = {toml(value)}{note}")

    def comment(self, section: str, text: str) -> None:
        self.sections.setdefault(section, []).append(f"# {printable(text)}")

    def ask(
        self, entry: str, text: str, choices: Sequence[str] = (), examples: Sequence[str] = (), name: str = ""
    ) -> None:
        self.questions.append(EntryQuestion(entry, _DOUBLE_STOP.sub("", text), tuple(choices), tuple(examples), name))

    def has(self, section: str, entry: str) -> bool:
        return any(line.startswith(f"{entry} = ") for line in self.sections.get(section, []))

    @property
    def unused(self) -> list[str]:
        used = self.used - self.doubted
        return [name for name, column in self.bills.columns.items() if name not in used and column.filled]

    def remarks(self) -> Iterator[tuple[str, str, list[str]]]:
        """Yield what a person must know: the kind of a remark, its text, and what can be typed to answer."""
        yield from (("Question", question.text, question.answers) for question in self.questions)
        yield from (("To decide", _DOUBLE_STOP.sub("", text), []) for text in self.undecided)
        yield from (("Not in the export", text, []) for text in self.missing)
        if self.unused:
            yield "Unused columns", ", ".join(self.unused), []

    def text(self) -> str:
        head = ["# Proposed by `counterfoil import --infer`. Check it, then use it with --mapping."]
        for title, text, answers in self.remarks():
            head += [f"# {line}" for line in wrapped(f"{title}: {text}", COMMENT_WIDTH)]
            head += [f"#   {printable(answer)}" for answer in answers]
        texts: dict[str, list[str]] = {}
        for question in self.questions:
            texts.setdefault(question.key, []).append(question.text)
        undecided = [f"{quoted(entry)} = {quoted(' '.join(parts))}" for entry, parts in texts.items()]
        if undecided:
            note = "# The mapping can be used once these entries are set, or removed because they are answered."
            undecided.insert(0, note)
        parts = ["\n".join(head)]
        for section, lines in ({"[undecided]": undecided} | self.sections).items():
            parts += ["\n".join([section.partition("#")[0], *lines])] if lines else []
        return "\n\n".join(parts) + "\n"


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most this width, without breaking words. All but the first are indented."""
    return textwrap.wrap(printable(text), width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


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
    return name if name.isascii() and name.isidentifier() else quoted(name)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, and without a minus sign what is subtracted."""
    if isinstance(value, str):
        yield from (value, value.removeprefix("-"))
    elif isinstance(value, Mapping | Sequence):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)
