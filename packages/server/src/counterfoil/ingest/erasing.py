"""Erases a member from files that Counterfoil keeps: rejects, loaded, quarantined and held deliveries.

A file of source records is written anew without the lines of the member, and with his ID and contacts taken out of the
others. A file in another format is only searched, and named if it has something of him: nobody but its owner can change
an export without breaking it.
"""

import gzip
import hashlib
import os
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from json import dumps
from pathlib import Path
from typing import IO, Any, BinaryIO

import msgspec
from backports import zstd
from msgspec import Raw, Struct, json
from msgspec.structs import replace

from counterfoil.domain.forgetting import Contacts, Person, RecordEraser
from counterfoil.ingest import archives
from counterfoil.ingest.archives import Damaged
from counterfoil.ingest.lines import MAX_REJECT_BYTES, Rejected, original_line, parse_record, parse_reject
from counterfoil.ingest.sources import SourceError, open_regular, read_lines
from counterfoil.machine.files import draft_of
from counterfoil.model.json_documents import BYTE_ORDER_MARK

# A file without line breaks is searched in pieces of this size, which overlap.
PIECE_BYTES, OVERLAP_BYTES = 1 << 20, 200


class FoundFile(Struct, frozen=True):
    """A kept file that has something of a member. A file that cannot be rewritten has a `problem` instead of lines."""

    path: Path
    dropped: Counter[str]
    """The number of lines that are only about him, by the names of the files that were delivered."""
    changed: int
    """The number of lines that only name him."""
    lines: int
    """The number of lines that the file has."""
    problem: str = ""

    @property
    def found(self) -> int:
        return self.dropped.total() + self.changed


