"""The HTML builder escapes text and refuses markup that a strict Content-Security-Policy would block."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.web.html import Html, element, markup, style_element


class Reader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


PRINTABLE = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


@given(text=PRINTABLE, value=PRINTABLE)
def test_any_text_is_preserved_and_adds_no_element(text: str, value: str) -> None:
    read = Reader(element("p", text, title=value))
    assert (read.tags, read.attributes, read.text) == (["p"], [("title", value)], text)


def test_children_are_joined_and_none_values_are_omitted() -> None:
    assert markup("a < b", None, [element("b", "c"), ["d"]]) == "a &lt; b<b>c</b>d"


def test_false_attributes_are_omitted_and_true_ones_have_no_value() -> None:
    built = element("input", type="text", required=True, disabled=False, aria_label=None, class_="wide", for_=1)
    assert built == '<input type="text" required class="wide" for="1">'


@pytest.mark.parametrize("attribute", ["style", "onclick", "onload"])
def test_markup_that_the_policy_would_block_cannot_be_built(attribute: str) -> None:
    with pytest.raises(ValueError, match="Content-Security-Policy"):
        element("p", **{attribute: "x"})


@pytest.mark.parametrize("address", ["javascript:alert(1)", " java\tscript:alert(1)", "VBScript:x", "file:///x"])
def test_an_address_that_runs_code_or_opens_a_file_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="scheme"):
        element("a", "x", href=address)


@pytest.mark.parametrize(
    "address", ["#Bill.id", "v1/openapi.json", "/ext/reference", "https://example.org/a:b", "?q=a:b"]
)
def test_ordinary_addresses_are_accepted(address: str) -> None:
    assert element("a", "x", href=address) == f'<a href="{address}">x</a>'


def test_a_void_element_and_a_raw_element_take_no_children() -> None:
    with pytest.raises(ValueError, match="children"):
        element("br", "x")
    with pytest.raises(ValueError, match="escaped"):
        element("script", "alert(1)")


def test_a_style_sheet_cannot_end_its_element() -> None:
    with pytest.raises(ValueError, match="style sheet"):
        style_element("p::after{content:'</style>'}")


def test_markup_is_inserted_unchanged() -> None:
    assert element("p", Html("<b>x</b>")) == "<p><b>x</b></p>"
