"""The HTML builder escapes text and refuses markup that a strict Content-Security-Policy would block."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.web.html import element, fill, style_element
from web.strict_html import StrictPage

PRINTABLE = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


@given(text=PRINTABLE, value=PRINTABLE)
def test_any_text_is_preserved_and_adds_no_element(text: str, value: str) -> None:
    read = StrictPage(element("p", text, id="x", title=value).encode())
    assert (read.elements, read.text_of) == ([("p", {"id": "x", "title": value})], {"x": text})


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


def test_a_void_element_and_a_raw_element_take_no_children() -> None:
    with pytest.raises(ValueError, match="children"):
        element("br", "x")
    with pytest.raises(ValueError, match="escaped"):
        element("script", "alert(1)")


def test_a_style_sheet_cannot_end_its_element() -> None:
    with pytest.raises(ValueError, match="style sheet"):
        style_element("p::after{content:'</style>'}")


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a package that contains templates."""
    folder = tmp_path / tmp_path.name
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_a_template_escapes_text_and_attributes_and_leaves_out_what_is_none(templates: Path) -> None:
    (templates / "a.html").write_text("<p{title:title}{off:hidden}>\n  {text}{nothing}{child}\n</p>\n", "utf-8")
    values = {"title": '<"', "off": False, "text": "<", "nothing": None, "child": element("b", "x")}
    filled = fill(templates.name, "a.html", **values)
    assert filled == '<p title="&lt;&quot;">&lt;<b>x</b></p>'


def test_a_template_cannot_have_a_placeholder_in_quotes_or_an_address_that_runs_code(templates: Path) -> None:
    (templates / "b.html").write_text('<p title="a {text}"></p>', "utf-8")
    with pytest.raises(ValueError, match="quotes"):
        fill(templates.name, "b.html", text="x")
    (templates / "c.html").write_text("<a{address:href}></a>", "utf-8")
    with pytest.raises(ValueError, match="scheme"):
        fill(templates.name, "c.html", address="javascript:alert(1)")
