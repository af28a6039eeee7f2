"""The state of an import from a database, in a file of the operator: what the last import said at its end."""

import fcntl
import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import json

from counterfoil.importing.results import ImportFailed
from counterfoil.machine.files import draft_of, names_file, open_output


class StateFile:
    """A state file, locked until it is closed, so that two imports never use it at the same time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.exists() and not path.is_file():
            raise ImportFailed(f"the state file {path} is not a regular file. Choose another name.")
        try:
            self._lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ImportFailed(f"cannot create a lock file next to the state file {path}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise ImportFailed(f"another import is running with the state file {path}. Wait until it ends.") from None

    def read(self) -> dict[str, Any] | None:
        """Return the saved state, or None if there is none."""
        try:
            return json.decode(self._path.read_bytes(), type=dict[str, Any])
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            text = f"the state file {self._path} cannot be read: {error}. Use --full to read the whole database again."
            raise ImportFailed(text) from error

    def write(self, state: dict[str, Any]) -> None:
        """Save a state. The file is replaced atomically."""
        named = names_file(str(self._path))
        with draft_of(self._path) as draft, open_output(draft, name=self._path) as file, named:
            file.write(json.encode(state) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        os.close(self._lock)
