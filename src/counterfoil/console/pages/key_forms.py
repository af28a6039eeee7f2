"""The forms on a key's page: change, rotate, revoke."""

from datetime import datetime
from typing import Final

from counterfoil.console.display import ago, number, section
from counterfoil.console.forms import FormChoice, checkbox, form, number_field, select, text_field
from counterfoil.console.visit import Visit
from counterfoil.domain.access import Key
from counterfoil.domain.calendar import DAY_MS, HOUR_MS
from counterfoil.domain.credentials import ID_LENGTH
from counterfoil.key_issuing import MAX_LABEL_LENGTH, MAX_LIMIT
from counterfoil.web.html import Html, element, markup

# How long the old key can stay valid after a rotation, in milliseconds. None means until it is revoked.
OVERLAPS: Final[dict[str, int | None]] = {
    "keep": None,
    "1h": HOUR_MS,
    "1d": DAY_MS,
    "7d": 7 * DAY_MS,
    "30d": 30 * DAY_MS,
}


def key_version(key: Key, successors: list[str]) -> str:
    """Return the values of a key as one string. A form sends it back, so that changes made meanwhile are noticed."""
    values = (key.label, key.per_min, key.per_day, key.personal_data, key.messaging_lookup)
    return "|".join(map(str, (*values, key.revokes_at, key.revoked_at, len(successors))))


def all_forms(visit: Visit, key: Key, successors: list[str], today: int, last_used: datetime | None) -> Html:
    t, path = visit.t, f"/keys/{key.key_id}"
    based_on = element("input", type="hidden", name="version", value=key_version(key, successors))
    known = element("input", type="hidden", name="successors", value=" ".join(successors))
    overlaps = {"": [FormChoice(name, t(f"rotate.{name}")) for name in OVERLAPS]}
    return section(
        t("key.actions"),
        element(
            "details",
            element("summary", t("change.title")),
            form(
                visit,
                f"{path}/change",
                based_on,
                text_field(t("key.label"), "label", key.label, maxlength=MAX_LABEL_LENGTH),
                element(
                    "div",
                    number_field(t("key.per_min"), "per_min", key.per_min, MAX_LIMIT),
                    number_field(t("key.per_day"), "per_day", key.per_day, MAX_LIMIT),
                    class_="pair",
                ),
                checkbox(t("issue.personal_data"), "personal_data", checked=key.personal_data),
                checkbox(t("issue.messaging_lookup"), "messaging_lookup", checked=key.messaging_lookup),
                button=t("change.button"),
                id_="change",
            ),
        ),
        element(
            "details",
            element("summary", t("rotate.title")),
            form(
                visit,
                f"{path}/rotate",
                based_on,
                known,
                element("p", t("rotate.text")),
                select(t("rotate.overlap"), "overlap", overlaps, "7d"),
                button=t("rotate.button"),
                id_="rotate",
            ),
        ),
        element(
            "details",
            element("summary", t("revoke.title")),
            form(
                visit,
                f"{path}/revoke",
                element(
                    "p",
                    markup(
                        t("revoke.text", today=number(today)),
                        " ",
                        t("keys.last_used"),
                        ": ",
                        ago(t, last_used, visit.now),
                    ),
                ),
                text_field(
                    t("revoke.confirm", key_id=key.key_id),
                    "confirm",
                    required=True,
                    maxlength=ID_LENGTH,
                    pattern=key.key_id,
                    title=t("revoke.pattern", key_id=key.key_id),
                    spellcheck="false",
                ),
                button=t("revoke.button"),
                is_dangerous=True,
                id_="revoke",
            ),
        ),
        anchor="actions",
    )
