"""The texts of a form in the language of a page. The importer writes them in English, with their templates."""

import re
from collections.abc import Iterable, Mapping

from markupsafe import Markup

from counterfoil.console.import_words import CONSOLE_WORDS
from counterfoil.console.texts import Texts
from counterfoil.importer.form import Form
from counterfoil.importing.sentences import FormText

_VALUE = re.compile(r"\{(\w+)\}")
# A form comes from a process that reads foreign files, so its texts may contain each other without end, or many times.
DEEPEST = 6
# A translation may have so many times the characters of the English text, and these more.
MOST_TIMES_AS_LONG, ALWAYS_ALLOWED = 4, 500


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
    translated = _translated(t, made_of, text, DEEPEST, {})
    if translated is None and t.language == "en":
        return Markup.escape(text)
    if translated is None:
        return Markup('<span lang="en">{}</span>').format(text)
    return Markup.escape(translated)


def _translated(
    t: Texts, made_of: Mapping[str, FormText], text: str, depth: int, done: dict[str, str | None]
) -> str | None:
    """Return the translation of a text, or None if it has none. `done` has those of the texts within the same one."""
    made = made_of.get(text)
    if made is None or not depth:
        return None
    if text not in done:
        # Within itself, it has none.
        done[text] = None
        values = {}
        for name, value in made.values.items():
            values[name] = _translated(t, made_of, value, depth - 1, done) or value
        done[text] = _filled(t, made, values)
    return done[text]


def _filled(t: Texts, made: FormText, values: Mapping[str, str]) -> str | None:
    """Return the translated template with these values, or None if it has no translation, or becomes too long."""
    english = CONSOLE_WORDS.get(made.template, made.template)
    template = t.gettext(english)
    has_words = re.search(r"\w", _VALUE.sub("", english))
    if t.language != "en" and template == english and has_words:
        return None
    length = len(template) + sum(len(values.get(name, "")) for name in _VALUE.findall(template))
    if length > MOST_TIMES_AS_LONG * len(made.text) + ALWAYS_ALLOWED:
        return None
    return _VALUE.sub(lambda name: values.get(name[1], name[0]), template)
