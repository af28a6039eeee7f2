"""Reads source records from a file, a folder or standard input. Files may be compressed with gzip or zstd.

Only a path that the operator has typed may be a link, a pipe or a device. Whoever may write to a folder can put a link
to any file there, or exchange a file for a pipe that nobody writes to, so only regular files of a folder are opened.
"""

import errno
import io
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import msgspec
from msgspec import Struct

from counterfoil.domain.loads import RejectedLine, RejectedRows
from counterfoil.ingest import archives
from counterfoil.ingest.archives import Damaged, Packing
from counterfoil.ingest.lines import MAX_REJECT_BYTES, SourceLine
from counterfoil.model.json_documents import BYTE_ORDER_MARK, JsonSplitter
from counterfoil.model.messages import MessageError
from counterfoil.model.text import printable

BUFFER_BYTES = 1 << 16
# A file that goes on for longer than this without a record is not read any further: it holds up other files.
MAX_BYTES_WITHOUT_RECORD = 64 * 1024 * 1024
# `O_NONBLOCK` keeps `open` from waiting for the writer of a named pipe, or for a program that has a lease on the file.
OPEN_REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}
_BLANKS = b" \t\r\n\v\f"
UNFINISHED_SUFFIXES = (".part", ".tmp")
# The lock file of the process that watches a folder is in `done`, so that a folder `done` can be loaded again.
LOCK = ".counterfoil.lock"
SUFFIXES = tuple(f".{kind}{compression}" for kind in ("ndjson", "jsonl", "json") for compression in ("", ".gz", ".zst"))
ACCEPTED_NAMES = ".ndjson, .jsonl or .json, optionally followed by .gz or .zst"
_BILL_START = b'{"kind":"bill",'


class SourceError(MessageError):
    """A source cannot be read, or not completely. The message says which source and why."""


class _KindOnly(Struct):
    """The fields of a record that are needed to find its kind."""

    kind: str = ""
    record: object = None


class Source:
    """A source of lines. If its size, `total`, is known, `position` returns the number of bytes read so far."""

    is_export = False
    """Whether the records were converted from an export of a POS."""

    def __init__(self, name: str, total: int | None) -> None:
        self.name = name
        self.total = total
        self.position: Callable[[], int] = lambda: 0
        self.on_read: Callable[[], None] = lambda: None
        """Called regularly while the source is read. It may raise an exception to stop the load."""
        self.before_read: Callable[[], None] = lambda: None
        """Called when reading begins."""
        self.reject_score = 0
        """The number of rejected lines, minus 100 for each line that was loaded. Counted anew for each file."""
        self.ignored: list[Path] = []
        """Files that are not read because of their names, and the subfolders of a folder."""
        self.refused: dict[Path, str] = {}
        """Entries of a folder that are never opened, such as links and named pipes, each with its kind."""
        self.damage: dict[Path, str] = {}
        """Files that could not be read completely, each with the reason."""
        self.unfinished: list[Path] = []
        """Entries of a folder whose names say that they are hidden or still being written. They are not read."""
        self.empty: list[str] = []
        """Names of files, or `stdin`, without any lines except blank ones."""
        self.file_names: Mapping[str, str] = {}
        """The names under which the files of an export were delivered, by those that its lines have."""

    def lines(self) -> Iterator[SourceLine]:
        """Yield every line that can be read, then raise a SourceError if the source is damaged."""
        raise NotImplementedError

    def rejected_rows(self) -> RejectedRows:
        """Return the rows read so far that could not be converted into lines."""
        return RejectedRows()


