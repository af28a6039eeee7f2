"""The names of scopes and permissions."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from counterfoil.console.display import brand_and_branch, name_of
from counterfoil.console.texts import Texts
from counterfoil.console.visit import Visit
from counterfoil.domain.access import Scope
from counterfoil.domain.activity import ShopActivity
from counterfoil.model.text import translatable
from counterfoil.operator_reads import ShopName
from counterfoil.ports import StoreMismatch, StoreUnavailable

PERMISSION_NAMES: Final = {
    "messaging-lookup": translatable("messaging lookup"),
    "personal-data": translatable("personal data"),
}
# A franchise has no name of its own, so a list shows the names of this many of its shops.
NAMED_SHOPS = 2


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
    count = shop_count(t, len(shops))
    if len(shops) == 1:
        return f"{shops[0]}, {count}"
    name = _common_beginning(shops)
    if name:
        return f"{name}, {count}"
    brands = list(dict.fromkeys(brand_and_branch(shop)[0] for shop in shops))
    named = brands[:NAMED_SHOPS]
    if len(brands) > NAMED_SHOPS:
        named.append("…")
    return f"{', '.join(named)}, {count}"


def _common_beginning(names: list[str]) -> str:
    """Return the words with which all names begin, without the signs that end them."""
    same: list[str] = []
    for words in zip(*(name.split() for name in names), strict=False):
        if len(set(words)) > 1:
            break
        same.append(words[0])
    return " ".join(same).rstrip(" ·-–—,:|")


def shop_count(t: Texts, count: int) -> str:
    return t.ngettext("with one shop", "with %(count)s shops", count, count=count)


def scope_names(visit: Visit) -> ScopeNames:
    return ScopeNames(visit.store.shop_names())


def scope_text(t: Texts, names: ScopeNames, kind: str, identifier: str) -> str:
    """Return a scope as text without markup, for the audit log. An unknown kind is not translated."""
    if kind not in ("shop", "franchise"):
        return f"{kind} {identifier}"
    scope = Scope("shop", identifier) if kind == "shop" else Scope("franchise", identifier)
    about = names.about(t, scope)
    name = t.gettext("Shop") if kind == "shop" else t.gettext("Franchise")
    return f"{name} {about} ({identifier})" if about else f"{name} ({identifier})"


def loaded_shops(visit: Visit) -> Sequence[ShopActivity] | None:
    try:
        status = visit.store.overview().store
    except (StoreUnavailable, StoreMismatch):
        return None
    # If the store has a problem, the status has only findings, and the empty `shops` does not mean that there are none.
    return None if status.extent is None else status.shops
