"""Audit: who changed keys or the store, what changed, and when, from the command line and from the console."""

import shlex

from msgspec import Struct

from counterfoil.console.key_parts import ScopeNames, scope_names
from counterfoil.console.visit import ConsolePage, Visit
from counterfoil.domain.audit import AuditEntry
from counterfoil.program.columns import RowList
from counterfoil.views.audit import COLUMNS

MOST, MOST_EXPORTED = 5_000, 1_000_000_000


class AuditView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The audit entries on one page. `has_more` is true if there are older entries."""

    key_id: str | None
    limit: int
    has_more: bool
    entries: RowList[AuditEntry]
    names: ScopeNames

    @property
    def most(self) -> int:
        return MOST

    @property
    def command(self) -> str:
        return "counterfoil audit" + (f" {shlex.quote(self.key_id)}" if self.key_id else "")


def read(visit: Visit) -> AuditView:
    key_id = visit.query.get("key") or None
    # To sort and filter, the page needs all entries.
    limit = MOST if visit.query.get("sort") or visit.query.get("filter") else visit.limit(MOST)
    found = visit.store.reads.audit(limit + 1, key_id)
    return AuditView(
        key_id=key_id,
        limit=limit,
        has_more=len(found) > limit,
        entries=RowList(COLUMNS, found[:limit]),
        names=scope_names(visit),
    )


def as_json(_: Visit, view: AuditView) -> dict[str, object]:
    return {"keyId": view.key_id, "limit": view.limit, "hasMore": view.has_more, "entries": view.entries}


PAGE = ConsolePage(
    name="audit",
    template="audit",
    read=read,
    as_json=as_json,
    csv=lambda visit, view: ("audit", RowList(COLUMNS, visit.store.reads.audit(MOST_EXPORTED, view.key_id))),
)
