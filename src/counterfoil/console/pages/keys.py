"""Keys: the active keys with their usage, and cards that select revoked keys and keys that need attention."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from counterfoil.console.charts import spark
from counterfoil.console.display import ago, badge, list_table, number, percent, utc_time
from counterfoil.console.key_parts import copy_badge, key_name, loaded_shops, scope_label, scope_names, state_badge
from counterfoil.console.visit import ConsolePage, CsvExport, PageContent, Visit
from counterfoil.domain.access import KeyWarning, permissions
from counterfoil.views.columns import console_json, csv_lines
from counterfoil.views.keys import USAGE, UsedKey, columns, columns_with_usage, used_keys
from counterfoil.web.html import Child, Html, element, markup

COPY_BEHIND = "copy_behind"
WARNINGS: Final = tuple(warning.value for warning in KeyWarning)
# The cards about keys that need attention.
ATTENTION = (COPY_BEHIND, *WARNINGS)
SHOWN = ("active", "revoked", *ATTENTION)


class KeysView(Struct, frozen=True, kw_only=True):
    """The data of the page. `show` is the selected card, and `counts` has the number of keys for each card."""

    show: str
    counts: dict[str, int]
    keys: list[UsedKey]


def read(visit: Visit) -> KeysView:
    wanted = visit.query.get("show", "active")
    show = wanted if wanted in SHOWN else "active"
    found = used_keys(visit.store.reads, lambda: loaded_shops(visit), visit.now)
    cards = {name: [used for used in found if name in _cards_of(used, visit.now)] for name in SHOWN}
    keys = sorted(cards[show], key=lambda used: (-sum(used.week), used.key.label.lower(), used.key.key_id))
    return KeysView(show=show, counts={name: len(used) for name, used in cards.items()}, keys=keys)


def _cards_of(used: UsedKey, now: int) -> list[str]:
    is_behind = used.copy.state not in (None, "fresh")
    state = "revoked" if used.key.is_revoked(now) else "active"
    return [state, *([COPY_BEHIND] if is_behind else []), *used.warnings]


def as_json(visit: Visit, view: KeysView) -> dict[str, object]:
    keys = [{"key": console_json(columns(visit.now), used.key), **console_json(USAGE, used)} for used in view.keys]
    return {"show": view.show, "counts": view.counts, "keys": keys}


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
    t, names = visit.t, scope_names(visit)
    cells: dict[str, Callable[[UsedKey], Child]] = {
        "key": lambda used: key_name(t, used.key),
        "keys.scope": lambda used: markup(
            scope_label(t, names, used.key.scope),
            [[" ", badge(t(f"permission.{name}"))] for name in permissions(used.key)],
        ),
        "keys.copy": lambda used: copy_badge(t, used.copy),
        "keys.last_used": lambda used: ago(t, utc_time(used.last_used), visit.now),
        "keys.week": lambda used: markup(spark(used.week), " ", number(sum(used.week))),
        "keys.errors": lambda used: percent(used.errors, sum(used.week)),
        "keys.quota": lambda used: markup(number(used.week[-1]), element("small", f" / {used.key.per_day:,}")),
        "state": lambda used: markup(
            state_badge(t, used.key, visit.now),
            [[" ", badge(t(f"key_warning.{name}"), "warn")] for name in used.warnings],
        ),
    }
    caption = t(f"keys.filter.{view.show}.caption")
    return list_table(t, caption, columns_with_usage(visit.now), view.keys, cells, empty=t("keys.none"))


def csv(visit: Visit, view: KeysView) -> CsvExport:
    return CsvExport("keys", csv_lines(columns_with_usage(visit.now), view.keys))


PAGE = ConsolePage(name="keys", read=read, draw=draw, as_json=as_json, csv=csv)
