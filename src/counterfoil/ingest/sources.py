"""Reads source records from a file, a folder or standard input. Files may be compressed with gzip or zstd."""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import msgspec
from backports import zstd
from msgspec import Struct

from counterfoil.ingest.documents import DocumentReader, Unfinished, is_document
from counterfoil.ingest.lines import MAX_REJECT_BYTES

SUFFIXES = tuple(f".{kind}{compression}" for kind in ("ndjson", "jsonl") for compression in ("", ".gz", ".zst"))


PACKED = (".gz", ".zst")
# Size of a read from a damaged file. It is small because all data decompressed by the read that fails is lost.
READ_BYTES = 128
_BILL_START = b'{"kind":"bill",'
GZIP_START, ZSTD_START = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class SourceError(Exception):
    """A source cannot be read, or cannot be read beyond `line`. The message says which source and why."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class SourceLine(Struct, frozen=True, gc=False):
    source: str
    number: int
    text: bytes


class _KindOnly(Struct):
    """The fields of a record that are needed to find its kind."""

    kind: str = ""
    record: object = None


class Source:
    """A source of lines. `position` returns the number of bytes read so far, out of `total` if that is known."""

    def __init__(self, name: str, total: int | None) -> None:
        self.name = name
        self.total = total
        self.position: Callable[[], int] = lambda: 0
        self.ignored: list[Path] = []
        """Files of a folder that are not read because of their names."""
        self.unreadable: list[Path] = []
        """Files that could not be read completely."""
        self.empty: list[str] = []
        """Names of files without any lines."""

    def lines(self) -> Iterator[SourceLine]:
        """Yield every line that can be read, then raise a SourceError if the source is damaged."""
        raise NotImplementedError


class StandardInput(Source):
    def __init__(self) -> None:
        super().__init__("stdin", None)
        if sys.stdin is None:
            raise SourceError("cannot read source records: standard input is closed")

    def lines(self) -> Iterator[SourceLine]:
        is_empty = True
        raw: Any = sys.stdin.buffer
        for line in _read_lines(self.name, _decompress_by_content(raw if hasattr(raw, "peek") else _peekable(raw))):
            is_empty = False
            yield line
        if is_empty:
            self.empty.append(self.name)


class File(Source):
    def __init__(self, path: Path) -> None:
        super().__init__(printable_name(path.name), _size(path))
        self._path = path

    def lines(self) -> Iterator[SourceLine]:
        is_empty = True
        try:
            for line in self._all_lines():
                is_empty = False
                yield line
        except SourceError:
            self.unreadable.append(self._path)
            raise
        if is_empty:
            self.empty.append(self.name)

    def _all_lines(self) -> Iterator[SourceLine]:
        with _open_file(self._path) as raw:
            self.position = raw.tell
            try:
                with _decompress(self._path, raw) as text:
                    yield from _read_lines(self.name, text)
            except SourceError as damage:
                if self._path.suffix not in PACKED or not raw.seekable():
                    raise
                # Intact lines that were decompressed in the same read as the damage are lost, so read the file again in
                # small pieces.
                raw.seek(0)
                with _decompress(self._path, _SmallReads(raw)) as text:
                    yield from _read_lines(self.name, text, after=damage.line)
        self.position = lambda: self.total or 0


class Folder(Source):
    """All files of a folder, read twice: first for everything except bills, then for the bills."""

    def __init__(self, path: Path, *, may_be_empty: bool = False) -> None:
        entries = _entries(path)
        self._paths = [entry for entry in entries if entry.name.endswith(SUFFIXES) and entry.is_file()]
        if not self._paths and not may_be_empty:
            raise SourceError(f"the folder {path} contains no file that ends in {', '.join(SUFFIXES)}")
        super().__init__(printable_name(path.name), 2 * sum(_size(entry) for entry in self._paths))
        # A file whose name begins with a dot is still being written.
        self.ignored = [entry for entry in entries if entry not in self._paths and not entry.name.startswith(".")]

    def lines(self) -> Iterator[SourceLine]:
        done = 0
        damage = Damage()
        for bills in (False, True):
            for path in self._paths:
                file, before = File(path), done
                self.position = lambda file=file, before=before: before + file.position()  # type: ignore[misc]
                yield from (line for line in damage.skipped(file) if _is_bill(line.text) is bills)
                done += _size(path)
                if not bills:
                    self.empty += file.empty
                    self.unreadable += file.unreadable
        self.position = lambda: done
        damage.raise_if_any()


class Damage:
    """Collects the damage found in several sources, to be reported after all of them have been read."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def skipped(self, source: Source) -> Iterator[SourceLine]:
        """Yield the lines of a source up to its end, or up to the damage."""
        try:
            yield from source.lines()
        except SourceError as error:
            self._found[str(error)] = None

    def raise_if_any(self) -> None:
        """Raise one SourceError for all damage that was found."""
        if self._found:
            raise SourceError("; ".join(self._found))


