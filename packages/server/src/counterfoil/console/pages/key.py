"""One key: forms to change it, its usage over 400 days, the state of its copy, its errors, disclosures and audit."""

from collections.abc import Sequence
from typing import ClassVar, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from counterfoil.console.charts import Use, read_use
from counterfoil.console.key_parts import ScopeNames, loaded_shops, scope_names
from counterfoil.console.visit import ConsolePage, NotFound, Visit
from counterfoil.domain.access import DAILY_TOTAL_DAYS, Key, successors_of
from counterfoil.domain.audit import AuditEntry
from counterfoil.key_issuing import MAX_LABEL_LENGTH, MAX_LIMIT
from counterfoil.model.calendar import DAY_MS, HOUR_MS, days_until, iso_utc, thai_day
from counterfoil.program.columns import ListColumn, RowList, console_json
from counterfoil.request_reads import DayOfKey, ErrorGroup, HourOfKey, RecordedRequest, RequestFilter
from counterfoil.views.audit import COLUMNS as AUDIT
from counterfoil.views.copies import CopyRow, copy_rows
from counterfoil.views.keys import ERRORS, columns, key_days, revoked_at
from counterfoil.views.requests import disclosures

HOURS_DAYS = 7
MOST_DISCLOSURES, MOST_AUDIT = 10, 10
ERROR_DAYS = 30
# How long the old key can stay valid after a rotation, in milliseconds. None means until it is revoked.
OVERLAPS: Final = {"keep": None, "1h": HOUR_MS, "1d": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS}
TABS: Final = ("use", "copy", "errors", "audit")
# What forms do.
ACTIONS: Final = ("change", "rotate", "revoke")
HOURS: Sequence[ListColumn[HourOfKey]] = (ListColumn("at", kind="time"), ListColumn("requests"), ListColumn("errors"))


class OneKeyView(Struct, frozen=True, kw_only=True):
    key: Key
    successors: list[str]
    last_used: int | None
    use: Use
    days: list[DayOfKey]
    hours: RowList[HourOfKey]
    errors: RowList[ErrorGroup]
    copies: list[CopyRow]
    disclosures: RowList[RecordedRequest]
    audit: RowList[AuditEntry]
    names: ScopeNames
    # The part of the page that is shown: one of TABS, or the form of an action.
    tab: str
    can_change: bool

    error_days: ClassVar[int] = ERROR_DAYS
    longest_label: ClassVar[int] = MAX_LABEL_LENGTH
    most: ClassVar[int] = MAX_LIMIT

    @property
    def today(self) -> DayOfKey:
        return self.days[-1]

    @property
    def version(self) -> str:
        return key_version(self.key, self.successors)

    def ended_at(self, now: int) -> int | None:
        return revoked_at(self.key, now)

    def can_be_revoked_later(self, now: int) -> bool:
        return self.key.revokes_at is None or self.key.revokes_at > now + DAY_MS


def find(visit: Visit) -> tuple[Key, list[str]]:
    keys = visit.store.reads.keys()
    key_id = visit.values["key_id"]
    found = next((key for key in keys if key.key_id == key_id), None)
    if found is None:
        raise NotFound(visit.t.gettext("There is no key %(key_id)s in this store.", key_id=key_id))
    return found, [key.key_id for key in successors_of(keys, key_id)]


def read(visit: Visit) -> OneKeyView:
    key, successors = find(visit)
    today = thai_day(visit.now)
    span = days_until(today, DAILY_TOTAL_DAYS)
    disclosed = RequestFilter(key_id=key.key_id, personal_data=True)
    reads = visit.store.reads
    can_change = visit.is_operator and not key.is_revoked(visit.now)
    return OneKeyView(
        key=key,
        successors=successors,
        last_used=reads.last_used().get(key.key_id),
        use=read_use(visit, "30d", key.key_id),
        days=key_days(reads, key.key_id, span),
        hours=RowList(HOURS, reads.hours(key.key_id, visit.now - HOURS_DAYS * DAY_MS)),
        errors=RowList(ERRORS, reads.errors(visit.now - ERROR_DAYS * DAY_MS, key.key_id)),
        copies=copy_rows(key, reads.copies().get(key.lineage, []), loaded_shops(visit), visit.now),
        disclosures=RowList(disclosures({key.key_id: key.label}), reads.requests(disclosed, MOST_DISCLOSURES).requests),
        audit=RowList(AUDIT, reads.audit(MOST_AUDIT, key.key_id)),
        names=scope_names(visit),
        tab=_tab(visit.query.get("tab", ""), can_change=can_change),
        can_change=can_change,
    )


def show_form(view: OneKeyView, action: str) -> OneKeyView:
    """Return the view with the form of an action, if there is such a form and the key can still be changed."""
    return replace(view, tab=_tab(action, can_change=view.can_change))


def _tab(wanted: str, *, can_change: bool) -> str:
    shown = (*TABS, *ACTIONS) if can_change else TABS
    return wanted if wanted in shown else TABS[0]


def as_json(visit: Visit, view: OneKeyView) -> dict[str, object]:
    last_used = None if view.last_used is None else iso_utc(view.last_used)
    not_shown = ("last_used", "names", "tab", "can_change")
    others = {name: value for name, value in asdict(view).items() if name not in not_shown}
    return {**others, "key": console_json(columns(visit.now), view.key), "lastUsed": last_used}


def key_version(key: Key, successors: list[str]) -> str:
    """Return the values of a key as one string. A form sends it back, so that changes made meanwhile are noticed."""
    values = (key.label, key.per_min, key.per_day, key.personal_data, key.messaging_lookup)
    return "|".join(map(str, (*values, key.revokes_at, key.revoked_at, len(successors))))


PAGE = ConsolePage(name="keys", template="key", read=read, as_json=as_json)
