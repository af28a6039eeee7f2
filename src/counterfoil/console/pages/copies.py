"""Shows how fresh an integrator's copy is: how far a key lineage has read the changes of each shop."""

from datetime import datetime

from msgspec import Struct

from counterfoil.console.display import (
    PageColumn,
    ago,
    badge,
    duration,
    moment,
    name_of,
    section,
    table,
    tile,
    utc_time,
)
from counterfoil.console.visit import Visit
from counterfoil.domain.access import Key
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.calendar import to_ms
from counterfoil.domain.request_records import CHANGE_FEED
from counterfoil.operator_reads import CopyState
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.web.html import Html, element

# A copy that was brought up to date within this time counts as fresh. Integrators usually read at least once a day.
FRESH_MS = 26 * 3_600_000


class CopyRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """One list of changes, with its progress. `shop_id` is None for the change feed, which covers all shops in scope.

    `state` is `fresh`, `behind`, `reading` (a pass has begun and has not ended) or `never`.
    """

    list_name: str
    shop_id: str | None
    shop_name: str | None
    complete_until: datetime | None
    last_read_at: datetime | None
    state: str


def copy_rows(visit: Visit, key: Key, found: list[CopyState]) -> list[CopyRow]:
    """Return a row for each list that was read. If the feed was not read, include shops that were never read."""
    shops = _shops_in_scope(visit, key)
    by_shop = {one.shop_id: one for one in found if one.shop_id is not None}
    feed = next((one for one in found if one.list_name == CHANGE_FEED), None)
    rows = [_row(visit, feed, None)] if feed else []
    for shop_id in {**dict.fromkeys(shops), **dict.fromkeys(by_shop)}:
        state = by_shop.get(shop_id)
        if state or not feed:
            name = shops[shop_id].name if shop_id in shops else None
            rows.append(_row(visit, state, shop_id, name) if state else _never(shop_id, name))
    return rows


def _shops_in_scope(visit: Visit, key: Key) -> dict[str, ShopActivity]:
    try:
        shops = visit.store.overview().store.shops
    except (StoreUnavailable, StoreMismatch):
        return {}
    scope = key.scope
    return {
        shop.shop_id: shop
        for shop in shops
        if scope.id == (shop.shop_id if scope.kind == "shop" else shop.franchise_id)
    }


def _row(visit: Visit, state: CopyState, shop_id: str | None, name: str | None = None) -> CopyRow:
    if not state.finished:
        judged = "reading"
    elif state.server_time is None:
        judged = "never"
    else:
        judged = "fresh" if visit.now - state.server_time <= FRESH_MS else "behind"
    return CopyRow(
        list_name=state.list_name,
        shop_id=shop_id,
        shop_name=name,
        complete_until=utc_time(state.server_time),
        last_read_at=utc_time(state.at),
        state=judged,
    )


def _never(shop_id: str, name: str | None) -> CopyRow:
    return CopyRow(
        list_name="changes", shop_id=shop_id, shop_name=name, complete_until=None, last_read_at=None, state="never"
    )


def copies_section(visit: Visit, rows: list[CopyRow]) -> Html:
    t = visit.t
    kinds = {"fresh": "", "behind": "warn", "reading": "warn", "never": "warn"}
    columns = (
        PageColumn(t("copy.list")),
        PageColumn(t("state")),
        PageColumn(t("copy.complete_until")),
        PageColumn(t("copy.lag")),
        PageColumn(t("copy.last_read")),
    )
    drawn = [
        (
            t("copy.feed") if row.shop_id is None else f"{name_of(row.shop_name)} ({row.shop_id})",
            badge(t(f"copy.{row.state}"), kinds[row.state]),
            moment(row.complete_until),
            duration(t, visit.now - to_ms(row.complete_until)) if row.complete_until else "–",
            ago(t, row.last_read_at, visit.now),
        )
        for row in rows
    ]
    fresh = sum(row.state == "fresh" for row in rows)
    summary = element("p", _sentence(visit, rows, fresh), class_="summary")
    return section(
        t("copy.title"),
        summary,
        table(t("copy.caption"), columns, drawn, empty=t("copy.none")),
        element("p", t("copy.explained"), class_="muted"),
        anchor="copy",
    )


def copy_tile(visit: Visit, rows: list[CopyRow]) -> Html:
    """Return a box that says whether the copy is up to date, with a link to the list."""
    t = visit.t
    fresh = sum(row.state == "fresh" for row in rows)
    is_unused = all(row.state == "never" for row in rows)
    if is_unused:
        value = t("copy.never") if rows else "–"
    else:
        value = t("copy.fresh") if fresh == len(rows) else t("copy.share", fresh=fresh, count=len(rows))
    note = element("a", _sentence(visit, rows, fresh), href="#copy")
    return tile(t("copy.title"), value, note, "" if is_unused or fresh == len(rows) else "warn")


def _sentence(visit: Visit, rows: list[CopyRow], fresh: int) -> str:
    t = visit.t
    if not rows:
        return t("copy.no_shops")
    if fresh == len(rows):
        return t("copy.all_fresh")
    if all(row.state == "never" for row in rows):
        return t("copy.none_read")
    has_feed = any(row.shop_id is None for row in rows)
    return t("copy.some_fresh" if has_feed else "copy.some_shops", fresh=fresh, count=len(rows))
