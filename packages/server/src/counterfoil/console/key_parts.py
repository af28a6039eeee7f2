"""Parts of pages about keys: a key's name, state, permissions and scope, and how fresh its copy is."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile

from counterfoil.console.display import Cells, badge, brand_and_branch, list_table, name_of, parts, section, tile
from counterfoil.console.texts import Texts
from counterfoil.console.visit import Visit
from counterfoil.domain.access import Key, Scope, permissions
from counterfoil.domain.activity import ShopActivity
from counterfoil.operator_reads import ShopName
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.columns import RowList
from counterfoil.program.times import minute
from counterfoil.views import copies
from counterfoil.web.html import Child, Html, element, markup

# A franchise has no name of its own, so a list shows the names of this many of its shops.
NAMED_SHOPS = 2


def state_badge(t: Texts, key: Key, now: int) -> Html:
    if key.is_revoked(now):
        return badge(t("key.revoked"), "bad")
    return badge(t("key.ends"), "warn") if key.revokes_at is not None else badge(t("key.active"))


class ScopeNames:
    def __init__(self, shops: Iterable[ShopName]) -> None:
        self._shops: dict[str, str] = {}
        self._franchises: defaultdict[str, list[str]] = defaultdict(list)
        self._bases: defaultdict[str, list[str]] = defaultdict(list)
        for shop in shops:
            name = name_of(shop.shop_name) if shop.shop_name else shop.shop_id
            self._shops[shop.shop_id] = name
            if shop.franchise_id:
                self._franchises[shop.franchise_id].append(name)
            if shop.provider_id:
                self._bases[shop.provider_id].append(name)

    def franchises(self) -> list[tuple[str, list[str]]]:
        return sorted(self._franchises.items())

    def about(self, t: Texts, scope: Scope) -> str | None:
        """Return the name of a shop or a franchise, or None if it is not loaded."""
        if scope.kind == "shop":
            return self._shops.get(scope.id)
        return self.franchise(t, scope.id)

    def franchise(self, t: Texts, franchise: str) -> str | None:
        return _group_name(t, self._franchises.get(franchise, []))

    def about_base(self, t: Texts, base: str) -> str | None:
        return _group_name(t, self._bases.get(base, []))


def _group_name(t: Texts, shops: list[str]) -> str | None:
    """Return the words with which the names of all shops begin, or else the first brands, and the number of shops."""
    if not shops:
        return None
    same = takewhile(lambda words: len(set(words)) == 1, zip(*(name.split() for name in shops), strict=False))
    name = " ".join(words[0] for words in same).rstrip(" ·-–—,:|")
    if not name or len(shops) == 1:
        brands = list(dict.fromkeys(brand_and_branch(shop)[0] for shop in shops)) if len(shops) > 1 else shops
        name = ", ".join(brands[:NAMED_SHOPS]) + (", …" if len(brands) > NAMED_SHOPS else "")
    return f"{name}, {shop_count(t, len(shops))}"


def shop_count(t: Texts, count: int) -> str:
    return t.ngettext("with one shop", "with %(count)s shops", count, count=count)


def scope_names(visit: Visit) -> ScopeNames:
    return ScopeNames(visit.store.shop_names())


def scope_label(t: Texts, names: ScopeNames, scope: Scope, *, with_id: bool = True) -> Html:
    """Return the kind and the name of a scope. In a list, the ID is shown only when the name is pointed at."""
    about = names.about(t, scope)
    named = [" ", element("span", about, title=scope.id)] if about else None
    return markup(
        t(f"scope.{scope.kind}"), named, [" ", element("code", name_of(scope.id))] if with_id or not about else None
    )


def base_label(t: Texts, names: ScopeNames, base: str) -> Html:
    """Return the name of a membership base. The ID is shown when the name is pointed at."""
    about = names.about_base(t, base)
    return element("span", about, title=base) if about else element("code", name_of(base))


def scope_text(t: Texts, names: ScopeNames, kind: str, identifier: str) -> str:
    """Return a scope as text without markup, for the audit log. An unknown kind is not translated."""
    if kind not in ("shop", "franchise"):
        return f"{kind} {identifier}"
    scope = Scope("shop", identifier) if kind == "shop" else Scope("franchise", identifier)
    about = names.about(t, scope)
    return f"{t(f'scope.{kind}')} {f'{about} ' if about else ''}({identifier})"


def key_facts(visit: Visit, key: Key) -> list[tuple[str, Child]]:
    t = visit.t
    return [
        (t("scope"), scope_label(t, scope_names(visit), key.scope)),
        (t("key.limits"), t("key.limits_value", per_min=f"{key.per_min:,}", per_day=f"{key.per_day:,}")),
        (t("key.permissions"), ", ".join(t(f"permission.{name}") for name in permissions(key)) or t("permission.none")),
    ]


def loaded_shops(visit: Visit) -> Sequence[ShopActivity] | None:
    try:
        status = visit.store.overview().store
    except (StoreUnavailable, StoreMismatch):
        return None
    # If the store has a problem, the status has only findings, and the empty `shops` does not mean that there are none.
    return None if status.extent is None else status.shops


def copies_section(visit: Visit, rows: list[copies.CopyRow]) -> Html:
    t = visit.t
    cells: Cells[copies.CopyRow] = {
        "copy.list": lambda row: element("span", parts(_name(t, row)), title=row.shop_id),
        "state": lambda row: _verdict(visit, row),
    }
    replaced = [row for row in rows if row.no_longer_read]
    columns, caption = copies.columns(visit.now), t("copy.caption")
    old = list_table(visit, caption, RowList(columns, replaced), cells, kind="fixed")
    return section(
        t("copy.title"),
        element("p", _sentence(t, rows), class_="summary"),
        list_table(visit, caption, RowList(columns, copies.worst_first(rows)), cells, empty=t("copy.none")),
        element("details", element("summary", t("copy.replaced", count=len(replaced))), old) if replaced else None,
        element("p", t("copy.explained"), class_="muted"),
    )


def _verdict(visit: Visit, row: copies.CopyRow) -> Html:
    t = visit.t
    about = " ".join(map(t.message, copies.notes(row)))
    small = [" ", element("small", about)] if about else None
    is_well = row.state == "fresh" or row.no_longer_read
    return markup(badge(t.message(copies.state(row, visit.now)), "" if is_well else "warn"), small)


def copy_tile(visit: Visit, rows: list[copies.CopyRow]) -> Html:
    t, copy = visit.t, copies.summary(rows)
    text = _sentence(t, rows)
    if copy.state is None:
        value = t.message(copies.STATES["never"]) if rows else "–"
    elif copy.state == "fresh":
        value = t.message(copies.STATES["fresh"])
    else:
        worst = copies.worst_first(rows)[0]
        value, text = _share(t, copy), f"{_name(t, worst)}: {t.message(copies.state(worst, visit.now))}"
    note = element("a", text, href=f"{visit.path}?tab=copy")
    return tile(t("copy.title"), value, note, "" if copy.state in (None, "fresh") else "warn")


def _name(t: Texts, row: copies.CopyRow) -> str:
    return t("copy.feed") if row.shop_id is None else name_of(row.shop_name or row.shop_id)


def copy_badge(t: Texts, copy: copies.CopySummary) -> Html:
    """Return the state of a key's copy in a few words, or a dash if the key keeps no copy."""
    if copy.state is None:
        return element("span", "–", class_="muted", title=t("copy.no_copy"))
    if copy.state == "fresh" and copy.read_from:
        return badge(t.message(copies.FRESH_SINCE(start=minute(copy.read_from)[:10])))
    if copy.state == "never":
        return badge(_share(t, copy), "warn")
    text, kind = t.message(copies.STATES[copy.state]), "" if copy.state == "fresh" else "warn"
    return element("span", badge(text, kind), title=_share(t, copy) if kind else None)


def _share(t: Texts, copy: copies.CopySummary) -> str:
    return t(f"copy.share_{copy.unit}", fresh=copy.fresh, count=copy.lists)


def _sentence(t: Texts, rows: list[copies.CopyRow]) -> str:
    copy = copies.summary(rows)
    if not rows:
        return t("copy.no_shops")
    if copy.state == "fresh":
        return t("copy.fresh_from") if copy.read_from else t("copy.all_fresh")
    return t("copy.none_read") if copy.state is None else _share(t, copy)
