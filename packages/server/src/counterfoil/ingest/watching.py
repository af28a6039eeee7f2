"""The steps of a delivery to a watched folder: found, opened, checked, loaded, moved."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from counterfoil.domain.open_items import Kind, OpenItem
from counterfoil.ingest.sources import ACCEPTED_NAMES, SOURCE_RECORDS, File, FileSet, SourceError, SourceFiles
from counterfoil.ingest.spool import DeliveredFile, Spool, Version
from counterfoil.model.text import printable

# A file that was loaded but could not be moved is left alone for this long, unless it changes.
RETRY_MS = 60_000
# While no files are held, items about held files are read so often, because they may be about files that are gone.
LOOK_MS = 10_000
# A file with so many rejected lines and nearly no others is quarantined, because it would hold up other files.
MAX_REJECT_SCORE = 50_000
# If a load takes longer than this, files that other users have delivered are loaded beside it, at most so many at once.
ALONE_MS, MAX_BESIDE = 2_000, 3
# The messages of one load name at most this many quarantined files. A message is not repeated within this time.
MAX_NAMED, SAID_MS = 10, 60_000
HEAD_BYTES = 1_000
NOT_LOADED = "Folders, and files whose names begin with a dot or end in .part or .tmp, are not loaded."


class Loader(Protocol):
    """Loads the files of the folder into the store, and reports to it."""

    def load(self, files: FileSet, *, is_beside: bool, is_accepted: bool = False) -> bool:
        """Load the files; return False if interrupted. Unless `is_accepted`, unusual ones are added to `held`."""

    def report(self, files: int, kept: list[OpenItem], *, loaded: FileSet | None) -> None:
        """Report how many files were loaded, which ones were quarantined or held, and the summary of the load."""

    def items_of(self, names: Iterable[str]) -> list[OpenItem]:
        """Return the items of these kept files, open or closed, and all other open items."""

    def change(self, item: OpenItem) -> bool:
        """Store the changed item of a held file. Return False if the watcher was stopped before that was possible."""


class FolderWatch:
    """Takes what is delivered to a folder, each user's files by name. Nothing that a deliverer does raises here."""

    def __init__(
        self,
        spool: Spool,
        loader: Loader,
        say: Callable[[str], None],
        steady_ms: Callable[[], int],
        *,
        delete: bool = False,
        kinds: SourceFiles = SOURCE_RECORDS,
    ) -> None:
        self._spool = spool
        self._loader = loader
        self._say = say
        self._steady_ms = steady_ms
        self._delete = delete
        self._kinds = kinds
        # Files that could not be moved, when to try again, and why they could not.
        self._unmoved: dict[str, tuple[Version, int, str]] = {}
        # Why held files could not be moved, and when their items were last read.
        self._unmoved_held: list[str] = []
        self._looked_at = -LOOK_MS
        # Why the folder could not be read.
        self._unreadable = ""
        # When each message was last needed.
        self._said: dict[str, int] = {}
        # The users whose files are being loaded, and since when the latest of these loads has had no others beside it.
        self._busy: list[int] = []
        self._alone_since = 0

    def take_files(self) -> bool:
        """Load the files of a user that are waiting, and move them; return whether anything was loaded or moved."""
        now = self._alone_since = self._steady_ms()
        self._unreadable = ""
        try:
            unmoved = {name: version for name, (version, retry_at, _) in self._unmoved.items() if now < retry_at}
            found = self._spool.deliveries(now, unmoved, self._busy)
        except SourceError as error:
            self._unreadable = f"{error} Waiting until the folder can be read."
            self._say_once(self._unreadable)
            return False
        for name in self._spool.folders:
            self._say_once(f"{printable(name)} is a folder, so it is not loaded. Deliver the files in it.")
        for text in self._left():
            self._say_once(text)
        if not found:
            return False
        self._busy.append(found[0].owner)
        # A deadly file is moved before any other is read, because the watcher may die at that one, too.
        deadly = [delivery for delivery in found if self._spool.is_deadly(delivery)]
        try:
            return self._load_and_move(deadly or found)
        finally:
            self._busy.pop()
            self._alone_since = self._steady_ms()
            for delivery in found:
                delivery.close()

    def take_files_beside(self) -> None:
        """Call this regularly during a load. If it takes long, take the files of other users meanwhile."""
        if self._busy and len(self._busy) <= MAX_BESIDE and self._steady_ms() - self._alone_since >= ALONE_MS:
            self.take_files()

    def _load_and_move(self, found: list[DeliveredFile]) -> bool:
        """Load what can be loaded, and move all files. Return False if nothing was loaded and nothing is kept."""
        problems: dict[str, str] = {}
        files = []
        for delivery in found:
            problem = self._problem_before(delivery)
            if problem:
                problems[delivery.name] = problem
            else:
                files.append(self._file(delivery, delivery.name))
        loaded: FileSet | None = None
        held: dict[str, str] = {}
        if files:
            loaded = FileSet(printable(self._spool.folder.name), files, MAX_REJECT_SCORE)
            foreign = [delivery for delivery in found if not self._kinds.accepts(delivery.name)]
            loaded.ignored = [Path(delivery.name) for delivery in foreign if delivery.file]
            if not self._load_and_close(loaded, files):
                return False
            problems |= self._problems_after(found, loaded)
            held = {path.name: reason for path, reason in loaded.held.items()}
        unanswered = {file.path.name: file.headings for file in files if file.needs_answers}
        # A file that was changed or opened for writing during the load stays in the folder and is loaded again.
        unchanged = [delivery for delivery in found if self._spool.is_unchanged(delivery)]
        files_done = 0
        kept: list[OpenItem] = []
        for delivery in unchanged:
            moved = self._move(delivery, problems, held, unanswered)
            if isinstance(moved, OpenItem):
                kept.append(moved)
            elif moved:
                files_done += 1
        self._say_what_is_kept(kept)
        if loaded or files_done or kept:
            self._loader.report(files_done, kept, loaded=loaded)
        return bool(loaded or kept)

    def _load_and_close(self, loaded: FileSet, files: Sequence[File]) -> bool:
        try:
            with self._spool.noting():
                return self._loader.load(loaded, is_beside=len(self._busy) > 1)
        finally:
            for file in files:
                file.close()

    def _problem_before(self, delivery: DeliveredFile) -> str:
        """Return why a file is not loaded at all, or an empty string."""
        if self._spool.is_deadly(delivery):
            return _deadly(delivery.name)
        if delivery.problem:
            return delivery.problem
        return "" if self._kinds.accepts(delivery.name) else not_source(delivery.name)

    def _problems_after(self, found: Sequence[DeliveredFile], loaded: FileSet) -> dict[str, str]:
        """Return why files could not be loaded completely, or have nothing to load, by their names."""
        problems = {path.name: reason for path, reason in loaded.damage.items()}
        for delivery in found:
            if self._is_empty(delivery, loaded):
                name = printable(delivery.name)
                reason = f"{name} is empty. Check the export of the POS, and deliver the file again."
                problems[delivery.name] = reason
        return problems

    def _say_what_is_kept(self, kept: Sequence[OpenItem]) -> None:
        for item in kept[:MAX_NAMED]:
            # The reason of a file that needs answers says that it does.
            kind = "" if item.kind == "needs_answers" else f"{item.kind}: "
            self._say(f"{kind}{item.reason}")
        others = len(kept) - MAX_NAMED
        if others > 0:
            self._say(f"{others:,} more files were quarantined or held; each has a file with the reason.")

    def problem(self) -> str:
        """Return why something that was delivered cannot be taken, or an empty string."""
        for name in list(self._unmoved):
            if not os.path.lexists(self._spool.folder / name):
                del self._unmoved[name]
        if self._unreadable:
            return self._unreadable
        reasons = [why for _, _, why in self._unmoved.values()]
        problems = [*reasons, *self._unmoved_held, *self._left()]
        return problems[0] if problems else ""

    def carry_out(self) -> None:
        """Load accepted files and move those no longer held. Items change first, so that a killed move is repeated."""
        names, now = self._spool.held_names(), self._steady_ms()
        if now - self._looked_at >= LOOK_MS:
            self._looked_at = now
            self._finish_answered()
        elif not names:
            return
        self._unmoved_held = []
        for item in self._loader.items_of(names):
            if item.identity not in names:
                if item.path and self._spool.is_gone(item):
                    self._say(f"{item.source} was held and is gone: {item.path}")
                    self._loader.change(replace(item, path=""))
                continue
            try:
                with self._spool.kept_file("held", item.identity) as (delivery, folder):
                    self._carry_out(item, delivery, folder)
            except (OSError, SourceError) as error:
                self._unmoved_held.append(f"{item.source} is held and cannot be moved: {_why(error)}")
                self._say_once(self._unmoved_held[-1])

    def _finish_answered(self) -> None:
        """Move the files that waited for answers, and have been loaded since, as if they had just been loaded."""
        names = self._spool.unanswered_names()
        if not names:
            return
        for item in self._loader.items_of(names):
            if item.identity not in names or item.closed_by != "loaded":
                continue
            try:
                with self._spool.kept_file("needs_answers", item.identity) as (delivery, folder):
                    if delivery.digest(self._spool.on_read) == item.content_digest:
                        self._spool.finish(delivery, delete=self._delete, folder=folder)
            except (OSError, SourceError) as error:
                self._say_once(f"{item.source} was loaded and cannot be moved out of quarantine: {_why(error)}")

    def _carry_out(self, item: OpenItem, delivery: DeliveredFile, folder: int) -> None:
        if item.state == "gone":
            item = replace(item, path=self._spool.path_of(item))
            self._loader.change(item)
        if item.decision and not item.closed_by:
            item = self._load_held(item, delivery)
        if item.closed_by in ("accepted", "loaded"):
            self._spool.finish(delivery, delete=self._delete, folder=folder)
        elif item.closed_by or item.kind == "quarantined":
            reason = f"{item.source} was discarded." if item.closed_by else item.reason
            self._spool.keep("quarantined", delivery, reason, folder)

    def _load_held(self, item: OpenItem, delivery: DeliveredFile) -> OpenItem:
        """Load an accepted file, and return its item as it is stored now."""
        if delivery.digest(self._spool.on_read) != item.digest:
            reason = (
                f"{item.source} was changed after it was held, so it was not loaded. Discard it, and load it by hand."
            )
            self._say(reason)
            changed = replace(item, decision=None, reason=reason)
            return changed if self._loader.change(changed) else item
        if self._spool.is_deadly(delivery):
            reason = _deadly(item.source)
            self._say(reason)
            changed = self._quarantined(item, reason)
            return changed if self._loader.change(changed) else item
        file = self._file(delivery, item.source)
        loaded = FileSet(item.source, [file], MAX_REJECT_SCORE)
        try:
            with self._spool.noting():
                is_loaded = self._loader.load(loaded, is_beside=False, is_accepted=True)
        finally:
            file.close()
        if not is_loaded:
            return item
        if reason := next(iter(loaded.damage.values()), ""):
            self._say(f"quarantined: {reason}")
            changed = self._quarantined(item, reason)
        else:
            changed = replace(item, closed_by="accepted")
        self._loader.report(0 if reason else 1, [], loaded=loaded)
        return changed if self._loader.change(changed) else item

    def _quarantined(self, item: OpenItem, reason: str) -> OpenItem:
        changed = replace(item, kind="quarantined", decision=None, reason=reason)
        return replace(changed, path=self._spool.path_of(changed))

    def _file(self, delivery: DeliveredFile, name: str) -> File:
        """Return a delivery as a file to load. While it is read, that is noted."""
        file = self._kinds.file(Path(name), delivery.version[2], delivery.opened)
        file.before_read = lambda: self._spool.note(delivery, is_export=file.is_export)
        return file

    def _is_empty(self, delivery: DeliveredFile, loaded: FileSet) -> bool:
        """Return whether a loaded file says nothing. An empty array, or an export without rows, is an answer."""
        name = printable(delivery.name)
        if name not in loaded.empty or any(file.is_export and file.name == name for file in loaded.files):
            return False
        with delivery.opened() as file:
            return not file.read(HEAD_BYTES).lstrip().startswith(b"[")

    def _move(
        self,
        delivery: DeliveredFile,
        problems: Mapping[str, str],
        held: Mapping[str, str],
        unanswered: Mapping[str, Sequence[str]],
    ) -> OpenItem | bool:
        """Move a delivery. Return its item if it is quarantined or held, otherwise whether it could be moved.

        `unanswered` are the headings of the exports that nobody has answered for.
        """
        kind: Kind = "needs_answers" if delivery.name in unanswered else "quarantined"
        if delivery.name in held:
            kind = "held"
        reason = held.get(delivery.name) or problems.get(delivery.name)
        try:
            if reason:
                return self._spool.keep(kind, delivery, reason, headings=unanswered.get(delivery.name, ()))
            item = self._spool.finish(delivery, delete=self._delete)
        except (OSError, SourceError) as error:
            why = f"{printable(delivery.name)} cannot be moved out of {self._spool.folder}: "
            why += delivery.problem or _why(error)
            self._say_once(why)
            self._unmoved[delivery.name] = (delivery.version, self._steady_ms() + RETRY_MS, why)
            return False
        self._unmoved.pop(delivery.name, None)
        return item or True

    def _left(self) -> list[str]:
        """Return what to say about files that are stuck, and about files and folders that have waited for long."""
        stuck = [
            f"{printable(name)} is not loaded yet, because a program still has it open for writing. Let that "
            "program close the file, or stop it."
            for name in sorted(self._spool.stuck)
        ]
        names = [printable(name) for name in self._spool.waiting]
        more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
        shown = ", ".join(names[:MAX_NAMED]) + more
        waiting = f"{shown}: in the folder for more than an hour. {NOT_LOADED} Rename or remove them."
        return [*stuck, waiting] if names else stuck

    def _say_once(self, message: str) -> None:
        """Say something, unless it was said before and has been true since."""
        now = self._steady_ms()
        self._said = {said: needed for said, needed in self._said.items() if now - needed < SAID_MS}
        if message not in self._said and len(self._said) < 10 * MAX_NAMED:
            self._say(message)
        self._said[message] = now


def _why(error: OSError | SourceError) -> str:
    return f"{error.strerror}." if isinstance(error, OSError) else str(error)


def _deadly(name: str) -> str:
    return (
        f"the watcher died while it read {printable(name)}, so it does not try again: the file may need more "
        "memory than the watcher may use. Check the file. To try it once more, deliver it again."
    )


def not_source(name: str) -> str:
    return (
        f"{printable(name)} is not a source record file: its name does not end in {ACCEPTED_NAMES}. Exports of "
        "a POS end in .csv, .tsv, .txt, .xlsx or .json, and are loaded with `counterfoil import FILE --load`. A "
        "watched folder takes them with --mapping or --exports."
    )
