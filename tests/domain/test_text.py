"""Tests for text for people."""

import pytest

from counterfoil.model.text import counted, first_line, parse_duration, printable, size


@pytest.mark.parametrize(("number", "text"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (12_000, "12,000 lines")])
def test_one_is_singular_and_every_other_number_is_plural(number: int, text: str) -> None:
    assert counted(number, "line") == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ร้าน 7 \u3000👨\u200d👩", "ร้าน 7 \u3000👨\u200d👩"),
        ("\x1b[2J\x9b\x7f", r"\x1b[2J\x9b\x7f"),
        ("two\nlines\u2028", r"two\nlines\u2028"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("\udcff\ud800", r"\xff\ud800"),
    ],
)
def test_only_characters_that_change_what_is_shown_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_the_first_line_of_an_error_is_never_empty() -> None:
    assert first_line(ValueError("\n one \n two")) == "one"
    assert first_line(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (1_023, "1,023 B"), (1_024, "1.0 KiB"), (51_170_000, "48.8 MiB")]
)
def test_a_size_is_shown_in_the_largest_unit(count: int, shown: str) -> None:
    assert size(count) == shown


@pytest.mark.parametrize(
    ("text", "span_ms"), [("30s", 30_000), (" 5m ", 300_000), ("2w", None), ("0s", None), ("5", None)]
)
def test_a_duration_has_a_number_and_one_of_the_units(text: str, span_ms: int | None) -> None:
    assert parse_duration(text, "smhd") == span_ms
