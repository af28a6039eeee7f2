"""Open items: how the operator closes them, and the findings about those that wait."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC
from textwrap import shorten

from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.checks.findings import Finding, finding
from counterfoil.domain.audit import Act, Actor, AuditEntry
from counterfoil.domain.open_items import KINDS, Closing, OpenItem, Verb
from counterfoil.model.calendar import from_ms
from counterfoil.model.messages import duration
from counterfoil.settings import Settings

# What is recorded about each way to close an item, and the result.
VERBS: dict[Verb, tuple[Act, Closing]] = {
    "resolve": (Act.ITEMS_RESOLVED, "resolved"),
    "accept": (Act.DELIVERY_ACCEPTED, "accepted"),
    "discard": (Act.DELIVERY_DISCARDED, "discarded"),
}
# A finding tells the latest items of a kind, but no more than so many, in so many characters.
MOST_TOLD, MAX_TOLD = 3, 120
_CODES = ("items_rejects", "items_quarantined", "items_needs_answers", "items_held", "items_unfinished")


def close_by_hand(settings: Settings, verb: Verb, items: Sequence[OpenItem], actor: Actor, now: int) -> list[OpenItem]:
    """Close items, or record that held files are accepted. Without the audit entry, nothing is changed."""
    act, result = VERBS[verb]
    changed = [
        replace(item, decision="accepted") if verb == "accept" else replace(item, closed_by=result) for item in items
    ]
    with closing(bootstrap.store(settings).key_store()) as audit:
        audit.record(AuditEntry(at=now, act=act, actor=actor, detail="; ".join(item.title for item in items)))
    with closing(bootstrap.store(settings).ledger()) as ledger:
        return ledger.change_items(changed)


def open_item_findings(items: Sequence[OpenItem], now: int) -> Iterator[Finding]:
    """Yield a warning for each kind of items that wait, or one `ok` finding if there are none."""
    if not items:
        yield finding("nothing_waiting")
    for kind, code in zip(KINDS, _CODES, strict=True):
        if of_kind := [item for item in items if item.kind == kind]:
            since = min(item.opened_at for item in of_kind)
            yield finding(
                code,
                subject=kind,
                since=from_ms(since, UTC),
                ids=[str(item.number) for item in of_kind],
                count=len(of_kind),
                lines=sum(item.lines or 0 for item in of_kind),
                span=duration(now - since),
                latest=_latest(of_kind),
            )


def _latest(items: Sequence[OpenItem]) -> str:
    """Return the files of the latest items and why they are open, without the full stop at the end."""
    newest = sorted(items, key=lambda item: item.number, reverse=True)
    told = [_told(item).rstrip(".") for item in newest[:MOST_TOLD]]
    return shorten("; ".join(told), MAX_TOLD, placeholder=" …")


def _told(item: OpenItem) -> str:
    if item.kind == "rejects" and item.reason:
        return f"{item.source} ({item.reason})"
    # The reason why a file is kept begins with its name.
    return item.reason or item.source
