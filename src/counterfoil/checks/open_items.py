"""Looks after open items: which of their files were removed, and the findings about those that still wait."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC
from pathlib import Path

from counterfoil import bootstrap
from counterfoil.checks.findings import Finding, finding
from counterfoil.domain.audit import Act, Actor, AuditEntry
from counterfoil.domain.calendar import from_ms
from counterfoil.domain.messages import duration
from counterfoil.domain.open_items import Decision, Kind, OpenItem, items_detail
from counterfoil.machine.operator import machine_name
from counterfoil.ports import Ledger
from counterfoil.settings import Settings

# What is recorded about each way to close an item, and the decision about a held file.
VERBS: dict[str, tuple[Act, Decision | None]] = {
    "resolve": (Act.ITEMS_RESOLVED, None),
    "accept": (Act.DELIVERY_ACCEPTED, "accepted"),
    "discard": (Act.DELIVERY_DISCARDED, "discarded"),
}
_CODES: dict[Kind, str] = {"rejects": "items_rejects", "quarantined": "items_quarantined", "held": "items_held"}


def path_of(settings: Settings, item: OpenItem) -> Path | None:
    """Return the path of an item's file on this machine, or None if it has no file or is on another machine."""
    if not item.path:
        return None
    if item.place:
        return Path(item.path) if item.place == machine_name() else None
    # Other machines that use the same database have their own folder for rejects.
    return None if settings.database else settings.store / "rejects" / item.path


def removed(settings: Settings, items: Iterable[OpenItem]) -> list[OpenItem]:
    """Return the items whose files somebody has removed, as far as this process can look into their folders."""
    found = []
    names: dict[Path, set[str] | None] = {}
    for item in items:
        # A watcher moves a file about which the operator has decided, and then closes the item itself.
        path = None if item.decision else path_of(settings, item)
        if path:
            if path.parent not in names:
                names[path.parent] = _names_in(path.parent)
            listed = names[path.parent]
            if listed is not None and path.name not in listed:
                found.append(item)
    return found


def _names_in(folder: Path) -> set[str] | None:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - a folder may have very many files
    except OSError:
        return None


def close_removed(settings: Settings, ledger: Ledger) -> list[OpenItem]:
    gone = removed(settings, ledger.open_items())
    return ledger.close_items([item.number for item in gone], "removed") if gone else []


def close_by_hand(settings: Settings, verb: str, items: Sequence[OpenItem], actor: Actor, now: int) -> list[OpenItem]:
    """Close items, or record what is to be done with held files. Without the audit entry, nothing is changed."""
    (act, decision), numbers = VERBS[verb], [item.number for item in items]
    with closing(bootstrap.key_store(settings)) as audit:
        audit.record(AuditEntry(at=now, act=act, actor=actor, detail=items_detail(items)))
    with closing(bootstrap.ledger(settings)) as ledger:
        return ledger.decide_items(numbers, decision) if decision else ledger.close_items(numbers, "resolved")


def waiting(settings: Settings, items: Sequence[OpenItem]) -> list[OpenItem]:
    """Return the items that still wait. Those whose files were removed are closed by the service or the next load."""
    gone = {item.number for item in removed(settings, items)}
    return [item for item in items if item.number not in gone]


def open_item_findings(items: Sequence[OpenItem], now: int) -> Iterator[Finding]:
    """Yield a warning for each kind of items that wait, or one `ok` finding if there are none."""
    if not items:
        yield finding("nothing_waiting")
    for kind, code in _CODES.items():
        of_kind = [item for item in items if item.kind == kind]
        if of_kind:
            since = min(item.opened_at for item in of_kind)
            yield finding(
                code,
                subject=kind,
                since=from_ms(since, UTC),
                amount=len(of_kind),
                count=len(of_kind),
                lines=sum(item.lines or 0 for item in of_kind),
                span=duration(now - since),
            )
