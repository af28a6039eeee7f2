"""The languages of the console. English texts are where they are used, Thai ones in `translations/th.po`."""

import re
from collections.abc import Mapping
from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib.resources import files
from typing import Final, Literal

from counterfoil.model.messages import Message
from counterfoil.program.times import second

Language = Literal["en", "th"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "th")
_RANGE = re.compile(r"(?:^|,)\s*([a-z]+)(?:-[a-z0-9-]+)?\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]+)?))?\s*(?=,|$)")


@cache
def translations(language: Language) -> NullTranslations:
    """Return the translations into a language, whose file must exist: `make translations` writes it."""
    if language == "en":
        return NullTranslations()
    with (files("counterfoil.console") / "translations" / f"{language}.mo").open("rb") as file:
        return GNUTranslations(file)


class Texts:
    """The texts in one language. As in templates, texts name their values: `gettext("%(count)s loads", count=2)`."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._translations = translations(language)

    def gettext(self, text: str, /, **values: object) -> str:
        """Return a text in this language."""
        return _filled(self._translations.gettext(text), values)

    def ngettext(self, one: str, many: str, count: int, /, **values: object) -> str:
        """Return a text in the form for this number."""
        return _filled(self._translations.ngettext(one, many, count), values)

    def pgettext(self, context: str, text: str, /, **values: object) -> str:
        """Return a text whose translation depends on its context, because the English words have two meanings."""
        return _filled(self._translations.pgettext(context, text), values)

    def has(self, message: Message) -> bool:
        """Return whether a message is shown in this language. The words of another program have no translation."""
        return self.language == "en" or message.is_translated(self._translations)

    def message(self, message: Message) -> str:
        return message.render(None if self.language == "en" else self._translations, second)


def _filled(text: str, values: Mapping[str, object]) -> str:
    return text % values if values else text


def preferred(accept_language: str) -> Language:
    """Return the supported language that an Accept-Language header ranks highest, or English if there is none."""
    best: Language = "en"
    highest = 0.0
    for name, quality in _RANGE.findall(accept_language.lower()):
        language, rank = language_named(name), float(quality or 1)
        if language and rank > highest:
            best, highest = language, rank
    return best


def language_named(name: str | None) -> Language | None:
    return next((language for language in LANGUAGES if language == name), None)
