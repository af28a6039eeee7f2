"""Detects whether a file that this process has open was removed or replaced."""

from collections.abc import Sequence
from pathlib import Path

from counterfoil.backends.sqlite.file_problems import is_missing
from counterfoil.backends.sqlite.files import path_of
from counterfoil.backends.sqlite.schema import Name


class OpenFiles:
    """Remembers which files were opened, because a process can keep using a file that was removed or replaced."""

    def __init__(self, folder: Path, names: Sequence[Name], *, logs: bool = True) -> None:
        self._folder = folder
        self._known: list[tuple[Name, Path, int]] = []
        for name in names:
            path = path_of(folder, name)
            for file in (path, path.with_name(f"{path.name}-wal"))[: 1 + logs]:
                if (inode := _inode(file)) is not None:
                    self._known.append((name, file, inode))

    def problem(self, name: Name | None = None) -> str | None:
        """Return the first problem found with one database, or with any of them if `name` is None.

        Return None if there is no problem.
        """
        for known, path, inode in self._known:
            if name in (None, known) and (found := _inode(path)) != inode:
                if found is None and not path_of(self._folder, known).exists():
                    return is_missing(known)
                return f"{path.name} was replaced or removed while the service was running: restart the service."
        return None


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
