"""Keys: the active keys with their usage, and cards that select revoked keys and keys that need attention."""

from datetime import datetime, timedelta

from msgspec import Struct

from counterfoil.checks.copies import CopySummary, copy_rows, summary
from counterfoil.console.charts import spark
from counterfoil.console.display import (
    PageColumn,
    ago,
    badge,
    csv_time,
    number,
    percent,
    table,
    utc_time,
)
from counterfoil.console.pages.copies import copy_badge, loaded_shops
from counterfoil.console.pages.key_facts import (
    WARNINGS,
    KeyView,
    WeekOfKey,
    key_name,
    key_view,
    state_badge,
    week_of,
)
from counterfoil.console.pages.scopes import ScopeNames, scope_label, scope_names
from counterfoil.console.visit import ConsolePage, CsvExport, PageContent, Visit
from counterfoil.domain.access import Key, key_warnings, permissions
from counterfoil.domain.calendar import days_until, thai_day
from counterfoil.web.html import Html, element, markup

WEEK = 7
COPY_BEHIND = "copy_behind"
# The cards about keys that need attention.
ATTENTION = (COPY_BEHIND, *WARNINGS)
SHOWN = ("active", "revoked", *ATTENTION)


class KeyRow(Struct, frozen=True, kw_only=True, rename="camel"):
    key: KeyView
    last_used: datetime | None
    week: list[int]
    errors: int
    warnings: list[str]
    copy: CopySummary


