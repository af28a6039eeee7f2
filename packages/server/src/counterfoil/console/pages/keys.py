"""Keys: the active keys with their usage, cards that select others, the form to issue a key, and the new key."""

from typing import Final

from msgspec import Struct

from counterfoil.console import display, key_parts
from counterfoil.console.forms import select, token_field
from counterfoil.console.layout import notice
from counterfoil.console.rendering import macro
from counterfoil.console.texts import Texts
from counterfoil.console.visit import ConsolePage, PageContent, Visit, number_in
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, Key, KeyWarning, Scope, permissions
from counterfoil.http.reference import example_base_url
from counterfoil.key_issuing import MAX_LABEL_LENGTH, MAX_LIMIT, Issued
from counterfoil.model.messages import duration
from counterfoil.program.columns import RowList, console_json
from counterfoil.views.keys import USAGE, UsedKey, columns, used_keys
from counterfoil.web.html import Html, element, markup

COPY_BEHIND, TRY_IT = "copy_behind", "try_it"
WARNINGS: Final = tuple(warning.value for warning in KeyWarning)
SHOWN = ("active", "revoked", COPY_BEHIND, *WARNINGS, TRY_IT)


class KeysView(Struct, frozen=True, kw_only=True):
    """The data of the page. `show` is the selected card, and `counts` has the number of keys for each card."""

    show: str
    counts: dict[str, int]
    keys: list[UsedKey]


def read(visit: Visit) -> KeysView:
    wanted = visit.query.get("show", "active")
    show = wanted if wanted in SHOWN else "active"
    found = used_keys(visit.store.reads, lambda: key_parts.loaded_shops(visit), visit.now)
    cards = {name: [used for used in found if name in _cards_of(used, visit.now)] for name in SHOWN}
    keys = sorted(cards[show], key=lambda used: (-sum(used.week), used.label.lower(), used.key_id))
    return KeysView(show=show, counts={name: len(used) for name, used in cards.items()}, keys=keys)


def _cards_of(used: UsedKey, now: int) -> list[str]:
    if used.is_for_trying:
        return [TRY_IT]
    is_behind = used.copy.state not in (None, "fresh")
    state = "revoked" if used.is_revoked(now) else "active"
    return [state, *([COPY_BEHIND] if is_behind else []), *used.warnings]


def as_json(visit: Visit, view: KeysView) -> dict[str, object]:
    keys = [{"key": console_json(columns(visit.now), used), **console_json(USAGE, used)} for used in view.keys]
    return {"show": view.show, "counts": view.counts, "keys": keys}


def draw(visit: Visit, view: KeysView) -> PageContent:
    t = visit.t
    return PageContent(
        title=t("keys.title"),
        lead=display.button_row(display.button_link(t("keys.issue"), "/keys/new") if visit.is_operator else None),
        main=markup(_cards(visit, view), _table(visit, view)),
        commands=[f"counterfoil keys list{' --active' if view.show == 'active' else ''}", "counterfoil usage"],
        command_text=None if view.show == "active" else t("keys.command_all"),
    )


def _cards(visit: Visit, view: KeysView) -> Html:
    t = visit.t

    def content(name: str) -> Html:
        style = "warn" if name in (COPY_BEHIND, *WARNINGS) else None
        return markup(element("strong", display.number(view.counts[name]), class_=style), " ", t(f"keys.filter.{name}"))

    cards = (
        (content(name), "/keys" if name == "active" else f"/keys?show={name}", name == view.show)
        for name in SHOWN
        # A card that would select nothing is left out.
        if view.counts[name] or name in ("active", view.show)
    )
    return display.link_list("cards", t("keys.cards"), cards)


def _table(visit: Visit, view: KeysView) -> Html:
    t, names = visit.t, key_parts.scope_names(visit)
    spark = macro(visit, "charts", "spark")
    cells: display.Cells[UsedKey] = {
        "key": lambda used: markup(
            display.key_link(used.key_id, used.label or t("key.no_label")),
            [" ", key_parts.state_badge(t, used, visit.now)] if view.show == "revoked" or used.revokes_at else None,
        ),
        "keys.scope": lambda used: markup(
            key_parts.scope_label(t, names, used.scope, with_id=False),
            [
                [" ", display.badge(t(f"permission.{name}"), "warn" if name == "personal-data" else "quiet")]
                for name in permissions(used)
            ],
        ),
        "keys.copy": lambda used: key_parts.copy_badge(t, used.copy),
        "keys.week": lambda used: markup(display.number(sum(used.week)), " ", spark(used.week)),
        "keys.errors": lambda used: display.percent(used.errors, sum(used.week)),
        "keys.quota": lambda used: markup(display.number(used.week[-1]), element("small", f" / {used.per_day:,}")),
        "keys.last_used": lambda used: markup(
            display.ago(t, used.last_used, visit.now) if used.last_used or not used.warnings else None,
            [[" ", display.badge(t(f"key_warning.{name}"), "warn")] for name in used.warnings],
        ),
    }
    caption = t(f"keys.filter.{view.show}.caption")
    return display.list_table(visit, caption, RowList(USAGE, view.keys), cells, empty=t("keys.none"))


