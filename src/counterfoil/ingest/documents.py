"""Reads JSON that is not one record per line: an array of records, or records that span several lines."""

import re
from collections.abc import Callable, Iterator
from typing import IO

from counterfoil.ingest.lines import MAX_REJECT_BYTES

CHUNK_BYTES = 64 * 1024
# A file that goes on for longer than this without a record is not read any further: it holds up other files.
MAX_BYTES_WITHOUT_RECORD = 64 * 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb'["\\{}\[\]\n]')
_BETWEEN = b" \t\r\n,"


def is_document(first_line: bytes) -> bool:
    """Return whether a source that begins with this line is an array or has records that span several lines."""
    start = first_line.strip().removeprefix(_BYTE_ORDER_MARK).lstrip()
    return start.startswith(b"[") or start == b"{"


class Unfinished(Exception):
    """Records may be missing: the array is not closed, or the rest of the file is not read. The message says why."""


class ReadLimit:
    """Calls `on_read` regularly, and limits the number of bytes that are read without finding a record."""

    def __init__(self, on_read: Callable[[], None]) -> None:
        self._on_read = on_read
        self._since_call = 0
        self.without_record = 0

    def add(self, size: int) -> None:
        self._since_call += size
        self.without_record += size
        if self._since_call > CHUNK_BYTES:
            self._since_call = 0
            self._on_read()
            if self.without_record > MAX_BYTES_WITHOUT_RECORD:
                raise Unfinished(f"it goes on for more than {MAX_BYTES_WITHOUT_RECORD >> 20} MiB without a record")


class DocumentReader:
    """Splits a document into records. `line` is the number of the line that has been reached.

    If the document is known to be truncated, only complete records are yielded.
    """

    def __init__(
        self, text: IO[bytes], first_line: bytes, number: int, limit: ReadLimit, *, is_cut_off: bool = False
    ) -> None:
        self._text = text
        self._limit = limit
        self._is_cut_off = is_cut_off
        self._head = first_line.replace(_BYTE_ORDER_MARK, b"", 1) if number == 1 else first_line
        self._is_list = self._head.lstrip().startswith(b"[")
        self.line = self._started = number
        self._done = 0
        self._depth = 0
        self._in_string = self._is_escaped = False
        self._pending = bytearray()

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Yield each record with its line number. Other text between records is yielded too, so that it is rejected."""
        for chunk in self._chunks():
            self._done = 0
            for at, token in self._tokens(chunk):
                found = self._bracket(chunk, at, opens=token in b"{[")
                if found:
                    yield found
            self._keep(chunk[self._done :])
        if self._is_cut_off:
            return
        if rest := self._take(b""):
            yield self._started, rest
        if self._is_list and self._depth > 0:
            raise Unfinished("the array is not closed")

    def _bracket(self, chunk: bytes, at: int, *, opens: bool) -> tuple[int, bytes] | None:
        """Process a bracket. Return the record or other text that ends at it, with its line number, or None."""
        record_level = 2 if self._is_list else 1
        level = self._depth + 1 if opens else self._depth
        self._depth = level if opens else max(0, level - 1)
        if level > record_level:
            return None
        is_end = level == record_level and not opens
        line, text = (self._started if is_end else self.line), self._take(chunk[self._done : at + is_end])
        self._done = at if level == record_level and opens else at + 1
        self._started = self.line
        return (line, text) if text else None

    def _chunks(self) -> Iterator[bytes]:
        yield self._head
        while chunk := self._text.read(CHUNK_BYTES):
            self._limit.add(len(chunk))
            yield chunk

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
        """Buffer part of a record. One byte more than the limit is kept, which is enough to reject a longer record."""
        self._pending += text[: MAX_REJECT_BYTES + 1 - len(self._pending)]

    def _take(self, text: bytes) -> bytes:
        self._keep(text)
        taken = bytes(self._pending).strip(_BETWEEN)
        self._pending.clear()
        return taken
