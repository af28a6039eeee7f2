"""Tests for numbers with their nouns."""

import pytest

from counterfoil.domain.counted import counted


@pytest.mark.parametrize(("number", "text"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (12_000, "12,000 lines")])
def test_one_is_singular_and_every_other_number_is_plural(number: int, text: str) -> None:
    assert counted(number, "line") == text


def test_a_verb_agrees_with_its_number() -> None:
    assert counted(1, "key is", "keys are") == "1 key is"
    assert counted(3, "key is", "keys are") == "3 keys are"
