"""The page that shows a new key once."""

from counterfoil.console.display import duration, fields, key_link, name_of
from counterfoil.console.layout import notice
from counterfoil.console.pages.key_facts import permission_names
from counterfoil.console.pages.scopes import scope_label, scope_names
from counterfoil.console.visit import PageContent, Visit
from counterfoil.domain.access import Key
from counterfoil.http.reference import example_base_url
from counterfoil.key_issuing import Issued
from counterfoil.web.html import Html, element, markup


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
