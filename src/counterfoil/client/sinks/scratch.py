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
        if target is None:
            self.path = Path(tempfile.mkdtemp(prefix="counterfoil-pull-"))
        else:
            prefix = f"{target.name}.scratch-"
            _delete_unused(target.parent, prefix)
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


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
