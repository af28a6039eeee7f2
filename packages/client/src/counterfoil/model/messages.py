"""Messages to people as data: a code, an English text with placeholders, and the values that fill them.

A message stands where it is raised, `Message("stale", "The horizon is {age} old.", age=duration(5_000))`, or is a
constant if it is used more than once: `STALE(age=duration(5_000))` fills it. `str` returns the English text, which is
also the key by which gettext finds its translation: a text with another translation has another English text. Codes
are stable: `--json` publishes them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

from counterfoil.model.calendar import iso_utc, to_ms

TimeText = Callable[[datetime], str]


class Translations(Protocol):
    """The texts of another language by the English ones, such as `gettext.GNUTranslations`."""

    def gettext(self, text: str, /) -> str:
        """Return the translation of a text, or the text if there is none."""


class Message:
    """A text for a person. Its values may be messages themselves, which are shown in the same language."""

    __slots__ = ("_begins_sentence", "_meaning", "code", "text", "values")

    def __init__(self, code: str, text: str, /, **values: "Value") -> None:
        self.code = code
        self.text = text
        self.values = values
        self._begins_sentence = False
        self._meaning: Message | None = None

    def __call__(self, **values: "Value") -> "Message":
        """Return this message with its placeholders filled."""
        filled = Message(self.code, self.text, **values)
        filled._begins_sentence, filled._meaning = self._begins_sentence, self._meaning
        return filled

    def __str__(self) -> str:
        return self.render()

    def __repr__(self) -> str:
        return f"<{self.code}: {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.code, str(self)) == (other.code, str(other))

    def __hash__(self) -> int:
        return hash((self.code, str(self)))

    def __bool__(self) -> bool:
        return bool(self.text)

    def as_sentence(self) -> "Message":
        """Return this message with a capital letter. Errors begin without one, because they follow `counterfoil:`."""
        sentence = self(**self.values)
        sentence._begins_sentence = True
        return sentence

    def meaning(self, meaning: "Message | None") -> "Message":
        """Return the words of another program with what they mean, which other languages show instead of them."""
        explained = self(**self.values)
        explained._meaning = meaning
        return explained

    def is_translated(self, translations: Translations) -> bool:
        text = self._meaning.text if self._meaning else self.text
        return translations.gettext(text) != text

    def render(
        self, translations: Translations | None = None, time_text: TimeText = lambda time: iso_utc(to_ms(time))
    ) -> str:
        """Return the text in English or in another language, with times as `time_text` shows them, or in UTC."""
        if translations and self._meaning:
            return self._meaning.render(translations, time_text)
        text = translations.gettext(self.text) if translations else self.text
        if self._begins_sentence:
            text = text[:1].upper() + text[1:]
        shown = {name: _shown(value, translations, time_text) for name, value in self.values.items()}
        return text.format_map(_Shown(shown))


# A number is shown with separators. With a noun as its format, as in `{count:line}`, it is shown as `1 line` or
# `2 lines`, which only English needs. The elements of a sequence are separated by commas.
Value = str | int | datetime | Message | Sequence[str | Message]
NOTHING: Final = Message("", "")


class MessageError(Exception):
    """An error that a person may see. Its text is a message; a plain string is shown in English in every language."""

    # What a command prints before the message.
    prefix = ""

    def __init__(self, message: Message | str) -> None:
        super().__init__(message)
        self.message = message if isinstance(message, Message) else quoted(message)


def quoted(text: object, code: str = "quoted") -> Message:
    """Return the words of another program as a message, which is shown in English in every language."""
    return Message(code, "{words}", words=str(text))


def duration(span_ms: int) -> Message:
    """Return a duration in the largest unit of which there are at least two, such as `119 minutes` or `2 hours`."""
    seconds = max(0, span_ms) // 1000
    for unit, size in ((_DAYS, 86_400), (_HOURS, 3_600), (_MINUTES, 60)):
        if seconds >= 2 * size:
            return unit(count=seconds // size)
    return _SECONDS(count=seconds)


_SECONDS = Message("seconds", "{count:second}")
_MINUTES = Message("minutes", "{count:minute}")
_HOURS = Message("hours", "{count:hour}")
_DAYS = Message("days", "{count:day}")
_AND_MORE = Message("and_more", "{names} and {more} more")


def first_of(names: Sequence[str | Message], most: int = 5) -> Value:
    """Return the first names, and how many more there are."""
    return _AND_MORE(names=names[:most], more=len(names) - most) if len(names) > most else names


class _Number(int):
    def __format__(self, noun: str) -> str:
        return f"{int(self):,}{f' {noun}' if noun else ''}{'s' if noun and self != 1 else ''}"


class _Shown(dict[str, "str | _Number"]):
    def __missing__(self, name: str) -> str:
        """Show the name of a value that was not given. Most messages report an error, which must not get lost."""
        return f"{{{name}}}"


def _shown(value: Value, translations: Translations | None, time_text: TimeText) -> "str | _Number":
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return _Number(value)
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, Message):
        return value.render(translations, time_text)
    return ", ".join(str(_shown(part, translations, time_text)) for part in value)
