"""What waits for the operator: rejected lines, files that were quarantined or held or need answers, unfinished loads.

An item stays open until its own file is loaded, or the operator closes it. An unfinished load, which is an item once
another load has begun, stays open until a load of the same source has finished. That another file of the same name was
loaded, or that the file is gone, says nothing about its records.

A file that was accepted in the console is an item (`not_begun`) until its load begins.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, json
from msgspec.structs import asdict

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
        lines, unfinished = f"{counted(self.lines or 0, 'line')} of load {self.load}", f"unfinished load {self.load}"
        others = {
            "rejects": lines,
            "unfinished": unfinished,
            "needs_answers": "needs answers",
            "not_begun": "load not begun",
        }
        what = others.get(self.kind, self.kind)
        return f"item {self.number}: {self.source}, {what}"

    def is_due(self, now: int) -> bool:
        """Return whether the item is a reason to worry: a load that was accepted may take a while to begin."""
        return self.kind != "not_begun" or bool(self.reason) or now - self.opened_at > LOAD_BEGINS_MS

    def values(self) -> dict[str, Any]:
        """Return the parameters of the statements with which a ledger stores the item."""
        texts = {"files": json.encode(self.files).decode(), "reason": self.reason[:MAX_REASON]}
        return asdict(self) | texts | {"path": printable(self.path)}


COLUMNS = OpenItem.__struct_fields__


def item_of(row: Sequence[Any]) -> OpenItem:
    values = dict(zip(COLUMNS, row, strict=True))
    return OpenItem(**values | {"files": json.decode(values["files"], type=dict[str, int])})


def limited(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of the first MAX_FILES files, and of all others together."""
    first = dict(list(counts.items())[:MAX_FILES])
    if others := sum(counts.values()) - sum(first.values()):
        first[OTHER_FILES] = first.get(OTHER_FILES, 0) + others
    return first


def accepted_item(name: str) -> OpenItem:
    """Return the item of a file that was accepted in the console and is loaded under this name."""
    return OpenItem(identity=f"accepted {name}", kind="not_begun", files={name: 0})


def oldest(items: Sequence[OpenItem]) -> int | None:
    return min((item.opened_at for item in items), default=None)
