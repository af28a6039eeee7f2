"""One key: its usage over 400 days, its errors, the state of its copy, disclosures, audit, and forms to change it."""

from datetime import date, datetime

from msgspec import Struct

from counterfoil.checks.copies import CopyRow, copy_rows
from counterfoil.checks.key_days import KeyDay, key_days
from counterfoil.console.charts import Bar, ChartWords, bar_chart, meter_bar
from counterfoil.console.display import (
    PageColumn,
    ago,
    day_name,
    fields,
    key_link,
    moment,
    month_name,
    name_of,
    number,
    section,
    table,
    tile,
    tiles,
    translated,
    utc_time,
)
from counterfoil.console.pages import key_forms
from counterfoil.console.pages.audit import AuditRow, audit_rows, audit_table
from counterfoil.console.pages.copies import copies_section, copy_tile, loaded_shops
from counterfoil.console.pages.key_facts import KeyView, key_view, permission_names, state_badge
from counterfoil.console.pages.not_found import NotFound
from counterfoil.console.pages.scopes import scope_label, scope_names
from counterfoil.console.texts import Texts
from counterfoil.console.visit import ConsolePage, PageContent, Visit
from counterfoil.domain.access import DAILY_TOTAL_DAYS, Key, successors_of
from counterfoil.domain.calendar import DAY_MS, HOUR_MS, THAI_OFFSET, THAI_TIME, days_until, thai_day
from counterfoil.domain.problems import what_to_do
from counterfoil.operator_reads import HourOfKey, RequestFilter
from counterfoil.web.html import Html, element, markup

HOURS_DAYS = 7
MOST_DISCLOSURES, MOST_AUDIT = 10, 10
# The daily chart begins on the first day with a request, but covers at least this many days.
LEAST_DAYS = 30
# A chart with at least this many days names the months instead of the days.
MONTHS_FROM = 90
ERROR_DAYS = 30


class KeyHour(Struct, frozen=True, rename="camel"):
    at: datetime | None
    requests: int
    errors: int


class ErrorOfKey(Struct, frozen=True, rename="camel"):
    error: str
    route: str
    count: int
    last_at: datetime | None
    action: str


class DisclosureRow(Struct, frozen=True, rename="camel"):
    at: datetime | None
    request_id: str | None
    route: str
    base: str | None
    members: int


class OneKeyView(Struct, frozen=True, kw_only=True, rename="camel"):
    key: KeyView
    successors: list[str]
    last_used: datetime | None
    days: list[KeyDay]
    hours: list[KeyHour]
    errors: list[ErrorOfKey]
    copies: list[CopyRow]
    disclosures: list[DisclosureRow]
    audit: list[AuditRow]

    @property
    def today(self) -> KeyDay:
        return self.days[-1]


def find(visit: Visit) -> tuple[Key, list[str]]:
    """Return the key that the path names, and the IDs of its direct successors."""
    keys = visit.store.all_keys()
    key_id = visit.values["key_id"]
    found = next((key for key in keys if key.key_id == key_id), None)
    if found is None:
        raise NotFound(visit.t("key.missing", key_id=key_id))
    return found, [key.key_id for key in successors_of(keys, key_id)]


def read(visit: Visit) -> OneKeyView:
    key, successors = find(visit)
    today = thai_day(visit.now)
    span = days_until(today, DAILY_TOTAL_DAYS)
    with visit.store.reads() as reads:
        days = key_days(reads.days(span[0], today, key.key_id), span)
        hours = reads.hours(key.key_id, _first_hour(visit.now))
        groups = reads.errors(visit.now - ERROR_DAYS * DAY_MS, key.key_id)
        last_used = reads.last_used().get(key.key_id)
        copies = reads.copies(key.lineage)
        disclosed = reads.requests(RequestFilter(key_id=key.key_id, personal_data=True), MOST_DISCLOSURES).requests
    return OneKeyView(
        key=key_view(key, visit.now),
        successors=successors,
        last_used=utc_time(last_used),
        days=days,
        hours=_hours(hours, visit.now),
        errors=[
            ErrorOfKey(one.error, one.route, one.count, utc_time(one.last_at), str(what_to_do(one.error)))
            for one in groups
        ],
        copies=copy_rows(key, copies, loaded_shops(visit), visit.now),
        disclosures=[
            DisclosureRow(utc_time(one.at), one.request_id, one.route, one.personal_base, one.personal_members)
            for one in disclosed
        ],
        audit=audit_rows(visit.store.audit(MOST_AUDIT, key.key_id)),
    )


