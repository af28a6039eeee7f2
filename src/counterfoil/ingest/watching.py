"""The steps of a delivery to a watched folder: found, opened, checked, loaded, moved."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from counterfoil.domain.open_items import Kind, OpenItem
from counterfoil.ingest.sources import ACCEPTED_NAMES, SOURCE_RECORDS, FileSet, SourceError, SourceFiles
from counterfoil.ingest.spool import DeliveredFile, Spool, Version, changed_late, moved_item
from counterfoil.text import printable

# A file that was loaded but could not be moved is left alone for this long, unless it changes.
RETRY_MS = 60_000
# A file that has so many rejected lines and nearly no others is quarantined, because rejecting millions of short lines
# would hold up other files for minutes.
MAX_REJECT_SCORE = 50_000
# If a load takes longer than this, files that other users have delivered are loaded beside it, at most so many at once.
ALONE_MS, MAX_BESIDE = 2_000, 3
# The messages of one load name at most this many quarantined files. A message is not repeated within this time.
MAX_NAMED, SAID_MS = 10, 60_000


class Loader(Protocol):
    """Loads the files of the folder into the store, and reports to it."""

    def load(self, files: FileSet, *, is_beside: bool, is_accepted: bool = False) -> bool:
        """Load the files. Return False if the load was interrupted, so that the files are left where they are.

        Unless `is_accepted`, those that differ sharply from earlier deliveries are not loaded, but added to `held`.
        """

    def report(self, files: int, kept: list[OpenItem], *, loaded: FileSet | None) -> None:
        """Report how many files were loaded, which ones were quarantined or held, and the summary of the load."""

    def close(self, item: OpenItem, kept: OpenItem | None) -> None:
        """Close the item of a held file after the operator's decision. The file may have been quarantined."""