class _SmallReads:
    """A file whose reads return at most READ_BYTES bytes."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        return self._raw.read(READ_BYTES if size < 0 else min(size, READ_BYTES))


def open_source(name: str, *, may_be_empty: bool = False) -> Source:
    """Return the source with this name, or standard input if the name is `-`.

    A folder without source files is an error, unless `may_be_empty` is set.
    """
    if name == "-":
        return StandardInput()
    path = Path(name)
    if path.is_dir():
        return Folder(path, may_be_empty=may_be_empty)
    if not path.exists():
        raise SourceError(f"there is no file or folder {name}")
    return File(path)


def printable_name(name: str) -> str:
    """Return a file name as text that can be shown and stored. File names are bytes and may not be UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _is_bill(line: bytes) -> bool:
    if b'"bill' not in line:
        return False
    if line.startswith(_BILL_START) and line.count(b"kind") == 1 and b"\\u" not in line:
        # No other field can be named `kind`, so the line need not be decoded.
        return True
    try:
        head = msgspec.json.decode(line, type=_KindOnly)
        if head.kind == "reject" and isinstance(head.record, str):
            return _is_bill(head.record.encode("utf-8", "replace"))
        return head.kind == "bill"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The line contains NaN or is not JSON. Leave it to the second pass over the folder.
        return True


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error


def _open_file(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error


def _decompress(path: Path, raw: BinaryIO | _SmallReads) -> IO[bytes]:
    if path.suffix == ".gz":
        text: Any = gzip.GzipFile(fileobj=cast("BinaryIO", raw))
    elif path.suffix == ".zst":
        text = zstd.ZstdFile(cast("BinaryIO", raw))
    else:
        return cast("IO[bytes]", raw) if isinstance(raw, _SmallReads) else _decompress_by_content(raw)
    return cast("IO[bytes]", text if isinstance(raw, _SmallReads) else io.BufferedReader(text, 1 << 20))


def _decompress_by_content(raw: Any) -> IO[bytes]:
    """Return the decompressed content of a file or pipe whose name does not show whether it is compressed."""
    start = raw.peek(len(ZSTD_START))
    if start.startswith(GZIP_START):
        raw = io.BufferedReader(cast("Any", gzip.GzipFile(fileobj=raw)), 1 << 20)
    elif start.startswith(ZSTD_START):
        raw = io.BufferedReader(cast("Any", zstd.ZstdFile(raw)), 1 << 20)
    return cast("IO[bytes]", raw)


def _peekable(raw: Any) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(raw))


def _read_lines(name: str, text: IO[bytes], after: int = 0) -> Iterator[SourceLine]:
    """Yield the non-blank lines whose number is greater than `after`. Truncate lines that are too long.

    In an array, or if records span several lines, each record is yielded like a line.
    """
    number, is_first = 0, True
    document: DocumentReader | None = None
    try:
        while line := text.readline(MAX_REJECT_BYTES + 1):
            number += 1
            if is_first and is_document(line):
                document = DocumentReader(text, line, number)
                for start, record in document.records():
                    if start > after:
                        yield SourceLine(name, start, record)
                return
            if len(line) > MAX_REJECT_BYTES and not line.endswith(b"\n"):
                # A truncated line is not stripped, because it could then pass for a complete line within the limit.
                _skip_rest(text)
            else:
                line = line.strip()
            is_first = is_first and not line
            if line and number > after:
                yield SourceLine(name, number, line)
    except (OSError, EOFError, zlib.error, zstd.ZstdError, Unfinished) as error:
        reached = document.line if document else number
        raise SourceError(
            f"{name} cannot be read after line {reached}: {error}. The file may be incomplete or damaged.", reached
        ) from error


def _skip_rest(text: IO[bytes]) -> None:
    while rest := text.readline(MAX_REJECT_BYTES):
        if rest.endswith(b"\n"):
            return
