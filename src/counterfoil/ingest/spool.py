"""A spool folder: which delivered files are complete, and where they go after they are loaded.

Nothing is lost, no matter when the process is killed: a file stays in the folder until its records are in the store
or it is quarantined, and loading it again changes nothing.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from counterfoil.ingest.sources import ACCEPTED_NAMES, FileSet, Source, SourceError, is_unfinished, printable_name

LOCK, DONE, QUARANTINE = ".counterfoil.lock", "done", "quarantine"
REASON_SUFFIX = ".reason.txt"
# At most this many files are loaded together. Such a load reads shops, bases and members before bills, so a bill may
# be in an earlier file than its shop.
MAX_FILES = 100


class Spool:
    """A folder into which the POS delivers files. Only one process can watch it at a time."""

    def __init__(self, folder: Path, quarantine: Path | None = None) -> None:
        self.folder = folder
        self._done = folder / DONE
        self._quarantine = quarantine or folder / QUARANTINE
        if not folder.is_dir():
            raise SourceError(f"there is no folder {folder} to watch. Create it, or check the path.")
        if self._quarantine.resolve() == folder.resolve():
            raise SourceError("the quarantine must not be the watched folder itself. Choose another folder.")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock, which is also released if the process dies. Raise if another process holds it."""
        try:
            descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SourceError(f"cannot write to {self.folder}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
                named = f" (process {owner})" if owner else ""
                raise SourceError(f"another process is watching {self.folder}{named}. Stop it first.") from error
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def waiting(self) -> list[Path]:
        """Return up to MAX_FILES complete files, sorted by name."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_file(follow_symlinks=False))
        except OSError as error:
            raise SourceError(f"cannot read {self.folder}: {error.strerror}") from error
        return [self.folder / name for name in names if not is_unfinished(name)][:MAX_FILES]

    def links(self) -> list[Path]:
        """Return the symbolic links. They are not followed: they could point to any file that this process can read."""
        return sorted(self.folder / entry.name for entry in os.scandir(self.folder) if entry.is_symlink())

    def source(self, paths: Sequence[Path]) -> FileSet:
        """Return these files as one source. Files that have been removed in the meantime are left out."""
        return FileSet(printable_name(self.folder.name), [path for path in paths if path.exists()])

    def finish(self, path: Path, *, delete: bool) -> Path | None:
        """Move a loaded file to `done` and return its new path, or delete it and return None."""
        if delete:
            path.unlink(missing_ok=True)
            return None
        return move(path, self._done)

    def quarantine(self, path: Path, reason: str) -> Path | None:
        """Quarantine a file that cannot be loaded, and write the reason to a second file next to it.

        Return the new path of the file, or None if the file no longer exists.
        """
        moved = move(path, self._quarantine)
        if moved:
            note = moved.with_name(moved.name + REASON_SUFFIX)
            note.touch(mode=0o600)
            note.write_text(f"{reason}\n", encoding="utf-8")
        return moved


def move(path: Path, folder: Path) -> Path | None:
    """Move a file to a folder; return its new path, or None if the file no longer exists.

    If the folder does not exist, it is created so that only its owner can read it.
    If it already has a file with this name, a number is added to the name of the moved file.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    import shutil  # noqa: PLC0415 - most loads move no file

    target, number = folder / path.name, 1
    start, dot, suffix = path.name.partition(".")
    while target.exists() or target.is_symlink():
        number += 1
        target = folder / f"{start}.{number}{dot}{suffix}"
    with suppress(FileNotFoundError):
        shutil.move(path, target)
        return target
    return None


def reasons(records: Source) -> Mapping[Path, str]:
    """Return the files of a source that cannot be loaded, each with the reason."""
    other = {
        path: f"{printable_name(path.name)} is not a source record file: its name does not end in {ACCEPTED_NAMES}. "
        "To convert an export of a POS, use `counterfoil import`."
        for path in records.ignored
    }
    return {**records.damage, **other}
