"""A spool folder: which delivered files are complete, and where they go after they are loaded.

Nothing is lost, no matter when the process is killed: a file stays in the folder until its records are in the store
or it is quarantined, and loading it again changes nothing.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from counterfoil.ingest.sources import ACCEPTED_NAMES, FileSet, Source, SourceError, is_unfinished, printable_name

LOCK, DONE, QUARANTINE = ".counterfoil.lock", "done", "quarantine"
REASON_SUFFIX = ".reason.txt"
# At most this many files are loaded together. Such a load reads shops, bases and members before bills, so a bill may
# be in an earlier file than its shop.
MAX_FILES = 100
# If the system cannot say whether a file is open for writing, it is complete once it has not changed for this time.
SETTLE_MS = 2_000
# A file that is open for writing but has not changed for this long may belong to a program that has stopped working.
STUCK_MS = 60_000
# The system refuses a lease on a file of these file systems if a program has the file open for writing. On other file
# systems, which may be on another machine, a lease does not say this.
LOCAL_FILE_SYSTEMS = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
MOUNTS = Path("/proc/self/mountinfo")

# A value that changes when a file changes.
Version = tuple[int, int, int]


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
        self._is_local = _file_system(folder) in LOCAL_FILE_SYSTEMS
        # The version of each file, and when it was first seen, in milliseconds on the steady clock.
        self._seen: dict[Path, tuple[Version | None, int]] = {}

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

    def waiting(self, steady_ms: int) -> list[Path]:
        """Return up to MAX_FILES complete files, sorted by name. Files that are still being written are left out."""
        paths = list(self._named())
        self._look_at(paths, steady_ms)
        return list(islice((path for path in paths if not self.is_being_written(path, steady_ms)), MAX_FILES))

    def stuck(self, steady_ms: int) -> list[Path]:
        """Return the files that are open for writing, but have not changed for STUCK_MS."""
        old = [path for path, (_, since_ms) in self._seen.items() if steady_ms - since_ms >= STUCK_MS]
        return [path for path in old if self.is_being_written(path, steady_ms)]

    def is_being_written(self, path: Path, steady_ms: int) -> bool:
        """Return whether a program has this file open for writing or, if that is not known, whether it is changing."""
        is_open = _is_open_for_writing(path) if self._is_local else None
        if is_open is not None:
            return is_open
        return path in self._seen and steady_ms - self._seen[path][1] < SETTLE_MS

    def _look_at(self, paths: Sequence[Path], steady_ms: int) -> None:
        seen: dict[Path, tuple[Version | None, int]] = {}
        for path in paths:
            found, known = version(path), self._seen.get(path)
            seen[path] = known if known and known[0] == found else (found, steady_ms)
        self._seen = seen

    def _named(self) -> Iterator[Path]:
        """Yield the files whose names say that they are complete, sorted by name."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_file(follow_symlinks=False))
        except OSError as error:
            raise SourceError(f"cannot read {self.folder}: {error.strerror}") from error
        yield from (self.folder / name for name in names if not is_unfinished(name))

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


def version(path: Path) -> Version | None:
    """Return a value that changes when the file changes, or None if the file no longer exists."""
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None


def _is_open_for_writing(path: Path) -> bool | None:
    """Return whether a program has a local file open for writing, or None if the system does not say it.

    The system says it only about files of the user that runs this process, and to root about all files.
    """
    try:
        with path.open("rb") as file:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            return False
    except BlockingIOError:
        return True
    except (OSError, AttributeError):  # Only Linux has leases.
        return None


def _file_system(folder: Path) -> str | None:
    """Return the type of the file system that contains a folder, or None if it is not known."""
    with suppress(OSError):
        device = folder.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        for line in MOUNTS.read_text("utf-8", "replace").splitlines():
            # The fields before the dash are numbered, and the type of the file system is the first field after it.
            mount, _, about = line.partition(" - ")
            if mount.split()[2] == number:
                return about.split()[0]
    return None


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
