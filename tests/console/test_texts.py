"""Every text of the console exists in English and Thai, and is used."""

import re
from pathlib import Path
from string import Formatter

import pytest

from counterfoil.console.layout import NAVIGATION
from counterfoil.console.pages.keys import SHOWN, WARNINGS
from counterfoil.console.texts import LANGUAGES, TABLE, preferred
from counterfoil.domain.audit import Act

PACKAGE = Path(__file__).parents[2] / "src" / "counterfoil"
SOURCES = [*(PACKAGE / "console").rglob("*.py"), *(PACKAGE / "views").rglob("*.py")]
TEMPLATES = [*(PACKAGE / "console" / "templates").glob("*.html")]
# The headings of columns on pages are named in views.
_USE = re.compile(r"""(?:\bt\(f?|\bpage=)["']([a-z0-9_.{}A-Z-]+)["']""")
_USE_IN_TEMPLATE = re.compile(r"\{t\[([a-z0-9_.]+)\]")
_THAI = re.compile(r"[\u0e00-\u0e7f]")
# Texts that need no translation, because they are technical terms.
SAME = {"store.horizon"}


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def uses() -> set[str]:
    in_code = {name for file in SOURCES for name in _USE.findall(file.read_text("utf-8"))}
    return in_code | {name for file in TEMPLATES for name in _USE_IN_TEMPLATE.findall(file.read_text("utf-8"))}


def test_every_text_exists_in_every_language_with_the_same_values() -> None:
    for name, texts in TABLE.items():
        assert len(texts) == len(LANGUAGES), name
        english, thai = texts
        assert english.strip(), name
        assert name in SAME or _THAI.search(thai), name
        assert not _THAI.search(english), name
        assert placeholders(english) == placeholders(thai), name


# Prefixes of text names that are computed, so the names are not in the source code. `test_translation` covers them.
COMPUTED = ("advice", "audit_field")


def test_every_text_is_used_and_every_used_text_exists() -> None:
    patterns = {re.compile(re.sub(r"\\\{[^}]*\\\}", r"[^.]+", re.escape(use))): use for use in uses()}
    named = [name for name in TABLE if name.partition(".")[0] not in COMPUTED]
    assert [name for name in named if not any(one.fullmatch(name) for one in patterns)] == []
    missing = [use for one, use in patterns.items() if not any(one.fullmatch(name) for name in TABLE)]
    assert missing == []


def test_computed_text_names_have_texts() -> None:
    names = [f"nav.{name}" for name in NAVIGATION] + [f"act.{act.value}" for act in Act]
    names += [f"keys.filter.{name}{part}" for name in SHOWN for part in ("", ".caption")]
    names += [f"key_warning.{name}" for name in WARNINGS]
    assert [name for name in names if name not in TABLE] == []


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("th", "th"),
        ("th-TH,th;q=0.9,en-US;q=0.8", "th"),
        ("en-US,en;q=0.9,th;q=0.8", "en"),
        ("de, th;q=0.5", "th"),
        ("de, fr;q=0.5", "en"),
        ("th;q=0", "en"),
        ("en;q=0.2, th;q=0.9", "th"),
        ("th;q=nonsense,,;;", "en"),
    ],
)
def test_the_preferred_language_is_chosen(header: str, language: str) -> None:
    assert preferred(header) == language
