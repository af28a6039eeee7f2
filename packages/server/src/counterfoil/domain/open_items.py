"""What waits for the operator: rejected lines, files that were quarantined or held or need answers, unfinished loads.

An item stays open until its own file is loaded, or the operator closes it. An unfinished load, which is an item once
another load has begun, stays open until a load of the same source has finished. That another file of the same name was
loaded, or that the file is gone, says nothing about its records.

A file that was accepted in the console is an item (`not_begun`) until its load begins: see `acceptances.py`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal

from msgspec import Struct, json
from msgspec.structs import asdict, replace

from counterfoil.model.calendar import DAY_MS, MINUTE_MS
from counterfoil.model.text import counted, printable

Kind = Literal["rejects", "quarantined", "needs_answers", "held", "unfinished", "not_begun"]
KINDS: Final[tuple[Kind, ...]] = ("rejects", "quarantined", "needs_answers", "held", "unfinished", "not_begun")
Verb = Literal["resolve", "accept", "discard"]
Closing = Literal["loaded", "resolved", "accepted", "discarded"]

# An item and a load name at most this many files. The others are counted under OTHER_FILES.
MAX_FILES = 250
OTHER_FILES = ""
# Everything that is read from standard input has this name.
STANDARD_INPUT = "stdin"
# A large file that was accepted in the console is compared with the store for some minutes before its load begins.
LOAD_BEGINS_MS = 10 * MINUTE_MS
# What follows the digest of a file that waits for answers: that of its set of headings.
_HEADINGS = " headings "
# At most this many characters of a reason are stored.
MAX_REASON = 600
CLOSED_ITEMS_KEPT_MS = 400 * DAY_MS
# The beginning of the names of files that we keep: the time and a random number, so that no other file has this name.
KEPT_NAME = re.compile(r"^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}-")

# The names of files that a load read, with the number of rejected lines, or None if it could not read all of the file.
LoadedFiles = Mapping[str, int | None]


class OpenItem(Struct, frozen=True, kw_only=True):
    """Something that was delivered and is not in the store.

    `identity` is the name under which its file is kept, wherever that is. If the file has no name of ours, or there is
    none (as for rows of an export that could not be converted), it names the load. `files` are the names under which
    it was delivered, with the numbers of rejected lines. `path` is where the operator finds it, on the machine
    `machine`; a held file without a path is gone, as its watcher has seen. `decision` is set when the operator has
    accepted a held file, which the watcher of its folder then loads if it still has the same `digest`.

    Files that wait for answers and have the same set of headings are shown as one item: see `joined`.

    `load` is the load that opened the item or, of an accepted delivery, the load that loaded it.
    """

    identity: str
    kind: Kind
    files: Mapping[str, int]
    load: int | None = None
    path: str = ""
    machine: str = ""
    reason: str = ""
    digest: str = ""
    decision: Literal["accepted"] | None = None
    number: int = 0
    opened_at: int = 0
    closed_at: int | None = None
    closed_by: Closing | None = None
    joined: tuple["OpenItem", ...] = ()
    """The items of all files that wait for the same answers, if this item is shown for them. It is not stored."""

    @property
    def parts(self) -> tuple["OpenItem", ...]:
        """The items as they are stored: one for each file."""
        return self.joined or (self,)

    @property
    def content_digest(self) -> str:
        return self.digest.partition(_HEADINGS)[0]

    @property
    def headings_digest(self) -> str:
        """What files that wait for answers have in common if they have the same set of headings, or an empty text."""
        return self.digest.partition(_HEADINGS)[2]

    @property
    def state(self) -> Literal["waiting", "accepted", "gone"]:
        return "gone" if self.kind == "held" and not self.path else self.decision or "waiting"

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """What the operator can do about the item. Only a held file can be loaded or moved by its watcher."""
        if self.kind != "held" or self.state == "gone":
            return ("resolve",)
        return ("discard",) if self.decision else ("accept", "discard")

    @property
    def lines(self) -> int | None:
        """The number of rejected lines, or None for a file."""
        return sum(self.files.values()) if self.kind == "rejects" else None

    @property
    def source(self) -> str:
        """The names under which it was delivered, the first few of them if there are many."""
        names = [name for name in self.files if name]
        more = len(self.files) - len(names[:3])
        return ", ".join(names[:3]) + (f" and {more:,} more" if more else "")

    @property
    def title(self) -> str:
        match self.kind:
            case "rejects":
                what = f"{counted(self.lines or 0, 'line')} of load {self.load}"
            case "unfinished":
                what = f"unfinished load {self.load}"
            case "needs_answers":
                what = "needs answers"
            case "not_begun":
                what = "load not begun"
            case "quarantined" | "held":
                what = self.kind
        return f"item {self.number}: {self.source}, {what}"

    def is_due(self, now: int) -> bool:
        """Return whether the item is a reason to worry: a load that was accepted may take a while to begin."""
        return self.kind != "not_begun" or bool(self.reason) or now - self.opened_at > LOAD_BEGINS_MS

    def values(self) -> dict[str, Any]:
        """Return the parameters of the statements with which a ledger stores the item."""
        texts = {"files": json.encode(self.files).decode(), "reason": self.reason[:MAX_REASON]}
        values = asdict(self) | texts | {"path": printable(self.path)}
        return {name: values[name] for name in COLUMNS}


COLUMNS = tuple(name for name in OpenItem.__struct_fields__ if name != "joined")


def item_of(row: Sequence[Any]) -> OpenItem:
    values = dict(zip(COLUMNS, row, strict=True))
    return OpenItem(**values | {"files": json.decode(values["files"], type=dict[str, int])})


def digest_with_headings(digest: str, headings: Collection[str]) -> str:
    """Return the digest of a file that waits for answers with that of its set of headings, if they are known."""
    if not headings:
        return digest
    return digest + _HEADINGS + sha256("\0".join(sorted(set(headings))).encode()).hexdigest()


def joined(items: Iterable[OpenItem]) -> list[OpenItem]:
    """Return the items as people see them: files that wait for the same answers are one, with the number of the first.

    Such files have the same set of headings.
    """
    groups: dict[tuple[str, str], list[OpenItem]] = {}
    for item in items:
        key = (item.machine, item.headings_digest) if item.headings_digest else ("", item.identity)
        groups.setdefault(key, []).append(item)
    return [_as_one(group) for group in groups.values()]


def _as_one(items: Sequence[OpenItem]) -> OpenItem:
    first, *others = items
    if not others:
        return first
    files: dict[str, int] = {}
    for item in items:
        files.update(item.files)
    return replace(first, files=limited(files), joined=tuple(items))


def limited(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of the first MAX_FILES files, and of all others together."""
    first = dict(list(counts.items())[:MAX_FILES])
    if others := sum(counts.values()) - sum(first.values()):
        first[OTHER_FILES] = first.get(OTHER_FILES, 0) + others
    return first


def oldest(items: Sequence[OpenItem]) -> int | None:
    return min((item.opened_at for item in items), default=None)
