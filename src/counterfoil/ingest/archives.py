"""Checks compressed files before any of their lines are loaded.

Decompression detects damage late: damaged bytes may be unpacked into wrong lines long before an error is raised, or
without any error. So a first pass only unpacks the file and compares its checksums. A second pass then reads the file.
If it is damaged, this pass reads only the part that the checksums confirm: complete gzip members and zstd frames, up to
the first one that is damaged or has no checksum.
"""

import io
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO, Literal, cast

from backports import zstd
from msgspec import Struct

Packing = Literal["gzip", "zstd"]
PACKINGS: dict[str, Packing] = {".gz": "gzip", ".zst": "zstd"}
GZIP_START, ZSTD_START = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
READ_BYTES, TEXT_BYTES = 1 << 16, 1 << 20
# An archive that unpacks to more than this is not loaded, because a few kilobytes could then occupy a load for hours.
# Short lines, and gzip members and zstd frames of a few bytes, take longer to load than their size says.
MAX_RATIO, ALWAYS_ALLOWED_BYTES, COST_OF_LINE_BYTES, COST_OF_PART_BYTES = 250, 4 << 20, 64, 8192
# An archive may have zero bytes, empty members and frames without text. A sparse file can have a terabyte of zeros.
MAX_BYTES_WITHOUT_TEXT = 4 << 20
# The fifth byte of a zstd frame says whether a checksum follows the data.
_ZSTD_FLAGS, _HAS_CHECKSUM = 4, 0b100


class CheckedArchive(Struct, frozen=True):
    """The part of a compressed file that its checksums confirm, and the damage after it.

    If there is no damage, this part is the whole file, even if a zstd frame has no checksum.
    `other_lines` is the number of lines that could be unpacked but are not confirmed.
    """

    confirmed_bytes: int
    confirmed_lines: int
    other_lines: int = 0
    damage: str | None = None


class Damaged(Exception):
    """The compressed data is damaged. The message says how."""


def packing_by_content(start: bytes) -> Packing | None:
    """Return the compression of a file that begins with these bytes, or None if it is not compressed."""
    return "gzip" if start.startswith(GZIP_START) else "zstd" if start.startswith(ZSTD_START) else None


def spooled(raw: IO[bytes]) -> BinaryIO:
    """Return a temporary file without a name with a copy of the input, which can be read only once."""
    copy = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - returned to the caller
    try:
        shutil.copyfileobj(raw, copy, TEXT_BYTES)
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


def check(raw: BinaryIO, packing: Packing, on_read: Callable[[], None] = lambda: None) -> CheckedArchive:
    """Unpack a file, verify its checksums, and return how much of it can be trusted."""
    data = _CompressedData(raw, on_read)
    cost = lines = confirmed_bytes = confirmed_lines = 0
    is_confirmed, last = True, b""
    try:
        for has_checksum, texts in _parts(data, packing):
            cost += COST_OF_PART_BYTES
            for text in texts:
                on_read()
                found = text.count(b"\n")
                lines += found
                cost += len(text) + COST_OF_LINE_BYTES * found
                if cost > ALWAYS_ALLOWED_BYTES + MAX_RATIO * data.position:
                    damage = f"it unpacks to more than {MAX_RATIO} times its size, or has too many small parts"
                    return CheckedArchive(0, 0, damage=damage)
                last = text[-1:] or last
            # In an intact file, a zstd frame without a checksum is accepted, because there is no sign of damage.
            is_confirmed = is_confirmed and has_checksum
            if is_confirmed:
                confirmed_bytes, confirmed_lines = data.position, lines
    except (Damaged, OSError) as error:
        other_lines = lines - confirmed_lines + (last not in (b"", b"\n"))
        return CheckedArchive(confirmed_bytes, confirmed_lines, other_lines, str(error))
    return CheckedArchive(data.position, lines)


def unpacked(raw: BinaryIO, packing: Packing, checked: CheckedArchive, on_read: Callable[[], None]) -> IO[bytes]:
    """Return the text of the confirmed part of a file, from its beginning."""
    if not checked.confirmed_bytes:
        return io.BytesIO()
    raw.seek(0)
    data = _CompressedData(raw, on_read, checked.confirmed_bytes)
    return io.BufferedReader(_Text(text for _, texts in _parts(data, packing) for text in texts), TEXT_BYTES)


class _Text(io.RawIOBase):
    """The text of an archive as a stream."""

    def __init__(self, texts: Iterator[bytes]) -> None:
        self._texts = filter(None, texts)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or memoryview(next(self._texts, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


class _CompressedData:
    """The first `size` bytes of a compressed file. `position` is the number of bytes that have been consumed."""

    def __init__(self, raw: BinaryIO, on_read: Callable[[], None], size: int = sys.maxsize) -> None:
        self._raw = raw
        self._on_read = on_read
        self._size = size
        self._returned = b""
        self.position = self.useful = 0

    def read(self) -> bytes:
        """Return the next bytes. Raise if there are too many since `useful`, the position of the last text."""
        if self.position - self.useful > MAX_BYTES_WITHOUT_TEXT:
            raise Damaged(f"it goes on for more than {MAX_BYTES_WITHOUT_TEXT >> 20} MiB without text")
        if not self._returned:
            self._on_read()
        data = self._returned or self._raw.read(min(READ_BYTES, self._size - self.position))
        self._returned = b""
        self.position += len(data)
        return data

    def give_back(self, unused: bytes) -> None:
        self._returned = unused
        self.position -= len(unused)

    def start(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end of the file, without consuming them."""
        data = b""
        while len(data) < size and (more := self.read()):
            data += more
        self.give_back(data)
        return data[:size]


def _parts(data: _CompressedData, packing: Packing) -> Iterator[tuple[bool, Iterator[bytes]]]:
    """For each gzip member or zstd frame, yield whether it has a checksum, and its text."""
    if packing == "zstd" and not data.start(1):
        raise Damaged("the file is empty")
    while start := data.start(_ZSTD_FLAGS + 1):
        if packing == "gzip":
            yield True, _part(data, packing)
            # gzip allows zero bytes after a member.
            while data.start(1) == b"\0":
                data.give_back(data.read().lstrip(b"\0"))
        else:
            is_frame = start.startswith(ZSTD_START) and len(start) > _ZSTD_FLAGS
            yield not is_frame or bool(start[_ZSTD_FLAGS] & _HAS_CHECKSUM), _part(data, packing)


def _part(data: _CompressedData, packing: Packing) -> Iterator[bytes]:
    """Yield the text of the next gzip member or zstd frame."""
    part: Any = zlib.decompressobj(zlib.MAX_WBITS | 16) if packing == "gzip" else zstd.ZstdDecompressor()
    try:
        while not part.eof:
            if packing == "gzip":
                packed = part.unconsumed_tail or _required(data)
            else:
                packed = _required(data) if part.needs_input else b""
            if text := part.decompress(packed, TEXT_BYTES):
                data.useful = data.position
            yield text
    except (zlib.error, zstd.ZstdError) as error:
        is_checksum = str(error).endswith(("data check", "length check")) or "checksum" in str(error)
        raise Damaged("the checksum is wrong" if is_checksum else "the compressed data is invalid") from error
    data.give_back(part.unused_data)


def _required(data: _CompressedData) -> bytes:
    more = data.read()
    if not more:
        raise Damaged("the compressed data ends too early")
    return more
