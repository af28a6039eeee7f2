"""Reads JSON that is not one record per line: an array of records, or records that span several lines."""

from collections.abc import Callable, Iterator
from typing import IO

from counterfoil.domain.json_documents import BYTE_ORDER_MARK, JsonSplitter
from counterfoil.ingest.lines import MAX_REJECT_BYTES

CHUNK_BYTES = 64 * 1024
# A file that goes on for longer than this without a record is not read any further: it holds up other files.
MAX_BYTES_WITHOUT_RECORD = 64 * 1024 * 1024


def is_document(first_line: bytes) -> bool:
    """Return whether a source that begins with this line is an array or has records that span several lines."""
    start = first_line.strip().removeprefix(BYTE_ORDER_MARK).lstrip()
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
    """Splits a document into records. If it is known to be truncated, only complete records are yielded."""

    def __init__(
        self, text: IO[bytes], first_line: bytes, number: int, limit: ReadLimit, *, is_cut_off: bool = False
    ) -> None:
        self._text = text
        self._limit = limit
        self._is_cut_off = is_cut_off
        self._head = first_line.replace(BYTE_ORDER_MARK, b"", 1) if number == 1 else first_line
        self._splitter = JsonSplitter(number, MAX_REJECT_BYTES)

    @property
    def line(self) -> int:
        return self._splitter.line

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Yield each record with its line number. Other text between records is yielded too, so that it is rejected."""
        yield from self._splitter.records(self._chunks())
        if self._is_cut_off:
            return
        if rest := self._splitter.rest():
            yield rest
        if self._splitter.is_within_list:
            raise Unfinished("the array is not closed")

    def _chunks(self) -> Iterator[bytes]:
        yield self._head
        while chunk := self._text.read(CHUNK_BYTES):
            self._limit.add(len(chunk))
            yield chunk
