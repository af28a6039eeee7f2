"""Files that commands write, and the secret file. Every error that occurs while one is written names the file."""

import contextlib
import errno
import fcntl
import io
import os
import select
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

STANDARD_OUTPUT_NAME = "standard output"
PIPE_SEC = 2
# The mode of a folder that several users share: files in it get its group, which may write to it.
_SHARED = stat.S_ISGID | stat.S_IWGRP


def is_shared(folder: Path) -> bool:
    """Return whether the operator shares a folder with its group, so that the watcher can have a user of its own."""
    try:
        return folder.stat().st_mode & _SHARED == _SHARED
    except OSError:
        return False


def who_may_write(path: Path, *, is_shared_now: bool = False, trusts_group: bool = False) -> str | None:
    """Return a sentence about others who may write to a path, or None. Those whom a folder is shared with may.

    With `trusts_group`, what one of them has created in a shared folder may belong to that user.
    """
    found, folder = path.stat(), path if path.is_dir() else path.parent
    trusted = {os.geteuid(), 0} | ({folder.stat().st_uid} if os.geteuid() == 0 else set())
    is_of_group = trusts_group and is_shared(path.parent)
    if found.st_uid not in trusted and not is_of_group:
        return f"{path} belongs to another user"
    if found.st_mode & stat.S_IWOTH:
        return f"every user of this machine may write to {path}"
    if found.st_mode & stat.S_IWGRP and not is_shared_now and not is_shared(folder):
        return f"its group may write to {path}"
    return None


def make_folder(path: Path) -> None:
    """Create a folder for its owner only or, in a shared folder, also for the group."""
    before = os.umask(0o007 if is_shared(path.parent) else 0o077)
    try:
        path.mkdir(mode=0o770, parents=True, exist_ok=True)
    finally:
        os.umask(before)


@contextmanager
def names_file(name: str) -> Iterator[None]:
    """Give this file name to every OSError. The system names a file when it is opened, but not when it is written."""
    try:
        yield
    except OSError as error:
        # The class of the error is the same, because the error number determines the class.
        raise OSError(error.errno, error.strerror or str(error), name) from error


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield a folder of this process in the temporary folder, and delete those that killed processes have left.

    The folder is locked, and the lock ends with the process. So a folder of this user that is not locked is left over.
    """
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{prefix}*"):
        with _locked_folder(left) as is_locked:
            if is_locked:
                shutil.rmtree(left, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        with _locked_folder(folder) as is_locked:
            # Another process may have deleted it before it was locked.
            if not is_locked or not folder.exists():
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


@contextmanager
def _locked_folder(folder: Path) -> Iterator[bool]:
    """Lock a folder. Yield whether it belongs to this user and no other process has it locked."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        is_own = os.fstat(descriptor).st_uid == os.geteuid()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_own = False
        yield is_own
    finally:
        os.close(descriptor)


def open_output(path: Path, *, name: Path | None = None, flags: int = os.O_TRUNC, mode: int = 0o666) -> IO[bytes]:
    """Create a file and open it for writing. Its errors name `name` if it is given, otherwise the path."""
    shown = str(name or path)
    with names_file(shown):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, mode)
    return io.BufferedWriter(_NamedFile(descriptor, shown))


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` at the end, or is deleted if the block fails."""
    draft = path.with_name(f"{path.name}.partial")
    try:
        yield draft
        with names_file(str(path)):
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


class StandardOutput:
    """Standard output for bytes."""

    def write(self, data: Any) -> int:
        with names_file(STANDARD_OUTPUT_NAME):
            return sys.stdout.buffer.write(data)

    def flush(self) -> None:
        with names_file(STANDARD_OUTPUT_NAME):
            sys.stdout.buffer.flush()


class _NamedFile(io.FileIO):
    def __init__(self, descriptor: int, shown: str) -> None:
        super().__init__(descriptor, "wb")
        self._shown = shown

    def write(self, data: Any) -> int:
        with names_file(self._shown):
            return super().write(data)

    def close(self) -> None:
        with names_file(self._shown):
            super().close()


def read_or_create_secret(file: Path) -> bytes:
    """Return the secret in this file; create the file with a random secret if it does not exist."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        create_secret(file, os.urandom(32).hex())
    return read_regular(file).strip()


def open_regular(file: Path) -> BufferedReader:
    """Open a file for reading. Raise OSError if it is not a regular file, instead of waiting for a named pipe."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    return os.fdopen(descriptor, "rb")


def read_regular(file: Path) -> bytes:
    with open_regular(file) as opened:
        return opened.read()


def read_promptly(file: Path) -> bytes:
    """Return the content of a file. Of a named pipe, as in `<(command)`, the first byte must come within PIPE_SEC."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            answers = select.poll()
            answers.register(descriptor, select.POLLIN)
            if not answers.poll(PIPE_SEC * 1000):
                raise OSError(errno.ETIMEDOUT, f"nothing was written to this pipe within {PIPE_SEC} s", str(file))
            os.set_blocking(descriptor, True)
        return opened.read()


def create_secret(file: Path, secret: str) -> None:
    """Link a complete file into place, unless there is one, so that processes starting together read the same."""
    draft = file.with_name(f"{file.name}.{os.urandom(4).hex()}")
    try:
        with open_output(draft, name=file, flags=os.O_EXCL, mode=0o600) as out:
            out.write(f"{secret}\n".encode("ascii"))
            if is_shared(file.parent):
                os.fchmod(out.fileno(), 0o640)
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)
