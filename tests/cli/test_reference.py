"""Tests for `counterfoil reference`, which writes the API reference to a file or standard output, without a store."""

from pathlib import Path

import pytest

from cli.command import Command
from counterfoil.http.reference import example_base_url, render


@pytest.mark.parametrize("kind", ["html", "md", "txt", "json"])
def test_the_suffix_of_the_file_or_an_option_chooses_the_format(
    counterfoil: Command, tmp_path: Path, kind: str
) -> None:
    out, page = tmp_path / f"reference.{kind}", render(kind, "/ext", example_base_url("/ext"))
    said = counterfoil.bare("reference", "--out", out).stdout
    assert said == f"Wrote {out} ({out.stat().st_size:,} bytes).\n"
    assert out.read_bytes() == page
    counterfoil.bare("reference", "--out", tmp_path / "reference.page", "--format", kind)
    assert (tmp_path / "reference.page").read_bytes() == page
    assert counterfoil.bare("reference", "--format", kind).stdout_bytes == page
    assert kind != "html" or counterfoil.bare("reference").stdout_bytes == page


def test_an_unknown_suffix_is_refused_with_a_hint(counterfoil: Command, tmp_path: Path) -> None:
    said = counterfoil.bare("reference", "--out", tmp_path / "reference.pdf", status=2).stderr
    assert "The suffix of reference.pdf is not .html, .md, .txt or .json. Choose a format with --format." in said
    assert list(tmp_path.iterdir()) == []


def test_an_incomplete_address_is_refused(counterfoil: Command) -> None:
    other = ("", "pos.example.org", "ftp://pos.example.org")
    for address in (*other, *(f"https://{rest}" for rest in ("", "a:b", "a:0", "[::1", "a/?x=1", "a b"))):
        said = counterfoil.bare("reference", "--base-url", address, status=2).stderr
        assert "is not a valid base URL. Use a URL such as https://pos.example.com/ext/v1" in said


def test_the_examples_show_the_address_that_is_given_or_the_prefix_of_the_settings(
    counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = counterfoil.bare("reference", "--base-url", "https://pos.example.org/ext/v1").stdout
    assert "export BASE=https://pos.example.org/ext/v1" in page
    monkeypatch.setenv("COUNTERFOIL_PREFIX", "/sales")
    assert "https://api.example.com/sales/v1" in counterfoil.bare("reference", "--format", "md").stdout


def test_the_command_creates_no_store(counterfoil: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    counterfoil.bare("reference", "--out", "reference.html")
    assert [path.name for path in tmp_path.iterdir()] == ["reference.html"]
