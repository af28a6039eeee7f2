"""Reads and creates the file with the deployment secret."""

import contextlib
import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from counterfoil.machine.output_files import is_shared, open_output


def read_or_create(file: Path) -> bytes:
    """Return the secret in this file; create the file with a random secret if it does not exist."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        create(file, os.urandom(32).hex())
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


def create(file: Path, secret: str) -> None:
    """Create the file with this secret; leave an existing file unchanged.

    The secret is written to a temporary file that is then linked into place, so
    that processes which start at the same time read the same secret.
    """
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
