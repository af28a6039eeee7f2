"""Shows how fresh an integrator's copy is: how far a key lineage has read the changes of each shop."""

from collections.abc import Sequence
from datetime import datetime

from counterfoil.checks.copies import CopyRow, CopySummary, summary
from counterfoil.console.display import PageColumn, ago, badge, duration, moment, name_of, section, table, tile
from counterfoil.console.texts import Texts
from counterfoil.console.visit import Visit
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.calendar import THAI_TIME, iso_utc, to_ms
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.web.html import Html, element, markup


def loaded_shops(visit: Visit) -> Sequence[ShopActivity] | None:
    """Return the loaded shops, or None if they cannot be read."""
    try:
        status = visit.store.overview().store
    except (StoreUnavailable, StoreMismatch):
        return None
    # If the store has a problem, the status has only findings, and the empty `shops` does not mean that there are none.
    return None if status.extent is None else status.shops


def copies_section(visit: Visit, rows: list[CopyRow]) -> Html:
    t = visit.t
    columns = (
        PageColumn(t("copy.list")),
        PageColumn(t("state")),
        PageColumn(t("copy.complete_until")),
        PageColumn(t("copy.last_read")),
    )
    drawn = [
        (
            t("copy.feed") if row.shop_id is None else f"{name_of(row.shop_name)} ({row.shop_id})",
            _verdict(visit, row),
            moment(row.complete_until),
            ago(t, row.last_read_at, visit.now),
        )
        for row in rows
    ]
    return section(
        t("copy.title"),
        element("p", _sentence(t, rows), class_="summary"),
        table(t("copy.caption"), columns, drawn, empty=t("copy.none")),
        element("p", t("copy.explained"), class_="muted"),
        anchor="copy",
    )


def _verdict(visit: Visit, row: CopyRow) -> Html:
    """Return the verdict about a list, with notes about changes that were not read from it."""
    t = visit.t
    text = t(f"copy.{row.state}")
    if row.state == "behind" and row.complete_until:
        text = t("copy.behind_by", span=duration(t, visit.now - to_ms(row.complete_until)))
    elif row.state == "fresh" and row.read_from:
        text = t("copy.fresh_since", start=_thai_time(row.read_from))
    notes: list[str] = []
    if row.gap_from and row.gap_until:
        notes = [
            t("copy.gap_note", start=_thai_time(row.gap_from), end=_thai_time(row.gap_until)),
            t("copy.gap_expected"),
            t("copy.close_gap", mark=iso_utc(to_ms(row.gap_from))),
        ]
    if row.read_from:
        notes.append(t("copy.read_from", start=_thai_time(row.read_from)))
    small = [[" ", element("small", " ".join(notes))]] if notes else None
    return markup(badge(text, "" if row.state == "fresh" else "warn"), small)


def copy_tile(visit: Visit, rows: list[CopyRow]) -> Html:
    """Return a box that says whether the copy is up to date, with a link to the details."""
    t, state = visit.t, summary(rows)
    if state.state is None:
        value = t("copy.never") if rows else "–"
    else:
        value = t("copy.fresh") if state.state == "fresh" else _share(t, state)
    note = element("a", _sentence(t, rows), href="#copy")
    return tile(t("copy.title"), value, note, "" if state.state in (None, "fresh") else "warn")


def copy_badge(t: Texts, state: CopySummary) -> Html:
    """Return the state of a key's copy in a few words, or a dash if the key keeps no copy."""
    if state.state is None:
        return element("span", "–", class_="muted", title=t("copy.no_copy"))
    if state.state == "fresh":
        since = _thai_time(state.read_from)[:10] if state.read_from else None
        return badge(t("copy.fresh_since", start=since) if since else t("copy.fresh"))
    if state.state == "never":
        return badge(_share(t, state), "warn")
    return element("span", badge(t(f"copy.{state.state}"), "warn"), title=_share(t, state))


def _share(t: Texts, state: CopySummary) -> str:
    return t("copy.share", fresh=state.fresh, count=state.lists)


def _sentence(t: Texts, rows: list[CopyRow]) -> str:
    state = summary(rows)
    if not rows:
        return t("copy.no_shops")
    if state.state == "fresh":
        return t("copy.fresh_from" if state.read_from else "copy.all_fresh")
    if state.state is None:
        return t("copy.none_read")
    has_feed = any(row.shop_id is None for row in rows)
    return t("copy.some_fresh" if has_feed else "copy.some_shops", fresh=state.fresh, count=state.lists)


def _thai_time(time: datetime) -> str:
    return f"{time.astimezone(THAI_TIME):%Y-%m-%d %H:%M}"