PAGE = ConsolePage(
    name="keys",
    read=read,
    draw=draw,
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
    scopes: list[ScopeChoice]
    per_min: int = DEFAULT_PER_MIN
    per_day: int = DEFAULT_PER_DAY


def read_scopes(visit: Visit) -> IssueView:
    shops = visit.store.shop_names()
    names = key_parts.ScopeNames(shops)
    franchises = [
        ScopeChoice("franchise", each, names.about(visit.t, Scope("franchise", each)) or each, len(of_each), of_each)
        for each, of_each in names.franchises()
    ]
    return IssueView(
        scopes=[
            *sorted(franchises, key=lambda scope: scope.name),
            *(ScopeChoice("shop", shop.shop_id, display.name_of(shop.shop_name)) for shop in shops),
        ]
    )


def scope_choices(t: Texts, view: IssueView) -> dict[str, dict[str, str]]:
    choices: dict[str, dict[str, str]] = {"franchise": {}, "shop": {}}
    for scope in view.scopes:
        choices[scope.kind][f"{scope.kind}:{scope.id}"] = f"{scope.name} ({scope.id})"
    return {"": {"": t("issue.choose")}, t("issue.franchises"): choices["franchise"], t("issue.shops"): choices["shop"]}


def draw_form(visit: Visit, view: IssueView, problem: Html | str | None = None) -> PageContent:
    """Return the form. After an invalid entry, the form shows the values that the operator entered."""
    t, entered = visit.t, visit.request.form
    groups = {**scope_choices(t, view), t("issue.other"): {"other": t("issue.other_choice")}}
    kinds = {"": {"shop": t("scope.shop"), "franchise": t("scope.franchise")}}
    chosen = entered.get("scope", visit.query.get("scope", ""))
    # The label is checked first, then the scope.
    at_scope = problem if entered.get("label", "").strip() and not chosen else None
    limits: dict[str, int | bool] = {name: name in entered for name in ("personal_data", "messaging_lookup")}
    limits |= {name: number_in(entered.get(name, ""), getattr(view, name)) for name in ("per_min", "per_day")}
    main = display.template(
        "issue",
        t,
        problem=notice(problem, "bad") if problem and not at_scope else None,
        token=token_field(visit),
        entered={"label": entered.get("label"), "other_id": entered.get("other_id")},
        longest=MAX_LABEL_LENGTH,
        scope=select(t("scope"), "scope", groups, chosen, hint=t("issue.scope_hint"), problem=at_scope),
        is_other=entered.get("scope") == "other",
        other_kind=select(t("issue.other_kind"), "other_kind", kinds, entered.get("other_kind", "shop")),
        limits=display.template("limits", t, most=MAX_LIMIT, **limits),
    )
    return PageContent(
        title=t("issue.title"),
        main=main,
        commands=["counterfoil keys issue --franchise ID --label TEXT"],
        command_text=t("issue.command"),
    )


def draw_issued(visit: Visit, issued: Issued, old: Key | None, *, is_loaded: bool) -> PageContent:
    """Return the page. The console does not keep the key, and a script removes it when the operator leaves the page."""
    t, key = visit.t, issued.key
    notices = [] if is_loaded else [notice(t("revealed.not_loaded", scope=display.name_of(key.scope.id)), "warn")]
    if old and old.revokes_at is not None:
        span = t.message(duration(old.revokes_at - visit.now))
        notices.append(notice(t("revealed.old_ends", key_id=old.key_id, span=span)))
    elif old:
        notices.append(notice(t("revealed.old_keeps", key_id=old.key_id)))
    base = visit.settings.api_url.rstrip("/") or example_base_url(visit.settings.prefix)
    # The first command reads the key from the terminal, so the second one must not be pasted with it.
    commands = {
        "save-key": "install -m 600 /dev/stdin counterfoil-key",
        "first-call": f'curl -s -H "Authorization: Bearer $(cat counterfoil-key)" {base}/shops',
    }
    main = display.template(
        "issued",
        t,
        once=notice(t("revealed.once"), "warn"),
        issued=issued,
        notices=notices,
        facts=display.fields([(t("key"), display.key_link(key.key_id, key.label)), *key_parts.key_facts(visit, key)]),
        commands=[display.template("copied", t, id_=name, text=text) for name, text in commands.items()],
        placeholder=None if visit.settings.api_url else element("p", t("revealed.placeholder"), class_="muted"),
        page=f"/keys/{key.key_id}",
    )
    return PageContent(title=t("revealed.title"), main=main)


ISSUE = ConsolePage(name="keys", role="operator", read=read_scopes, draw=draw_form)
