"""On a Thai page, no sentence about an import is English: failures, notes, rows left out, doubts, open items."""

import io
import re
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest
from openpyxl import Workbook

from console.running_console import Operator, RunningConsole
from console.test_imports import ASKED, EXAMPLES, FACTS, accept, brought, reads, send, settled
from counterfoil import bootstrap
from counterfoil.domain.open_items import Kind, OpenItem
from importing import hostile_workbooks

# Three words with small letters, one after the other, are a sentence. Names and codes are shorter.
ENGLISH = re.compile(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b")
# What has the words of a file, of a command, or of the watcher, which is folded and says that it is English.
QUOTED = {"code", "pre", "td", "option", "details"}
LOYVERSE = (EXAMPLES / "loyverse-receipts.csv").read_bytes()


class ShownText(HTMLParser):
    """The text of the main part of a page, without what is quoted."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._quoted = 0
        self.feed(page.partition("<main")[2].partition("</main>")[0])

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self._quoted += tag in QUOTED
        self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._quoted -= tag in QUOTED
        self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._quoted:
            self.parts.append(data)


def english_in(page: str) -> list[str]:
    """Return the English words of each sentence in the main part of a page."""
    return ENGLISH.findall("".join(ShownText(page).parts))


@pytest.fixture
def somchai(console: RunningConsole) -> Operator:
    return console.operator("somchai", "th")


def two_sheets() -> bytes:
    book = Workbook()
    book.active.append(["Receipt No", "Total"])
    book.create_sheet("Other").append(["Item", "Amount"])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def failing_files() -> Iterator[tuple[str, bytes]]:
    yield "empty.csv", b""
    yield "report.csv", b"%PDF-1.7 bills"
    yield "page.xls", b"<html><table><tr><td>1</td></tr></table></html>"
    yield "old.xls", b"\xd0\xcf\x11\xe0" + bytes(500)
    yield "packed.csv", b"\x1f\x8b" + bytes(100)
    yield "archive.xlsx", b"PK\x03\x04" + bytes(200)
    yield "program.csv", b"MZ\x90\x00" + bytes(range(256)) * 40
    yield "one-column.csv", b"a\n1\n2\n"
    yield "headings.csv", b"Receipt No,Date,Total\n"
    yield "wide.csv", ",".join(f"C{number}" for number in range(2_100)).encode() + b"\n"
    yield "long.csv", b"Receipt No,Total\n" + b"1" * (5 << 20) + b",1\n"
    yield "orders.json", b'{"a": [{"b": 1}]}'
    yield "cut.json", b'[{"id": 1,'
    yield "nothing.json", b"[]"
    yield "sheets.xlsx", two_sheets()


@pytest.mark.parametrize(("name", "content"), [pytest.param(*file, id=file[0]) for file in failing_files()])
def test_a_file_that_cannot_be_read_gets_a_thai_sentence(somchai: Operator, name: str, content: bytes) -> None:
    address = brought(somchai, (name, content))
    page = somchai.page(address)
    assert english_in(page) == []
    assert 'lang="en"' not in page.partition("<main")[2]


# One workbook for each sentence that refuses one. `make test` tries these, and `make test-long` all.
OF_EACH_SENTENCE = {
    "entities in xl/sharedStrings.xml",
    "a long comment before a document type",
    "one row of cells",
    "cells in each other",
    "texts in one text",
    "elements with names of their own",
    "a long attribute",
    "formats",
    "sheets",
    "a row of long texts",
    "rows of a long text",
}
HOSTILE = [
    pytest.param(name, marks=() if name in OF_EACH_SENTENCE else pytest.mark.long) for name in hostile_workbooks.SMALL
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_workbook_gets_a_thai_sentence(somchai: Operator, name: str) -> None:
    address = brought(somchai, ("book.xlsx", hostile_workbooks.SMALL[name]()))
    assert english_in(somchai.page(address)) == []


def test_the_totals_of_a_file_with_left_out_and_rejected_rows_are_thai(somchai: Operator) -> None:
    bad = LOYVERSE.replace(b"Closed", b"Surprising", 1) + b"a,b,c\n"
    address = brought(somchai, ("receipts.csv", bad))
    send(somchai, f"{address}/answers", **FACTS)
    settled(somchai, address, "reading")
    page = somchai.page(address)
    assert "/accept" in page
    assert "บรรทัด" in page
    assert english_in(page) == []


def test_the_doubts_about_a_file_are_thai(somchai: Operator) -> None:
    heading, first, *_ = LOYVERSE.splitlines(keepends=True)
    bills = heading + b"".join(first.replace(b"1-0003", b"1-%d" % number) for number in range(1000, 1060))
    address = brought(somchai, ("receipts.csv", bills))
    send(somchai, f"{address}/answers", **FACTS)
    settled(somchai, address, "reading")
    accept(somchai, address)
    address = brought(somchai, ("receipts.csv", bills.replace(b"6:05 PM", b"1:05 PM")))
    found = settled(somchai, address, "reading")
    assert found["doubts"]
    page = somchai.page(address)
    assert "nevertheless" in page
    assert english_in(page) == []


def test_questions_and_the_reasons_of_other_roles_are_thai(somchai: Operator) -> None:
    address = brought(somchai, ("asked.csv", ASKED))
    page = somchai.page(address)
    assert english_in(page.replace("<details", "<section").replace("</details>", "</section>")) == []


@pytest.mark.parametrize("kind", ["quarantined", "held", "needs_answers", "unfinished", "not_begun"])
def test_the_words_of_the_watcher_are_quoted_and_the_sentence_is_thai(
    console: RunningConsole, somchai: Operator, kind: Kind, tmp_path: Path
) -> None:
    reason = "sales.csv was not loaded: the file is cut off."
    item = OpenItem(identity="one", kind=kind, files={"sales.csv": 0}, path=str(tmp_path / "sales.csv"), reason=reason)
    with closing(bootstrap.store(console.settings).ledger()) as ledger:
        ledger.add_items([item])
    (found,) = reads(console).open_items()
    page = somchai.page(f"/loads/items/{found.number}")
    assert english_in(page) == []
    assert f'<p lang="en">{reason}</p>' in page
    listed = somchai.page("/loads")
    assert reason not in listed
    if kind in ("quarantined", "held"):
        assert reason in console.operator("bob").page(f"/loads/items/{found.number}")


def test_an_english_sentence_on_a_page_is_found() -> None:
    page = '<main id="page"><p>มี the file is empty</p><code>one two three</code></main>'
    assert english_in(page) == ["the file is"]