class _Stream(Source):
    """Lines from one stream of bytes."""

    _is_seekable = True

    def __init__(self, name: str, total: int | None) -> None:
        super().__init__(name, total)
        self._checked: object = None

    def lines(self) -> Iterator[SourceLine]:
        self.before_read()
        is_empty, self.empty = True, []
        for line in self._all_lines():
            is_empty = False
            yield line
        if is_empty:
            self.empty.append(self.name)

    def _all_lines(self) -> Iterator[SourceLine]:
        raise NotImplementedError

    def _lines_of(self, raw: Any, packing: Packing | None) -> Iterator[SourceLine]:
        """Yield the lines of a stream. If it is compressed and damaged, yield none."""
        packing = packing or archives.packing_by_content(raw.peek(len(archives.ZSTD_START)))
        if packing is None:
            yield from read_lines(self.name, raw, self.on_read)
        elif self._is_seekable and raw.seekable():
            yield from self._lines_of_archive(raw, packing)
        else:
            with copied(raw, self.name) as copy:
                yield from self._lines_of_archive(copy, packing)

    def _lines_of_archive(self, raw: BinaryIO, packing: Packing) -> Iterator[SourceLine]:
        """Check an archive. The files of a folder are read twice, but checked again only if they have changed."""
        found = os.fstat(raw.fileno())
        state = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._checked != state:
            try:
                archives.check(raw, packing, self.on_read)
            except (Damaged, OSError) as error:
                raise SourceError(f"{self.name} cannot be read, so it is not loaded: {error}.") from error
            self._checked = state
        with archives.unpacked(raw, packing, self.on_read) as text:
            yield from read_lines(self.name, text, self.on_read)


class StandardInput(_Stream):
    _is_seekable = False  # Somebody may have read the beginning of the file.

    def __init__(self) -> None:
        if sys.stdin is None:
            raise SourceError("cannot read source records: standard input is closed.")
        super().__init__("stdin", _bytes_left(sys.stdin.buffer))

    def _all_lines(self) -> Iterator[SourceLine]:
        raw = sys.stdin.buffer
        if self.total is not None:
            start = raw.tell()
            self.position = lambda: raw.tell() - start
        yield from self._lines_of(raw if hasattr(raw, "peek") else io.BufferedReader(raw), None)


class File(_Stream):
    """A file. `opened` opens it; without it, the path is opened as the operator typed it."""

    def __init__(self, path: Path, size: int | None, opened: Callable[[], BinaryIO] | None = None) -> None:
        super().__init__(printable(path.name), size)
        self.path = path
        self.needs_answers = False
        """Whether it is an export of which nobody has said what its columns mean."""
        self.headings: Sequence[str] = ()
        """The headings of such an export, if they are known."""
        self._opened = opened or (lambda: path.open("rb", buffering=BUFFER_BYTES))

    def _all_lines(self) -> Iterator[SourceLine]:
        try:
            with self._open() as raw:
                if self.total is not None:
                    self.position = raw.tell
                yield from self._lines_of(raw, archives.PACKINGS.get(self.path.suffix))
        except SourceError as error:
            self.damage[self.path] = str(error)
            raise
        finally:
            self.position = lambda: self.total or 0

    def begins_like_json(self) -> bool:
        """Return whether the file begins like source records, or is empty, or is damaged, which the load reports."""
        try:
            with self._open() as raw:
                packing = archives.packing_by_content(raw.read(len(archives.ZSTD_START)))
                raw.seek(0)
                text = archives.unpacked(raw, packing, self.on_read) if packing else raw
                start = text.read(BUFFER_BYTES).removeprefix(BYTE_ORDER_MARK).lstrip()
        except (Damaged, OSError):
            return True
        return not start or start.startswith((b"{", b"["))

    def close(self) -> None:
        """Delete what was written to read the file. It is not read again."""

    def copy_to(self, copy: BinaryIO, size: int) -> str:
        """Write the first bytes of the file, at most so many, to a copy, and return the digest of the copy."""
        digest = sha256()
        with self._open() as raw:
            for start in range(0, size, BUFFER_BYTES):
                self.on_read()
                part = raw.read(min(BUFFER_BYTES, size - start))
                digest.update(part)
                copy.write(part)
        copy.flush()
        return digest.hexdigest()

    def _open(self) -> BinaryIO:
        try:
            return self._opened()
        except OSError as error:
            raise SourceError(f"cannot read {self.name}: {error.strerror}.") from error


