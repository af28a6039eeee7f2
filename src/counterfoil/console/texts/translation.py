"""Translates messages that other parts of Counterfoil compose in English, such as the findings of `status`."""

import re
from functools import cache
from string import Formatter

from counterfoil.console.texts import LANGUAGES, TABLE, Texts

Templates = list[tuple[re.Pattern[str], str]]
_ENTRY_SEPARATOR = ", "


def translation(t: Texts, message: str) -> str | None:
    """Return a message in the language of `t`, or None if there is no text for it."""
    for pattern, name in (*_templates("message"), *_templates("refusal")):
        found = pattern.fullmatch(message)
        if found:
            values = {key: _value(t, value) for key, value in found.groupdict().items()}
            return t(name, **values)
    return _store_problem(t, message)


def _store_problem(t: Texts, message: str) -> str | None:
    """Return the translation of a message about the store. A full stop may have been added at its end."""
    for pattern, name in _templates("store_problem"):
        found = pattern.fullmatch(message) or pattern.fullmatch(message.removesuffix("."))
        if found:
            return t(name, **_with_reason(t, found.groupdict()))
    return None


def _with_reason(t: Texts, values: dict[str, str]) -> dict[str, str]:
    """Return the values with `reason` translated. A server's message that has no translation stays as it is."""
    if "reason" not in values:
        return values
    reason = values["reason"].removesuffix(".")
    for pattern, name in _templates("store_reason"):
        found = pattern.fullmatch(reason)
        if found:
            return {**values, "reason": t(name, **_with_reason(t, found.groupdict()))}
    return {**values, "reason": _store_problem(t, reason) or reason}


def _value(t: Texts, value: str) -> str:
    """Translate a value within a message. A value without a translation, such as a path, is returned unchanged."""
    for pattern, name in _templates("value"):
        found = pattern.fullmatch(value)
        if found:
            return t(name, **{key: _value(t, inner) for key, inner in found.groupdict().items()})
    # Advice that is part of another sentence begins with a lower-case letter.
    sentence = translation(t, value[:1].upper() + value[1:]) if value.endswith(".") else None
    if sentence is not None:
        return sentence
    return _ENTRY_SEPARATOR.join(_entry(t, entry) for entry in value.split(_ENTRY_SEPARATOR))


def _entry(t: Texts, entry: str) -> str:
    for pattern, name in _templates("entry"):
        found = pattern.fullmatch(entry)
        if found:
            return t(name, **{key: _part_of_entry(t, key, inner) for key, inner in found.groupdict().items()})
    return entry


def _part_of_entry(t: Texts, key: str, value: str) -> str:
    if key == "entry":
        return _entry(t, value)
    return _value(t, value) if key == "span" else value


@cache
def _templates(prefix: str) -> Templates:
    """Return the pattern and the name of each text with this prefix, those with the most fixed characters first."""
    english = {name: TABLE[name][LANGUAGES.index("en")] for name in TABLE if name.startswith(f"{prefix}.")}
    ordered = sorted(english, key=lambda name: -len(re.sub(r"\{[^}]*\}", "", english[name])))
    return [(template_pattern(english[name]), name) for name in ordered]


def template_pattern(template: str) -> re.Pattern[str]:
    """Return a pattern that finds the values of the placeholders in a message."""
    parts = [
        re.escape(fixed) + (f"(?P<{placeholder}>.+?)" if placeholder else "")
        for fixed, placeholder, _, _ in Formatter().parse(template)
    ]
    return re.compile("".join(parts), re.DOTALL)
