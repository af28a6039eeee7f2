"""Issuing a key: the form, in which the operator chooses its scope, and the page that shows the new key once."""

from msgspec import Struct

from counterfoil.console.display import duration, fields, key_link, name_of
from counterfoil.console.forms import FormChoice, checkbox, form, number_field, select, text_field
from counterfoil.console.key_parts import ScopeNames, franchise_text, permission_names, scope_label, scope_names
from counterfoil.console.layout import notice
from counterfoil.console.visit import ConsolePage, PageContent, Visit
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, Key
from counterfoil.http.reference import example_base_url
from counterfoil.key_issuing import MAX_LABEL_LENGTH, MAX_LIMIT, Issued
from counterfoil.web.html import Html, element, markup


class ScopeChoice(Struct, frozen=True, rename="camel"):
    """A shop or a franchise that a key can be issued for.

    `shops` is the number of shops of a franchise, and `shop_names` has their names. A franchise has no name, so its
    `name` is its ID.
    """

    kind: str
    id: str
    name: str
    shops: int = 1
    shop_names: list[str] = []

    @property
    def value(self) -> str:
        return f"{self.kind}:{self.id}"


class IssueView(Struct, frozen=True, kw_only=True, rename="camel"):
    scopes: list[ScopeChoice]
    per_min: int = DEFAULT_PER_MIN
    per_day: int = DEFAULT_PER_DAY


def read(visit: Visit) -> IssueView:
    shops = visit.store.shop_names()
    return IssueView(
        scopes=[
            *(
                ScopeChoice("franchise", franchise, franchise, len(names), names)
                for franchise, names in ScopeNames(shops).franchises()
            ),
            *(ScopeChoice("shop", shop.shop_id, name_of(shop.shop_name)) for shop in shops),
        ]
    )


def draw(visit: Visit, view: IssueView, problem: Html | str | None = None) -> PageContent:
    """Return the form. After an invalid entry, the form shows the values that the operator entered."""
    t, entered = visit.t, visit.request.form
    groups = {
        "": [FormChoice("", t("issue.choose"))],
        t("issue.franchises"): [
            FormChoice(scope.value, franchise_text(t, scope.id, scope.shop_names))
            for scope in view.scopes
            if scope.kind == "franchise"
        ],
        t("issue.shops"): [
            FormChoice(scope.value, f"{scope.name} ({scope.id})") for scope in view.scopes if scope.kind == "shop"
        ],
        t("issue.other"): [FormChoice("other", t("issue.other_choice"))],
    }
    kinds = {"": [FormChoice("shop", t("scope.shop")), FormChoice("franchise", t("scope.franchise"))]}
    other = element(
        "details",
        element("summary", t("issue.other_title")),
        select(t("issue.other_kind"), "other_kind", kinds, entered.get("other_kind", "shop")),
        text_field(t("issue.other_id"), "other_id", entered.get("other_id", ""), hint=t("issue.other_hint")),
        open=entered.get("scope") == "other",
    )
    return PageContent(
        title=t("issue.title"),
        main=markup(
            notice(problem, "bad") if problem else None,
            form(
                visit,
                "/keys/new",
                text_field(
                    t("key.label"),
                    "label",
                    entered.get("label", ""),
                    hint=t("issue.label_hint"),
                    maxlength=MAX_LABEL_LENGTH,
                    required=True,
                ),
                select(
                    t("scope"),
                    "scope",
                    groups,
                    entered.get("scope", visit.query.get("scope", "")),
                    hint=t("issue.scope_hint"),
                ),
                other,
                element(
                    "div",
                    number_field(t("key.per_min"), "per_min", _number(entered.get("per_min"), view.per_min), MAX_LIMIT),
                    number_field(t("key.per_day"), "per_day", _number(entered.get("per_day"), view.per_day), MAX_LIMIT),
                    class_="pair",
                ),
                checkbox(t("issue.personal_data"), "personal_data", checked="personal_data" in entered),
                checkbox(t("issue.messaging_lookup"), "messaging_lookup", checked="messaging_lookup" in entered),
                button=t("issue.button"),
                id_="issue",
            ),
        ),
        command="counterfoil keys issue --franchise ID --label TEXT",
        command_text=t("issue.command"),
    )


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 12 else default


# --- the new key ---------------------------------------------------------------------


def draw_issued(visit: Visit, issued: Issued, old: Key | None, *, is_loaded: bool) -> PageContent:
    """Return the page. The console does not keep the key, and a script removes it when the operator leaves the page."""
    t, key = visit.t, issued.key
    return PageContent(
        title=t("revealed.title"),
        main=markup(
            notice(t("revealed.once"), "warn"),
            element("p", element("code", issued.text, id="revealed", class_="secret"), class_="reveal"),
            element(
                "p",
                element(
                    "button", t("revealed.copy"), type="button", data_done=t("revealed.copied"), id="copy", hidden=True
                ),
                " ",
                element("span", role="status", id="copy-status", class_="muted"),
                class_="buttons",
            ),
            None if is_loaded else notice(t("revealed.not_loaded", scope=name_of(key.scope.id)), "warn"),
            _old_key(visit, old) if old else None,
            fields(
                [
                    (t("key.id"), key_link(key.key_id, key.label)),
                    (t("scope"), scope_label(t, scope_names(visit), key.scope)),
                    (t("key.limits"), t("key.limits_value", per_min=f"{key.per_min:,}", per_day=f"{key.per_day:,}")),
                    (t("key.permissions"), permission_names(t, key)),
                ]
            ),
            element("h2", t("revealed.next")),
            element("p", t("revealed.next_text")),
            element("pre", _first_call(visit), class_="code"),
            None if visit.settings.api_url else element("p", t("revealed.placeholder"), class_="muted"),
            element(
                "p", element("a", t("revealed.done"), href=f"/keys/{key.key_id}", class_="button"), class_="buttons"
            ),
        ),
        command=None,
    )


def _old_key(visit: Visit, old: Key) -> Html:
    t = visit.t
    if old.revokes_at is None:
        text = t("revealed.old_keeps", key_id=old.key_id)
    else:
        text = t("revealed.old_ends", key_id=old.key_id, span=duration(t, old.revokes_at - visit.now))
    return notice(text)


def _first_call(visit: Visit) -> str:
    base = visit.settings.api_url.rstrip("/") or example_base_url(visit.settings.prefix)
    save = "install -m 600 /dev/stdin counterfoil-key"
    return f'{save}\ncurl -s -H "Authorization: Bearer $(cat counterfoil-key)" {base}/shops'


PAGE = ConsolePage(name="keys", read=read, draw=draw)
