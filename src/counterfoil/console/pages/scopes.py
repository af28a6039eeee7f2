"""Shows the scope of a key: the name of a shop, or the number of shops of a franchise, beside its ID."""

from collections import defaultdict
from collections.abc import Iterable

from counterfoil.console.display import name_of
from counterfoil.console.texts import Texts
from counterfoil.console.visit import Visit
from counterfoil.domain.access import Scope
from counterfoil.operator_reads import ShopName
from counterfoil.web.html import Html, element, markup

# A franchise has no name of its own, so a list shows the names of this many of its shops.
NAMED_SHOPS = 2


class ScopeNames:
    """The names of the loaded shops, and the shops of each loaded franchise."""

    def __init__(self, shops: Iterable[ShopName]) -> None:
        self._shops: dict[str, str] = {}
        self._franchises: defaultdict[str, list[str]] = defaultdict(list)
        for shop in shops:
            name = name_of(shop.shop_name) if shop.shop_name else shop.shop_id
            self._shops[shop.shop_id] = name
            if shop.franchise_id:
                self._franchises[shop.franchise_id].append(name)

    def franchises(self) -> list[tuple[str, list[str]]]:
        """Return the ID of each franchise with the names of its shops, sorted by ID."""
        return sorted(self._franchises.items())

    def about(self, t: Texts, scope: Scope) -> str | None:
        """Return the name of a shop, or the number of shops of a franchise. Return None if the scope is not loaded."""
        if scope.kind == "shop":
            return self._shops.get(scope.id)
        count = len(self._franchises.get(scope.id, ()))
        return shop_count(t, count) if count else None


def shop_count(t: Texts, count: int) -> str:
    return t("scope.one_shop") if count == 1 else t("scope.shops", count=count)


def scope_names(visit: Visit) -> ScopeNames:
    return ScopeNames(visit.store.shop_names())


def scope_label(t: Texts, names: ScopeNames, scope: Scope) -> Html:
    """Return the kind of a scope, the name of the shop or the number of shops, and the ID."""
    about = names.about(t, scope)
    named = [" ", element("span", about)] if about else None
    return markup(t(f"scope.{scope.kind}"), named, " ", element("code", name_of(scope.id)))


def scope_text(t: Texts, names: ScopeNames, kind: str, identifier: str) -> str:
    """Return a scope as text without markup, for the audit log. An unknown kind is not translated."""
    if kind not in ("shop", "franchise"):
        return f"{kind} {identifier}"
    scope = Scope("shop", identifier) if kind == "shop" else Scope("franchise", identifier)
    about = names.about(t, scope)
    return f"{t(f'scope.{kind}')} {f'{about} ' if about else ''}({identifier})"


def franchise_text(t: Texts, identifier: str, shops: list[str]) -> str:
    """Return a franchise with the number of its shops and some of their names, for a list to choose from."""
    some = ", ".join(shops[:NAMED_SHOPS]) + (", …" if len(shops) > NAMED_SHOPS else "")
    return t("issue.franchise", name=name_of(identifier), count=shop_count(t, len(shops)), shops=some)
