"""Keys: the active keys with their usage, cards that select others, the form to issue a key, and the new key."""

from typing import ClassVar, Final

from msgspec import Struct

from counterfoil.console import key_parts
from counterfoil.console.display import name_of
from counterfoil.console.visit import ConsolePage, Visit, number_in
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, Key, KeyWarning
from counterfoil.http.reference import example_base_url
from counterfoil.key_issuing import MAX_LABEL_LENGTH, MAX_LIMIT, Issued
from counterfoil.program.columns import RowList, console_json
from counterfoil.views.keys import USAGE, UsedKey, columns, used_keys

COPY_BEHIND, TRY_IT = "copy_behind", "try_it"
WARNINGS: Final = tuple(warning.value for warning in KeyWarning)
SHOWN = ("active", "revoked", COPY_BEHIND, *WARNINGS, TRY_IT)


class KeysView(Struct, frozen=True, kw_only=True):
    """The data of the page. `show` is the selected card, and `counts` has the number of keys for each card."""

    show: str
    counts: dict[str, int]
    keys: list[UsedKey]
    names: key_parts.ScopeNames

    @property
    def used(self) -> RowList[UsedKey]:
        return RowList(USAGE, self.keys)


def read(visit: Visit) -> KeysView:
    show = visit.query.get("show", "active")
    if show not in SHOWN:
        show = "active"
    cards: dict[str, list[UsedKey]] = {name: [] for name in SHOWN}
    for used in used_keys(visit.store.reads, lambda: key_parts.loaded_shops(visit), visit.now):
        for name in _cards_of(used, visit.now):
            cards[name].append(used)
    keys = sorted(cards[show], key=lambda used: (-sum(used.week), used.label.lower(), used.key_id))
    counts = {name: len(used) for name, used in cards.items()}
    return KeysView(show=show, counts=counts, keys=keys, names=key_parts.scope_names(visit))


def _cards_of(used: UsedKey, now: int) -> list[str]:
    if used.is_for_trying:
        return [TRY_IT]
    is_behind = used.copy.state not in (None, "fresh")
    state = "revoked" if used.is_revoked(now) else "active"
    return [state, *([COPY_BEHIND] if is_behind else []), *used.warnings]


def as_json(visit: Visit, view: KeysView) -> dict[str, object]:
    keys = [{"key": console_json(columns(visit.now), used), **console_json(USAGE, used)} for used in view.keys]
    return {"show": view.show, "counts": view.counts, "keys": keys}


PAGE = ConsolePage(
    name="keys",
    template="keys",
    read=read,
    as_json=as_json,
    csv=lambda visit, view: ("keys", RowList((*columns(visit.now), *USAGE), view.keys)),
)


class ScopeChoice(Struct, frozen=True, rename="camel"):
    """A shop or a franchise, with the number and the names of its shops."""

    kind: str
    id: str
    name: str
    shops: int = 1
    shop_names: list[str] = []


class IssueView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The scopes and the usual limits of a new key. After an invalid entry, also what was entered and the problem."""

    scopes: list[ScopeChoice]
    per_min: int = DEFAULT_PER_MIN
    per_day: int = DEFAULT_PER_DAY
    chosen: str = ""
    entered: dict[str, str] = {}
    problem: str | None = None

    longest_label: ClassVar[int] = MAX_LABEL_LENGTH
    most: ClassVar[int] = MAX_LIMIT

    def choices(self, kind: str) -> dict[str, str]:
        """Return the names of the scopes of this kind, by the values that a form sends."""
        return {f"{scope.kind}:{scope.id}": f"{scope.name} ({scope.id})" for scope in self.scopes if scope.kind == kind}

    def entered_limit(self, name: str) -> int:
        usual = self.per_min if name == "per_min" else self.per_day
        return number_in(self.entered.get(name, ""), usual)

    @property
    def is_about_scope(self) -> bool:
        """Return whether the problem is that no scope was chosen. The label is checked first, then the scope."""
        return bool(self.problem and self.entered.get("label", "").strip() and not self.chosen)


def read_scopes(visit: Visit) -> IssueView:
    shops = visit.store.shop_names()
    names = key_parts.ScopeNames(shops)
    franchises = []
    for franchise, of_franchise in names.franchises():
        name = names.franchise(visit.t, franchise) or franchise
        franchises.append(ScopeChoice("franchise", franchise, name, len(of_franchise), of_franchise))
    of_shops = [ScopeChoice("shop", shop.shop_id, name_of(shop.shop_name)) for shop in shops]
    entered = visit.request.form
    return IssueView(
        scopes=[*sorted(franchises, key=lambda scope: scope.name), *of_shops],
        chosen=entered.get("scope", visit.query.get("scope", "")),
        entered=entered,
    )


def issue_as_json(_: Visit, view: IssueView) -> dict[str, object]:
    return {"scopes": view.scopes, "perMin": view.per_min, "perDay": view.per_day}


ISSUE = ConsolePage(name="keys", template="issue", role="operator", read=read_scopes, as_json=issue_as_json)


class IssuedView(Struct, frozen=True, kw_only=True):
    """A new key, and the one that it replaces, if any."""

    issued: Issued
    old: Key | None
    is_loaded: bool
    names: key_parts.ScopeNames
    base_url: str

    @property
    def first_call(self) -> str:
        return f'curl -s -H "Authorization: Bearer $(cat counterfoil-key)" {self.base_url}/shops'


def issued_view(visit: Visit, issued: Issued, old: Key | None, *, is_loaded: bool) -> IssuedView:
    base_url = visit.settings.api_url.rstrip("/") or example_base_url(visit.settings.prefix)
    names = key_parts.scope_names(visit)
    return IssuedView(issued=issued, old=old, is_loaded=is_loaded, names=names, base_url=base_url)


# The answer to the form; no address shows it.
ISSUED = ConsolePage[IssuedView](name="keys", template="issued")
