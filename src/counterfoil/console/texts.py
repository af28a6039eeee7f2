"""All strings that the console shows, in English and Thai, and the Thai texts of messages. `texts.toml` has them.

A test fails if one of them is missing, if the placeholders of the two languages differ, or if a name is not used.
"""

import re
import tomllib
from importlib.resources import files
from typing import Final, Literal

from counterfoil.domain.messages import Catalogue, Message
from counterfoil.views.times import second

Language = Literal["en", "th"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "th")
_FILE = tomllib.loads((files("counterfoil.console") / "texts.toml").read_text("utf-8"))
TABLE: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(texts[language] for language in LANGUAGES) for name, texts in _FILE["strings"].items()
}
# The Thai texts of messages, by their codes. The English texts are where the messages are defined.
THAI: Final[Catalogue] = _FILE["thai"]
_RANGE = re.compile(r"\s*([A-Za-z*]+)(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q\s*=\s*([0-9.]+))?\s*")


class Texts:
    """The strings in one language."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._index = LANGUAGES.index(language)

    def __call__(self, text_name: str, /, **values: object) -> str:
        """Return the string with this name, with its placeholders filled in."""
        text = TABLE[text_name][self._index]
        return text.format(**values) if values else text

    # A template names a text in brackets.
    __getitem__ = __call__

    @property
    def catalogue(self) -> Catalogue:
        """The texts of messages in this language. English texts are part of the messages."""
        return THAI if self.language == "th" else {}

    def message(self, message: Message) -> str:
        return message.render(self.catalogue, second)


def preferred(accept_language: str) -> Language:
    """Return the supported language that an Accept-Language header ranks highest, or English if there is none."""
    ranked: list[tuple[float, int, Language]] = []
    for position, part in enumerate(accept_language.split(",")):
        found = _RANGE.fullmatch(part)
        if found is None:
            continue
        language = language_named(found[1].lower())
        if language:
            ranked.append((-_quality(found[2]), position, language))
    best = min(ranked, default=None)
    return best[2] if best and best[0] < 0 else "en"


def language_named(name: str | None) -> Language | None:
    return next((language for language in LANGUAGES if language == name), None)


def _quality(text: str | None) -> float:
    try:
        return float(text) if text is not None else 1.0
    except ValueError:
        return 0.0
