"""What waits for the operator: lines that a load rejected, and delivered files that were quarantined or held.

An item stays open until its files were loaded, its own file is removed, or the operator closes it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct, json
from msgspec.structs import asdict, replace

from counterfoil.domain.calendar import DAY_MS
from counterfoil.text import printable

Kind = Literal["rejects", "quarantined", "held"]
KINDS: Final[tuple[Kind, ...]] = ("rejects", "quarantined", "held")
Decision = Literal["accepted", "discarded"]
Closing = Literal["loaded", "removed", "resolved"] | Decision

# An item and a load name at most this many files. The others are counted under OTHER_FILES.
MAX_FILES = 250
OTHER_FILES = ""
# Everything that is read from standard input has this name, so it does not say which delivery was read.
STANDARD_INPUT = "stdin"
# At most this many characters of a reason are stored.
MAX_REASON = 600
CLOSED_ITEMS_KEPT_MS = 400 * DAY_MS

# The names of files that a load read, with the number of rejected lines, or None if it could not read all of the file.
LoadedFiles = Mapping[str, int | None]


# No machine has this name.
UNKNOWN_PLACE = "?"


class OpenItem(Struct, frozen=True, kw_only=True):
    """Something that was delivered and is not in the store.

    `files` are the names under which it was delivered, with the numbers of rejected lines. `path` is where the operator
    finds it: in the folder `rejects` of an embedded store if `place` is empty, otherwise on the machine of this name.
    It is empty for rows of an export that could not be converted. `decision` is the operator's about a held file, which
    the watcher of its folder carries out.
    """

    number: int = 0
    kind: Kind
    load: int | None = None
    files: Mapping[str, int]
    path: str = ""
    place: str = ""
    reason: str = ""
    decision: Decision | None = None
    opened_at: int = 0
    closed_at: int | None = None
    closed_by: Closing | None = None

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

    def values(self) -> dict[str, Any]:
        """Return the parameters of the statements with which a ledger stores the item."""
        values = asdict(self) | {"files": json.encode(self.files).decode(), "reason": self.reason[:MAX_REASON]}
        path = printable(self.path)
        # If the path is not text, nobody can look for the file later, and so nobody may conclude that it was removed.
        return values if path == self.path else values | {"path": path, "place": UNKNOWN_PLACE}


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


def closed(item: OpenItem, by: Closing, now_ms: int) -> OpenItem:
    return replace(item, closed_at=now_ms, closed_by=by)


def after_load(
    items: Iterable[OpenItem], load: int, read: LoadedFiles, earlier: Sequence[tuple[int, LoadedFiles]], now_ms: int
) -> Iterator[OpenItem]:
    """Yield the items that a finished load changes, because it has read their files.

    Lines that it rejected again belong to its own item. `earlier` has the times and the files of earlier loads: a POS
    may use one name for every delivery, so a name that was loaded without rejects before the item was opened says
    nothing about it.
    """
    complete = {name for name, rejected in read.items() if rejected is not None} - {STANDARD_INPUT, OTHER_FILES}
    for item in items:
        if load == item.load:
            continue
        left = {name: count for name, count in item.files.items() if _is_left(name, item, complete, earlier)}
        if not left or item.path.rpartition("/")[2] in complete:
            yield closed(item, "loaded", now_ms)
        elif left != item.files:
            yield replace(item, files=left)


def _is_left(name: str, item: OpenItem, complete: Collection[str], earlier: Sequence[tuple[int, LoadedFiles]]) -> bool:
    return name not in complete or any(at < item.opened_at and files.get(name) == 0 for at, files in earlier)


def items_detail(items: Iterable[OpenItem]) -> str:
    """Return which items these are, for the audit log."""
    return ", ".join(f"item {item.number} ({item.source})" for item in items)


def oldest(items: Sequence[OpenItem]) -> int | None:
    return min((item.opened_at for item in items), default=None)
