"""Prose in a page keeps any text as it is, and its links run no code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.web.prose import blocks, inline
from web.strict_html import StrictPage

# Without the characters that prose has a meaning for.
PLAIN = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="`*["), max_size=40)


@given(text=PLAIN)
def test_any_text_is_preserved_and_adds_no_element(text: str) -> None:
    read = StrictPage(f'<p id="x">{inline(text)}</p>'.encode())
    assert (read.elements, read.text_of) == ([("p", {"id": "x"})], {"x": text})


def test_code_bold_links_paragraphs_and_lists_are_marked_up() -> None:
    text = '**Run** `a<b`, see [the `guide`](#a"b).\n\n1. one\n   more\n2. two & three'
    assert blocks(text) == (
        '<p><strong>Run</strong> <code>a&lt;b</code>, see <a href="#a&quot;b">the <code>guide</code></a>.</p>'
        "<ol><li>one more</li><li>two &amp; three</li></ol>"
    )


@pytest.mark.parametrize("address", ["javascript:alert(1)", "java\x01script:alert(1)", "VBScript:x", "file:///x"])
def test_an_address_that_runs_code_or_opens_a_file_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="scheme"):
        inline(f"[x]({address})")
