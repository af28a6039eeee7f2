"""Private folders for the temporary data of a pull. A pull keeps its folder locked as long as it runs."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


class ScratchFolder:
    """A new folder that only its owner can read.

    If `target` is given, the folder is next to that file, because the system's folder for temporary files may be small
    or in memory.
    """

    def __init__(self, target: Path | None) -> None:
        prefix, parent = "counterfoil-pull-", None
        if target is not None:
            prefix, parent = f"{target.name}.scratch-", target.parent
            _delete_unused(parent, prefix)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            lock = _locked(self.path)
            if lock is not None:
                self._lock = lock
                return

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _locked(folder: Path) -> int | None:
    """Lock a new folder and return the file descriptor of the lock.

    Return None if another pull, which took the folder for that of a killed pull, deleted it before it was locked.
    """
    try:
        lock = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)
    if folder.exists():
        return lock
    os.close(lock)
    return None


def _delete_unused(parent: Path, prefix: str) -> None:
    """Delete the folders of pulls that were killed. The kernel has released their locks."""
    for folder in parent.glob("*"):
        if not folder.name.startswith(prefix):
            continue
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
