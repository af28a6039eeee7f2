"""The file that holds the deployment secret."""

import os
import secrets
from pathlib import Path


def read_or_create(file: Path) -> bytes:
    """Return the secret in this file, which is created if it does not exist."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        _create(file)
    return file.read_bytes().strip()


def _create(file: Path) -> None:
    """Write the secret to a temporary file and link it into place, so that concurrent starts read the same one."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as out:
        out.write(secrets.token_hex(32) + "\n")
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