class ConvertedFile(File):
    """Source records that were converted from an export: the numbers of its bills may begin again."""

    is_export = True


class SourceFiles(Struct, frozen=True):
    """Decides which files are loaded by their names, and how they are read."""

    def accepts(self, name: str) -> bool:
        return name.endswith(SUFFIXES)

    def file(self, path: Path, size: int | None, opened: Callable[[], BinaryIO] | None = None) -> File:
        return File(path, size, opened)


SOURCE_RECORDS = SourceFiles()


class SourceList(Source):
    """Several sources, read one after the other. Damage is reported after all of them have been read."""

    def __init__(self, parts: Sequence[Source]) -> None:
        super().__init__(", ".join(part.name for part in parts), _total_of(parts))
        self.is_export = any(part.is_export for part in parts)
        for part in parts:
            self.ignored += part.ignored
            self.refused |= part.refused
            self.unfinished += part.unfinished
        self._parts = parts
        self._done = 0
        self._errors: dict[str, None] = {}

    def lines(self) -> Iterator[SourceLine]:
        self._done, self._errors, self.empty = 0, {}, []
        for part in self._parts:
            yield from self._lines_of(part)
            self._done += part.position()
            self.empty += part.empty
        self._raise_damage()

    def _lines_of(self, part: Source) -> Iterator[SourceLine]:
        """Yield the lines of a part. If it is damaged, stop there and remember the damage."""
        done = self._done
        self.position = lambda: done + part.position()
        try:
            yield from part.lines()
        except SourceError as error:
            self._errors[str(error)] = None
        # A file that is changed during the load may be damaged only when it is read for the second time.
        self.damage |= part.damage

    def _raise_damage(self) -> None:
        self.position = lambda: self._done
        if self._errors:
            raise SourceError(" ".join(self._errors))

    def rejected_rows(self) -> RejectedRows:
        found = [part.rejected_rows() for part in self._parts]
        reasons = Counter[str]()
        first: list[RejectedLine] = []
        for rows in found:
            reasons.update(rows.reasons)
            first += rows.first
        return RejectedRows(reasons, first)


class FileSet(SourceList):
    """Several files, read first for all but bills, then for bills, and no further if `max_reject_score` is exceeded."""

    def __init__(self, name: str, files: Sequence[File], max_reject_score: int = 0) -> None:
        super().__init__(files)
        self.name, self.total = name, 2 * sum(file.total or 0 for file in files)
        self.files = files
        self.max_reject_score = max_reject_score
        self.held: dict[Path, str] = {}
        """Files that were not loaded, because they differ sharply from earlier deliveries, each with the reason."""

    def lines(self) -> Iterator[SourceLine]:
        self._done, self._errors, self.empty = 0, {}, []
        for file in self.files:
            file.on_read = self._on_file_read
        for bills in (False, True):
            for file in self.files:
                self.reject_score = 0
                yield from (line for line in self._lines_of(file) if _is_bill(line.text) is bills)
                self._done += file.total or 0
                if not bills:
                    self.empty += file.empty
        self._raise_damage()

    def _on_file_read(self) -> None:
        self.on_read()
        if self.max_reject_score and self.reject_score > self.max_reject_score:
            raise Damaged(f"it was given up, because more than {self.max_reject_score:,} of its lines were rejected")


class Folder(FileSet):
    """The source files in a folder."""

    def __init__(self, path: Path, *, may_have_other_files: bool = False) -> None:
        files: list[File] = []
        refused: dict[Path, str] = {}
        ignored: list[Path] = []
        unfinished: list[Path] = []
        for entry, found in _entries(path):
            if is_unfinished(entry.name):
                unfinished.append(entry)
            elif is_special(found.st_mode):
                refused[entry] = kind_of(found.st_mode)
            elif stat.S_ISREG(found.st_mode) and SOURCE_RECORDS.accepts(entry.name):
                files.append(File(entry, found.st_size, partial(open_regular, str(entry))))
            else:
                ignored.append(entry)
        super().__init__(printable(path.name), files)
        self.refused, self.ignored, self.unfinished = refused, ignored, unfinished
        if ignored and not files and not refused and not may_have_other_files:
            raise SourceError(
                f"the folder {path} contains no file whose name ends in {ACCEPTED_NAMES}. To convert an "
                "export of a POS, use `counterfoil import`."
            )


