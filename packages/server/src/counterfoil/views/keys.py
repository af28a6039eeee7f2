"""Keys: what each may read, its usage in the last 7 days, its errors, and the state of its copy."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TypeVar

from msgspec.structs import asdict

from counterfoil.domain.access import Key, KeyUse, key_warnings, permissions
from counterfoil.domain.problems import what_to_do
from counterfoil.model.calendar import days_until, thai_day
from counterfoil.model.text import translatable
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.columns import DATA, ListColumn
from counterfoil.program.times import minute
from counterfoil.request_reads import DayOfKey, ErrorGroup
from counterfoil.views.copies import CopyRow, CopySummary, LoadedShops, copy_rows, summary

WEEK = 7
AnyKey = TypeVar("AnyKey", bound=Key)


def state(key: Key, now: int) -> str:
    if key.is_revoked(now):
        return "revoked"
    return "active" if key.revokes_at is None else f"active until {minute(key.revokes_at)}"


def revoked_at(key: Key, now: int) -> int | None:
    """Return when a key was revoked, or None if it has not been. It may have been revoked at a scheduled time."""
    return key.revokes_at if key.is_revoked(now) and key.revoked_at is None else key.revoked_at


def columns(now: int, last_used: Mapping[str, int] | None = None) -> Sequence[ListColumn[AnyKey]]:
    """Return the columns. `last_used` is when each key was last used, if that was read."""
    used: tuple[ListColumn[AnyKey], ...] = ()
    if last_used is not None:
        used = (ListColumn("lastUsed", lambda key: last_used.get(key.key_id), "time", terminal="last used"),)
    return (
        ListColumn("keyId", terminal="key ID"),
        ListColumn("label", terminal="label", text=lambda key: key.label),
        ListColumn(
            "scope", terminal="scope", text=lambda key: f"{key.scope.kind} {key.scope.id}", without=("console", "csv")
        ),
        ListColumn("scopeKind", lambda key: key.scope.kind, without=("json",)),
        ListColumn("scopeId", lambda key: key.scope.id, without=("json",)),
        ListColumn("permissions", permissions, terminal="permissions", text=permission_names),
        ListColumn("perMin", kind="number", terminal="/min"),
        ListColumn("perDay", kind="number", terminal="/day"),
        ListColumn("createdAt", kind="time", terminal="issued"),
        *used,
        ListColumn("revoked", lambda key: key.is_revoked(now)),
        ListColumn("revokedAt", lambda key: revoked_at(key, now), "time"),
        ListColumn("revokesAt", lambda key: None if key.is_revoked(now) else key.revokes_at, "time"),
        ListColumn("state", lambda key: state(key, now), "code", terminal="state", without=DATA),
        ListColumn("successorOf"),
    )


def labels_of(keys: Iterable[Key]) -> dict[str, str]:
    return {key.key_id: key.label for key in keys}


def permission_names(key: Key) -> str:
    return ", ".join(permissions(key)) or "none"


class UsedKey(Key, frozen=True, kw_only=True):
    """A key with its usage, warnings and copy. `week` has the requests of the last 7 days, oldest first."""

    last_used: int | None
    week: list[int]
    errors: int
    warnings: list[str]
    copy: CopySummary


def used_keys(reads: OperatorReads, shops: LoadedShops, now: int) -> list[UsedKey]:
    span = days_until(thai_day(now), WEEK)
    days = reads.days(span[0], span[-1])
    copies = reads.copies()
    last_used = reads.last_used()
    last_disclosed = reads.last_disclosed()
    loaded = shops() if copies else None
    found = []
    for key in reads.keys():  # noqa: SIM118 - not a dictionary
        of_key = {day.day: day for day in days if day.key_id == key.key_id}
        requests = {day: of_day.requests for day, of_day in of_key.items()}
        week = [requests.get(day, 0) for day in span]
        use = KeyUse(
            last_used=last_used.get(key.key_id), last_disclosed=last_disclosed.get(key.key_id), requests_today=week[-1]
        )
        rows: list[CopyRow] = []
        # A revoked key cannot read anything, so the state of its copy does not matter.
        if key.lineage in copies and not key.is_revoked(now):
            rows = copy_rows(key, copies[key.lineage], loaded, now)
        found.append(
            UsedKey(
                **asdict(key),
                last_used=use.last_used,
                week=week,
                errors=sum(day.errors for day in of_key.values()),
                warnings=[warning.value for warning in key_warnings(key, use, now)],
                copy=summary(rows),
            )
        )
    return found


# The columns of a key's usage.
USAGE: Sequence[ListColumn[UsedKey]] = (
    ListColumn("keyId", lambda used: used.key_id, kind="key", page=translatable("Key"), without=DATA),
    ListColumn("scope", lambda used: used.scope.id, page=translatable("Scope"), without=DATA),
    ListColumn("copy", page=translatable("Copy"), without=("csv",)),
    ListColumn("lastUsed", kind="time", page=translatable("Last used")),
    ListColumn("week", without=("csv",)),
    ListColumn("requestsToday", lambda used: used.week[-1], without=("json", "console")),
    ListColumn(
        "requests",
        lambda used: sum(used.week),
        kind="number",
        page=translatable("Last 7 days"),
        other_names={"csv": "requests_7_days"},
        without=("json", "console"),
    ),
    ListColumn("errors", kind="number", page=translatable("Errors"), other_names={"csv": "errors_7_days"}),
    ListColumn("quota", lambda used: used.per_day, kind="number", page=translatable("Today / quota"), without=DATA),
    ListColumn("warnings"),
    ListColumn("copy", lambda used: used.copy.state, without=("json", "console")),
)


def key_days(reads: OperatorReads, key_id: str, days: Sequence[date]) -> list[DayOfKey]:
    """Return one element for each of `days`, including days on which the key made no requests."""
    by_day = {day.day: day for day in reads.days(days[0], days[-1], key_id)}
    return [by_day.get(day) or DayOfKey(key_id=key_id, day=day) for day in days]


# The errors of a key by route, with what an integrator should do.
ERRORS: Sequence[ListColumn[ErrorGroup]] = (
    ListColumn("error", terminal="error", page=translatable("Error")),
    ListColumn("route", kind="code", terminal="route", page=translatable("Route")),
    ListColumn("count", kind="number", terminal="count", page=translatable("Count")),
    ListColumn("lastAt", kind="time", terminal="last", page=translatable("Latest")),
    ListColumn(
        "action", lambda group: str(what_to_do(group.error)), page=translatable("What the integrator should do")
    ),
)
