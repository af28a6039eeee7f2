"""The state file of a database import: how far the database was read."""

import fcntl
import os
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, json

from counterfoil.importing.results import ImportFailed
from counterfoil.machine.files import names_file, open_output

Watermark = datetime | int


class SavedState(Struct):
    """The content of a state file."""

    fingerprint: str
    time: str | None = None
    number: int | None = None


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

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def read(self, fingerprint: str) -> Watermark | None:
        """Return the watermark that was saved with this mapping, or None."""
        try:
            saved = json.decode(self._path.read_bytes(), type=SavedState)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            raise ImportFailed(
                f"the state file {self._path} cannot be read: {error}. Use --full to read the whole database again."
            ) from error
        if saved.fingerprint != fingerprint:
            return None
        return datetime.fromisoformat(saved.time) if saved.time else saved.number

    def write(self, fingerprint: str, watermark: Watermark | None) -> None:
        """Save a watermark. The file is replaced atomically."""
        if isinstance(watermark, datetime):
            saved = SavedState(fingerprint, time=watermark.isoformat())
        else:
            saved = SavedState(fingerprint, number=watermark)
        draft = self._path.with_name(f"{self._path.name}.new")
        try:
            with open_output(draft, name=self._path) as file, names_file(str(self._path)):
                file.write(json.encode(saved) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        finally:
            draft.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._lock)
