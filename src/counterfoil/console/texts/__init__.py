"""All strings that the console shows, in English and Thai.

The tables map a name to the English and the Thai string. A test fails if one of them is missing, if their placeholders
differ, or if a name is not used. The Thai texts of messages of other parts, such as findings, are in `thai`.
"""

import re
from typing import Final, Literal

from counterfoil.console.texts import keys, pages
from counterfoil.console.texts.thai import THAI
from counterfoil.domain.messages import Catalogue, Message

Language = Literal["en", "th"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "th")
TABLE: Final[dict[str, tuple[str, str]]] = {
    **pages.TEXTS,
    **keys.TEXTS,
}
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

    @property
    def catalogue(self) -> Catalogue:
        """The texts of messages in this language. English texts are part of the messages."""
        return THAI if self.language == "th" else {}

    def message(self, message: Message) -> str:
        return message.render(self.catalogue)


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
