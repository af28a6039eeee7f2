"""Writes the files of an upload into a folder while they arrive. Only the user of this process can read them.

Browsers send a form with files as `multipart/form-data`. Nothing of it is kept in memory but one part of a file.
"""

import errno
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from counterfoil.machine.private_listener import UploadBody, UploadBroken
from counterfoil.model.text import printable

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MULTIPART = "multipart/form-data"
MAX_UPLOAD = 100 * 1024 * 1024
# The headers of the parts and the other fields of the form.
MAX_ENVELOPE = 256 * 1024
MAX_FILES = 12
MAX_FIELDS = 20
MAX_FIELD = 4 * 1024
MAX_NAME = 120
# So much of the disk stays free.
FREE_BYTES = 64 * 1024 * 1024

UploadProblem = Literal["length", "too_large", "broken", "malformed", "too_many_files", "disk_full"]

# It would log what clients send.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL + 1)


class UploadRefused(Exception):
    """An upload cannot be taken. Whatever was written of it is to be deleted."""

    def __init__(self, problem: UploadProblem) -> None:
        super().__init__(problem)
        self.problem = problem


class UploadedFile(Struct, frozen=True):
    """A file as it was uploaded. `name` is the name that the browser gave, without any folder."""

    name: str
    path: Path
    size: int


class UploadedForm(Struct, frozen=True):
    files: list[UploadedFile]
    fields: dict[str, str]


def receive(body: UploadBody, content_type: str, folder: Path) -> UploadedForm:
    """Write the files of an upload into a folder, and return them with the other fields of the form.

    Raise `UploadRefused` if that is not possible.
    """
    boundary = _boundary_of(content_type)
    if body.length is None:
        raise UploadRefused("length")
    if body.length > MAX_UPLOAD + MAX_ENVELOPE:
        raise UploadRefused("too_large")
    if _free_bytes(folder) < body.length + FREE_BYTES:
        raise UploadRefused("disk_full")
    parts = _Parts(folder)
    try:
        _parse(body, boundary, parts)
    except UploadBroken as error:
        raise UploadRefused("broken") from error
    except FormParserError as error:
        raise UploadRefused("malformed") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UploadRefused("disk_full") from error
        raise
    finally:
        parts.close()
    return UploadedForm(parts.files, {name: text.decode("utf-8", "replace") for name, text in parts.fields.items()})


def _boundary_of(content_type: str) -> bytes:
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if kind != MULTIPART.encode() or not boundary:
        raise UploadRefused("malformed")
    return boundary


def _parse(body: UploadBody, boundary: bytes, parts: "_Parts") -> None:
    parser = MultipartParser(boundary, parts.callbacks())
    for chunk in body.chunks():
        parser.write(chunk)
    parser.finalize()
    if not parts.has_ended:
        raise UploadRefused("malformed")


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


class _Parts:
    """Takes the parts of a form from the parser."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files: list[UploadedFile] = []
        self.fields: dict[str, bytearray] = {}
        self.has_ended = False
        self._header_name = bytearray()
        self._header_value = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._file: int | None = None
        self._path = folder
        self._name = ""
        self._size = 0
        self._field: bytearray | None = None

    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._add_header_name,
            "on_header_value": self._add_header_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._open,
            "on_part_data": self._write,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _begin(self) -> None:
        self._headers = {}
        self._field = None

    def _add_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _add_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        self._headers[bytes(self._header_name).lower()] = bytes(self._header_value)
        self._header_name.clear()
        self._header_value.clear()

    def _open(self) -> None:
        """Open the file of a part, or begin a field. A file input without a file sends an empty name."""
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"filename")
        if name is None:
            if len(self.fields) >= MAX_FIELDS:
                raise UploadRefused("malformed")
            self._field = self.fields[options.get(b"name", b"").decode("utf-8", "replace")] = bytearray()
        elif name:
            self._open_file(name.decode("utf-8", "replace"))

    def _open_file(self, name: str) -> None:
        if len(self.files) >= MAX_FILES:
            raise UploadRefused("too_many_files")
        self._name = safe_name(name)
        folder = self._folder / str(len(self.files))
        folder.mkdir(mode=0o700)
        self._path = folder / self._name
        self._size = 0
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def _write(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            part = memoryview(data)[start:end]
            while part:
                part = part[os.write(self._file, part) :]
            self._size += end - start
        elif self._field is not None:
            if len(self._field) + end - start > MAX_FIELD:
                raise UploadRefused("malformed")
            self._field += data[start:end]

    def _end(self) -> None:
        if self._file is not None:
            self.close()
            self.files.append(UploadedFile(self._name, self._path, self._size))

    def _finish(self) -> None:
        self.has_ended = True


def safe_name(name: str) -> str:
    """Return the last part of a file's name, as it can be written and shown. Its ending stays."""
    _, _, last = name.replace("\\", "/").rpartition("/")
    shown = printable(last).replace("\\", "_").strip()
    stem, dot, ending = shown.rpartition(".")
    if not dot:
        stem, ending = shown, ""
    if len(ending) > MAX_NAME // 2:
        return "file"
    room = MAX_NAME - len(ending.encode()) - 1
    shortened = stem.encode()[:room].decode("utf-8", "ignore").lstrip(".")
    return f"{shortened or 'file'}{dot}{ending}"
