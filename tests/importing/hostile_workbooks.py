"""Workbooks that would fill the memory, or take hours, if a reader trusted what they say."""

import io
import random
import zipfile
from collections.abc import Iterator, Mapping

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
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
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


def small() -> Iterator[tuple[str, bytes]]:
    """Yield workbooks that unpack to a few megabytes, with what is wrong with each."""
    for part in PARTS_WITH_DOCTYPE:
        yield f"entities in {part}", with_doctype(part)
    utf_16 = f"<?xml version='1.0' encoding='utf-16'?>{DOCTYPE.decode()}<sst><si><t>&l9;</t></si></sst>"
    yield "entities in UTF-16", workbook_of({STRINGS: utf_16.encode("utf-16")})
    external = b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><sst/>'
    yield "a document type elsewhere", workbook_of({STRINGS: external})
    yield ("a long comment before a document type", workbook_of({STRINGS: b"<!--%s-->" % (b" " * 40_000) + DOCTYPE}))
    yield "one row of cells", workbook_of({SHEET: sheet(b"<row>%s</row>" % (b"<c/>" * 3_000_000))})
    yield "cells in each other", workbook_of({SHEET: sheet(b"<row>%s" % (b"<c>" * 3_000_000))})
    yield "rows in each other", workbook_of({SHEET: sheet(b"<row>" * 2_000_000)})
    yield "elements in each other", workbook_of({SHEET: sheet(b"", b"<x>" * 3_000_000)})
    yield "texts in one text", workbook_of({STRINGS: b"<sst><si>%s</si></sst>" % (b"<t>abcd</t>" * 1_000_000)})
    elements = b"".join(b"<x%d/>" % number for number in range(800_000))
    yield "elements with names of their own", workbook_of({SHEET: sheet(b"", elements)})
    attributes = b"".join(b'<c x%d=""/>' % number for number in range(500_000))
    yield "attributes with names of their own", workbook_of({STYLES: b"<styleSheet>%s</styleSheet>" % attributes})
    yield "a long attribute", workbook_of({SHEET: sheet(b'<row r="%s"/>' % (b"1" * 15 * MEBIBYTE))})
    yield "a long comment", workbook_of({SHEET: sheet(b"<!--%s-->" % (b"<" * 15 * MEBIBYTE))})
    yield "a long value", workbook_of({SHEET: sheet(b"<row><c><v>%s</v></c></row>" % (b"1" * 15 * MEBIBYTE))})
    yield "formats", workbook_of({STYLES: b"<styleSheet><cellXfs>%s</cellXfs></styleSheet>" % (b"<xf/>" * 3_000_000)})
    yield "sheets", workbook_of({"xl/workbook.xml": b"<workbook>%s</workbook>" % (b'<sheet r:id="r0"/>' * 800_000)})
    shared = b"<sst><si><t>%s</t></si></sst>" % (b"a" * MEBIBYTE)
    cells = b'<c t="s"><v>0</v></c>' * 16_384
    yield "a row of long texts", workbook_of({STRINGS: shared, SHEET: sheet(b"<row>%s</row>" % cells)})
    yield (
        "rows of a long text",
        workbook_of({STRINGS: shared, SHEET: sheet(b'<row><c t="s"><v>0</v></c></row>' * 9_000)}),
    )


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
