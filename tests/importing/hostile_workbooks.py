"""Workbooks that would fill the memory, or take hours, if a reader trusted what they say."""

import io
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial

MEBIBYTE = 1024 * 1024
MAIN = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATIONS = b'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
KINDS = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
ENTITIES = b"".join(b'<!ENTITY l%d "%s">' % (level, b"&l%d;" % (level - 1) * 10) for level in range(1, 10))
DOCTYPE = b'<!DOCTYPE x [<!ENTITY l0 "laughing">%s]>' % ENTITIES
SHEET, STRINGS, STYLES = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/styles.xml"
HEADINGS = ("Receipt number", "Date", "Item", "Quantity", "Total")
HEADING_CELLS = b"".join(b'<c t="inlineStr"><is><t>%s</t></is></c>' % name.encode() for name in HEADINGS)
HEADING_ROW = b"<row>%s</row>" % HEADING_CELLS
ORDINARY_CELLS = b'<c><v>1</v></c><c s="1"><v>46340.75</v></c><c t="s"><v>0</v></c><c><v>1</v></c><c><v>60</v></c>'
ORDINARY_ROW = b"<row>%s</row>" % ORDINARY_CELLS
MAPPING = """
[shop]
id = "sh_1"
[bill]
id = "Receipt number"
closedAt = "Date"
amounts.net = { sum = "Total" }
[line]
name = "Item"
qty = "Quantity"
total = "Total"
"""
# Random bytes, so that the archive is large enough to unpack to 256 MiB.
FILLER = random.Random(1).randbytes(1_200_000)  # noqa: S311 - a test file, no secret


def sheet(rows: bytes, around: bytes = b"") -> bytes:
    return b"<worksheet %s>%s<sheetData>%s%s</sheetData></worksheet>" % (MAIN, around, HEADING_ROW, rows)


