"""What a person was shown about a file and accepted in the console, before it was handed to a watched folder.

The console stores it beside the open item of the file, with the digest of the records. Whoever can only write to the
watched folder can write neither, so the watcher need not trust what it finds there. It loads records with this digest,
unless it finds a doubt that was not shown. While the store is as it was when the console compared them, it does not
compare them again. An acceptance ends when the load begins, or when the file is held.
"""

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from counterfoil.domain.doubts import DeliveryDoubt
from counterfoil.domain.open_items import OpenItem
from counterfoil.domain.replacements import ReplacementGuard

# What follows the digest in the item of accepted records: all that was accepted, as JSON.
_ACCEPTED = " accepted "


class ShownDoubts(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The doubts about a delivery, in numbers that can be compared."""

    doubts: tuple[DeliveryDoubt, ...] = ()
    moved: int = 0
    others: int = 0
    """The bills that would be replaced by other ones, without those that only lack a part."""
    incomplete: int = 0
    same_load: int = 0
    has_same_sales: bool = False

    def covers(self, found: "ShownDoubts") -> bool:
        """Return whether each doubt that was found was shown, and concerned at least as many records."""
        shown = {(doubt.measure, doubt.field): doubt.count for doubt in self.doubts}
        for doubt in found.doubts:
            count = shown.get((doubt.measure, doubt.field))
            if count is None or doubt.count > count:
                return False
        are_replaced_shown = (
            found.moved <= self.moved and found.others <= self.others and found.incomplete <= self.incomplete
        )
        is_same_shown = found.same_load in (0, self.same_load) and found.has_same_sales <= self.has_same_sales
        return are_replaced_shown and is_same_shown


NO_DOUBTS = ShownDoubts()


def shown_doubts(doubts: list[DeliveryDoubt], guard: ReplacementGuard) -> ShownDoubts:
    """Return the doubts of a check. Bills that raise none, because they are few, are not among them."""
    if not any(doubt.measure == "replaced" for doubt in doubts):
        return ShownDoubts(tuple(doubts))
    return ShownDoubts(
        tuple(doubts),
        moved=guard.moved,
        others=guard.others - guard.incomplete,
        incomplete=guard.incomplete,
        same_load=guard.same_load,
        has_same_sales=guard.has_same_sales,
    )


class AcceptedRecords(Struct, frozen=True):
    """The records that were accepted, and the doubts about them that were shown."""

    digest: str
    size: int
    shown: ShownDoubts = NO_DOUBTS
    compared_with: str = ""
    """The state of the store with which they were compared, or an empty string if the store had nothing."""
    compared: int | None = None
    """Which share of them a watcher has compared with the store so far, in percent, once it has begun."""


def accepted_item(name: str, records: AcceptedRecords | None = None) -> OpenItem:
    """Return the item of a file that was accepted in the console and is loaded under this name.

    `records` are given if a watcher loads them.
    """
    accepted = records.digest + _ACCEPTED + json.encode(records).decode() if records else ""
    return OpenItem(identity=f"accepted {name}", kind="not_begun", files={name: 0}, digest=accepted)


def with_compared(item: OpenItem, records: AcceptedRecords, percent: int) -> OpenItem:
    """Return the item of accepted records that says how much of them is compared."""
    noted = replace(records, compared=percent)
    return replace(item, digest=records.digest + _ACCEPTED + json.encode(noted).decode())


def accepted_records(item: OpenItem) -> AcceptedRecords | None:
    """Return what was accepted. Of an item that is closed, the comparison and its doubts do not count any more."""
    _, _, text = item.digest.partition(_ACCEPTED)
    if item.kind != "not_begun" or not text:
        return None
    try:
        records = json.decode(text, type=AcceptedRecords)
    except DecodeError:
        return None
    return replace(records, shown=NO_DOUBTS, compared_with="") if item.closed_by else records
