"""Open items: how the operator closes them, and the findings about those that wait."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC
from textwrap import shorten

from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.checks.findings import Finding, FindingKind
from counterfoil.domain.audit import Act, Actor, AuditEntry
from counterfoil.domain.open_items import Closing, Kind, OpenItem, Verb, joined
from counterfoil.model.calendar import from_ms
from counterfoil.model.messages import duration
from counterfoil.settings import Settings

# What is recorded about each way to close an item, and the result.
VERBS: dict[Verb, tuple[Act, Closing]] = {
    "resolve": (Act.ITEMS_RESOLVED, "resolved"),
    "accept": (Act.DELIVERY_ACCEPTED, "accepted"),
    "discard": (Act.DELIVERY_DISCARDED, "discarded"),
}
# A finding names the latest items of a kind, but no more than so many, in so many characters.
MOST_NAMED, MAX_CHARACTERS = 3, 120


def close_by_hand(settings: Settings, verb: Verb, items: Sequence[OpenItem], actor: Actor, now: int) -> list[OpenItem]:
    """Close items, or record that held files are accepted, and return those that were still open.

    Without the audit entry, nothing is changed.
    """
    act, result = VERBS[verb]
    changed = []
    for item in items:
        for part in item.parts:
            if verb == "accept":
                changed.append(replace(part, decision="accepted"))
            else:
                changed.append(replace(part, closed_by=result))
    titles = "; ".join(item.title for item in items)
    with closing(bootstrap.store(settings).key_store()) as audit:
        audit.record(AuditEntry(at=now, act=act, actor=actor, detail=titles))
    with closing(bootstrap.store(settings).ledger()) as ledger:
        were_open = {part.identity for part in ledger.change_items(changed)}
    return [item for item in items if any(part.identity in were_open for part in item.parts)]


NOTHING_WAITING = FindingKind(
    code="nothing_waiting",
    check="items",
    status="ok",
    text="No rejected lines and no quarantined or held files are waiting.",
)
ITEMS_REJECTS = FindingKind(
    code="items_rejects",
    check="items",
    status="warn",
    text="Still rejected: {lines:line} of {count:load}, the oldest for {span}. Latest: {latest}.",
    advice="Run `counterfoil loads open` for the files and `counterfoil loads LOAD` for the reasons. Fix the cause, "
    "then load the rejects file. If you get the records in another way, run `counterfoil loads resolve ITEM`.",
)
ITEMS_QUARANTINED = FindingKind(
    code="items_quarantined",
    check="items",
    status="warn",
    text="In quarantine: {count:file}, the oldest for {span}. Latest: {latest}.",
    advice="Run `counterfoil loads open` for the files and the reasons. Deliver a repaired file, then run `counterfoil "
    "loads resolve ITEM`.",
)
ITEMS_NEEDS_ANSWERS = FindingKind(
    code="items_needs_answers",
    check="items",
    status="warn",
    text="Exports that need answers, and are not served: {count:file}, the oldest for {span}. Latest: {latest}.",
    advice="Run `counterfoil loads open` for their items, then `counterfoil import --item ITEM` on a terminal. It "
    "asks, loads the file, and lets the watcher read such files by itself.",
)
ITEMS_HELD = FindingKind(
    code="items_held",
    check="items",
    status="warn",
    text="Held because of a sudden change, and not served: {count:file}, the oldest for {span}. Latest: {latest}.",
    advice="Run `counterfoil loads open` for the files and the alarms. Check the POS export, then run `counterfoil "
    "loads accept ITEM` or `counterfoil loads discard ITEM`, or `counterfoil loads resolve ITEM` if the file is gone.",
)
ITEMS_UNFINISHED = FindingKind(
    code="items_unfinished",
    check="items",
    status="warn",
    text="Not finished, and not loaded again since: {count:load}, the oldest {span} ago. Latest: {latest}.",
    advice="Run `counterfoil loads open` for their sources. Run the same `counterfoil load` again; records that are "
    "already loaded are skipped. If you do not need the rest, run `counterfoil loads resolve ITEM`.",
)
ITEMS_NOT_BEGUN = FindingKind(
    code="items_not_begun",
    check="items",
    status="warn",
    text="Accepted in the console, but not loaded: {count:file}, the oldest for {span}. Latest: {latest}.",
    advice="Nothing of them is loaded. If the watcher of the folder has stopped, start it. If the files are not in the "
    "folder, bring them in again, then run `counterfoil loads resolve ITEM`.",
)
# The findings about each kind of items, in the order in which they are shown.
OF_KIND: dict[Kind, FindingKind] = {
    "rejects": ITEMS_REJECTS,
    "quarantined": ITEMS_QUARANTINED,
    "needs_answers": ITEMS_NEEDS_ANSWERS,
    "held": ITEMS_HELD,
    "unfinished": ITEMS_UNFINISHED,
    "not_begun": ITEMS_NOT_BEGUN,
}


def open_item_findings(items: Sequence[OpenItem], now: int) -> Iterator[Finding]:
    """Yield a warning for each kind of items that wait, or one `ok` finding if there are none."""
    due = [item for item in joined(items) if item.is_due(now)]
    if not due:
        yield NOTHING_WAITING()
    for kind, finding in OF_KIND.items():
        of_kind = [item for item in due if item.kind == kind]
        if of_kind:
            since = min(item.opened_at for item in of_kind)
            yield finding(
                subject=kind,
                since=from_ms(since, UTC),
                ids=[str(item.number) for item in of_kind],
                count=sum(len(item.parts) for item in of_kind),
                lines=sum(item.lines or 0 for item in of_kind),
                span=duration(now - since),
                latest=_latest(of_kind),
            )


def _latest(items: Sequence[OpenItem]) -> str:
    """Return the files of the latest items and why they are open, without the full stop at the end."""
    newest = sorted(items, key=lambda item: item.number, reverse=True)
    texts = [_source_or_reason(item).rstrip(".") for item in newest[:MOST_NAMED]]
    return shorten("; ".join(texts), MAX_CHARACTERS, placeholder=" …")


def _source_or_reason(item: OpenItem) -> str:
    if item.kind in ("rejects", "needs_answers", "not_begun"):
        return item.source
    # The reason why a file is kept begins with its name.
    return item.reason or item.source
