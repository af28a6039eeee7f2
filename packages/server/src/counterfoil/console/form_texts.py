"""The texts of a form in the language of a page. The importer writes them in English, with their templates."""

import re
from collections.abc import Iterable, Mapping

from markupsafe import Markup

from counterfoil.console.import_words import CONSOLE_WORDS
from counterfoil.console.texts import Texts
from counterfoil.importer.form import Form
from counterfoil.importing.sentences import FormText

_VALUE = re.compile(r"\{(\w+)\}")
# A form comes from a process that reads foreign files, so its texts may contain each other without end.
DEEPEST = 6


def form_text(t: Texts, form: Form | None, text: str) -> Markup:
    """Return a text of a form in the language of the page."""
    return import_text(t, form.texts if form else (), text)


def import_text(t: Texts, texts: Iterable[FormText], text: str) -> Markup:
    """Return a text of the importer in the words and the language of the page, or in English and marked so.

    What was made of no template, such as a heading, is not translated.
    """
    made_of = {made.text: made for made in texts}
    has_words_of_console = any(made.template in CONSOLE_WORDS for made in made_of.values())
    if text not in made_of or (t.language == "en" and not has_words_of_console):
        return Markup.escape(text)
    translated = _translated(t, made_of, text, DEEPEST)
    if translated is None and t.language == "en":
        return Markup.escape(text)
    if translated is None:
        return Markup('<span lang="en">{}</span>').format(text)
    return Markup.escape(translated)


def _translated(t: Texts, made_of: Mapping[str, FormText], text: str, depth: int) -> str | None:
    """Return the translation of a text, or None if it has none."""
    made = made_of.get(text)
    if made is None or not depth:
        return None
    english = CONSOLE_WORDS.get(made.template, made.template)
    template = t.gettext(english)
    has_words = re.search(r"\w", _VALUE.sub("", english))
    if t.language != "en" and template == english and has_words:
        return None
    values = {name: _translated(t, made_of, value, depth - 1) or value for name, value in made.values.items()}
    return _VALUE.sub(lambda name: values.get(name[1], name[0]), template)
