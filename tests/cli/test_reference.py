"""Tests for `counterfoil reference`, which writes the API reference to a file or standard output, without a store."""

from pathlib import Path

import pytest

from cli.command import Command
from counterfoil.http.reference import example_base_url, render


@pytest.mark.parametrize("kind", ["html", "md", "txt", "json"])
def test_the_suffix_of_the_file_chooses_the_format(counterfoil: Command, tmp_path: Path, kind: str) -> None:
    out = tmp_path / f"reference.{kind}"
    said = counterfoil.bare("reference", "--out", out).stdout
    assert out.read_bytes() == render(kind, "/ext", example_base_url("/ext"))
    assert said == f"Wrote {out} ({out.stat().st_size:,} bytes).\n"


def test_without_a_file_the_page_goes_to_standard_output(counterfoil: Command) -> None:
    assert counterfoil.bare("reference").stdout_bytes == render("html", "/ext", example_base_url("/ext"))


def test_a_format_can_be_named_and_overrides_the_suffix(counterfoil: Command, tmp_path: Path) -> None:
    out = tmp_path / "reference.page"
    counterfoil.bare("reference", "--out", out, "--format", "md")
    assert out.read_bytes().startswith(b"# Counterfoil API reference")
    assert counterfoil.bare("reference", "--format", "txt").stdout.startswith("# Counterfoil API reference")


def test_an_unknown_suffix_is_refused_with_a_hint(counterfoil: Command, tmp_path: Path) -> None:
    said = counterfoil.bare("reference", "--out", tmp_path / "reference.pdf", status=2).stderr
    assert "The suffix of reference.pdf is not .html, .md, .txt or .json. Choose a format with --format." in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    [
        "",
        "pos.example.org",
        "ftp://pos.example.org",
        "https://",
        "https://a:b",
        "https://a:0",
        "https://[::1",
        "https://a/?x=1",
        "https://a b",
    ],
)
def test_an_incomplete_address_is_refused(counterfoil: Command, address: str) -> None:
    said = counterfoil.bare("reference", "--base-url", address, status=2).stderr
    assert "is not a valid base URL. Use a URL such as https://pos.example.com/ext/v1" in said


def test_the_examples_show_the_address_that_is_given(counterfoil: Command) -> None:
    page = counterfoil.bare("reference", "--base-url", "https://pos.example.org/ext/v1").stdout
    assert "export BASE=https://pos.example.org/ext/v1" in page


def test_the_prefix_of_the_settings_is_shown(counterfoil: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_PREFIX", "/sales")
    assert "https://api.example.com/sales/v1" in counterfoil.bare("reference", "--format", "md").stdout


def test_the_command_creates_no_store(counterfoil: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    counterfoil.bare("reference", "--out", "reference.html")
    assert [path.name for path in tmp_path.iterdir()] == ["reference.html"]
