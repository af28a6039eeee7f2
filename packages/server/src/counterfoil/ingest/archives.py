"""Checks compressed files before any of their lines are loaded.

Decompression detects damage late: damaged bytes may be unpacked into wrong lines long before an error is raised. So a
first pass only unpacks the file and compares its checksums. A second pass then reads the file.
"""

import io
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import IO, Any, BinaryIO, Literal

from backports import zstd

Packing = Literal["gzip", "zstd"]
PACKINGS: dict[str, Packing] = {".gz": "gzip", ".zst": "zstd"}
GZIP_START, ZSTD_START = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
READ_BYTES, TEXT_BYTES = 1 << 16, 1 << 20
# An archive that unpacks to more than this is not loaded, because a few kilobytes could then occupy a load for hours.
# Short lines, and gzip members and zstd frames of a few bytes, take longer to load than their size says.
MAX_RATIO, ALWAYS_ALLOWED_BYTES, COST_OF_LINE_BYTES, COST_OF_PART_BYTES = 250, 4 << 20, 64, 8192
# An archive may have zero bytes, empty members and frames without text. A sparse file can have a terabyte of zeros.
MAX_BYTES_WITHOUT_TEXT = 4 << 20


class Damaged(Exception):
    """The compressed data is damaged. The message says how."""


def packing_by_content(start: bytes) -> Packing | None:
    """Return the compression of a file that begins with these bytes, or None if it is not compressed."""
    if start.startswith(GZIP_START):
        return "gzip"
    return "zstd" if start.startswith(ZSTD_START) else None


def check(raw: BinaryIO, packing: Packing, on_read: Callable[[], None] = lambda: None) -> None:
    """Unpack a file. Raise `Damaged` if it is damaged, or unpacks to too much."""
    for _ in _Archive(raw, packing, on_read).texts():
        on_read()


def unpacked(raw: BinaryIO, packing: Packing, on_read: Callable[[], None]) -> IO[bytes]:
    return io.BufferedReader(_Text(_Archive(raw, packing, on_read).texts()), TEXT_BYTES)


class _Text(io.RawIOBase):
    """The text of an archive as a stream."""

    def __init__(self, texts: Iterator[bytes]) -> None:
        self._texts = texts
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or memoryview(next(self._texts, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


class _Archive:
    """A compressed file, which is read from its beginning. It has one or more gzip members or zstd frames."""

    def __init__(self, raw: BinaryIO, packing: Packing, on_read: Callable[[], None]) -> None:
        raw.seek(0)
        self._raw = raw
        self._is_gzip = packing == "gzip"
        self._on_read = on_read
        self._cost = self._bytes_read = self._bytes_at_last_text = 0

    def texts(self) -> Iterator[bytes]:
        try:
            packed = self._read()
            if not packed and not self._is_gzip:
                raise Damaged("the file is empty")
            while packed:
                packed = (yield from self._part(packed)) or self._read()
                # gzip allows zero bytes after a member.
                while self._is_gzip and packed and not (packed := packed.lstrip(b"\0")):
                    packed = self._read()
        except (zlib.error, zstd.ZstdError) as error:
            is_checksum = str(error).endswith(("data check", "length check")) or "checksum" in str(error)
            raise Damaged("the checksum is wrong" if is_checksum else "the compressed data is invalid") from error

    def _part(self, packed: bytes) -> Generator[bytes, None, bytes]:
        """Yield the text of a gzip member or zstd frame, and return the bytes after it that were already read."""
        part: Any = zlib.decompressobj(zlib.MAX_WBITS | 16) if self._is_gzip else zstd.ZstdDecompressor()
        self._add_cost(COST_OF_PART_BYTES)
        while True:
            if text := part.decompress(packed, TEXT_BYTES):
                self._bytes_at_last_text = self._bytes_read
                self._add_cost(len(text) + COST_OF_LINE_BYTES * text.count(b"\n"))
                yield text
            if part.eof:
                return bytes(part.unused_data)
            packed = part.unconsumed_tail if self._is_gzip else b""
            needs_input = not packed if self._is_gzip else part.needs_input
            if needs_input and not (packed := self._read()):
                raise Damaged("the compressed data ends too early")

    def _read(self) -> bytes:
        if self._bytes_read - self._bytes_at_last_text > MAX_BYTES_WITHOUT_TEXT:
            raise Damaged(f"it goes on for more than {MAX_BYTES_WITHOUT_TEXT >> 20} MiB without text")
        self._on_read()
        packed = self._raw.read(READ_BYTES)
        self._bytes_read += len(packed)
        return packed

    def _add_cost(self, size: int) -> None:
        self._cost += size
        if self._cost > ALWAYS_ALLOWED_BYTES + MAX_RATIO * self._bytes_read:
            raise Damaged(f"it unpacks to more than {MAX_RATIO} times its size, or has too many small parts")
