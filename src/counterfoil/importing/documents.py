"""Reads orders from JSON as an API returns it: pages with a list of orders, a list, or one order per line.

Numbers with a fraction are parsed as decimals, so that no digit is lost.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from counterfoil.domain.json_documents import BYTE_ORDER_MARK, JsonSplitter
from counterfoil.importing.results import NOT_AN_ORDER, ImportFailed, RowProblem
from counterfoil.text import printable

CHUNK = 64 * 1024
MAX_ORDER = 8 * 1024 * 1024
# Text between orders: a string, or another value such as a number.
_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|[^ \t\r\n,"]+|"', re.DOTALL)


class JsonOrder:
    """An order in a file, and the line on which it begins."""

    def __init__(self, file: str, line: int, content: dict[str, Any]) -> None:
        self.file = file
        self.line = line
        self.content = content


def read_orders(path: Path, list_names: Collection[str]) -> Iterator[JsonOrder | RowProblem]:
    """Yield the orders in a file: the elements of lists with these names, and objects that have no such list."""
    name = printable(path.name)
    try:
        with path.open("rb") as raw:
            start = raw.read(CHUNK).removeprefix(BYTE_ORDER_MARK)
            if not start.strip():
                raise ImportFailed(f"{name} is empty.")
            if b"\0" in start or start.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise ImportFailed(f"{name} is not UTF-8 text. Save the JSON in UTF-8.")
            for line, text in split_orders(chain([start], iter(partial(raw.read, CHUNK), b"")), list_names, name):
                yield _parsed(name, line, text)
    except OSError as error:
        raise ImportFailed(f"cannot read {path}: {error.strerror}") from error


def split_orders(chunks: Iterable[bytes], list_names: Collection[str], file: str) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each order, and of each other element of a list of orders, with its first line."""
    splitter = JsonSplitter(1, MAX_ORDER, list_names)
    for line, text in splitter.records(chunks):
        yield from _values(line, text)
    if splitter.is_within_record:
        raise ImportFailed(f"{file} ends in the middle of the JSON text. It may be incomplete.")
    if rest := splitter.rest():
        yield from _values(*rest)


def _values(line: int, text: bytes) -> Iterator[tuple[int, bytes]]:
    if text[:1] in b"{[":
        yield line, text
        return
    counted = 0
    for found in _VALUE.finditer(text):
        line += text.count(b"\n", counted, found.start())
        counted = found.start()
        yield line, found[0]


def _parsed(file: str, line: int, text: bytes) -> JsonOrder | RowProblem:
    problem = "is not a JSON object"
    try:
        content = json.loads(text.decode(), parse_float=Decimal) if len(text) <= MAX_ORDER else None
        if isinstance(content, dict):
            return JsonOrder(file, line, content)
        problem = problem if len(text) <= MAX_ORDER else "is larger than 8 MiB"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error}"
    except RecursionError:
        problem = "is nested too deeply to be an order"
    except ValueError:
        problem = "contains a number with thousands of digits"
    return RowProblem(NOT_AN_ORDER, problem, line, file)