def _total_of(parts: Iterable[Source]) -> int | None:
    """Return the size of all parts together, or None if that of one is not known."""
    total = 0
    for part in parts:
        if part.total is None:
            return None
        total += part.total
    return total


def open_source(name: str, *, may_have_other_files: bool = False) -> Source:
    """Return the source with this name, or standard input if it is `-`. Raise `SourceError` if there is none."""
    if name == "-":
        return StandardInput()
    path = Path(name)
    if path.is_dir():
        return Folder(path, may_have_other_files=may_have_other_files)
    if not path.exists():
        raise SourceError(f"there is no file or folder {name}.")
    file = File(path, _size(path))
    # A pipe can be read only once, and a file that is named as source records is rejected line by line.
    if file.total and not SOURCE_RECORDS.accepts(path.name) and not file.begins_like_json():
        raise SourceError(
            f"{file.name} is not a source record file: it begins with neither an object nor an array of JSON. "
            "To load an export of a POS, use `counterfoil import`; for a CSV file, begin with "
            "`counterfoil import FILE`."
        )
    return file


def copied(raw: IO[bytes], name: str) -> BinaryIO:
    """Return a temporary file without a name with a copy of the input, which can be read only once."""
    try:
        copy = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - returned to the caller
        shutil.copyfileobj(raw, copy, archives.TEXT_BYTES)
        copy.seek(0)
    except OSError as error:
        raise SourceError(f"cannot copy {name} to a temporary file: {error.strerror}.") from error
    return copy


def opened_again(file: BinaryIO) -> BinaryIO:
    """Return the same open file once more, from its beginning. Its name may belong to another file by now."""
    copy = os.fdopen(os.dup(file.fileno()), "rb", buffering=BUFFER_BYTES)
    copy.seek(0)
    return copy


def open_regular(name: str, folder: int | None = None) -> BinaryIO:
    """Open a regular file, in the folder with this descriptor if one is given. Anything else is never waited for."""
    descriptor = os.open(name, OPEN_REGULAR, dir_fd=folder)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"it is {kind_of(mode)}")
    return os.fdopen(descriptor, "rb", buffering=BUFFER_BYTES)


def is_special(mode: int) -> bool:
    """Return whether an entry of a folder is neither a regular file nor a folder. It is then never opened."""
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def kind_of(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "a device")


def is_unfinished(name: str) -> bool:
    """Return whether the name of a file says that it is still being written, or that it is hidden."""
    return name.startswith(".") or name.endswith(UNFINISHED_SUFFIXES)


def _is_bill(line: bytes) -> bool:
    if b'"bill' not in line:
        return False
    if line.startswith(_BILL_START) and line.count(b"kind") == 1 and b"\\u" not in line:
        # The line cannot contain a second field named `kind`, so it need not be decoded.
        return True
    try:
        head = msgspec.json.decode(line, type=_KindOnly)
        if head.kind == "reject" and isinstance(head.record, str):
            return _is_bill(head.record.encode("utf-8", "replace"))
        return head.kind == "bill"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The line cannot be decoded here, for example because it contains NaN. Leave it to the second pass.
        return True


def _entries(path: Path) -> list[tuple[Path, os.stat_result]]:
    try:
        entries = sorted((path / entry.name, entry.stat(follow_symlinks=False)) for entry in os.scandir(path))
        return [(entry, found) for entry, found in entries if entry.name != LOCK]
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}.") from error