def _first_hour(now: int) -> int:
    """Return the beginning of the first hour that is shown, in milliseconds since 1970."""
    return (now + THAI_OFFSET) // HOUR_MS * HOUR_MS - THAI_OFFSET - (HOURS_DAYS * 24 - 1) * HOUR_MS


def _hours(found: list[HourOfKey], now: int) -> list[KeyHour]:
    known = {one.at: one for one in found}
    starts = range(_first_hour(now), now + 1, HOUR_MS)
    empty = HourOfKey(0, 0, 0)
    return [
        KeyHour(utc_time(start), known.get(start, empty).requests, known.get(start, empty).errors) for start in starts
    ]


# --- drawing -------------------------------------------------------------------------


def draw(visit: Visit, view: OneKeyView) -> PageContent:
    return draw_with(visit, view, None)


def draw_with(visit: Visit, view: OneKeyView, message: Html | None) -> PageContent:
    """Return the page, with a message about the result of an action if there is one."""
    key, successors = find(visit)
    t = visit.t
    return PageContent(
        title=name_of(key.label) if key.label else key.key_id,
        lead=message,
        main=markup(
            _facts(visit, key, view),
            _tiles(visit, view),
            _use(visit, view),
            copies_section(visit, view.copies),
            _errors(visit, view),
            _disclosures(visit, key, view),
            section(t("audit.title"), audit_table(visit, view.audit, with_key=False)),
            None
            if key.is_revoked(visit.now)
            else key_forms.all_forms(visit, key, successors, view.today.requests, view.last_used),
        ),
        command=f"counterfoil keys show {key.key_id}",
        more_commands=(
            f"counterfoil usage {key.key_id} --days {DAILY_TOTAL_DAYS}",
            f"counterfoil usage {key.key_id} --disclosures",
            f"counterfoil requests --key {key.key_id}",
            f"counterfoil audit {key.key_id}",
        ),
    )


def _facts(visit: Visit, key: Key, view: OneKeyView) -> Html:
    t = visit.t
    pairs: list[tuple[str, Html | str | list[Html | str]]] = [
        (t("key.id"), element("code", key.key_id)),
        (t("scope"), scope_label(t, scope_names(visit), key.scope)),
        (t("key.limits"), t("key.limits_value", per_min=f"{key.per_min:,}", per_day=f"{key.per_day:,}")),
        (t("key.permissions"), permission_names(t, key)),
        (t("key.issued"), moment(view.key.created_at)),
        (t("state"), state_badge(t, key, visit.now)),
    ]
    if view.key.revoked_at:
        pairs.append((t("key.revoked_at"), moment(view.key.revoked_at)))
    if view.key.revokes_at:
        pairs.append((t("key.revokes_at"), moment(view.key.revokes_at)))
    if key.successor_of:
        pairs.append((t("key.successor_of"), key_link(key.successor_of)))
    if view.successors:
        pairs.append((t("key.successors"), markup([[key_link(one), " "] for one in view.successors])))
    return fields(pairs)


