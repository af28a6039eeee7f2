"""One key: forms to change it, its usage over 400 days, the state of its copy, its errors, disclosures and audit."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from counterfoil.console import display
from counterfoil.console.charts import Use, read_use
from counterfoil.console.forms import form, select, text_field
from counterfoil.console.key_parts import copies_section, copy_tile, key_facts, loaded_shops, state_badge
from counterfoil.console.pages.audit import audit_table
from counterfoil.console.pages.requests import disclosure_table
from counterfoil.console.rendering import macro
from counterfoil.console.visit import ConsolePage, NotFound, PageContent, Visit
from counterfoil.domain.access import DAILY_TOTAL_DAYS, Key, successors_of
from counterfoil.domain.audit import AuditEntry
from counterfoil.domain.problems import what_to_do
from counterfoil.key_issuing import MAX_LABEL_LENGTH, MAX_LIMIT
from counterfoil.model.calendar import DAY_MS, HOUR_MS, days_until, iso_utc, thai_day
from counterfoil.operator_reads import DayOfKey, ErrorGroup, HourOfKey, RecordedRequest, RequestFilter
from counterfoil.program.columns import ListColumn, RowList, console_json
from counterfoil.views.audit import COLUMNS as AUDIT
from counterfoil.views.copies import CopyRow, copy_rows
from counterfoil.views.keys import ERRORS, columns, key_days, revoked_at
from counterfoil.views.requests import disclosures
from counterfoil.web.html import Child, Html, element, markup

HOURS_DAYS = 7
MOST_DISCLOSURES, MOST_AUDIT = 10, 10
ERROR_DAYS = 30
# How long the old key can stay valid after a rotation, in milliseconds. None means until it is revoked.
OVERLAPS: Final = {"keep": None, "1h": HOUR_MS, "1d": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS}
# The actions of forms, with the styles of the buttons that open them.
ACTIONS: Final = {"change": "plain", "rotate": "plain", "revoke": "danger"}
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


def find(visit: Visit) -> tuple[Key, list[str]]:
    keys = visit.store.reads.keys()
    key_id = visit.values["key_id"]
    found = next((key for key in keys if key.key_id == key_id), None)
    if found is None:
        raise NotFound(visit.t("key.missing", key_id=key_id))
    return found, [key.key_id for key in successors_of(keys, key_id)]


def read(visit: Visit) -> OneKeyView:
    key, successors = find(visit)
    today = thai_day(visit.now)
    span = days_until(today, DAILY_TOTAL_DAYS)
    disclosed = RequestFilter(key_id=key.key_id, personal_data=True)
    reads = visit.store.reads
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
    )


def as_json(visit: Visit, view: OneKeyView) -> dict[str, object]:
    last_used = None if view.last_used is None else iso_utc(view.last_used)
    others = {name: value for name, value in asdict(view).items() if name != "last_used"}
    return {**others, "key": console_json(columns(visit.now), view.key), "lastUsed": last_used}


def draw(visit: Visit, view: OneKeyView, message: Html | None = None, tab: str = "") -> PageContent:
    """Return the page with one of its tabs, or only with the form of an action."""
    key, t = view.key, visit.t
    can_change = visit.is_operator and not key.is_revoked(visit.now)
    tab = tab or visit.query.get("tab", "")
    if can_change and tab in ACTIONS:
        main = display.section(t(f"{tab}.title"), _form(visit, view, tab))
    else:
        main = markup(_facts(visit, view), _tiles(visit, view), _tab(visit, view, tab if tab in _TABS else "use"))
    return PageContent(
        title=display.name_of(key.label) if key.label else key.key_id,
        lead=markup(message, _buttons(visit, key, tab, can_change=can_change)),
        main=main,
        commands=(
            f"counterfoil keys show {key.key_id}",
            f"counterfoil usage {key.key_id} --days {DAILY_TOTAL_DAYS}",
            f"counterfoil usage {key.key_id} --disclosures",
            f"counterfoil requests --key {key.key_id}",
            f"counterfoil audit {key.key_id}",
        ),
    )


def _buttons(visit: Visit, key: Key, shown: str, *, can_change: bool) -> Html | None:
    t = visit.t
    path, link = f"/keys/{key.key_id}?tab=", display.button_link
    actions = [
        link(t(f"{action}.open"), path + action, None, style, is_current=action == shown)
        for action, style in ACTIONS.items()
        if can_change
    ]
    return display.button_row(*actions, link(t("requests.title"), f"/requests?key={key.key_id}", style="plain"))


def _tab(visit: Visit, view: OneKeyView, shown: str) -> Html:
    t, path = visit.t, f"/keys/{view.key.key_id}"
    # The fragment leads a phone to the tabs, which are below its first screen.
    tabs = ((t(f"key.tab_{tab}"), f"{path}?tab={tab}#tabs", tab == shown) for tab in _TABS)
    return element("div", display.link_list("tabs", t("key.tabs"), tabs), _TABS[shown](visit, view), id="tabs")


def _facts(visit: Visit, view: OneKeyView) -> Html:
    t, key = visit.t, view.key
    ended_at = revoked_at(key, visit.now)
    pairs: list[tuple[str, Child]] = [
        (t("key.id"), element("code", key.key_id)),
        *key_facts(visit, key),
        (t("key.issued"), display.moment(key.created_at)),
        (t("state"), state_badge(t, key, visit.now)),
    ]
    if ended_at:
        pairs.append((t("key.revoked_at"), display.moment(ended_at)))
    elif key.revokes_at:
        pairs.append((t("key.revokes_at"), display.moment(key.revokes_at)))
    if key.successor_of:
        pairs.append((t("key.successor_of"), display.key_link(key.successor_of)))
    if view.successors:
        pairs.append(
            (t("key.successors"), markup([[display.key_link(successor), " "] for successor in view.successors]))
        )
    return display.fields(pairs)


def _tiles(visit: Visit, view: OneKeyView) -> Html:
    t, today = visit.t, view.days[-1]
    week = view.days[-7:]
    refused, quota = today.rate_limited + today.refused, view.key.per_day
    is_near = today.requests * 2 > quota
    meter = element("meter", value=today.requests, max=quota, high=round(0.8 * quota), aria_hidden="true")
    return display.tiles(
        display.tile(
            t("key.today"),
            display.number(today.requests),
            markup(meter if is_near else None, " ", t("key.of_quota", quota=f"{view.key.per_day:,}")),
        ),
        display.tile(
            t("key.week"),
            display.number(sum(day.requests for day in week)),
            t("key.week_errors", count=display.number(sum(day.errors for day in week))),
        ),
        display.tile(
            t("keys.last_used"),
            display.ago(t, view.last_used, visit.now),
            display.moment(view.last_used) if view.last_used else t("key.never"),
        ),
        copy_tile(visit, view.copies),
        display.tile(t("key.refused"), display.number(refused), t("key.refused_note"), "warn") if refused else None,
    )


def _errors(visit: Visit, view: OneKeyView) -> Html:
    t, key_id = visit.t, view.key.key_id
    cells: display.Cells[ErrorGroup] = {
        "error": lambda group: element(
            "a", element("code", group.error), href=f"/requests?key={key_id}&error={group.error}"
        ),
        "errors.action": lambda group: display.translated(t, what_to_do(group.error)),
    }
    none = t("errors.none", days=ERROR_DAYS)
    listed = display.list_table(visit, t("errors.caption", days=ERROR_DAYS), view.errors, cells, empty=none)
    return display.section(t("errors.title"), listed)


def _audit(visit: Visit, view: OneKeyView) -> Html:
    t, key_id = visit.t, view.key.key_id
    more = element("a", t("audit.all_of_key"), href=f"/audit?key={key_id}")
    audit = display.section(t("audit.title"), audit_table(visit, view.audit, with_key=False), element("p", more))
    if not view.key.personal_data and not view.disclosures.rows:
        return audit
    disclosed = element("a", t("personal.all_of_key"), href=f"/personal-data?key={key_id}")
    listed = disclosure_table(visit, view.disclosures.rows, of_key=True)
    return markup(audit, display.section(t("personal.title"), listed, element("p", disclosed)))


_TABS: Final[dict[str, Callable[[Visit, OneKeyView], Html]]] = {
    "use": lambda visit, view: display.section(visit.t("key.use"), macro(visit, "charts", "use_charts")(view.use)),
    "copy": lambda visit, view: copies_section(visit, view.copies),
    "errors": _errors,
    "audit": _audit,
}


def key_version(key: Key, successors: list[str]) -> str:
    """Return the values of a key as one string. A form sends it back, so that changes made meanwhile are noticed."""
    values = (key.label, key.per_min, key.per_day, key.personal_data, key.messaging_lookup)
    return "|".join(map(str, (*values, key.revokes_at, key.revoked_at, len(successors))))


def _form(visit: Visit, view: OneKeyView, action: str) -> Html | None:
    t, key = visit.t, view.key
    path = f"/keys/{key.key_id}"
    parts = {"change": _change_fields, "rotate": _rotate_fields, "revoke": _revoke_fields}[action](visit, view)
    more: list[Child] = [element("a", t("cancel"), href=path)]
    if action == "revoke" and (key.revokes_at is None or key.revokes_at > visit.now + DAY_MS):
        more = [element("button", t("revoke.later"), name="when", value="later", class_="plain"), *more]
    versions = {"version": key_version(key, view.successors), "successors": " ".join(view.successors)}
    hidden = [element("input", type="hidden", name=name, value=value) for name, value in versions.items()]
    button = t(f"{action}.button")
    return form(
        visit, f"{path}/{action}", hidden, parts, button=button, is_dangerous=action == "revoke", id_=action, more=more
    )


def _change_fields(visit: Visit, view: OneKeyView) -> Html:
    label = text_field(visit.t("key.label"), "label", view.key.label, maxlength=MAX_LABEL_LENGTH)
    return markup(label, display.template("limits", visit.t, most=MAX_LIMIT, **asdict(view.key)))


def _rotate_fields(visit: Visit, _: OneKeyView) -> Html:
    t = visit.t
    overlaps = {"": {name: t(f"rotate.{name}") for name in OVERLAPS}}
    return markup(element("p", t("rotate.text")), select(t("rotate.overlap"), "overlap", overlaps, "7d"))


def _revoke_fields(visit: Visit, view: OneKeyView) -> Html:
    t = visit.t
    last_used = markup(t("keys.last_used"), ": ", display.ago(t, view.last_used, visit.now))
    label = t("revoke.confirm", label=display.name_of(view.key.label or view.key.key_id))
    entered = visit.request.form.get("confirm", "")
    return markup(
        element("p", t("revoke.text", today=display.number(view.days[-1].requests)), " ", last_used),
        text_field(label, "confirm", entered, required=True, spellcheck="false", autocapitalize="off"),
    )


PAGE = ConsolePage(name="keys", read=read, draw=draw, as_json=as_json)