class FileEraser:
    """Looks for a member in kept files, and erases him from those that have source records."""

    def __init__(self, person: Person, token_of: Callable[[str], str]) -> None:
        self._eraser = RecordEraser(lambda member_id: token_of(member_id) == person.token, Contacts(person))
        self._is_in_piece = self._eraser.contacts.are_in_bytes

    def search(self, path: Path) -> FoundFile | None:
        """Return what a file has of the member, or None if it has nothing. Nothing is changed."""
        nothing = FoundFile(path, Counter(), 0, 0)
        try:
            with open_regular(str(path)) as file:
                return self._searched(path, file)
        except Damaged as error:
            return replace(nothing, problem=f"it is compressed and cannot be read: {error}")
        except (OSError, SourceError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return (
                None
                if isinstance(error, FileNotFoundError)
                else replace(nothing, problem=f"it cannot be read: {reason}")
            )

    def _searched(self, path: Path, file: BinaryIO) -> FoundFile | None:
        if zipfile.is_zipfile(file):
            return self._named(path, _is_in_zip(file, self._is_in_piece))
        file.seek(0)
        with _text_of(file) as text:
            if not _has_records(text):
                return self._named(path, any(map(self._is_in_piece, _pieces(text))))
            dropped, changed, lines = Counter[str](), 0, 0
            for line in read_lines(path.name, text, lambda: None):
                if len(line.text) > MAX_REJECT_BYTES and self._is_in_piece(line.text):
                    return self._named(path, is_in=True, problem="it has a line that is too long to be changed")
                kept = erased_line(line.text, self._eraser)
                lines += 1
                if kept is None:
                    dropped[_delivered_in(line.text)] += 1
                elif kept is not line.text:
                    changed += 1
        return FoundFile(path, dropped, changed, lines) if dropped or changed else None

    def _named(
        self, path: Path, is_in: bool, problem: str = "it is not a file of source records, so it is not changed"
    ) -> FoundFile | None:
        return FoundFile(path, Counter(), 0, 0, problem) if is_in else None

    def rewrite(self, path: Path, before_replaced: Callable[[str], None]) -> None:
        """Write a file of source records anew. `before_replaced` gets the new SHA-256 before the file is replaced.

        If the process dies before that, the file is as it was.
        """
        digest = hashlib.sha256()
        with open_regular(str(path)) as file, draft_of(path) as draft:
            packing = archives.packing_by_content(_start(file))
            with _new_file(draft, os.fstat(file.fileno())) as raw:
                with _text_of(file) as text, _packing_text(raw, packing) as out:
                    for line in read_lines(path.name, text, lambda: None):
                        kept = erased_line(line.text, self._eraser)
                        if kept is not None:
                            # A record of an array may span lines. Within a string, JSON has no line break.
                            out.write(kept.replace(b"\n", b" ") + b"\n")
                raw.flush()
                os.fsync(raw.fileno())
                raw.seek(0)
                while piece := raw.read(PIECE_BYTES):
                    digest.update(piece)
            before_replaced(digest.hexdigest())


# --- lines -------------------------------------------------------------------------------


def erased_line(line: bytes, eraser: RecordEraser) -> bytes | None:
    """Return the line as it is kept: the same object if it has nothing of the member, None if it is his record."""
    reject = parse_reject(line)
    if reject is None:
        return _erased_record(line, eraser)
    try:
        original = original_line(reject.record, reject.record_base64)
    except Rejected:
        return line
    kept = _erased_record(original, eraser)
    if kept is None:
        return None
    if kept is original:
        return line
    return json.encode(replace(reject, record=kept.decode("utf-8", "replace"), record_base64=None))


def _erased_record(line: bytes, eraser: RecordEraser) -> bytes | None:
    try:
        record = parse_record(line)
    except Rejected:
        return eraser.erased_text(line)
    kept = eraser.erased(record)
    if kept is None:
        return None
    return line if kept == record else _with_changed_fields(line, record, kept)


def _with_changed_fields(line: bytes, record: dict[str, Any], kept: dict[str, Any]) -> bytes:
    """Return the line with the fields that differ. The others stay as they were written."""
    try:
        raw = json.decode(line, type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Tills write NaN, which is no JSON.
        return dumps(kept, ensure_ascii=False).encode()
    fields: dict[str, Any] = {}
    for name, written in raw.items():
        is_changed = kept.get(name) != record.get(name)
        fields[name] = kept[name] if is_changed else written
    return json.encode(fields)


def _delivered_in(line: bytes) -> str:
    reject = parse_reject(line)
    return reject.source if reject else ""


# --- contents of files -------------------------------------------------------------------


def _new_file(path: Path, like: os.stat_result) -> BinaryIO:
    """Create a file with the owner and the mode of another one, which nobody else can read before."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.geteuid() == 0:
        os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
    return os.fdopen(descriptor, "w+b")


def _start(file: BinaryIO) -> bytes:
    start: bytes = file.peek(PIECE_BYTES)  # type: ignore[attr-defined]  # it is buffered
    return start


def _text_of(file: BinaryIO) -> IO[bytes]:
    packing = archives.packing_by_content(_start(file))
    return archives.unpacked(file, packing, lambda: None) if packing else file


def _has_records(text: IO[bytes]) -> bool:
    """Return whether a text begins like source records."""
    return _start(text).removeprefix(BYTE_ORDER_MARK).lstrip().startswith((b"{", b"["))  # type: ignore[arg-type]


@contextmanager
def _packing_text(raw: BinaryIO, packing: archives.Packing | None) -> Iterator[Any]:
    """Yield a file that compresses what is written to it, like the one that it replaces."""
    if packing == "gzip":
        with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as out:
            yield out
    elif packing == "zstd":
        with zstd.ZstdFile(raw, "wb") as out:
            yield out
    else:
        yield raw


def _pieces(text: IO[bytes]) -> Iterator[bytes]:
    """Yield pieces that overlap, so that what is looked for is whole in one of them."""
    end = b""
    while piece := text.read(PIECE_BYTES):
        yield end + piece
        end = piece[-OVERLAP_BYTES:]


def _is_in_zip(file: BinaryIO, is_in_piece: Callable[[bytes], bool]) -> bool:
    """Return whether a text is in a ZIP file, such as a workbook."""
    try:
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    if any(map(is_in_piece, _pieces(member))):
                        return True
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise Damaged(str(error)) from error
    return False


# --- folders -------------------------------------------------------------------


def files_in(folders: Iterable[Path], on_closed: Callable[[Path, str], object] = lambda *_: None) -> Iterator[Path]:
    """Yield the regular files in these folders and below, each once. Links are not followed.

    `on_closed` gets each folder that cannot be read, with the reason.
    """
    yielded: set[Path] = set()

    def note(error: OSError) -> None:
        on_closed(Path(error.filename), error.strerror or str(error))

    for folder in folders:
        for place, _, names in os.walk(folder, onerror=note):
            for name in sorted(names):
                path = Path(place) / name
                if path not in yielded and path.is_file() and not path.is_symlink():
                    yielded.add(path)
                    yield path


def files_with(paths: Iterable[Path], texts: Sequence[bytes]) -> list[Path]:
    """Return those of the files whose bytes contain one of the texts, whatever their format is."""
    found = []
    longest = max(map(len, texts), default=0)
    for path in paths:
        end = b""
        with suppress(FileNotFoundError), path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                searched = end + piece
                if any(text in searched for text in texts):
                    found.append(path)
                    break
                end = piece[-longest:] if longest else b""
    return found
