"""A watched folder: which delivered files are complete, and where they go after they are loaded.

Nothing is lost, no matter when the process is killed: a file stays in the folder until its records are in the store
or it is quarantined, and loading it again changes nothing.

Whoever delivers may be another user, who can change the folder between any two system calls. So the folder is used
through a descriptor, links in it are never followed, only regular files are opened, and no file is created there. The
folders for files that were loaded or refused belong to the user of this process, and names of files in them are new.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from counterfoil.domain.open_items import KEPT_NAME, Kind, OpenItem, digest_with_headings
from counterfoil.ingest import sources
from counterfoil.ingest.sources import LOCK, SourceError, open_regular
from counterfoil.machine.operator import machine_name
from counterfoil.model.calendar import from_ms
from counterfoil.model.text import printable
from counterfoil.program.clock import SystemClock

DONE, QUARANTINE, HELD = "done", "quarantine", "held"
PLACES: dict[Kind, str] = {"quarantined": QUARANTINE, "needs_answers": QUARANTINE, "held": HELD}
REASON_SUFFIX = ".reason.txt"
# What the note beside a kept file says after the reason.
DELIVERED_AS, DIGEST, MAX_NOTE_BYTES = "It was delivered as ", "SHA-256: ", 10_000
MAX_REASON = 2_000
# A file of source records at which watchers have died this often is not tried again.
MAX_DEATHS = 3
# At most this many files are loaded together, bills last, so a bill may be in an earlier file than its shop.
MAX_FILES = 250
# If the system cannot say whether a file is open for writing, it is complete once it has not changed for this time.
SETTLE_MS = 2_000
# A file that is open for writing but has not changed for this long may belong to a program that has stopped working.
STUCK_MS = 60_000
# An unfinished file, or a folder with files in it, that has not changed for this long may be a failed delivery.
WAITING_MS = 3_600_000
# The system refuses a lease on a file of these file systems if a program has the file open for writing. On other file
# systems, which may be on another machine, a lease does not say this.
LOCAL_FILE_SYSTEMS = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
# The Finder of macOS writes this file to every folder that somebody opens.
FINDER_FILE = ".DS_Store"
MOUNTS = Path("/proc/self/mountinfo")
COPY_BYTES = 1 << 20
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A name has at most 255 bytes: a prefix, a suffix of ours, and the first and last bytes of the delivered name.
FIRST_BYTES, LAST_BYTES = 120, 40
# SQLite or we give a meaning to names that end like this.
RESERVED_ENDINGS = ("-journal", "-wal", "-shm", ".sqlite3", ".lock", ".part", ".tmp", REASON_SUFFIX)

# Values that change when a file changes: device, inode, size, and the times of the last change of content and status.
Version = tuple[int, int, int, int, int]


class DeliveredFile(Struct):
    """A complete entry of the folder: an open file, or the `problem` because of which it cannot be opened."""

    name: str
    version: Version
    owner: int
    file: BinaryIO | None = None
    problem: str | None = None

    def close(self) -> None:
        if self.file:
            self.file.close()

    def digest(self, on_read: Callable[[], None]) -> str:
        """Return the SHA-256 of the content."""
        digest = hashlib.sha256()
        with self.opened() as file:
            while part := file.read(COPY_BYTES):
                on_read()
                digest.update(part)
        return digest.hexdigest()

    def opened(self) -> BinaryIO:
        if self.file is None:
            raise OSError(errno.EBADF, "it could not be opened")
        return sources.opened_again(self.file)


class Reading(Struct):
    """A file that is being read, as the lock file notes it, and how often the watcher has died at it before."""

    name: str
    version: Version
    is_export: bool
    deaths: int = 0


class Spool:
    """A folder into which the POS delivers files. Only one process can watch it at a time.

    Files are moved to `done`, `quarantine` or `held` in the folder `kept` or, without it, in the watched folder. `say`
    shows a message to the operator.
    """

    def __init__(
        self,
        folder: Path,
        kept: Path | None = None,
        quarantine: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not folder.is_dir():
            raise SourceError(f"there is no folder {folder} to watch. Create it, or check the path.")
        self.folder = folder.resolve()
        if kept and kept.resolve().is_relative_to(self.folder):
            raise SourceError("the folder for loaded files must be outside the watched folder. Choose another folder.")
        if quarantine and quarantine.resolve() == self.folder:
            raise SourceError("the quarantine must not be the watched folder itself. Choose another folder.")
        self._places = {name: kept and kept / name for name in (DONE, QUARANTINE, HELD)}
        self._places[QUARANTINE] = quarantine or self._places[QUARANTINE]
        self._say = say
        self._descriptor: int | None = None
        self._is_local = _file_system(folder) in LOCAL_FILE_SYSTEMS
        # The version of each file, and when it was first seen, in milliseconds on the steady clock.
        self._versions: dict[str, tuple[Version, int]] = {}
        # For each user who delivers, the number of the latest turn.
        self._served: dict[int, int] = {}
        # Whether each file in quarantine waits for answers.
        self._needs_answers: dict[str, bool] = {}
        self.stuck: set[str] = set()
        """The files that are open for writing, but have not changed for STUCK_MS."""
        self.folders: set[str] = set()
        """The folders in the watched folder, which are not loaded."""
        self.waiting: list[str] = []
        """Unfinished files and folders with files that have not changed for WAITING_MS."""
        self.on_read: Callable[[], None] = lambda: None
        """Called regularly while a large file is copied or compared. It may raise an exception to stop this."""
        self._lock: int | None = None
        # The file that each load is reading. A load that began while another one took long is behind it.
        self._reading: list[Reading | None] = []
        self.suspect: Reading | None = None
        """The file that an earlier watcher was reading when it died."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock, which ends with the process. It is in `done`, where nobody else can hold it."""
        for place in filter(None, self._places.values()):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._own(QUARANTINE), self._own(DONE) as done:
            descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=done)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").partition("\n")[0].strip()
                named = f" (process {owner})" if owner else ""
                raise SourceError(
                    f"another process is watching {self.folder}{named}, or moves its files to the same "
                    "folder. Stop it first."
                ) from error
            self._lock, self.suspect = descriptor, _noted(os.pread(descriptor, MAX_NOTE_BYTES, 0))
            # The note stays until another file is read: this watcher may die before the file is set aside.
            self._write_lock(self.suspect)
            if self.suspect:
                self.suspect.deaths += 1
            yield
        finally:
            self._lock = None
            os.close(descriptor)

    def _write_lock(self, reading: Reading | None) -> None:
        """Write this process and the file that it reads to the lock file. What was longer before is cut off last."""
        if self._lock is None:
            return
        text = f"{os.getpid()}\n".encode() + (msgspec.json.encode(reading) + b"\n" if reading else b"")
        os.pwrite(self._lock, text, 0)
        os.ftruncate(self._lock, len(text))

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note which file a load reads, until it ends or is stopped. If it fails in another way, the note stays."""
        self._reading.append(None)
        try:
            yield
        except (KeyboardInterrupt, OSError):
            self._end_noting()
            raise
        self._end_noting()

    def _end_noting(self) -> None:
        self._reading.pop()
        self._write_lock(next(filter(None, reversed(self._reading)), None))

    def note(self, delivery: DeliveredFile, *, is_export: bool) -> None:
        """Note that a file is being read from now on."""
        was_suspect = self.suspect is not None and self.suspect.version == delivery.version
        deaths = self.suspect.deaths if self.suspect and was_suspect else 0
        if self._reading:
            self._reading[-1] = Reading(printable(delivery.name), delivery.version, is_export, deaths)
            self._write_lock(self._reading[-1])

    def is_deadly(self, delivery: DeliveredFile) -> bool:
        """Return whether watchers died at this file, so that it must not be read again.

        A watcher may be killed for another reason during a long load of source records, whose reading takes little
        memory. So these are tried again, up to MAX_DEATHS.
        """
        suspect = self.suspect
        if suspect is None or suspect.version != delivery.version:
            return False
        return suspect.is_export or suspect.deaths >= MAX_DEATHS

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # --- found, opened, checked ---------------------------------------------------------

    def deliveries(
        self, steady_ms: int, skipped: Mapping[str, Version] | None = None, busy: Container[int] = ()
    ) -> list[DeliveredFile]:
        """Return up to MAX_FILES complete deliveries of one user, sorted by name, with open files, then refused ones.

        The users who deliver take turns, except those in `busy`. Files that are still being written are left out, and
        those in `skipped` that have not changed. The caller closes the files.
        """
        of_users: dict[int, list[tuple[str, os.stat_result]]] = {}
        for name, entry in self._scan(steady_ms):
            if entry.st_uid not in busy and (skipped or {}).get(name) != _version(entry):
                of_users.setdefault(entry.st_uid, []).append((name, entry))
        self.stuck.clear()
        for user in sorted(of_users, key=lambda user: self._served.get(user, 0)):
            if found := self._complete(of_users[user], steady_ms):
                self._served[user] = max(self._served.values(), default=0) + 1
                return found
        return []

    def _complete(self, entries: list[tuple[str, os.stat_result]], steady_ms: int) -> list[DeliveredFile]:
        """Open up to MAX_FILES complete entries. Those that cannot be loaded come last, so they hold up no others."""
        found: list[DeliveredFile] = []
        refused: list[DeliveredFile] = []
        for name, entry in entries:
            if delivery := self._opened(name, entry, steady_ms):
                (refused if delivery.problem else found).append(delivery)
            if len(found) == MAX_FILES:
                break
        return (found + refused)[:MAX_FILES]

    def _scan(self, steady_ms: int) -> list[tuple[str, os.stat_result]]:
        """Return the entries whose names say that they are complete, except folders, sorted by name."""
        entries: list[tuple[str, os.stat_result]] = []
        try:
            for entry in os.scandir(self._open_folder()):
                with suppress(FileNotFoundError):
                    entries.append((entry.name, entry.stat(follow_symlinks=False)))
        except OSError as error:
            raise SourceError(f"cannot read {self.folder}: {error.strerror}.") from error
        self._note_versions(entries, steady_ms)
        complete: list[tuple[str, os.stat_result]] = []
        self.folders = set()
        waiting = []
        for name, found in entries:
            is_old = steady_ms - self._versions[name][1] >= WAITING_MS
            is_unfinished = sources.is_unfinished(name)
            if stat.S_ISDIR(found.st_mode):
                if is_unfinished or name in (DONE, QUARANTINE, HELD):
                    continue
                self.folders.add(name)
                if is_old and self._has_files(name):
                    waiting.append(name)
            elif not is_unfinished:
                complete.append((name, found))
            elif is_old and name != FINDER_FILE:
                waiting.append(name)
        self.waiting = sorted(waiting)
        return sorted(complete)

    def _note_versions(self, entries: Sequence[tuple[str, os.stat_result]], steady_ms: int) -> None:
        """Remember since when each entry is as it is now, and forget entries that are gone."""
        versions = {}
        for name, found in entries:
            version, since = _version(found), steady_ms
            if name in self._versions and self._versions[name][0] == version:
                since = self._versions[name][1]
            versions[name] = version, since
        self._versions = versions

    def _has_files(self, folder: str) -> bool:
        with suppress(OSError), os.scandir(self.folder / folder) as entries:
            return any(entries)
        return False

    def _open_folder(self) -> int:
        """Return the descriptor of the watched folder. If it was removed and created again, open the new one."""
        found = self.folder.lstat()
        if self._descriptor is None or not os.path.samestat(found, os.fstat(self._descriptor)):
            opened = os.open(self.folder, OPEN_FOLDER)
            self.close()
            self._descriptor = opened
        return self._descriptor

    def _opened(self, name: str, entry: os.stat_result, steady_ms: int) -> DeliveredFile | None:
        """Open an entry. Return None if it is still being written, or has been removed or replaced in the meantime."""
        version, shown = _version(entry), printable(name)
        if sources.is_special(entry.st_mode):
            problem = f"{shown} is {sources.kind_of(entry.st_mode)}. Deliver the file itself."
            return DeliveredFile(name, version, entry.st_uid, problem=problem)
        is_settled = steady_ms - self._versions[name][1] >= SETTLE_MS
        if os.geteuid() not in (0, entry.st_uid) and not is_settled:
            return None
        try:
            file = open_regular(name, self._descriptor)
        except PermissionError:
            problem = f"{shown} may not be read by the user of the watcher. Deliver it with mode 0644 or 0640."
            return DeliveredFile(name, version, entry.st_uid, problem=problem) if is_settled else None
        except OSError:
            # It has been replaced, for example with a link, or a program holds a lease on it. Look at it again later.
            return None
        if _version(os.fstat(file.fileno())) == version and not self._is_being_written(file, is_settled):
            return DeliveredFile(name, version, entry.st_uid, file)
        file.close()
        if steady_ms - self._versions[name][1] >= STUCK_MS:
            self.stuck.add(name)
        return None

    def delivery(self, name: str, folder: int | None = None) -> DeliveredFile:
        """Return an entry of the watched folder, or of another of ours, whether it is complete or not."""
        folder = self._open_folder() if folder is None else folder
        entry = os.stat(name, dir_fd=folder, follow_symlinks=False)
        file = open_regular(name, folder) if stat.S_ISREG(entry.st_mode) else None
        return DeliveredFile(name, _version(entry), entry.st_uid, file)

    def _is_being_written(self, file: BinaryIO, is_settled: bool) -> bool:
        """Return whether a program has this file open for writing or, if that is not known, whether it is changing."""
        is_open = _is_open_for_writing(file) if self._is_local else None
        return not is_settled if is_open is None else is_open

    def is_unchanged(self, delivery: DeliveredFile) -> bool:
        """Return whether the folder still has this delivery, and nobody has changed it or is writing it."""
        with suppress(OSError):
            entry = os.stat(delivery.name, dir_fd=self._open_folder(), follow_symlinks=False)
            is_written = delivery.file and self._is_being_written(delivery.file, is_settled=True)
            return _version(entry) == delivery.version and not is_written
        return False

    # --- moved --------------------------------------------------------------------------

    def finish(self, delivery: DeliveredFile, *, delete: bool, folder: int | None = None) -> OpenItem | None:
        """Move a loaded file to `done`, or delete it. Return its item if it had to be quarantined instead."""
        with self._own(DONE) as done:
            name, is_copy = self._move(delivery, self._open_folder() if folder is None else folder, done)
            moved = _version(os.stat(name, dir_fd=done, follow_symlinks=False))
            if is_copy or moved[:4] == delivery.version[:4]:
                if delete:
                    os.unlink(name, dir_fd=done)
                return None
            # In the last moment, somebody put another file in the place of the one that was loaded, or changed it.
            replaced = DeliveredFile(name, moved, delivery.owner)
            reason = f"{printable(delivery.name)} was replaced or changed after it was loaded. Deliver it again."
            return self.keep("quarantined", replaced, reason, done)

    def keep(
        self,
        kind: Kind,
        delivery: DeliveredFile,
        reason: str,
        folder: int | None = None,
        *,
        headings: Sequence[str] = (),
    ) -> OpenItem:
        """Quarantine or hold an entry of the watched folder, or of another of ours; return an open item about it."""
        digest = "" if kind == "quarantined" else delivery.digest(self.on_read)
        if kind == "needs_answers":
            digest = digest_with_headings(digest, headings)
        delivered, reason = printable(_delivered_name(delivery.name)), printable(reason)[:MAX_REASON]
        with self._own(PLACES[kind]) as place:
            name, _ = self._move(delivery, self._open_folder() if folder is None else folder, place)
            text = f"{reason}\n{DELIVERED_AS}{delivered}\n"
            if digest:
                text += f"{DIGEST}{digest}\n"
            with os.fdopen(os.open(name + REASON_SUFFIX, CREATE, 0o600, dir_fd=place), "wb") as note:
                note.write(text.encode())
        return self._item(kind, name, delivered, reason, digest)

    def kept(self) -> Iterator[OpenItem]:
        """Yield an open item for each file in quarantine or held that has a file with the reason."""
        for place in (QUARANTINE, HELD):
            if not self._path(place, "").is_dir():
                continue
            with self._own(place) as folder:
                names = sorted(entry.name for entry in os.scandir(folder))
                for note_name in [name for name in names if name.endswith(REASON_SUFFIX)]:
                    with suppress(OSError):
                        note = _read_note(note_name, folder)
                        moved = note_name.removesuffix(REASON_SUFFIX)
                        os.stat(moved, dir_fd=folder, follow_symlinks=False)
                        kind: Kind = "needs_answers" if note.needs_answers else "quarantined"
                        if place == HELD:
                            kind = "held"
                        yield self._item(kind, moved, note.delivered or moved, note.reason, note.digest)

    def _item(self, kind: Kind, name: str, delivered: str, reason: str, digest: str) -> OpenItem:
        return OpenItem(
            identity=name,
            kind=kind,
            files={delivered: 0},
            path=str(self._path(PLACES[kind], name)),
            machine=machine_name(),
            reason=reason,
            digest=digest,
        )

    def held_names(self) -> list[str]:
        """Return the names of the files that wait in the folder for held files."""
        return self._names(HELD)

    def unanswered_names(self) -> list[str]:
        """Return the names of the files in quarantine of which the note says that they wait for answers."""
        names = self._names(QUARANTINE)
        if not names:
            return []
        with self._own(QUARANTINE) as folder:
            needs_answers = {}
            for name in names:
                # Notes are not changed, and a quarantine may have very many of them.
                known = self._needs_answers.get(name)
                needs_answers[name] = _needs_answers(name, folder) if known is None else known
        self._needs_answers = needs_answers
        return [name for name in names if needs_answers[name]]

    def _names(self, place: str) -> list[str]:
        """Return the names of the files in one of our folders, without their notes."""
        try:
            names = os.listdir(self._path(place, ""))  # noqa: PTH208 - a folder may have very many files
        except OSError:
            return []
        return sorted(name for name in names if not name.endswith(REASON_SUFFIX))

    @contextmanager
    def kept_file(self, kind: Kind, name: str) -> Iterator[tuple[DeliveredFile, int]]:
        """Yield a file that we kept, and the descriptor of its folder. If the caller moves it, its note is deleted."""
        with self._own(PLACES[kind]) as folder:
            with closing(self.delivery(name, folder)) as delivery:
                yield delivery, folder
            if name not in self._names(PLACES[kind]):
                with suppress(FileNotFoundError):
                    os.unlink(name + REASON_SUFFIX, dir_fd=folder)

    def path_of(self, item: OpenItem) -> str:
        return str(self._path(PLACES[item.kind], item.identity))

    def is_gone(self, item: OpenItem) -> bool:
        """Return whether a file was held here and is not here any more. Another machine may have the same folder."""
        is_held_here = item.kind == "held" and (item.machine, item.path) == (machine_name(), self.path_of(item))
        return is_held_here and not os.path.lexists(item.path)

    def _path(self, place: str, name: str) -> Path:
        return (self._places[place] or self.folder / place).absolute() / name

    def _move(self, delivery: DeliveredFile, folder: int, target: int) -> tuple[str, bool]:
        """Move an entry to our folder; return its name (ours keep it, for their items) and whether it was copied."""
        name = kept_name(delivery.name) if folder == self._descriptor else delivery.name
        os.close(os.open(name, CREATE, 0o600, dir_fd=target))
        try:
            try:
                os.rename(delivery.name, name, src_dir_fd=folder, dst_dir_fd=target)
                return name, False
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                # A link, a pipe or a socket has no content, so the empty file is enough.
                if delivery.file:
                    self._copy(delivery.opened(), name, target)
                elif not sources.is_special(os.stat(delivery.name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise
                if folder != self._descriptor or self.is_unchanged(delivery):
                    os.unlink(delivery.name, dir_fd=folder)
                return name, True
        except BaseException:
            os.unlink(name, dir_fd=target)
            raise

    def _copy(self, source: BinaryIO, name: str, target: int) -> None:
        """Copy a file to another file system. Until the copy is complete, its name begins with a dot."""
        draft = f".{name}"
        descriptor = os.open(draft, CREATE, 0o600, dir_fd=target)
        try:
            with source, os.fdopen(descriptor, "wb") as out:
                while part := source.read(COPY_BYTES):
                    self.on_read()
                    out.write(part)
                out.flush()
                os.fsync(out.fileno())
            os.rename(draft, name, src_dir_fd=target, dst_dir_fd=target)
        except BaseException:
            os.unlink(draft, dir_fd=target)
            raise

    @contextmanager
    def _own(self, name: str) -> Iterator[int]:
        """Yield a descriptor of `done` or `quarantine`, which is created so that only its owner can use it."""
        place = self._places[name]
        descriptor = own_folder(str(place)) if place else self._own_inside(name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _own_inside(self, name: str) -> int:
        """Open a folder in the watched folder. If its name belongs to something else, rename that."""
        folder = self._open_folder()
        try:
            return own_folder(name, folder)
        except SourceError as error:
            aside = f".{name}-{secrets.token_hex(4)}"
            try:
                os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                raise error from None
            self._say(f"{name} in {self.folder} was not a folder that only this user can write to: it is now {aside}.")
            return own_folder(name, folder)


def _noted(text: bytes) -> Reading | None:
    """Return the file that the second line of a lock file notes."""
    try:
        return msgspec.json.decode(text.split(b"\n")[1], type=Reading)
    except (IndexError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def own_folder(name: str, parent: int | None = None) -> int:
    """Open a folder that belongs to the user of this process and that nobody else can write to. Create it if needed."""
    try:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        descriptor = os.open(name, OPEN_FOLDER, dir_fd=parent)
    except OSError as error:
        raise SourceError(f"the folder {name} cannot be used: {error.strerror}.") from error
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and not found.st_mode & 0o022:
        return descriptor
    os.close(descriptor)
    raise SourceError(
        f"the folder {name} must belong to the user who runs this command, and nobody else may write to "
        f"it. Run `chown {os.geteuid()} {name}` and `chmod go-w {name}`, or choose another folder."
    )


def kept_name(name: str) -> str:
    """Return a new name for a file that we keep, made of the time, a random number and what is safe in its name."""
    safe = printable(_delivered_name(name)).replace("\\", "_")
    encoded = safe.encode()
    if len(encoded) > FIRST_BYTES + LAST_BYTES:
        parts = encoded[:FIRST_BYTES], encoded[-LAST_BYTES:]
        safe = "_".join(part.decode("utf-8", "ignore") for part in parts)
    if safe.lower().endswith(RESERVED_ENDINGS):
        safe += ".file"
    return f"{from_ms(SystemClock().now_ms(), UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}-{safe}"


def _delivered_name(name: str) -> str:
    """Return the name of a file without what was put in front of it when it was held."""
    return KEPT_NAME.sub("", name)


class _Note(Struct, frozen=True):
    """What the note beside a file that we kept says."""

    reason: str
    delivered: str
    """The name under which the file was delivered."""
    digest: str

    @property
    def needs_answers(self) -> bool:
        """Whether the file waits for answers: of files in quarantine, only those must still be the same later."""
        return bool(self.digest)


def _read_note(name: str, folder: int) -> _Note:
    with open_regular(name, folder) as file:
        text = file.read(MAX_NOTE_BYTES).decode("utf-8", "replace")
    reason, _, rest = text.partition("\n")
    _, _, after_label = rest.partition(DELIVERED_AS)
    delivered, _, digest = after_label.partition(f"\n{DIGEST}")
    return _Note(reason, delivered.strip(), digest.strip())


def _needs_answers(name: str, folder: int) -> bool:
    try:
        return _read_note(name + REASON_SUFFIX, folder).needs_answers
    except OSError:
        return False


def _version(entry: os.stat_result) -> Version:
    return entry.st_dev, entry.st_ino, entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns


def _is_open_for_writing(file: BinaryIO) -> bool | None:
    """Return whether a program writes a local file, if the system says so: to root, and to the user who owns it."""
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):  # Only Linux has leases.
        return None
    return False


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


def quarantined(reasons: Mapping[Path, str], quarantine: Path) -> list[OpenItem]:
    """Move what could not be loaded to the quarantine, with the reasons, and return the open items about it."""
    quarantine.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    moved = []
    for path, reason in reasons.items():
        spool = Spool(path.parent, quarantine=quarantine)
        with suppress(FileNotFoundError), closing(spool), closing(spool.delivery(path.name)) as delivery:
            moved.append(spool.keep("quarantined", delivery, reason))
    return moved
