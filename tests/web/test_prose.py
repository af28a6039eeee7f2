"""Tests for converting the Markdown in descriptions to HTML."""

from counterfoil.web.html import blocks, inline


def test_code_bold_text_and_links_become_elements() -> None:
    assert inline("Send `a<b` **now**, see [it](#x).") == (
        'Send <code>a&lt;b</code> <strong>now</strong>, see <a href="#x">it</a>.'
    )


def test_code_with_a_known_name_is_linked() -> None:
    assert inline("on `bad_cursor`", {"bad_cursor": "#e"}) == 'on <a href="#e"><code>bad_cursor</code></a>'


def test_paragraphs_and_numbered_lists_keep_their_order() -> None:
    text = "First\nline.\n\n1. One\n   more.\n2. Two.\n\nLast."
    assert blocks(text) == "<p>First line.</p><ol><li>One more.</li><li>Two.</li></ol><p>Last.</p>"