class FolderWatch:
    """Takes what is delivered to a folder. Nothing that a deliverer does there raises an exception.

    The files of each user are loaded in the order of their names. Those of different users are independent.
    """

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
        # Files that could not be moved, and when to try again.
        self._unmoved: dict[str, tuple[Version, int]] = {}
        # When each message was last needed.
        self._said: dict[str, int] = {}
        # The users whose files are being loaded, and since when the latest of these loads has had no others beside it.
        self._busy: list[int] = []
        self._alone_since = 0

    def take_files(self) -> bool:
        """Load the files of a user that are waiting, and move them; return whether anything was loaded or moved."""
        now = self._alone_since = self._steady_ms()
        self._unmoved = {name: one for name, one in self._unmoved.items() if now < one[1]}
        try:
            unmoved = {name: version for name, (version, _) in self._unmoved.items()}
            found = self._spool.deliveries(now, unmoved, self._busy)
        except SourceError as error:
            self._say_once(f"{error} Waiting until the folder can be read.")
            return False
        self._name_others()
        if not found:
            return False
        self._busy.append(found[0].owner)
        try:
            return self._load_and_move(found)
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
        problems = {delivery.name: problem for delivery in found if (problem := self._problem(delivery))}
        files = [
            self._kinds.file(Path(delivery.name), delivery.version[2], delivery.opened)
            for delivery in found
            if delivery.name not in problems
        ]
        loaded = FileSet(printable(self._spool.folder.name), files, MAX_REJECT_SCORE) if files else None
        if loaded:
            loaded.ignored = [Path(one.name) for one in found if one.file and not self._kinds.accepts(one.name)]
            try:
                if not self._loader.load(loaded, is_beside=len(self._busy) > 1):
                    return False
            finally:
                for file in files:
                    file.close()
            problems |= {path.name: reason for path, reason in loaded.damage.items()}
        held = {path.name: reason for path, reason in loaded.held.items()} if loaded else {}
        # A file that was changed or opened for writing during the load stays in the folder and is loaded again.
        unchanged = [delivery for delivery in found if self._spool.is_unchanged(delivery)]
        moved = [self._move(delivery, problems, held) for delivery in unchanged]
        kept = [item for item in moved if isinstance(item, OpenItem)]
        for item in kept[:MAX_NAMED]:
            self._say(f"{item.kind}: {item.reason}")
        if len(kept) > MAX_NAMED:
            self._say(
                f"{len(kept) - MAX_NAMED:,} more files were quarantined or held; each has a file with the reason."
            )
        files_done = moved.count(True)
        if loaded or files_done or kept:
            self._loader.report(files_done, kept, loaded=loaded)
        return bool(loaded or kept)

    def carry_out(self, items: Iterable[OpenItem]) -> None:
        """Load held files that the operator has accepted, and quarantine those that were discarded."""
        for item in items:
            with self._spool.held(item) as found:
                if found and item.decision == "accepted":
                    self._load_held(item, *found)
                elif found and item.decision:
                    delivered = next(iter(item.files))
                    path = self._spool.keep("quarantined", found[0], f"{delivered} was discarded.", found[1])
                    self._loader.close(item, moved_item("quarantined", path, delivered, item.reason))

    def _load_held(self, item: OpenItem, delivery: DeliveredFile, folder: int) -> None:
        delivered = next(iter(item.files))
        file = self._kinds.file(Path(delivered), delivery.version[2], delivery.opened)
        loaded = FileSet(delivered, [file], MAX_REJECT_SCORE)
        try:
            if not self._loader.load(loaded, is_beside=False, is_accepted=True):
                return
        finally:
            file.close()
        reason = next(iter(loaded.damage.values()), "")
        kept = []
        if reason:
            path = self._spool.keep("quarantined", delivery, reason, folder)
            kept.append(moved_item("quarantined", path, delivered, reason))
        else:
            self._spool.finish(delivery, delete=self._delete, folder=folder)
        self._loader.report(0 if kept else 1, kept, loaded=loaded)
        self._loader.close(item, None)

    def _problem(self, delivery: DeliveredFile) -> str | None:
        """Return why a delivery cannot be loaded, or None if it can."""
        if delivery.problem or self._kinds.accepts(delivery.name):
            return delivery.problem
        return not_source(delivery.name)

    def _move(self, delivery: DeliveredFile, problems: Mapping[str, str], held: Mapping[str, str]) -> OpenItem | bool:
        """Move a delivery. Return its item if it is quarantined or held, otherwise whether it could be moved."""
        kind: Kind = "held" if delivery.name in held else "quarantined"
        reason = held.get(delivery.name) or problems.get(delivery.name)
        try:
            if reason:
                path: Path | None = self._spool.keep(kind, delivery, reason)
            else:
                path = self._spool.finish(delivery, delete=self._delete)
            return moved_item(kind, path, delivery.name, reason or changed_late(delivery.name)) if path else True
        except (OSError, SourceError) as error:
            why = delivery.problem or (f"{error.strerror}." if isinstance(error, OSError) else error)
            self._say_once(f"{printable(delivery.name)} cannot be moved out of {self._spool.folder}: {why}")
            self._unmoved[delivery.name] = (delivery.version, self._steady_ms() + RETRY_MS)
            return False

    def _name_others(self) -> None:
        """Name what is not loaded and stays in the folder, each once."""
        for name in self._spool.stuck:
            self._say_once(
                f"{printable(name)} is not loaded yet, because a program still has it open for writing. "
                "Let that program close the file, or stop it."
            )
        for name in self._spool.folders:
            self._say_once(f"{printable(name)} is a folder, so it is not loaded. Deliver the files in it.")

    def _say_once(self, message: str) -> None:
        """Say something, unless it was said before and has been true since."""
        now = self._steady_ms()
        self._said = {said: needed for said, needed in self._said.items() if now - needed < SAID_MS}
        if message not in self._said and len(self._said) < 10 * MAX_NAMED:
            self._say(message)
        self._said[message] = now


def not_source(name: str) -> str:
    return (
        f"{printable(name)} is not a source record file: its name does not end in {ACCEPTED_NAMES}. "
        "To convert an export of a POS, use `counterfoil import`, or watch the folder with --mapping or --exports."
    )
