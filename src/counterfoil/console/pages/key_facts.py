"""Data and labels that the pages about keys share, such as the state, the permissions and the usage of a key."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Final

from msgspec import Struct

from counterfoil.console.display import badge, key_link, name_of, utc_time
from counterfoil.console.texts import Texts
from counterfoil.domain.access import Key, KeyUse, KeyWarning, permissions
from counterfoil.operator_reads import DayOfKey
from counterfoil.web.html import Html, element, markup

WARNINGS: Final = tuple(warning.value for warning in KeyWarning)


class KeyView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A key in the console's JSON responses. Except for the scope, it has the fields of `keys list --json`."""

    key_id: str
    label: str
    scope_kind: str
    scope_id: str
    permissions: list[str]
    per_min: int
    per_day: int
    created_at: datetime | None
    revoked: bool
    revoked_at: datetime | None
    revokes_at: datetime | None
    successor_of: str | None


def key_view(key: Key, now: int) -> KeyView:
    is_revoked = key.is_revoked(now)
    revoked_at = key.revokes_at if is_revoked and key.revoked_at is None else key.revoked_at
    return KeyView(
        key_id=key.key_id,
        label=key.label,
        scope_kind=key.scope.kind,
        scope_id=key.scope.id,
        permissions=permissions(key),
        per_min=key.per_min,
        per_day=key.per_day,
        created_at=utc_time(key.created_at),
        revoked=is_revoked,
        revoked_at=utc_time(revoked_at),
        revokes_at=None if is_revoked else utc_time(key.revokes_at),
        successor_of=key.successor_of,
    )


class WeekOfKey(Struct, frozen=True, kw_only=True):
    """A key's usage. `week` is the number of requests on each of the last 7 days, oldest first."""

    use: KeyUse
    week: list[int]
    errors: int


def week_of(
    key: Key,
    days: Iterable[DayOfKey],
    span: list[date],
    last_used: Mapping[str, int],
    last_disclosed: Mapping[str, int],
) -> WeekOfKey:
    of_key = {one.day: one for one in days if one.key_id == key.key_id}
    week = [of_key[day].requests if day in of_key else 0 for day in span]
    use = KeyUse(
        last_used=last_used.get(key.key_id), last_disclosed=last_disclosed.get(key.key_id), requests_today=week[-1]
    )
    return WeekOfKey(use=use, week=week, errors=sum(one.errors for one in of_key.values()))


def state_badge(t: Texts, key: Key, now: int) -> Html:
    if key.is_revoked(now):
        return badge(t("key.revoked"), "bad")
    return badge(t("key.ends"), "warn") if key.revokes_at is not None else badge(t("key.active"))


def permission_names(t: Texts, key: Key) -> str:
    return ", ".join(t(f"permission.{name}") for name in permissions(key)) or t("permission.none")


def key_name(t: Texts, key: Key) -> Html:
    """Return the label of a key, followed by a link with its ID."""
    label = name_of(key.label) if key.label else t("key.no_label")
    return markup(element("span", label, class_="label"), " ", key_link(key.key_id))