def _size(path: Path) -> int | None:
    """Return the size of a file, or None if it has no fixed size, like a named pipe."""
    try:
        found = path.stat()
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}.") from error
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _bytes_left(raw: BinaryIO) -> int | None:
    """Return the number of unread bytes if standard input is a regular file, or None otherwise."""
    try:
        found = os.fstat(raw.fileno())
        return found.st_size - raw.tell() if stat.S_ISREG(found.st_mode) else None
    except OSError:
        return None


class _ReadLimit:
    """Calls `on_read` regularly, and limits the number of bytes that are read without finding a record."""

    def __init__(self, on_read: Callable[[], None]) -> None:
        self._on_read = on_read
        self._since_call = 0
        self.without_record = 0

    def add(self, size: int) -> None:
        self._since_call += size
        self.without_record += size
        if self._since_call >= BUFFER_BYTES:
            self._since_call = 0
            self._on_read()
            if self.without_record > MAX_BYTES_WITHOUT_RECORD:
                raise Damaged(f"it goes on for more than {MAX_BYTES_WITHOUT_RECORD >> 20} MiB without a record")


def read_lines(name: str, text: IO[bytes], on_read: Callable[[], None]) -> Iterator[SourceLine]:
    """Yield the non-blank lines, or the records of an array, and shorten long ones."""
    number, is_first = 0, True
    splitter: JsonSplitter | None = None
    limit = _ReadLimit(on_read)
    try:
        while line := text.readline(MAX_REJECT_BYTES + 1):
            number += 1
            if is_first and _is_document(line):
                splitter = JsonSplitter(number, MAX_REJECT_BYTES)
                for start, record in _records(splitter, line, text, limit):
                    limit.without_record = 0
                    yield SourceLine(name, start, record)
                return
            limit.add(len(line))
            if len(line) > MAX_REJECT_BYTES and not line.endswith(b"\n"):
                # A truncated line is not stripped, because it could then pass for a complete line within the limit.
                _skip_rest(text, limit)
            else:
                line = line.strip()
            is_first = is_first and not line
            if line:
                limit.without_record = 0
                yield SourceLine(name, number, line)
            else:
                number += _skip_blank_lines(text, limit)
    except (OSError, Damaged) as error:
        reached = splitter.line if splitter else number
        problem = f"{name} cannot be read after line {reached}: {error}. The file may be incomplete or damaged."
        raise SourceError(problem) from error


def _is_document(first_line: bytes) -> bool:
    """Return whether a source that begins with this line is an array or has records that span several lines."""
    start = first_line.strip().removeprefix(BYTE_ORDER_MARK).lstrip()
    return start.startswith(b"[") or start == b"{"


def _records(
    splitter: JsonSplitter, first_line: bytes, text: IO[bytes], limit: _ReadLimit
) -> Iterator[tuple[int, bytes]]:
    """Yield each record and other text of a document with its line."""

    def chunks() -> Iterator[bytes]:
        start = io.BytesIO(first_line.replace(BYTE_ORDER_MARK, b"", 1) if splitter.line == 1 else first_line)
        # A first line of 2 MiB may have a million records, which take long enough to be asked to stop meanwhile.
        while chunk := start.read(BUFFER_BYTES) or text.read(BUFFER_BYTES):
            limit.add(len(chunk))
            yield chunk

    yield from splitter.records(chunks())
    if rest := splitter.rest():
        yield rest
    if splitter.is_within_list:
        raise Damaged("the array is not closed")


def _skip_rest(text: IO[bytes], limit: _ReadLimit) -> None:
    while rest := text.readline(MAX_REJECT_BYTES):
        limit.add(len(rest))
        if rest.endswith(b"\n"):
            return


def _skip_blank_lines(text: Any, limit: _ReadLimit) -> int:
    """Skip the blank lines that are already in the buffer, and return their number. Reading them one by one is slow."""
    ahead: bytes = text.peek()
    blank = ahead[: len(ahead) - len(ahead.lstrip(_BLANKS))]
    size = blank.rfind(b"\n") + 1
    if size:
        limit.add(len(text.read(size)))
    return blank.count(b"\n")
