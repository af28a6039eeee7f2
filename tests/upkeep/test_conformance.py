"""Every row of docs/evidence/conformance.md names code and tests that exist.

This file also tests clauses that no other suite covers.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.files import read_write
from openapi_check import OpenApiDocument
from running_service import RunningService

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "evidence" / "conformance.md"
SOURCES = tuple((ROOT / "packages").glob("*/src/counterfoil"))
TESTS = (ROOT / "tests",)
RELEASES = [
    ("1.3.0", "2026-09-29"),
    ("1.2.1", "2026-09-28"),
    ("1.2.0", "2026-09-18"),
    ("1.1.1", "2026-09-10"),
    ("1.1.0", "2026-09-10"),
    ("1.0.0", "2026-09-10"),
]

_REFERENCE = re.compile(r"`([\w/]+\.py)::([\w.]+)`")


class Row(NamedTuple):
    clause: str
    implemented: str
    proved: str


def rows() -> list[Row]:
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [Row(*row) for row in cells if row[0] != "clause"]


@cache
def names(path: Path) -> frozenset[str]:
    """Return the names that a file defines: functions, classes, their methods, and constants."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                methods = [part for part in body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
                found |= {name} | {f"{name}.{method.name}" for method in methods}
            case ast.Assign(targets=targets):
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return frozenset(found)


def missing(folders: tuple[Path, ...], cell: str) -> list[str]:
    """Return the references in a table cell to files or names that are in none of the folders."""
    found = _REFERENCE.findall(cell)
    return [f"{file}::{name}" for file, name in found if not any(_exists(folder / file, name) for folder in folders)]


def _exists(path: Path, name: str) -> bool:
    return path.is_file() and name in names(path)


ROWS = rows()


# --- the table -----------------------------------------------------------------------------


def test_the_table_is_parsed_completely() -> None:
    assert len(ROWS) > 150


def test_a_clause_names_where_it_is_implemented() -> None:
    assert [row.clause for row in ROWS if not _REFERENCE.search(row.implemented)] == []
    assert [gone for row in ROWS for gone in missing(SOURCES, row.implemented)] == []


def test_a_clause_names_a_test_that_exists() -> None:
    assert [row.clause for row in ROWS if not _REFERENCE.search(row.proved)] == []
    assert [name for row in ROWS for _, name in _REFERENCE.findall(row.proved) if not name.startswith("test_")] == []
    assert [gone for row in ROWS for gone in missing(TESTS, row.proved)] == []


def test_a_cell_contains_only_references() -> None:
    cells = [cell for row in ROWS for cell in (row.implemented, row.proved)]
    assert [cell for cell in cells if _REFERENCE.sub("", cell).replace("<br>", "")] == []


def test_every_file_of_endpoint_tests_is_in_the_table() -> None:
    named = {file for row in ROWS for file, _ in _REFERENCE.findall(row.proved)}
    assert {str(path.relative_to(ROOT / "tests")) for path in (ROOT / "tests" / "http").glob("test_*.py")} <= named


# --- clauses that no other suite covers ------------------------------------------------------


def test_the_changelog_holds_the_contracts_release_history() -> None:
    headings = re.findall(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[-len(RELEASES) :] == RELEASES
    assert sorted(headings, key=lambda release: release[1], reverse=True) == headings


def test_the_serving_side_cannot_write_the_books(tmp_path: Path) -> None:
    read_write(tmp_path, "books").close()
    books = SqliteBooks(tmp_path)
    try:
        with pytest.raises(Exception, match="readonly"):
            books._connection.execute("UPDATE horizon SET at = 1")
    finally:
        books.close()


# --- every answer in a test is checked against the document ------------------------------------------


@pytest.fixture
def genuine(service: RunningService) -> httpx.Response:
    return service.get("shops", service.key(shop="s"), headers={"accept-encoding": "identity"})


def test_every_answer_in_a_test_is_checked_against_the_document(genuine: httpx.Response) -> None:
    OpenApiDocument("/ext").check("shops", "GET", genuine)


@pytest.mark.parametrize(
    "spoilt",
    [
        {"ok": False, "data": [], "serverTime": "2026-01-01T00:00:00.000Z"},
        {"ok": True, "data": [], "serverTime": "2026-01-01T00:00:00.000+07:00"},
        {"ok": True, "data": [{"shopId": 7}], "serverTime": "2026-01-01T00:00:00.000Z"},
        {"ok": True, "data": []},
    ],
)
def test_a_body_that_does_not_match_the_document_is_detected(genuine: httpx.Response, spoilt: Any) -> None:
    headers = {name: value for name, value in genuine.headers.items() if name != "content-length"}
    with pytest.raises(AssertionError, match="body"):
        OpenApiDocument("/ext").check("shops", "GET", httpx.Response(200, headers=headers, json=spoilt))


def test_an_undocumented_status_is_detected(genuine: httpx.Response) -> None:
    with pytest.raises(AssertionError, match="not documented"):
        OpenApiDocument("/ext").check("shops", "GET", httpx.Response(418, headers=genuine.headers))


@pytest.mark.parametrize("name", ["x-request-id", "x-ratelimit-limit", "etag", "vary", "cache-control"])
def test_a_missing_documented_header_is_detected(genuine: httpx.Response, name: str) -> None:
    genuine.headers.pop(name)
    with pytest.raises(AssertionError, match=name):
        OpenApiDocument("/ext").check("shops", "GET", genuine)


def test_an_undocumented_header_is_detected(genuine: httpx.Response) -> None:
    genuine.headers["access-control-allow-origin"] = "*"
    with pytest.raises(AssertionError, match="access-control-allow-origin"):
        OpenApiDocument("/ext").check("shops", "GET", genuine)
