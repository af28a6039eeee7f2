"""Audit: who changed keys or the store, what changed, and when, from the command line and from the console."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import get_args

from msgspec import Struct

from counterfoil.console.display import PageColumn, badge, csv_time, key_link, moment, name_of, table, utc_time
from counterfoil.console.pages.scopes import ScopeNames, scope_names, scope_text
from counterfoil.console.texts import TABLE
from counterfoil.console.visit import ConsolePage, CsvExport, PageContent, Visit
from counterfoil.domain.audit import Act, AuditEntry, FieldValue, Via
from counterfoil.domain.calendar import iso_utc
from counterfoil.web.html import Child, Html, element, markup

PER_PAGE, MOST = 100, 5_000
_ARROW, _NO_VALUE = " → ", "–"
_KINDS = {Act.KEY_REVOKED: "bad", Act.REVOCATION_SCHEDULED: "warn", Act.KEY_ISSUED: ""}


class AuditRow(Struct, frozen=True, kw_only=True, rename="camel"):
    at: datetime | None
    act: str
    actor: str
    via: str
    host: str
    key_id: str | None
    changes: list[str]
    detail: str


class AuditView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The audit entries on one page. `has_more` is true if there are older entries."""

    key_id: str | None
    limit: int
    has_more: bool
    entries: list[AuditRow]


def audit_rows(entries: Sequence[AuditEntry]) -> list[AuditRow]:
    return [
        AuditRow(
            at=utc_time(entry.at),
            act=entry.act,
            actor=entry.actor.name,
            via=entry.actor.via,
            host=entry.actor.host,
            key_id=entry.key_id,
            changes=_changes(entry),
            detail=entry.detail,
        )
        for entry in entries
    ]


def _changes(entry: AuditEntry) -> list[str]:
    """Return each change as a string. Times that only repeat the time of the entry are left out."""
    return [
        f"{name}: {_text(change.after)}"
        if change.before is None and entry.act != Act.KEY_CHANGED
        else f"{name}: {_text(change.before)}{_ARROW}{_text(change.after)}"
        for name, change in entry.changes.items()
        if change.after != iso_utc(entry.at)
    ]


def _text(value: FieldValue) -> str:
    if value is None:
        return _NO_VALUE
    if isinstance(value, int):
        return f"{value:,}"
    return name_of(value if isinstance(value, str) else " ".join(value))


def read(visit: Visit) -> AuditView:
    key_id = visit.query.get("key") or None
    wanted = visit.query.get("limit", "")
    limit = max(1, min(int(wanted) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 6 else PER_PAGE, MOST))
    found = visit.store.audit(limit + 1, key_id)
    return AuditView(key_id=key_id, limit=limit, has_more=len(found) > limit, entries=audit_rows(found[:limit]))


def draw(visit: Visit, view: AuditView) -> PageContent:
    t = visit.t
    filtered = (
        element("p", t("audit.of_key", key_id=view.key_id), " ", element("a", t("audit.all"), href="/audit"))
        if view.key_id
        else None
    )
    more = (
        element(
            "p",
            element(
                "a",
                t("audit.more"),
                href=visit.address("/audit", limit=str(min(view.limit * 2, MOST))),
                class_="button",
            ),
            class_="buttons",
        )
        if view.has_more and view.limit < MOST
        else None
    )
    return PageContent(
        title=t("audit.title"),
        lead=element("p", t("audit.lead")),
        main=markup(filtered, audit_table(visit, view.entries), more),
        command="counterfoil audit" + (f" {shlex.quote(view.key_id)}" if view.key_id else ""),
    )


def audit_table(visit: Visit, rows: Sequence[AuditRow], *, with_key: bool = True) -> Html:
    t = visit.t
    columns = [PageColumn(t("time")), PageColumn(t("audit.act")), PageColumn(t("audit.actor"))]
    if with_key:
        columns.append(PageColumn(t("key")))
    columns.append(PageColumn(t("audit.changes")))
    names = scope_names(visit)
    drawn = [_cells(visit, row, names, with_key) for row in rows]
    return table(t("audit.caption"), columns, drawn, empty=t("audit.none"))


def describe_entry(visit: Visit, row: AuditRow) -> str:
    """Return a sentence about an entry: what was done, by whom, and what changed.

    A revocation has no changes to describe, because its only change is the time of the entry.
    """
    names = scope_names(visit)
    changes = "; ".join(_change_text(visit, names, change) for change in row.changes) or row.detail
    values = {"act": act_name(visit, row.act), "name": name_of(row.actor), "via": _via_name(visit, row)}
    if not changes:
        return visit.t("audit.sentence_without_changes", **values)
    return visit.t("audit.sentence", **values, changes=changes)


def _via_name(visit: Visit, row: AuditRow) -> str:
    return visit.t(f"via.{row.via}") if row.via in get_args(Via) else row.via


def _cells(visit: Visit, row: AuditRow, names: ScopeNames, with_key: bool) -> list[Child]:
    via = _via_name(visit, row)
    cells: list[Child] = [
        moment(row.at),
        badge(act_name(visit, row.act), _KINDS.get(Act(row.act), "quiet") if row.act in set(Act) else "quiet"),
        markup(name_of(row.actor), " ", element("small", f"{via}{', ' + name_of(row.host) if row.host else ''}")),
    ]
    if with_key:
        cells.append(key_link(row.key_id) if row.key_id else "–")
    changes = [element("li", _change_text(visit, names, change)) for change in row.changes]
    cells.append(element("ul", changes, class_="changes") if changes else name_of(row.detail or "–"))
    return cells


def _change_text(visit: Visit, names: ScopeNames, change: str) -> str:
    """Return a change with the names of its field, scopes and permissions in the operator's language."""
    name, separator, values = change.partition(": ")
    text_name = f"audit_field.{name}"
    if text_name not in TABLE:
        return change
    if name in ("scope", "permissions"):
        values = _ARROW.join(_value_text(visit, names, name, value) for value in values.split(_ARROW))
    return f"{visit.t(text_name)}{separator}{values}"


def _value_text(visit: Visit, names: ScopeNames, field: str, value: str) -> str:
    if value == _NO_VALUE:
        return value
    if field == "scope":
        kind, _, identifier = value.partition(" ")
        return scope_text(visit.t, names, kind, identifier)
    texts = {one: f"permission.{one}" for one in value.split()}
    return ", ".join(visit.t(text) if text in TABLE else one for one, text in texts.items())


def act_name(visit: Visit, act: str) -> str:
    """Return the name of an audited action. Actions that a newer version has stored may have no text."""
    return visit.t(f"act.{act}") if act in set(Act) else act.replace("_", " ")


def csv(visit: Visit, view: AuditView) -> CsvExport:
    rows: list[tuple[object, ...]] = [
        (
            csv_time(row.at),
            row.act,
            row.actor,
            row.via,
            row.host,
            row.key_id or "",
            "; ".join(row.changes) or row.detail,
        )
        for row in audit_rows(visit.store.audit(MOST, view.key_id))
    ]
    return CsvExport("audit", ("time_utc", "act", "actor", "via", "host", "key_id", "changes"), rows)


PAGE = ConsolePage(name="audit", read=read, draw=draw, csv=csv)