class KeysView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The data of the page. `show` is the selected card, and `counts` has the number of keys for each card."""

    show: str
    counts: dict[str, int]
    keys: list[KeyRow]


class _FoundKey(Struct, frozen=True):
    """A key with its usage, the names of the cards that it belongs to, and the state of its copy."""

    key: Key
    week: WeekOfKey
    warnings: list[str]
    copy: CopySummary

    @property
    def cards(self) -> list[str]:
        is_behind = self.copy.state not in (None, "fresh")
        return [COPY_BEHIND, *self.warnings] if is_behind else self.warnings


def _collect(visit: Visit) -> list[_FoundKey]:
    today = thai_day(visit.now)
    span = days_until(today, WEEK)
    with visit.store.reads() as reads:
        days = reads.days(today - timedelta(days=WEEK - 1), today)
        last_used, last_disclosed = reads.last_used(), reads.last_disclosed()
        copies = reads.all_copies()
    shops = loaded_shops(visit) if copies else None
    found = []
    for key in visit.store.all_keys():
        week = week_of(key, days, span, last_used, last_disclosed)
        warnings = [warning.value for warning in key_warnings(key, week.use, visit.now)]
        # A revoked key cannot read anything, so the state of its copy does not matter.
        read = copies.get(key.lineage, []) if not key.is_revoked(visit.now) else []
        rows = copy_rows(key, read, shops, visit.now) if read else []
        found.append(_FoundKey(key, week, warnings, summary(rows)))
    return found


def read(visit: Visit) -> KeysView:
    wanted = visit.query.get("show", "active")
    show = wanted if wanted in SHOWN else "active"
    found = _collect(visit)
    counts = {name: sum(name in one.cards for one in found) for name in ATTENTION}
    counts["revoked"] = sum(one.key.is_revoked(visit.now) for one in found)
    counts["active"] = len(found) - counts["revoked"]
    rows = [
        KeyRow(
            key=key_view(one.key, visit.now),
            last_used=utc_time(one.week.use.last_used),
            week=one.week.week,
            errors=one.week.errors,
            warnings=one.warnings,
            copy=one.copy,
        )
        for one in found
        if _is_shown(show, one.key, one.cards, visit.now)
    ]
    rows.sort(key=lambda row: (-sum(row.week), row.key.label.lower(), row.key.key_id))
    return KeysView(show=show, counts=counts, keys=rows)


def _is_shown(show: str, key: Key, about: list[str], now: int) -> bool:
    if show in ("active", "revoked"):
        return key.is_revoked(now) is (show == "revoked")
    return show in about


# --- drawing -------------------------------------------------------------------------


def draw(visit: Visit, view: KeysView) -> PageContent:
    t = visit.t
    issue = element("p", element("a", t("keys.issue"), href="/keys/new", class_="button"), class_="buttons")
    return PageContent(
        title=t("keys.title"),
        lead=issue,
        main=markup(_cards(visit, view), _table(visit, view)),
        command=f"counterfoil keys list{' --active' if view.show == 'active' else ''}",
        more_commands=("counterfoil usage",),
        command_text=None if view.show == "active" else t("keys.command_all"),
    )


def _cards(visit: Visit, view: KeysView) -> Html:
    t = visit.t
    cards = [
        element(
            "li",
            element(
                "a",
                element("strong", number(view.counts[name])),
                " ",
                t(f"keys.filter.{name}"),
                href="/keys" if name == "active" else f"/keys?show={name}",
                aria_current="true" if name == view.show else None,
            ),
            class_="warn" if name in ATTENTION and view.counts[name] else None,
        )
        for name in SHOWN
    ]
    return element("ul", cards, class_="cards", aria_label=t("keys.cards"))


def _table(visit: Visit, view: KeysView) -> Html:
    t = visit.t
    columns = (
        PageColumn(t("key")),
        PageColumn(t("keys.scope")),
        PageColumn(t("keys.copy")),
        PageColumn(t("keys.last_used")),
        PageColumn(t("keys.week"), is_number=True),
        PageColumn(t("keys.errors"), is_number=True),
        PageColumn(t("keys.quota"), is_number=True),
        PageColumn(t("state")),
    )
    known = {key.key_id: key for key in visit.store.all_keys()}
    names = scope_names(visit)
    rows = [_row(visit, row, known[row.key.key_id], names) for row in view.keys if row.key.key_id in known]
    return table(t(f"keys.filter.{view.show}.caption"), columns, rows, empty=t("keys.none"))


def _row(visit: Visit, row: KeyRow, key: Key, names: ScopeNames) -> tuple[Html | str, ...]:
    t = visit.t
    total = sum(row.week)
    return (
        key_name(t, key),
        markup(scope_label(t, names, key.scope), [[" ", badge(t(f"permission.{name}"))] for name in permissions(key)]),
        copy_badge(t, row.copy),
        ago(t, row.last_used, visit.now),
        markup(spark(row.week), " ", number(total)),
        percent(row.errors, total),
        markup(number(row.week[-1]), element("small", f" / {key.per_day:,}")),
        markup(
            state_badge(t, key, visit.now),
            [[" ", badge(t(f"key_warning.{name}"), "warn")] for name in row.warnings],
        ),
    )


def csv(_: Visit, view: KeysView) -> CsvExport:
    columns = (
        "key_id",
        "label",
        "scope_kind",
        "scope_id",
        "permissions",
        "per_min",
        "per_day",
        "created_utc",
        "revoked",
        "revoked_utc",
        "revokes_utc",
        "successor_of",
        "last_used_utc",
        "requests_today",
        "requests_7_days",
        "errors_7_days",
        "warnings",
        "copy",
    )
    return CsvExport("keys", columns, [_csv_row(row, row.key) for row in view.keys])


def _csv_row(row: KeyRow, key: KeyView) -> tuple[object, ...]:
    return (
        key.key_id,
        key.label,
        key.scope_kind,
        key.scope_id,
        " ".join(key.permissions),
        key.per_min,
        key.per_day,
        csv_time(key.created_at),
        "yes" if key.revoked else "no",
        csv_time(key.revoked_at),
        csv_time(key.revokes_at),
        key.successor_of or "",
        csv_time(row.last_used),
        row.week[-1],
        sum(row.week),
        row.errors,
        " ".join(row.warnings),
        row.copy.state or "",
    )


PAGE = ConsolePage(name="keys", read=read, draw=draw, csv=csv)
