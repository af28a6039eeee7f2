"""Extracts the texts that the console shows, messages and findings too, updates and compiles their translations.

`make translations` runs it after a text was added or changed: the text is then in `th.po`, for a translator to fill in.
`make check` runs it with `--check`, which changes nothing and fails if a text has no translation, or if the files are
not what it would write. Both files are the same on every machine: no dates, no line numbers, sorted.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from string import Formatter
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from counterfoil.importing.results import LOAD_REASONS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "packages" / "server" / "src" / "counterfoil"
SOURCES = sorted((ROOT / "packages").glob("*/src/**/*.py"))
FOLDER = PACKAGE / "console" / "translations"
LANGUAGES = ("th",)
METHODS = [("console/**.py", "python"), ("views/**.py", "python"), ("console/templates/**.html", "jinja2")]
# How a text is marked in Python and in templates, and which arguments are texts (`c` is a context).
MARKS = {"_": None, "gettext": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2), "translatable": None}
# The calls that define texts of messages wherever they are, and which of their arguments are texts.
DEFINITIONS: dict[str, Sequence[int | str]] = {
    "Message": (1,),
    "FindingKind": ("text", "advice"),
    "Problem": (2, 3),
    "sentence": (0,),
}
# Their values may stand beside the text.
FILLED_AT_ONCE = {"Message", "sentence"}
# Values that only English needs, in `{shown} {was} cancelled`.
ENGLISH_ONLY = {"{was", "{were"}
OPTIONS = {"console/templates/**.html": {"extensions": "jinja2.ext.i18n", "trim_blocks": "1", "lstrip_blocks": "1"}}


class TextCatalogue(Catalog):
    """A catalogue whose first entry has neither a date nor a version."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Language", str(self.locale)),
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "8bit"),
            ("Plural-Forms", self.plural_forms),
        ]


def extracted() -> Iterator[tuple[str | tuple[str, ...], str | None]]:
    """Yield every text (or its forms) with its context."""
    found = extract_from_dir(PACKAGE, METHODS, OPTIONS, keywords=MARKS, strip_comment_tags=False)
    for _, _, text, _, context in found:
        yield text, context
    for path in SOURCES:
        for text in texts_of_calls(path):
            yield text, None
    for message in LOAD_REASONS.values():
        yield message.text, None


def texts_of_calls(path: Path) -> Iterator[str]:
    """Yield the texts of the messages, findings and errors that a file defines. Each is written in one piece."""
    source = path.read_text("utf-8")
    # Only one file in four has such a call, and parsing takes most of the time.
    if not any(f"{name}(" in source for name in DEFINITIONS):
        return
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in DEFINITIONS:
            for argument in _texts_of(call, DEFINITIONS[call.func.id]):
                if isinstance(argument, ast.JoinedStr | ast.BinOp | ast.Call):
                    raise ValueError(f"{path}:{argument.lineno}: a text that is put together cannot be translated")
                if isinstance(argument, ast.Constant):
                    _require_values(path, call, str(argument.value))
                    if _has_words(str(argument.value)):
                        yield str(argument.value)


def _require_values(path: Path, call: ast.Call, text: str) -> None:
    """Raise ValueError if a text that is filled where it stands gets other values than it names."""
    given = {keyword.arg for keyword in call.keywords}
    is_filled = isinstance(call.func, ast.Name) and call.func.id in FILLED_AT_ONCE and given and None not in given
    needed = {name for _, name, _, _ in Formatter().parse(text) if name}
    if is_filled and needed != given:
        raise ValueError(f"{path}:{call.lineno}: the text needs the values {sorted(needed)}")


def _has_words(text: str) -> bool:
    """Return whether a text is more than placeholders. One with a noun, as in `{count:day}`, has a word."""
    return bool(re.search(r"\w", re.sub(r"\{\w+\}", "", text)))


def _texts_of(call: ast.Call, arguments: Sequence[int | str]) -> Iterator[ast.expr]:
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    for argument in arguments:
        if isinstance(argument, str):
            yield from (named[argument],) if argument in named else ()
        else:
            yield call.args[argument]


def updated(language: str) -> TextCatalogue:
    """Return the catalogue of a language with exactly the texts of the sources, as far as they are translated."""
    path = FOLDER / f"{language}.po"
    known = Catalog(locale=language)
    if path.exists():
        with path.open("rb") as file:
            # A merge can leave an entry without its translation, which is then reported as missing.
            known = read_po(file, locale=language)
    catalogue = TextCatalogue(
        locale=language, fuzzy=False, header_comment="# Thai texts of the console. See `make translations`."
    )
    for text, context in extracted():
        translated = known.get(text, context)
        catalogue.add(text, translated.string if translated else None, context=context)
    return catalogue


def files(language: str) -> dict[Path, bytes]:
    """Return what both files of a language must contain."""
    catalogue = updated(language)
    text, compiled = BytesIO(), BytesIO()
    write_po(text, catalogue, width=0, no_location=True, sort_output=True, ignore_obsolete=True)
    write_mo(compiled, catalogue)
    return {FOLDER / f"{language}.po": text.getvalue(), FOLDER / f"{language}.mo": compiled.getvalue()}


def problems(language: str) -> list[str]:
    """Return what is wrong with a language's texts: not translated, or with other values than the English ones."""
    found = []
    for message in updated(language):
        if not message.id:
            continue
        english, translated = _forms(message.id), _forms(message.string)
        if not all(translated):
            found.append(f"not translated into {language}: {english[-1]!r}")
        elif any(_values(text) | ENGLISH_ONLY != _values(english[-1]) | ENGLISH_ONLY for text in translated):
            found.append(f"the translation into {language} has other values: {english[-1]!r}")
    return found


def _forms(text: Any) -> Sequence[str]:
    """Return the forms of a text: those with a number have several."""
    return (text or "",) if isinstance(text, str | None) else tuple(text)


def _values(text: str) -> set[str]:
    """Return the values that a text names: `%(name)s` in texts of pages, `{name}` in messages."""
    return set(re.findall(r"%\(\w+\)s|\{\w+", text))


def main(arguments: list[str]) -> int:
    status = 0
    for language in LANGUAGES:
        for path, content in files(language).items():
            if "--check" not in arguments:
                path.write_bytes(content)
            elif not path.exists() or path.read_bytes() != content:
                print(f"{path.relative_to(ROOT)} is not up to date: run `make translations`.")
                status = 1
        for problem in problems(language):
            print(problem)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