def workbook_of(parts: Mapping[str, bytes], *, is_large: bool = False) -> bytes:
    """Return a workbook with one sheet, in which these parts are as given."""
    relations = b"".join(
        b'<Relationship Id="r%d" Type="%s/%s" Target="%s"/>' % (number, KINDS, kind, target)
        for number, (kind, target) in enumerate(
            [
                (b"worksheet", b"worksheets/sheet1.xml"),
                (b"styles", b"styles.xml"),
                (b"sharedStrings", b"sharedStrings.xml"),
            ]
        )
    )
    ordinary = {
        "_rels/.rels": b'<Relationships %s><Relationship Id="a" Type="%s/officeDocument" Target="/xl/workbook.xml"/>'
        b"</Relationships>" % (RELATIONS, KINDS),
        "xl/workbook.xml": b'<workbook %s xmlns:r="%s"><sheets><sheet name="Bills" sheetId="1" r:id="r0"/></sheets>'
        b"</workbook>" % (MAIN, KINDS),
        "xl/_rels/workbook.xml.rels": b"<Relationships %s>%s</Relationships>" % (RELATIONS, relations),
        STYLES: b'<styleSheet %s><cellXfs><xf numFmtId="0"/><xf numFmtId="22"/></cellXfs></styleSheet>' % MAIN,
        STRINGS: b"<sst %s><si><t>Tea</t></si></sst>" % MAIN,
        "docProps/core.xml": b"<coreProperties/>",
        SHEET: sheet(ORDINARY_ROW),
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in {**ordinary, **parts}.items():
            archive.writestr(name, content)
        if is_large:
            archive.writestr("xl/media/image1.png", FILLER)
    return made.getvalue()


def with_doctype(part: str) -> bytes:
    """Return a workbook in which a part declares entities, and uses them."""
    with zipfile.ZipFile(io.BytesIO(workbook_of({}))) as ordinary:
        content = ordinary.read(part)
    return workbook_of({part: DOCTYPE + content.replace(b"Tea", b"&l9;").replace(b"<v>1<", b"<v>&l9;<")})


PARTS_WITH_DOCTYPE = (
    *("_rels/.rels", "xl/workbook.xml", "xl/_rels/workbook.xml.rels", STYLES, STRINGS, SHEET, "docProps/core.xml"),
)


def with_texts(content: bytes) -> bytes:
    return workbook_of({STRINGS: content})


def with_rows(rows: bytes, around: bytes = b"") -> bytes:
    return workbook_of({SHEET: sheet(rows, around)})


def with_document_type_in_utf_16() -> bytes:
    texts = f"<?xml version='1.0' encoding='utf-16'?>{DOCTYPE.decode()}<sst><si><t>&l9;</t></si></sst>"
    return with_texts(texts.encode("utf-16"))


def with_element_names() -> bytes:
    elements = b"".join(b"<x%d/>" % number for number in range(800_000))
    return with_rows(b"", elements)


def with_attribute_names() -> bytes:
    attributes = b"".join(b'<c x%d=""/>' % number for number in range(500_000))
    return workbook_of({STYLES: b"<styleSheet>%s</styleSheet>" % attributes})


def with_formats() -> bytes:
    return workbook_of({STYLES: b"<styleSheet><cellXfs>%s</cellXfs></styleSheet>" % (b"<xf/>" * 3_000_000)})


def with_sheets() -> bytes:
    return workbook_of({"xl/workbook.xml": b"<workbook>%s</workbook>" % (b'<sheet r:id="r0"/>' * 800_000)})


def with_long_text(rows: bytes) -> bytes:
    """Return a workbook whose cells share one text of a mebibyte."""
    return workbook_of({STRINGS: b"<sst><si><t>%s</t></si></sst>" % (b"a" * MEBIBYTE), SHEET: sheet(rows)})


# Workbooks that unpack to a few megabytes: for what is wrong with each, the function that makes it. A test makes only
# those that it needs, because making all of them takes more than a second.
SMALL: dict[str, Callable[[], bytes]] = {
    **{f"entities in {part}": partial(with_doctype, part) for part in PARTS_WITH_DOCTYPE},
    "entities in UTF-16": with_document_type_in_utf_16,
    "a document type elsewhere": lambda: with_texts(b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><sst/>'),
    "a long comment before a document type": lambda: with_texts(b"<!--%s-->" % (b" " * 40_000) + DOCTYPE),
    "one row of cells": lambda: with_rows(b"<row>%s</row>" % (b"<c/>" * 3_000_000)),
    "cells in each other": lambda: with_rows(b"<row>%s" % (b"<c>" * 3_000_000)),
    "rows in each other": lambda: with_rows(b"<row>" * 2_000_000),
    "elements in each other": lambda: with_rows(b"", b"<x>" * 3_000_000),
    "texts in one text": lambda: with_texts(b"<sst><si>%s</si></sst>" % (b"<t>abcd</t>" * 1_000_000)),
    "elements with names of their own": with_element_names,
    "attributes with names of their own": with_attribute_names,
    "a long attribute": lambda: with_rows(b'<row r="%s"/>' % (b"1" * 15 * MEBIBYTE)),
    "a long comment": lambda: with_rows(b"<!--%s-->" % (b"<" * 15 * MEBIBYTE)),
    "a long value": lambda: with_rows(b"<row><c><v>%s</v></c></row>" % (b"1" * 15 * MEBIBYTE)),
    "formats": with_formats,
    "sheets": with_sheets,
    "a row of long texts": lambda: with_long_text(b"<row>%s</row>" % (b'<c t="s"><v>0</v></c>' * 16_384)),
    "rows of a long text": lambda: with_long_text(b'<row><c t="s"><v>0</v></c></row>' * 9_000),
}


def small() -> Iterator[tuple[str, bytes]]:
    """Yield each workbook of SMALL, with what is wrong with it."""
    for name, make in SMALL.items():
        yield name, make()


def large() -> Iterator[tuple[str, bytes]]:
    """Yield workbooks of about 2 MB that unpack to about 200 MB."""
    yield "27 million cells", workbook_of({SHEET: sheet(b"<row>%s</row>" % (b"<c/>" * 27_000_000))}, is_large=True)
    last_cells = b'<row><c r="XFD1"><v>1</v></c></row>' * 400_000
    yield "rows with a last cell", workbook_of({SHEET: sheet(last_cells)})
    numbered = b"".join(b"<si><t>%07d</t></si>" % number for number in range(1_000_000))
    yield "millions of texts", workbook_of({STRINGS: b"<sst>%s</sst>" % (numbered * 8)}, is_large=True)
    yield "millions of rows", workbook_of({SHEET: sheet(b"<row/>" * 30_000_000)}, is_large=True)
    yield "millions of elements", workbook_of({SHEET: sheet(b"", b"<x/>" * 40_000_000)}, is_large=True)


def damaged() -> Iterator[tuple[str, bytes]]:
    """Yield workbooks that are wrong in other ways."""
    for name, row in {
        "no such text": b'<row><c t="s"><v>9</v></c></row>',
        "a text before the first": b'<row><c t="s"><v>-1</v></c></row>',
        "no number": b"<row><c><v>one</v></c></row>",
        "two values": b"<row><c><v>1</v><v>2</v></c></row>",
        "no column": b'<row><c r="1A"><v>1</v></c></row>',
        "not closed": b"<row>",
    }.items():
        yield name, workbook_of({SHEET: sheet(row)})
    yield (
        "no list of sheets",
        workbook_of({"_rels/.rels": b'<R><Relationship Id="a" Type="x/officeDocument" Target="xl/none"/></R>'}),
    )
    whole = workbook_of({})
    yield "cut off", whole[: len(whole) // 2]