def _tiles(visit: Visit, view: OneKeyView) -> Html:
    t, today = visit.t, view.today
    week = view.days[-7:]
    refused = today.rate_limited + today.refused
    return tiles(
        tile(
            t("key.today"),
            number(today.requests),
            markup(meter_bar(today.requests / view.key.per_day), " ", t("key.of_quota", quota=f"{view.key.per_day:,}")),
        ),
        tile(
            t("key.week"),
            number(sum(day.requests for day in week)),
            t("key.week_errors", count=number(sum(day.errors for day in week))),
        ),
        tile(
            t("keys.last_used"),
            ago(t, view.last_used, visit.now),
            moment(view.last_used) if view.last_used else t("key.never"),
        ),
        copy_tile(visit, view.copies),
        tile(t("key.refused"), number(refused), t("key.refused_note"), "warn" if refused else ""),
    )


def _use(visit: Visit, view: OneKeyView) -> Html:
    t = visit.t
    shown = _days_with_data(view.days)
    if not any(day.requests for day in shown):
        return section(t("key.use"), element("p", t("key.no_requests"), class_="empty"))
    axis = _month_label if len(shown) >= MONTHS_FROM else day_name
    days = [Bar(day.day.isoformat(), axis(t, day.day), day.requests, day.errors) for day in shown]
    hours = [Bar(*_hour_labels(t, hour.at), hour.requests, hour.errors) for hour in view.hours]
    caption = t("key.days", count=len(shown))
    return section(
        t("key.use"),
        bar_chart(t, ChartWords(caption, t("day"), t("requests"), t("errors")), days),
        bar_chart(t, ChartWords(t("key.hours"), t("hour"), t("requests"), t("errors")), hours)
        if any(hour.requests for hour in view.hours)
        else element("p", t("key.no_recent_requests", days=HOURS_DAYS), class_="empty"),
    )


def _days_with_data(days: list[KeyDay]) -> list[KeyDay]:
    """Return the days from the first day with a request to today, but at least the last LEAST_DAYS days."""
    first = next((position for position, day in enumerate(days) if day.requests), len(days))
    return days[min(first, max(0, len(days) - LEAST_DAYS)) :]


def _month_label(t: Texts, day: date) -> str:
    """Return the label of a day on the axis: the month and year for the first day of a month, otherwise nothing."""
    return month_name(t, day) if day.day == 1 else ""


def _hour_labels(t: Texts, time: datetime | None) -> tuple[str, str]:
    """Return the label of an hour for the table, and its label for the axis, where only midnight has a label."""
    if time is None:
        return "", ""
    local = time.astimezone(THAI_TIME)
    return f"{local:%Y-%m-%d %H:%M}", "" if local.hour else day_name(t, local)


def _errors(visit: Visit, view: OneKeyView) -> Html:
    t = visit.t
    columns = (
        PageColumn(t("error")),
        PageColumn(t("route")),
        PageColumn(t("count"), is_number=True),
        PageColumn(t("last")),
        PageColumn(t("errors.action")),
    )
    rows = [
        (
            element("a", element("code", one.error), href=f"/requests?key={view.key.key_id}&error={one.error}"),
            element("code", one.route),
            number(one.count),
            ago(t, one.last_at, visit.now),
            translated(t, what_to_do(one.error)),
        )
        for one in view.errors
    ]
    caption = t("errors.caption", days=ERROR_DAYS)
    return section(t("errors.title"), table(caption, columns, rows, empty=t("errors.none", days=ERROR_DAYS)))


def _disclosures(visit: Visit, key: Key, view: OneKeyView) -> Html | None:
    t = visit.t
    if not key.personal_data and not view.disclosures:
        return None
    columns = (
        PageColumn(t("time")),
        PageColumn(t("route")),
        PageColumn(t("base")),
        PageColumn(t("personal.members"), is_number=True),
    )
    rows = [
        (moment(one.at), element("code", one.route), name_of(one.base), number(one.members)) for one in view.disclosures
    ]
    all_of_them = element("p", element("a", t("personal.all_of_key"), href=f"/personal-data?key={key.key_id}"))
    return section(
        t("personal.title"), table(t("personal.caption"), columns, rows, empty=t("personal.none")), all_of_them
    )


PAGE = ConsolePage(name="keys", read=read, draw=draw)
