"""Reads and creates the file with the deployment secret."""

import contextlib
import os
from pathlib import Path

from counterfoil.machine.output_files import open_output


def read_or_create(file: Path) -> bytes:
    """Return the secret in this file; create the file with a random secret if it does not exist."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        create(file, os.urandom(32).hex())
    return file.read_bytes().strip()


def create(file: Path, secret: str) -> None:
    """Create the file with this secret; leave an existing file unchanged.

    The secret is written to a temporary file that is then linked into place, so
    that processes which start at the same time read the same secret.
    """
    draft = file.with_name(f"{file.name}.{os.urandom(4).hex()}")
    try:
        with open_output(draft, name=file, flags=os.O_EXCL, mode=0o600) as out:
            out.write(f"{secret}\n".encode("ascii"))
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)
