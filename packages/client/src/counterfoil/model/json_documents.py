"""Splits JSON text that arrives in chunks into its records, so that a document of any size is read in constant memory.

A document is an array of records, or records one after the other. A record may be a page, as an API returns it: an
object with a list of records under a known name, or with a single one. Text that is not a record is returned too, so
that it is rejected and not lost.
"""

import re
from collections.abc import Collection, Iterable, Iterator

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_NAME = 200
_TOKEN = re.compile(rb'["\\{}\[\]\n]')
_NAME = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*$')
_BETWEEN = b" \t\r\n,"


class JsonSplitter:
    """Splits one document. `line` is the number of the line that has been reached.

    `_level` is the number of open brackets around the inside of a record. While the list of a page is read, `_page` is
    the level of that page. A page is kept as a record until such a list is found in it; after that, its other fields
    are dropped. Of a record that is longer than `max_bytes`, one byte more is kept, which is enough to reject it.
    """

    def __init__(self, line: int, max_bytes: int, list_names: Collection[str] = ()) -> None:
        self.line = self._started = line
        self._max_bytes = max_bytes
        self._list_names = frozenset(name.encode() for name in list_names)
        self._depth = 0
        self._level = 1
        self._page: int | None = None
        self._is_page = self._is_single = False
        self._done = 0
        self._in_string = self._is_escaped = False
        self._pending = bytearray()
        self._tail = b""

    def records(self, chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield each record, and other text between records, with the line on which it begins."""
        for chunk in chunks:
            self._done = 0
            for at, token in self._tokens(chunk):
                opens = token in b"{["
                level = self._depth + 1 if opens else self._depth
                self._depth = level if opens else max(0, level - 1)
                if opens and level == 1:
                    self._level = 2 if token == b"[" else 1
                if opens and level == self._level + 1 and self._begins_list(chunk, at):
                    self._enter_page(level, at, is_single=token == b"{")
                elif level <= self._level and (found := self._ended(chunk, at, level, opens=opens)):
                    yield found
            self._keep(chunk[self._done :])
            self._tail = (self._tail + chunk)[-LONGEST_NAME:] if self._list_names else b""

    def rest(self) -> tuple[int, bytes] | None:
        """Return the text after the last record, if there is any."""
        return self._take(b"")

    @property
    def is_within_list(self) -> bool:
        return self._level > 1 and self._depth > 0

    @property
    def is_within_record(self) -> bool:
        return self._depth > 0 or self._in_string

    def _ended(self, chunk: bytes, at: int, level: int, *, opens: bool) -> tuple[int, bytes] | None:
        """Process a bracket of a record or around records. Return the record or other text that ends at it."""
        is_record, was_page = level == self._level, self._is_page and self._page is None
        found = self._take(chunk[self._done : at + (is_record and not opens)])
        # A closing bracket without an opening one is other text.
        self._done = at if (is_record and opens) or not level else at + 1
        self._started = self.line
        if opens:
            return found
        if self._page is not None and (self._is_single or not is_record):
            self._level, self._page = self._page, None
        elif is_record and self._page is None:
            self._is_page = False
            # An API may leave out an empty list, so an empty object that is not in a list is an empty page.
            if was_page or (self._list_names and level == 1 and found and not found[1][1:-1].strip()):
                return None
        return found

    def _begins_list(self, chunk: bytes, at: int) -> bool:
        if not self._list_names or self._page is not None:
            return False
        before = chunk[max(0, at - LONGEST_NAME) : at]
        name = _NAME.search(before if len(before) == LONGEST_NAME else self._tail + before)
        return name is not None and name[1] in self._list_names

    def _enter_page(self, level: int, at: int, *, is_single: bool) -> None:
        self._pending.clear()
        self._page, self._is_page, self._is_single = self._level, True, is_single
        self._level = level if is_single else level + 1
        self._done = at if is_single else at + 1
        self._started = self.line

    def _tokens(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the brackets outside strings, with their positions."""
        skip = 0 if self._is_escaped else -1
        self._is_escaped = False
        for match in _TOKEN.finditer(chunk):
            at, token = match.start(), match[0]
            if token == b"\n":
                self.line += 1
            elif at == skip:
                continue
            elif token == b"\\":
                skip = at + 1
                self._is_escaped = self._in_string and skip == len(chunk)
            elif token == b'"':
                self._in_string = not self._in_string
            elif not self._in_string:
                yield at, token

    def _keep(self, text: bytes) -> None:
        if not self._is_page or self._page is not None:
            self._pending += text[: self._max_bytes + 1 - len(self._pending)]

    def _take(self, text: bytes) -> tuple[int, bytes] | None:
        self._keep(text)
        pending = bytes(self._pending)
        self._pending.clear()
        taken = pending.lstrip(_BETWEEN)
        line = self._started + pending.count(b"\n", 0, len(pending) - len(taken))
        return (line, taken.rstrip(_BETWEEN)) if taken else None
