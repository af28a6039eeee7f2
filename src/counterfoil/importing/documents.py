"""Reads orders from JSON as an API returns it: pages with a list of orders, a list, or one order per line.

The text is split into objects before it is parsed, so that a file of any size
is read in constant memory. Numbers with a fraction are parsed as decimals, so
that no digit is lost.
"""

import json
import re
from collections.abc import Collection, Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from counterfoil.importing.results import NOT_AN_ORDER, ImportFailed, RowProblem

CHUNK = 64 * 1024
MAX_ORDER = 8 * 1024 * 1024
LONGEST_NAME = 200
_MARK = re.compile(r'["\\{}\[\]\n]')
_ELEMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^ \t\r\n,"]+', re.DOTALL)
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*$')


class JsonOrder:
    """An order in a file, and the line on which it begins."""

    def __init__(self, file: str, line: int, content: dict[str, Any]) -> None:
        self.file = file
        self.line = line
        self.content = content


def read_orders(path: Path, list_names: Collection[str]) -> Iterator[JsonOrder | RowProblem]:
    """Yield the orders in a file: the elements of lists with these names, and objects that have no such list."""
    try:
        with path.open(encoding="utf-8-sig", errors="strict") as text:
            for line, found in _Splitter(text, list_names, path.name).objects():
                yield _parsed(path.name, line, found)
    except OSError as error:
        raise ImportFailed(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ImportFailed(f"{path.name} is not UTF-8 text. Save the JSON in UTF-8.") from error


def _parsed(file: str, line: int, text: str) -> JsonOrder | RowProblem:
    try:
        content = json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError as error:
        return RowProblem(NOT_AN_ORDER, f"is not JSON: {error}", line, file)
    except ValueError:
        return RowProblem(NOT_AN_ORDER, "contains a number with thousands of digits", line, file)
    if not isinstance(content, dict):
        return RowProblem(NOT_AN_ORDER, "is not a JSON object", line, file)
    return JsonOrder(file, line, content)


class _Splitter:
    """Splits JSON text into orders. A page is an object that has a list of orders; its other fields are skipped.

    An object that is not in a page and has no such list is itself an order. Whether it has one may be known only at
    its end, so until then it is treated as a page.
    An element of a list of orders that is not an object is also returned, so that it can be reported.
    `_page` and `_order` say where the current page and the current order begin: a line number and a position in the
    buffer. They are None outside a page and outside an order. `_outside` is the position after the last bracket.
    """

    def __init__(self, text: IO[str], list_names: Collection[str], file: str, chunk: int = CHUNK) -> None:
        self._text = text
        self._list_names = list_names
        self._file = file
        self._chunk = chunk
        self._line = 1
        self._open: list[str] = []
        self._buffer = ""
        self._outside = 0
        self._page: tuple[int, int] | None = None
        self._page_depth = 0
        self._has_orders = False
        self._in_list = False
        self._order: tuple[int, int] | None = None
        self._order_depth = 0
        self._in_string = False

    def objects(self) -> Iterator[tuple[int, str]]:
        """Yield the text of each order, and of each other element of a list of orders, with its first line."""
        position = 0
        while chunk := self._text.read(self._chunk):
            self._buffer += chunk
            while found := _MARK.search(self._buffer, position):
                at, mark = found.start(), found[0]
                if mark == "\\" and self._in_string:
                    if at + 1 >= len(self._buffer):
                        break
                    position = at + 2
                    continue
                position = at + 1
                if mark == "\n":
                    self._line += 1
                elif mark == '"':
                    self._in_string = not self._in_string
                elif not self._in_string and mark != "\\":
                    yield from self._bracket(mark, at)
            else:
                position = len(self._buffer)
            position = self._forget(position)
        if self._open:
            raise ImportFailed(f"{self._file} ends in the middle of the JSON text. It may be incomplete.")
        self._check_outside(len(self._buffer))

    def _bracket(self, mark: str, at: int) -> Iterator[tuple[int, str]]:
        if self._is_between_orders():
            yield from self._elements(at)
        self._outside = at + 1
        if mark in "{[":
            self._begin(mark, at)
            self._open.append(mark)
            return
        if not self._open or self._open.pop() != ("{" if mark == "}" else "["):
            raise ImportFailed(
                f"{self._file} is not JSON: line {self._line} has a closing bracket without a matching opening one."
            )
        depth = len(self._open)
        if self._order and depth == self._order_depth:
            line, begin = self._order
            self._order = None
            yield line, self._buffer[begin : at + 1]
        elif self._in_list and self._order is None:
            self._in_list = False
        elif self._page and depth == self._page_depth:
            line, begin = self._page
            self._page = None
            # An API may leave out an empty list of orders, so an empty object that is not in a list is an empty page.
            is_empty_page = not depth and not self._buffer[begin + 1 : at].strip()
            if not self._has_orders and not is_empty_page:
                yield line, self._buffer[begin : at + 1]

    def _begin(self, mark: str, at: int) -> None:
        """Note where a page or an order begins."""
        depth = len(self._open)
        if self._order:
            return
        if self._page is None:
            if mark == "{":
                self._page, self._page_depth, self._has_orders = (self._line, at), depth, False
        elif self._in_list:
            self._order, self._order_depth = (self._line, at), depth
        elif depth == self._page_depth + 1 and self._name_before(at) in self._list_names:
            self._has_orders = True
            if mark == "[":
                self._in_list = True
            else:
                # This page has a single order instead of a list.
                self._order, self._order_depth = (self._line, at), depth

    def _is_between_orders(self) -> bool:
        return self._page is None or (self._in_list and self._order is None)

    def _elements(self, end: int) -> Iterator[tuple[int, str]]:
        """Yield the elements before `end` that are neither objects nor lists, such as numbers, with their lines."""
        if not self._open:
            self._check_outside(end)
            return
        text = self._buffer[self._outside : end]
        line, counted = self._line - text.count("\n"), 0
        for found in _ELEMENT.finditer(text):
            line += text.count("\n", counted, found.start())
            counted = found.start()
            yield line, found[0]

    def _check_outside(self, end: int) -> None:
        """Refuse text outside a list and an object, which would otherwise be lost."""
        if self._buffer[self._outside : end].strip(" \t\r\n,"):
            raise ImportFailed(f"{self._file} is not JSON: line {self._line} has text outside an object.")

    def _name_before(self, at: int) -> str | None:
        found = _NAME.search(self._buffer, max(0, at - LONGEST_NAME), at)
        return found[1] if found else None

    def _forget(self, position: int) -> int:
        """Drop the text that is no longer needed; return the position in the remaining text."""
        keep = max(0, position - LONGEST_NAME)
        if self._is_between_orders():
            keep = min(keep, self._outside)
        elif self._page and not self._has_orders:
            keep = min(keep, self._page[1])
        if self._order:
            keep = min(keep, self._order[1])
        if position - keep > MAX_ORDER:
            raise ImportFailed(
                f"{self._file} has an object larger than 8 MiB before line {self._line}. Check that it contains orders."
            )
        self._buffer = self._buffer[keep:]
        self._outside = max(0, self._outside - keep)
        if self._order:
            self._order = (self._order[0], self._order[1] - keep)
        if self._page:
            self._page = (self._page[0], max(0, self._page[1] - keep))
        return position - keep
