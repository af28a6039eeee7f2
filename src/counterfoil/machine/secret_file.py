"""Reads and creates the file with the deployment secret."""

import os
from pathlib import Path


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
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as out:
        out.write(secret + "\n")
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
