"""Audit: who changed keys or the store, what changed, and when, from the command line and from the console."""

import shlex
from collections.abc import Iterator
from typing import get_args

from msgspec import Struct

from counterfoil.console.display import Cells, badge, button_link, button_row, list_table, name_of
from counterfoil.console.key_parts import ScopeNames, scope_names, scope_text
from counterfoil.console.layout import notice
from counterfoil.console.texts import TABLE
from counterfoil.console.visit import ConsolePage, PageContent, Visit
from counterfoil.domain.audit import Act, AuditEntry, FieldValue, Via
from counterfoil.program.columns import RowList
from counterfoil.views.audit import COLUMNS, changed_values, value_text
from counterfoil.web.html import Child, Html, element, inline, markup

MOST, MOST_EXPORTED = 5_000, 1_000_000_000
_KINDS: dict[str, str] = {Act.KEY_REVOKED: "bad", Act.REVOCATION_SCHEDULED: "warn", Act.KEY_ISSUED: ""}


class AuditView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The audit entries on one page. `has_more` is true if there are older entries."""

    key_id: str | None
    limit: int
    has_more: bool
    entries: RowList[AuditEntry]


def read(visit: Visit) -> AuditView:
    key_id = visit.query.get("key") or None
    # To sort and filter, the page needs all entries.
    limit = MOST if visit.query.get("sort") or visit.query.get("filter") else visit.limit(MOST)
    found = visit.store.reads.audit(limit + 1, key_id)
    return AuditView(key_id=key_id, limit=limit, has_more=len(found) > limit, entries=RowList(COLUMNS, found[:limit]))


def draw(visit: Visit, view: AuditView) -> PageContent:
    t = visit.t
    all_keys = element("a", t("audit.all"), href="/audit")
    filtered = element("p", t("audit.of_key", key_id=view.key_id), " ", all_keys) if view.key_id else None
    longer = visit.address("/audit", limit=str(view.limit * 2))
    more = button_row(button_link(t("more"), longer)) if view.has_more else None
    if view.has_more and view.limit == MOST:
        more = notice(inline(t("audit.newest", count=f"{MOST:,}")))
    return PageContent(
        title=t("audit.title"),
        lead=element("p", t("audit.lead")),
        main=markup(filtered, audit_table(visit, view.entries), more),
        commands=["counterfoil audit" + (f" {shlex.quote(view.key_id)}" if view.key_id else "")],
    )


def audit_table(visit: Visit, entries: RowList[AuditEntry], *, with_key: bool = True) -> Html:
    t, names = visit.t, scope_names(visit)
    cells: Cells[AuditEntry] = {
        "audit.act": lambda entry: badge(act_name(visit, entry.act), _KINDS.get(entry.act, "quiet")),
        "audit.actor": lambda entry: _actor(visit, entry),
        "audit.changes": lambda entry: _changes(visit, names, entry),
    }
    shown = entries if with_key else RowList([column for column in COLUMNS if column.page != "key"], entries.rows)
    return list_table(visit, t("audit.caption"), shown, cells, empty=t("audit.none"))


def _actor(visit: Visit, entry: AuditEntry) -> Html:
    via, host = _via_name(visit, entry), entry.actor.host
    return markup(name_of(entry.actor.name), " ", element("small", f"{via}, {name_of(host)}" if host else via))


def _changes(visit: Visit, names: ScopeNames, entry: AuditEntry) -> Child:
    changes = [element("li", text) for text in _change_texts(visit, names, entry)]
    return element("ul", changes, class_="changes") if changes else name_of(entry.detail or "–")


def describe_entry(visit: Visit, entry: AuditEntry) -> str:
    """Return a sentence about an entry: what was done, by whom, and what changed, if anything."""
    changes = "; ".join(_change_texts(visit, scope_names(visit), entry)) or entry.detail
    values = {"act": act_name(visit, entry.act), "name": name_of(entry.actor.name), "via": _via_name(visit, entry)}
    if not changes:
        return visit.t("audit.sentence_without_changes", **values)
    return visit.t("audit.sentence", **values, changes=changes)


def _via_name(visit: Visit, entry: AuditEntry) -> str:
    via = entry.actor.via
    return visit.t(f"via.{via}") if via in get_args(Via) else via


def _change_texts(visit: Visit, names: ScopeNames, entry: AuditEntry) -> Iterator[str]:
    """Yield each change with the names of its field, scopes and permissions in the operator's language."""
    for name, values in changed_values(entry):
        text = f"audit_field.{name}"
        shown = " → ".join(_value_text(visit, names, name, value) for value in values)
        yield f"{visit.t(text) if text in TABLE else name_of(name)}: {name_of(shown)}"


def _value_text(visit: Visit, names: ScopeNames, field: str, value: FieldValue) -> str:
    if field == "scope" and isinstance(value, str):
        kind, _, identifier = value.partition(" ")
        return scope_text(visit.t, names, kind, identifier)
    if field == "permissions" and isinstance(value, list):
        texts = {permission: f"permission.{permission}" for permission in value}
        return ", ".join(visit.t(text) if text in TABLE else permission for permission, text in texts.items())
    return value_text(value, "–")


def act_name(visit: Visit, act: str) -> str:
    """Return the name of an audited action. Actions that a newer version has stored may have no text."""
    return visit.t(f"act.{act}") if act in set(Act) else act.replace("_", " ")


PAGE = ConsolePage(
    name="audit",
    read=read,
    draw=draw,
    csv=lambda visit, view: ("audit", RowList(COLUMNS, visit.store.reads.audit(MOST_EXPORTED, view.key_id))),
)
