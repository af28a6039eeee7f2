"""Texts that know what they were made of, so that a page can show them in another language.

The English text is made where it is used. A program that shows it gets its template and values beside it.
"""

from collections.abc import Mapping, Sequence
from datetime import date

from msgspec import Struct

from counterfoil.model.messages import Message


class Sentence(str):
    """A text of the form that knows its template and values, so that a page can show it in another language."""

    __slots__ = ("template", "values")

    def __new__(cls, template: str, values: Mapping[str, object]) -> "Sentence":
        sentence = super().__new__(cls, template.format_map(values))
        sentence.template = template
        sentence.values = values
        return sentence

    template: str
    values: Mapping[str, object]


def sentence(template: str, /, **values: object) -> Sentence:
    """Return a text with its values. The template stands here in one piece: it is the key of its translations."""
    return Sentence(template, values)


def joined(*texts: str) -> str:
    """Return sentences one after the other, without empty ones."""
    values = {f"text_{number}": text for number, text in enumerate(filter(None, texts))}
    return Sentence(" ".join(f"{{{name}}}" for name in values), values)


def listed(texts: Sequence[str]) -> str:
    """Return texts with commas between them, or an empty text if there are none."""
    values = {f"text_{number}": text for number, text in enumerate(texts)}
    return Sentence(", ".join(f"{{{name}}}" for name in values), values)


def sentence_of(message: Message) -> Sentence:
    """Return a message as a text with the template and the values of the message."""
    values: dict[str, object] = {}
    for name, value in message.values.items():
        values[name] = f"{value:,}" if isinstance(value, int) else value
    return Sentence(message.text, values)


MONTHS = (
    sentence("January"),
    sentence("February"),
    sentence("March"),
    sentence("April"),
    sentence("May"),
    sentence("June"),
    sentence("July"),
    sentence("August"),
    sentence("September"),
    sentence("October"),
    sentence("November"),
    sentence("December"),
)


def named_day(day: date) -> str:
    """Return a day with the name of its month, so that it cannot be taken for another one."""
    return sentence("{day} {month} {year}", day=day.day, month=MONTHS[day.month - 1], year=day.year)


class FormText(Struct, frozen=True, rename="camel"):
    """What a text was made of. A value may be a text that has an entry of its own."""

    text: str
    template: str
    values: dict[str, str]


def texts_of(*parts: object) -> tuple[FormText, ...]:
    """Return what the sentences in some values were made of."""
    said: dict[str, FormText] = {}
    for part in parts:
        collect_texts(part, said)
    return tuple(said.values())


def collect_texts(part: object, said: dict[str, FormText]) -> None:
    """Collect what the sentences in a value, such as a part of the form, were made of."""
    if isinstance(part, Sentence):
        if part not in said:
            values = {name: str(value) for name, value in part.values.items()}
            said[str(part)] = FormText(str(part), part.template, values)
        collect_texts(tuple(part.values.values()), said)
    elif isinstance(part, Struct):
        collect_texts(tuple(getattr(part, name) for name in part.__struct_fields__), said)
    elif isinstance(part, tuple | list):
        for element in part:
            collect_texts(element, said)
